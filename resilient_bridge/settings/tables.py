"""The settings beside policies: the client's arguments, alerts, Gasoline's daemon, and the tables of other rooms.

Rule: each is a value like every other, read by the same walk. Another table is one more row of
`TABLES`. A class of a room above the core (the agent, MCP), and one that few documents have, stands
there by its name, and is imported when its table stands in a document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from inspect import unwrap
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

import attrs

from ..client.arguments import PIN, check_pin, check_session, check_url, shown
from ..failure import is_sensitive
from ..telemetry.alerts import Alerts
from ..transports.references import REFERENCE, Headers, Secret, as_source, only_names_secret
from ..values.fields import (
    Validator,
    Value,
    as_seconds,
    as_tuple,
    called,
    fits,
    flag,
    function,
    is_count,
    optional,
    path_of,
    refuse,
    wants,
)


Address: TypeAlias = "str | Secret | Callable[[], str] | None"
"""The URL of a client: a text, a reference to one, or a function that returns it."""
_MODEL: Final = re.compile(r"[\w.-]+/[\w.:/@-]+", re.ASCII)
_MOST_PORT: Final = 65_535


def _as_headers(value: Any) -> Any:
    return (
        Headers(tuple(cast("Mapping[str, Any]", value).items()))
        if isinstance(value, Mapping)
        else value
    )


@wants("a ws:// or wss:// URL, or env:NAME of one")
def _check_address(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is None:
        return
    check_url(value)
    if isinstance(value, str):
        try:
            parts = urlsplit(value)
        except ValueError:
            refuse(path_of(instance, attribute), "a URL that can be taken apart", "one that cannot")
        if (parts.username, parts.password) != (None, None):
            held = "a user name" if parts.password is None else "a password"
            refuse(path_of(instance, attribute), f"{REFERENCE}, as it holds {held}", "***")


@wants(REFERENCE)
def _check_secret(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not callable(value):
        refuse(
            path_of(instance, attribute),
            f"{REFERENCE}: a secret is not written into settings",
            "***",
        )


@wants("a table of texts; secrets by env:NAME or file:PATH")
def _check_headers(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    path = path_of(instance, attribute)
    if value is None or (callable(value) and not isinstance(value, Headers)):
        return
    if not isinstance(value, Headers):
        refuse(path, "a table of texts", value)
    entries: Any = value.entries
    for name, text in entries:
        if not isinstance(text, str):
            refuse(f"{path}.{name}", "a text", text)
        if is_sensitive(name) and not only_names_secret(text):
            refuse(f"{path}.{name}", f"{REFERENCE}: a secret is not written into settings", "***")


@wants("a path, a redis:// URL, or env:NAME of one")
def _check_store(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not (isinstance(value, str | Secret) and value):
        refuse(path_of(instance, attribute), "a path, a redis:// URL, or env:NAME of one", value)
    if isinstance(value, str) and "://" in value and "@" in value:
        refuse(path_of(instance, attribute), f"{REFERENCE}, as it holds a password", "***")


def judged(wanted: str, check: Callable[[str, Any], object]) -> Validator:
    """Return a validator that passes the name and the value to what checks the argument anyway."""

    @wants(wanted)
    def judge(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        check(attribute.name, value)

    return judge


_check_session: Final = judged("the name of a session", lambda _, value: check_session(value, None))
_check_pin: Final = judged(PIN, lambda _, value: check_pin(value))
_function: Final = optional(function("a function, or None"))


@attrs.frozen(kw_only=True, repr=False, eq=False)
class ClientSettings(Value):
    """The arguments of a BridgeClient beside its policy."""

    url: Address = attrs.field(default=None, converter=as_source, validator=_check_address)
    token: Secret | None = attrs.field(default=None, converter=as_source, validator=_check_secret)
    headers: Headers | None = attrs.field(
        default=None, converter=_as_headers, validator=_check_headers
    )
    session_id: str | None = attrs.field(default=None, validator=_check_session)
    store: str | Secret | None = attrs.field(
        default=None, converter=as_source, validator=_check_store
    )
    pin: str | tuple[str, ...] | None = attrs.field(
        default=None, converter=as_tuple, validator=_check_pin
    )
    receive: bool = attrs.field(default=True, validator=flag)
    on_gap: Callable[..., Any] | None = attrs.field(default=None, validator=_function)
    on_doubt: Callable[..., Any] | None = attrs.field(default=None, validator=_function)
    on_connect: Callable[..., Any] | None = attrs.field(default=None, validator=_function)
    backfill: Callable[..., Any] | None = attrs.field(default=None, validator=_function)
    health_check: Callable[..., Any] | None = attrs.field(default=None, validator=_function)

    def __repr__(self) -> str:
        """Return the call that makes it, without the query of its URL, which may hold a secret."""
        return (
            called(self, url=repr(shown(self.url))) if isinstance(self.url, str) else called(self)
        )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `BridgeClient` that differ from the defaults."""
        found = {
            field.name: getattr(self, field.name)
            for field in attrs.fields(type(self))
            if getattr(self, field.name) != field.default
        }
        if isinstance(found.get("store"), Secret):
            found["store"] = found["store"]()
        return found


# ---- alerts ----------------------------------------------------------------------------------------------------------


_DEFAULTS: Final = cast("Mapping[str, Any]", unwrap(Alerts.__init__).__kwdefaults__)
_of_alerts: Final = partial(judged, check=lambda name, value: Alerts(**{name: value}))
_check_pair: Final = optional(_of_alerts("two numbers, warning and critical, or None"))
_check_window: Final = _of_alerts("seconds from 1 to 86400")
_check_least: Final = _of_alerts("a whole number of at least 1")


def _pair(name: str) -> Any:
    return attrs.field(default=_DEFAULTS[name], converter=as_tuple, validator=_check_pair)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class AlertSettings(Value):
    """The arguments of Alerts: its thresholds, `window`, `least_calls` and `notify`."""

    error_rate: tuple[float, float] | None = _pair("error_rate")
    reconnect_failures: tuple[float, float] | None = _pair("reconnect_failures")
    session_drops: tuple[float, float] | None = _pair("session_drops")
    hook_failures: tuple[float, float] | None = _pair("hook_failures")
    window: float = attrs.field(
        default=_DEFAULTS["window"], converter=as_seconds, validator=_check_window
    )
    least_calls: int = attrs.field(default=_DEFAULTS["least_calls"], validator=_check_least)
    notify: Callable[..., Any] | None = attrs.field(default=None, validator=_function)

    def make(self) -> Alerts:
        """Return a new Alerts with these, in which nothing is counted yet."""
        return Alerts(
            **{field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        )


# ---- Gasoline's daemon -------------------------------------------------------------------------------------------------


_check_port: Final = fits(
    f"a port from 1 to {_MOST_PORT}", lambda value: is_count(value) and value <= _MOST_PORT
)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class GasolineSettings(Value):
    """Gasoline's daemon: its address, whether it outlives its client, and whether its debug log is
    requested.
    """

    port: int = attrs.field(default=7890, validator=_check_port)
    persist: bool = attrs.field(default=False, validator=flag)
    debug: bool = attrs.field(default=False, validator=flag)


# ---- all of them -----------------------------------------------------------------------------------------------------


class Classes(Mapping[str, type]):
    """Classes by name; one in a room above the core is imported when it is asked for, and not before."""

    def __init__(self, entries: Mapping[str, type | str]) -> None:
        """Keep each class, or "module:Class" in this package."""
        self._entries = entries

    def __getitem__(self, name: str) -> type:
        """Return the class of this name."""
        entry = self._entries[name]
        if not isinstance(entry, str):
            return entry
        module, _, kind = entry.partition(":")
        found: type = getattr(import_module(f"resilient_bridge.{module}"), kind)
        return found

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._entries)


SIDECAR: Final = "adapters.sidecar.options:Sidecar"
TABLES: Final[Mapping[str, type]] = Classes(
    {
        "alerts": AlertSettings,
        "bridge": ClientSettings,
        "budget": "agent.tables:BudgetSettings",
        "degradation": "agent.tables:DegradationSettings",
        "effects": "settings.effects:EffectSettings",
        "gasoline": GasolineSettings,
        "mcp": SIDECAR,
        "toolbox": "agent.tables:ToolboxSettings",
    }
)
"""The tables that hold one value each, by name; `config.tables[name]` is that value."""
TOP: Final[Mapping[str, type]] = Classes({"agent": "agent.tables:AgentSettings"})
"""The values whose fields stand at the top of a document."""
