"""What a model writes as the arguments of a tool: read strictly, held against the tool's signature, all that is wrong at once.

Rule: only what is plain is judged (str int float bool list dict None, unions of these, Literal); any other annotation is the
tool's own affair. A violation says what sort of thing was received and never the thing itself: it may be a secret.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, Union, cast, get_args, get_origin

from ..errors import Executed, Failure, config_error
from ..protocol.strict_json import decoder, is_deeper
from .near_misses import close_names


__all__ = ["Parameters", "Read", "Violations", "invalid"]

Violations: TypeAlias = tuple[Mapping[str, str], ...]

_DEEPEST: Final = 100  # levels; written out again by somebody who is deeper in the stack
_LONGEST_TEXT: Final = (
    4_000_000  # characters: a model writes a thousandth of that, and reading holds the loop
)

_MOST: Final = 20  # violations told
_NO_SUCH: Final = "no such argument"
_NOTHING: Final = "nothing"
_DECODER: Final = decoder(
    constant="{} is no number of JSON", infinite="{} is no number of JSON", twice="a key that is there twice"
)
_VARIADIC: Final = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


class _Plain(NamedTuple):
    """One sort of value: the words for it, and whether a value is one."""

    words: str
    fits: Callable[[Any], bool]


class Read(NamedTuple):
    """What was read: the arguments as a mapping and as a call takes them, or what is wrong with them."""

    arguments: Mapping[str, Any] = {}
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    wrong: Violations = ()


def _is_a(kind: type | tuple[type, ...], value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_none(value: Any) -> bool:
    return value is None


def _is_one_of(choices: tuple[Any, ...], value: Any) -> bool:
    return any(value == one and type(value) is type(one) for one in choices)


_PLAIN: Final[Mapping[Any, _Plain]] = {
    str: _Plain("a string", partial(_is_a, str)),
    int: _Plain("an integer", partial(_is_a, int)),
    float: _Plain("a number", partial(_is_a, (int, float))),
    bool: _Plain("true or false", _is_bool),
    list: _Plain("an array", partial(_is_a, list)),
    dict: _Plain("an object", partial(_is_a, Mapping)),
    None: _Plain("null", _is_none),
    type(None): _Plain("null", _is_none),
}


class Parameters:
    """The parameters of one tool, as a model may fill them: by name."""

    def __init__(self, function: Any, path: str) -> None:
        """Read the signature. ConfigError for a callable without one."""
        self._function = function
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError):
            raise config_error(path, "a function whose signature can be read", function) from None
        #: What may be given by name.
        self.names = [each.name for each in self._signature.parameters.values() if each.kind not in _VARIADIC]
        self._sorts: dict[str, tuple[_Plain, ...]] | None = None

    def read(self, arguments: Mapping[str, Any] | str) -> Read:
        """Return the arguments of a call, or what is wrong with them."""
        if isinstance(arguments, str):
            read = _from_text(arguments)
            if isinstance(read, tuple):
                return Read(wrong=read)
            arguments = read
        wrong = self._wrong(arguments)
        return Read(arguments, wrong=wrong) if wrong else self._bound(arguments)

    def _bound(self, arguments: Mapping[str, Any]) -> Read:
        bound = inspect.BoundArguments(self._signature, cast("Any", {}))
        for name, parameter in self._signature.parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {
                    key: value for key, value in arguments.items() if key not in self.names
                }
            elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL and name in arguments:
                bound.arguments[name] = arguments[name]
            elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                bound.arguments[name] = parameter.default  # or those after it could not be given
        return Read(arguments, bound.args, bound.kwargs)

    def _wrong(self, arguments: Mapping[Any, Any]) -> Violations:
        wrong: list[Mapping[str, str]] = []
        parameters, sorts = self._signature.parameters, self._plain_sorts()
        for name in self.names:
            parameter, wanted = parameters[name], sorts[name]
            words = " or ".join(sort.words for sort in wanted) or "a value"
            if name not in arguments:
                if parameter.default is inspect.Parameter.empty:
                    wrong.append(_violation(name, words, _NOTHING))
            elif wanted and not _suits(arguments[name], wanted, parameter.default):
                wrong.append(_violation(name, words, _sort_of(arguments[name])))
        takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
        names = set(self.names)
        for name, value in arguments.items():
            if not isinstance(name, str) or (name not in names and not takes_all):
                # What is not told is not looked up: a model may write a hundred thousand of them.
                constraint = self._no_such(str(name)) if len(wrong) < _MOST else _NO_SUCH
                wrong.append(_violation(name, constraint, _sort_of(value)))
        return tuple(wrong)

    def _no_such(self, name: str) -> str:
        near = close_names(name[:100], self.names, most=1)
        return f"{_NO_SUCH}; did you mean {near[0]}?" if near else _NO_SUCH

    def _plain_sorts(self) -> dict[str, tuple[_Plain, ...]]:
        """Return what each parameter's annotation says, read with the first call: by then every name in it is defined."""
        if self._sorts is None:
            places = _globals_of(self._function)
            self._sorts = {
                name: _sorts_of(_evaluated(each.annotation, places))
                for name, each in self._signature.parameters.items()
            }
        return self._sorts


def invalid(tool: str, violations: Violations) -> Failure:
    """Return the failure for arguments that are wrong; it did not run, and the suggestions say what to correct."""
    lines = [_line(**each) for each in violations]
    told = lines[:_MOST]
    if len(lines) > _MOST:
        told.append(f"and {len(lines) - _MOST} more")
    return Failure.of(
        "TOOL_ARGUMENTS_INVALID",
        f"arguments of {tool} invalid: {'; '.join(told)}",
        executed=Executed.NO,
        details={"violations": violations},
        suggestions=tuple(f"correct the arguments: {line}" for line in told),
    )


def _line(field: str, constraint: str, received: str) -> str:
    if received == _NOTHING:
        return f"{field} is missing: wanted {constraint}"
    if constraint.startswith(_NO_SUCH):
        return f"{field}: {constraint}"
    return f"{field}: wanted {constraint}, got {received}"


def _violation(field: object, constraint: str, received: str) -> Mapping[str, str]:
    return {"field": str(field)[:80], "constraint": constraint, "received": received}


def _from_text(text: str) -> Mapping[str, Any] | Violations:
    """Read what a model wrote; nothing at all is how some of them write no arguments."""
    if len(text) > _LONGEST_TEXT:
        return _unreadable(f"text of {len(text):,} characters, of at most {_LONGEST_TEXT:,}")
    if not text.strip():
        return {}
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        return _unreadable("text that is nested too deep")
    except ValueError as error:  # its own text quotes none of the document but a number or a constant
        return _unreadable(f"text that is none: {error}")
    if not isinstance(value, dict):
        return _unreadable(_sort_of(value))
    if is_deeper(value, _DEEPEST):
        return _unreadable("text that is nested too deep")
    return cast("dict[str, Any]", value)


def _unreadable(received: str) -> Violations:
    return (_violation("arguments", "one JSON object", received),)


def _suits(value: Any, wanted: tuple[_Plain, ...], default: Any) -> bool:
    return value is default or any(sort.fits(value) for sort in wanted)


def _sort_of(value: Any) -> str:
    for sort in _PLAIN.values():
        if sort.fits(value):
            return sort.words
    return type(value).__name__


def _sorts_of(annotation: Any) -> tuple[_Plain, ...]:
    """Return the plain sorts that an annotation allows; none if it is not for us to judge."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _sorts_of(get_args(annotation)[0])
    if origin is Literal:
        choices = get_args(annotation)
        words = "one of " + ", ".join(map(repr, choices))
        return (_Plain(words, partial(_is_one_of, choices)),)
    if origin in (Union, types.UnionType):
        each = [_sorts_of(part) for part in get_args(annotation)]
        return () if () in each else tuple(chain.from_iterable(each))
    try:
        sort = _PLAIN.get(origin or annotation)
    except TypeError:  # an annotation may be anything, unhashable included
        return ()
    return () if sort is None else (sort,)


def _evaluated(annotation: Any, places: dict[str, Any]) -> Any:
    """Return the annotation behind a text; one that cannot be had (a name for type checkers only) is judged by nobody."""
    if not isinstance(annotation, str):
        return annotation
    try:  # a text in quotes, in a module whose annotations are texts anyway, is one twice
        return _evaluated(eval(annotation, places), places)  # noqa: S307 -- the program's own source, as `typing.get_type_hints` does
    except Exception:  # noqa: BLE001 -- see above
        return Any


def _globals_of(function: Any) -> dict[str, Any]:
    while isinstance(function, partial):
        function = cast("Any", function).func
    plain = inspect.unwrap(function)
    if not hasattr(plain, "__globals__") and not hasattr(plain, "__func__"):
        plain = type(plain).__call__
    plain = getattr(plain, "__func__", plain)
    return dict(getattr(plain, "__globals__", {}))
