"""What tests use of `resilient_bridge.settings` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.settings",
    {
        "config": "KINDS",
        "document": "new_reading",
        "": "fields",
        "effects": "EffectSettings",
        "fields": "AS_WRITTEN Form default_of fields_of forms_of read_value",
        "schema": "schema",
        "spellings": "LAYERS WORDS_OF families ready",
        "sources": "PREFIX read_sources",
        "tables": "AlertSettings ClientSettings TABLES TOP",
    },
)
