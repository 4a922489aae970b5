"""Settings as plain data: written so that `load` reads back an equal value, and shown with their sources.

Rule: what differs from the defaults is written, and nothing is omitted silently: a value without a
text form is refused with its path. What is shown has no secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import attrs

from ..calls.policy import Policy
from ..client.arguments import shown as shown_url
from ..config.documents import joined
from ..config.texts import write_span
from ..failure import config_error
from ..presets import default as default_policy
from ..presets.bridge_policy import BridgePolicy
from ..protocol.policies.dialect import Dialect
from ..transports.references import Headers, Secret
from ..values.backoff import Backoff, parse_schedule
from ..values.fields import Value
from .failure_words import write_what
from .fields import ADDRESS, default_of, fields_of, forms_of
from .spellings import LAYERS, NAMES, ready


if TYPE_CHECKING:
    from .document import Settings
    from .sources import Merged


@attrs.frozen
class Writer:
    """Writes values as plain data: `names` are the caller's, `is_full` writes defaults too.

    With `is_print`, a value without a text form is shown by its name, and a URL is written without
    its query, which may hold a secret. With `is_bare`, the query is kept: that result is only
    compared, and never shown.
    """

    names: Mapping[str, Any]
    is_full: bool = False
    is_print: bool = False
    is_bare: bool = False

    def write(self, value: Any, path: str) -> Any:
        """Return plain data for a value."""
        if isinstance(value, Policy):
            return self._policy(value, path)
        if isinstance(value, Backoff):
            return self._schedule(value, path)
        if isinstance(value, Dialect):
            name = next((name for name, each in ready().items() if each == value), None)
            return self._table(value, path) if name is None else name
        if isinstance(value, Secret):
            return value.reference
        if isinstance(value, Headers):
            return {name: self.write(text, joined(path, name)) for name, text in value.entries}
        if isinstance(value, Value):
            return self._table(value, path)
        return self._plain(value, path)

    def _plain(self, value: Any, path: str) -> Any:
        if value is None:
            return None if self.is_print else False  # TOML has no null
        if isinstance(value, timedelta):
            return write_span(value)
        if isinstance(value, tuple | list):
            items = cast("tuple[Any, ...]", value)
            return [self.write(item, joined(path, n)) for n, item in enumerate(items)]
        if isinstance(value, Mapping):
            table = cast("Mapping[str, Any]", value)
            return {key: self.write(item, joined(path, key)) for key, item in table.items()}
        if isinstance(value, bool | int | float | str):
            return value
        named = next((name for name, each in self.names.items() if each is value), None)
        if named is not None:
            return named
        return self._unsaid(value, path, "something that settings can say, or one of names=")

    def _unsaid(self, value: Any, path: str, wanted: str) -> str:
        if not self.is_print:
            raise config_error(path, wanted, value)
        return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"

    def _table(self, value: Any, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for field in fields_of(value.__class__):
            item = getattr(value, field.name)
            default = default_of(field)
            if not self.is_full and type(item) is type(default) and item == default:
                continue
            at, kind = joined(path, field.name), forms_of(value.__class__)[field.name].kind
            if kind.write is not None:
                found[field.name] = kind.write(item, at, self._what, self.write)
            elif kind is ADDRESS and self.is_print and not self.is_bare and isinstance(item, str):
                found[field.name] = shown_url(item)
            else:
                found[field.name] = self.write(item, at)
        return found

    def _what(self, what: Any, path: str) -> Any:
        written = write_what(what, self.names)
        if written is None:
            return self._unsaid(what, path, "a failure that settings can say, or one of names=")
        return written

    def _schedule(self, schedule: Backoff, path: str) -> Any:
        """Return it as in code, or as a table if no constructor makes it."""
        text = repr(schedule).replace("Backoff.", "")
        try:
            if parse_schedule(text) == schedule:
                return text
        except ValueError:  # too long, or too deep
            pass
        return {
            field.name: self.write(getattr(schedule, field.name), path)
            for field in fields_of(Backoff)
        }

    def _policy(self, policy: Policy, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for layer in policy.layers:
            key = NAMES.get(type(layer), type(layer).__name__)
            at = joined(path, key)
            if type(layer) in NAMES:
                found[key] = self._table(layer, at)
            else:  # one of the user's own
                found[key] = self._unsaid(layer, at, "a layer that settings can say")
        order = list(found)
        if order != [key for key in LAYERS if key in order]:
            found["order"] = order
        if policy.name is not None:
            found["name"] = policy.name
        if policy.state is not None:
            found["state"] = self._state(policy.state, joined(path, "state"))
        return found

    def _state(self, state: object, path: str) -> Any:
        from ..stores import MachineState  # imported here: few settings have one

        if isinstance(state, MachineState):
            return str(state.path)
        wanted = "None: the URL of a state may hold a secret, so write it yourself as env:NAME"
        return self._unsaid(state, path, wanted)


# ---- the settings in force: the environment, a line of a file, a preset, the default -----------------------------------


_CALLS: Final = "calls."
_URL_END: Final = re.compile(r"[?#]")


class Line(NamedTuple):
    """One setting in force."""

    path: str
    value: Any
    source: str


def shown(
    settings: Settings, names: Mapping[str, Any], *, is_full: bool = False, is_bare: bool = False
) -> dict[str, Any]:
    """Return everything that was read as plain data, each setting by its whole path, without
    secrets.

    `is_bare` includes the queries of URLs: to be compared, and never shown.
    """
    writer = Writer(names, is_full=is_full, is_print=True, is_bare=is_bare)
    tables = {name: writer.write(value, name) for name, value in settings.tables.items()}
    agent = tables.pop("agent", {})
    policies = {name: writer.write(policy, name) for name, policy in settings.policies.items()}
    link = {**writer.write(settings.bridge, ""), **tables}
    others: dict[str, Any] = {"policies": policies}
    others["providers"] = {
        name: url if is_bare else _URL_END.split(url)[0] for name, url in settings.providers.items()
    }
    others["debug"] = list(settings.debug)
    others["tool_timeouts"] = dict(settings.timeouts)
    others["tool_permissions"] = {name: dict(each) for name, each in settings.permissions.items()}
    # Each part separately: an agent's list of tools and the link's policies for tools have the same
    # key.
    return flat(_filled(link)) | flat(_filled(agent)) | flat(_filled(others))


def _filled(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value not in ({}, [])}


def flat(data: Any, path: str = "") -> dict[str, Any]:
    """Return each setting by its whole path."""
    if not isinstance(data, Mapping) or (path and not data):
        return {path: data}
    found: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", data).items():
        found |= flat(value, joined(path, key))
    return found


def explain(settings: Settings, merged: Merged, names: Mapping[str, Any]) -> list[Line]:
    """Return every setting of the bridge and of the document's other tables, with its source."""
    from .. import presets

    name = merged.data.get("preset")
    base: BridgePolicy = default_policy if name is None else getattr(presets, str(name))
    writer = Writer(names, is_full=True, is_print=True)
    of_base, of_default = flat(writer.write(base, "")), flat(writer.write(default_policy, ""))
    of_base |= _defaults(settings, writer)
    found: list[Line] = []
    for path, value in shown(settings, names, is_full=True).items():
        origin = _origin(path, merged, is_changed=path not in of_base or of_base[path] != value)
        if origin is None:
            is_preset = path in of_base and (
                path not in of_default or of_default[path] != of_base[path]
            )
            is_of_link = path.partition(".")[0] in attrs.fields_dict(BridgePolicy)
            origin = f"preset {name}" if is_preset and is_of_link else "default"
        found.append(Line(path, value, origin))
    return found


def _defaults(settings: Settings, writer: Writer) -> dict[str, Any]:
    """Return the defaults of what no preset has: tables, and the layers of named policies."""
    values: dict[str, type] = {
        name if name != "agent" else "": type(value) for name, value in settings.tables.items()
    }
    for name, policy in settings.policies.items():
        values |= {
            joined(joined("policies", name), NAMES[type(layer)]): type(layer)
            for layer in policy.layers
            if type(layer) in NAMES
        }
    found: dict[str, Any] = {}
    for path, kind in values.items():
        for field in fields_of(kind):
            default = default_of(field)
            if default is not attrs.NOTHING:
                at = joined(path, field.name)
                found |= flat(writer.write(default, at), at)
    return found


def _origin(path: str, merged: Merged, *, is_changed: bool) -> str | None:
    """Return where a setting was written; None if it has no origin.

    If only the table around it has an origin, that one is returned, provided the value differs from
    the base's.
    """
    short = path.removeprefix(_CALLS)
    exact = next((each for each in (path, short, _of_tool(path)) if each in merged.origins), None)
    origin = merged.origins[exact] if exact else None
    if origin is None and is_changed:
        around = merged.origin(path) or (merged.origin(short) if short != path else None)
        # under another key, or in a shared value
        tables = (path.rpartition(".")[0], short.rpartition(".")[0])
        origin = around if any(each.startswith(tables) for each in merged.origins) else None
    if origin is None:
        return None
    return origin.source + (f", line {origin.line}" if origin.line else "")


def _of_tool(path: str) -> str:
    """Return the path in the document of a tool's timeout or permission."""
    kind, _, name = path.partition(".")
    if kind == "tool_timeouts":
        return "tools.default_timeout_ms" if name == "default" else f"tools.per_tool.{name}"
    return f"tools.{name}" if kind == "tool_permissions" else path
