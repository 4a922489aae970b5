"""What tests use of `resilient_bridge.presets` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily("resilient_bridge.presets", {"": "ready"})
