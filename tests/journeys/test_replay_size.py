"""What a reconnect costs: the gap plus the overlap, however long the session has lived."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import resilient_bridge as rb

from .journey import Journey, simulated


@pytest.mark.parametrize("overlap", [300.0, 30.0])
@simulated
async def test_a_reconnect_replays_the_gap_and_the_overlap(server, overlap):
    """One message a second for 20 minutes, a reconnect a minute: each asks from the last message less the overlap, once."""
    server.behave(push_buffer=False, replay_bytes=10_000_000)
    policy = rb.presets.default.evolve(replay=rb.bridge.Replay(overlap=overlap))
    answered: list[int] = []
    async with Journey(server, policy=policy) as journey:
        await journey.ready()
        for n in range(1, 1_231):
            await journey.push(n)
            await asyncio.sleep(1)
            if n % 60 == 0:
                await server.cut("abort", seconds=5)
            if n % 60 == 45:
                answered.append(journey.loop.network.links[-1].down.bytes)
        await asyncio.sleep(5)
    journey.check()
    assert journey.verdicts() == ["RECOVERED(anchor)"] * 20
    asks = [frame for frame in server.frames if frame["type"] == "request_replay"]
    assert len(asks) == 20
    assert all(frame["payload"]["since"] for frame in asks)
    replayed = [event.replayed for event in journey.of(rb.events.Resumed)]
    assert (
        max(replayed) <= 20
    )  # what was missed in at most 5 s and a wait, and nothing of the overlap
    size = len(json.dumps(server.pushed[-1], separators=(",", ":")))
    # The smallest timestamp of the last 64 messages counts (a clock may go back); a gap of 20 s, a minute of live messages.
    full = (overlap + 64 + 20 + 60) * size * 1.1
    assert max(answered) <= full
    late = answered[int(overlap / 60) + 2 :]
    assert max(late) - min(late) < 0.2 * max(late)  # the last one costs what the others did


@simulated
async def test_the_answer_is_asked_for_without_since_only_where_the_anchor_is_missing(server):
    """A bridge whose `since` is broken (the verbatim seed) is asked twice; a good one once."""
    asks: dict[str, int] = {}
    for replay in ("correct", "verbatim_seed"):
        server.behave(push_buffer=False, replay=replay)
        before = len(server.frames)
        async with Journey(server) as journey:
            await journey.ready()
            await journey.push(1, 2)
            await asyncio.sleep(0.5)
            await server.cut("abort")
            await journey.push(3)
            await journey.rest()
            assert journey.verdicts() == ["RECOVERED(anchor)"]
        sinces: list[Any] = [
            "since" in frame["payload"]
            for frame in server.frames[before:]
            if frame["type"] == "request_replay"
        ]
        asks[replay] = len(sinces)
        assert sinces == ([True] if replay == "correct" else [True, False])
    assert asks == {"correct": 1, "verbatim_seed": 2}
