"""What settings spell otherwise than as a table of fields: policies, dialects, and the keys of specifications.

A policy has one key for each layer, in any order; `order` overrides the usual order. A dialect is
the name of a ready one, a family with its arguments as in code, or a table. OpenViber's
`max_attempts` and Gasoline's `resetTimeout` are fields under another key.

Rule: a policy's table never states that a call may be repeated. The table of an operation does:
`[tools.search] idempotent = true`. A dialect's functions come from `rb.dialects` or from the
caller's names; no text is evaluated. A function for each class takes the keys of specifications out
of its table and returns the fields; the remaining keys are read as usual.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from types import FunctionType
from typing import Any, Final, TypeGuard, cast

from .. import dialects
from ..calls import strategies
from ..calls.breaker.value import Breaker
from ..calls.layer import Layer
from ..calls.policy import Policy
from ..calls.retry.value import Retry
from ..config.documents import joined
from ..config.texts import read_call
from ..failure import ConfigError
from ..presets.bridge_policy import BridgePolicy
from ..protocol.policies.dialect import Dialect
from ..transports.references import REFERENCE, is_reference
from ..values.backoff import Backoff
from ..values.fields import LONGEST
from .fields import arrange, from_millis, make, read_value
from .reading import BAD, Aliases, Entry, Reading, resolved, violation_of


_CLASSES: Final = sorted(strategies(), key=lambda kind: kind.usual_position or 0)
LAYERS: Final[Mapping[str, type[Layer]]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in _CLASSES
}
"""Each layer by its key, in the usual order, outermost first."""
NAMES: Final[Mapping[type, str]] = {kind: key for key, kind in LAYERS.items()}
_OPTIONS: Final = ("name", "order", "preset", "state")
PERMISSIONS: Final = ("idempotent", "required")
"""Keys of an operation's table beside its layers; a policy may not have them."""
EFFECTS: Final = "a table of its own, [effects]: one file has the calls of all tools and functions"
"""What is wanted where one policy, or one tool, has the key `effects`."""


def preset_names() -> list[str]:
    """Return the names of all presets, sorted."""
    from .. import presets

    return sorted({*presets.__all__} - {"BridgePolicy"})


def preset_of(raw: Any, path: str, reading: Reading) -> BridgePolicy | None:
    """Return the preset of this name; None, with a problem, if it does not exist."""
    from .. import presets

    known = preset_names()
    if isinstance(raw, str) and raw in known:
        return cast("BridgePolicy", getattr(presets, raw))
    reading.not_one_of(known, path, raw)
    return None


def read_policy(data: Any, path: str, reading: Reading, base: Any = None) -> Any:
    """Return the Policy that a table describes, with missing layers from `base`; BAD after a
    problem.
    """
    table = reading.table(data, path, f"a table of layers: {', '.join(LAYERS)}")
    if table is None:
        return BAD
    before = len(reading.problems)
    if "preset" in table:
        preset = preset_of(table["preset"], joined(path, "preset"), reading)
        base = None if preset is None else preset.calls
    for key in table:
        if key in PERMISSIONS:
            operation = f"an operation to say so, as in [tools.search] {key} = true, and no policy"
            reading.fail(joined(path, key), operation, table[key])
        elif key == "effects":
            reading.fail(joined(path, key), EFFECTS, table[key])
        elif key not in LAYERS and key not in _OPTIONS:
            reading.unknown(path, key, (*LAYERS, *_OPTIONS))
    layers = _layers(table, path, reading, base)
    state = _state(table, path, reading)
    ordered = _ordered(table, path, reading, layers, base)
    if len(reading.problems) > before:
        return BAD
    name = table.get("name", base.name if base is not None else None)
    return _policy(ordered, name, state, path, reading)


def _policy(layers: Iterable[Layer], name: Any, state: Any, path: str, reading: Reading) -> Any:
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = Policy(*layers, name=name, state=state)
    except ConfigError as error:
        problem = violation_of(error)
        field = str(problem["field"]).removeprefix("Policy.")
        at = joined(path, field) if field in _OPTIONS else path or "calls"
        return reading.fail(
            at, str(problem["constraint"]), name if field == "name" else problem["received"]
        )
    reading.warnings += [f"{path or 'calls'}: {warning.message}" for warning in caught]
    return made


def _layers(
    table: Mapping[str, Any], path: str, reading: Reading, base: Policy | None
) -> dict[type, Layer]:
    found: dict[type, Layer] = {} if base is None else {type(layer): layer for layer in base.layers}
    for key, kind in LAYERS.items():
        if key in table:
            layer = (
                None
                if table[key] is False
                else read_value(kind, table[key], joined(path, key), reading, found.get(kind))
            )
            found.pop(kind, None)
            if isinstance(layer, Layer):
                found[kind] = layer
    return found


def _ordered(
    table: Mapping[str, Any],
    path: str,
    reading: Reading,
    layers: Mapping[type, Layer],
    base: Policy | None,
) -> list[Layer]:
    if "order" not in table:
        usual = [kind for kind in _CLASSES if kind in layers]
        if base is None:
            return [layers[kind] for kind in usual]
        order: list[type] = [type(layer) for layer in base.layers if type(layer) in layers]
        for kind in usual:
            if kind not in order:
                behind = [
                    n
                    for n, other in enumerate(order)
                    if _CLASSES.index(other) > _CLASSES.index(kind)
                ]
                order.insert(behind[0] if behind else len(order), kind)
        return [layers[kind] for kind in order]
    at, raw = joined(path, "order"), table["order"]
    of_base = () if base is None else tuple(map(type, base.layers))
    names = [key for key, kind in LAYERS.items() if table.get(key, kind in of_base) is not False]
    if not isinstance(raw, list) or sorted(map(str, cast("Any", raw))) != sorted(names):
        reading.fail(at, f"each layer once: {', '.join(names)}", raw)
        return []
    return [layers[LAYERS[name]] for name in cast("list[str]", raw) if LAYERS[name] in layers]


def _state(table: Mapping[str, Any], path: str, reading: Reading) -> Any:
    raw = table.get("state")
    if raw is None or not isinstance(raw, str):
        return raw or None
    at = joined(path, "state")
    if "://" in raw and "@" in raw and not is_reference(raw):
        return reading.fail(at, f"{REFERENCE}, as it holds a password", raw, is_secret=True)
    url = resolved(raw, at, reading)
    if url is BAD:
        return BAD
    from ..stores import MachineState, RedisState

    try:
        return MachineState(url) if _is_path(url) else RedisState(url)
    except ConfigError as error:
        constraint = str(violation_of(error)["constraint"])
        return reading.fail(at, constraint, raw, is_secret=not raw.startswith(("env:", "file:")))


def _is_path(text: str) -> bool:
    return text.startswith(("~/", "./", "../")) or os.path.isabs(text)  # noqa: PTH117 -- of a text


# ---- dialects ----------------------------------------------------------------------------------------------------------


_PREFIXES: Final = ("", "rb.dialects.", "dialects.")


def ready() -> dict[str, Dialect]:
    """Return the dialects that need no arguments, by name."""
    return {name: value for name, value in _all().items() if isinstance(value, Dialect)}


def families() -> dict[str, Callable[..., Dialect]]:
    """Return the functions that make a dialect, by name."""
    return {name: value for name, value in _all().items() if makes_dialects(value)}


def _all() -> dict[str, Any]:
    return {name: getattr(dialects, name) for name in dir(dialects) if name.islower()}


def makes_dialects(found: object) -> TypeGuard[FunctionType]:
    """Return whether this is a function that makes a dialect."""
    return isinstance(found, FunctionType) and found.__annotations__.get("return") in {
        "Dialect",
        Dialect,
    }


def read_dialect(data: Any, path: str, reading: Reading, base: Any = None) -> Any:
    """Return the dialect of a name, a call as in code, or a table; BAD after a problem."""
    if isinstance(data, Mapping):
        table = dict(cast("Mapping[str, Any]", data))
        return make(Dialect, arrange(Dialect, table, path, reading), path, reading, base=base)
    if not isinstance(data, str):
        return reading.fail(path, "the name of a dialect, or a table of names", data)
    if data in reading.names and isinstance(reading.names[data], Dialect):
        return reading.names[data]
    known = ready()
    if data in known:
        return known[data]
    if "(" not in data:
        return reading.not_one_of(sorted({*known, *families()}), path, data)
    return _of_call(data, path, reading)


def _of_call(text: str, path: str, reading: Reading) -> Any:
    made = families()
    try:
        call = read_call(text, "dialect", tuple(sorted(made)), prefixes=_PREFIXES, has_bools=True)
        return made[call.name](*call.arguments, **call.named)
    except ConfigError as error:
        problem = violation_of(error)
        return reading.fail(path, f"{problem['field']} to be {problem['constraint']}", text)
    except (ValueError, TypeError, AttributeError) as error:
        # Python names the argument that is missing or unknown.
        return reading.fail(path, f"a dialect as in code ({error})", text)


# ---- keys of specifications --------------------------------------------------------------------------------------------


_SHAPES: Final = {  # OpenViber's words, and its defaults
    "linear": ("linear", "none"),
    "exponential": ("exponential", "none"),
    "jittered": ("exponential", "full"),
}
_FIRST: Final = 1.0
_CAP: Final = 30.0
_STEPS: Final = (0, 1, 2, 4, 8)  # Gasoline's, in units of its initial backoff, and then the cap


def _retry(table: dict[str, Any], path: str, reading: Reading) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for key, name in (("max_attempts", "attempts"), ("retryable_errors", "on")):
        if key in table:
            found[name] = Entry(key, table.pop(key))
    shape = table.get("backoff")
    is_word = isinstance(shape, str) and shape in _SHAPES
    if is_word or not {"base_delay_ms", "max_delay_ms"}.isdisjoint(table):
        written: dict[str, Any] = {
            key: table.pop(key)
            for key in ("base_delay_ms", "max_delay_ms", "backoff")
            if key in table
        }
        found["backoff"] = Entry("backoff", _schedule(written, path, reading))
    return found


def _schedule(written: Mapping[str, Any], path: str, reading: Reading) -> Any:
    """Return the schedule of `backoff: exponential`, `base_delay_ms` and `max_delay_ms`."""
    word = written.get("backoff", "exponential")
    if not isinstance(word, str) or word not in _SHAPES:
        return reading.fail(
            joined(path, "backoff"), f"one of {', '.join(_SHAPES)} beside base_delay_ms", word
        )
    shape, jitter = _SHAPES[word]
    entries = {"shape": Entry("backoff", shape), "jitter": Entry("backoff", jitter)}
    for key, name, default in (("base_delay_ms", "seconds", _FIRST), ("max_delay_ms", "cap", _CAP)):
        value = from_millis(written[key], joined(path, key), reading) if key in written else default
        entries[name] = Entry(key, value)
    return make(Backoff, entries, path, reading)


def _breaker(table: dict[str, Any], path: str, reading: Reading) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for key in ("consecutive", "maxFailures"):
        if key in table:
            found["window"], found["rate"] = Entry(key, table.pop(key)), Entry(key, 1.0)
            if "open_for" not in table:
                found["open_for"] = Entry("open_for", Breaker.consecutive(1).open_for)
    if "resetTimeout" in table:
        seconds = from_millis(table.pop("resetTimeout"), joined(path, "resetTimeout"), reading)
        found["open_for"] = Entry("resetTimeout", seconds)
    return found


def gasoline_steps(table: dict[str, Any], path: str, reading: Reading) -> Any:
    """Take `initialBackoff` and `maxBackoff` out of a breaker's table.

    Return their schedule, BAD after a problem, or None if the table has neither.
    """
    if {"initialBackoff", "maxBackoff"}.isdisjoint(table):
        return None
    units: list[Any] = []
    for key, default in (("initialBackoff", _FIRST), ("maxBackoff", _CAP)):
        units.append(
            from_millis(table.pop(key), joined(path, key), reading) if key in table else default
        )
    if BAD in units:
        return BAD
    first, cap = units
    if not 0 <= first <= cap <= LONGEST:
        wanted = "initialBackoff and maxBackoff in milliseconds, the larger one last"
        return reading.fail(joined(path, "initialBackoff"), wanted, first * 1000)
    return Backoff.steps(*(min(first * step, cap) for step in _STEPS), cap)


def _backoff(table: dict[str, Any], _: str, __: Reading) -> dict[str, Entry]:
    """Return the table of a schedule with the defaults of the constructor of its shape."""
    shape = table.get("shape")
    if shape not in ("linear", "exponential", "decorrelated"):
        return {}
    arguments = signature(getattr(Backoff, shape)).parameters
    return {
        name: Entry(name, arguments[name].default)
        for name in ("cap", "jitter")
        if name in arguments and table.keys().isdisjoint({name, f"{name}_ms"})
    }


WORDS_OF: Final[Mapping[type, tuple[str, ...]]] = {
    Retry: ("base_delay_ms", "max_attempts", "max_delay_ms", "retryable_errors"),
    Breaker: ("consecutive", "initialBackoff", "maxBackoff", "maxFailures", "resetTimeout"),
}
"""The extra keys of each class."""
ALIASES: Final[Mapping[type, Aliases]] = {Retry: _retry, Breaker: _breaker, Backoff: _backoff}
