"""The pace of a demo: the client's policy, and how long the streams pause. Rule: light, because a process that was just killed starts with it."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Final

from ..presets import BridgePolicy
from ..protocol.policies.heartbeat import Heartbeat
from ..protocol.policies.outbox import Outbox
from ..protocol.policies.reconnect import Reconnect
from ..protocol.policies.replay import Replay
from ..values.backoff import Backoff


QUICK: Final = BridgePolicy(  # what we recommend, at the pace of a demo
    reconnect=Reconnect(
        backoff=Backoff.decorrelated(0.2, cap=1),
        connect_timeout=2,
        stable_after=1,
        connect_burst=1_000,
        connects_per_minute=1_000,
    ),
    heartbeat=Heartbeat(every=1, timeout=1, probe_timeout=1),
    outbox=Outbox(overflow="block"),
    replay=Replay(timeout=2),
)
PATIENCE: Final = 15.0  # seconds for one loss, one re-join, and the end: far more than each takes
KINDS: Final = (
    "tool_call",
    "tool_call",
    "claude_event",
    "stream_chunk",
)  # the last one has no id, as in the seed


async def pause(rng: random.Random, rate: float, stopped: asyncio.Event) -> None:
    """The time between two of `rate` messages a second, with a spread; no longer than until `stopped`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(rng.uniform(0.5, 1.5) / rate):
            await stopped.wait()
