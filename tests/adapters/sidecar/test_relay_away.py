"""M01, M05: a server that is away behind a proxy, and what is known about its tools while it restarts."""

from __future__ import annotations

import pytest

from tests.adapters.sidecar.harness import (
    AWAY,
    CUT,
    DIED,
    FORGOTTEN,
    MODERN,
    REFUSED,
    Harness,
    outcome,
    ready,
    result_text,
    tool,
)
from tests.internals.adapters import Loss, message
from tests.rows import each_row


TOOLS = [tool("order"), tool("look", readOnlyHint=True), tool("put", idempotentHint=True)]


def behind_a_proxy(**options):
    """Return a relay of a server at a URL whose hints are trusted, with its probes unanswered, and its client."""
    harness = Harness(url=True, trust_hints=True, **options)
    harness.tools = TOOLS
    client = harness.client().open()
    del harness.auto["ping"]
    return harness, client


def probed(harness, loss=AWAY):
    """Answer each probe that was sent: with a loss, or well if there is none. Return how many there were."""
    probes = [one for one in harness.asked if one.message.method == "ping"]
    for probe in probes:
        harness.asked.remove(probe)
        if loss is None:
            harness.reply(probe, {})
        else:
            harness.lose(probe, loss)
    return len(probes)


def away_for(harness, seconds, loss=AWAY):
    """Let a proxy answer every probe with its status for so long; return the number of probes."""
    until, probes = harness.now + seconds, 0
    while harness.now < until:
        probes += probed(harness, loss)
        harness.wait(0.05)
    return probes


# ---- M01: a proxy says that the server is away --------------------------------------------------------------------


@pytest.mark.requirement("X5")
@each_row("loss", [AWAY, CUT, REFUSED], ids=["502", "cut", "refused"])
def test_after_a_502_calls_wait_until_the_server_answers_a_probe(loss):
    """M01: only what was under way is in doubt; 17 later calls are not sent while the server is away for 8 s, and then run once each."""
    harness, client = behind_a_proxy()
    client.call(0, "order")
    harness.lose(harness.take(), loss)
    for number in range(1, 18):
        client.call(number, "order")
        away_for(harness, 8 / 17)
    assert len(harness.got("tools/call")) == 1
    for _ in range(60):
        probed(harness, None)
        harness.wait(0.1)
    expected = ["unknown"] if loss is not REFUSED else []
    assert harness.ended() == expected
    sent = [one for one in harness.asked if one.message.method == "tools/call"]
    assert len(sent) == 18 - len(expected)
    for one in list(sent):
        harness.asked.remove(one)
        harness.reply(one)
    assert harness.ended() == [*expected, *["answered"] * (18 - len(expected))]


def test_a_read_that_met_a_502_is_repeated_for_its_patience():
    """M01: not three times in half a second: once more, when the server is back after 20 s."""
    harness, client = behind_a_proxy()
    client.call(1, "look")
    harness.lose(harness.take(), AWAY)
    probes = away_for(harness, 20)
    assert harness.ended() == []
    assert len(harness.got("tools/call")) == 1
    assert 4 <= probes <= 12
    while len(harness.got("tools/call")) == 1:
        probed(harness, None)
        harness.wait(0.1)
    harness.reply(harness.take())
    assert harness.ended() == ["answered"]


def test_a_call_waits_no_longer_than_its_patience_for_a_server_behind_a_proxy():
    """M01: then it is told as not executed if it was never sent, and as unknown if it was."""
    harness, client = behind_a_proxy(patience=10)
    client.call(1, "look")
    harness.lose(harness.take(), AWAY)
    client.call(2, "order")
    away_for(harness, 10.5)
    assert outcome(client.answer(1)) == "unknown"
    assert outcome(client.answer(2)) == "not_executed"
    assert "HTTP 502" in result_text(client.answer(2))


def test_a_balancer_that_loses_every_second_request_does_not_end_a_read():
    """M01: its probes are answered and its calls are not: a read is repeated, ever more slowly, for its patience."""
    harness, client = behind_a_proxy()
    client.call(1, "look")
    began, lost = harness.now, 0
    while harness.ended() == []:
        for one in [one for one in harness.asked if one.message.method == "tools/call"]:
            harness.asked.remove(one)
            harness.lose(one, AWAY)
            lost += 1
        probed(harness, None)
        harness.wait(0.1)
    assert 4 <= lost <= 12
    assert 15 <= harness.now - began <= 31.2
    assert harness.ended() == ["unknown"]


def test_an_answer_to_an_earlier_request_does_not_mean_that_the_server_is_back():
    """M01: it was under way when the proxy said that the server is away, and proves nothing about now."""
    harness, client = behind_a_proxy()
    client.call(1, "look")
    client.call(2, "order")
    early, struck = harness.take(), harness.take()
    harness.lose(struck, AWAY)
    client.call(3, "order")
    harness.reply(early)
    assert len(harness.got("tools/call")) == 2
    harness.wait(0)
    probed(harness, None)
    assert len(harness.got("tools/call")) == 3


def test_a_cut_answer_of_a_server_that_lives_costs_one_probe_and_is_not_reported():
    """M01: the probe is answered, so nobody hears of a server that was never away."""
    harness, client = behind_a_proxy()
    client.call(1, "order")
    client.call(0, "order")
    harness.lose(harness.take(), CUT)
    harness.lose(harness.take(), CUT)
    client.call(2, "order")
    harness.wait(0)
    assert harness.relay.status(harness.now)["status"] == "degraded"
    assert probed(harness, None) == 1
    harness.reply(harness.take())
    assert harness.ended() == ["unknown", "unknown", "answered"]
    assert not harness.records("server_unreachable")
    assert not harness.records("server_reached")


def test_a_busy_server_that_leaves_a_probe_unanswered_after_a_cut_gets_its_calls():
    """M01: silence is no word that it is away; a server that works on one request at a time answers no probe meanwhile."""
    harness, client = behind_a_proxy()
    client.call(1, "order")
    harness.lose(harness.take(), CUT)
    client.call(2, "order")
    harness.wait(2.1)
    assert len(harness.got("tools/call")) == 2


@each_row("phase", ["initialize", "tools/list"])
def test_a_new_session_that_meets_a_502_is_opened_again_without_the_circuit(phase):
    """M01: the server was there before, so this is no start that failed, and calls do not lose their permission."""
    harness, client = behind_a_proxy()
    client.call(1, "look")
    harness.reply(harness.take())
    client.call(2, "look")
    answer = harness.auto.pop(phase)
    harness.lose(harness.take(), FORGOTTEN)
    until = harness.now + 20
    while harness.now < until:
        for one in [one for one in harness.asked if one.message.method == phase]:
            harness.asked.remove(one)
            harness.lose(one, AWAY)
        harness.wait(0.1)
    assert harness.ended() == ["answered"]
    harness.auto[phase] = answer
    for one in [one for one in harness.asked if one.message.method == phase]:
        harness.asked.remove(one)
        harness.lose(one, AWAY)
    harness.wait(6)
    harness.lose(harness.take(), CUT)
    harness.wait(0)
    probed(harness, None)
    harness.wait(1)
    harness.reply(harness.take())
    assert harness.ended() == ["answered"] * 2


def test_a_list_that_was_being_read_when_the_server_went_away_is_read_when_it_is_back():
    """M01: it is not asked for three times in vain, and its hints count."""
    harness, _ = behind_a_proxy()
    listing = harness.auto.pop("tools/list")
    harness.serve(message.notification("notifications/tools/list_changed"))
    harness.lose(harness.take("tools/list"), AWAY)
    away_for(harness, 3)
    assert len(harness.got("tools/list")) == 2
    harness.auto["tools/list"] = listing
    for _ in range(60):
        probed(harness, None)
        harness.wait(0.1)
    assert len(harness.got("tools/list")) == 3


# ---- M05: what is known of the tools while the server restarts ----------------------------------------------------


def _list_is_late(harness):
    """Have the server leave its list of tools unanswered; return what it would answer."""
    return harness.auto.pop("tools/list")


@pytest.mark.requirement("X5")
def test_a_read_that_dies_before_the_first_list_waits_for_the_next_one():
    """M05: the first session ended before its list of tools came; the second one's says that the call may be repeated."""
    harness = Harness()
    harness.tools = TOOLS
    listing = _list_is_late(harness)
    client = harness.client().open()
    client.call(1, "order")
    client.call(2, "look")
    harness.auto["tools/list"] = listing
    harness.die()
    harness.wait(1)
    harness.reply(harness.take())
    assert sorted(harness.ended()) == ["answered", "unknown"]
    assert outcome(client.answer(1)) == "unknown"


@each_row("late", ["changed", "slow"])
def test_a_read_that_dies_while_the_list_is_read_again_is_repeated(late):
    """M05: what was known of it before the restart counts until the server has said something else."""
    harness = Harness()
    harness.tools = TOOLS
    client = harness.client().open()
    client.call(0, "order")
    listing = _list_is_late(harness)
    if late == "changed":
        harness.serve(message.notification("notifications/tools/list_changed"))
    else:
        harness.die()
        harness.wait(6)  # it is awaited for 5 s
    client.call(1, "order")
    client.call(2, "look")
    harness.auto["tools/list"] = listing
    harness.die()
    harness.wait(1)
    harness.reply(harness.take())
    assert result_text(client.answer(1)).startswith("OUTCOME UNKNOWN")
    assert not outcome(client.answer(2))


def test_a_read_of_2026_07_28_that_dies_before_the_list_is_repeated():
    """M05: there the list is read beside the first calls."""
    harness = Harness()
    harness.tools = TOOLS
    client = harness.client()
    listing = _list_is_late(harness)
    client.call(1, "order", _meta=MODERN)
    client.call(2, "look", _meta=MODERN)
    harness.auto["tools/list"] = listing
    harness.die()
    harness.wait(1)
    harness.reply(harness.take())
    assert outcome(client.answer(1)) == "unknown"
    assert not outcome(client.answer(2))


def test_a_repeat_asks_the_new_server_whether_the_tool_still_only_reads():
    """M05: a redeployed server whose tool writes now gets no repeat of it."""
    harness = Harness()
    harness.tools = TOOLS
    client = harness.client().open()
    client.call(1, "look")
    harness.tools = [tool("look")]
    harness.die()
    harness.wait(1)
    assert len(harness.got("tools/call")) == 1
    assert outcome(client.answer(1)) == "unknown"


def test_a_list_that_never_comes_gives_no_permission():
    """M05: nothing was ever known of the tool: when the next session has no list either, it is not repeated."""
    harness = Harness()
    _list_is_late(harness)
    client = harness.client().open()
    client.call(1, "look")
    harness.die()
    harness.wait(6)
    assert len(harness.got("tools/call")) == 1
    assert outcome(client.answer(1)) == "unknown"


def test_a_url_without_trust_is_not_waited_for():
    """M05: its list could not permit anything."""
    harness, client = ready(url=True)
    client.call(1, "look")
    harness.die(DIED)
    assert outcome(client.answer(1)) == "unknown"


# ---- M06: what is no reason to leave a server alone ---------------------------------------------------------------


def test_a_call_that_no_session_knows_is_sent_three_times_and_harms_no_other():
    """M06: a server that answers 404 to one tool in every new session: that call is refused, the circuit stays closed."""
    harness, client = behind_a_proxy()
    for attempt in range(2):
        client.call(attempt, "order")
        while not client.answers(attempt):
            for one in [one for one in harness.asked if one.message.method == "tools/call"]:
                harness.asked.remove(one)
                harness.lose(one, FORGOTTEN)
            harness.wait(0.1)
        assert outcome(client.answer(attempt)) == "not_executed"
        assert "also in new sessions" in result_text(client.answer(attempt))
        assert len(harness.got("tools/call")) == 3 * (attempt + 1)
    assert harness.relay.status(harness.now)["status"] == "ok"
    client.call(9, "look")
    harness.reply(harness.take())
    assert harness.ended() == ["not_executed"] * 2 + ["answered"]


@each_row("loss", [AWAY, REFUSED], ids=["502", "refused"])
@each_row("seconds", [8, 25])
def test_the_first_start_at_an_address_waits_for_the_patience(loss, seconds):
    """M06: a server that comes up beside the client is waited for, and not left alone after four seconds."""
    harness = Harness(url=True)
    opening = harness.auto.pop("initialize")
    client = harness.client()
    client.ask(1, "initialize", {})
    until = harness.now + seconds
    while not client.answers(1):
        assert harness.now < until + 6
        for greeting in [one for one in harness.asked if one.message.method == "initialize"]:
            harness.asked.remove(greeting)
            if harness.now < until:
                harness.lose(greeting, loss)
            else:
                harness.reply(greeting, opening)
        harness.wait(0.1)
    assert client.answer(1).result


def test_m01_a_retry_after_of_a_day_does_not_end_the_probes():
    """M01: the page of a proxy says so while its server is redeployed: it is probed after two minutes, and calls go on."""
    harness, client = behind_a_proxy()
    client.call(1, "order")
    harness.lose(harness.take(), Loss(reason="HTTP 503", is_away=True, retry_after=86_400))
    harness.wait(119)
    assert probed(harness, None) == 0
    harness.wait(2)
    assert probed(harness, None) == 1
    client.call(2, "order")
    harness.reply(harness.take())
    assert harness.ended() == ["unknown", "answered"]
