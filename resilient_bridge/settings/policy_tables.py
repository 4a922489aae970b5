"""Policies as tables: one key for each layer, in any order; `order` overrides the usual order.

Rule: a policy's table never states that a call may be repeated. The table of an operation does:
`[tools.search] idempotent = true`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from ..calls.breaker.value import Breaker
from ..calls.bulkhead.value import Bulkhead
from ..calls.fallback.value import Fallback
from ..calls.layer import Layer
from ..calls.policy import Policy
from ..calls.rate_limit.value import RateLimit
from ..calls.retry.value import Retry
from ..calls.timeout.deadline import Deadline
from ..calls.timeout.value import Timeout
from ..config.paths import joined
from ..failure import ConfigError
from ..presets.bridge_policy import BridgePolicy
from ..transports.references import REFERENCE, is_reference
from .fields import read_value
from .reading import BAD, Reading, resolved, violation_of


_CLASSES: Final = (Deadline, Fallback, Retry, Bulkhead, RateLimit, Breaker, Timeout)
LAYERS: Final[Mapping[str, type[Layer]]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in _CLASSES
}
"""Each layer by its key, in the usual order, outermost first."""
NAMES: Final[Mapping[type, str]] = {kind: key for key, kind in LAYERS.items()}
_OPTIONS: Final = ("name", "order", "preset", "state")
PERMISSIONS: Final = ("idempotent", "required")
"""Keys of an operation's table beside its layers; a policy may not have them."""


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
    from ..stores import RedisState

    try:
        return RedisState(url)
    except ConfigError as error:
        constraint = str(violation_of(error)["constraint"])
        return reading.fail(at, constraint, raw, is_secret=not raw.startswith(("env:", "file:")))
