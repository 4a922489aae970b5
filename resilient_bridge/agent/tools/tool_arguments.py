"""The arguments that a model writes for a tool.

They are parsed strictly and checked against the signature; all violations are reported at once.

Rule: each attempt gets its own copy of the arguments, so that changes to its lists and objects do
not reach the next attempt.
"""

from __future__ import annotations

import builtins
import inspect
import math
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from ...config.strict_json import decoder, is_deeper
from ...failure import Executed, Failure, config_error, error_for
from ..suggestions.near_misses import close_names
from .annotations import (
    NO_SUCH,
    NOTHING,
    Demand,
    Violations,
    evaluated,
    schemas_of,
    sort_of,
    violation,
)


if TYPE_CHECKING:
    from ...calls.ports import CallFrame


ANEW: ContextVar[tuple[CallFrame, Callable[[], Read]] | None] = ContextVar(
    "resilient_bridge.tool_arguments", default=None
)
"""The call frame around the attempts, and the function that makes the arguments of each."""

_DEEPEST: Final = 100  # levels; callers that serialise them have less stack left
# characters: a model writes a thousandth of that, and parsing blocks the loop
_LONGEST_TEXT: Final = 4_000_000
_MOST: Final = 20  # violations in a message
_DECODER: Final = decoder(
    constant="{} is no number of JSON",
    infinite="{} is no number of JSON",
    twice="a key that is there twice",
)
_VARIADIC: Final = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_OURS: Final = __name__.partition(".")[0]


class Read(NamedTuple):
    """Parsed arguments: as a mapping, as the function is called with them, and their violations."""

    arguments: Mapping[str, Any] = {}
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    wrong: Violations = ()


class Parameters:
    """The parameters of one tool, which a model fills by name."""

    def __init__(self, function: Any, path: str) -> None:
        """Read the signature. Raises ConfigError for a callable without one."""
        self._function = function
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError):
            raise config_error(path, "a function whose signature can be read", function) from None
        #: The parameters that may be passed by name.
        self.names = [
            each.name for each in self._signature.parameters.values() if each.kind not in _VARIADIC
        ]
        self._demands: dict[str, Demand] | None = None
        self._around = _names_around(function, self._signature)

    def read(self, arguments: Mapping[str, Any] | str) -> Read:
        if isinstance(arguments, str):
            read = _from_text(arguments)
            if isinstance(read, tuple):
                return Read(wrong=read)
            arguments = read
        if is_deeper(arguments, _DEEPEST):  # from a program, or a cycle
            return self._judged(arguments, arguments)
        copied: Mapping[str, Any] = _copied(arguments)
        return self._judged(copied, _copied(copied))

    def anew(self, read: Read, tool: str) -> Read:
        """Return the arguments for another attempt.

        Raises BridgeError (TOOL_ARGUMENTS_INVALID) if a validator refuses them now.
        """
        again = self.read(read.arguments)
        if again.wrong:
            raise error_for(invalid(tool, again.wrong))
        return again

    def schema(self) -> dict[str, Any]:
        demands = self._demanded()
        properties, shared = schemas_of({name: demands[name] for name in self.names})
        required: list[str] = []
        for name in self.names:
            default = self._signature.parameters[name].default
            if default is inspect.Parameter.empty:
                required.append(name)
            elif default is None or isinstance(default, str | int | float):
                properties[name] = {**properties[name], "default": default}
        found: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
        found["additionalProperties"] = self._rest() is not None
        described: dict[str, Any] = _of_json({**found, "$defs": shared} if shared else found)
        return described

    def _judged(self, arguments: Mapping[str, Any], values: Mapping[str, Any]) -> Read:
        values, wrong = self._checked(values)
        return Read(arguments, wrong=wrong) if wrong else self._bound(arguments, values)

    def _bound(self, arguments: Mapping[str, Any], values: Mapping[str, Any]) -> Read:
        bound = inspect.BoundArguments(self._signature, cast("Any", {}))
        for name, parameter in self._signature.parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {
                    key: value for key, value in values.items() if key not in self.names
                }
            elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL and name in values:
                bound.arguments[name] = values[name]
            elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                bound.arguments[name] = parameter.default  # or those after it could not be given
        return Read(arguments, bound.args, bound.kwargs)

    def _checked(self, arguments: Mapping[Any, Any]) -> tuple[Mapping[str, Any], Violations]:
        """Return the values as the function takes them, and their violations."""
        wrong: list[Mapping[str, str]] = []
        values: dict[str, Any] = {}
        parameters, demands = self._signature.parameters, self._demanded()
        for name in self.names:
            parameter, demand = parameters[name], demands[name]
            if name not in arguments:
                if parameter.default is inspect.Parameter.empty:
                    wrong.append(violation(name, demand.words, NOTHING))
            elif (value := arguments[name]) is parameter.default:
                values[name] = value
            else:
                values[name], problem = demand.read(name, value)
                wrong += problem
        rest = self._rest()
        names = set(self.names)
        for name, value in arguments.items():
            if isinstance(name, str) and name in names:
                continue
            if isinstance(name, str) and rest is not None:
                values[name], problem = demands[rest].read(name, value)
                wrong += problem
                continue
            # Only the violations that are shown get a search: a model may write 100,000 names.
            constraint = self._no_such(str(name)) if len(wrong) < _MOST else NO_SUCH
            wrong.append(violation(name, constraint, sort_of(value)))
        return values, tuple(wrong)

    def _rest(self) -> str | None:
        """Return the name of the `**kwargs` parameter, None without one."""
        parameters = self._signature.parameters.values()
        return next((each.name for each in parameters if each.kind is each.VAR_KEYWORD), None)

    def _no_such(self, name: str) -> str:
        near = close_names(name[:100], self.names, most=1)
        return f"{NO_SUCH}; did you mean {near[0]}?" if near else NO_SUCH

    def _demanded(self) -> dict[str, Demand]:
        """Return the demand of each annotation.

        Annotations are evaluated at the first call, when every name in them is defined.
        """
        if self._demands is None:
            places = {**self._around, **_globals_of(self._function)}
            self._demands = {
                name: Demand(evaluated(each.annotation, places))
                for name, each in self._signature.parameters.items()
            }
        return self._demands


def invalid(tool: str, violations: Violations) -> Failure:
    """Return the failure for wrong arguments.

    The tool did not run, and the suggestions say what to correct.
    """
    lines = [_line(**each) for each in violations]
    problem = lines[:_MOST]
    if len(lines) > _MOST:
        problem.append(f"and {len(lines) - _MOST} more")
    return Failure.of(
        "TOOL_ARGUMENTS_INVALID",
        f"arguments of {tool} invalid: {'; '.join(problem)}",
        executed=Executed.NO,
        details={"violations": violations},
        suggestions=tuple(f"correct the arguments: {line}" for line in problem),
    )


def _line(field: str, constraint: str, received: str) -> str:
    if received == NOTHING:
        return f"{field} is missing: wanted {constraint}"
    if constraint.startswith(NO_SUCH):
        return f"{field}: {constraint}"
    return f"{field}: wanted {constraint}, got {received}"


def _from_text(text: str) -> Mapping[str, Any] | Violations:
    """Parse the text of a model; some models write an empty text for no arguments."""
    if len(text) > _LONGEST_TEXT:
        return _unreadable(f"text of {len(text):,} characters, of at most {_LONGEST_TEXT:,}")
    if not text.strip():
        return {}
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        return _unreadable("text that is nested too deep")
    except ValueError as error:  # its message quotes at most a number or a constant
        return _unreadable(f"text that is none: {error}")
    if not isinstance(value, dict):
        return _unreadable(sort_of(value))
    if is_deeper(value, _DEEPEST):
        return _unreadable("text that is nested too deep")
    return cast("dict[str, Any]", value)


def _unreadable(received: str) -> Violations:
    return (violation("arguments", "one JSON object", received),)


def _copied(value: Any) -> Any:
    """Return a deep copy of mappings and lists; other objects are passed as they are."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in cast("Mapping[object, object]", value).items()}
    return [_copied(item) for item in cast("list[object]", value)] if type(value) is list else value


def _of_json(value: Any) -> Any:
    """Return a schema without the fields whose number JSON cannot hold, such as a default of inf."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        return {
            key: _of_json(item)
            for key, item in fields
            if not isinstance(item, float) or math.isfinite(item)
        }
    return (
        [_of_json(item) for item in cast("list[object]", value)]
        if isinstance(value, list)
        else value
    )


def _names_around(function: Any, signature: inspect.Signature) -> dict[str, Any]:
    """Return the local names at the place where the tool is added.

    Only those that its text annotations use and its globals lack.
    """
    texts = [
        each.annotation
        for each in signature.parameters.values()
        if isinstance(each.annotation, str)
    ]
    names = {name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)}
    names -= _globals_of(function).keys() | vars(builtins).keys()
    frame = inspect.currentframe() if names else None
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _OURS:
        frame = frame.f_back
    return (
        {}
        if frame is None
        else {name: frame.f_locals[name] for name in names if name in frame.f_locals}
    )


def _globals_of(function: Any) -> dict[str, Any]:
    while isinstance(function, partial):
        function = cast("Any", function).func
    plain = inspect.unwrap(function)
    if not hasattr(plain, "__globals__") and not hasattr(plain, "__func__"):
        plain = type(plain).__call__
    plain = getattr(plain, "__func__", plain)
    return dict(getattr(plain, "__globals__", {}))
