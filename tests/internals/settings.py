"""What tests use of `resilient_bridge.settings` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.settings",
    {
        "config": "KINDS",
        "dialect_names": "families ready",
        "document": "new_reading",
        "": "fields",
        "fields": "AS_WRITTEN Form default_of fields_of forms_of read_value",
        "policy_tables": "LAYERS",
        "schema": "schema",
        "seed_keys": "WORDS_OF",
        "sources": "PREFIX read_sources",
        "tables": "AgentSettings AlertSettings ClientSettings TABLES",
    },
)
