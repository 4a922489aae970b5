"""What a server asks its client and tells it, and what it has to be told again: log level, subscriptions, roots."""

from __future__ import annotations

import pytest

from resilient_bridge.adapters.sidecar import message
from tests.adapters.sidecar.harness import Harness, outcome, ready


LISTED = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]


# ---- log level, subscriptions, roots ------------------------------------------------------------------------------


def test_the_log_level_is_set_again():
    harness, client = ready()
    client.ask(1, "logging/setLevel", {"level": "error"})
    client.ask(2, "logging/setLevel", {"level": "info"})
    harness.die()
    harness.wait(1)
    assert [one.params["level"] for one in harness.got("logging/setLevel")] == ["error", "info", "info"]
    assert len(client.answers(2)) == 1


def test_a_log_level_that_the_server_refused_is_not_set_again():
    harness, client = ready()
    level = harness.auto.pop("logging/setLevel")
    client.ask(1, "logging/setLevel", {"level": "odd"})
    harness.reply(harness.take("logging/setLevel"), error=-32602)
    harness.auto["logging/setLevel"] = level
    harness.die()
    harness.wait(1)
    assert len(harness.got("logging/setLevel")) == 1


def test_subscriptions_are_made_again_and_each_is_told_of_once():
    harness, client = ready()
    for number, uri in enumerate(("a:1", "a:2", "a:3")):
        client.ask(number, "resources/subscribe", {"uri": uri})
    client.ask(3, "resources/unsubscribe", {"uri": "a:2"})
    harness.die()
    harness.wait(1)
    assert [one.params["uri"] for one in harness.got("resources/subscribe")][3:] == ["a:1", "a:3"]
    assert [one.params["uri"] for one in client.heard("notifications/resources/updated")] == ["a:1", "a:3"]


def test_a_subscription_that_is_gone_is_dropped_and_the_list_has_changed():
    harness, client = ready()
    client.ask(1, "resources/subscribe", {"uri": "a:1"})
    subscribed = harness.auto.pop("resources/subscribe")
    harness.die()
    harness.wait(1)
    harness.reply(harness.take("resources/subscribe"), error=-32002)
    assert len(client.heard("notifications/resources/list_changed")) == 1
    assert not client.heard("notifications/resources/updated")
    harness.auto["resources/subscribe"] = subscribed
    harness.die()
    harness.wait(1)
    assert len(harness.got("resources/subscribe")) == 2, "not a third time"


def test_what_is_said_of_a_part_of_a_resource_passes():
    """By the specification it may be a sub-resource of the one that was subscribed to."""
    harness, client = ready()
    client.ask(1, "resources/subscribe", {"uri": "a:/1"})
    harness.serve(message.notification("notifications/resources/updated", {"uri": "a:/1/part"}))
    assert len(client.heard("notifications/resources/updated")) == 1


def test_roots_are_said_to_have_changed_only_where_they_were_asked_for():
    harness = Harness()
    client = harness.client().open({"roots": {}})
    harness.die()
    harness.wait(1)
    assert not harness.got("notifications/roots/list_changed")
    harness.serve(message.request("r", "roots/list"))
    client.say(message.result(client.heard("roots/list")[0].id, {"roots": []}))
    assert harness.sent[-1].message.fields == {"jsonrpc": "2.0", "id": "r", "result": {"roots": []}}
    harness.die()
    harness.wait(1)
    assert len(harness.got("notifications/roots/list_changed")) == 1


# ---- requests of the server ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "capability"),
    [("roots/list", "roots"), ("sampling/createMessage", "sampling"), ("elicitation/create", "elicitation")],
)
def test_a_request_of_the_server_goes_to_the_client_that_can_answer_it(method, capability):
    harness = Harness()
    client = harness.client().open({capability: {}})
    client.call(1, "order")
    harness.serve(message.request("s1", method, {"m": [1.0], "_meta": {"progressToken": "mine"}}))
    asked, stream = client.got[-1]
    assert asked.method == method
    assert asked.params == {"m": [1.0], "_meta": {"progressToken": "mine"}}
    assert stream == ("int", 1)
    client.say(message.result(asked.id, {"x": 1}))
    assert harness.sent[-1].message.fields == {"jsonrpc": "2.0", "id": "s1", "result": {"x": 1}}
    other, another = ready()
    other.serve(message.request("s1", method, {}))
    assert other.sent[-1].message.error["code"] == -32601
    assert not another.heard(method)


def test_the_server_may_take_its_request_back():
    harness = Harness()
    client = harness.client().open({"sampling": {}})
    harness.serve(message.request("s1", "sampling/createMessage", {}))
    harness.serve(message.notification("notifications/cancelled", {"requestId": "s1", "reason": "late"}))
    (asked,) = client.heard("sampling/createMessage")
    (note,) = client.heard("notifications/cancelled")
    assert note.params == {"requestId": asked.id, "reason": "late"}
    sent = len(harness.sent)
    client.say(message.result(asked.id, {}))
    assert len(harness.sent) == sent


def test_the_server_dies_while_the_user_answers():
    harness = Harness()
    client = harness.client().open({"elicitation": {}})
    client.call(1, "order")
    harness.serve(message.request("s1", "elicitation/create", {}))
    (asked,) = client.heard("elicitation/create")
    harness.die()
    assert client.heard("notifications/cancelled")[0].params["requestId"] == asked.id
    assert outcome(client.answer(1)) == "unknown"
    harness.wait(1)
    sent = len(harness.sent)
    client.say(message.result(asked.id, {"action": "accept"}))
    assert len(harness.sent) == sent, "the late answer reaches nobody"
    assert harness.relay.status(harness.now)["strays"] == 1


def test_a_client_that_leaves_owes_no_answers():
    """The server's request is answered, and nothing of it is kept."""
    harness = Harness()
    client = harness.client().open({"sampling": {}})
    harness.serve(message.request("s1", "sampling/createMessage", {}))
    client.leave()
    assert harness.sent[-1].message.id == "s1"
    assert harness.sent[-1].message.error
    assert not harness.relay._state.asked
