"""The stdio Bus MCP bridge: which operations may be repeated.

The classification knows its errors.
"""

from __future__ import annotations

from ..protocol.policies.reconnect import Reconnect
from .bridge_policy import BridgePolicy


stdiobus = BridgePolicy(
    reconnect=Reconnect(retry_certificates=False),
    idempotent=("bridge_health", "agents_discover", "sessions_status", "sessions_close"),
    idempotent_if_marked=(
        "sessions_create",
        "sessions_prompt",
        "sessions_cancel",
        "tasks_delegate",
    ),
)
"""stdio Bus: retryable failures are repeated a bounded number of times.

The specification names no delays, so they are those of `default`, without the
attempts after a foreign certificate. `idempotent` operations may
always be repeated; those in `idempotent_if_marked` only if the error itself says `retryable: true`,
or if nothing can have run. A link obeys both by the names of tools and methods:
`rb.reconnecting(…, rb.presets.stdiobus)`.
"""
