"""What a session knows beside its positions: the snapshot of each connection, and a token or URL that is replaced or dead.

Rule: the session alone, without a client: what it asks with, what it holds, what the reader gets.
"""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from tests.protocol.frames_rig import FramesRig, d, dialect, event, gap, unknown


TIMES = {"order": "time", "repeats": True, "ends": "quiet"}
SESSIONS = {"order": "opaque", "ends": "stated", "proof": "session"}


# ---- a snapshot, and live events -----------------------------------------------------------------------------------


def moment(second):
    """A position, and the name that is shown."""
    return event(f"2026-01-01T00:00:{second:02}Z", f"e{second}")


class Snapshots:
    """A rig whose user asks for a snapshot at each connection, and waits for it."""

    def __init__(self):
        self.rig = FramesRig(dialect(TIMES))
        self.rig.session._greets = True
        self.state = []

    def expect(self):
        """The user's function begins: the snapshot takes the place of what was there."""
        self.rig.session.link.greeting.expect(
            lambda raw: raw.startswith("snapshot"),
            lambda message: self.state.__setitem__(slice(None), [message.raw]),
        )

    def done(self):
        """The user's function has ended."""
        self.rig.session.link.greeted(self.rig.now)
        self.rig.after()


def test_live_events_are_held_during_a_snapshot_that_replaces_the_last_one():
    """Before and behind the snapshot, they wait for the end of the greeting, in their order; its own, newer time is no position of the reader's."""
    user = Snapshots()
    rig = user.rig
    rig.connect()
    user.expect()
    rig.hear(moment(1))
    rig.hear(event("2026-01-01T00:00:30Z", "snapshot one"))
    rig.hear(moment(2))
    assert (user.state, rig.read(), rig.is_ready) == (["snapshot one"], [], False)
    user.done()
    assert (rig.read(), rig.is_ready) == (["e1", "e2"], True)
    rig.hear(moment(3))
    assert rig.read() == ["e3"]

    rig.again()
    user.expect()
    rig.hear(moment(40))
    rig.hear(event("2026-01-01T00:00:50Z", "snapshot two"))
    assert (user.state, rig.read()) == (["snapshot two"], [])
    user.done()
    rig.write()
    assert rig.numbers_asked() == [{"None": moment(3).position}]
    rig.hear(
        moment(39)
    )  # older than the snapshot, and missed: it replaces the state, not the stream
    rig.idle(30)
    came = rig.read()
    assert came[0] == unknown("no_anchor")
    assert sorted(came[1:]) == [
        "e39?",
        "e40?",
    ]  # the last known one did not come: nobody can tell whether these are new


def test_a_connection_that_is_lost_during_its_snapshot_delivers_nothing_of_it():
    """What was held belongs to that connection: the next one asks from the same position, and brings its own snapshot."""
    user = Snapshots()
    rig = user.rig
    rig.connect()
    user.expect()
    rig.hear(event(None, "snapshot one"))
    user.done()
    rig.hear(moment(1))
    assert rig.read() == ["e1"]
    rig.again()
    user.expect()
    rig.hear(moment(20))
    rig.again()
    user.expect()
    rig.hear(event(None, "snapshot three"))
    user.done()
    rig.write()
    assert rig.numbers_asked() == [{"None": moment(1).position}]
    for second in (1, 20):
        rig.hear(moment(second))
    rig.idle(30)
    assert user.state == ["snapshot three"]
    assert [item for item in rig.read() if isinstance(item, str)] == ["e20"]


# ---- a token or an address that is replaced or dead ----------------------------------------------------------------


def by_token(record):
    """Asks with what the greeting gave."""
    return d.Resume(query={"token": record.token}, url=record.url) if record.token else d.Resume()


def ticketed(url="wss://one/"):
    """Accepted with a token and an address of the server's, and one event read."""
    ends = (d.End(status=410, means="session_gone"),)
    rig = FramesRig(dialect(SESSIONS, resume=by_token, waits_for_hello=True, ends=ends))
    rig.up(d.Hello(session="one", token="first", url=url), event("a"))
    assert rig.read() == ["ea"]
    return rig


def refused(status):
    """An upgrade that was answered with this status."""
    return rb.Failure.of("SYS_UNAVAILABLE", details={"http_status": status})


def test_a_token_of_the_greeting_was_not_asked_with_on_the_same_connection():
    """READY at once: the URL of the first connection asked for nothing, so nothing is waited for."""
    assert ticketed().of(rb.events.Resumed) == []


def test_the_newest_token_and_address_are_asked_with():
    """Replaced in the middle of a connection; a greeting that names only one of them leaves the other."""
    rig = ticketed()
    rig.hear(d.Hello(session="one", token="second", url="wss://two/"))
    rig.again()
    assert rig.asked == d.Resume(query={"token": "second"}, url="wss://two/")
    rig.hear(d.Hello(session="one", token="third"))
    assert rig.resumed == ("RECOVERED", "session", {})
    rig.again()
    assert rig.asked == d.Resume(query={"token": "third"}, url="wss://two/")


def test_a_token_that_was_refused_is_never_asked_with_again():
    """Session, token and address are forgotten together; the new session is a gap, and its own token counts from then on."""
    rig = ticketed()
    rig.lose()
    assert rig.session.resume().query == {"token": "first"}
    rig.session.connecting(rig.now)
    assert rig.lose(refused(410)).retry
    for _ in range(2):  # nor after an attempt that failed for another reason
        assert rig.session.resume() == d.Resume()
        rig.session.connecting(rig.now)
        assert rig.lose(rb.Failure.of("CONN_REFUSED")).retry
    rig.connect()
    rig.hear(d.Hello(session="two", token="new"))
    rig.hear(event("b"))
    assert rig.read() == [gap("new_session"), "eb"]
    rig.again()
    assert rig.asked == d.Resume(query={"token": "new"})


@pytest.mark.parametrize("status", [500, 503])
def test_a_refusal_that_says_nothing_of_the_token_leaves_it(status):
    """A server that cannot take us now has not forgotten us; only an address of its own would be gone with it."""
    rig = ticketed(url=None)
    rig.lose()
    rig.session.connecting(rig.now)
    assert rig.lose(refused(status)).retry
    rig.connect()
    assert rig.asked == d.Resume(query={"token": "first"})
    rig.hear(d.Hello(session="one"))
    assert rig.resumed == ("RECOVERED", "session", {})


# ---- what a gap names ----------------------------------------------------------------------------------------------


def named(rig):
    """The gaps that the reader gets now: reason, channel, and the position of the last event before."""
    return [
        (item.reason, item.channel, item.after)
        for item in rig.take()
        if isinstance(item, rb.bridge.Gap)
    ]


def numbered(positions, *facts):
    """Connected, having read these facts."""
    rig = FramesRig(dialect(positions)).up(*facts)
    rig.take()
    return rig


def test_a_missing_anchor_is_named():
    """The event that should have come again, and did not: by its number, or by its time."""
    rig = numbered({"overlap": 1, "ends": "stated"}, event(7))
    rig.again()
    rig.hear_each([event(9), d.Replayed()])
    assert named(rig) == [("no_anchor", None, 7)]
    rig = numbered({"order": "time", "repeats": True, "ends": "stated"}, moment(5))
    rig.again()
    rig.hear_each([moment(8), d.Replayed()])
    assert named(rig) == [("no_anchor", None, moment(5).position)]


def test_each_gap_names_the_event_before_it():
    """In the middle of a replay the one before the hole, of a channel its own, and of a log that is forgotten the last that was read."""
    contiguous = {"contiguous": True, "ends": "stated"}
    rig = numbered(contiguous, event(1))
    rig.again()
    rig.hear_each([event(2), event(3), event(6), d.Replayed(complete=True)])
    assert named(rig) == [("hole", None, 3)]
    rig = numbered(
        {**contiguous, "per_channel": True}, event(4, channel="a"), event(9, channel="b")
    )
    rig.again()
    rig.hear(d.Replayed(complete=False))
    assert named(rig) == [("position_gone", "a", 4), ("position_gone", "b", 9)]
    rig = numbered(contiguous, event(5))
    rig.hear(d.Replayed(complete=False))  # while live
    assert named(rig) == [("position_gone", None, 5)]
    rig = numbered(None, event(None, "no position"))
    rig.again()
    assert named(rig) == [("no_replay", None, None)]
