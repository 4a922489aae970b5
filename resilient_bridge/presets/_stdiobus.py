"""The stdio Bus MCP bridge: what its errors mean is in the classification; here is what may be repeated."""

from __future__ import annotations

from .bridge_policy import BridgePolicy


stdiobus = BridgePolicy(
    repeatable=("bridge_health", "agents_discover", "sessions_status", "sessions_close"),
    repeatable_if_marked=("sessions_create", "sessions_prompt", "sessions_cancel", "tasks_delegate"),
)
"""Retryable failures are repeated, never without end; the specification names no delays, so they are those of `default`.

`repeatable` may be repeated without asking; those in `repeatable_if_marked` only if the error itself says `retryable: true`, which
allows it, or if nothing can have run. A link obeys both by the names of tools and methods: `rb.reconnecting(…, rb.presets.stdiobus)`.
"""
