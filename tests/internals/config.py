"""What tests use of `resilient_bridge.config` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.config",
    {
        "": "documents",
        "documents": "DocumentError joined read_document",
        "json_members": "NotEditableError with_member",
        "texts": "read_bytes read_seconds read_span write_span",
    },
)
