"""How often a server that is away is tried: in time for the calls that wait, and rarely where none does."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from tests.adapters.sidecar.harness import FORGOTTEN, REFUSED, Harness, ready, result_text
from tests.internals.adapters import Loss
from tests.rows import each_row


@pytest.mark.requirement("X5")
@each_row("seed", range(5))
@each_row("away", [3, 9, 16.5, 20, 24])
def test_a_call_that_waits_is_made_soon_after_the_server_is_back(away, seed):
    """Waits between attempts grow, but not beyond a sixth of the patience of a call: it would be over before the next attempt."""
    harness, client = ready(url=True, seed=seed)
    del harness.auto["ping"]
    client.call(1, "order")
    harness.lose(harness.take(), REFUSED)
    began = harness.now
    while not harness.got("tools/call")[1:]:
        assert harness.now - began < away + 5.1, "the server is back, and nobody asks it"
        harness.wait(0.1)
        for knock in [one for one in harness.asked if one.message.method == "ping"]:
            harness.asked.remove(knock)
            if harness.now - began < away:
                harness.lose(knock, REFUSED)
            else:
                harness.reply(knock, {})
    harness.reply(harness.take())
    assert harness.ended() == ["answered"]


def test_attempts_become_rare_while_no_call_waits():
    """No call of a client waits: the waits grow as they do, whatever the patience."""
    harness, client = ready(url=True)
    del harness.auto["ping"]
    client.call(1, "order")
    harness.lose(harness.take(), REFUSED)
    harness.wait(31)
    assert harness.ended() == ["not_executed"]
    before = len(harness.got("ping"))
    for _ in range(6000):
        harness.wait(0.1)
        for knock in [one for one in harness.asked if one.message.method == "ping"]:
            harness.asked.remove(knock)
            harness.lose(knock, REFUSED)
    assert 600 / 31 <= len(harness.got("ping")) - before <= 600 / 20


def test_a_call_that_comes_between_two_rare_attempts_has_one_soon():
    """The server has been away for long, and is back: the first call does not wait for the next rare attempt."""
    harness, client = ready(circuit=rb.Breaker.consecutive(100))
    harness.opens_at_once = False
    harness.die()
    for _ in range(12):  # no call waits, so each start comes later
        began = len(harness.sessions)
        while len(harness.sessions) == began:
            harness.wait(0.1)
        harness.die(Loss(reason="exit code 1"))
    assert harness.relay.status(harness.now)["next_start_in"] > 10
    harness.opens_at_once = True
    client.call(1, "order")
    harness.wait(5.1)
    harness.reply(harness.take())
    assert harness.ended() == ["answered"]


@pytest.mark.requirement("X5")
@pytest.mark.parametrize("away", [5, 20])
def test_a_server_at_a_url_that_forgot_the_session_and_refuses_is_waited_for(away):
    """Nobody listens for a while: that is no start that failed, so the circuit stays closed and the call is made when it is back."""
    harness, client = ready(url=True)
    client.call(1, "order")
    harness.reply(harness.take())
    opening = harness.auto.pop("initialize")
    client.call(2, "order")
    harness.lose(harness.take(), FORGOTTEN)
    began = harness.now
    while not harness.ended()[1:] and len(harness.got("tools/call")) < 3:
        assert harness.now - began < away + 5.1
        for greeting in [one for one in harness.asked if one.message.method == "initialize"]:
            harness.asked.remove(greeting)
            if harness.now - began < away:
                harness.lose(greeting, REFUSED)
            else:
                harness.reply(greeting, opening)
        harness.wait(0.1)
    harness.reply(harness.take())
    assert harness.ended() == ["answered"] * 2


def test_an_address_that_never_answered_is_refused_when_the_patience_is_over():
    """M06: it may be wrong, or come up beside its client: who opens it hears of it then, and nothing is left alone after that."""
    harness = Harness(url=True)
    del harness.auto["initialize"]
    client = harness.client()
    client.ask(1, "initialize", {})
    while not client.answers(1):
        assert harness.now < 1_000 + 30.2
        for greeting in [one for one in harness.asked if one.message.method == "initialize"]:
            harness.asked.remove(greeting)
            harness.lose(greeting, REFUSED)
        harness.wait(0.1)
    assert harness.now >= 1_000 + 29.9
    assert "not reachable (connection refused" in result_text(client.answer(1))
    assert "refusing_for" not in harness.relay.status(harness.now)
