"""OpenViber's error handling: an agent runtime and its board. Delays exact, no jitter."""

from __future__ import annotations

from ..policies.backoff import Backoff
from ..policies.heartbeat import Heartbeat
from ..policies.reconnect import Reconnect
from .bridge_policy import BridgePolicy


openviber = BridgePolicy(
    reconnect=Reconnect(
        backoff=Backoff.exponential(1, cap=16, jitter="none"),
        attempts=5,
        on_exhausted="suspend",
    ),
    heartbeat=Heartbeat(timeout=30),
)
"""1, 2, 4, 8, 16 s, then disconnected mode: the user is told and the attempts go on (V7).

A heartbeat unanswered for 30 s is a dead peer (V13); resends keep their key and stay inside the 5-minute window (V9).
"""
