"""What a server asks its client and tells it, and what it has to be told again: log level, subscriptions, roots."""

from __future__ import annotations

import pytest

from tests.adapters.sidecar.harness import DIED, Harness, outcome, ready, result_text, tool
from tests.internals.adapters import message


# ---- log level, subscriptions, roots ------------------------------------------------------------------------------


def test_the_log_level_is_set_again():
    """The log level is set again."""
    harness, client = ready()
    client.ask(1, "logging/setLevel", {"level": "error"})
    client.ask(2, "logging/setLevel", {"level": "info"})
    harness.die()
    harness.wait(1)
    assert [one.params["level"] for one in harness.got("logging/setLevel")] == [
        "error",
        "info",
        "info",
    ]
    assert len(client.answers(2)) == 1


def test_a_log_level_that_the_server_refused_is_not_set_again():
    """A log level that the server refused is not set again."""
    harness, client = ready()
    level = harness.auto.pop("logging/setLevel")
    client.ask(1, "logging/setLevel", {"level": "odd"})
    harness.reply(harness.take("logging/setLevel"), error=-32602)
    harness.auto["logging/setLevel"] = level
    harness.die()
    harness.wait(1)
    assert len(harness.got("logging/setLevel")) == 1


def test_subscriptions_are_made_again_and_each_is_reported_of_once():
    """Subscriptions are made again and each is told of once."""
    harness, client = ready()
    for number, uri in enumerate(("a:1", "a:2", "a:3")):
        client.ask(number, "resources/subscribe", {"uri": uri})
    client.ask(3, "resources/unsubscribe", {"uri": "a:2"})
    harness.die()
    harness.wait(1)
    assert [one.params["uri"] for one in harness.got("resources/subscribe")][3:] == ["a:1", "a:3"]
    assert [one.params["uri"] for one in client.heard("notifications/resources/updated")] == [
        "a:1",
        "a:3",
    ]


def test_a_subscription_that_is_gone_is_dropped_and_the_list_has_changed():
    """A subscription that is gone is dropped and the list has changed."""
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


def test_what_is_received_of_a_part_of_a_resource_passes():
    """By the specification it may be a sub-resource of the one that was subscribed to."""
    harness, client = ready()
    client.ask(1, "resources/subscribe", {"uri": "a:/1"})
    harness.serve(message.notification("notifications/resources/updated", {"uri": "a:/1/part"}))
    assert len(client.heard("notifications/resources/updated")) == 1


def test_roots_are_received_to_have_changed_only_where_they_were_asked_for():
    """Roots are said to have changed only where they were asked for."""
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
    [
        ("roots/list", "roots"),
        ("sampling/createMessage", "sampling"),
        ("elicitation/create", "elicitation"),
    ],
)
def test_a_request_of_the_server_goes_to_the_client_that_can_answer_it(method, capability):
    """A request of the server goes to the client that can answer it."""
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
    """The server may take its request back."""
    harness = Harness()
    client = harness.client().open({"sampling": {}})
    harness.serve(message.request("s1", "sampling/createMessage", {}))
    harness.serve(
        message.notification("notifications/cancelled", {"requestId": "s1", "reason": "late"})
    )
    (asked,) = client.heard("sampling/createMessage")
    (note,) = client.heard("notifications/cancelled")
    assert note.params == {"requestId": asked.id, "reason": "late"}
    sent = len(harness.sent)
    client.say(message.result(asked.id, {}))
    assert len(harness.sent) == sent


def test_the_server_dies_while_the_user_answers():
    """The server dies while the user answers."""
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


# ---- tasks --------------------------------------------------------------------------------------------------------


def test_a_task_that_is_made_is_an_effect_and_its_result_may_take_any_time():
    """A task that is made is an effect and its result may take any time."""
    harness = Harness(timeout=5, deadline=20)
    harness.tools = [tool("look", readOnlyHint=True)]
    client = harness.client().open()
    client.call(1, "look", task={"ttl": 1})
    harness.die(DIED)
    harness.wait(1)
    assert outcome(client.answer(1)) == "unknown"
    client.ask(2, "tasks/result", {"taskId": "t"})
    harness.wait(1_000)
    harness.reply(harness.take("tasks/result"), {"content": []})
    assert client.answer(2).result == {"content": []}


def test_a_request_that_reads_is_an_effect_once_it_makes_a_task():
    """`resources/read` is made again after a loss; with a `task` it may have made one, and is not."""
    for task, outcomes in ((None, ""), ({"ttl": 1}, "unknown")):
        harness, client = ready()
        client.ask(1, "resources/read", {"uri": "a://b"} | ({} if task is None else {"task": task}))
        harness.die()
        harness.wait(1)
        assert [outcome(one) for one in client.answers(1)] == ([outcomes] if outcomes else [])
        assert len(harness.got("resources/read")) == (1 if outcomes else 2)


def test_a_tasks_fate_after_a_restart_is_the_servers_to_say():
    """A task's fate after a restart is the server's to say."""
    harness, client = ready()
    client.ask(1, "tasks/result", {"taskId": "t"})
    harness.die()
    harness.wait(1)
    harness.reply(harness.take("tasks/result"), error=-32602, text="unknown task")
    assert client.answer(1).error["message"] == "unknown task"
    assert "unknown task" in result_text(client.answer(1))
