"""The bridges of the real world, good and bad: the right verdict for each, and nothing lost under RECOVERED."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import resilient_bridge as rb
from tests.rows import each_row

from .journey import Journey, simulated


QUIET = {"push_buffer": False}

#: bridge -> (its habits, the verdict)
BRIDGES: dict[str, tuple[dict[str, Any], str]] = {
    "inclusive": ({}, "RECOVERED(anchor)"),
    "inclusive, asked only": (QUIET, "RECOVERED(anchor)"),
    "exclusive": ({"replay": "exclusive"}, "RECOVERED(anchor)"),
    "exclusive, asked only": ({"replay": "exclusive", **QUIET}, "RECOVERED(anchor)"),
    "verbatim seed": ({"replay": "verbatim_seed"}, "RECOVERED(anchor)"),
    "verbatim seed, asked only": ({"replay": "verbatim_seed", **QUIET}, "RECOVERED(anchor)"),
    "entries as strings": ({"replay_entries": "strings", **QUIET}, "RECOVERED(anchor)"),
    "answers without ids": ({"replay_ids": False, **QUIET}, "RECOVERED(anchor)"),
    "answering twice": ({"answer_twice": True}, "RECOVERED(anchor)"),
    "answering twice, asked only": ({"answer_twice": True, **QUIET}, "RECOVERED(anchor)"),
    "unasked only": ({"replay": "pushed_only"}, "RECOVERED(anchor)"),
    "1 s stamps": ({"timestamps": "s", **QUIET}, "RECOVERED(anchor)"),
    "1 s stamps, exclusive": (
        {"timestamps": "s", "replay": "exclusive", **QUIET},
        "RECOVERED(anchor)",
    ),
    "no stamps": ({"timestamps": "none", **QUIET}, "RECOVERED(anchor)"),
    "year 9999": ({"timestamp_mode": "year_9999", **QUIET}, "RECOVERED(anchor)"),
    "year 1970": ({"timestamp_mode": "year_1970", **QUIET}, "RECOVERED(anchor)"),
    "nanoseconds": ({"timestamp_mode": "nanoseconds", **QUIET}, "RECOVERED(anchor)"),
    "leap second": ({"timestamp_mode": "leap_second", **QUIET}, "RECOVERED(anchor)"),
    "offset +14:00": ({"timestamp_mode": "plus_14", **QUIET}, "RECOVERED(anchor)"),
    "year 1 at +14:00": ({"timestamp_mode": "year_1_plus_14", **QUIET}, "RECOVERED(anchor)"),
    "slow": ({"slow": 0.4, "replay_delay": 2.0}, "RECOVERED(anchor)"),
    "no acks": ({"acks": "none"}, "RECOVERED(anchor)"),
    "acks replayed": ({"buffer_acks": True}, "RECOVERED(anchor)"),
    "everything twice": ({"duplicate_ids": "repeat"}, "RECOVERED(anchor)"),
    "truncating": ({"replay": "silent_truncate", "truncate_to": 2}, "GAP(truncated)"),
    "no replay at all": ({"replay": "none"}, "UNKNOWN(timeout)"),
    "replay unknown": ({"replay": "unknown_type"}, "UNKNOWN(no_replay)"),
    "replay too late": ({"replay_delay": 11.0, **QUIET}, "UNKNOWN(timeout)"),
    "as ReCursor's own is": (
        {
            "no_session_memory": True,
            "refused": dict.fromkeys(["session_join", "request_replay"], "PROTO_INVALID_MESSAGE"),
        },
        "UNKNOWN(no_replay)",
    ),
    "no session memory": ({"no_session_memory": True}, "UNKNOWN(no_replay)"),
}


async def lose_three(journey: Journey, types: str = "tool_call") -> None:
    """Deliver 1 to 4, cut, push 5 to 7 while the link is down, come back, push 8."""
    await journey.ready()
    await journey.push(1, 2, 3, 4, type=types)
    await asyncio.sleep(0.3)
    await journey.server.cut("abort", seconds=0.2)
    await asyncio.sleep(0.01)
    await journey.push(5, 6, 7, type=types)
    await asyncio.sleep(0.5)
    await journey.ready()
    await journey.push(8, type=types)
    await asyncio.sleep(15)


@each_row("bridge", BRIDGES)
@simulated
async def test_the_verdict_is_right(server, bridge):
    """Whatever the bridge does with its buffer: RECOVERED where it held everything, else a gap in its place; never silence."""
    behaviour, verdict = BRIDGES[bridge]
    server.behave(**behaviour)
    async with Journey(server) as journey:
        await lose_three(journey)
    assert journey.verdicts() == [verdict]
    journey.check()
    if verdict.startswith("RECOVERED"):
        assert journey.seen() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert not journey.gaps
    else:
        (gap,) = journey.gaps
        assert (f"{gap.verdict}({gap.reason})", gap.since is not None) == (verdict, True)
        assert journey.seen()[:4] == [1, 2, 3, 4]
        assert journey.seen()[-1] == 8


@pytest.mark.parametrize(
    ("keep", "verdict"), [(0, "UNKNOWN(empty)"), (3, "GAP(truncated)"), (4, "RECOVERED(anchor)")]
)
@simulated
async def test_a_truncated_buffer_is_an_exact_gap(server, keep, verdict):
    """The buffer still holds nothing, all that was missed, or the last delivered one too: only the last is proof."""
    async with Journey(server) as journey:
        await journey.ready()
        await journey.push(1, 2, 3, 4)
        await asyncio.sleep(0.3)
        await server.cut("abort", seconds=0.2)
        await journey.push(5, 6, 7)
        await server.truncate_replay(keep)
        await asyncio.sleep(0.5)
        await journey.ready()
        assert journey.verdicts() == [verdict]
    journey.check()


@pytest.mark.parametrize("types", ["stream_chunk", "mixed"])
@pytest.mark.parametrize("stamps", ["ms", "s"])
@simulated
async def test_messages_without_ids(server, types, stamps):
    """Without any id nothing can be proven: UNKNOWN(no_anchor), repeats flagged; one message with an id is proof enough."""
    server.behave(timestamps=stamps)
    async with Journey(server) as journey:
        await journey.ready()
        await journey.push(1, type="stream_chunk" if types == "stream_chunk" else "tool_call")
        await lose_three_more(journey)
    journey.check()
    if types == "mixed":
        assert journey.verdicts() == ["RECOVERED(anchor)"]
        assert journey.seen() == [1, 2, 3, 4, 5, 6, 7, 8]
    else:
        assert journey.verdicts() == ["UNKNOWN(no_anchor)"]
        assert set(journey.seen()) == set(range(1, 9))
        assert all(m.maybe_duplicate for m in journey.messages[4:-1])


async def lose_three_more(journey: Journey) -> None:
    """As `lose_three`, from the second on, all without ids."""
    await journey.push(2, 3, 4, type="stream_chunk")
    await asyncio.sleep(0.3)
    await journey.server.cut("abort", seconds=0.2)
    await journey.push(5, 6, 7, type="stream_chunk")
    await asyncio.sleep(0.5)
    await journey.ready()
    await journey.push(8, type="stream_chunk")
    await asyncio.sleep(1)


@each_row("bridge", ["inclusive, asked only", "exclusive, asked only", "verbatim seed"])
@each_row("step", [-299.0, -120.0, 120.0, 299.0])
@each_row("moment", ["before", "while down", "after"])
@simulated
async def test_a_server_clock_that_steps_within_the_overlap_loses_nothing(
    server, bridge, step, moment
):
    """The bridge's clock steps by up to 300 s, before, during or after the outage: RECOVERED, all there, in order."""
    server.behave(**BRIDGES[bridge][0])
    async with Journey(server) as journey:
        await journey.ready()
        await journey.push(1)
        await asyncio.sleep(400)
        await journey.push(2)
        if moment == "before":
            server.step_clock(step)
        await journey.push(3)
        await asyncio.sleep(0.3)
        await server.cut("abort", seconds=0.2)
        if moment == "while down":
            server.step_clock(step)
        await journey.push(4, 5)
        await asyncio.sleep(0.5)
        await journey.ready()
        if moment == "after":
            server.step_clock(step)
        await journey.push(6)
        await asyncio.sleep(1)
        await server.cut("abort")
        await asyncio.sleep(0.01)
        await journey.push(7)
        await asyncio.sleep(5)
    assert journey.verdicts() == ["RECOVERED(anchor)"] * 2
    assert journey.seen() == [1, 2, 3, 4, 5, 6, 7]


@simulated
async def test_under_a_gap_what_is_known_is_not_repeated(server):
    """A bridge that came back with an older buffer: the anchor is gone, known messages are not delivered again, new ones are."""
    server.behave(replay="none")
    async with Journey(server) as journey:
        await journey.ready()
        await journey.push(1, 2, 3)
        await asyncio.sleep(0.3)
        await server.cut("abort", seconds=0.2)
        await journey.push(4)
        while journey.client.state != "REPLAYING":
            await asyncio.sleep(0.01)
        first, second, _, fourth = server.pushed
        answer = {"type": "replay_buffer", "payload": {"messages": [first, second, fourth]}}
        await server.push_raw(json.dumps(answer))
        await journey.ready()
        await asyncio.sleep(0.1)
    assert journey.verdicts() == ["GAP(truncated)"]
    assert journey.seen() == [1, 2, 3, 4]
    journey.check()


@simulated
async def test_a_new_life_of_the_bridge_is_a_gap(server):
    """A restart that kept the sessions resumes; one that lost them ends GAP(new_session), under a new session id."""
    async with Journey(server) as journey:
        await journey.ready()
        await journey.push(1)
        await journey.send(1)
        await asyncio.sleep(0.3)
        first = journey.client.session_id
        await server.restart(down=1.0)
        await journey.ready()
        assert (journey.verdicts(), journey.client.session_id) == (["RECOVERED(anchor)"], first)
        await server.restart(lose_sessions=True, down=1.0)
        await asyncio.sleep(1)
        await journey.ready()
        assert journey.verdicts()[1:] == ["GAP(new_session)"]
        assert journey.client.session_id not in {first, None}
        assert journey.client.session_id == server.session
        await journey.push(2)
        await journey.rest()
    assert [gap.reason for gap in journey.gaps] == ["new_session"]
    journey.check()


@simulated
async def test_a_dialect_without_replay_says_so(server):
    """`request_replay=None`: every resume ends UNKNOWN(no_replay), at once."""
    policy = rb.presets.default.evolve(dialect=rb.bridge.Dialect(request_replay=None, replay=None))
    server.behave(push_buffer=False)
    async with Journey(server, policy=policy) as journey:
        await lose_three(journey)
    assert journey.verdicts() == ["UNKNOWN(no_replay)"]
    journey.check()
