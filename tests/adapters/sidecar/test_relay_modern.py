"""The era without sessions: nothing is opened, streams that are listened to stay open across restarts, states pass unread."""

from __future__ import annotations

import pytest

from tests.adapters.sidecar.harness import CUT, DIED, MODERN, REFUSED, Harness, outcome, tool
from tests.internals.adapters import PREFIX, SUBSCRIPTION, message


ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
FILTER = {"toolsListChanged": True, "resourceSubscriptions": ["a:1", "a:2"]}


def modern(**options):
    """Return a relay in the era without sessions, and its client."""
    harness = Harness(**options)
    del harness.auto["resources/subscribe"]
    return harness, harness.client()


def listen(harness, client, id="l", wants=FILTER):
    """Have a client listen, and the server acknowledge it; return the request as the server has it."""
    client.ask(id, "subscriptions/listen", {"notifications": wants, "_meta": MODERN})
    return acknowledge(harness, wants)


def acknowledge(harness, wants=FILTER):
    """Have the server acknowledge the latest request to listen."""
    sent = harness.take("subscriptions/listen")
    params = {"notifications": wants, "_meta": {SUBSCRIPTION: sent.message.id}}
    harness.serve(message.notification(ACKNOWLEDGED, params), sent.session, sent.message.id)
    return sent


def say(harness, sent, method, **params):
    """Have the server say something in a stream that is listened to."""
    received = message.notification(method, params | {"_meta": {SUBSCRIPTION: sent.message.id}})
    harness.serve(received, sent.session, sent.message.id)


def test_nothing_is_opened_and_a_call_passes_whole():
    """Nothing is opened and a call passes whole."""
    harness, client = modern()
    client.call("x", "order", arguments={"a": 1}, _meta=MODERN | {"traceparent": "00"})
    assert not harness.got("initialize")
    (sent,) = harness.got("tools/call")
    assert sent.params["_meta"] == MODERN | {"traceparent": "00"}
    harness.reply(harness.take(), {"resultType": "complete", "content": []})
    assert client.answer("x").result == {"resultType": "complete", "content": []}


def test_discover_is_answered_by_the_server():
    """Discover is answered by the server."""
    harness, client = modern()
    client.ask(1, "server/discover", {"_meta": MODERN})
    harness.reply(
        harness.take("server/discover"), {"resultType": "complete", "supportedVersions": ["x"]}
    )
    assert client.answer(1).result["supportedVersions"] == ["x"]


def test_a_result_that_wants_input_and_its_state_pass_unread():
    """A result that wants input and its state pass unread."""
    harness, client = modern()
    client.call(1, "order", _meta=MODERN)
    wants = {"resultType": "input_required", "inputRequests": {"a": {}}, "requestState": "opaque=="}
    harness.reply(harness.take(), wants)
    assert client.answer(1).result == wants
    client.call(2, "order", _meta=MODERN, inputResponses={"a": {}}, requestState="opaque==")
    sent = harness.take()
    assert sent.message.params["requestState"] == "opaque=="
    harness.reply(sent, error=-32602, text="unknown state")
    assert client.answer(2).error["message"] == "unknown state"


def test_a_statement_of_ours_is_a_complete_result():
    """A statement of ours is a complete result."""
    harness, client = modern()
    client.call(1, "order", _meta=MODERN)
    harness.die()
    assert client.answer(1).result["resultType"] == "complete"
    assert outcome(client.answer(1)) == "unknown"


@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage", "elicitation/create"])
def test_a_server_of_this_era_asks_nothing(method):
    """A server of this era asks nothing."""
    harness, client = modern()
    client.call(1, "order", _meta=MODERN)
    harness.serve(message.request("s", method, {}))
    assert harness.sent[-1].message.error["code"] == -32601
    assert not client.heard(method)


def test_cancelling_ends_the_stream_over_http_and_is_received_to_a_child():
    """Cancelling ends the stream over HTTP and is said to a child."""
    for options in ({"url": True}, {}):
        harness, client = modern(**options)
        client.call(1, "order", _meta=MODERN)
        sent = harness.take()
        client.tell("notifications/cancelled", {"requestId": 1})
        reported = [one.params["requestId"] for one in harness.got("notifications/cancelled")]
        assert reported == ([] if options else [sent.message.id])
        assert [one.request for one in harness.abandoned] == ([sent.message.id] if options else [])
        assert not client.answers(1)


# ---- streams that are listened to ---------------------------------------------------------------------------------------------


def test_what_a_client_listens_for_comes_under_its_own_id():
    """What a client listens for comes under its own id."""
    harness, client = modern()
    sent = listen(harness, client)
    say(harness, sent, CHANGED)
    say(harness, sent, UPDATED, uri="a:1")
    got = [(one.method, one.meta[SUBSCRIPTION], stream) for one, stream in client.got]
    assert got == [(name, "l", ("str", "l")) for name in (ACKNOWLEDGED, CHANGED, UPDATED)]


def test_two_clients_that_listen_under_one_id_are_stored_apart():
    """Two clients that listen under one id are kept apart."""
    harness = Harness(is_shared=True)
    first, second = harness.client(), harness.client()
    mine, other = listen(harness, first, 1), listen(harness, second, 1)
    say(harness, mine, UPDATED, uri="a:1")
    say(harness, other, CHANGED)
    assert [one.method for one, _ in first.got] == [ACKNOWLEDGED, UPDATED]
    assert [one.method for one, _ in second.got] == [ACKNOWLEDGED, CHANGED]


def test_a_stream_stays_open_across_restarts_and_what_was_missed_is_received():
    """A stream stays open across restarts and what was missed is said."""
    harness, client = modern()
    listen(harness, client)
    for _ in range(5):  # more often than a call may lose its connection
        harness.die()
        harness.wait(40)
        sent = acknowledge(harness)
    assert not client.answers("l")
    assert len(client.heard(ACKNOWLEDGED)) == 1
    assert [one.params["uri"] for one in client.heard(UPDATED)] == ["a:1", "a:2"] * 5
    say(harness, sent, UPDATED, uri="a:1")
    assert len(client.heard(UPDATED)) == 11


def test_a_stream_stays_open_however_long_the_server_is_away():
    """A stream stays open however long the server is away."""
    harness, client = modern(patience=10)
    listen(harness, client)
    harness.opens_at_once = False
    harness.die()
    harness.wait(600)
    assert not client.answers("l")
    harness.opens_at_once = True
    harness.wait(120)
    acknowledge(harness)
    assert not client.answers("l")


def test_a_stream_that_never_began_is_refused_as_any_call():
    """A stream that never began is refused as any call."""
    harness, client = modern(patience=10)
    harness.opens_at_once = False
    client.ask("l", "subscriptions/listen", {"notifications": FILTER, "_meta": MODERN})
    harness.wait(11)
    assert outcome(client.answer("l")) == "not_executed"


def test_a_stream_that_is_cut_at_once_is_not_opened_as_fast_as_it_is_cut():
    """A stream that is cut at once is not opened as fast as it is cut."""
    harness, client = modern(url=True)
    listen(harness, client)
    harness.auto["server/discover"] = {}
    harness.lose(harness.sent[-1], CUT)
    until = harness.now + 60
    while harness.now < until:
        if harness.asked:
            harness.lose(acknowledge(harness), CUT)
        harness.wait(0.1)
    assert 3 <= len(harness.got("subscriptions/listen")) <= 10
    assert not client.answers("l")


def test_a_stream_ends_with_its_client_and_when_the_sidecar_ends():
    """A stream ends with its client and when the sidecar ends."""
    harness, client = modern(deadline=5)
    listen(harness, client)
    harness.wait(100)
    assert not client.answers("l")
    client.tell("notifications/cancelled", {"requestId": "l"})
    assert client.dropped == [("str", "l")]
    listen(harness, client, "m")
    harness.step(lambda: harness.relay.close(harness.now))
    assert client.answer("m").error
    assert harness.relay.is_idle


def test_a_changed_list_is_reported_to_those_who_listen_for_it():
    """A changed list is told to those who listen for it."""
    harness = Harness(is_shared=True)
    reported, deaf = harness.client(), harness.client()
    listen(harness, reported)
    reported.ask(1, "tools/list", {"_meta": MODERN})
    listen(harness, deaf, wants={"promptsListChanged": True})
    for tools, count in (([tool("order")], 0), ([tool("new")], 1), ([tool("new")], 1)):
        harness.tools = tools
        harness.die()
        harness.wait(5)
        assert len(reported.heard(CHANGED)) == count
    assert reported.heard(CHANGED)[0].meta[SUBSCRIPTION] == "l"
    assert not deaf.heard(CHANGED)


# ---- losses -------------------------------------------------------------------------------------------------------------------


def test_a_restart_sends_no_initialize_and_the_next_result_says_so():
    """A restart sends no initialize and the next result says so."""
    harness, client = modern()
    client.call(1, "order", _meta=MODERN)
    harness.reply(harness.take(), {"resultType": "complete", "content": []})
    harness.die(DIED)
    harness.wait(1)
    client.call(2, "order", _meta=MODERN)
    harness.reply(harness.take(), {"resultType": "complete", "content": []})
    assert client.answer(2).result["_meta"][f"{PREFIX}/restarted"]["reason"] == "exit code 137"
    assert not harness.got("initialize")


def test_a_server_that_no_one_reaches_is_asked_what_it_is_until_it_answers():
    """A server that nobody reaches is asked what it is until it answers."""
    harness, client = modern(url=True)
    client.call(1, "order", _meta=MODERN)
    harness.lose(harness.take(), REFUSED)
    harness.wait(2)
    knock = harness.take("server/discover")
    assert knock.message.meta == MODERN
    harness.reply(knock, error=-32601)
    harness.reply(harness.take(), {"content": []})
    assert harness.ended() == ["answered"]
