"""The stdio Bus MCP bridge: what its errors mean is in the classification; here is what may be repeated."""

from __future__ import annotations

from .bridge_policy import BridgePolicy


stdiobus = BridgePolicy(
    repeatable=("bridge_health", "agents_discover", "sessions_status", "sessions_close"),
)
"""Retryable failures are repeated, never without end (S9); the specification names no delays, so they are those of `default`.

`repeatable` may be repeated without asking; sessions_create, sessions_prompt, sessions_cancel and tasks_delegate only if the error
itself says `retryable: true`, which allows it, or if nothing can have run (S8).
"""
