"""A replay without an end of its own, on a server that keeps sending live events: how long it is waited for, and what decides."""

from __future__ import annotations

import pytest

from tests.protocol.frames_rig import FramesRig, d, dialect, event, events, gap, unknown


ANCHORED = {"contiguous": True, "inclusive": True, "ends": "anchor"}


def missed_some():
    """A reader of 10 and 11 whose connection was lost, and is there again."""
    rig = FramesRig(dialect(ANCHORED)).up(*events(10, 11))
    rig.read()
    rig.again()
    return rig


def pushed(rig, numbers, every=0.2):
    """The server sends these events, one after the other."""
    for number in numbers:
        rig.idle(every)
        rig.hear(event(number))


@pytest.mark.parametrize("answer", [[event(11)], []], ids=["anchor", "nothing"])
def test_a_server_that_keeps_pushing_behind_a_hole_is_not_waited_for(answer):
    """What was missed does not come, live events do: after `Replay.timeout` what was heard decides, and the session goes on."""
    rig = missed_some()
    pushed(rig, [15])
    rig.hear_each(answer)
    pushed(rig, range(16, 60))
    assert rig.read() == []
    pushed(rig, range(60, 70))
    assert rig.is_ready
    assert rig.read() == [
        gap("hole", missing=(12, 14)),
        *(f"e{number}" for number in range(15, 70)),
    ]
    assert rig.session.death is None


def test_a_replay_that_is_filled_in_slowly_is_waited_for():
    """A live event overtakes a long replay, which comes slowly, among more live events: nothing is missing."""
    rig = missed_some()
    live = iter(range(100, 200))
    for number in range(11, 100):
        pushed(rig, [next(live)], every=1)
        pushed(rig, [number], every=0)
    assert rig.resumed == ("RECOVERED", "anchor", {})
    assert rig.read() == [f"e{number}" for number in range(12, 189)]


def test_an_answer_without_the_anchor_is_not_waited_for_while_events_come():
    """The server sends what comes behind the position, and not the event there: nothing tells the answer from live events."""
    rig = missed_some()
    pushed(rig, range(12, 70))
    assert rig.is_ready
    assert rig.read() == [unknown("no_anchor"), *(f"e{number}" for number in range(12, 70))]


@pytest.mark.parametrize(
    "positions",
    [ANCHORED, {"contiguous": True}, {"contiguous": True, "overlap": 1, "ends": "anchor"}, {}],
    ids=["inclusive", "exclusive", "overlap", "holes"],
)
def test_a_log_that_counts_from_the_beginning_is_not_waited_for(positions):
    """The server's numbers begin again, and what it pushes stands below what was asked for: that is no replay."""
    rig = FramesRig(dialect(positions)).up(*events(1, 30))
    rig.read()
    rig.again()
    for number in range(3, 24):
        rig.idle(0.5)
        rig.hear(event(number, f"new {number}"))
    assert rig.is_ready
    assert rig.resumed == ("GAP", "restarted", {})


@pytest.mark.parametrize("waits", [True, False], ids=["waits for the hello", "does not"])
def test_another_epoch_than_the_one_that_was_asked_ends_the_wait(waits):
    """The request, in the URL, was for a log that is gone: live events of the new one do not prolong the wait beyond `quiet`."""
    speaks = dialect(
        {"contiguous": True},
        resume=lambda record: d.Resume(
            query={"after": str(record.position)} if record.positions else {}
        ),
        waits_for_hello=waits,
    )
    rig = FramesRig(speaks).up(d.Hello(epoch="A"), *events(1, 30))
    rig.read()
    rig.again()
    rig.hear(d.Hello(epoch="B"))
    pushed(rig, range(3, 8), every=0.5)
    assert rig.is_ready
    assert rig.resumed == ("GAP", "new_epoch", {})
    assert rig.read() == [gap("new_epoch"), *(f"e{number}" for number in range(3, 8))]
