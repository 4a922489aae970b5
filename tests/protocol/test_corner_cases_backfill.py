"""What was missed, fetched by a function of the user's while what comes live is held: where the two meet, and what becomes of a fetch that fails."""

from __future__ import annotations

import asyncio

import resilient_bridge as rb
from tests.protocol.frames_rig import dialect, event, events, gap, spoken
from tests.protocol.frames_server import served


NUMBERED = {"contiguous": True, "ends": "stated", "distinct": True}
UNORDERED = {"order": "opaque", "ends": "stated"}


def missed(backfill, live, after, *, positions=NUMBERED, had=None, replay=None):
    """Cut after five events, then: what `backfill(call, record, server)` fetches, beside `live`. The positions it got, and the reader."""
    calls = []

    async def main(server):
        async def fetch(record):
            calls.append(record.position)
            async for frame in backfill(len(calls), server):
                yield frame

        async with server.client(dialect(positions), backfill=fetch, replay=replay) as reader:
            assert calls == []  # nothing was missed before the first connection
            server.say(*(events(1, 5) if had is None else had))
            await asyncio.sleep(1)
            reader.stream.clear()
            server.first = live
            server.drop()
            await reader.verdict()
            server.say(*after)
            await asyncio.sleep(30)
            assert str(reader.bridge.state) == "READY"
            return calls, reader

    return served(main)


def test_what_is_fetched_and_what_comes_live_meet():
    """Fetched until it reaches the first event that came live meanwhile; each once, in order, and no more is asked for."""
    fetched = []

    async def pages(call, server):
        for number in range(6, 100):
            fetched.append(number)
            yield spoken(event(number))

    calls, reader = missed(pages, events(9, 10), [event(11)])
    assert (calls, fetched) == ([5], [6, 7, 8])
    assert reader.stream == [f"e{n}" for n in range(6, 12)]
    assert reader.verdicts == [("RECOVERED", "backfill")]


def test_what_is_fetched_may_overlap_on_both_sides():
    """A page holds what we had, what was missed and what came live as well: each is delivered once."""

    async def pages(call, server):
        yield spoken(*events(3, 12))

    _, reader = missed(pages, events(9, 10), events(11, 13))
    assert reader.stream == [f"e{n}" for n in range(6, 14)]
    assert reader.verdicts == [("RECOVERED", "backfill")]


def test_a_backfill_that_ends_at_its_own_head_is_complete():
    """Nothing came live meanwhile."""

    async def pages(call, server):
        yield spoken(*events(6, 7))

    _, reader = missed(pages, (), [event(8)])
    assert reader.stream == ["e6", "e7", "e8"]
    assert reader.verdicts == [("RECOVERED", "backfill")]


def test_an_event_that_is_repeated_live_does_not_end_the_backfill():
    """The server repeats the event asked for, and holds no more; where numbers have holes nothing else shows what is missing."""

    async def pages(call, server):
        for number in range(6, 10):
            yield spoken(event(number))

    _, reader = missed(pages, [event(5), event(9)], (), positions={"overlap": 1, "ends": "stated"})
    assert reader.stream == ["e6", "e7", "e8", "e9"]


def test_pages_and_live_frames_are_framed_differently():
    """A position names an event whatever frame it comes in."""
    p6, p7, p8 = (event(f"p{n}", f"e{n}") for n in (6, 7, 8))

    async def pages(call, server):
        yield spoken(p6, p7, p8)

    _, reader = missed(pages, [p8], (), positions=UNORDERED, had=[event("p5")])
    assert reader.stream == ["e6", "e7", "e8"]


def test_a_position_that_is_gone_is_a_gap_at_once():
    """The user's own function says so: it is asked once, and what is missing is told with its numbers."""

    async def pages(call, server):
        if call:
            raise rb.errors.PositionGoneError("410")
        yield ""

    calls, reader = missed(pages, [event(9)], [event(10)])
    assert calls == [5]
    assert reader.stream == [gap("hole", missing=(6, 8)), "e9", "e10"]


def test_a_position_that_is_gone_where_numbers_have_holes():
    """Nothing shows which are missing; the reason does show why."""

    async def pages(call, server):
        if call:
            raise rb.errors.PositionGoneError("410")
        yield ""

    _, reader = missed(pages, [event(9)], [event(12)], positions={"ends": "stated"})
    assert reader.stream == [gap("position_gone"), "e9", "e12"]
    assert reader.verdicts == [("GAP", "position_gone")]


def test_a_fetch_that_fails_once_is_tried_again():
    """From the start, and what the failed one brought is not delivered twice."""

    async def pages(call, server):
        yield spoken(event(6))
        if call < 3:
            raise ConnectionError("reset")
        yield spoken(*events(7, 8))

    calls, reader = missed(pages, [event(9)], [event(10)])
    assert calls == [5, 5, 5]
    assert reader.stream == ["e6", "e7", "e8", "e9", "e10"]
    assert reader.verdicts == [("RECOVERED", "backfill")]


def test_a_fetch_that_fails_for_good_is_a_gap_from_there():
    """Tried three times; what it brought is delivered, and the gap stands behind that, before what came live."""

    async def pages(call, server):
        yield spoken(event(6))
        raise ConnectionError("reset")

    calls, reader = missed(pages, [event(9)], [event(10)])
    assert calls == [5, 5, 5]
    assert reader.stream == ["e6", gap("hole", missing=(7, 8)), "e9", "e10"]


def test_a_fetch_that_fails_is_a_gap_where_numbers_have_holes_as_well():
    """Nothing shows what is missing, so the verdict does."""

    async def pages(call, server):
        raise ConnectionError("reset")
        yield

    _, reader = missed(pages, [event(9)], (), positions={"ends": "stated"})
    assert reader.stream == [gap("backfill_failed"), "e9"]
    assert reader.verdicts == [("GAP", "backfill_failed")]


def test_a_fetch_that_fails_where_numbers_have_holes_is_a_gap_from_there():
    """What was fetched goes on where we stopped; what is missing stands behind it."""

    async def pages(call, server):
        yield spoken(event(6))
        raise ConnectionError("reset")

    _, reader = missed(pages, [event(9)], (), positions={"ends": "stated"})
    assert reader.stream == ["e6", gap("backfill_failed"), "e9"]


def test_a_slow_fetch_does_not_hold_the_stream_for_ever():
    """It has the time of a replay; then what came live is delivered behind the gap."""

    async def pages(call, server):
        yield spoken(event(6))
        await asyncio.sleep(1000)

    _, reader = missed(pages, [event(9)], [event(10)])
    assert reader.stream == ["e6", gap("hole", missing=(7, 8)), "e9", "e10"]


def test_more_than_may_be_held_meanwhile_ends_the_fetch():
    """The stream goes on with holes that are told, with their numbers."""

    async def pages(call, server):
        server.say(*events(20, 60))
        await asyncio.sleep(1)
        yield spoken(*events(6, 60))

    _, reader = missed(pages, [event(9)], [event(61)], replay={"max_messages": 20})
    assert reader.stream[:4] == [
        gap("hole", missing=(6, 8)),
        "e9",
        gap("hole", missing=(10, 19)),
        "e20",
    ]
    assert reader.stream[4:] == [f"e{n}" for n in range(21, 62)]


def test_a_fetch_ends_with_its_verdict():
    """A function that pages without an end is not asked any more once its time is over."""
    pages_asked = []

    async def pages(call, server):
        while True:
            pages_asked.append(asyncio.get_running_loop().time())
            yield spoken(event(f"page {len(pages_asked)}"))
            await asyncio.sleep(1)

    _, reader = missed(
        pages, (), (), positions=UNORDERED, had=[event("p5")], replay={"max_seconds": 20}
    )
    assert reader.verdicts == [("GAP", "backfill_timeout")]
    assert pages_asked[-1] - pages_asked[0] < 25


def test_a_fetch_that_is_cut_off_begins_again_on_the_next_connection():
    """With the connection its fetch is over."""

    async def pages(call, server):
        yield spoken(event(6))
        if call == 1:
            server.drop()
            await asyncio.sleep(1000)
        yield spoken(*events(7, 8))

    calls, reader = missed(pages, (), [event(9)])
    assert calls == [5, 5]
    assert reader.stream == ["e6", "e7", "e8", "e9"]
