"""What tests use of `resilient_bridge.config` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.config",
    {
        "": "yaml_nodes",
        "documents": "read_document",
        "paths": "DocumentError joined",
        "quantities": "read_bytes read_seconds read_span write_span",
    },
)
