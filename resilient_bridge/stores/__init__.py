"""Where positions and unsettled sends are kept. Memory is the default; durable stores come with their own release."""

from __future__ import annotations

from .memory import MemoryStore


__all__ = ["MemoryStore"]
