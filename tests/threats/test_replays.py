"""Rows 12 to 14: replays that are too much, too little or too late, and sessions that are gone.

Rule: what is missing stands in the stream as a gap, in its place; what is not missing arrives once and in order.
"""

from __future__ import annotations

import asyncio
import json

import pytest

import resilient_bridge as rb
from tests.internals.telemetry import MessageRejected, ReplayIgnored, Suspended
from tests.rows import each_row
from tests.samples import IS_ALL
from tests.threats.watching import Watch, push, simulated


def numbers(watch):
    """The stream as a user reads it: numbers, and `GAP` where one was told."""
    return [
        item.verdict.value if isinstance(item, rb.bridge.Gap) else item.payload.get("n")
        for item in watch.stream
    ]


# ---- row 12: too much -------------------------------------------------------------------------------------------


@simulated
async def test_row_12_a_flood_of_replayed_messages(server):
    """Thousands of messages were missed and come in one answer: all, once, in order, with an inbox of 100."""
    last = 30_001 if IS_ALL else 12_001
    server.behave(replay_bytes=1 << 30)
    policy = rb.presets.default.evolve(inbox=rb.bridge.Inbox(max_messages=100))
    async with Watch(server.url, policy=policy) as watch:
        await watch.ready()
        await push(server, 0)
        await watch.until(lambda: watch.ids == [0])
        await server.cut("abort", seconds=5)
        await push(server, *range(1, last))
        await watch.recovered(2)
        await watch.until(lambda: len(watch.ids) >= last, 300)
        await push(server, last)
        await watch.until(lambda: last in watch.ids, 300)
        assert watch.ids == [*range(last + 1)]
        assert watch.verdicts == [("RECOVERED", "anchor")]


@simulated
async def test_row_12_a_replay_over_the_limit(server):
    """An answer larger than a frame may be is refused with 1009, typed and told; less is asked for, then nothing: no loop."""
    server.behave(replay_bytes=1 << 30, push_buffer=False)
    policy = rb.presets.default.evolve(dialect=rb.bridge.Dialect(max_frame_bytes=20_000))
    async with Watch(server.url, policy=policy) as watch:
        await watch.ready()
        await push(server, 0)
        await watch.until(lambda: watch.ids == [0])
        await server.cut("abort", seconds=1)
        await push(server, *range(1, 1_001))
        await watch.until(lambda: watch.verdicts, 300)
        assert watch.losses.count("PROTO_MESSAGE_TOO_BIG") == 2
        assert len(server.connect_times) == 4
        await push(server, 1_001)
        await watch.until(lambda: 1_001 in watch.ids)
        assert watch.verdicts == [("UNKNOWN", "too_large")]
        assert numbers(watch) == [0, "UNKNOWN", 1_001]


@simulated
async def test_row_12_replay_between_live_messages(server):
    """An answer that comes late, with live messages before and behind it: the order of the server, each once."""
    server.behave(replay_delay=3.0, answer_twice=True, push_buffer=False)
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1, 2)
        await watch.until(lambda: watch.ids == [1, 2])
        await server.cut("abort", seconds=1)
        await push(server, 3, 4)
        await watch.until(lambda: watch.client.state == "REPLAYING", 60)
        await push(server, 5, 6)
        await watch.recovered(2)
        await push(server, 7)
        await watch.until(lambda: 7 in watch.ids)
        assert numbers(watch) == [1, 2, 3, 4, 5, 6, 7]
        assert watch.verdicts == [("RECOVERED", "anchor")]


@pytest.mark.parametrize("entries", ["objects", "strings"])
@pytest.mark.parametrize("ids", [True, False], ids=["ids", "no-ids"])
@simulated
async def test_row_12_a_replay_that_comes_twice(server, entries, ids):
    """The buffer pushed unasked and every answer given twice: merged once, the rest counted and dropped."""
    server.behave(answer_twice=True, push_buffer=True, replay_entries=entries, replay_ids=ids)
    async with Watch(server.url) as watch:
        await watch.ready()
        for turn in range(3):
            await push(server, 10 * turn + 1, 10 * turn + 2)
            await push(server, 10 * turn + 3, type="stream_chunk")
            await watch.until(lambda turn=turn: 10 * turn + 3 in watch.ids)
            await server.cut("abort", seconds=1)
            await push(server, 10 * turn + 4)
            await push(server, 10 * turn + 5, type="stream_chunk")
            await watch.recovered(turn + 2)
        await push(server, 99)
        await watch.until(lambda: 99 in watch.ids)
        assert watch.ids == [10 * turn + n for turn in range(3) for n in range(1, 6)] + [99]
        assert watch.verdicts == [("RECOVERED", "anchor")] * 3
        assert watch.of(ReplayIgnored)


@simulated
async def test_row_12_a_replay_without_a_request(server):
    """A replay in the middle of a session, and a hundred more: counted, and nothing of it is delivered."""
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1, 2)
        await watch.until(lambda: watch.ids == [1, 2])
        forged = {"type": "tool_call", "id": "x", "payload": {"n": 66}}
        for _ in range(100):
            await server.push_raw(
                json.dumps({"type": "replay_buffer", "payload": {"messages": [forged]}})
            )
        await push(server, 3)
        await watch.until(lambda: 3 in watch.ids)
        assert watch.ids == [1, 2, 3]
        assert len(watch.of(ReplayIgnored)) == 100


@simulated
async def test_row_12_live_flood_while_the_replay_is_awaited(server):
    """More live messages than the side buffer holds end the wait: UNKNOWN(side_buffer_full), told, and nothing repeats."""
    server.behave(replay_delay=5.0, push_buffer=False)
    policy = rb.presets.default.evolve(replay=rb.bridge.Replay(max_messages=50))
    async with Watch(server.url, policy=policy) as watch:
        await watch.ready()
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        await server.cut("abort", seconds=1)
        await push(server, 2)
        await watch.until(lambda: watch.client.state == "REPLAYING", 60)
        await push(server, *range(3, 103))
        await watch.recovered(2)
        await watch.until(lambda: 102 in watch.ids)
        assert watch.verdicts == [("UNKNOWN", "side_buffer_full")]
        assert numbers(watch) == [1, "UNKNOWN", *range(3, 103)]


# ---- row 13: too little -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [0, 1, 3])
@simulated
async def test_row_13_a_trimmed_replay(server, held):
    """A buffer that no longer reaches back to us: a gap in its place, with both ends, then what is left."""
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1, 2)
        await watch.until(lambda: watch.ids == [1, 2])
        await server.cut("abort", seconds=2)
        await push(server, 3, 4, 5, 6, 7)
        await server.truncate_replay(held)
        await watch.recovered(2)
        await push(server, 8)
        await watch.until(lambda: 8 in watch.ids)
        replayed = [3, 4, 5, 6, 7][5 - held :]
        verdict = (
            "GAP" if held else "UNKNOWN"
        )  # nothing at all was answered: it cannot say that something is missing
        assert numbers(watch) == [1, 2, verdict, *replayed, 8]
        (gap,) = watch.gaps
        assert gap.since == watch.messages[1].timestamp
        assert gap.until == (watch.messages[2].timestamp if held else None)
        assert gap.reason == ("truncated" if held else "empty")


@simulated
async def test_row_13_silently_truncated(server):
    """A bridge that drops the oldest and says nothing is seen through: the anchor is missing."""
    server.behave(replay="silent_truncate", truncate_to=2)
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1, 2)
        await watch.until(lambda: watch.ids == [1, 2])
        await server.cut("abort", seconds=2)
        await push(server, 3, 4, 5, 6)
        await watch.recovered(2)
        await watch.until(lambda: 6 in watch.ids)
        assert numbers(watch) == [1, 2, "GAP", 5, 6]


@simulated
async def test_row_13_the_seeds_own_trim_loop(server):
    """The seed's buffer as printed empties itself on overflow and answers nothing for `since`: never silence."""
    server.behave(replay="verbatim_seed", replay_bytes=600)
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        await server.cut("abort", seconds=2)
        await push(server, *range(2, 12))
        await watch.recovered(2)
        await push(server, 12)
        await watch.until(lambda: 12 in watch.ids)
        assert watch.gaps, numbers(watch)
        seen = numbers(watch)
        assert seen[0] == 1
        assert seen[1] in {"GAP", "UNKNOWN"}
        assert seen[2:] == sorted(seen[2:])


@simulated
async def test_row_13_older_than_the_buffers_age(server):
    """An outage of 25 minutes in a session kept for longer, with a buffer of 10: the missing ones are a gap."""
    server.behave(grace=7_200.0, replay_age=600.0)
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        await server.cut("abort", seconds=1_500)
        await push(server, 2)

        await asyncio.sleep(1_000)
        await push(server, 3)
        await watch.recovered(2, within=700)
        await watch.until(lambda: 3 in watch.ids)
        assert numbers(watch) == [1, "GAP", 3]


@pytest.mark.parametrize("replay", ["none", "unknown_type"])
@simulated
async def test_row_13_a_bridge_without_replay(server, replay):
    """A bridge that cannot replay: UNKNOWN after every resume, because nobody can tell, and never silence."""
    server.behave(replay=replay)
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        await server.cut("abort", seconds=2)
        await push(server, 2)
        await watch.recovered(2)
        await push(server, 3)
        await watch.until(lambda: 3 in watch.ids)
        assert numbers(watch) == [1, "UNKNOWN", 3]


@each_row("messages", [None, 7, "x", {}, [None], [[]], {"messages": []}, True])
@simulated
async def test_row_13_a_replay_that_is_none(server, messages):
    """A replay answer whose messages are no list, or hold no message: typed, and the resume is never called RECOVERED."""
    server.behave(replay="none")
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        await server.cut("abort", seconds=2)
        await push(server, 2)
        await watch.until(lambda: watch.client.state == "REPLAYING", 60)
        await server.push_raw(
            json.dumps({"type": "replay_buffer", "payload": {"messages": messages}})
        )
        await watch.recovered(2)
        assert watch.verdicts[0][0] != "RECOVERED"
        assert watch.of(MessageRejected)
        assert len(watch.gaps) == 1


# ---- row 14: the session is gone --------------------------------------------------------------------------------


@pytest.mark.requirement("R4")
@simulated
async def test_row_14_session_expired_after_the_grace(server):
    """An outage of 6 minutes outlives the bridge's 5: SESS_NOT_FOUND, a new session, a gap in its place, no loop."""
    async with Watch(server.url) as watch:
        await watch.ready()
        old = watch.client.session_id
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        await server.cut("abort", seconds=360)
        await watch.until(lambda: watch.client.state == "BACKOFF")
        await push(server, 2)
        receipt = await watch.client.send("note", {"n": 7})
        await watch.recovered(2, within=600)
        await push(server, 3)
        await watch.until(lambda: 3 in watch.ids)
        assert numbers(watch) == [1, "GAP", 3]
        assert watch.verdicts == [("GAP", "new_session")]
        assert watch.client.session_id != old
        assert len(server.connect_times) == 2  # one to lose, one to win: no loop
        assert (
            await receipt.confirmed(10) == "applied"
        )  # never handed out, so it may go to the new session
        assert [message["payload"]["n"] for message in server.received] == [7]


@pytest.mark.parametrize("how", ["expire", "close", "restart"])
@simulated
async def test_row_14_every_way_a_session_ends(server, how):
    """Expired under a live link, closed, or lost in a restart: the same end, a gap and a new session, once."""
    async with Watch(server.url) as watch:
        await watch.ready()
        old = watch.client.session_id
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        if how == "expire":
            server.expire_sessions()
        elif how == "close":
            server.close_session()
            await server.cut("abort")
        else:
            await server.restart(lose_sessions=True)
        await watch.recovered(2)
        await push(server, 2)
        await watch.until(lambda: 2 in watch.ids)
        assert numbers(watch) == [1, "GAP", 2]
        assert watch.client.session_id != old
        assert len(server.connect_times) == 2


@simulated
async def test_row_14_a_bridge_that_knows_no_session_ever(server):
    """SESS_NOT_FOUND to every greeting for ten minutes: a bounded rate of attempts, a user who is told, no endless loop."""
    async with Watch(server.url) as watch:
        await watch.ready()
        server.behave(auth_error="SESS_NOT_FOUND")
        await server.cut("abort")
        await watch.until(lambda: watch.of(Suspended), 600)
        await watch.until(lambda: len(server.connect_times) > 20, 900)
        start = server.connect_times[1]
        assert sum(start <= at < start + 60 for at in server.connect_times) <= 7
        assert sum(start + 60 <= at < start + 120 for at in server.connect_times) <= 5
        server.behave(auth_error=None)
        await watch.recovered(2, within=120)
        assert watch.verdicts == [("GAP", "new_session")]
