"""What is heard at a connection before its join, while `on_connect` runs: a time of its own, bounds, and where it goes afterwards."""

from __future__ import annotations

import json

import resilient_bridge as rb
from resilient_bridge.bridge import BridgeState
from tests.protocol.driving import Rig, envelope


STAMPS = ["2026-03-20T09:46:40Z", "2026-03-20T09:46:50Z"]


def greeting(**parts):
    """A session whose user says something at each connection; here the test says when that is over."""
    rig = Rig(**parts)
    rig.session._greets = True
    return rig


def greeted(rig):
    """The user is done."""
    rig.session.link.greeted(rig.now)
    return rig.write()


def test_a_greeting_has_a_time_of_its_own():
    """What the server took to accept us is not taken off the time that the user has, nor that off the time of the join."""
    rig = greeting()
    rig.connect()
    rig.idle(9, write=False)
    rig.authenticate()
    rig.idle(9, write=False)
    assert rig.session.death is None
    greeted(rig)
    rig.idle(9, write=False)
    assert rig.session.death is None
    rig.idle(1.1, write=False)
    assert "on_connect" not in rig.session.death.message


def test_what_was_expected_makes_room_again():
    """A frame that was held and is then expected counts no longer; one that nobody expects does."""
    rig = greeting(dialect=rb.dialects.plain, replay=rb.bridge.Replay(max_bytes=10))
    rig.connect()
    found = []
    for _ in range(3):
        rig.session.receive("welcome", rig.now)
        rig.session.link.greeting.expect(lambda frame: frame == "welcome", found.append)
    assert ([message.raw for message in found], rig.session.death) == (["welcome"] * 3, None)
    rig.session.receive("welcome", rig.now)
    assert rig.session.death is None
    rig.session.receive("welcome", rig.now)
    assert rig.session.death.code == "SYS_INBOX_FULL"


def test_what_came_during_a_greeting_belongs_to_the_join():
    """It stands behind the gap and says when that ended; what may repeat a message from before the loss is marked."""
    rig = greeting(dialect=rb.bridge.Dialect.envelopes())
    hello, news = envelope("hello", timestamp=STAMPS[0]), envelope("news", timestamp=STAMPS[1])
    rig.connect()
    rig.session.receive(json.dumps(hello), rig.now)
    greeted(rig)
    assert ([message.maybe_duplicate for message in rig.take()], rig.state) == (
        [False],
        BridgeState.READY,
    )
    rig.lose()
    rig.connect()
    for frame in (hello, news):
        rig.session.receive(json.dumps(frame), rig.now)
    assert rig.take() == []
    greeted(rig)
    gap, *messages = rig.take()
    assert (gap.verdict, gap.until.second) == ("UNKNOWN", 50)
    assert [(message.raw, message.maybe_duplicate) for message in messages] == [
        (hello, True),
        (news, False),
    ]
