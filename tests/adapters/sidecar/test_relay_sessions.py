"""The server starts, ends, hangs and comes back: what the clients keep, what they are told, and when it is left alone."""

from __future__ import annotations

import pytest

from resilient_bridge.errors import Executed
from tests.adapters.sidecar.harness import (
    FORGOTTEN,
    Harness,
    away,
    ready,
    result_text,
    tool,
)
from tests.internals.adapters import PREFIX, STATUS_TOOL, Loss, message


CHANGED = "notifications/tools/list_changed"
NOT_FOUND = Loss(reason="command not found: server", executed=Executed.NO, is_final=True)


# ---- lists ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]
)
def test_a_list_is_answered_from_memory_while_the_server_is_away(method):
    """A list is answered from memory while the server is away."""
    harness, client = ready()
    client.ask(1, method)
    away(harness)
    client.ask(2, method)
    assert client.answer(2).result == client.answer(1).result


def test_a_list_that_was_asked_for_when_the_server_died_is_answered_from_memory():
    """A list that was asked for when the server died is answered from memory."""
    harness, client = ready()
    tools = harness.auto.pop("tools/list")
    client.ask(1, "tools/list")
    away(harness)
    assert client.answer(1).result == tools(None)


def test_the_status_tool_is_in_every_list_of_tools_and_answers_while_the_server_is_away():
    """The status tool is in every list of tools and answers while the server is away."""
    harness, client = ready(status_tool=True)
    client.ask(1, "tools/list")
    away(harness)
    client.ask(2, "tools/list")
    for number in (1, 2):
        assert [one["name"] for one in client.answer(number).result["tools"]] == [
            "order",
            STATUS_TOOL,
        ]
    client.call(3, STATUS_TOOL)
    assert '"status": "down"' in result_text(client.answer(3)) or '"opening"' in result_text(
        client.answer(3)
    )
    assert not harness.got("tools/call")


@pytest.mark.parametrize(
    ("after", "is_reported"),
    [
        ([tool("order")], False),
        ([tool("order"), tool("new")], True),
        ([], True),
        ([tool("order", readOnlyHint=True)], True),
        ([tool("order") | {"inputSchema": {"type": "object", "required": ["a"]}}], True),
        ([tool("order") | {"_meta": {"started": 2}}], False),
    ],
)
def test_clients_hear_of_a_list_exactly_when_it_is_another_one(after, is_reported):
    """Clients are told of a list exactly when it is another one."""
    harness, client = ready()
    client.ask(1, "tools/list")
    for _ in range(3):
        harness.tools = after
        harness.die()
        harness.wait(5)
    assert len(client.heard(CHANGED)) == is_reported


@pytest.mark.parametrize(
    ("method", "member", "notice"),
    [
        ("prompts/list", "prompts", "notifications/prompts/list_changed"),
        ("resources/list", "resources", "notifications/resources/list_changed"),
        ("resources/templates/list", "resourceTemplates", "notifications/resources/list_changed"),
    ],
)
def test_the_other_lists_are_compared_too(method, member, notice):
    """The other lists are compared too."""
    harness, client = ready()
    client.ask(1, method)
    harness.die()
    harness.wait(5)
    assert not client.heard(notice)
    harness.auto[method] = {member: [{"name": "x"}]}
    harness.die()
    harness.wait(5)
    assert len(client.heard(notice)) == 1


def test_a_list_that_no_client_has_seen_is_no_news():
    """A list that no client has seen is no news."""
    harness, client = ready()
    harness.auto["prompts/list"] = {"prompts": [{"name": "x"}]}
    harness.die()
    harness.wait(5)
    assert not client.heard("notifications/prompts/list_changed")


def test_a_change_that_the_server_reported_of_is_not_reported_again_after_a_restart():
    """A change that the server told of is not told again after a restart."""
    harness, client = ready()
    harness.tools = [tool("order"), tool("new")]
    harness.serve(message.notification(CHANGED))
    harness.die()
    harness.wait(5)
    assert len(client.heard(CHANGED)) == 1


def test_a_list_on_several_pages_is_compared_whole():
    """A list on several pages is compared whole."""
    harness = Harness()
    pages = {"": {"tools": [tool("a")], "nextCursor": "n"}, "n": {"tools": [tool("b")]}}
    harness.auto["tools/list"] = lambda request: pages[request.params.get("cursor", "")]
    client = harness.client().open()
    harness.die()
    harness.wait(5)
    assert not client.heard(CHANGED)
    pages["n"] = {"tools": [tool("b"), tool("c")]}
    harness.die()
    harness.wait(5)
    assert len(client.heard(CHANGED)) == 1


def test_a_tool_that_is_gone_is_reported_with_those_that_are_there():
    """A tool that is gone is told with those that are there."""
    harness, client = ready()
    harness.tools = [tool("other"), tool("more")]
    harness.die()
    harness.wait(1)
    client.call(1, "order")
    assert result_text(client.answer(1)) == (
        'NOT EXECUTED: the server was restarted and no longer has "order"; it now has: other, more.'
    )
    client.call(2, "never_listed")
    assert harness.take().message.name == "never_listed"


def test_a_late_list_of_a_forgotten_session_does_not_reach_the_client():
    """It would be the old one, after the news that there is another."""
    harness = Harness(url=True)
    client = harness.client().open()
    client.call(0, "order")
    harness.reply(harness.take())
    listed = harness.auto.pop("tools/list")
    client.ask(1, "tools/list")
    late = harness.take("tools/list")
    harness.auto["tools/list"] = listed
    harness.tools = [tool("new")]
    client.call(2, "order")
    harness.lose(harness.take(), FORGOTTEN)
    harness.wait(0)
    harness.reply(late, {"tools": [tool("order")]})
    harness.wait(3)
    assert client.answer(1).result["tools"] == [tool("new")]


# ---- the first result after a restart ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [{"content": []}, {"content": [], "_meta": {"a": 1}}])
def test_the_first_tool_result_after_a_restart_says_that_the_server_is_a_new_one(result):
    """The first tool result after a restart says that the server is a new one."""
    harness, client = ready()
    client.call(0, "order")
    harness.reply(harness.take(), result)
    harness.die(Loss(reason="exit code 1"))
    harness.wait(1)
    for number in (1, 2):
        client.call(number, "order")
        harness.reply(harness.take(), result)
    note = {"at": "2026-01-01", "count": 1, "reason": "exit code 1"}
    expected = result | {"_meta": result.get("_meta", {}) | {f"{PREFIX}/restarted": note}}
    assert [client.answer(number).result for number in range(3)] == [result, expected, result]
