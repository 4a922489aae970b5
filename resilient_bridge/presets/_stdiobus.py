"""The stdio Bus MCP bridge: what its errors mean is in the classification.

Here is what may be repeated.
"""

from __future__ import annotations

from .bridge_policy import BridgePolicy


stdiobus = BridgePolicy(
    repeatable=("bridge_health", "agents_discover", "sessions_status", "sessions_close"),
    repeatable_if_marked=("sessions_create", "sessions_prompt", "sessions_cancel", "tasks_delegate"),
)
"""stdio Bus: retryable failures are repeated, a bounded number of times, with the delays of `default`: the specification names none.

`repeatable` operations may be repeated without asking; those in `repeatable_if_marked` only if the
error itself says `retryable: true`, or if nothing can have run. A link obeys both by the names of
tools and methods: `rb.reconnecting(…, rb.presets.stdiobus)`.
"""
