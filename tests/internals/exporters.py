"""What tests use of `resilient_bridge.exporters` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.exporters",
    {
        "": "exporter health",
        "otel": "note_on_span=_note",
    },
)
