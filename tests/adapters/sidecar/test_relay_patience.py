"""How long a call waits, for the server and for its turn, and what the client hears meanwhile and in the end."""

from __future__ import annotations

import pytest

from resilient_bridge.errors import Executed
from tests.adapters.sidecar.harness import (
    DIED,
    Harness,
    away,
    outcome,
    ready,
    result_text,
    tool,
)
from tests.internals.adapters import PREFIX, Loss, message


def hinted(**options):
    """Return a relay whose server has tools of each kind, and its client."""
    harness = Harness(**options)
    harness.tools = [
        tool("order"),
        tool("look", readOnlyHint=True),
        tool("put", idempotentHint=True),
        tool("both", readOnlyHint=True, idempotentHint=True),
    ]
    return harness, harness.client().open()


# ---- what is said -----------------------------------------------------------------------------------------------------


def test_unknown_is_a_tool_result_and_names_what_to_look_at():
    """Unknown is a tool result and names what to look at."""
    harness, client = ready(check={"order": "list_orders"})
    client.call(1, "order")
    harness.die(Loss(reason="exit code 137"))
    answer = client.answer(1)
    assert answer.result["isError"] is True
    assert answer.result["_meta"] == {
        f"{PREFIX}/outcome": "unknown",
        f"{PREFIX}/reason": "connection_lost",
    }
    assert result_text(answer) == (
        'OUTCOME UNKNOWN: the connection to the server was lost (exit code 137) after "order" was sent. It may or may not have run. '
        "Do not call it again yet. First check whether it took effect (for example with: list_orders), then decide."
    )
    assert harness.ended() == ["unknown"]


def test_a_call_made_while_the_server_is_away_waits_and_then_did_not_run():
    """A call made while the server is away waits and then did not run."""
    harness, client = ready(patience=30)
    harness.opens_at_once = False
    harness.die()
    client.call(1, "order")
    harness.wait(29.9)
    assert not client.answers(1)
    harness.wait(0.2)
    text = result_text(client.answer(1))
    assert text.startswith("NOT EXECUTED: the server is not reachable (exit code 137")
    assert text.endswith('"order" was not executed. It is safe to call it again later.')
    assert not harness.got("tools/call")


def test_a_call_made_while_the_server_is_away_is_sent_when_it_is_back():
    """A call made while the server is away is sent when it is back."""
    harness, client = ready()
    harness.opens_at_once = False
    harness.die()
    client.call(1, "order")
    harness.wait(0)
    assert len(harness.sessions) == 2
    harness.wait(20)
    harness.open_now()
    harness.reply(harness.take())
    assert harness.ended() == ["answered"]
    assert len(harness.got("tools/call")) == 1


def test_a_call_that_waits_tells_its_progress_which_grows_below_the_servers():
    """A call that waits tells its progress which grows below the server's."""
    harness, client = ready()
    harness.opens_at_once = False
    harness.die()
    client.call(1, "order", _meta={"progressToken": "t"})
    client.call(2, "order")
    harness.wait(22)
    notes = [one.params for one in client.heard("notifications/progress")]
    assert [one["progressToken"] for one in notes] == ["t"] * 4
    values = [one["progress"] for one in notes]
    assert values == sorted(set(values))
    assert 0 < values[0] < values[-1] < 1e-3
    harness.open_now()
    sent = harness.take()
    for value in (0, 1):  # 0 is less than what was told already
        params = {"progressToken": sent.message.id, "progress": value}
        harness.serve(message.notification("notifications/progress", params))
    assert [one.params["progress"] for one in client.heard("notifications/progress")][4:] == [1]


def test_progress_grows_also_from_a_large_value():
    """Progress grows also from a large value."""
    harness, client = hinted()
    client.call(1, "look", _meta={"progressToken": "t"})
    params = {"progressToken": harness.take().message.id, "progress": 1e15}
    harness.serve(message.notification("notifications/progress", params))
    harness.opens_at_once = False
    harness.die()
    harness.wait(11)
    values = [one.params["progress"] for one in client.heard("notifications/progress")]
    assert len(values) == 3
    assert values == sorted(set(values))


def test_progress_that_begins_again_after_a_repeat_is_held_back_until_it_grows():
    """Progress that begins again after a repeat is held back until it grows."""
    harness, client = hinted()
    client.call(1, "look", _meta={"progressToken": "t"})
    for values in ((1, 2, 3), (1, 2, 3, 4)):
        sent = harness.take()
        for value in values:
            params = {"progressToken": sent.message.id, "progress": value}
            harness.serve(message.notification("notifications/progress", params))
        if values[-1] == 3:
            harness.die()
            harness.wait(1)
    assert [one.params["progress"] for one in client.heard("notifications/progress")] == [
        1,
        2,
        3,
        4,
    ]


# ---- time ---------------------------------------------------------------------------------------------------------------


def test_a_tool_that_gives_no_answer_in_its_time_is_unknown_and_the_server_is_asked_whether_it_lives():
    """A tool that gives no answer in its time is unknown and the server is asked whether it lives."""
    harness, client = ready(timeouts={"order": 5})
    pinged = len(harness.got("ping"))
    client.call(1, "order")
    sent = harness.asked[-1]
    harness.wait(5)
    assert outcome(client.answer(1)) == "unknown"
    assert "got no answer within 5 s" in result_text(client.answer(1))
    assert harness.got("notifications/cancelled")[0].params["requestId"] == sent.message.id
    assert len(harness.got("ping")) == pinged + 1
    harness.wait(100)
    assert len(harness.sessions) == 1, "it answered the ping"
    harness.reply(sent)
    assert len(client.answers(1)) == 1
    assert harness.relay.status(harness.now)["under_way"] == 0


def test_a_server_that_hangs_is_started_again():
    """A server that hangs is started again."""
    harness, client = ready(timeout=5)
    del harness.auto["ping"]
    client.call(1, "order")
    client.ask(2, "resources/read", {"uri": "u"})
    harness.wait(16)
    assert len(harness.sessions) == 2
    assert outcome(client.answer(1)) == "unknown"
    harness.reply(harness.take("resources/read"), {"contents": []})
    assert client.answer(2).result == {"contents": []}


def test_a_deadline_bounds_a_call_with_its_waits():
    """A deadline bounds a call with its waits."""
    harness, client = hinted(deadline=8)
    client.call(1, "look")
    client.call(2, "order")
    harness.opens_at_once = False
    harness.wait(3)
    harness.die()
    client.call(3, "order")
    harness.wait(5.1)
    assert [outcome(client.answer(number)) for number in (1, 2)] == ["unknown", "unknown"]
    assert not client.answers(3)
    harness.wait(3)
    assert outcome(client.answer(3)) == "not_executed"


# ---- limits -------------------------------------------------------------------------------------------------------------


def test_calls_beyond_the_limit_wait_for_their_turn_in_order():
    """Calls beyond the limit wait for their turn in order."""
    harness, client = ready(concurrency={"order": 2, "*": 3})
    for number in range(4):
        client.call(number, "order")
    client.call(4, "other")
    client.call(5, "other")
    assert [one.message.params["name"] for one in harness.asked] == ["order", "order", "other"]
    harness.wait(1)
    harness.reply(harness.take())
    assert len(harness.got("tools/call")) == 4
    while harness.asked:
        harness.reply(harness.take())
    assert len(harness.got("tools/call")) == 6


def test_a_call_that_waits_too_long_for_its_turn_says_so():
    """A call that waits too long for its turn says so."""
    harness, client = ready(concurrency={"order": 1}, patience=5)
    client.call(1, "order")
    client.call(2, "order")
    harness.wait(5)
    assert result_text(client.answer(2)).startswith(
        'NOT EXECUTED: "order" is limited to 1 call at a time.'
    )
    harness.reply(harness.take())
    client.call(3, "order")
    assert harness.take()


def test_a_rate_and_a_limit_together_leave_the_clock_alone():
    """A call whose rate is paid and that waits for its turn is due at no time."""
    from resilient_bridge import RateLimit

    harness, client = ready(concurrency={"order": 1}, rates={"order": RateLimit(calls=10, per=1)})
    client.call(1, "order")
    client.call(2, "order")
    harness.wait(2)
    harness.reply(harness.take())
    assert harness.take()


def test_a_rate_that_leaves_no_room_in_time_refuses_at_once():
    """A rate that leaves no room in time refuses at once."""
    from resilient_bridge import RateLimit

    _harness, client = ready(rates={"*": RateLimit(calls=1, per=100)}, patience=5)
    client.call(1, "order")
    client.call(2, "order")
    assert outcome(client.answer(2)) == "not_executed"
    assert "is limited to 1 call in 100 s. Call it again in 100 s." in result_text(client.answer(2))


def test_a_call_that_all_together_refuse_costs_its_tool_nothing():
    """It ran under neither limit, so the turn that it had under the tool's is given back."""
    from resilient_bridge import RateLimit

    rates = {"order": RateLimit(calls=2, per=100), "*": RateLimit(calls=1, per=1)}
    harness, client = ready(rates=rates, patience=0)
    client.call(1, "order")
    client.call(2, "order")
    assert outcome(client.answer(2)) == "not_executed"
    harness.wait(2)
    client.call(3, "order")
    assert len(harness.got("tools/call")) == 2


def test_a_call_that_was_never_sent_costs_no_turn():
    """It was cancelled while it waited: the next one has its turn."""
    from resilient_bridge import RateLimit

    harness, client = ready(rates={"order": RateLimit(calls=1, per=10)}, patience=11)
    client.call(1, "order")
    client.call(2, "order")
    client.tell("notifications/cancelled", {"requestId": 2})
    client.call(3, "order")
    harness.wait(10)
    assert len(harness.got("tools/call")) == 2


def test_calls_that_waited_for_a_server_start_no_faster_than_their_rate():
    """Their turns came while it was away: two are sent when it is back, and then one each half a second."""
    from resilient_bridge import RateLimit

    rates = {"order": RateLimit(calls=2, per=1), "*": RateLimit(calls=100, per=1)}
    harness, client = ready(rates=rates, patience=120)
    away(harness)
    for number in range(1, 7):
        client.call(number, "order")
    harness.wait(20)
    harness.open_now()
    sent = [len(harness.got("tools/call"))]
    for _ in range(5):
        harness.wait(0.5)
        sent.append(len(harness.got("tools/call")))
    assert sent == [2, 3, 4, 5, 6, 6]


def test_a_slot_is_passed_back_however_a_call_ends():
    """A place is given back however a call ends."""
    harness, client = ready(concurrency={"order": 1}, timeout=5)
    client.call(1, "order")
    client.tell("notifications/cancelled", {"requestId": 1})
    client.call(2, "order")
    harness.wait(5)
    client.call(3, "order")
    harness.die()
    client.call(4, "order")
    harness.wait(1)
    assert [one.message.id for one in harness.asked] == [harness.got("tools/call")[-1].id]
    assert len(harness.got("tools/call")) == 4


# ---- every call has its end ---------------------------------------------------------------------------


def test_each_call_after_the_one_that_is_gone_is_sent():
    """One of several that wait is answered by us: the next is not forgotten for it."""
    harness, client = hinted()
    harness.opens_at_once = False
    harness.die()
    for number, name in enumerate(("order", "look", "put", "both")):
        client.call(number, name)
    harness.tools = [tool("look"), tool("put"), tool("both")]
    harness.wait(0)
    harness.open_now()
    assert outcome(client.answer(0)) == "not_executed"
    assert [one.params["name"] for one in harness.got("tools/call")] == ["look", "put", "both"]


def test_the_forms_out_are_all_stated():
    """The ways out are all stated."""
    harness, client = hinted(timeout=5)
    client.call(1, "order")
    harness.reply(harness.take())
    client.call(2, "order")
    harness.reply(harness.take(), {"content": [], "isError": True})
    client.call(3, "order")
    harness.die(DIED)
    harness.wait(1)
    client.call(4, "order")
    client.tell("notifications/cancelled", {"requestId": 4})
    harness.step(lambda: harness.relay.close(harness.now))
    assert harness.ended() == ["answered", "failed", "unknown", "cancelled"]
    assert harness.relay.status(harness.now)["outcomes"]["unknown"] == 1


@pytest.mark.parametrize(("is_sent", "stated"), [(True, "unknown"), (False, "not_executed")])
def test_everyone_who_waits_when_the_sidecar_ends_is_reported(is_sent, stated):
    """Whoever waits when the sidecar ends is told."""
    harness, client = ready()
    if not is_sent:
        harness.opens_at_once = False
        harness.die()
    client.call(1, "order")
    harness.step(lambda: harness.relay.close(harness.now))
    assert outcome(client.answer(1)) == stated
    assert harness.relay.is_idle
    assert harness.relay.next_timer() is None


# ---- what a try changes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lasted", "is_repeated"), [(12.0, True), (9.0, False)])
def test_x04_a_try_that_outlasts_the_patience_begins_the_waiting_anew(lasted, is_repeated):
    """8 s waited of 10: another 8 s are granted only to a call that was under way for 10 s in between."""
    harness, client = hinted(patience=10)
    later = Loss(reason="HTTP 503", executed=Executed.NO, retry_after=8.0)
    client.call(1, "look")
    harness.lose(harness.take(), later)
    harness.wait(8.1)
    assert len(harness.got("tools/call")) == 2
    harness.wait(lasted)
    harness.lose(harness.take(), later)
    assert bool(client.answers(1)) is not is_repeated
    harness.wait(8.1)
    assert len(harness.got("tools/call")) == (3 if is_repeated else 2)


def test_x04_progress_that_does_not_grow_passes_as_the_server_sent_it():
    """A call that was sent once, and of which nothing was told: what its server tells is not judged."""
    harness, client = ready()
    client.call(1, "order", _meta={"progressToken": "t"})
    sent = harness.take()
    for value in (0.5, 0.5, 0.4, 0.6):
        params = {"progressToken": sent.message.id, "progress": value}
        harness.serve(message.notification("notifications/progress", params))
    assert [one.params["progress"] for one in client.heard("notifications/progress")] == [
        0.5,
        0.5,
        0.4,
        0.6,
    ]
