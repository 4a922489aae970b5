"""What tests use of `resilient_bridge.errors` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.errors",
    {
        "": "redaction secret_shapes",
        "extras": "EXTRAS how_to_install needed",
        "record": "Record ended",
    },
)
