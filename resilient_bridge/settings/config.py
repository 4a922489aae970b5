"""`load`, `dump` and `Config`: policies, the client's arguments and a toolbox from a document of
settings.

Rule: `load` and `reload` read everything without a problem, or raise and change nothing.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload

import attrs

from ..calls import strategies
from ..calls.policy import Policy
from ..calls.retry.value import RetryBudget
from ..config.documents import joined
from ..failure import Problem, config_error, config_errors
from ..failure.teaching import taught
from ..locks import new_rlock
from ..presets.bridge_policy import BridgePolicy
from ..protocol.policies.dialect import Dialect
from ..protocol.policies.ends import End
from ..protocol.policies.heartbeat import Heartbeat
from ..protocol.policies.inbox import Inbox
from ..protocol.policies.outbox import Outbox
from ..protocol.policies.positions import Positions
from ..protocol.policies.reconnect import Reconnect
from ..protocol.policies.replay import Replay
from ..telemetry.debug import VARIABLE as DEBUG_VARIABLE
from ..telemetry.debug import Debug
from ..values.backoff import Backoff
from ..values.rule import Rule
from .document import Settings, new_reading, read_settings
from .fields import read_value
from .provider_check import Check, connects, failed_checks
from .sources import Merged, read_sources
from .tables import SIDECAR, AlertSettings, Classes, ClientSettings
from .writing import Line, Writer, explain, shown


if TYPE_CHECKING:
    from ..agent import Toolbox
    from ..calls.policy import SettingsSource
    from ..stores import Effects
    from ..telemetry.alerts import Alerts


T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_VALUES: Final[Sequence[type | str]] = (
    *strategies(), AlertSettings, Backoff, BridgePolicy, Dialect, End, Heartbeat, Inbox, Outbox, Policy, Positions, Reconnect,
    Replay, RetryBudget, Rule, SIDECAR,
)  # fmt: skip


def _name(kind: type | str) -> str:
    return kind.rpartition(":")[2] if isinstance(kind, str) else kind.__name__


KINDS: Final[Mapping[str, type]] = Classes(
    {_name(kind): kind for kind in sorted(_VALUES, key=_name)}
)
"""The values that can be written and read alone, by the name of their class."""


@attrs.frozen
class Change:
    """A setting that `reload` changed: its path, its value before and after.

        config = rb.load("bridge.toml")
        for change in config.reload():
            print(change.path, change.before, change.after)

    None where it is not set.
    """

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        """Return it as `path: before → after`."""
        return f"{self.path}: {self.before!r} → {self.after!r}"


class Config:
    """Settings that were read and checked: `bridge`, `policies` by name, `client`, `tables` by
    name, `toolbox`, `effects`, `alerts`, `debug`, `warnings`.

        config = rb.load("bridge.toml")

        @config.protect("search", idempotent=True)
        def search(query: str) -> str: ...

        config.reload()      # `search` has the new numbers, and its circuit is kept

    `reload()` reads the same sources again. Values are replaced; circuits and budgets of
    `policies`, and of functions that `protect` decorated, keep their state.
    """

    def __init__(
        self, read: Callable[[], tuple[Settings, Merged]], names: Mapping[str, Any]
    ) -> None:
        self._read, self._names = read, names
        self._settings, self._merged = read()
        self._protected: dict[weakref.ref[Any], str] = {}
        self._toolbox: Toolbox | None = None
        self._alerts: Alerts | None = None
        self._effects: Effects | None = None
        self._making = new_rlock()  # what is created once

    @property
    def bridge(self) -> BridgePolicy:
        """The policy of the link; `bridge.calls` is the one for calls, `bridge.tools` those for
        tools.
        """
        return self._settings.bridge

    @property
    def policies(self) -> Mapping[str, Policy]:
        """The named policies."""
        return MappingProxyType(dict(self._settings.policies))

    @property
    def client(self) -> ClientSettings:
        """The table `bridge`: the client's address and credentials."""
        return cast("ClientSettings", self._settings.tables.get("bridge", ClientSettings()))

    @property
    def tables(self) -> Mapping[str, Any]:
        """Every other table as a value, by name.

        `agent` has OpenViber's settings at the top of the file.
        """
        return MappingProxyType(dict(self._settings.tables))

    @property
    def alerts(self) -> Alerts:
        """Alerts with the arguments of table `alerts`, for `with config.alerts:`; created once."""
        with self._making:
            if self._alerts is None:
                table: AlertSettings = self._settings.tables.get("alerts", AlertSettings())
                self._alerts = table.make()
            return self._alerts

    @property
    def effects(self) -> Effects | None:
        """What remembers calls that must not run twice, by the table `effects`; None without one.

        Created once: `toolbox`, and the functions of `protect` that may not run twice, have it.
        """
        with self._making:
            table: Any = self._settings.tables.get("effects")
            if self._effects is None and table is not None:
                self._effects = table.make()
            return self._effects

    @property
    def debug(self) -> Debug:
        """A new Debug with the kinds of `debug` (all, if `gasoline.debug` is true), for `with
        config.debug:`.
        """
        is_gasoline = getattr(self._settings.tables.get("gasoline"), "debug", False)
        return Debug.from_env(
            {DEBUG_VARIABLE: "*" if is_gasoline else ",".join(self._settings.debug)}
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Settings that are allowed, but probably a mistake."""
        return self._settings.warnings

    @property
    def merged(self) -> Merged:
        """The merged document of all sources, and where each path was written."""
        return self._merged

    @property
    def toolbox(self) -> Toolbox:
        """A Toolbox with these policies, timeouts and permissions, created on first use."""
        with self._making:
            if self._toolbox is None:
                from ..agent import Toolbox

                self._toolbox = Toolbox(**self.toolbox_arguments())
            return self._toolbox

    def toolbox_arguments(self) -> dict[str, Any]:
        """Return the arguments of a Toolbox."""
        now = self._settings
        named = getattr(now.tables.get("toolbox"), "policy", None)
        permissions = now.permissions.items()
        return {
            "policy": now.bridge if named is None else now.bridge.evolve(calls=now.policies[named]),
            "timeouts": dict(now.timeouts),
            "idempotent": [name for name, found in permissions if found.get("idempotent", False)],
            "optional": [name for name, found in permissions if not found.get("required", True)],
            "effects": self.effects,
        }

    def policy(self, name: str, /) -> Policy:
        """Return the policy of this name. Raises ConfigError if it does not exist."""
        found = self._settings.policies.get(name)
        if found is None:
            raise config_error(
                "policies", f"one of {', '.join(self._settings.policies) or 'none'}", name
            )
        return found

    def protect(self, name: str, /, *, idempotent: bool | None = None) -> Callable[[F], F]:
        """Decorate a function with the policy of this name, as `policies[name](idempotent=…)` does;
        `reload` replaces its policy.

        With `idempotent=False` and a table `effects`, a call that is identical to one in doubt is
        not made: it raises EffectHeldError.
        """
        policy = self.policy(name)
        effects = self.effects if idempotent is False else None

        def decorate(function: F) -> F:
            protected: Any = policy(function, idempotent=idempotent, effects=effects)
            self._protected[weakref.ref(protected, self._forget)] = name
            return cast("F", protected)

        return decorate

    def _forget(self, reference: weakref.ref[Any]) -> None:
        self._protected.pop(reference, None)

    def explain(self) -> list[Line]:
        """Return every setting in force as `path`, `value` and `source`.

        A source is the environment, a line of the file, a preset or the default.
        """
        return explain(self._settings, self._merged, self._names)

    def reload(self) -> tuple[Change, ...]:
        """Read the sources again and return the changed settings, in the order of their paths.

        Raises ConfigError with every problem of the sources; the settings in force then stay.
        Policies keep their circuits and budgets. A BridgeClient, a Toolbox, Effects, Alerts or a
        function that was not decorated by `protect` keeps the settings that it was created with; `client`,
        `bridge` and `policies` are the new ones. Nothing watches the file: the caller decides when
        to reload.
        """
        settings, merged = self._read()
        gone = dict.fromkeys(
            name for name in self._protected.values() if name not in settings.policies
        )
        if gone:
            words = "wanted, because a function is decorated with it; it is missing"
            raise config_errors(
                merged.title, [Problem(joined("policies", name), words) for name in gone]
            )
        changes = _changes(self._settings, settings, self._names)
        for name, policy in settings.policies.items():
            if name in self.policies:
                policy.take_states(self.policies[name])
        settings.bridge.calls.take_states(self.bridge.calls)
        self._settings, self._merged = settings, merged
        for reference, name in list(self._protected.items()):
            function: Any = reference()
            if function is not None:
                function.policy = settings.policies[name]
        return changes

    async def verify_providers(
        self,
        checks: Mapping[str, Check] | None = None,
        /,
        *,
        timeout: float = 5.0,  # noqa: ASYNC109 -- for all of them
    ) -> None:
        """Check all providers at once, if the settings say `verify_providers = true`.

        Otherwise do nothing.

        `checks` are async functions by name, which return False or raise if a provider is down;
        without them a connection is made to each URL of the table `providers`. Raises ConfigError
        with a problem `providers.NAME` for each that failed, or did not answer within `timeout`
        seconds.
        """
        if not getattr(self._settings.tables.get("agent"), "verify_providers", False):
            return
        failed = await self.failed_providers(checks, timeout)
        if failed:
            raise config_errors(self._merged.title, failed)

    async def failed_providers(
        self, checks: Mapping[str, Check] | None, seconds: float
    ) -> list[Problem]:
        """Return a problem for each provider that does not answer, whatever the settings say.

        Internal.
        """
        made = {name: connects(url) for name, url in self._settings.providers.items()}
        return await failed_checks(made if checks is None else checks, seconds)

    def __repr__(self) -> str:
        """Return the names of what was read, without any values."""
        return (
            f"<Config {self._merged.title} policies={', '.join(self._settings.policies) or 'none'}>"
        )


def _changes(old: Settings, new: Settings, names: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return the settings that differ, also if they differ only in the query of a URL, which is not
    shown.
    """
    before, after = (shown(each, names) for each in (old, new))
    was, now = (shown(each, names, is_bare=True) for each in (old, new))
    paths = [path for path in sorted({*was, *now}) if was.get(path) != now.get(path)]
    return tuple(Change(path, before.get(path), after.get(path)) for path in paths)


@overload
def load(
    source: SettingsSource = ...,
    kind: None = ...,
    /,
    *,
    names: Mapping[str, Any] | None = ...,
    env: bool | Mapping[str, str] = ...,
    known: Mapping[str, Collection[str]] | None = ...,
) -> Config: ...
@overload
def load(
    source: SettingsSource,
    kind: type[T],
    /,
    *,
    names: Mapping[str, Any] | None = ...,
    env: bool | Mapping[str, str] = ...,
    known: Mapping[str, Collection[str]] | None = ...,
) -> T: ...
@taught
def load(
    source: SettingsSource = None,
    kind: type[Any] | None = None,
    /,
    *,
    names: Mapping[str, Any] | None = None,
    env: bool | Mapping[str, str] = False,
    known: Mapping[str, Collection[str]] | None = None,
) -> Any:
    """Read settings from a file (.toml, .json, .yaml), a dict or the environment, and return the
    checked Config.

        config = rb.load({"policies": {"search": {"retry": {"attempts": 3}}}})
        print(config.policy("search").explain().max_calls)      # 3

    `names` are the functions and exception classes that settings may name; no setting is ever
    imported or run. `env=True` adds the variables that begin with `RESILIENT_BRIDGE_`, which
    override the source (`RESILIENT_BRIDGE_RETRY__ATTEMPTS=6`); a mapping replaces `os.environ`.
    `known` lists the existing `tools` and `skills`. With `kind`, or for the output of `dump` for a
    value, it returns that value.

    Raises ConfigError with all problems at once, each with its path, what was wanted and got, its
    line where the format has lines, and the nearest name. Nothing has been started then.
    """
    environment = _environment(env)
    _check_arguments(source, names)

    def read() -> tuple[Settings, Merged]:
        merged = read_sources(source, environment)
        reading = new_reading(names, known, merged.texts)
        settings = read_settings(merged.data, reading)
        if settings is None:
            raise config_errors(merged.title, in_order(reading.problems, merged))
        return settings, merged

    wanted = _kind_of(source, kind)
    if wanted is None or wanted is Config:
        return Config(read, {} if names is None else names)
    merged = read_sources(source, environment)
    data = {key: value for key, value in merged.data.items() if key != "kind"}
    reading = new_reading(names, known, merged.texts)
    value = read_value(wanted, data["value"] if set(data) == {"value"} else data, "", reading)
    if reading.problems:
        raise config_errors(merged.title, in_order(reading.problems, merged))
    return value


def _environment(env: object) -> Mapping[str, str] | None:
    if isinstance(env, bool):
        return os.environ if env else None
    if not isinstance(env, Mapping):
        raise config_error("load.env", "True, False, or a mapping in the place of os.environ", env)
    return cast("Mapping[str, str]", env)


def _check_arguments(source: object, names: object) -> None:
    if source is not None and not isinstance(source, str | os.PathLike | Mapping):
        raise config_error(
            "load.source", "a path, a dict, or None for the environment alone", source
        )
    if names is not None and not isinstance(names, Mapping):
        raise config_error("load.names", "a mapping of names to functions and classes", names)


def _kind_of(source: SettingsSource, kind: type[Any] | None) -> type[Any] | None:
    if kind is not None:
        if kind is not Config and KINDS.get(getattr(kind, "__name__", "")) is not kind:
            raise config_error("load.kind", f"one of {', '.join(KINDS)}", kind)
        return kind
    named: Any = source.get("kind") if isinstance(source, Mapping) else None
    if named is None:
        return None
    if not isinstance(named, str) or named not in KINDS:
        raise config_errors(
            "a dict", [Problem("kind", f"wanted one of {', '.join(KINDS)}, got {named!r}", named)]
        )
    return KINDS[named]


def in_order(problems: Iterable[Problem], merged: Merged) -> list[Problem]:
    """Return each problem once, with its line or its variable, in the order in which the document
    has them.
    """
    order = {path: number for number, path in enumerate(merged.origins)}
    found: dict[tuple[str, str], tuple[int, Problem]] = {}
    for problem in problems:
        origin = merged.origin(problem.path)
        line = None if origin is None else origin.line
        if origin is not None and origin.source != merged.below:
            problem = problem._replace(message=f"{problem.message} (from {origin.source})")  # noqa: PLW2901
        number = order.get(merged.nearest(problem.path), -1)
        found.setdefault((problem.path, problem.message), (number, problem._replace(line=line)))
    return [problem for _, problem in sorted(found.values(), key=lambda item: item[0])]


@taught
def dump(value: Any, /, *, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a value or a Config as plain data that `load` reads back as an equal one, without
    defaults.

        print(rb.settings.dump(rb.RateLimit(5)))      # {'kind': 'RateLimit', 'calls': 5}

    `names` are the functions and classes that may be named, as in `load`. Raises ConfigError with
    the path of a value that settings cannot express, such as a function without a name. The data
    fits TOML, YAML and JSON. For a Config it is the document that was read, in which a secret is a
    reference; the query of a URL stays in it.
    """
    if isinstance(value, Config):
        return deepcopy(dict(value.merged.data))
    if KINDS.get(type(value).__name__) is not type(value):
        raise config_error("dump.value", f"a Config, or one of {', '.join(KINDS)}", value)
    written = Writer({} if names is None else names).write(value, type(value).__name__)
    table = cast("dict[str, Any]", written) if isinstance(written, dict) else {"value": written}
    return {"kind": type(value).__name__, **table}
