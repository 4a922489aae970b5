"""Verdicts that users add to ours: `classify.register`.

Rule: what is registered beats what is built in; the most specific wins, and of two alike the later one. A registration changes
the fields it names and leaves the rest as it was found.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from enum import Enum
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeAlias, cast

import attrs

from ..errors import (
    CATEGORY_CODES,
    Category,
    Executed,
    Failure,
    Kind,
    code_info,
    config_error,
    is_our_code,
    text_of,
)
from .dispatch import dispatch, package_of
from .finding import short_of


Registered: TypeAlias = "type[BaseException] | tuple[str, str] | int | str | re.Pattern[str]"

_WANTED: Final = 'an exception class, ("package", "Class"), an int, one of our codes or a compiled pattern'
_NUMBERS: Final = ("http_status", "close_code", "rpc_code")
_NUMBER, _CLASS, _MESSAGE, _CODE, _BASE_CLASS = range(5)
_KIND_CODES: Final = {
    Kind.TRANSIENT: "SYS_UNAVAILABLE",
    Kind.PERMANENT: "SYS_UPSTREAM_REJECTED",
    Kind.CORRUPTION: "PROTO_INVALID_MESSAGE",
    Kind.PARTIAL: "SYS_UPSTREAM_REJECTED",
}

_numbers = itertools.count()


@attrs.frozen(eq=False)
class InForce:
    """Something registered, in force until `unregister()` or the end of a `with` block; both may come twice."""

    # A table for each class that is registered. Single steps of a dict are atomic: threads may register, remove and read without a lock.
    in_force: ClassVar[dict[int, Any]]
    number: int = attrs.field(factory=lambda: next(_numbers), init=False, repr=False)

    def unregister(self) -> None:
        """Take it back; what was said with it stays as it is."""
        self.in_force.pop(self.number, None)

    def __enter__(self) -> Self:
        """Return the registration, which is in force already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take it back."""
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

    def rank(self, failure: Failure, errors: tuple[BaseException, ...]) -> tuple[int, int] | None:
        """Return how closely this fits, smaller is closer; None when it does not."""
        what = self.what
        if isinstance(what, type | tuple):
            return _class_rank(what, errors)
        if isinstance(what, int):
            tier, fits = _NUMBER, any(failure.details.get(name) == what for name in _NUMBERS)
        elif isinstance(what, str):
            tier, fits = _CODE, failure.code == what
        else:
            told = str(failure.details.get("error", ""))
            tier, fits = _MESSAGE, (what.search(failure.message) or what.search(told)) is not None
        return (tier, 0) if fits else None

    def changed(self, failure: Failure, *, known: bool) -> Failure:
        """Return the failure with what this says."""
        code = self.code or (None if known else self._own_code())
        told: dict[str, Any] = {
            name: value
            for name, value in (("kind", self.kind), ("category", self.category), ("executed", self.executed))
            if value is not None
        }
        if self.executed is not None:
            told["proof"] = "stated" if self.executed is Executed.NO else ""
        if self.kind is not None:
            told["retryable"] = self.kind is Kind.TRANSIENT
        if self.suggestions:
            told["suggestions"] = self.suggestions
        if code is None:
            return attrs.evolve(failure, **told)
        cause = failure.cause
        message = failure.message if cause is None else code_info(code).summary + short_of(text_of(cause))
        told["retry_after"] = failure.retry_after
        if self.executed is None:
            told["executed"], told["proof"] = failure.executed, failure.proof
        return Failure.of(
            code,
            message,
            **told,
            details=failure.details,
            cause=cause,
            history=failure.history,
            stopped=failure.stopped,
        )

    def _own_code(self) -> str | None:
        """Return the code for an error that nobody else knows."""
        if self.category is not None and (self.kind is None or self.category is not Category.UPSTREAM):
            return CATEGORY_CODES[self.category]
        return None if self.kind is None else _KIND_CODES[self.kind]


def register(
    what: Registered,
    /,
    *,
    kind: Kind | None = None,
    category: Category | None = None,
    code: str | None = None,
    executed: Executed | None = None,
    suggestions: Iterable[str] = (),
) -> Registration:
    """Put a verdict in force; see `classify.register`."""
    if not _is_what(what):
        raise config_error("classify.register.what", _WANTED, what)
    _check("kind", kind, Kind)
    _check("category", category, Category)
    _check("executed", executed, Executed)
    if code is not None and not is_our_code(code):
        raise config_error(
            "classify.register.code", "one of our codes, or your own under one of their prefixes", code
        )
    lines = _lines(suggestions)
    if not lines and all(said is None for said in (kind, category, code, executed)):
        raise config_error(
            "classify.register", "at least one of kind, category, code, executed, suggestions", None
        )
    registration = Registration(what, kind, category, code, executed, lines)
    Registration.in_force[registration.number] = registration
    return registration


def _check(name: str, value: object, wanted: type[Enum]) -> None:
    if value is not None and not isinstance(value, wanted):
        raise config_error(f"classify.register.{name}", f"a {wanted.__name__}", value)


def _lines(suggestions: object) -> tuple[str, ...]:
    received = suggestions
    given = cast("Iterable[object]", suggestions) if isinstance(suggestions, Iterable) else None
    if given is None or isinstance(received, str):
        raise config_error("classify.register.suggestions", "a collection of texts", received)
    lines = tuple(given)
    for line in lines:
        if not isinstance(line, str) or not line.strip():
            raise config_error("classify.register.suggestions", "texts that are not empty", line)
    return cast("tuple[str, ...]", lines)


def applied(failure: Failure, *errors: BaseException, known: bool = True) -> Failure:
    """Return the failure as the registered verdict that fits best has it; the failure itself when none fits."""
    if not Registration.in_force:
        return failure
    best: Registration | None = None
    closest: tuple[int, int] | None = None
    for registration in reversed(list(Registration.in_force.values())):
        found = registration.rank(failure, errors)
        if found is not None and (closest is None or found < closest):
            best, closest = registration, found
    return failure if best is None else best.changed(failure, known=known)


def _class_rank(what: type | tuple[str, str], errors: tuple[BaseException, ...]) -> tuple[int, int] | None:
    found = [
        (_CLASS if distance == 0 else _BASE_CLASS, distance)
        for error in errors
        for distance, base in enumerate(type(error).__mro__)
        if base is what or (package_of(base), base.__name__) == what
    ]
    return min(found, default=None)


def _is_what(what: object) -> bool:
    if isinstance(what, str):
        return not isinstance(what, Enum) and is_our_code(what)
    if isinstance(what, tuple):
        pair = cast("tuple[object, ...]", what)
        return len(pair) == 2 and all(isinstance(part, str) and part for part in pair)
    if isinstance(what, re.Pattern):
        return isinstance(cast("Any", what).pattern, str)
    if isinstance(what, type):
        return issubclass(what, BaseException) and not dispatch(what).stops
    return isinstance(what, int) and not isinstance(what, bool)
