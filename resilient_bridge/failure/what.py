"""The one matcher of failures: what a rule, a retry, a circuit or a registered verdict applies to.

Rule: a `What` is written once and means the same everywhere; the more particular it is, the lower
its rank. A class of another package is compared by name and never imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from enum import Enum
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Final, Literal, TypeAlias, cast

import attrs

from .exceptions import ConfigError, config_error, error_class
from .failure import Failure, changed, number_in
from .record import note_once
from .redaction import class_name, package_of, text_of
from .teaching import NoFunction, taught
from .vocabulary import PREFIXES, Category, Kind, is_known_code, near_code


@attrs.frozen(repr=False)
class Named:
    """The classes of this name in this package; made by `named`."""

    package: str
    name: str

    def is_of(self, cls: type[Any]) -> bool:
        """Return whether it names this class; its bases are asked one by one."""
        return cls.__name__ == self.name and package_of(cls) == self.package

    def __repr__(self) -> str:
        """Return the call that makes it."""
        return f"named({self.package!r}, {self.name!r})"


@taught
def named(package: str, name: str, /) -> Named:
    """Return the exception class `name` of a package, for `on=`, `rules=`, `ignore=` and `register`.

        retry = rb.Retry(on=(rb.Kind.TRANSIENT, rb.named("httpx", "ReadTimeout")))

    The package is not imported, and need not be installed. Of the package only its top counts
    ("google" for google.genai). A subclass fits as well, whoever wrote it. Raises ConfigError for
    anything but two names.
    """
    _check("package", package, "the name of a package", "the top package")
    _check("name", name, "the name of a class", "the class alone")
    return Named(package, name)


def _check(field: str, text: Any, wanted: str, part: str) -> None:
    top = text.partition(".")[0] if isinstance(text, str) else ""
    if not top.isidentifier():
        raise config_error(
            f"named({field})", f'{wanted}, as in named("httpx", "ReadTimeout")', text
        )
    if top != text:
        raise config_error(f"named({field})", f"{part}, without a dot", text)


def meant(item: object, beside: object = None, words: Iterable[str] = ()) -> str:
    """Return what to write instead of an unknown name of a failure; empty if nobody can tell.

    `beside`: the collection that it is in. `words`: names besides our codes.
    """
    pair = _as_pair(item) or _as_pair(beside)
    if pair is not None:
        return (
            f"the name of a failure (a class of another package is named({pair[0]!r}, {pair[1]!r}))"
        )
    if not isinstance(item, str):
        return ""
    near = near_code(item, words)
    if near:
        return f"the name of a failure (did you mean {near}?)"
    own = "a code of this package, or your own after classify.register(…, code=…)"
    return own if item.startswith(tuple(PREFIXES)) else ""


def _as_pair(value: object) -> tuple[str, str] | None:
    """Return the package and class that two texts seem to be; None if they are anything else."""
    if not isinstance(value, tuple) or len(cast("tuple[object, ...]", value)) != 2:
        return None
    package, name = cast("tuple[object, object]", value)
    if not isinstance(package, str) or not isinstance(name, str):
        return None
    looks_so = package.isidentifier() and package.islower() and name.isidentifier()
    return (package, name) if looks_so and name[0].isupper() and name != name.upper() else None


# ---- the vocabulary ---------------------------------------------------------------------------------------

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


def is_name(what: object) -> bool:
    """Return whether it names failures as plain data: a number, a code, a pattern, a class by its name."""
    if isinstance(what, str):
        return not isinstance(what, Enum) and is_known_code(what)
    if isinstance(what, re.Pattern):
        return isinstance(cast("Any", what).pattern, str)
    return isinstance(what, Named) or (isinstance(what, int) and not isinstance(what, bool))


def is_what(what: object) -> bool:
    """Return whether `what` belongs to the vocabulary."""
    if is_name(what) or isinstance(what, Category | Kind):
        return True
    if isinstance(what, str | Named | re.Pattern):
        return False
    if isinstance(what, type):
        return issubclass(what, BaseException)
    if is_tenacity(what, "retry_base"):  # callable, but not with a Failure
        return False
    return is_function(what) and not hasattr(what, "delays")


def is_function(value: object) -> bool:
    """Return whether `value` is something to call: no policy value, and no exception class."""
    if isinstance(value, NoFunction) and type(value).__call__ is NoFunction.__call__:  # pyright: ignore[reportFunctionMemberAccess]
        return False
    # An exception class is callable too, and a mistake here: `on=` is for those.
    return callable(value) and not (isinstance(value, type) and issubclass(value, BaseException))


def is_tenacity(value: object, base: Literal["stop_base", "wait_base", "retry_base"]) -> bool:
    """Return whether `value` is a tenacity object with this base class, by class and package name."""
    return any(
        kind.__name__ == base and package_of(kind) == "tenacity" for kind in type(value).__mro__
    )


def plain(what: Any) -> Any:
    """Return the number behind an IntEnum.

    HTTPStatus.TOO_MANY_REQUESTS is 429, so the repr stays an expression.
    """
    return int(what) if isinstance(what, int) and not isinstance(what, bool) else what


def is_code(text: str) -> bool:
    """Return whether a text is one of our codes, by its prefix."""
    return text.startswith(tuple(PREFIXES))


# ---- conditions: predicates of the user's ------------------------------------------------------------------

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


# ---- matching ---------------------------------------------------------------------------------------------


def matches(these: Iterable[Any], failure: Failure) -> bool:
    """Return whether one of `these` fits `failure`.

    A tenacity object fits none, because it needs tenacity's own state.
    """
    for what in these:  # noqa: SIM110 -- a generator would double the price of a failed attempt's question
        if _fits(what, failure):
            return True
    return False


def _fits(what: Any, failure: Failure) -> bool:
    """Return whether `rank` has an answer; of the most usual ones it is found without ranking."""
    sort = cast("type[object]", type(what))
    if sort is Kind:
        return failure.kind is what
    if sort is Category:
        return failure.category is what
    if sort is str:
        return bool(failure.code == what)
    if sort is type:
        cause = failure.cause
        if cause is not None and _is_below(what, type(cause)):
            return True
        if not issubclass(type(cause), BaseExceptionGroup):
            return _is_below(what, error_class(failure))
    return rank(what, failure) is not None


_is_below: Final[Callable[[type, type], bool]] = (
    type.__subclasscheck__
)  # by bases alone, whatever a metaclass says


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
    if issubclass(type(wrong), ConfigError):
        return False
    note_once(error, f"{what} {class_name(wrong)}: {text_of(wrong)}")
    return True


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


def rank(
    what: Any, failure: Failure | None, classes: Iterable[type[Any]] | None = None
) -> tuple[int, int] | None:
    """Return how closely `what` fits, smaller is closer; None when it does not.

    `classes`: a registered verdict is asked of the error itself. Then its classes count, in place of
    those that the failure stands for, and its own text beside the message. Without a failure an
    answer is asked about, of which nothing but its class is known.
    """
    if isinstance(what, type | Named):
        if classes is None:
            return None if failure is None else _class_rank(what, failure)
        return _nearest(what, [(_CLASS, cls) for cls in classes])
    if failure is None:
        return None
    if isinstance(what, Category):
        tier, fits = _CATEGORY, failure.category is what
    elif isinstance(what, Kind):
        tier, fits = _KIND, failure.kind is what
    elif isinstance(what, str):
        tier, fits = _OUR_CODE, failure.code == what
    elif isinstance(what, int):
        tier, fits = _NUMBER, any(number_in(failure, name) == what for name in _NUMBERS)
    elif isinstance(what, re.Pattern):
        pattern = cast("re.Pattern[str]", what)
        text = "" if classes is None else str(failure.details.get("error", ""))
        tier, fits = _MESSAGE, bool(pattern.search(failure.message) or pattern.search(text))
    elif is_tenacity(what, "retry_base"):
        return None
    else:
        tier, fits = _PREDICATE, ask(what, failure)
    return (tier, 0) if fits else None


def distance(what: type | Named, cls: type[Any]) -> int | None:
    """Return the position of a class among the bases of `cls`, None if it is not one of them."""
    for number, base in enumerate(cls.__mro__):
        if what.is_of(base) if isinstance(what, Named) else base is what:
            return number
    return None


def _class_rank(what: type | Named, failure: Failure) -> tuple[int, int] | None:
    """Look for a class among the classes of the failure.

    A group has a class if it has it itself, or if all of its members have.
    """
    cause: Any = failure.cause
    # not isinstance: it would ask the error for its __class__
    if issubclass(type(cause), BaseExceptionGroup):
        members = [_nearest(what, [(_CLASS, type(leaf))]) for leaf in _leaves(cause)]
        if members and None not in members:
            return max(cast("list[tuple[int, int]]", members))
    found: list[tuple[int, type[BaseException]]] = [] if cause is None else [(_CLASS, type(cause))]
    # The class that we would raise for it counts too, but only as a family: AuthError says less
    # than AUTH_TOKEN_EXPIRED.
    return _nearest(what, [*found, (_BASE_CLASS, error_class(failure))])


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
    what: type | Named, classes: Iterable[tuple[int, type[Any]]]
) -> tuple[int, int] | None:
    """Return how closely a class fits the nearest of some classes, each with its tier."""
    found = [
        (tier if number == 0 else _BASE_CLASS, number)
        for tier, cls in classes
        if (number := distance(what, cls)) is not None
    ]
    if not found:
        return None
    tier, number = min(found)
    return (_ANYTHING if _is_anything(what) else tier), number


def _is_anything(what: type | Named) -> bool:
    if isinstance(what, Named):
        return what.package == "builtins" and what.name in ("Exception", "BaseException")
    return what in (Exception, BaseException)
