"""Where an answer and the side buffer hold the same, and nothing shows how they fit: it is delivered once, in the live order."""

from __future__ import annotations

from tests.protocol.test_rejoin import lost, m, ms, names, rejoined, say, verdict_of


def overtaken(*live, answer, more):
    """A re-join whose answers come after the pongs behind the questions: they may have been taken earlier than they were sent."""
    rig = rejoined(lost())
    rig.pongs()
    for message in live:
        say(rig, message)
    rig.replay(*answer)
    rig.pongs()
    rig.replay(*more)
    return rig


def test_what_the_live_stream_holds_is_not_replayed():
    """Foreign entries at the end of the answer: B and y stand before them, and are delivered where they were said, and once."""
    foreign = m("F", foreign=1)
    rig = overtaken(*ms("B y C"), answer=[m("E")], more=[m("y"), m("B"), foreign])
    assert (verdict_of(rig), names(rig)) == ("GAP(truncated)", "| F B y? C")


def test_more_of_the_same_than_the_live_stream_holds_is_delivered_and_flagged():
    """Two id-less messages alike in the answer, one of them live: the other may have been missed."""
    rig = overtaken(*ms("y C"), answer=[m("E")], more=[m("y"), m("y"), m("F", foreign=1)])
    assert (verdict_of(rig), names(rig)) == ("GAP(truncated)", "| y? F y C")
