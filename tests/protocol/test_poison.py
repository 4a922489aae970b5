"""An entry that kills the link: found, set aside, and nobody else is blamed."""

from __future__ import annotations

import pytest

from resilient_bridge.failure import classify_close
from resilient_bridge.protocol import EntryState as S
from tests.internals.telemetry import MessageUndelivered
from tests.protocol.driving import CUT, Rig, closed
from tests.protocol.sending import again, notes, sends, states


@pytest.mark.parametrize("code", [1007, 1011])
def test_three_deaths_set_the_entry_aside_and_the_rest_goes_on(code):
    """The same head entry just before three deaths by a received 1007 or 1011: DEAD, told, and not sent again."""
    rig = Rig().up()
    poison, good = sends(rig, 1, 2)
    for death in range(3):
        rig.write()
        assert rig.lose(closed(code)).retry
        again(rig)
        assert poison.state is (S.WRITTEN if death < 2 else S.DEAD)
    assert (poison.failure.details["close_code"], notes(rig)) == (code, [2])
    assert [(event.outcome, event.key, event.reason) for event in rig.of(MessageUndelivered)] == [
        ("quarantined", poison.key, "poison")
    ]
    rig.settle()
    assert good.state is S.CONFIRMED


@pytest.mark.parametrize(
    "text", ["keepalive ping timeout", "Heartbeat missed", "idle timeout", "no pong"]
)
def test_l12_a_peer_that_heard_nothing_blames_no_message(text):
    """1011 for our silence (websockets' keepalive, after a sleep) says nothing about what was written before it."""
    rig = Rig().up()
    (entry,) = sends(rig, 1)
    for _ in range(4):
        rig.write()
        assert rig.lose(closed(1011, text)).reason == f"peer_closed(1011, {text})"
        again(rig)
    assert (entry.deaths, entry.state) == (0, S.WRITTEN)
    rig.write()
    assert rig.lose(closed(1011, "mapping failed: stopping")).reason == "poison(note)"


def test_l12_a_loss_in_which_this_machine_slept_blames_no_message():
    """1011 says nothing then: the wall clock jumped by 40 s while the connection lasted; the next connection is judged as ever."""
    rig = Rig().up()
    (entry,) = sends(rig, 1)
    rig.write()
    rig.wall += 40
    decision = rig.lose(closed(1011))
    assert (decision.reason, entry.deaths) == ("peer_closed(1011)", 0)
    again(rig)
    rig.write()
    assert rig.lose(closed(1011)).reason == "poison(note)"


def test_under_suspicion_one_goes_at_a_time():
    """After a death the entries in flight go one by one, each confirmed first: the innocent are cleared."""
    rig = Rig().up()
    innocent, guilty, other = sends(rig, 1, 2, 3)
    rig.write()
    rig.lose(closed(1011))
    assert notes(again(rig)) == [1]
    rig.settle()
    assert notes(rig) == [1, 2]
    for _ in range(2):
        rig.lose(closed(1011))
        assert notes(again(rig)) == [2]
    rig.lose(closed(1011))
    assert notes(again(rig)) == [3]
    assert states([innocent, guilty, other]) == ["confirmed", "dead", "written"]


@pytest.mark.parametrize("end", ["withdrawn", "volatile", "coalesced"])
def test_suspicion_stays_with_the_suspects(end):
    """The end of some later entry lifts no suspicion: the innocent head is not sent in a burst again."""
    rig = Rig().up()
    sends(rig, 1, 2)
    rig.write()
    later = rig.send(
        payload={"n": 3}, volatile=end == "volatile", coalesce="c" if end == "coalesced" else None
    )
    rig.lose(closed(1011))
    if end == "withdrawn":
        rig.session.outbound.outbox.withdraw(later)
    elif end == "coalesced":
        rig.send(payload={"n": 4}, coalesce="c")
    assert later.is_settled
    again(rig)
    assert notes(rig) == [1]


def test_too_big_is_set_aside_at_once():
    """1009 on a frame we sent: the largest one is DEAD, the others are repeated."""
    rig = Rig().up()
    small, big = sends(rig, 1, "x" * 500)
    rig.write()
    assert rig.lose(closed(1009)).retry
    assert (big.state, notes(again(rig))) == (S.DEAD, [1])
    assert small.state is not S.DEAD


def test_a_request_that_kills_the_link_blames_no_send():
    """1009 and 1011 on a request: the sends in flight stay what they are."""
    rig = Rig().up()
    (entry,) = sends(rig, 1)
    for _ in range(4):
        rig.session.outbound.request("big_request", {"x": "y" * 500}, rig.now, idempotent=False)
        rig.write()
        rig.lose(closed(1009))
        again(rig)
    assert entry.state in {S.WRITTEN, S.CONFIRMED}


@pytest.mark.parametrize(
    "failure", [CUT, closed(1012), closed(1000)], ids=["no close", "1012", "1000"]
)
def test_other_deaths_never_count(failure):
    """A loss without a close frame proves nothing about the entry, however often it happens."""
    rig = Rig().up()
    (entry,) = sends(rig, 1)
    for _ in range(10):
        rig.write()
        rig.lose(failure)
        again(rig)
    assert entry.state is S.WRITTEN


def test_a_close_of_ours_never_counts():
    """1009 or 1011 that we sent is about what we received."""
    rig = Rig().up()
    (entry,) = sends(rig, 1)
    for code in (1009, 1011, 1007) * 2:
        rig.write()
        rig.lose(classify_close(code, "", "us"))
        again(rig)
    assert entry.state is S.WRITTEN


@pytest.mark.parametrize("code", [1007, 1011])
def test_a_request_that_may_be_repeated_is_set_aside_as_well(code):
    """An idempotent request that kills the link three times ends with that failure, long before its timeout."""
    rig = Rig().up()
    request = rig.request(idempotent=True)
    for _ in range(3):
        assert not request.is_settled
        rig.write()
        rig.lose(closed(code))
        again(rig)
    assert (request.state, request.failure.details["close_code"]) == (S.DEAD, code)
    assert not any(frame["type"] == "ask_request" for frame in rig.wire)
