"""The vocabulary of failures that a rule, a retry or a circuit applies to.

Rule: a `What` is written once and means the same everywhere; the more particular it is, the lower
its rank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from enum import Enum
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

import attrs

from ..failure import changed, config_error, is_known_code, number_in
from ..failure.class_names import Named, meant
from ..failure.source_text import shown
from ..failure.taxonomy import Category, Kind
from .fields import is_function, is_tenacity, path_of, refuse, wants


if TYPE_CHECKING:
    from ..failure import Failure
    from .fields import Validator


What: TypeAlias = "type[BaseException] | Named | int | str | re.Pattern[str] | Category | Kind | Callable[[Failure], bool]"
"""What failed: an exception class, `named(…)`, an HTTP status, one of our codes, a pattern of the
message, a Category, a Kind, or a function of the Failure.
"""

WANTED: Final = (
    "an exception class, named(package, class name), an int, one of our codes, a compiled pattern, "
    "a Category, a Kind or a predicate"
)
WORDS: Final[dict[str, What]] = {
    "rate_limit": "SYS_RATE_LIMITED",
    "timeout": Category.TIMEOUT,
    "server_error": "SYS_UNAVAILABLE",
    "connection_error": Category.TRANSPORT,
}
"""OpenViber's names of retryable errors, and their meaning here."""
_MOST_LEAVES: Final = 1_000
_NUMBERS: Final = ("http_status", "close_code", "rpc_code")  # for a failure with a number
# From the particular to the general. A number says more than a class (1012 among all closes). A
# user's class says more than our code, its base classes less; the two classes that hold everything
# come last.
_NUMBER, _CLASS, _MESSAGE, _OUR_CODE, _PREDICATE, _BASE_CLASS, _CATEGORY, _KIND, _ANYTHING = range(
    9
)


def as_whats(value: What | Collection[What]) -> tuple[What, ...]:
    """Return one What, or a collection of them, as a tuple; other values unchanged."""
    received: Any = cast("Any", value)
    # a set has no order of its own: equal sets make equal policies
    if isinstance(received, set | frozenset):
        return tuple(
            sorted((_meant(plain(item)) for item in cast("set[Any]", received)), key=shown)
        )
    if isinstance(received, list | tuple):
        return tuple(_meant(plain(item)) for item in cast("list[Any]", received))
    if isinstance(received, str) and received in WORDS:
        return (WORDS[received],)
    one = is_what(value) or is_tenacity(value, "retry_base")
    return (plain(value),) if one else cast("Any", value)


def _meant(what: Any) -> Any:
    return WORDS.get(what, what) if type(what) is str else what


def whats(*, of_tenacity: bool = False) -> Validator:
    """Return a validator for a tuple of What.

    `of_tenacity` lets one of tenacity's `retry=` objects stand for one.
    """

    @wants("failures")
    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        check_whats(path_of(instance, attribute), value, of_tenacity=of_tenacity)

    return check


def check_whats(path: str, value: object, *, of_tenacity: bool = False) -> None:
    """Raise ConfigError for a value that is no tuple of What, with the position of a wrong item."""
    wanted = f"{WANTED} or one of tenacity's retry objects" if of_tenacity else WANTED
    if not isinstance(value, tuple):
        refuse_what(path, value, f"{wanted}, or a collection of those", words=WORDS)
    items = cast("tuple[object, ...]", value)
    for index, item in enumerate(items):
        if not is_what(item) and not (of_tenacity and is_tenacity(item, "retry_base")):
            refuse_what(f"{path}[{index}]", item, wanted, beside=items, words=WORDS)


def refuse_what(
    path: str,
    item: object,
    wanted: str = WANTED,
    *,
    beside: object = None,
    words: Iterable[str] = (),
) -> NoReturn:
    """Raise ConfigError for what is not in the vocabulary, with what may have been meant.

    `beside`: the collection that it is in.
    """
    refuse(path, meant(item, beside, words) or wanted, item)


def is_what(what: object) -> bool:
    """Return whether `what` belongs to the vocabulary."""
    if isinstance(what, str):
        code = not isinstance(what, Enum) and is_known_code(what)
        return code or isinstance(what, Category | Kind)
    if isinstance(what, Named):
        return True
    if isinstance(what, re.Pattern):
        return isinstance(cast("Any", what).pattern, str)
    if isinstance(what, type):
        return issubclass(what, BaseException)
    if is_tenacity(what, "retry_base"):  # callable, but not with a Failure
        return False
    return (is_function(what) and not hasattr(what, "delays")) or (
        isinstance(what, int) and not isinstance(what, bool)
    )


def plain(what: Any) -> Any:
    """Return the number behind an IntEnum.

    HTTPStatus.TOO_MANY_REQUESTS is 429, so the repr stays an expression.
    """
    return int(what) if isinstance(what, int) and not isinstance(what, bool) else what


ANSWERS: Final[ContextVar[Mapping[int, bool | Exception] | None]] = ContextVar(
    "resilient_bridge.answers", default=None
)
"""The answers of conditions that were awaited, by their id, during a decision that asks them again."""


def ask(condition: Any, about: object) -> bool:
    """Return what a condition of the user's says about a failure, a result or tenacity's state.

    Raises ConfigError for a coroutine where it cannot be awaited: a coroutine is true, and would
    allow everything.
    """
    answers = ANSWERS.get()
    if answers is not None and id(condition) in answers:
        answer = answers[id(condition)]
        if isinstance(answer, Exception):  # it raised when it was awaited
            raise answer
        return answer
    result: object = condition(about)
    if not hasattr(type(result), "__await__"):
        return bool(result)
    close = getattr(result, "close", None)
    if callable(close):
        close()  # or Python warns that it was never awaited
    name = getattr(condition, "__qualname__", type(condition).__qualname__)
    raise config_error(
        name, "True or False: a condition is awaited in async calls alone", type(result).__name__
    )


def is_condition(what: object) -> bool:
    """Return whether it is a function or a tenacity object that has to be called for its answer."""
    return callable(what) and not isinstance(what, type)


def is_async(condition: object) -> bool:
    """Return whether calling it gives a coroutine, as far as can be seen without calling it."""
    while isinstance(condition, partial):
        condition = cast("object", condition.func)
    called = getattr(type(condition), "__call__", None)  # noqa: B004 -- of an object whose `__call__` is async
    return iscoroutinefunction(condition) or iscoroutinefunction(called)


def matches(these: Iterable[Any], failure: Failure) -> bool:
    """Return whether one of `these` fits `failure`.

    A tenacity object fits none, because it needs tenacity's own state.
    """
    return any(rank(what, failure) is not None for what in these)


def matches_safely(these: Iterable[Any], failure: Failure) -> bool:
    """Do the same while a caller's error is being raised.

    A condition that raises counts as no, and is noted on that error.

    If a returned value stands for the failure, there is no such error; then the condition's own
    error is raised.
    """
    try:
        return matches(these, failure)
    except Exception as wrong:
        if failure.cause is None or not add_note(
            failure.cause, "a condition of the policy raised", wrong
        ):
            raise
        return False


def add_note(error: BaseException, what: str, wrong: Exception) -> bool:
    """Add a note about another error, once.

    False if that error must be raised: it says that the policy itself is wrong.
    """
    from ..failure import ConfigError, class_name, text_of

    if issubclass(type(wrong), ConfigError):
        return False
    note_once(error, f"{what} {class_name(wrong)}: {text_of(wrong)}")
    return True


def note_once(error: BaseException, note: str) -> bool:
    """Add a note to an error, if it does not have it yet; return whether it was added."""
    with suppress(Exception):  # an exception may refuse notes, or hide those that it has
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
            return True
    return False


def take_back(error: BaseException, note: str) -> None:
    """Remove the note of an earlier call that raised the same object.

    Notes must not pile up on a constant.
    """
    try:
        notes: list[str] = error.__notes__
        if note in notes:
            notes.remove(note)
    except Exception:  # noqa: BLE001 (none yet, or a class that hides them)
        return


def matches_ended(these: Iterable[Any], failure: Failure) -> bool:
    """Return whether one of `these` fits a failure without attempts left.

    One that became permanent that way still fits as transient.
    """
    these = tuple(these)
    if matches_safely(these, failure):
        return True
    was_transient = failure.stopped == "attempts" and failure.retryable
    return was_transient and matches_safely(these, changed(failure, kind=Kind.TRANSIENT))


def names_class(these: Iterable[Any], failure: Failure) -> bool:
    """Return whether one of `these` is an exception class, or its name, that fits `failure`."""
    return any(isinstance(what, type | Named) and rank(what, failure) is not None for what in these)


def rank(what: Any, failure: Failure) -> tuple[int, int] | None:
    """Return how closely `what` fits, smaller is closer; None when it does not."""
    if isinstance(what, type | Named):
        return _class_rank(what, failure)
    if isinstance(what, Category):
        tier, fits = _CATEGORY, failure.category is what
    elif isinstance(what, Kind):
        tier, fits = _KIND, failure.kind is what
    elif isinstance(what, str):
        tier, fits = _OUR_CODE, failure.code == what
    elif isinstance(what, int):
        tier, fits = _NUMBER, any(number_in(failure, name) == what for name in _NUMBERS)
    elif isinstance(what, re.Pattern):
        tier, fits = _MESSAGE, cast("re.Pattern[str]", what).search(failure.message) is not None
    elif is_tenacity(what, "retry_base"):
        return None
    else:
        tier, fits = _PREDICATE, ask(what, failure)
    return (tier, 0) if fits else None


def _class_rank(what: type | Named, failure: Failure) -> tuple[int, int] | None:
    """Look for a class among the classes of the failure.

    It may be a Named, which is not imported.

    A group has a class if it has it itself, or if all of its members have.
    """
    cause: Any = failure.cause
    if issubclass(
        type(cause), BaseExceptionGroup
    ):  # not isinstance: it would ask the error for its __class__
        members = [_nearest(what, [(_CLASS, type(leaf))]) for leaf in _leaves(cause)]
        if members and None not in members:
            return max(cast("list[tuple[int, int]]", members))
    return _nearest(what, _classes(failure))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    pending: list[BaseException] = [group]
    for _ in range(_MOST_LEAVES):
        if not pending:
            return
        error = pending.pop()
        if issubclass(type(error), BaseExceptionGroup):
            with suppress(Exception):  # a class may define properties under these names
                pending.extend(cast("BaseExceptionGroup[BaseException]", error).exceptions)
        elif issubclass(type(error), Exception):  # the cancelled ones say nothing
            yield error


def _nearest(
    what: type | Named, classes: Iterable[tuple[int, type[BaseException]]]
) -> tuple[int, int] | None:
    found = [
        (
            _ANYTHING
            if base in (Exception, BaseException)
            else tier
            if distance == 0
            else _BASE_CLASS,
            distance,
        )
        for tier, kind in classes
        for distance, base in enumerate(kind.__mro__)
        if base is what or (isinstance(what, Named) and what.is_of(base))
    ]
    return min(found, default=None)


def _classes(failure: Failure) -> Iterator[tuple[int, type[BaseException]]]:
    if failure.cause is not None:
        yield _CLASS, type(failure.cause)
    # The class that we would raise for it counts too, but only as a family: AuthError says less
    # than AUTH_TOKEN_EXPIRED.
    from ..failure import error_class

    yield _BASE_CLASS, error_class(failure)


def is_code(text: str) -> bool:
    """Return whether a text is one of our codes, by its prefix."""
    from ..failure import PREFIXES

    return text.startswith(tuple(PREFIXES))
