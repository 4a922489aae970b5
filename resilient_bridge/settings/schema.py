"""The JSON Schema of a document of settings, made by the same walk as its reading, for editors.

Rule: the schema may accept something that the reading refuses, and refuses nothing that the reading
accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from ..calls.policy import Policy
from ..presets.bridge_policy import BridgePolicy
from ..protocol.policies.dialect import Dialect
from ..values.backoff import Backoff
from .document import LINK
from .fields import SECONDS, Form, default_of, fields_of, forms_of
from .spellings import LAYERS, WORDS_OF, preset_names
from .tables import TABLES, TOP


_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": ["number", "string"]}


def schema() -> dict[str, Any]:
    """Return the schema of a whole document."""
    definitions: dict[str, Any] = {}
    refer = _Definitions(definitions)
    top = {name: found for name, found in refer.fields(BridgePolicy).items() if name in LINK}
    top |= {key: refer.layer(kind) for key, kind in LAYERS.items()}
    top |= {name: refer.of(kind) for name, kind in TABLES.items()}
    top |= refer.fields(TOP["agent"])
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
        fields = self.fields(kind)
        for name, form in forms_of(kind).items():
            if form.kind is SECONDS:
                fields[f"{name}_ms"] = {"type": ["number", "array"]}
        fields |= {word: {} for word in WORDS_OF.get(kind, ())}
        table: dict[str, Any] = {
            "type": "object",
            "additionalProperties": False,
            "properties": fields,
        }
        first = fields_of(kind)[0]
        if kind in (Backoff, Dialect):
            return {"anyOf": [table, _TEXT, *([_NUMBER] if kind is Backoff else [])]}
        return table if first.kw_only else {"anyOf": [table, fields[first.name]]}

    def fields(self, kind: type) -> dict[str, dict[str, Any]]:
        forms = forms_of(kind)
        return {field.name: self._field(field, forms[field.name]) for field in fields_of(kind)}

    def _field(self, field: attrs.Attribute[Any], form: Form) -> dict[str, Any]:
        found = form.kind.schema(form, self.of)
        if not form.kind.has_false and found:
            found = {"anyOf": [found, {"enum": [False, None]}]}
        default = default_of(field)
        if isinstance(default, bool | int | float | str) and found:
            found = {**found, "default": default}
        return {**found, "description": form.wanted} if form.wanted else found
