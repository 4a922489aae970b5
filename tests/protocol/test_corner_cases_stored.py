"""Positions in a durable store, from one process to the next: what the reader took, and nothing beyond; and what it belongs to."""

from __future__ import annotations

import asyncio
import shutil
from random import Random

import pytest

from resilient_bridge.protocol import Now
from resilient_bridge.stores import SQLiteStore
from tests.bridges.doubles.harness import serving_websockets
from tests.protocol.driving import START
from tests.protocol.frames_rig import (
    FramesRig,
    d,
    dialect,
    event,
    events,
    gap,
    shown,
    spoken,
    unknown,
)
from tests.protocol.frames_server import Reader, Server


NUMBERED = {"contiguous": True, "ends": "stated", "distinct": True}
DONE = d.Replayed(complete=True)


async def process(path, speaks, live, *, killed=None):
    """One process: what `live(rig)` returns. It dies without a farewell, and its store had the time to write.

    `killed`: where its files are left as they are before the store is closed.
    """
    store = SQLiteStore(path)
    await store.open(Now(100.0, START))
    rig = FramesRig(speaks, store=store)
    try:
        return live(rig)
    finally:
        writing = store.keep(rig.session.inbound.watermark)
        if writing is not None:
            await writing
        if killed is not None:
            for file in path.parent.glob(f"{path.name}*"):
                shutil.copy(file, killed.with_name(file.name.replace(path.name, killed.name)))
        await store.close()


def processes(path, speaks, *lives):
    """One after the other, each with the store of the one before; what each returned."""

    async def run():
        async with asyncio.timeout(20):
            return [await process(path, speaks, live) for live in lives]

    return asyncio.run(run())


def take(rig, count):
    """The reader takes so many, and has the last of them in hand."""
    return [rig.session.inbound.take().raw for _ in range(count)]


def asks(rig):
    """What the next process asks with."""
    record = rig.session.record()
    return record.session, record.epoch, dict(record.positions)


def test_a_position_is_never_stored_beyond_what_the_reader_took(tmp_path):
    """Five came, three were handed out, two are done: the next process asks after 2, and gets 3 again, flagged, then the unread ones."""

    def first(rig):
        return take(rig.up(*events(1, 5)), 3)

    def second(rig):
        rig.connect()
        rig.hear_each([*events(3, 6), DONE])
        return rig.numbers_asked(), [(m.raw, m.redelivered) for m in rig.take()], rig.resumed

    _, (asked, came, verdict) = processes(tmp_path / "store", dialect(NUMBERED), first, second)
    assert asked == [{"None": 2}]
    assert came == [("e3", True), ("e4", False), ("e5", False), ("e6", False)]
    assert verdict == ("RECOVERED", "stated", {})


def test_what_was_in_hand_is_known_in_another_frame(tmp_path):
    """A replay in one frame brings the event that the reader had in hand: flagged, as in a frame of its own."""

    def second(rig):
        rig.connect()
        rig.hear(*events(3, 4), DONE)
        return [(m.raw, m.redelivered) for m in rig.take()]

    _, came = processes(
        tmp_path / "store", dialect(NUMBERED), lambda rig: take(rig.up(*events(1, 5)), 3), second
    )
    assert came == [("e3", True), ("e4", False)]


def after_a_kill(tmp_path, speaks, first, second):
    """`first(rig)`, killed when its store had written; then what `second(rig)` of the next process returned."""

    async def run():
        async with asyncio.timeout(20):
            await process(tmp_path / "store", speaks, first, killed=tmp_path / "killed")
            return await process(tmp_path / "killed", speaks, second)

    return asyncio.run(run())


def flags(rig):
    """What the reader gets now, each with its flag `redelivered`."""
    return [(message.raw, message.redelivered) for message in rig.take()]


ANCHORED = {"contiguous": True, "inclusive": True, "ends": "anchor"}


def test_what_comes_behind_the_anchor_is_known_as_in_hand(tmp_path):
    """The anchor ends the replay, so the event in hand comes as if it were live: flagged, and those behind it are not."""

    def second(rig):
        rig.connect()
        rig.hear_each(events(2, 5))
        return flags(rig)

    first = lambda rig: take(rig.up(*events(1, 5)), 3)  # noqa: E731
    _, came = processes(tmp_path / "store", dialect(ANCHORED), first, second)
    assert came == [("e3", True), ("e4", False), ("e5", False)]


def test_after_a_kill_64_events_behind_the_anchor_are_in_doubt(tmp_path):
    """Nobody knows how many a killed process had handed out: the first 64 of the next one are flagged, however they come."""

    def second(rig):
        rig.connect()
        rig.hear_each(events(2, 70))
        return flags(rig)

    came = after_a_kill(
        tmp_path, dialect(ANCHORED), lambda rig: take(rig.up(*events(1, 5)), 3), second
    )
    assert came == [(f"e{number}", number < 67) for number in range(3, 71)]


def test_after_a_kill_what_follows_the_stated_end_is_in_no_doubt(tmp_path):
    """The server says that it has sent all that was missed: what comes live after that is new."""

    def second(rig):
        rig.connect()
        rig.hear_each([*events(3, 4), DONE, *events(5, 6)])
        return flags(rig)

    first = lambda rig: take(rig.up(*events(1, 4)), 3)  # noqa: E731
    came = after_a_kill(tmp_path, dialect(NUMBERED), first, second)
    assert came == [("e3", True), ("e4", True), ("e5", False), ("e6", False)]


def test_after_a_kill_a_session_that_goes_on_is_in_doubt(tmp_path):
    """The server names the session first, and sends what was missed in it behind that: flagged, however it comes."""
    speaks = dialect({**NUMBERED, "proof": "session"}, waits_for_hello=True)

    def second(rig):
        rig.connect()
        rig.hear_each([d.Hello(session="s1"), *events(3, 4)])
        return flags(rig)

    first = lambda rig: take(rig.up(d.Hello(session="s1"), *events(1, 4)), 3)  # noqa: E731
    assert after_a_kill(tmp_path, speaks, first, second) == [("e3", True), ("e4", True)]


def test_after_a_kill_the_events_of_each_channel_are_in_doubt(tmp_path):
    """A replay brings one channel after the other, in another order than they were read: each has 64 in doubt."""

    def second(rig):
        rig.connect()
        rig.hear_each([*events(2, 101, channel="a"), *events(2, 3, channel="b"), DONE])
        return flags(rig)

    def first(rig):
        rig.up(event(1, channel="a"), event(1, channel="b"), event(2, channel="a"))
        take(rig, 3)

    came = after_a_kill(tmp_path, dialect({**NUMBERED, "per_channel": True}), first, second)
    assert [flagged for _, flagged in came] == [True] * 64 + [False] * 36 + [True, True]


def test_a_message_that_was_taken_in_the_end_is_no_longer_in_hand(tmp_path):
    """In hand in one process, taken in the next, which ends in order: another log may have the same number, unflagged."""

    def second(rig):
        rig.connect()
        rig.hear_each(events(2, 4))
        return take(rig, 2)

    def third(rig):
        rig.connect()
        rig.hear(event(3, "other"))
        rig.idle(130)
        return [(item.raw, item.redelivered) for item in rig.take()[1:]]

    first = lambda rig: take(rig.up(*events(1, 5)), 3)  # noqa: E731
    *_, came = processes(tmp_path / "store", dialect(ANCHORED), first, second, third)
    assert came == [("other", False)]


def test_a_position_without_an_event_waits_for_what_is_unread_before_it(tmp_path):
    """The server moved it to 9 behind three events; it is stored when the last of them was taken."""

    def first(rig):
        rig.up(*events(1, 3)).hear(d.Moved(position=9))
        take(rig, 2)

    def second(rig):
        asked = asks(rig)
        rig.connect()
        rig.hear_each([*events(2, 3), d.Moved(position=9)])
        rig.hear(DONE)
        return asked, rig.read(), rig.session.inbound.take()

    path = tmp_path / "store"
    _, (asked, came, _), third = processes(
        path, dialect({"ends": "stated", "distinct": True}), first, second, asks
    )
    assert asked == (None, None, {None: 1})
    assert came == ["e2", "e3"]
    assert third == (None, None, {None: 9})


def test_an_epoch_is_stored_with_its_position(tmp_path):
    """The server began another log while events of the old one were unread: the next process asks for those, and is told of the new log."""

    def first(rig):
        rig.up(d.Hello(session="one", epoch="A"), *events(1, 5))
        take(rig, 3)
        rig.again()
        rig.hear(d.Hello(session="one", epoch="B"))
        rig.hear_each([event(1, "new 1"), event(2, "new 2")])

    def second(rig):
        asked = asks(rig)
        rig.connect()
        rig.hear(d.Hello(session="one", epoch="B"))
        rig.hear_each([event(1, "new 1"), event(2, "new 2")])
        return asked, rig.read()

    speaks = dialect(NUMBERED, waits_for_hello=True)
    _, (asked, came), third = processes(tmp_path / "store", speaks, first, second, asks)
    assert asked == ("one", "A", {None: 2})
    assert came == [gap("new_epoch"), "new 1", "new 2"]
    assert third == ("one", "B", {None: 2})


def test_a_gap_that_was_not_read_is_in_the_stream_of_the_next_process(tmp_path):
    """All of the old log was taken, nothing of the new one, and the gap between them was not read: it is told again."""

    def first(rig):
        rig.up(d.Hello(epoch="A"), *events(1, 5))
        rig.read()
        rig.again()
        rig.hear(d.Hello(epoch="B"))
        rig.hear(event(1, "new 1"))

    def second(rig):
        asked = asks(rig)
        rig.connect()
        rig.hear(d.Hello(epoch="B"))
        rig.hear(event(1, "new 1"))
        return asked, rig.read()

    speaks = dialect(NUMBERED, waits_for_hello=True)
    _, (asked, came) = processes(tmp_path / "store", speaks, first, second)
    assert asked == (None, "A", {None: 5})
    assert came == [gap("new_epoch"), "new 1"]


def test_a_head_that_was_named_before_the_first_event_is_stored(tmp_path):
    """Nothing is unread, so nothing has to be waited for: the next process asks after the head, and misses nothing."""

    def second(rig):
        asked = asks(rig)
        rig.connect()
        rig.hear(d.Hello(session="one", epoch="A"))
        rig.hear_each([event(1), DONE])
        return asked, rig.read(), rig.resumed[0]

    speaks = dialect(NUMBERED, waits_for_hello=True)
    facts = (d.Hello(session="one", epoch="A"), d.Moved(position=0))
    _, (asked, came, verdict) = processes(
        tmp_path / "store", speaks, lambda rig: rig.up(*facts), second
    )
    assert asked == ("one", "A", {None: 0})
    assert (came, verdict) == (["e1"], "RECOVERED")


def test_a_token_is_stored_with_its_session(tmp_path):
    """The session was replaced while events of the old one were unread: what is asked with belongs to one session."""

    def first(rig):
        rig.up(d.Hello(session="one", token="of one", url="wss://one"), *events(1, 5))
        take(rig, 3)
        rig.again()
        rig.hear(d.Hello(session="two", token="of two", url="wss://two"))

    def second(rig):
        record = rig.session.record()
        return record.session, record.token, record.url

    speaks = dialect(NUMBERED, waits_for_hello=True)
    _, asked = processes(tmp_path / "store", speaks, first, second)
    assert asked in {("one", "of one", "wss://one"), ("two", "of two", "wss://two")}


def test_each_channel_is_stored_as_far_as_it_was_taken(tmp_path):
    """Of two channels one is unread: it is asked for from the start, as a channel that nobody has read."""

    def first(rig):
        names = [d.Replayed(channel=name, epoch=f"E{name}") for name in "ab"]
        rig.up(
            *names,
            event(1, "a1", channel="a"),
            event(1, "b1", channel="b"),
            event(2, "a2", channel="a"),
        )
        take(rig, 2)

    def second(rig):
        record = rig.session.record()
        rig.connect()
        rig.hear(event(2, "a2", channel="a"), event(1, "b1", channel="b"), DONE)
        return dict(record.positions), dict(record.epochs), rig.read()

    speaks = dialect({**NUMBERED, "per_channel": True})
    _, (positions, epochs, came) = processes(tmp_path / "store", speaks, first, second)
    assert (positions, epochs) == ({"a": 1}, {"a": "Ea"})
    assert came == ["a2", "b1"]


def test_a_channel_that_ended_is_not_asked_for_by_the_next_process(tmp_path):
    """Once its last event was taken, and not before."""
    last = (event(2, "a2", channel="a"), d.Finished("a"))

    def first(rig):
        rig.up(event(1, "a1", channel="a"))
        rig.hear(*last)
        take(rig, 2)

    def second(rig):
        asked = asks(rig)[2]
        rig.connect()
        rig.hear(*last, DONE)
        return asked, rig.read()

    speaks = dialect({**NUMBERED, "per_channel": True})
    _, (asked, came), third = processes(tmp_path / "store", speaks, first, second, asks)
    assert asked == {"a": 1}
    assert came == ["a2"]
    assert third == (None, None, {})


def test_the_first_connection_of_a_process_ends_in_a_verdict(tmp_path):
    """The process before was cut before its first event: nobody knows what it missed, and that is told."""

    def second(rig):
        rig.connect()
        return [shown(item) for item in rig.take()], rig.resumed

    _, (came, verdict) = processes(
        tmp_path / "store", dialect(NUMBERED), lambda rig: rig.up(), second
    )
    assert came == [unknown("no_position")]
    assert verdict == ("UNKNOWN", "no_position", {})


@pytest.mark.real
def test_what_a_fetch_brought_is_stored_as_it_is_taken(tmp_path):
    """A client with a path for its store, in real time: the position of a second process is what the first one's reader took."""
    positions = []

    async def backfill(record):
        positions.append(record.position)
        for number in range((record.position or 0) + 1, 8):
            yield spoken(event(number))

    async def life(server, count):
        options = {"store": tmp_path / "store", "session_id": "s", "backfill": backfill}
        reader = Reader(server, dialect(NUMBERED), **options)
        async with reader.bridge as bridge:
            await bridge.wait_ready(10)
            server.say(*events(1, 5) if not positions else ())
            messages = aiter(bridge)
            return [shown(await anext(messages)) for _ in range(count)]

    async def main():
        server = Server(Random(1))
        async with asyncio.timeout(20), serving_websockets(server) as server.url:
            return [await life(server, 3), await life(server, 5)]

    first, second = asyncio.run(main())
    assert first == ["e1", "e2", "e3"]
    assert positions == [2]
    assert second == ["e3", "e4", "e5", "e6", "e7"]
