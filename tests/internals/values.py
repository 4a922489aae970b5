"""What tests use of `resilient_bridge.values` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.values",
    {
        "backoff": "spread",
        "fields": "Value as_seconds count short_seconds shown wanted_by word",
        "window": "Window",
    },
)
