"""The JSON Schema of a document of settings, made by the same walk as its reading, for editors.

Rule: the schema may accept something that the reading refuses, and refuses nothing that the reading
accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from ..calls.policy import Policy
from ..presets.bridge_policy import BridgePolicy
from ..protocol.policies.dialect import Dialect
from ..values.backoff import Backoff
from ..values.forms import Form, form_of
from .document import LINK
from .policy_tables import LAYERS, preset_names
from .seed_keys import WORDS_OF
from .tables import TABLES, AgentSettings
from .walk import default_of, fields_of


_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": ["number", "string"]}
_WHATS: Final = {"type": ["string", "integer", "object", "array"]}
_KINDS: Final[Mapping[str, dict[str, Any]]] = {
    "seconds": {"type": ["number", "string", "array"]},
    "span": {"type": ["integer", "string"]},
    "number": {"type": "number"},
    "count": {"type": ["integer", "string"]},
    "flag": {"type": "boolean"},
    "text": _TEXT,
    "texts": {"type": "array"},
    "wait": {"type": ["string", "number", "object"]},
    "whats": _WHATS,
    "pair": {"type": "array"},
    "function": _TEXT,
    "functions": {"type": ["string", "array", "boolean"]},
    "state": _TEXT,
    "secret": _TEXT,
    "address": _TEXT,
    "headers": {"type": "object", "additionalProperties": _TEXT},
}


def schema() -> dict[str, Any]:
    """Return the schema of a whole document."""
    definitions: dict[str, Any] = {}
    refer = _Definitions(definitions)
    top = {
        field.name: refer.field(field) for field in fields_of(BridgePolicy) if field.name in LINK
    }
    top |= {key: refer.layer(kind) for key, kind in LAYERS.items()}
    top |= {name: refer.of(kind) for name, kind in TABLES.items()}
    top |= {field.name: refer.field(field) for field in fields_of(AgentSettings)}
    top["preset"] = {"enum": preset_names()}
    top["debug"] = {"type": ["boolean", "integer", "string", "array", "null"]}
    top["calls"] = refer.of(Policy)
    top["policies"] = {"type": "object", "additionalProperties": refer.of(Policy)}
    top["providers"] = {"type": "object", "additionalProperties": _TEXT}
    top["tools"] = {"type": ["object", "array"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "resilient_bridge settings",
        "type": "object",
        "additionalProperties": False,
        "properties": dict(sorted(top.items())),
        "$defs": dict(sorted(definitions.items())),
    }


@attrs.frozen
class _Definitions:
    """Collects the schema of each class once, under `$defs`."""

    found: dict[str, Any]

    def of(self, kind: type) -> dict[str, Any]:
        name = kind.__name__
        if name not in self.found:
            self.found[name] = {}  # for a class that refers to itself
            made: Callable[[], dict[str, Any]] = (
                self._policy if kind is Policy else lambda: self._table(kind)
            )
            self.found[name] = made()
        return {"$ref": f"#/$defs/{name}"}

    def layer(self, kind: type) -> dict[str, Any]:
        return {"anyOf": [self.of(kind), {"type": "boolean"}]}

    def _policy(self) -> dict[str, Any]:
        table: dict[str, Any] = {key: self.layer(kind) for key, kind in LAYERS.items()}
        table |= {
            "name": _TEXT,
            "preset": _TEXT,
            "state": _TEXT,
            "order": {"type": "array", "items": _TEXT},
        }
        return {"type": "object", "additionalProperties": False, "properties": table}

    def _table(self, kind: type) -> dict[str, Any]:
        fields = {field.name: self.field(field) for field in fields_of(kind)}
        for field in fields_of(kind):
            if form_of(field.validator).kind == "seconds":
                fields[f"{field.name}_ms"] = {"type": ["number", "array"]}
        fields |= {word: {} for word in WORDS_OF.get(kind, ())}
        table: dict[str, Any] = {
            "type": "object",
            "additionalProperties": False,
            "properties": fields,
        }
        first = fields_of(kind)[0]
        if kind in (Backoff, Dialect):
            return {"anyOf": [table, _TEXT, *([_NUMBER] if kind is Backoff else [])]}
        return table if first.kw_only else {"anyOf": [table, self.field(first)]}

    def field(self, field: attrs.Attribute[Any]) -> dict[str, Any]:
        form = form_of(field.validator)
        found = self._form(form)
        if form.kind not in {"flag", "plain", "functions"} and found:
            found = {"anyOf": [found, {"enum": [False, None]}]}
        default = default_of(field)
        if isinstance(default, bool | int | float | str) and found:
            found = {**found, "default": default}
        return {**found, "description": form.wanted} if form.wanted else found

    def _form(self, form: Form) -> dict[str, Any]:
        if form.of is not None and form.kind == "value":
            return {"anyOf": [self.of(form.of), {"const": True}]}
        if form.of is not None and form.kind == "values":
            return {"type": "array", "items": self.of(form.of)}
        if form.of is not None and form.kind in {"rules", "policies"}:
            return {
                "type": "object",
                "additionalProperties": {"anyOf": [self.of(form.of), {"const": False}]},
            }
        if form.kind == "word":
            return {"enum": list(form.words)}
        return dict(_KINDS.get(form.kind, {}))
