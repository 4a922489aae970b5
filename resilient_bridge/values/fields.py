"""How policy values read, check and print their fields.

Rule: a converter only changes the form (a timedelta becomes seconds, a list a tuple) and returns
bad values unchanged; the validator refuses them, because only it knows the field's path. Every
refusal is a ConfigError that names that path.
"""

from __future__ import annotations

import math
import re
from copy import copy
from datetime import timedelta
from functools import lru_cache, partial
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    NoReturn,
    TypeAlias,
    TypeGuard,
    TypeVar,
    cast,
    get_args,
)

import attrs

from ..failure.source_text import shown
from ..failure.teaching import NoFunction, Taught, argument_error
from ..failure.what import is_function


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self


Seconds: TypeAlias = float | timedelta | str
"""A duration: seconds as a number, a timedelta, or a text with a unit ("10s", "500ms", "5 min", "1h30m")."""
StateKey: TypeAlias = "str | Callable[..., Any] | None"
"""What state is found by: a name, a function of the call's arguments, or None (its owner)."""
Validator: TypeAlias = "Callable[[Any, attrs.Attribute[Any], Any], None]"

V = TypeVar("V", bound="Callable[..., Any]")

_WANTED: Final = "__wanted__"
_WORD: Final = re.compile(r"['\"]([^'\"]*)['\"]")
LONGEST: Final = 1e9
"""Seconds, about 31 years: clocks and timers of the platforms accept no more."""
LONGEST_TIMEOUT: Final = 3600.0
"""Seconds: a heartbeat longer than an hour is a duration given in milliseconds."""


class Value(NoFunction, metaclass=Taught):
    """The base of every policy value: equal by class and fields.

    Its repr is the call that makes it, with what differs.

    Both are written once here: attrs would compile them for every class, a third of what importing
    one costs.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Equal: of one class, with equal fields."""
        if type(other) is not type(self):
            return NotImplemented
        return _compared(self) == _compared(other)

    def __hash__(self) -> int:
        """By class and fields."""
        # what a user's own layer keeps need not be hashable
        of_attrs = hasattr(type(self), "__attrs_attrs__")
        return hash((type(self), *_compared(self))) if of_attrs else hash(type(self))

    def __repr__(self) -> str:
        """Return an expression that evaluates to an equal value."""
        return called(self)

    def evolve(self, **fields: Any) -> Self:
        """Return a copy with these fields changed.

        Raises ConfigError that names an unknown field.
        """
        if not attrs.has(type(self)):  # a user's own layer
            copied = copy(self)
            for name, value in fields.items():
                if name not in vars(self):
                    _refuse_field(self, name, value, list(vars(self)))
                vars(copied)[name] = value
            return copied
        known = [field.name for field in attrs.fields(cast("Any", type(self))) if field.init]
        for name, value in fields.items():
            if name not in known:
                _refuse_field(self, name, value, known)
        return cast("Self", attrs.evolve(cast("Any", self), **fields))


def _refuse_field(value: Value, name: str, passed: object, known: list[str]) -> NoReturn:
    from ..failure.mistakes import wrong_field

    raise argument_error(wrong_field(value, name, passed, known))


def _compared(value: Value) -> tuple[object, ...]:
    fields = getattr(type(value), "__attrs_attrs__", None)
    if fields is None:  # a user's own layer, which is no attrs class
        return tuple(vars(value).items())
    return tuple(getattr(value, field.name) for field in fields if field.eq)


def called(value: Value, *first: str, by: str = "", **texts: str) -> str:
    """Return the call that makes `value`, as text.

    It has the arguments in `first`, then each field that differs from its default.

    `by` names a constructor other than the class. A field named in `texts` is written as given
    there, or omitted if that is empty.
    """
    arguments = list(first)
    fields = getattr(type(value), "__attrs_attrs__", None)
    if fields is None:  # a user's own layer, which is no attrs class
        arguments += [f"{name}={shown(found)}" for name, found in vars(value).items()]
    for field in fields or ():
        found = getattr(value, field.name)
        text = texts.get(field.name, "" if found == field.default else shown(found))
        if text:
            arguments.append(f"{field.name}={text}")
    return f"{by or type(value).__name__}({', '.join(arguments)})"


def refuse(path: str, constraint: str, received: object, *, write: str | None = None) -> NoReturn:
    """Raise the ConfigError that says what `path` wanted and what it got."""
    # imported here: a correct value needs no error, and most are correct
    from ..failure import config_error

    raise config_error(path, constraint, received, write=write)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether `value` is a finite int or float; a bool is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


def as_seconds(value: Seconds) -> float:
    """Return seconds as a float; what is no duration unchanged, a number as text included."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        made: float = _read_text(value)
        return made
    return as_float(value)


def as_float(value: float) -> float:
    """Return a number as a float; other values unchanged."""
    if not is_number(value) or (value and type(value) is float):
        return value  # the same object: a policy of defaults has no numbers of its own
    return float(value) + 0.0  # + 0.0 turns -0.0 into 0.0


def _read_text(text: str) -> Any:
    from ..config.texts import read_duration  # imported here: most durations are numbers

    try:
        return read_duration(text)
    except ValueError:
        return text


def read_span_of(text: str) -> Any:
    """Return a span of time from a text with a unit, as a timedelta; any other text unchanged."""
    seconds = _read_text(text)
    return timedelta(seconds=seconds) if isinstance(seconds, float) and seconds <= LONGEST else text


def read_seconds(path: str, value: object, *, zero: bool = False, most: float = LONGEST) -> float:
    """Return a duration in seconds, above 0 (or from 0) to `most`.

    Raises ConfigError that names `path`.
    """
    duration: object = as_seconds(cast("Seconds", value))
    if not _is_span(duration, zero=zero, most=most):
        refuse(path, _span(zero=zero, most=most), value)
    return duration


def optional_seconds(path: str, value: object) -> float | None:
    """Return a duration in seconds from 0, or None for None.

    Raises ConfigError that names `path`.
    """
    return None if value is None else read_seconds(path, value, zero=True)


def read_name(path: str, value: object) -> str:
    """Return a name.

    Raises ConfigError that names `path` for anything but text that is not blank.
    """
    if not isinstance(value, str) or not value.strip():
        refuse(path, "a name that is not empty", value)
    return value


def check_flag(path: str, value: object) -> None:
    """Raise ConfigError that names `path` for what is neither True nor False."""
    if not isinstance(value, bool):
        refuse(path, "True or False", value)


def as_tuple(value: Any) -> Any:
    """Return a list as a tuple; other values unchanged."""
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def path_of(instance: object, attribute: attrs.Attribute[Any]) -> str:
    """Return the name of a field as an error shows it, such as `Reconnect.grace`."""
    return f"{type(instance).__name__}.{attribute.name}"


def wants(text: str) -> Callable[[V], V]:
    """Mark a validator with what it wants, for errors of settings and their schema."""

    def mark(validator: V) -> V:
        setattr(validator, _WANTED, text)
        return validator

    return mark


def wanted_by(validator: object) -> str:
    """Return what a validator wants, or the first of several that says so; empty if none does."""
    # those of attrs' `and_`
    several: tuple[object, ...] = getattr(validator, "_validators", (validator,))
    texts: list[str] = [getattr(each, _WANTED, "") for each in several]
    return next(filter(None, texts), "")


def fits(wanted: str, is_fit: Callable[[Any], bool], *, refused: str = "") -> Validator:
    """Return a validator for what `is_fit` takes.

    `wanted` says it in the error, unless `refused` says more.
    """

    @wants(wanted)
    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if not is_fit(value):
            refuse(path_of(instance, attribute), refused or wanted, value)

    return check


def seconds(*, zero: bool = True, most: float = LONGEST) -> Validator:
    """Return a validator for a duration of at most `most` seconds."""
    # A timedelta is converted before it is validated.
    return fits(_span(zero=zero, most=most), partial(_is_span, zero=zero, most=most))


def _is_span(value: object, *, zero: bool, most: float) -> TypeGuard[float]:
    return is_number(value) and 0 <= value <= most and (zero or value != 0)


def _span(*, zero: bool, most: float) -> str:
    return f"seconds {'from 0' if zero else 'above 0'} to {most:.0f}"


short_seconds: Final = seconds(zero=False, most=LONGEST_TIMEOUT)
"""A validator: seconds above 0, at most an hour."""


some_seconds: Final = seconds(zero=False)
"""A validator: seconds above 0."""


def number(*, least: float, above: bool = False) -> Validator:
    """Return a validator for a finite number from (or above) `least`."""

    def is_fit(value: object) -> bool:
        return is_number(value) and (value > least or (value == least and not above))

    return fits(f"a finite number {'above' if above else 'of at least'} {shown(least)}", is_fit)


def is_count(value: object, least: int = 1) -> bool:
    """Return whether `value` is a whole number of at least `least`; a bool is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_share(value: object) -> bool:
    """Return whether `value` is a number above 0, at most 1."""
    return is_number(value) and 0 < value <= 1


count: Final = fits("a whole number of at least 1", is_count)
"""A validator: a whole number of at least 1."""
whole: Final = fits("a whole number of at least 0", partial(is_count, least=0))
"""A validator: a whole number of at least 0."""
share: Final = fits("a share above 0, at most 1", is_share)
"""A validator: a number above 0, at most 1."""
flag: Final = fits("true or false", lambda value: isinstance(value, bool), refused="True or False")
"""A validator: True or False, and nothing that merely behaves like them."""


@wants("a name that is not empty, or a function of the call's arguments")
def state_key(instance: object, attribute: attrs.Attribute[Any], key: object) -> None:
    """A validator: the name under which state is shared, text that is not empty; None for private state.

    Or a function of the call's arguments: one state for each of its values.
    """
    if key is None or (isinstance(key, str) and key):
        return
    wanted = "a name that is not empty, a function of the call's arguments, or None"
    if is_function(key) and not isinstance(key, type):
        from inspect import iscoroutinefunction  # imported here: few keys are functions

        if not iscoroutinefunction(key):
            return
        wanted = "a function that is not async: it is asked in sync calls, too"
    refuse(path_of(instance, attribute), wanted, key)


def function(wanted: str) -> Validator:
    """Return a validator for a callable; `wanted` says what it is called with."""
    return fits(wanted, is_function)


def one_of(*options: str) -> Validator:
    """Return a validator for one of these words: those of a Literal that has a name of its own."""
    wanted = "one of " + ", ".join(options)
    return fits(wanted, lambda value: isinstance(value, str) and value in options)


@lru_cache
def _words(annotation: object) -> tuple[str, ...]:
    """Return the words of a Literal; the annotation is a text where Python does not evaluate it."""
    if isinstance(annotation, str):
        return tuple(_WORD.findall(annotation))
    options = (annotation, *get_args(annotation))
    return tuple(word for each in options for word in get_args(each) if isinstance(word, str))


@wants("one of the words of its annotation")
def word(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Validate one of the words of the Literal that the field is annotated with."""
    words = _words(cast("Any", attribute.type))
    if not isinstance(value, str) or value not in words:
        refuse(path_of(instance, attribute), f"one of {', '.join(words)}", value)


def instance_of(kind: type) -> Validator:
    """Return a validator for another policy value."""
    wanted = f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}"
    return fits(wanted, lambda value: isinstance(value, kind))


def tuple_of(wanted: str, is_fit: Callable[[object], bool]) -> Validator:
    """Return a validator for a tuple of such items; the error names the wrong one."""

    @wants(f"a list, each {wanted}")
    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        path = path_of(instance, attribute)
        if not isinstance(value, tuple):
            refuse(path, f"a tuple or list, each {wanted}", value)
        for index, item in enumerate(cast("tuple[object, ...]", value)):
            if not is_fit(item):
                refuse(f"{path}[{index}]", wanted, item)

    return check


def optional(validator: Validator) -> Validator:
    """Return a validator that lets None pass."""

    @wants(wanted_by(validator))
    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if value is not None:
            validator(instance, attribute, value)

    return check
