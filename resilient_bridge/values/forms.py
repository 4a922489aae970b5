"""The kind of value that a field takes, marked on its validator.

The readers of settings and their reference page use it.

Rule: a validator is marked where it is made. A field whose validator has no mark takes plain data
as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar


FormKind: TypeAlias = Literal[
    "plain", "seconds", "span", "number", "count", "flag", "word", "text", "texts",
    "value", "values", "wait", "whats", "rules", "function", "functions", "policies", "state",
    "secret", "address", "headers", "seconds_by_name", "pair",
]  # fmt: skip
V = TypeVar("V", bound="Callable[..., Any]")


class Form(NamedTuple):
    """The kind of a field.

    `of` is the class of a nested value, `words` are those of a Literal, `wanted` is for a person.
    """

    kind: FormKind = "plain"
    of: type | None = None
    words: tuple[str, ...] = ()
    wanted: str = ""
    is_optional: bool = False


PLAIN: Final = Form()
_MARK: Final = "__form__"


def takes(
    kind: FormKind, *, of: type | None = None, words: tuple[str, ...] = (), wanted: str = ""
) -> Callable[[V], V]:
    """Mark a validator with the kind of value that it accepts."""

    def mark(validator: V) -> V:
        setattr(validator, _MARK, Form(kind, of, words, wanted))
        return validator

    return mark


def copy_form(source: object, target: V) -> V:
    """Mark a validator that also accepts None like the one that it calls."""
    setattr(target, _MARK, getattr(source, _MARK, PLAIN)._replace(is_optional=True))
    return target


def form_of(validator: object) -> Form:
    """Return the mark of a validator, or of the first of several that has one."""
    # those of attrs' `and_`
    several: tuple[object, ...] = getattr(validator, "_validators", (validator,))
    marks: list[Form | None] = [getattr(each, _MARK, None) for each in several]
    return next((mark for mark in marks if mark is not None), PLAIN)
