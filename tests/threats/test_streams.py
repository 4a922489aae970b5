"""Rows 7 to 11: repeated ids, equal stamps, impossible stamps, clocks that step: what arrives is what was pushed, once.

Rule: the truth is the bridge's own list of what it pushed.
"""

from __future__ import annotations

import json

import pytest

import resilient_bridge as rb
from tests.internals.telemetry import DuplicateConflict
from tests.rows import each_row
from tests.threats.watching import Watch, push, simulated


STAMPS = ["year_9999", "year_1970", "nanoseconds", "leap_second", "plus_14", "year_1_plus_14"]


async def outage(server, watch, during, seconds=20):
    """Lose the link, run `during` while it is down, and see the client come back."""
    joins = watch.joins
    await server.cut("abort", seconds=seconds)
    await watch.until(lambda: watch.client.state != "READY")
    await during()
    await watch.recovered(joins + 1, within=seconds + 60)


@simulated
async def test_row_07_duplicate_event_id(server):
    """A bridge that sends everything twice is heard once, live and across a resume, and nothing is reported as wrong."""
    server.behave(duplicate_ids="repeat")
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, *range(20))
        await watch.until(lambda: len(watch.ids) >= 20)
        await outage(server, watch, lambda: push(server, *range(20, 40)))
        await watch.until(lambda: len(watch.ids) >= 40)
        await push(server, 40)
        await watch.until(lambda: 40 in watch.ids)
        assert watch.ids == [*range(41)]
        assert watch.verdicts == [("RECOVERED", "anchor")]
        assert watch.of(DuplicateConflict) == []
        assert watch.client._session.inbound.duplicates >= 20  # counted


@simulated
async def test_row_07_same_id_with_another_payload(server):
    """One type and id with two payloads: the first is delivered, the second is a conflict that names both."""
    async with Watch(server.url) as watch:
        await watch.ready()
        await server.push("tool_call", {"n": 1}, id="one")
        await server.push("tool_call", {"n": 2}, id="one")
        await server.push(
            "approval_required", {"n": 3}, id="one"
        )  # one id serves two messages: the seed does that
        await server.push("tool_call", {"n": 4})
        await watch.until(lambda: 4 in watch.ids)
        assert watch.ids == [1, 3, 4]
        assert [(event.type, event.id) for event in watch.of(DuplicateConflict)] == [
            ("tool_call", "one")
        ]


@simulated
async def test_row_07_conflict_across_a_loss(server):
    """The same conflict in a replay: the message that was delivered stays the one, and it is not delivered again."""
    async with Watch(server.url) as watch:
        await watch.ready()
        await server.push("tool_call", {"n": 1}, id="one")
        await server.push("tool_call", {"n": 2})
        await watch.until(lambda: watch.ids == [1, 2])

        async def during():
            await server.push("tool_call", {"n": 9}, id="one")
            await server.push("tool_call", {"n": 3})

        await outage(server, watch, during)
        await watch.until(lambda: 3 in watch.ids)
        assert watch.ids == [1, 2, 3]


@pytest.mark.parametrize("replay", ["correct", "exclusive"])
@pytest.mark.parametrize("idless", [0, 2, 3], ids=["ids", "half", "third"])
@simulated
async def test_row_08_equal_timestamps_around_a_loss(server, replay, idless):
    """60 messages of one second, a loss in their middle: none is lost, none comes twice, the order holds."""
    server.behave(timestamps="s", replay=replay, push_buffer=False)

    async def some(*numbers):
        for number in numbers:
            await push(
                server, number, type="stream_chunk" if idless and number % idless else "tool_call"
            )

    async with Watch(server.url) as watch:
        await watch.ready()
        await some(*range(30))
        await server.cut("abort", seconds=0.3)  # some are under way: they are lost, and replayed
        await some(*range(30, 60))
        await watch.recovered(2)
        await some(60)
        await watch.until(lambda: 60 in watch.ids)
        stamps = {message["timestamp"] for message in server.pushed[:60]}
        assert len(stamps) <= 2
        assert watch.verdicts == [("RECOVERED", "anchor")] or watch.gaps
        assert watch.ids == [*range(61)]


@pytest.mark.parametrize("count", [1, 70])
@pytest.mark.parametrize("mode", ["year_9999", "year_1970"])
@simulated
async def test_row_09_impossible_years(server, mode, count):
    """Stamps of the year 9999 or 1970, one or many, hide nothing: what is missed later arrives, and nobody asks from 9999 on."""
    server.behave(push_buffer=False)  # what arrives is what was asked for
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1, 2)
        server.behave(timestamp_mode=mode)
        await push(server, *range(3, 3 + count))
        server.behave(timestamp_mode="normal")
        await watch.until(lambda: len(watch.ids) == 2 + count)
        await outage(server, watch, lambda: push(server, 104, 105))
        await push(server, 106)
        await watch.until(lambda: 106 in watch.ids)
        assert watch.ids == [*range(1, 3 + count), 104, 105, 106]
        assert watch.verdicts == [("RECOVERED", "anchor")]
        asked = [
            frame["payload"].get("since")
            for frame in server.frames
            if frame["type"] == "request_replay"
        ]
        assert asked
        assert all(since is None or since < "2026-01-02" for since in asked)


@pytest.mark.parametrize("mode", STAMPS)
@simulated
async def test_row_09_a_whole_session_of_impossible_stamps(server, mode):
    """A bridge whose every stamp is impossible, its greeting's included: still nothing is lost, repeated or silent."""
    server.behave(timestamp_mode=mode, push_buffer=False)
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1, 2, 3)
        await watch.until(lambda: watch.ids == [1, 2, 3])
        await outage(server, watch, lambda: push(server, 4, 5))
        await push(server, 6)
        await watch.until(lambda: 6 in watch.ids)
        assert watch.ids == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("mode", ["nanoseconds", "leap_second", "plus_14", "year_1_plus_14"])
@simulated
async def test_row_10_stamps_that_cannot_be_read(server, mode):
    """Nine digits, a leap second, an offset that leaves the calendar: kept as the server wrote them, and nothing is dropped."""
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1, 2)
        server.behave(timestamp_mode=mode)
        await push(server, 3, 4)
        await watch.until(lambda: watch.ids == [1, 2, 3, 4])
        await outage(server, watch, lambda: push(server, 5, 6))
        server.behave(timestamp_mode="normal")
        await push(server, 7)
        await watch.until(lambda: 7 in watch.ids)
        assert watch.ids == [1, 2, 3, 4, 5, 6, 7]
        assert watch.verdicts == [("RECOVERED", "anchor")]
        assert [message.raw_timestamp for message in watch.messages] == [
            message["timestamp"] for message in server.pushed
        ]
        for message in watch.messages:
            assert message.timestamp is None or message.timestamp.tzinfo is not None
            assert repr(message)


@pytest.mark.parametrize(
    "raw", ["", "yesterday", "2026-01-01", "٢٠٢٦-01-01T00:00:00Z", "x" * 100_000, "\u0000"]
)
@simulated
async def test_row_10_stamps_that_are_none(server, raw):
    """A stamp that is no ISO 8601 at all is kept and believed by nobody; the message is delivered."""

    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1)
        session = server._memory.sessions[server.session]
        text = json.dumps({"type": "tool_call", "id": "odd", "timestamp": raw, "payload": {"n": 2}})
        server._memory.keep(session, text)
        await server.push_raw(text)
        await watch.until(lambda: watch.ids == [1, 2])
        assert watch.messages[1].timestamp is None
        assert watch.messages[1].raw_timestamp == raw
        await outage(server, watch, lambda: push(server, 3))
        await watch.until(lambda: 3 in watch.ids)
        assert watch.ids == [1, 2, 3]
        assert watch.verdicts == [("RECOVERED", "anchor")]


@each_row("replay", ["correct", "exclusive"])
@each_row("step", [-1, -120, -299, 3_600])
@each_row("when", ["before", "down", "between"])
@simulated
async def test_row_11_the_servers_clock_steps(server, step, when, replay):
    """A server clock that steps back by up to the overlap, or far forward, loses nothing and is not even noticed."""
    server.behave(replay=replay, push_buffer=False)
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1, 2, 3)
        if when == "before":
            server.step_clock(step)
            await push(server, 4)
        await watch.until(lambda: 3 in watch.ids)

        async def during():
            await push(server, 5)
            if when != "before":
                server.step_clock(step)
            await push(server, 6)
            if when == "between":
                server.step_clock(-step)
            await push(server, 7)

        await outage(server, watch, during)
        await push(server, 8)
        await watch.until(lambda: 8 in watch.ids)
        expected = [1, 2, 3, *([4] if when == "before" else []), 5, 6, 7, 8]
        assert watch.ids == expected
        assert watch.verdicts == [("RECOVERED", "anchor")]


@simulated
async def test_row_11_ten_losses_while_the_clock_wanders(server):
    """A clock that goes back and forth within the overlap over ten losses: every message once, in order, RECOVERED each time."""
    server.behave(push_buffer=False)
    async with Watch(server.url) as watch:
        await watch.ready()
        number = 0
        for turn in range(10):
            for _ in range(5):
                number += 1
                await push(server, number)
            await watch.until(lambda: number in watch.ids)  # noqa: B023 -- awaited at once
            server.step_clock(-250 if turn % 2 else 240)
            await server.cut("abort", seconds=1)
            number += 1
            await push(server, number)
            await watch.recovered(turn + 2, within=300)
        await watch.until(lambda: number in watch.ids)
        assert watch.ids == [*range(1, number + 1)]
        assert {verdict for verdict, _ in watch.verdicts} == {rb.bridge.Verdict.RECOVERED}
