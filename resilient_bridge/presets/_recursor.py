"""ReCursor's error handling specification: a WebSocket bridge between an app and an agent. Delays exact, no jitter."""

from __future__ import annotations

from ..policies.backoff import Backoff
from ..policies.reconnect import Reconnect
from ..policies.rule import Rule
from .bridge_policy import BridgePolicy


recursor = BridgePolicy(
    reconnect=Reconnect(
        backoff=Backoff.steps(1, 2, 5, 10, 30),
        rules={
            "CONN_TIMEOUT": Rule(
                backoff=Backoff.steps(1, 2, 5, then=Backoff.exponential(10, cap=60, jitter="none"))
            ),
        },
        attempts=5,
        on_exhausted="raise",
        reuse_address_on=(2,),
    ),
)
"""After a close 1, 2, 5, 10, 30 s, then a typed, reported end (R3).

After a connect timeout 1, 2 (on the cached address), 5 (fresh DNS), then 10 s doubling (R6). A session is kept 5 minutes (R4).
Heartbeat 15 s, answered within 10 s.
"""
