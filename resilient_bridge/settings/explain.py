"""The settings in force, one by one, with their sources: the environment, a line of a file, a
preset, the default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import attrs

from ..config.paths import joined
from ..presets import default as default_policy
from ..presets.bridge_policy import BridgePolicy
from .fields import default_of, fields_of
from .policy_tables import NAMES
from .writing import Writer


if TYPE_CHECKING:
    from .document import Settings
    from .sources import Merged


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
        origin = around if around is not None and _is_written(path, short, merged) else None
    if origin is None:
        return None
    return origin.source + (f", line {origin.line}" if origin.line else "")


def _of_tool(path: str) -> str:
    """Return the path in the document of a tool's timeout or permission."""
    kind, _, name = path.partition(".")
    if kind == "tool_timeouts":
        return "tools.default_timeout_ms" if name == "default" else f"tools.per_tool.{name}"
    return f"tools.{name}" if kind == "tool_permissions" else path


def _is_written(path: str, short: str, merged: Merged) -> bool:
    """Return whether the document has this setting under another key, or in a shared value."""
    tables = (path.rpartition(".")[0], short.rpartition(".")[0])
    return any(each.startswith(tables) for each in merged.origins)
