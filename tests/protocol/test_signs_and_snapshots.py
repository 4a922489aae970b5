"""What a server says when it accepts us: how often it wants a ping; and a state instead of a replay."""

from __future__ import annotations

import pytest

from tests.protocol.frames_rig import FramesRig, d, dialect, event, events, gap, unknown


GREETED = {"login": "asked", "waits_for_hello": True, "pings": True}


def pings(written):
    """How many pings are among these frames."""
    return sum("ping" in frame for frame in written)


def rig_of(**settings):
    """Connected, and the server has not said a word."""
    rig = FramesRig(dialect(None, **settings))
    rig.connect("t")
    return rig


def beats(rig, seconds):
    """How many pings go out in so many seconds, all of them answered."""
    had, end = len(rig.wire), rig.mono + seconds
    while rig.mono < end:
        rig.idle(0.5)
        rig.hear(d.Pong())
    return pings(rig.wire[had:])


@pytest.mark.parametrize(
    "greeting",
    [
        pytest.param((d.Challenge(ping_every=3), d.Hello()), id="before it knows us"),
        pytest.param((d.Challenge(), d.Hello(ping_every=3)), id="when it accepts us"),
        pytest.param((d.Challenge(), d.Hello(), d.Hello(ping_every=3)), id="later"),
    ],
)
def test_the_server_says_how_often_it_wants_a_ping(greeting):
    """It takes the place of the policy's 15 seconds, on this connection."""
    rig = rig_of(**GREETED)
    rig.hear_each(greeting)
    assert beats(rig, 30) in {9, 10}
    rig.again(token="t")
    rig.hear_each([d.Challenge(), d.Hello()])
    assert beats(rig, 30) in {1, 2}


@pytest.mark.parametrize("every", [0, -1, float("nan"), 3601, "3"])
def test_an_interval_that_is_none_is_refused(every):
    """What a server says is no reason for pings without end: the frame is rejected, and the connection goes on as the policy says."""
    with pytest.raises(Exception, match="ping_every"):
        d.Hello(ping_every=every)
    rig = rig_of(**GREETED)
    rig.hear_each([d.Challenge(), d.Hello()])
    assert beats(rig, 30) in {1, 2}


def test_a_snapshot_is_no_replay():
    """The state of now instead of what was missed: a GAP in front of it, and what comes next follows on it."""
    rig = FramesRig(dialect({"contiguous": True, "ends": "stated"})).up(*events(1, 3))
    rig.read()
    rig.again()
    rig.hear(event(9))  # live, while the state is being made
    rig.hear(event(None, "state of 8"), d.Moved(position=8), d.Replayed(complete=False))
    assert rig.read() == [gap("position_gone"), "state of 8", "e9"]
    rig.hear(event(10))
    assert rig.read() == ["e10"]
    assert rig.resumed == ("GAP", "position_gone", {})


def test_a_snapshot_without_a_position_proves_nothing():
    """Nobody can tell what happened before it: UNKNOWN in front of it."""
    rig = FramesRig(dialect(None)).up(event(None, "a"))
    rig.read()
    rig.again()
    rig.hear(event(None, "state"))
    assert rig.read() == [unknown("no_replay"), "state"]
