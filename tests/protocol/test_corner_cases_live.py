"""Positions on a connection that is READY, and before the first event: holes, gaps that a server states, positions without an event."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import error_for
from tests.internals.telemetry import Joined
from tests.protocol.driving import closed
from tests.protocol.frames_rig import FramesRig, d, dialect, event, events, gap, unknown


NUMBERED = {"contiguous": True, "ends": "stated", "distinct": True}
CHANNELS = {**NUMBERED, "per_channel": True}
DONE = d.Replayed(complete=True)


def rig_with(positions, *facts, **settings):
    """Connected, having read these facts."""
    rig = FramesRig(dialect(positions, **settings)).up(*facts)
    rig.read()
    return rig


# ---- a hole while live -------------------------------------------------------------------------------------------


def test_a_hole_is_asked_for_once_and_filled():
    """Events are missing: the connection ends, what is missing is asked for, and the reader sees nothing of it."""
    rig = rig_with(NUMBERED, *events(1, 5))
    rig.hear(event(8))
    assert rig.read() == []
    assert "expected event 6, got 8" in rig.dies().message
    assert rig.numbers_asked() == [{"None": 5}]
    rig.hear_each([*events(6, 8), DONE])
    assert rig.read() == ["e6", "e7", "e8"]
    assert rig.resumed == ("RECOVERED", "stated", {})


def test_a_hole_that_stays_is_a_gap_with_its_numbers():
    """The replay has the same hole: it is told where it stands, with its numbers, and the session goes on."""
    rig = rig_with(NUMBERED, *events(1, 5))
    rig.hear(event(8))
    rig.dies()
    rig.hear_each([event(8), DONE])
    assert rig.read() == [gap("hole", missing=(6, 7)), "e8"]
    rig.hear(event(9))
    assert rig.read() == ["e9"]
    assert rig.session.death is None


def test_a_hole_never_makes_a_loop():
    """Nothing is replayed, and the same hole comes live again: the second time it is a gap, and no third connection is made."""
    rig = rig_with(NUMBERED, *events(1, 5))
    rig.hear(event(8))
    rig.dies()
    rig.hear(d.Replayed())
    rig.hear(event(8))
    assert rig.session.death is None
    assert rig.read()[-2:] == [gap("hole", missing=(6, 7)), "e8"]


def test_another_hole_is_asked_for_as_well():
    """Each hole has its own question, and each has only one."""
    rig = rig_with(NUMBERED, *events(1, 5))
    for first in (8, 20):
        rig.hear(event(first))
        rig.dies()
        rig.hear_each([event(first), DONE])
        assert rig.read()[-1] == f"e{first}"
    assert rig.session.death is None


def test_a_hole_of_one_channel_names_that_channel():
    """The other channels go on where they were."""
    rig = rig_with(CHANNELS, event(1, channel="a"), event(1, channel="b"))
    rig.hear(event(4, "a4", channel="a"))
    rig.dies()
    rig.hear(event(4, "a4", channel="a"), event(2, "b2", channel="b"), DONE)
    assert rig.read() == [gap("hole", "a", (2, 3)), "a4", "b2"]
    assert rig.resumed[2] == {"a": "GAP", "b": "RECOVERED"}


def test_numbers_with_holes_by_nature_are_no_loss():
    """Where the numbers of other clients lie between ours, a jump is an event like any other."""
    rig = rig_with({"ends": "stated"}, *events(1, 5))
    rig.hear(event(9))
    assert rig.read() == ["e9"]
    assert rig.session.death is None


def test_a_hole_before_the_greeting_is_asked_for_as_well():
    """Events that came before the server accepted us have a hole: what stands behind it waits for the next connection."""
    rig = FramesRig(dialect(NUMBERED, waits_for_hello=True))
    rig.connect()
    rig.hear_each([event(1), event(4), event(5), d.Hello()])
    rig.dies()
    rig.hear(d.Hello())
    rig.hear_each([*events(2, 5), DONE])
    assert rig.read() == ["e1", "e2", "e3", "e4", "e5"]


# ---- a gap that the server states --------------------------------------------------------------------------------


def test_a_gap_that_the_server_states_needs_no_reconnection():
    """A server that fell behind says so: the gap stands where it was said, and what follows follows there."""
    rig = rig_with(NUMBERED, *events(1, 5))
    rig.hear(d.Replayed(complete=False, first=9))
    rig.hear_each(events(9, 10))
    assert rig.read() == [gap("position_gone"), "e9", "e10"]
    assert (rig.session.death, rig.is_ready) == (None, True)
    rig.again()
    assert rig.numbers_asked() == [{"None": 10}]


def test_a_gap_of_one_channel_that_the_server_states():
    """It is told of that channel, and so is another epoch of a channel."""
    rig = rig_with(
        CHANNELS, event(1, channel="a"), event(1, channel="b"), d.Replayed(channel="b", epoch="B")
    )
    rig.hear(
        d.Replayed(complete=False, channel="a"),
        event(9, "a9", channel="a"),
        event(2, "b2", channel="b"),
    )
    rig.hear(d.Replayed(channel="b", epoch="C"), event(1, "b1 of another log", channel="b"))
    assert rig.read() == [
        gap("position_gone", "a"),
        "a9",
        "b2",
        gap("new_epoch", "b"),
        "b1 of another log",
    ]
    assert rig.session.death is None


def test_a_gap_of_all_channels_that_the_server_states():
    """The channel None speaks for all: what follows follows there, in each."""
    rig = rig_with(CHANNELS, event(1, channel="a"), event(1, channel="b"))
    rig.hear(d.Replayed(complete=False))
    rig.hear(event(8, "a8", channel="a"))
    rig.hear(event(9, "b9", channel="b"))
    assert rig.session.death is None
    assert rig.read()[-2:] == ["a8", "b9"]


def test_another_log_that_the_server_states():
    """A server that names another epoch on a connection that lives has begun anew: a gap, and its numbers count."""
    rig = rig_with(NUMBERED, d.Hello(epoch="A"), *events(1, 5), waits_for_hello=True)
    rig.hear(d.Hello(epoch="B"))
    rig.hear(event(1, "new"))
    assert rig.read() == [gap("new_epoch"), "new"]
    assert rig.session.death is None


def test_another_session_that_the_server_states():
    """A server that names another session on a connection that lives keeps nothing of ours: never in silence."""
    positions = {"order": "opaque", "ends": "stated", "proof": "session"}
    rig = rig_with(positions, d.Hello(session="one"), event("p1"), waits_for_hello=True)
    rig.hear(d.Hello(session="two"))
    rig.hear(event("p3"))
    assert rig.read() == [gap("new_session"), "ep3"]


# ---- no position yet ---------------------------------------------------------------------------------------------


def test_a_position_from_the_greeting_covers_the_first_cut():
    """Cut before the first event: the server's head, which it named when it accepted us, is what is asked after."""
    rig = rig_with(NUMBERED, d.Moved(position=0))
    rig.again()
    assert rig.numbers_asked() == [{"None": 0}]
    rig.hear_each([*events(1, 2), DONE])
    assert rig.read() == ["e1", "e2"]
    assert rig.resumed == ("RECOVERED", "stated", {})


def test_an_empty_log_has_a_head_as_well():
    """OpenHands names no last event in an empty log; what is stored before the cut is noticed is still asked for."""
    rig = FramesRig(d.openhands)
    rig.connect("key")
    rig.hear({"type": "sync", "from_seq": -1})
    rig.again(token="key")
    assert rig.asked.query == {"after_seq": -1}
    rig.hear({"type": "sync", "from_seq": -1, "through_seq": 0})
    rig.hear(missed := {"type": "durable", "seq": 0, "event": {"id": "a", "kind": "X"}})
    # Of the log before the cut no event was read: it may have been another one.
    assert rig.read() == [unknown("no_anchor"), missed]
    assert rig.resumed == ("UNKNOWN", "no_anchor", {})


def test_without_any_position_the_first_cut_is_unknown():
    """Nothing to ask with: READY at once, and the doubt is told."""
    rig = rig_with(NUMBERED)
    rig.again()
    assert rig.is_ready
    rig.hear(event(1))
    assert rig.read() == [unknown("no_position"), "e1"]
    rig.again()
    rig.hear_each([event(2), DONE])
    assert rig.read() == ["e2"]
    assert len(rig.of(Joined)) == 1


def test_a_first_question_that_cannot_be_answered_is_a_gap():
    """Asked for everything, a server that says that it does not hold everything any more is not kept from the reader."""
    wanted = {"type": "resume", "after": "{position}"}
    rig = FramesRig(d.sequence(field="seq", ask=wanted, start=0, reset="gap", end="end"))
    rig.connect()
    assert rig.wire == ['{"type":"resume","after":0}']
    for frame in ({"type": "gap"}, {"type": "news", "seq": 101}, {"type": "end"}):
        rig.hear(frame)
    assert rig.read() == [gap("position_gone"), {"type": "news", "seq": 101}]


def test_a_head_that_is_named_before_the_replay_takes_no_event_away():
    """A greeting names the head each time, and the replay behind it brings the event that stands there."""
    rig = rig_with(NUMBERED, *events(1, 2))
    rig.again()
    rig.hear(d.Moved(position=4))
    rig.hear_each([*events(3, 4), DONE])
    assert rig.read() == ["e3", "e4"]


# ---- a position without an event ---------------------------------------------------------------------------------


def test_a_position_beyond_the_last_event_is_no_hole():
    """What the server filtered out for us moves the position: the next event follows there, and so does the next question."""
    rig = rig_with(NUMBERED, *events(1, 2))
    rig.hear(d.Moved(position=5))
    rig.hear(event(6))
    assert rig.read() == ["e6"]
    rig.hear(d.Moved(position=9))
    rig.again()
    assert rig.numbers_asked() == [{"None": 9}]


def test_where_no_event_was_none_is_expected_again():
    """Asked one event early, but not from a position without an event: there nothing could be repeated."""
    rig = rig_with({**NUMBERED, "overlap": 1}, *events(1, 2), d.Moved(position=5))
    rig.again()
    assert rig.numbers_asked() == [{"None": 5}]
    rig.hear_each([event(6), DONE])
    assert rig.resumed == ("RECOVERED", "stated", {})
    assert rig.read() == ["e6"]


def test_a_position_beyond_the_last_event_is_no_hole_in_a_replay_either():
    """The replay says that 3 to 5 are not for us, and goes on with 6."""
    rig = rig_with(NUMBERED, *events(1, 2))
    rig.again()
    rig.hear_each([d.Moved(position=5), event(6), DONE])
    assert rig.read() == ["e6"]
    assert rig.resumed[0] == "RECOVERED"


def test_an_id_without_a_message_moves_the_position():
    """The priming event of MCP has an id and no data: it is asked after, and nobody reads it."""
    rig = rig_with({"order": "opaque", "ends": "stated"}, d.Moved(position="primer"))
    rig.again()
    assert rig.numbers_asked() == [{"None": "primer"}]
    rig.hear(event("p1"), d.Moved(position="p2"), DONE)
    assert rig.read() == ["ep1"]
    rig.again()
    assert rig.numbers_asked() == [{"None": "p2"}]


def test_an_event_outside_the_log_moves_nothing():
    """A delta without a position is delivered in its place and asked for never; in a join it is no news of the log."""
    rig = rig_with({**NUMBERED, "overlap": 1}, *events(1, 3), event(None, "delta"))
    rig.again()
    assert rig.numbers_asked() == [{"None": 2}]
    rig.hear_each([event(None, "early"), event(3), event(None, "between"), event(4), DONE])
    assert rig.read() == ["early", "between", "e4"]
    assert rig.resumed == ("RECOVERED", "stated", {})


def test_the_snapshot_of_a_connection_is_no_position():
    """OpenHands' legacy socket sends the whole state first, with a newer time than what it replays behind it."""

    def state(number):
        stamp = f"2026-01-01T00:00:{number}0"
        return {
            "kind": "ConversationStateUpdateEvent",
            "key": "full_state",
            "id": f"s{number}",
            "timestamp": stamp,
        }

    had = {"kind": "X", "id": "a", "timestamp": "2026-01-01T00:00:05"}
    missed = {"kind": "X", "id": "b", "timestamp": "2026-01-01T00:00:06"}
    rig = FramesRig(d.openhands_legacy).up(state(1), had)
    assert [message["id"] for message in rig.read()] == ["s1", "a"]
    rig.again()
    assert rig.asked.query == {"resend_mode": "since", "after_timestamp": "2026-01-01T00:00:05"}
    rig.hear(state(2))
    question = rig.wire[-1]
    refused = {
        "kind": "ServerErrorEvent",
        "code": "ValidationError",
        "detail": f"role: input_value={question}",
    }
    live = {"kind": "X", "id": "c", "timestamp": "2026-01-01T00:00:07"}
    for frame in (
        had,
        live,
        missed,
        live,
    ):  # a live event overtakes the replay, and comes in it once more
        rig.hear(frame)
    assert not rig.is_ready
    rig.hear(refused)
    assert [message["id"] for message in rig.read()] == ["s2", "b", "c"]
    assert rig.resumed == ("RECOVERED", "anchor", {})


def test_a_replay_that_was_cut_short_proves_nothing_by_its_anchor():
    """Live events came between those of the replay, and its end did not come: what is older than they are may be missing."""
    rig = rig_with(
        {"order": "time", "repeats": True, "ends": "stated", "interleaves": True},
        event("2026-01-01T00:00:05", "a", id="a"),
    )
    rig.again()
    rig.hear_each(
        [event("2026-01-01T00:00:05", "a", id="a"), event("2026-01-01T00:00:09", "c", id="c")]
    )
    rig.idle(60)
    assert rig.read() == []
    assert "once more" in rig.dies().message  # nothing of it counts yet
    rig.hear_each(
        [event("2026-01-01T00:00:05", "a", id="a"), event("2026-01-01T00:00:09", "c", id="c")]
    )
    rig.idle(60)
    assert rig.read() == [unknown("timeout"), "c"]
    rig.again()
    assert rig.numbers_asked() == [
        {"None": "2026-01-01T00:00:05"}
    ]  # what came live says nothing of what is older


@pytest.mark.parametrize(
    "wrong",
    [{"order": "number", "ends": "stated"}, {"order": "time", "repeats": True, "ends": "anchor"}],
)
def test_what_comes_between_a_replay_needs_its_end(wrong):
    """Only times have to be put in order, and only where somebody says when the replay is over."""
    with pytest.raises(rb.ConfigError, match="interleaves"):
        d.Positions(**wrong, interleaves=True)


def test_a_clock_that_steps_back_does_not_move_the_position_back():
    """Of two times the later one is asked after, and several events of one time are told apart by their ids."""
    later, earlier = "2026-01-01T00:00:05Z", "2026-01-01T00:00:03Z"
    facts = (event(later, "a", id="a"), event(earlier, "b", id="b"))
    rig = rig_with({"order": "time", "repeats": True, "ends": "anchor"}, *facts)
    rig.again()
    assert rig.numbers_asked() == [{"None": later}]
    rig.hear(event(later, "a", id="a"))
    rig.hear(event(later, "c", id="c"))
    assert rig.read() == ["c"]
    assert rig.resumed == ("RECOVERED", "anchor", {})


# ---- how connections end -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["a close code", "an error that it sends"])
def test_a_position_that_the_server_has_forgotten_is_asked_for_no_more(by):
    """By a rule of the dialect: the next connection asks for nothing, and the gap is told on it."""
    ends = (d.End(close=4410, means="position_gone"), d.End(code="TOO_OLD", means="position_gone"))
    rig = rig_with(NUMBERED, *events(1, 3), ends=ends)
    if by == "a close code":
        rig.again(closed(4410))
    else:
        rig.again()
        rig.hear(d.Refused(code="TOO_OLD", text="no such position"))
        rig.dies()
    assert rig.numbers_asked() == []
    rig.hear(event(9))
    assert rig.read() == [gap("position_gone"), "e9"]


def test_a_refusal_that_leaves_the_socket_open_ends_it():
    """A server that refuses us for good, and does not close, is not waited for."""
    ends = (d.End(code="NO_ENTRY", means="auth"),)
    rig = rig_with(NUMBERED, *events(1, 3), ends=ends)
    rig.hear(d.Refused(code="NO_ENTRY", text="not you"))
    assert rig.session.death is not None
    assert not rig.lose(rig.session.death).retry
    assert isinstance(error_for(rig.session.failure), rb.errors.AuthError)


def test_a_channel_whose_answer_is_late_has_its_own_reason():
    """One channel's answer came, the other's did not in time: the other has a timeout, and no missing anchor of the first."""
    positions = {**CHANNELS, "inclusive": True}
    rig = rig_with(positions, event(1, "a1", channel="a"), event(1, "b1", channel="b"))
    rig.again()
    rig.hear_each(
        [
            event(1, "a1", channel="a"),
            event(2, "a2", channel="a"),
            d.Replayed(complete=True, channel="a"),
        ]
    )
    rig.idle(60)
    assert rig.read() == [unknown("timeout", "b"), "a2"]
    assert rig.resumed == ("UNKNOWN", "timeout", {"a": "RECOVERED", "b": "UNKNOWN"})
