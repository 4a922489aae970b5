"""Whether the next frame may be read: back-pressure, answers that get through, and a link that is dropped instead."""

from __future__ import annotations

from resilient_bridge.bridge import BridgeState as S
from resilient_bridge.bridge import Inbox, Reconnect
from tests.protocol.driving import Rig


def full(count, **inbox):
    rig = Rig(inbox=Inbox(max_messages=8, **inbox)).up()
    for _ in range(count):
        rig.hear("a")
    return rig


def test_reading_pauses_when_the_inbox_is_full_and_goes_on_at_three_quarters():
    """Threat 5: back-pressure instead of memory; no flutter at the edge."""
    rig = full(7)
    assert rig.session.may_read(rig.now, iterating=True)
    rig.hear("a")
    states = []
    for _ in range(5):
        states.append(rig.session.may_read(rig.now, iterating=True))
        rig.session.inbound.take()
    assert states == [False, False, True, True, True]


def test_answers_never_pass_the_inbox():
    """While a request waits reading goes on to twice the bound; then the link is dropped, and what follows replayed."""
    rig = full(8)
    request = rig.request()
    rig.write()
    for _ in range(8):
        assert rig.session.may_read(rig.now, iterating=True)
        rig.hear("a")
    assert not rig.session.may_read(rig.now, iterating=True)
    assert rig.session.death.code == "SYS_INBOX_FULL"
    assert rig.lose(rig.session.death).reason == "overflow"
    assert request.failure.code == "SYS_OUTCOME_UNKNOWN"


def test_an_answer_gets_through_a_full_inbox():
    """It is read, it settles the request, and reading pauses again."""
    rig = full(8)
    request = rig.request()
    rig.write()
    assert rig.session.may_read(rig.now, iterating=True)
    rig.hear("ask_response", {"x": 1}, id=request.id)
    assert request.answer.payload == {"x": 1}
    assert not rig.session.may_read(rig.now, iterating=True)
    assert rig.session.death is None


def test_resync_drops_the_link_and_has_the_rest_replayed():
    """`overflow="resync"`: nothing is lost, memory stays, and one replay does not lead to the next."""
    rig = full(0, overflow="resync")
    for n in range(8):
        rig.hear("a", {}, id=str(n))
    assert not rig.session.may_read(rig.now, iterating=True)
    assert rig.session.death.code == "SYS_INBOX_FULL"
    assert rig.lose(rig.session.death).retry
    rig.up(*({"type": "a", "id": str(n)} for n in range(12)))
    for _ in range(5):
        assert not rig.session.may_read(rig.now, iterating=True)
    assert rig.session.death is None, "absorbing a replay is no reason to ask for another"
    assert [message.id for message in rig.take()] == [str(n) for n in range(12)]
    assert rig.session.may_read(rig.now, iterating=True)


def test_without_a_reader_requests_end():
    """Then reading pauses as well; a client that never reads says receive=False."""
    rig = full(8)
    assert not rig.session.may_read(rig.now, iterating=False)
    assert rig.session.reading.is_paused
    assert rig.session.death is None
    sender = Rig(receives=False, inbox=Inbox(max_messages=8)).up()
    for _ in range(100):
        sender.hear("a")
        assert sender.session.may_read(sender.now, iterating=False)


def test_a_slow_reader_does_not_exhaust_the_attempts():
    """Inbox full, link lost: the next join runs to its end, and only then reading pauses again."""
    rig = Rig(
        inbox=Inbox(max_messages=2), reconnect=Reconnect(attempts=1, on_exhausted="raise")
    ).up()
    for n in range(2):
        rig.hear("a", {}, id=str(n))
    assert not rig.session.may_read(rig.now, iterating=True)
    for _ in range(3):
        rig.lose()
        rig.connect()
        for step in ("connection_ack", "session_joined", "heartbeat_pong"):
            assert rig.session.may_read(rig.now, iterating=True)
            rig.hear(step, {"server_id": "srv"})
            rig.write()
        rig.replay({"type": "a", "id": "0"}, {"type": "a", "id": "1"})
        assert rig.state is S.READY
        assert not rig.session.may_read(rig.now, iterating=True)
    assert len(rig.take()) == 2
    assert rig.session.may_read(rig.now, iterating=True)
