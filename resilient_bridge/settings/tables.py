"""The settings beside policies: the client's arguments, the toolbox, and the tables of the
specifications.

Rule: each is a value like every other, read by the same walk. Another table is one more row of
`TABLES`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import unwrap
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import urlsplit

import attrs

from ..adapters.sidecar.options import Sidecar
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
    count,
    fits,
    flag,
    function,
    is_count,
    is_number,
    number,
    one_of,
    optional,
    path_of,
    refuse,
    share,
    tuple_of,
)
from ..values.forms import FormKind, takes


if TYPE_CHECKING:
    from ..agent import SpendBudget
    from ..agent.degradation import Degradations


_MODEL: Final = re.compile(r"[\w.-]+/[\w.:/@-]+", re.ASCII)
_MOST_PORT: Final = 65_535


def _as_headers(value: Any) -> Any:
    return (
        Headers(tuple(cast("Mapping[str, Any]", value).items()))
        if isinstance(value, Mapping)
        else value
    )


@takes("address", wanted="a ws:// or wss:// URL, or env:NAME of one")
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


@takes("secret", wanted=REFERENCE)
def _check_secret(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not callable(value):
        refuse(
            path_of(instance, attribute),
            f"{REFERENCE}: a secret is not written into settings",
            "***",
        )


@takes("headers", wanted="a table of texts; secrets by env:NAME or file:PATH")
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


@takes("text", wanted="the name of a session")
def _check_session(_: object, __: attrs.Attribute[Any], value: Any) -> None:
    check_session(value, None)


@takes("plain", wanted=PIN)
def _check_pin(_: object, __: attrs.Attribute[Any], value: Any) -> None:
    check_pin(value)


@takes("text", wanted="a path, a redis:// URL, or env:NAME of one")
def _check_store(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not (isinstance(value, str | Secret) and value):
        refuse(path_of(instance, attribute), "a path, a redis:// URL, or env:NAME of one", value)
    if isinstance(value, str) and "://" in value and "@" in value:
        refuse(path_of(instance, attribute), f"{REFERENCE}, as it holds a password", "***")


_function: Final = optional(function("a function, or None"))


@attrs.frozen(kw_only=True, repr=False, eq=False)
class ClientSettings(Value):
    """The arguments of a BridgeClient beside its policy."""

    url: Any = attrs.field(default=None, converter=as_source, validator=_check_address)
    token: Any = attrs.field(default=None, converter=as_source, validator=_check_secret)
    headers: Any = attrs.field(default=None, converter=_as_headers, validator=_check_headers)
    session_id: str | None = attrs.field(default=None, validator=_check_session)
    store: Any = attrs.field(default=None, converter=as_source, validator=_check_store)
    pin: str | tuple[str, ...] | None = attrs.field(
        default=None, converter=as_tuple, validator=_check_pin
    )
    receive: bool = attrs.field(default=True, validator=flag)
    on_gap: Any = attrs.field(default=None, validator=_function)
    on_doubt: Any = attrs.field(default=None, validator=_function)
    on_connect: Any = attrs.field(default=None, validator=_function)
    backfill: Any = attrs.field(default=None, validator=_function)
    health_check: Any = attrs.field(default=None, validator=_function)

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


def _judged(kind: FormKind, wanted: str) -> Validator:
    """Return a validator that passes the value to the constructor of Alerts, which checks it."""

    @takes(kind, wanted=wanted)
    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        Alerts(**{attribute.name: value})

    return check


_DEFAULTS: Final = cast("Mapping[str, Any]", unwrap(Alerts.__init__).__kwdefaults__)
_check_pair: Final = optional(_judged("pair", "two numbers, warning and critical, or None"))
_check_window: Final = _judged("seconds", "seconds from 1 to 86400")
_check_least: Final = _judged("count", "a whole number of at least 1")


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
    notify: Any = attrs.field(default=None, validator=_function)

    def make(self) -> Alerts:
        """Return a new Alerts with these, in which nothing is counted yet."""
        return Alerts(
            **{field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        )


# ---- the tables of the specifications --------------------------------------------------------------------------------


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


_check_model: Final = fits(
    "text",
    "a model as provider/model",
    lambda value: isinstance(value, str) and _MODEL.fullmatch(value) is not None,
)
_check_name: Final = fits("text", "a name that is not empty", _is_name)
_check_names: Final = tuple_of("a name", _is_name)
_check_temperature: Final = fits(
    "number", "a number from 0 to 2", lambda value: is_number(value) and 0 <= value <= 2
)
_check_port: Final = fits(
    "count", f"a port from 1 to {_MOST_PORT}", lambda value: is_count(value) and value <= _MOST_PORT
)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class AgentSettings(Value):
    """OpenViber's settings of an agent, at the top of a file."""

    model: str = attrs.field(validator=_check_model)
    name: str = attrs.field(validator=_check_name)
    fallback_model: str | None = attrs.field(default=None, validator=optional(_check_model))
    skills: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_check_names)
    tools: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_check_names)
    temperature: float = attrs.field(default=0.7, validator=_check_temperature)
    max_tokens: int | None = attrs.field(default=None, validator=optional(count))
    verify_providers: bool = attrs.field(default=False, validator=flag)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class BudgetSettings(Value):
    """OpenViber's budget: `SpendBudget` with its words."""

    limit_usd: float = attrs.field(default=10.0, validator=number(least=0, above=True))
    mode: Literal["soft", "hard"] = attrs.field(default="soft", validator=one_of("soft", "hard"))
    warning_threshold: float = attrs.field(default=0.8, validator=share)

    def make(self) -> SpendBudget:
        """Return a new budget with these numbers."""
        from ..agent import SpendBudget

        return SpendBudget(self.limit_usd, mode=self.mode, warn_at=self.warning_threshold)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class DegradationSettings(Value):
    """OpenViber's flags: the arguments of `degradations`."""

    disable_browser_on_error: bool = attrs.field(default=True, validator=flag)
    disable_screenshots_on_error: bool = attrs.field(default=True, validator=flag)
    reduce_parallelism_on_rate_limit: bool = attrs.field(default=True, validator=flag)

    def make(self) -> Degradations:
        """Return new `Degradations` with these flags."""
        from ..agent import degradations

        return degradations(
            **{field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        )


@attrs.frozen(kw_only=True, repr=False, eq=False)
class GasolineSettings(Value):
    """Gasoline's daemon: its address, whether it outlives its client, and whether its debug log is
    requested.
    """

    port: int = attrs.field(default=7890, validator=_check_port)
    persist: bool = attrs.field(default=False, validator=flag)
    debug: bool = attrs.field(default=False, validator=flag)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class ToolboxSettings(Value):
    """The settings of a Toolbox: the name of its policy.

    Without a name, the Toolbox has the policies of the bridge.
    """

    policy: str | None = attrs.field(default=None, validator=optional(_check_name))


TABLES: Final[Mapping[str, type]] = {
    "alerts": AlertSettings,
    "bridge": ClientSettings,
    "budget": BudgetSettings,
    "degradation": DegradationSettings,
    "gasoline": GasolineSettings,
    "mcp": Sidecar,
    "toolbox": ToolboxSettings,
}
"""The tables that hold one value each, by name; `config.tables[name]` is that value."""
AGENT_KEYS: Final = frozenset(field.name for field in attrs.fields(AgentSettings))
