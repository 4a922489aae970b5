"""The server starts, ends, hangs and comes back: what the clients keep, what they are told, and when it is left alone."""

from __future__ import annotations

import pytest

from resilient_bridge.adapters.sidecar import message
from resilient_bridge.adapters.sidecar.outcomes import PREFIX
from resilient_bridge.adapters.sidecar.status import STATUS_TOOL
from resilient_bridge.adapters.sidecar.upstream import Loss
from resilient_bridge.errors import Executed
from tests.adapters.sidecar.harness import (
    FORGOTTEN,
    MODERN,
    NEVER_SENT,
    REFUSED,
    Harness,
    outcome,
    ready,
    result_text,
    tool,
)


CHANGED = "notifications/tools/list_changed"
NOT_FOUND = Loss(reason="command not found: server", executed=Executed.NO, is_final=True)


# ---- lists ----------------------------------------------------------------------------------------------------------------


def away(harness: Harness) -> None:
    """Have the server end, and not come back for now."""
    harness.opens_at_once = False
    harness.die()
    harness.wait(0)


@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"])
def test_a_list_is_answered_from_memory_while_the_server_is_away(method):
    harness, client = ready()
    client.ask(1, method)
    away(harness)
    client.ask(2, method)
    assert client.answer(2).result == client.answer(1).result


def test_a_list_that_was_asked_for_when_the_server_died_is_answered_from_memory():
    harness, client = ready()
    tools = harness.auto.pop("tools/list")
    client.ask(1, "tools/list")
    away(harness)
    assert client.answer(1).result == tools(None)


def test_the_status_tool_is_in_every_list_of_tools_and_answers_while_the_server_is_away():
    harness, client = ready(status_tool=True)
    client.ask(1, "tools/list")
    away(harness)
    client.ask(2, "tools/list")
    for number in (1, 2):
        assert [one["name"] for one in client.answer(number).result["tools"]] == ["order", STATUS_TOOL]
    client.call(3, STATUS_TOOL)
    assert '"status": "down"' in result_text(client.answer(3)) or '"opening"' in result_text(client.answer(3))
    assert not harness.got("tools/call")


@pytest.mark.parametrize(
    ("after", "is_told"),
    [
        ([tool("order")], False),
        ([tool("order"), tool("new")], True),
        ([], True),
        ([tool("order", readOnlyHint=True)], True),
        ([tool("order") | {"inputSchema": {"type": "object", "required": ["a"]}}], True),
        ([tool("order") | {"_meta": {"started": 2}}], False),
    ],
)
def test_clients_are_told_of_a_list_exactly_when_it_is_another_one(after, is_told):
    harness, client = ready()
    client.ask(1, "tools/list")
    for _ in range(3):
        harness.tools = after
        harness.die()
        harness.wait(5)
    assert len(client.heard(CHANGED)) == is_told


@pytest.mark.parametrize(
    ("method", "member", "notice"),
    [
        ("prompts/list", "prompts", "notifications/prompts/list_changed"),
        ("resources/list", "resources", "notifications/resources/list_changed"),
        ("resources/templates/list", "resourceTemplates", "notifications/resources/list_changed"),
    ],
)
def test_the_other_lists_are_compared_too(method, member, notice):
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
    harness, client = ready()
    harness.auto["prompts/list"] = {"prompts": [{"name": "x"}]}
    harness.die()
    harness.wait(5)
    assert not client.heard("notifications/prompts/list_changed")


def test_a_change_that_the_server_told_of_is_not_told_again_after_a_restart():
    harness, client = ready()
    harness.tools = [tool("order"), tool("new")]
    harness.serve(message.notification(CHANGED))
    harness.die()
    harness.wait(5)
    assert len(client.heard(CHANGED)) == 1


def test_a_list_on_several_pages_is_compared_whole():
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


def test_a_tool_that_is_gone_is_told_with_those_that_are_there():
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


# ---- starting ------------------------------------------------------------------------------------------------------------------


def test_a_first_start_that_fails_is_tried_again_while_the_client_waits():
    harness = Harness()
    harness.opens_at_once = False
    client = harness.client()
    client.ask(1, "initialize", {})
    harness.die(NEVER_SENT)
    assert not client.answers(1)
    harness.opens_at_once = True
    harness.wait(1)
    assert client.answer(1).result


def test_a_command_that_is_not_there_fails_initialize_with_its_reason():
    harness = Harness()
    harness.opens_at_once = False
    client = harness.client()
    client.ask(1, "initialize", {})
    harness.die(NOT_FOUND)
    assert client.answer(1).error["message"].startswith("NOT EXECUTED: command not found: server.")
    harness.wait(600)
    assert len(harness.sessions) == 1


def test_a_command_that_is_gone_is_tried_again_with_the_next_call_and_not_by_itself():
    harness, client = ready()
    harness.opens_at_once = False
    client.call(1, "order")
    harness.die()
    harness.wait(0)
    harness.die(NOT_FOUND)
    harness.wait(300)
    assert len(harness.sessions) == 2
    client.call(2, "order")
    assert len(harness.sessions) == 3
    harness.die(NOT_FOUND)
    assert outcome(client.answer(2)) == "not_executed"
    harness.opens_at_once = True
    client.call(3, "order")
    harness.reply(harness.take())
    assert harness.ended() == ["unknown", "not_executed", "answered"]


def test_a_call_that_was_lost_when_the_command_is_gone_is_told_at_once():
    harness = Harness()
    harness.tools = [tool("look", readOnlyHint=True)]
    client = harness.client().open()
    client.call(1, "look")
    away(harness)
    assert not client.answers(1)
    harness.die(NOT_FOUND)
    answer = client.answer(1)
    assert outcome(answer) == "unknown"
    assert "exit code 137" in result_text(answer), "the loss that it had, not the one of the start"


def test_a_start_that_takes_long_is_given_up_and_tried_again():
    harness = Harness(start_timeout=20)
    harness.opens_at_once = False
    client = harness.client()
    client.ask(1, "initialize", {})
    harness.wait(25)
    assert outcome(client.answer(1)) == "not_executed"
    assert harness.closed[0] == harness.sessions[0]
    assert len(harness.sessions) == 2


def test_a_server_that_does_not_answer_initialize_is_started_again():
    harness, _client = ready(start_timeout=20)
    answer = harness.auto.pop("initialize")
    harness.die()
    harness.wait(10)
    harness.auto["initialize"] = answer
    harness.wait(15)
    assert len(harness.sessions) == 3
    assert harness.relay.status(harness.now)["status"] == "ok"


def test_a_server_that_is_slow_to_list_its_tools_is_used_after_a_while():
    harness, client = ready()
    del harness.auto["tools/list"]
    harness.die()
    harness.wait(1)
    client.call(1, "order")
    assert not harness.got("tools/call")
    harness.wait(5)
    harness.reply(harness.take())
    assert harness.ended() == ["answered"]


def test_a_crash_loop_opens_the_circuit_and_calls_fail_at_once_with_the_last_words():
    harness, client = ready()
    harness.auto.pop("initialize")
    client.call(0, "order")
    loss = Loss(reason="exit code 1", words="no such database")
    for _ in range(8):
        harness.die(loss)
        harness.wait(4)
    began = len(harness.sessions)
    assert harness.relay.status(harness.now)["status"] == "down"
    client.call(1, "order")
    text = result_text(client.answer(1))
    assert text.startswith("NOT EXECUTED: the server failed too often and is left alone for now (exit code 1).")
    assert text.endswith("The server's last words: no such database")
    assert client.answer(1).result["_meta"][f"{PREFIX}/retryAfterMs"] > 0
    assert len(harness.sessions) == began


def test_a_crash_loop_starts_a_bounded_number_of_times_and_ends_when_it_is_mended():
    harness, client = ready()
    answer = harness.auto.pop("initialize")
    began, dead = harness.now, 0
    while harness.now - began < 600:
        while dead < len(harness.sessions):
            dead = len(harness.sessions)
            harness.die(Loss(reason="exit code 1"))
        harness.wait(0.5)
    assert 10 < len(harness.sessions) < 40
    harness.auto["initialize"] = answer
    harness.wait(120)
    client.call(1, "order")
    harness.reply(harness.take())
    assert harness.ended() == ["answered"]
    assert harness.relay.status(harness.now)["status"] == "ok"


def test_calls_under_way_do_not_wait_when_their_loss_opens_the_circuit():
    harness, client = ready()
    for _ in range(4):
        harness.die()
        harness.wait(20)
    client.ask(1, "resources/read", {"uri": "u"})
    harness.die()
    assert harness.relay.status(harness.now)["status"] == "down"
    assert outcome(client.answer(1)) == "unknown"


def test_a_session_that_only_stood_for_long_closes_the_circuit_again():
    harness, client = ready()
    for _ in range(5):
        harness.die()
        harness.wait(20)
    harness.wait(100)  # half open, and up; nobody calls
    for _ in range(4):
        harness.die()
        harness.wait(40)
    client.call(1, "order")
    assert harness.take()
    assert harness.relay._restarts.open_for(harness.now) is None
    assert harness.relay._restarts._circuit.is_closed


def test_exit_code_zero_after_each_call_is_a_restart_without_a_wait():
    harness, client = ready()
    for number in range(20):
        client.call(number, "order")
        harness.reply(harness.take())
        harness.die(Loss(reason="exit code 0"))
        harness.wait(0)
    assert harness.ended() == ["answered"] * 20


def test_a_server_that_nobody_is_there_for_is_not_started_and_no_timer_is_due():
    harness, client = ready()
    client.leave()
    harness.die()
    harness.wait(600)
    assert len(harness.sessions) == 1
    again = harness.client().open()
    again.call(1, "order")
    harness.wait(1)
    assert harness.take()


def test_a_client_that_leaves_while_it_opens_is_recorded():
    harness = Harness()
    harness.opens_at_once = False
    client = harness.client()
    client.ask(1, "initialize", {})
    client.leave()
    assert [one["outcome"] for one in harness.records("call_finished")] == ["cancelled"]


def test_one_id_for_two_initializes_is_refused():
    harness = Harness()
    harness.opens_at_once = False
    client = harness.client()
    client.ask(1, "initialize", {})
    client.ask(1, "initialize", {})
    assert client.answer(1).error["code"] == -32600


def test_a_client_of_the_other_era_that_falls_back_has_its_full_time():
    """It asks `server/discover` first, and says initialize when the server does not know that; the start may have been slow."""
    harness = Harness(start_timeout=60)
    client = harness.client()
    client.ask(1, "server/discover", {"_meta": MODERN})
    harness.reply(harness.take("server/discover"), error=-32601)
    harness.wait(100)
    del harness.auto["initialize"]
    client.ask(2, "initialize", {"capabilities": {}})
    harness.wait(10)
    assert len(harness.sessions) == 1
    harness.reply(harness.take("initialize"), {"capabilities": {}})
    assert client.answer(2).result == {"capabilities": {}}


def test_without_sessions_too_a_call_waits_until_the_new_servers_tools_are_known():
    """Its hints say what may be repeated: the next loss would find a read that nobody knows for one."""
    harness = Harness()
    harness.tools = [tool("look", readOnlyHint=True)]
    client = harness.client()
    client.ask(1, "tools/list", {"_meta": MODERN})
    harness.die()
    del harness.auto["tools/list"]
    client.call(2, "look", _meta=MODERN)
    harness.wait(1)
    assert harness.got("tools/call") == []
    harness.reply(harness.take("tools/list"), {"tools": harness.tools})
    harness.take()
    harness.auto["tools/list"] = {"tools": harness.tools}
    harness.die()
    harness.wait(5)
    harness.reply(harness.take())
    assert outcome(client.answer(2)) == ""


def test_a_restart_by_hand():
    harness, client = ready()
    client.call(1, "order")
    harness.step(lambda: harness.relay.restart(harness.now, "restarted by the user"))
    harness.wait(1)
    assert "restarted by the user" in result_text(client.answer(1))
    client.call(2, "order")
    assert harness.take().session == harness.sessions[1]


def test_a_notification_of_a_client_waits_for_the_server_and_not_for_ever():
    harness, client = ready(patience=10)
    away(harness)
    client.tell("notifications/vendor", {"n": 1})
    harness.wait(20)
    client.tell("notifications/vendor", {"n": 2})
    harness.open_now()
    assert [one.params["n"] for one in harness.got("notifications/vendor")] == [2]


def test_the_status_says_how_it_is():
    harness, client = ready(url=True)
    assert harness.relay.status(harness.now)["status"] == "ok"
    client.call(1, "order")
    harness.lose(harness.take(), REFUSED)
    found = harness.relay.status(harness.now)
    assert (found["status"], found["server"], found["waiting"]) == ("degraded", "unreachable", 1)
    assert found["last_loss"] == "connection refused"


def test_a_secret_in_an_address_stays_out_of_the_records():
    harness, client = ready()
    client.ask(1, "resources/read", {"uri": "db://me:hunter2@host/x?token=s3cret"})
    harness.die()
    for _ in range(3):
        harness.wait(20)
        harness.die()
    assert "hunter2" not in str(harness.notes) + str(harness.lines)
    assert "s3cret" not in str(harness.notes) + str(harness.lines)


@pytest.mark.parametrize("is_shown", [False, True])
def test_arguments_are_recorded_only_when_asked(is_shown):
    harness, client = ready(log_arguments=is_shown)
    client.call(1, "order", arguments={"card": "4111"})
    harness.reply(harness.take())
    assert ("4111" in str(harness.notes)) is is_shown


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1e400", "-1e400", '"x"', "null", "true", "[]"])
def test_odd_progress_of_a_server_harms_nothing(value):
    from resilient_bridge.adapters.sidecar.message import parse

    harness = Harness()
    harness.tools = [tool("look", readOnlyHint=True)]
    client = harness.client().open()
    client.call(1, "look", _meta={"progressToken": "t"})
    sent = harness.take()
    head = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'
    harness.serve(parse(f'{head}{sent.message.id},"progress":{value}}}}}'))
    away(harness)
    harness.wait(11)
    harness.open_now()
    harness.reply(harness.take())
    assert client.answer(1)
    assert "Infinity" not in "".join(one.text for one, _ in client.got)
