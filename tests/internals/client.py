"""What tests use of `resilient_bridge.client` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.client",
    {
        "arguments": "secrets_of",
        "driver": "Driver",
    },
)
