"""What tests use of `resilient_bridge.settings` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.settings",
    {
        "config": "KINDS",
        "dialect_names": "families ready",
        "document": "new_reading",
        "fields": "read_value",
        "policy_tables": "LAYERS",
        "schema": "schema",
        "seed_keys": "WORDS_OF",
        "sources": "PREFIX read_sources",
        "tables": "AgentSettings AlertSettings ClientSettings TABLES",
        "walk": "default_of fields_of",
    },
)
