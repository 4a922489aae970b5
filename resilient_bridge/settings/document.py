"""Reads a whole document of settings: each of its tables, and the preset that it is based on.

Rule: `walk` and `fields` read the parts; this module only knows the key of each part. All problems
of all parts are noted before one error is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import attrs

from ..calls.fallback.value import Fallback
from ..calls.policy import Policy
from ..config.documents import joined
from ..failure import ConfigError
from ..presets import default as default_policy
from ..presets.bridge_policy import BridgePolicy
from ..protocol.policies.dialect import Dialect
from ..telemetry.debug import KINDS as DEBUG_KINDS
from ..telemetry.debug import kinds_in
from ..transports.references import Headers, Secret, UnreadableError, in_words
from ..values.backoff import Backoff
from ..values.fields import LONGEST
from .fields import fields_of, from_millis, make, read_backoff, read_value
from .provider_check import address_of, has_credentials
from .reading import BAD, Entry, Reading, TableReader, resolved, violation_of
from .spellings import (
    ALIASES,
    LAYERS,
    PERMISSIONS,
    gasoline_steps,
    preset_of,
    read_dialect,
    read_policy,
)
from .tables import TABLES, TOP, ClientSettings


READERS: Final[Mapping[type, TableReader]] = {
    Backoff: read_backoff,
    Dialect: read_dialect,
    Policy: read_policy,
}
LINK: Final = tuple(
    field.name for field in fields_of(BridgePolicy) if field.name not in {"calls", "tools"}
)
_OTHERS: Final = ("calls", "debug", "policies", "preset", "providers", "tools")
_KEYS: Final = frozenset({*LINK, *_OTHERS, *LAYERS, *TABLES})
"""The keys at the top of a document, beside those of an agent."""


@attrs.frozen(kw_only=True)
class Settings:
    """The values that a document describes; no connection is open yet."""

    bridge: BridgePolicy
    policies: Mapping[str, Policy]
    tables: Mapping[str, Any]
    timeouts: Mapping[str, float] = attrs.field(factory=dict[str, float])
    permissions: Mapping[str, Mapping[str, bool]] = attrs.field(
        factory=dict[str, Mapping[str, bool]]
    )
    providers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    debug: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def new_reading(
    names: Mapping[str, Any] | None,
    known: Mapping[str, Iterable[str]] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Reading:
    """Return an empty Reading with the readers and aliases of this package."""
    return Reading(
        names={} if names is None else names,
        known={} if known is None else known,
        readers=READERS,
        aliases=ALIASES,
        texts={} if texts is None else texts,
    )


def read_settings(data: Mapping[str, Any], reading: Reading) -> Settings | None:
    """Return the settings of a document; None if there is a problem, and then all problems are in
    `reading`.
    """
    agent = _agent(data)
    for key in data:
        if key not in _KEYS and key not in agent:
            reading.unknown("", key, {*_KEYS, *_agent_keys()})
    base = preset_of(data["preset"], "preset", reading) if "preset" in data else None
    data = _gasoline(data, reading)
    tools, timeouts, permissions = _tools(data.get("tools"), reading)
    calls = _calls(data, reading, (base or default_policy).calls)
    bridge = _bridge(data, tools, calls, reading, base or default_policy)
    named = _table(data.get("policies"), "policies", "a table of policies by name", reading)
    policies: dict[str, Policy] = {
        name: read_value(Policy, item, joined("policies", name), reading)
        for name, item in named.items()
    }
    tables = _tables(data, agent, reading)
    providers = _providers(data.get("providers"), reading)
    debug = _debug(data.get("debug"), reading)
    _check_toolbox(tables, policies, reading)
    _check_fallback_model(tables, [calls, *policies.values()], reading)
    if reading.problems or not isinstance(bridge, BridgePolicy):
        return None
    return Settings(
        bridge=bridge,
        policies=policies,
        tables=tables,
        timeouts=timeouts,
        permissions=permissions,
        providers=providers,
        debug=debug,
        warnings=tuple(reading.warnings),
    )


def _bridge(
    data: Mapping[str, Any],
    tools: Mapping[str, Any],
    calls: Any,
    reading: Reading,
    base: BridgePolicy,
) -> Any:
    entries = {key: Entry(key, data[key]) for key in LINK if key in data}
    entries["calls"] = Entry("calls", calls)
    if tools:
        entries["tools"] = Entry("tools", tools)
    return make(BridgePolicy, entries, "", reading, base=base)


def _calls(data: Mapping[str, Any], reading: Reading, base: Policy) -> Any:
    """Return the policy for calls: the layers at the top of the document, and those of its table
    `calls`.
    """
    calls: Any = base.evolve()  # with circuits and budgets of its own, not those of the preset
    top = {key: data[key] for key in LAYERS if key in data}
    if top:
        calls = read_policy(top, "", reading, base)
    if "calls" in data:
        calls = read_policy(data["calls"], "calls", reading, base if calls is BAD else calls)
    return calls


def _table(raw: Any, path: str, wanted: str, reading: Reading) -> Mapping[str, Any]:
    """Return a table that may be missing; an empty one, with a problem, for a value that is no
    table.
    """
    return {} if raw is None else reading.table(raw, path, wanted) or {}


def _tools(
    raw: Any, reading: Reading
) -> tuple[dict[str, Any], dict[str, float], dict[str, dict[str, bool]]]:
    """Read the table `tools`: layers by name, OpenViber's timeouts, and the permissions of each
    operation.
    """
    layers: dict[str, Any] = {}
    timeouts: dict[str, float] = {}
    permissions: dict[str, dict[str, bool]] = {}
    if isinstance(raw, list):  # OpenViber's: the tools that an agent has
        return layers, timeouts, permissions
    for name, item in _table(raw, "tools", "a table of tools by name", reading).items():
        at = joined("tools", name)
        if name == "default_timeout_ms":
            timeouts["default"] = _limit(item, at, reading)
        elif name == "per_tool" and isinstance(item, Mapping):
            for tool, limit in cast("Mapping[str, Any]", item).items():
                timeouts[tool] = _limit(limit, joined(at, tool), reading)
        elif not isinstance(item, Mapping):
            reading.fail(at, "a table: layers, and idempotent or required", item)
        else:
            table = dict(cast("Mapping[str, Any]", item))
            found: dict[str, Any] = {key: table.pop(key) for key in PERMISSIONS if key in table}
            for key, value in found.items():
                if not isinstance(value, bool):
                    reading.fail(joined(at, key), "true or false", value)
            permissions |= {name: found} if found else {}
            layers |= {name: table} if table or not found else {}
    return layers, timeouts, permissions


def _limit(raw: Any, path: str, reading: Reading) -> Any:
    seconds = from_millis(raw, path, reading)
    if isinstance(seconds, float) and not 0 < seconds <= LONGEST:
        return reading.fail(path, "milliseconds above 0", raw)
    return seconds


def _agent_keys() -> list[str]:
    return [field.name for field in fields_of(TOP["agent"])]


def _agent(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the document has of an agent; OpenViber's list of tools, and not the table `tools`."""
    if _KEYS.issuperset(data) and isinstance(data.get("tools", {}), Mapping):
        return {}
    found = {key: data[key] for key in _agent_keys() if key in data}
    if isinstance(found.get("tools"), Mapping):
        del found["tools"]
    return found


def _tables(data: Mapping[str, Any], agent: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    found = {
        name: read_value(TABLES[name], data[name], name, reading) for name in TABLES if name in data
    }
    _check_secrets(found.get("bridge"), reading)
    if not agent:
        return found
    found["agent"] = read_value(TOP["agent"], agent, "", reading)
    for kind, names in reading.known.items():
        known = sorted(names)
        written: Any = agent.get(kind)
        items: list[Any] = cast("Any", written) if isinstance(written, list) else []
        for index, name in enumerate(items):
            if isinstance(name, str) and name not in known:
                reading.not_one_of(known, joined(kind, index), name)
    return found


def _check_secrets(client: Any, reading: Reading) -> None:
    """Check that each reference leads to a secret now, so that nothing starts without its
    credentials.
    """
    if not isinstance(client, ClientSettings):
        return
    for name in ("url", "token", "store"):
        secret = getattr(client, name)
        if isinstance(secret, Secret):
            found = resolved(secret.reference, joined("bridge", name), reading)
            if name == "url" and found is not BAD and not found.startswith(("ws://", "wss://")):
                reading.fail(
                    "bridge.url", "a URL that begins with ws:// or wss://", secret.reference
                )
    for name, text in client.headers.entries if isinstance(client.headers, Headers) else ():
        try:
            in_words(text)
        except UnreadableError as error:
            reading.fail(joined("bridge.headers", name), error.wanted, error.reference)


def _providers(raw: Any, reading: Reading) -> dict[str, str]:
    table = _table(raw, "providers", "a table of URLs by name", reading)
    for name, url in table.items():
        at = joined("providers", name)
        if not isinstance(url, str) or address_of(url) is None:
            is_secret = isinstance(url, str) and not {"@", "?"}.isdisjoint(url)
            reading.fail(at, "the URL of a server, such as https://host", url, is_secret=is_secret)
        elif has_credentials(url):
            reading.fail(at, "a URL without a user name or a password", url, is_secret=True)
    return dict(table)


def _debug(raw: Any, reading: Reading) -> tuple[str, ...]:
    """Return the debug kinds of a text as in the variable RESILIENT_BRIDGE_DEBUG, of true or false,
    or of a list.
    """
    words: list[Any] = (
        [*cast("Any", raw)] if isinstance(raw, list) else ["" if raw is None else raw]
    )
    try:
        found = kinds_in(",".join(str(word) if word in (0, 1) else word for word in words))
    except ConfigError as error:
        reading.fail(
            "debug",
            violation_of(error)["constraint"],
            raw,
            hint=reading.near(words[0], DEBUG_KINDS),
        )
    except TypeError:  # an item that is not text
        reading.fail("debug", f"true, false, or kinds out of {', '.join(DEBUG_KINDS)}", raw)
    else:
        return tuple(kind for kind in DEBUG_KINDS if kind in found)
    return ()


def _check_toolbox(
    tables: Mapping[str, Any], policies: Mapping[str, Policy], reading: Reading
) -> None:
    name = getattr(tables.get("toolbox"), "policy", None)
    if name is not None and name not in policies:
        wanted = f"one of {', '.join(policies) or 'policies'}"
        reading.fail("toolbox.policy", wanted, name, hint=reading.near(name, policies))


def _check_fallback_model(
    tables: Mapping[str, Any], policies: Iterable[Any], reading: Reading
) -> None:
    """Warn of a fallback model that no policy calls: only a function of the program's can."""
    model = getattr(tables.get("agent"), "fallback_model", None)
    layers = (layer for policy in policies if isinstance(policy, Policy) for layer in policy.layers)
    if model is not None and not any(isinstance(layer, Fallback) for layer in layers):
        reading.warnings.append(
            f"fallback_model: no policy calls {model}: add the table `fallback` with the function that does, "
            "as in fallback: {ladder: [ask_other_model], acknowledge: ask_the_board}"
        )


def _gasoline(data: Mapping[str, Any], reading: Reading) -> Mapping[str, Any]:
    """Move Gasoline's backoff from its breaker options to `retry` and `reconnect`, where these set
    no `backoff`.
    """
    if not isinstance(data.get("breaker"), Mapping):
        return data
    breaker = dict(data["breaker"])
    schedule = gasoline_steps(breaker, "breaker", reading)
    if schedule is None:
        return data
    changed = {**data, "breaker": breaker}
    for key in ("retry", "reconnect"):
        table = data.get(key, {})
        if isinstance(table, Mapping) and schedule is not BAD:
            changed[key] = {"backoff": schedule, **cast("Mapping[str, Any]", table)}
    return changed
