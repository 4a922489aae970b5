"""Verdicts that users add to the built-in ones: `classify.register`.

Rule: a registered verdict beats a built-in one; the most specific wins, and of two equally specific
ones the later. A registration changes the fields it names and no others.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import Enum
from functools import partial
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeAlias, TypeVar, cast

import attrs

from .dispatch import dispatch
from .exceptions import config_error
from .failure import PLAIN, PLAIN_ANSWERS, Failure, short_of
from .redaction import package_of, text_of
from .rpc import CATEGORY_CODES, is_our_code
from .vocabulary import OWN_CODES, Category, Executed, Kind, code_info, is_known_code, near_code
from .what import Named, distance, is_name, meant, rank


Registered: TypeAlias = "type[Any] | Named | int | str | re.Pattern[str]"
Answer: TypeAlias = "Callable[[Any], Mapping[str, Any] | None]"
"""Reads an error or an answer: the fields of its failure that it knows, or None to leave it to others."""

_WANTED: Final = (
    'an exception class, named("package", "Class"), an int, one of our codes or a compiled pattern'
)
_KIND_CODES: Final = {
    Kind.TRANSIENT: "SYS_UNAVAILABLE",
    Kind.PERMANENT: "SYS_UPSTREAM_REJECTED",
    Kind.CORRUPTION: "PROTO_INVALID_MESSAGE",
    Kind.PARTIAL: "SYS_UPSTREAM_REJECTED",
}

_SHOWN: Final = 40  # characters of a field's name
_STREAMS: Final = frozenset({"httpx", "httpx2"})
_MISSPELT: Final = 0.9  # how alike a code of the user's and one of ours may not be
_ENDLESS: Final = 1e11  # seconds: three thousand years
E = TypeVar("E", bound=Enum)
_numbers = itertools.count()
_LOG: Final = logging.getLogger("resilient_bridge")
_LOGGED: Final = set[int]()
"""The registrations whose functions have returned something that is not read, which is logged once."""


@attrs.frozen(eq=False)
class InForce:
    """A registration, in force until `unregister()` or the end of a `with` block.

    Both may be called again.
    """

    # One table per class of registration. Single dict operations are atomic, so threads need no lock.
    in_force: ClassVar[dict[int, Any]]
    number: int = attrs.field(factory=lambda: next(_numbers), init=False, repr=False)

    def unregister(self) -> None:
        """Remove it; failures that it has changed stay changed."""
        self.in_force.pop(self.number, None)
        _LOGGED.discard(self.number)

    def __enter__(self) -> Self:
        """Return the registration, which is in force already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove it."""
        self.unregister()


@attrs.frozen(eq=False)
class Registration(InForce):
    """One registered verdict."""

    in_force: ClassVar[dict[int, Registration]] = {}
    what: Registered
    kind: Kind | None
    category: Category | None
    code: str | None
    executed: Executed | None
    suggestions: tuple[str, ...]
    answer: Answer | None = None
    retry_after: float | None = None
    message: str = ""

    def changed(self, failure: Failure, *, known: bool) -> Failure:
        """Return the failure with the fields that this verdict sets."""
        code = self.code or (None if known else self._own_code())
        if self.retry_after is not None or self.message:
            failure = attrs.evolve(
                failure,
                retry_after=failure.retry_after if self.retry_after is None else self.retry_after,
                message=self.message or failure.message,
            )
        fields: dict[str, Any] = {
            name: value
            for name, value in (
                ("kind", self.kind),
                ("category", self.category),
                ("executed", self.executed),
            )
            if value is not None
        }
        if self.executed is not None:
            fields["proof"] = "stated" if self.executed is Executed.NO else ""
        if self.kind is not None:
            fields["retryable"] = self.kind is Kind.TRANSIENT
        if self.suggestions:
            fields["suggestions"] = self.suggestions
        if code is None:
            return attrs.evolve(failure, **fields)
        cause = failure.cause
        message = code_info(code).summary + short_of("" if cause is None else text_of(cause))
        if self.message or cause is None:
            message = failure.message
        fields["retry_after"] = failure.retry_after
        if self.executed is None:
            fields["executed"], fields["proof"] = failure.executed, failure.proof
        return Failure.of(
            code,
            message,
            **fields,
            details=failure.details,
            cause=cause,
            history=failure.history,
            stopped=failure.stopped,
        )

    def _own_code(self) -> str | None:
        """Return the code for an error without a built-in rule."""
        if self.category is not None and (
            self.kind is None or self.category is not Category.UPSTREAM
        ):
            return CATEGORY_CODES[self.category]
        return None if self.kind is None else _KIND_CODES[self.kind]


def register(  # noqa: PLR0917 -- the fields of `classify.register`, in its order
    what: Registered,
    kind: Kind | None,
    category: Category | None,
    code: str | None,
    executed: Executed | None,
    suggestions: Iterable[str],
    answer: Answer | None,
) -> Registration:
    """Register a verdict; see `classify.register`."""
    if not _is_registrable(what, of_answers=answer is not None):
        raise config_error("classify.register.what", meant(what) or _WANTED, what)
    if answer is not None and (not callable(cast("object", answer)) or iscoroutinefunction(answer)):
        raise config_error(
            "classify.register.answer", "a plain function of the error or answer", answer
        )
    _check("kind", kind, Kind)
    _check("category", category, Category)
    _check("executed", executed, Executed)
    if code is not None and not is_our_code(code):
        wanted = "one of our codes, or your own under one of their prefixes"
        raise config_error("classify.register.code", wanted, code)
    if code is not None and not is_known_code(code):
        if near := near_code(code, cutoff=_MISSPELT):
            raise config_error(
                "classify.register.code",
                f"a code that is not nearly one of ours (did you mean {near}?)",
                code,
            )
        OWN_CODES.add(code)
    lines = _lines(suggestions)
    if not lines and all(value is None for value in (kind, category, code, executed, answer)):
        raise config_error(
            "classify.register",
            "at least one of kind, category, code, executed, suggestions, answer",
            None,
        )
    registration = Registration(what, kind, category, code, executed, lines, answer)
    Registration.in_force[registration.number] = registration
    if answer is not None and isinstance(what, type | Named):
        for plain in (PLAIN, PLAIN_ANSWERS):
            plain.difference_update([cls for cls in list(plain) if distance(what, cls) is not None])
    return registration


def _check(name: str, value: object, wanted: type[Enum]) -> None:
    if value is not None and not isinstance(value, wanted):
        raise config_error(f"classify.register.{name}", f"a {wanted.__name__}", value)


def _lines(suggestions: object) -> tuple[str, ...]:
    received = suggestions
    value = cast("Iterable[object]", suggestions) if isinstance(suggestions, Iterable) else None
    if value is None or isinstance(received, str):
        raise config_error("classify.register.suggestions", "a collection of texts", received)
    lines = tuple(value)
    for line in lines:
        if not isinstance(line, str) or not line.strip():
            raise config_error("classify.register.suggestions", "texts that are not empty", line)
    return cast("tuple[str, ...]", lines)


def applied(failure: Failure, *subjects: object, known: bool = True) -> Failure:
    """Return the failure changed by the best matching registration.

    It is unchanged if none matches.

    `subjects`: the error and the errors below it, or the response.
    """
    if not Registration.in_force:
        return failure
    for registration in _fitting(failure, subjects):
        spoken = registration if registration.answer is None else _read(registration, subjects)
        if spoken is not None:
            return spoken.changed(failure, known=known)
    return failure


def taught(answer: object) -> Failure | None:
    """Return the failure that a registered function finds in a response that looks successful.

    None if none does.
    """
    for registration in _fitting(None, (answer,)) if Registration.in_force else ():
        spoken = None if registration.answer is None else _read(registration, (answer,))
        if spoken is not None:
            return spoken.changed(
                Failure.of("SYS_UPSTREAM_REJECTED", executed=Executed.MAYBE), known=False
            )
    return None


def is_taught(cls: type[Any]) -> bool:
    """Return whether a registered function reads instances of a class."""
    return any(
        registration.answer is not None
        and isinstance(registration.what, type | Named)
        and distance(registration.what, cls) is not None
        for registration in list(Registration.in_force.values())
    )


def _fitting(failure: Failure | None, subjects: tuple[object, ...]) -> list[Registration]:
    """Return the registrations that match, the most specific first.

    Of two equal ones the later comes first.
    """
    classes = [_class_of(subject) for subject in subjects]
    ranked = [
        (found, number, registration)
        for number, registration in enumerate(reversed(list(Registration.in_force.values())))
        if (found := rank(registration.what, failure, classes)) is not None
    ]
    return [registration for _, _, registration in sorted(ranked, key=lambda one: one[:2])]


def _read(registration: Registration, subjects: tuple[object, ...]) -> Registration | None:
    """Call the user's function and return its answer as a verdict.

    Errors and invalid fields are ignored; the first invalid field or answer is logged.
    """
    for subject in subjects:
        what = registration.what
        if subject is None or (
            isinstance(what, type | Named) and distance(what, _class_of(subject)) is None
        ):
            continue
        try:
            answer = cast("Answer", registration.answer)(readable(subject))
        except Exception:  # noqa: BLE001 (the body is not what it expects; other verdicts apply)
            return None
        _log_unread(registration, answer)
        return _spoken(registration, answer) if isinstance(answer, Mapping) else None
    return None


def _log_unread(registration: Registration, answer: object) -> None:
    """Log once what is wrong with the answer of a user's function: the field, never its value."""
    if answer is None or registration.number in _LOGGED:
        return
    if not isinstance(answer, Mapping):
        wrong = f"it returned a {type(answer).__name__}"
    else:
        fields = cast("Mapping[object, object]", answer)
        unread = [
            name
            for name, value in fields.items()
            if value is not None and (name not in _FIELDS or _FIELDS[name](value) is None)
        ]
        if not unread:
            return
        wrong = f"it returned a dict whose {str(unread[0])[:_SHOWN]!r} is not read"
    _LOGGED.add(registration.number)
    function = getattr(registration.answer, "__qualname__", type(registration.answer).__name__)
    _LOG.warning(
        "classify.register.answer: %s must return a dict with some of %s (retry_after in seconds, suggestions as"
        " texts, a code of ours or under one of our prefixes), or None; %s",
        function,
        ", ".join(map(str, _FIELDS)),
        wrong,
    )


def _spoken(registration: Registration, answer: Mapping[str, Any]) -> Registration:
    read = {name: reader(answer.get(cast("str", name))) for name, reader in _FIELDS.items()}
    lines = read["suggestions"] if "suggestions" in answer else registration.suggestions
    return attrs.evolve(
        registration,
        code=read["code"] or registration.code,
        kind=read["kind"] or registration.kind,
        category=read["category"] or registration.category,
        executed=read["executed"] or registration.executed,
        suggestions=lines or (),
        answer=None,
        retry_after=read["retry_after"],
        message=read["message"] or "",
    )


def _member(kind: type[E], value: object) -> E | None:
    return next((member for member in kind if value in (member, member.value)), None)


def seconds_in(value: object) -> float | None:
    """Return a wait in seconds from a number or a timedelta, None for anything else."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _ENDLESS else None


def _lines_in(value: object) -> tuple[str, ...] | None:
    """Return the texts of a list or tuple, None for anything else."""
    if not isinstance(value, tuple | list) or not all(
        isinstance(line, str) for line in cast("Any", value)
    ):
        return None
    return tuple(cast("Any", value))


_FIELDS: Final[Mapping[object, Callable[[object], Any]]] = {
    "code": lambda value: value if is_our_code(value) else None,
    "kind": partial(_member, Kind),
    "category": partial(_member, Category),
    "executed": partial(_member, Executed),
    "retry_after": seconds_in,
    "message": lambda value: value if isinstance(value, str) else None,
    "suggestions": _lines_in,
}
"""The fields of a user's answer, and what reads each: None for a value that says nothing."""


def readable(answer: object) -> object:
    """Return a response with a readable body.

    For a stream it is the part that HTTPTransport has read.
    """
    extensions: object = getattr(answer, "extensions", None)
    body = cast("Any", extensions).get("rb.body") if isinstance(extensions, dict) else None
    if not isinstance(body, bytes) or package_of(type(answer)) not in _STREAMS:
        return answer
    response = cast("Any", answer)
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in {"content-encoding", "content-length", "transfer-encoding"}
    ]
    return type(response)(response.status_code, headers=headers, content=body)


def _class_of(subject: object) -> type[Any]:
    """Return the class of an error or response; for our view of a response, that of the response."""
    is_view = (
        type(subject).__name__ == "AnswerView" and package_of(type(subject)) == "resilient_bridge"
    )
    native: object = cast("Any", subject).native if is_view else subject
    return type(native)


def _is_registrable(what: object, *, of_answers: bool) -> bool:
    """Return whether a verdict can be registered for it: `of_answers`, for any class."""
    if not isinstance(what, type):
        return is_name(what)
    if not issubclass(what, BaseException):
        return of_answers and what is not object
    return not dispatch(what).stops
