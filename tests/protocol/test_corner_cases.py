"""Positions and replays, where servers differ: another log, an overlap, a hole, a silence. What the reader gets, and what is proven."""

from __future__ import annotations

import json

import pytest

import resilient_bridge as rb
from tests.protocol.driving import closed
from tests.protocol.frames_rig import FramesRig, ask, d, dialect, event, events, gap, unknown


NUMBERED = {"contiguous": True, "ends": "stated", "distinct": True}
ONE_EARLY = {**NUMBERED, "overlap": 1}
CHANNELS = {**NUMBERED, "per_channel": True}
DONE = d.Replayed(complete=True)


def rig_with(positions, *facts, **settings):
    """Connected, having read these facts."""
    rig = FramesRig(dialect(positions, **settings)).up(*facts)
    rig.read()
    return rig


# ---- another log -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [1, 6], ids=["below ours", "above ours"])
def test_a_restarted_server_is_a_gap_whatever_its_numbers(first):
    """A server that names another epoch has another log: all of it is new, and the old position is asked for no more."""
    rig = rig_with(NUMBERED, d.Hello(epoch="A"), *events(1, 5), waits_for_hello=True)
    rig.again()
    rig.hear(d.Hello(epoch="B"))
    rig.hear_each([event(first, "new"), event(first + 1, "newer")])
    assert rig.read() == [gap("new_epoch"), "new", "newer"]
    assert rig.resumed == ("GAP", "new_epoch", {})
    rig.again()
    rig.hear(d.Hello(epoch="B"))
    assert rig.numbers_asked() == [{"None": first + 1}]


def test_another_epoch_of_one_channel_leaves_the_others_alone():
    """The epoch of a channel is compared with that of its own position."""
    names = [d.Replayed(channel="a", epoch="A"), d.Replayed(channel="b", epoch="A")]
    rig = rig_with(CHANNELS, *names, event(1, channel="a"), event(1, channel="b"))
    rig.again()
    rig.hear(d.Replayed(complete=True, channel="a", epoch="A"), event(2, "a2", channel="a"))
    rig.hear(
        event(1, "b1 of another log", channel="b"),
        d.Replayed(complete=True, channel="b", epoch="B"),
    )
    assert rig.read() == [gap("new_epoch", "b"), "a2", "b1 of another log"]
    assert rig.resumed == ("GAP", "new_epoch", {"a": "RECOVERED", "b": "GAP"})


@pytest.mark.parametrize("names", [(), ("new 1", "new 2")], ids=["nothing", "all of it"])
def test_a_log_shorter_than_our_position_is_another_one(names):
    """A server without a name for its log, whose last event stands before ours, has begun anew, whatever it replays."""
    rig = rig_with(NUMBERED, *events(1, 5))
    rig.again()
    rig.hear(d.Replayed(first=3 - len(names), through=2))
    rig.hear_each(event(number, name) for number, name in enumerate(names, 1))
    assert rig.read() == [gap("restarted"), *names]


def test_another_event_at_our_position_is_another_log():
    """Asked one event early, a restarted server with larger numbers gives itself away."""
    rig = rig_with(ONE_EARLY, *events(1, 5))
    rig.again()
    assert rig.numbers_asked() == [{"None": 4}]
    rig.hear_each([*(event(n, f"other {n}") for n in (5, 6, 7)), DONE])
    assert rig.read() == [gap("restarted"), "other 5", "other 6", "other 7"]


def test_a_reused_number_is_another_log_while_live():
    """A number that comes again with another event is told as a gap, not dropped as a repetition."""
    rig = rig_with(NUMBERED, *events(1, 5))
    rig.hear(event(4))
    rig.hear(event(1, "new"))
    rig.hear(event(2, "newer"))
    assert rig.read() == [gap("restarted"), "new", "newer"]


def test_a_replay_without_the_event_that_it_should_repeat_proves_nothing():
    """A server that repeats the event asked for, and says nothing before its end, does not have it any more."""
    dialect_of_family = d.sequence(field="seq", ask="after", inclusive=True, end="end")
    rig = FramesRig(dialect_of_family).up({"seq": 1}, {"seq": 2})
    rig.again()
    rig.hear({"type": "end"})
    assert rig.resumed[0] == "UNKNOWN"


# ---- several channels --------------------------------------------------------------------------------------------


def test_each_channel_has_a_verdict_of_its_own():
    """One channel is recovered, one is lost from a number that is known, one is silent: READY waits for the last, and not for ever."""
    rig = rig_with(CHANNELS, *(event(1, channel=name) for name in "abc"))
    rig.again()
    rig.hear(event(2, "a2", channel="a"), d.Replayed(complete=True, channel="a"))
    rig.hear(d.Replayed(complete=False, channel="b", first=7), event(7, "b7", channel="b"))
    rig.idle(9)
    assert not rig.is_ready
    rig.idle(2)
    assert rig.is_ready
    assert sorted(rig.read(), key=str) == sorted(
        [unknown("timeout", "c"), "a2", gap("hole", "b", (2, 6)), "b7"], key=str
    )
    assert rig.resumed == ("GAP", "hole", {"a": "RECOVERED", "b": "GAP", "c": "UNKNOWN"})


def test_the_gaps_of_channels_come_in_the_order_of_the_channels():
    """A run can be repeated from its inputs: nothing depends on the hash of a name."""
    names = [f"channel {n}" for n in range(12)]
    rig = rig_with(CHANNELS, *(event(1, channel=name) for name in names))
    rig.again()
    rig.hear(d.Replayed(complete=False))
    assert rig.read() == [gap("position_gone", name) for name in names]


def test_a_finished_channel_is_asked_for_no_more():
    """A log that is complete has no verdict, and costs no question."""
    rig = rig_with(CHANNELS, event(1, channel="a"), event(1, channel="b"), d.Finished("a"))
    rig.again()
    assert rig.numbers_asked() == [{"b": 1}]
    rig.hear(DONE)
    assert rig.resumed == ("RECOVERED", "stated", {"b": "RECOVERED"})


# ---- overlaps ----------------------------------------------------------------------------------------------------


LARGE = {
    "inbox": rb.bridge.Inbox(max_messages=100_000),
    "replay": rb.bridge.BridgePolicy().replay.evolve(max_messages=100_000, max_bytes=10**9),
}


def after_an_overlap(positions, count):
    """What the reader gets when a server repeats so many events, and says one more."""
    rig = FramesRig(dialect(positions), **LARGE).up()
    is_number = positions.get("order") is None
    log = [event(n if is_number else f"p{n}-of-log", f"e{n}") for n in range(1, count + 1)]
    rig.hear_each(log)
    assert len(rig.read()) == count
    rig.again()
    rig.hear_each([*log, event(count + 1 if is_number else "last", "new"), d.Replayed()])
    assert rig.resumed[:2] == ("RECOVERED", "anchor")
    return rig.read()


@pytest.mark.parametrize(
    ("positions", "count"),
    [
        ({**NUMBERED, "repeats": True}, 5000),
        ({"order": "opaque", "repeats": True, "ends": "stated"}, 1500),
    ],
    ids=["numbers", "ids"],
)
def test_a_log_that_is_repeated_whole_is_delivered_once(positions, count):
    """A server that begins from 0 each time brings one new event."""
    assert after_an_overlap(positions, count) == ["new"]


def test_a_long_log_of_ids_that_is_repeated_whole_is_delivered_once():
    """What is remembered reaches as far back as the replay, or what may be a repetition is flagged."""
    came = after_an_overlap({"order": "opaque", "repeats": True, "ends": "stated"}, 3000)
    assert [name for name in came if not name.endswith("?")] == ["new"]


def test_a_long_queue_that_is_pushed_whole_is_delivered_once():
    """ReCursor pushes all that it still has; what may be a repetition is flagged."""

    def note(n):
        stamp = f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z"
        return {"type": "notification", "id": f"n{n}", "timestamp": stamp, "payload": {"n": n}}

    accepted = {"type": "connection_ack", "payload": {}}
    rig = FramesRig(d.recursor_live, **LARGE).up(accepted, *map(note, range(3000)))
    rig.take()
    rig.again()
    for frame in (accepted, *map(note, range(3001))):
        rig.hear(frame)
    came = [item for item in rig.take() if not isinstance(item, rb.bridge.Gap)]
    assert [message.id for message in came if not message.maybe_duplicate] == ["n3000"]


# ---- live events that overtake the replay ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("positions", "answer"),
    [
        pytest.param(NUMBERED, (d.Replayed(first=6, through=8),), id="a window"),
        pytest.param({**ONE_EARLY, "ends": "anchor"}, (), id="an anchor"),
    ],
)
def test_a_live_event_that_overtakes_the_replay_waits_for_it(positions, answer):
    """A server that registers before it replays sends 9 first, and 6 to 8 behind it: nothing is missing."""
    rig = rig_with(positions, *events(1, 5))
    rig.again()
    rig.hear_each([*answer, event(9), *events(6 - bool(positions.get("overlap")), 8)])
    assert rig.read() == ["e6", "e7", "e8", "e9"]
    assert rig.resumed[0] == "RECOVERED"


@pytest.mark.parametrize("ends", ["quiet", "anchor"])
def test_a_busy_stream_does_not_hold_the_join_for_ever(ends):
    """Where quiet ends a replay and events keep coming, the time that a replay may take ends it."""
    rig = rig_with({"overlap": 1, "ends": ends}, *events(1, 5))
    rig.again()
    for number in range(200):
        rig.idle(1.0)
        rig.hear(event(10 + 2 * number))
    assert rig.is_ready
    assert rig.read()


# ---- before the answer, inside it, after it, without one ---------------------------------------------------------


def test_a_replay_before_the_answer():
    """socket.io sends what was missed, and then says that the session is the one that we had."""
    opened = '0{"sid":"x","pingInterval":25000,"pingTimeout":20000}'
    rig = FramesRig(d.socketio())
    rig.connect()
    for frame in (opened, '40{"sid":"x","pid":"P"}', '42["tick",1,"offset-1"]'):
        rig.hear(frame)
    rig.read()
    rig.again()
    assert rig.hear(opened) == ['40{"pid":"P","offset":"offset-1"}']
    rig.hear('42["tick",2,"offset-2"]')
    assert rig.read() == []
    rig.hear('40{"sid":"y","pid":"P"}')
    assert rig.resumed == ("RECOVERED", "session", {})
    assert rig.read() == [["tick", 2, "offset-2"]]


def test_a_replay_inside_the_answer():
    """Centrifugo puts what was missed into the answer of each subscription, with a word on each."""
    rig = FramesRig(d.centrifugo("a", "b"))
    rig.connect("token")

    def accepted():
        rig.hear({"id": json.loads(rig.wire[0])["id"], "connect": {"ping": 25}})
        return [json.loads(frame) for frame in rig.wire[1:]]

    first = accepted()
    for command, offset in zip(first, (5, 7), strict=True):
        rig.hear({"id": command["id"], "subscribe": {"epoch": "E", "offset": offset}})
    rig.hear({"push": {"channel": "a", "pub": {"data": {"n": 6}, "offset": 6}}})
    assert [item["data"] for item in rig.read()] == [{"n": 6}]
    rig.again(token="token")
    a, b = accepted()
    assert a["subscribe"] == {"channel": "a", "recover": True, "offset": 6, "epoch": "E"}
    missed = [{"data": {"n": 7}, "offset": 7}, {"data": {"n": 8}, "offset": 8}]
    known = {
        "epoch": "E",
        "offset": 9,
        "was_recovering": True,
        "recovered": True,
        "publications": missed,
    }
    rig.hear({"id": a["id"], "subscribe": known})
    other = {"epoch": "F", "offset": 2, "was_recovering": True, "recovered": False}
    rig.hear({"id": b["id"], "subscribe": other})
    assert rig.read() == [gap("new_epoch", "b"), *missed]
    assert rig.resumed == ("GAP", "new_epoch", {"a": "RECOVERED", "b": "GAP"})


def test_a_replay_after_the_answer():
    """OpenHands says first which numbers follow: the last of them ends the replay."""
    rig = FramesRig(d.openhands)
    rig.connect("key")
    rig.hear({"type": "sync", "from_seq": -1})
    rig.hear({"type": "durable", "seq": 0, "event": {"id": "a", "kind": "X"}})
    rig.read()
    rig.again(token="key")
    assert rig.asked.query == {"after_seq": -1}
    rig.hear({"type": "sync", "from_seq": -1, "through_seq": 1})
    rig.hear({"type": "durable", "seq": 0, "event": {"id": "a", "kind": "X"}})
    assert not rig.is_ready
    rig.hear(missed := {"type": "durable", "seq": 1, "event": {"id": "b", "kind": "X"}})
    assert rig.resumed == ("RECOVERED", "window", {})
    assert rig.read() == [missed]


def mattermost():
    """Cut after the first post, and connected again; the number of our ping behind the question."""

    def accepted():
        rig.hear({"status": "OK", "seq_reply": json.loads(rig.wire[0])["seq"], "data": {}})

    rig = FramesRig(d.mattermost)
    rig.connect("token")
    rig.hear({"event": "hello", "seq": 0, "data": {"connection_id": "C1"}})
    accepted()
    rig.hear({"event": "posted", "seq": 1, "data": {}})
    rig.read()
    rig.again(token="token")
    assert rig.asked.query == {"connection_id": "C1", "sequence_number": 2}
    accepted()
    (ping,) = (json.loads(frame)["seq"] for frame in rig.wire if '"ping"' in frame)
    return rig, ping


def test_a_replay_without_an_answer():
    """Mattermost says nothing if it has everything: our ping behind the question is answered, and no greeting came before."""
    rig, ping = mattermost()
    rig.hear(missed := {"event": "posted", "seq": 2, "data": {}})
    assert not rig.is_ready
    rig.hear({"status": "OK", "seq_reply": ping, "data": {"text": "pong"}})
    assert rig.resumed == ("RECOVERED", "barrier", {})
    assert rig.read() == [missed]


def test_a_greeting_where_silence_would_be_the_answer():
    """Mattermost greets with another connection if it has lost ours: a gap, and the numbers begin anew."""
    rig, ping = mattermost()
    rig.hear({"event": "hello", "seq": 0, "data": {"connection_id": "C2"}})
    rig.hear(new := {"event": "posted", "seq": 1, "data": {}})
    rig.hear({"status": "OK", "seq_reply": ping, "data": {"text": "pong"}})
    assert rig.read() == [gap("new_session"), new]


def test_silence_is_no_answer_without_a_barrier():
    """If the ping behind the question is not answered either, the verdict is UNKNOWN, when the time of a replay is over."""
    rig, _ = mattermost()
    rig.idle(9)
    assert not rig.is_ready
    rig.idle(1.1)
    assert rig.read() == [unknown("timeout")]
    assert rig.resumed == ("UNKNOWN", "timeout", {})


def test_a_server_that_may_have_pushed_to_a_dead_socket_proves_nothing():
    """Jupyter buffers from when it notices a loss: UNKNOWN each time, with the same session in the URL."""
    rig = FramesRig(d.jupyter(session="s")).up()
    for _ in range(3):
        rig.again(closed(1001))
        assert rig.read() == [unknown("no_replay")]


def test_a_session_that_the_server_could_not_resume_is_never_a_silent_new_one():
    """We come back before the server has noticed that we were gone: it begins another session, and that is told."""
    positions = {"order": "opaque", "ends": "stated", "proof": "session"}
    rig = rig_with(positions, d.Hello(session="one"), event("p1"), waits_for_hello=True)
    rig.again()
    rig.hear(d.Hello(session="two"))
    rig.hear(event("p3"))
    assert rig.read() == [gap("new_session"), "ep3"]


def test_a_half_open_socket_costs_nothing_where_we_name_our_position():
    """A server that replays from our position has no need to know that the old connection is dead."""
    rig = rig_with(ONE_EARLY, *events(1, 3))
    for last in (4, 5):
        rig.again()
        rig.hear_each([*events(last - 1, last), DONE])
        assert rig.resumed[0] == "RECOVERED"
        assert rig.read() == [f"e{last}"]


def test_a_dialect_asks_with_what_it_was_shown():
    """What a dialect's own function returns is asked for: in the URL, in headers and in frames alike."""

    def resume(record):
        asked = {"query": {"after": record.position}, "headers": {"X-After": "1"}}
        return d.Resume(frames=ask(record).frames, **asked) if record.positions else d.Resume()

    rig = rig_with(NUMBERED, *events(1, 2), resume=resume)
    rig.again()
    assert (rig.asked.query, rig.asked.headers) == ({"after": 2}, {"X-After": "1"})
    assert rig.numbers_asked() == [{"None": 2}]
