"""What the relay does with each message of the protocol with sessions, and what comes back with a new session."""

from __future__ import annotations

import pytest

from tests.adapters.sidecar.harness import ALL, CUT, REFUSED, Harness, ready, tool
from tests.internals.adapters import message, parse


LISTED = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]


# ---- opening ------------------------------------------------------------------------------------------------------


def test_the_server_gets_the_clients_own_initialize_and_the_client_its_answer():
    """The server gets the client's own initialize and the client its answer."""
    harness, client = ready()
    (sent,) = harness.got("initialize")
    assert sent.params["clientInfo"] == {"name": "c"}
    answer = client.answer("init").result
    assert answer["serverInfo"] == {"name": "s", "version": "1"}
    assert len(harness.got("notifications/initialized")) == 1


def test_changes_of_lists_are_announced_whatever_the_server_says():
    """Changes of lists are announced whatever the server says."""
    _, client = ready()
    received = client.answer("init").result["capabilities"]
    assert received == {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "logging": {},
        "completions": {},
    }


def test_nothing_is_announced_that_the_server_does_not_have():
    """Nothing is announced that the server does not have."""
    harness = Harness()
    harness.auto["initialize"] = {"protocolVersion": "x", "capabilities": {"tools": {}}}
    client = harness.client().open()
    assert client.answer("init").result["capabilities"] == {"tools": {"listChanged": True}}


def test_initialized_goes_to_the_server_only_after_its_answer():
    """Initialized goes to the server only after its answer."""
    harness = Harness()
    del harness.auto["initialize"]
    client = harness.client()
    client.ask(0, "initialize", {"capabilities": {}})
    client.tell("notifications/initialized")
    assert not harness.got("notifications/initialized")
    harness.reply(harness.take("initialize"), {"capabilities": {}})
    assert [one.message.method for one in harness.sent] == [
        "initialize",
        "notifications/initialized",
    ]


def test_a_new_session_gets_the_same_initialize_and_the_client_no_second_answer():
    """A new session gets the same initialize and the client no second answer."""
    harness, client = ready()
    harness.die()
    harness.wait(1)
    first, second = harness.got("initialize")
    assert first.params == second.params
    assert len(client.answers("init")) == 1
    assert len(harness.got("notifications/initialized")) == 2


def test_what_the_client_was_reported_stays_when_the_server_says_something_else_after_a_restart():
    """What the client was told stays when the server says something else after a restart."""
    harness, client = ready()
    harness.auto["initialize"] = {
        "protocolVersion": "2024-11-05",
        "capabilities": ALL | {"tasks": {}},
    }
    harness.die()
    harness.wait(1)
    assert len(client.answers("init")) == 1
    (record,) = harness.records("capabilities_changed")
    assert record["more"] == ["tasks"]
    assert "restart the client" in harness.lines[harness.notes.index(record)]


def test_a_second_initialize_of_an_open_session_is_refused():
    """A second initialize of an open session is refused."""
    harness, client = ready()
    client.ask("again", "initialize", {})
    assert client.answer("again").error["code"] == -32600
    assert len(harness.got("initialize")) == 1


def test_an_initialize_that_the_server_refuses_is_answered_in_its_words():
    """An initialize that the server refuses is answered in its words."""
    harness = Harness()
    del harness.auto["initialize"]
    client = harness.client()
    client.ask(1, "initialize", {})
    harness.reply(harness.take("initialize"), error=-32602, text="unsupported protocol version")
    assert client.answer(1).error == {"code": -32602, "message": "unsupported protocol version"}
    harness.wait(300)
    assert len(harness.sessions) == 1, "it is final: nothing changes by itself"


def test_an_initialize_is_never_cancelled():
    """An initialize is never cancelled."""
    harness = Harness()
    del harness.auto["initialize"]
    client = harness.client()
    client.ask(1, "initialize", {})
    client.tell("notifications/cancelled", {"requestId": 1})
    harness.reply(harness.take("initialize"), {"capabilities": {}})
    assert client.answer(1).result == {"capabilities": {}}


# ---- ping ---------------------------------------------------------------------------------------------------------


def test_each_side_is_answered_its_ping_by_us():
    """Each side is answered its ping by us."""
    harness, client = ready()
    before = len(harness.sent)
    client.ask(7, "ping")
    assert client.answer(7).result == {}
    assert len(harness.sent) == before
    heard = len(client.got)
    harness.serve(message.request("p", "ping"))
    assert harness.sent[-1].message.fields == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert len(client.got) == heard


def test_a_client_is_answered_its_ping_while_the_server_is_away():
    """A client is answered its ping while the server is away."""
    harness, client = ready()
    harness.opens_at_once = False
    harness.die()
    client.ask(7, "ping")
    assert client.answer(7).result == {}


# ---- lists --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", LISTED)
def test_a_list_keeps_its_cursor_and_all_fields(method):
    """A list keeps its cursor and all fields."""
    harness, client = ready()
    del harness.auto[method]
    client.ask(1, method, {"cursor": "c1", "x-more": [1.50]})
    sent = harness.take(method)
    assert dict(sent.message.params) == {"cursor": "c1", "x-more": [1.5]}
    assert '"x-more":[1.5]' in sent.message.text
    harness.serve(
        parse(
            f'{{"jsonrpc":"2.0","id":{sent.message.id},"result":{{"a": 1.50, "nextCursor":"c2"}}}}'
        )
    )
    assert (
        client.answer(1).text == '{"jsonrpc":"2.0","id":1,"result":{"a": 1.50, "nextCursor":"c2"}}'
    )


def paged(harness: Harness, prefix: str) -> None:
    """Have the server list its tools on two pages."""
    pages = {
        "": {"tools": [tool("a")], "nextCursor": f"{prefix}1"},
        f"{prefix}1": {"tools": [tool("b")]},
    }
    harness.auto["tools/list"] = lambda request: pages[request.params.get("cursor", "")]


def test_a_cursor_of_an_earlier_session_is_refused_and_not_passed_on():
    """A cursor of an earlier session is refused and not passed on."""
    harness = Harness()
    paged(harness, "old")
    client = harness.client().open()
    client.ask(1, "tools/list")
    paged(harness, "new")
    harness.die()
    harness.wait(1)
    client.ask(2, "tools/list", {"cursor": "old1"})  # of a server that would not know it
    assert client.answer(2).error["code"] == -32602
    client.ask(3, "tools/list", {"cursor": "new1"})
    assert client.answer(3).result["tools"][0]["name"] == "b"


def test_a_cursor_of_an_earlier_session_that_waited_is_refused_too():
    """A cursor of an earlier session that waited is refused too."""
    harness, client = ready()
    del harness.auto["prompts/list"]
    client.ask(1, "prompts/list")
    harness.reply(harness.take("prompts/list"), {"prompts": [], "nextCursor": "old1"})
    harness.opens_at_once = False
    harness.die()
    harness.wait(0)
    client.ask(2, "prompts/list", {"cursor": "old1"})
    harness.open_now()
    harness.reply(harness.take("prompts/list"), {"prompts": []})
    assert client.answer(2).error["code"] == -32602
    assert not harness.asked


# ---- calls --------------------------------------------------------------------------------------------------------


def test_a_call_has_an_id_of_ours_and_everything_else_byte_for_byte():
    """A call has an id of ours and everything else byte for byte."""
    harness, client = ready()
    text = '{"jsonrpc":"2.0", "method":"tools/call","id":"x", "params":{"name":"order","arguments":{"n":1.500,"z":1e400},"_meta":{"traceparent":"00-a","com.x/y":{}}},"odd":null}'
    client.say(parse(text))
    sent = harness.take()
    assert isinstance(sent.message.id, int)
    assert sent.message.text == text.replace('"x"', str(sent.message.id), 1)
    harness.serve(
        parse(
            f'{{"id":{sent.message.id},"result":{{"content":[],"n":1.500,"x":[]}} ,"jsonrpc":"2.0"}}'
        )
    )
    assert (
        client.answer("x").text
        == '{"id":"x","result":{"content":[],"n":1.500,"x":[]} ,"jsonrpc":"2.0"}'
    )


def test_an_answer_comes_in_the_stream_of_its_request():
    """An answer comes in the stream of its request."""
    harness, client = ready()
    client.call(5, "order")
    harness.reply(harness.take())
    assert client.got[-1][1] == ("int", 5)


def test_two_calls_may_overtake_each_other_and_one_and_the_text_one_are_two_ids():
    """Two calls may overtake each other and one and the text one are two ids."""
    harness, client = ready()
    client.call(1, "order", arguments={"n": 1})
    client.call("1", "order", arguments={"n": 2})
    first, second = harness.take(), harness.take()
    harness.reply(second, {"content": [], "for": second.message.params["arguments"]["n"]})
    harness.reply(first, {"content": [], "for": first.message.params["arguments"]["n"]})
    assert client.answer(1).result["for"] == 1
    assert client.answer("1").result["for"] == 2


def test_an_id_that_is_under_way_already_is_refused_and_the_first_goes_on():
    """An id that is under way already is refused and the first goes on."""
    harness, client = ready()
    client.call(1, "order")
    client.call(1, "order")
    assert client.answer(1).error["code"] == -32600
    harness.reply(harness.take())
    assert not harness.asked
    assert len(client.answers(1)) == 2


@pytest.mark.parametrize("error", [-32042, -32601, 1])
def test_an_error_of_the_server_passes_as_it_is(error):
    """An error of the server passes as it is."""
    harness, client = ready()
    client.call(1, "order")
    sent = harness.take()
    text = f'{{"jsonrpc":"2.0","id":{sent.message.id},"error":{{"code":{error},"message":"m","data":{{"a":1.0}}}}}}'
    harness.serve(parse(text))
    assert client.answer(1).text == text.replace(f'"id":{sent.message.id}', '"id":1')
    assert harness.ended() == ["failed"]


def test_a_second_answer_and_one_to_no_one_are_dropped_and_counted():
    """A second answer and one to nobody are dropped and counted."""
    harness, client = ready()
    client.call(1, "order")
    sent = harness.take()
    harness.reply(sent)
    harness.reply(sent)
    harness.serve(message.result("nobody", {}))
    harness.serve(message.error(None, -32700, "parse error"))
    assert len(client.answers(1)) == 1
    assert harness.relay.status(harness.now)["strays"] == 3
    assert len(harness.records("stray_answer")) == 3


@pytest.mark.parametrize(
    "method", ["vendor/thing", "tasks/get", "tasks/cancel", "completion/complete", "resources/read"]
)
def test_any_other_request_passes(method):
    """Any other request passes."""
    harness, client = ready()
    client.ask(1, method, {"taskId": "t", "uri": "u"})
    sent = harness.take(method)
    assert dict(sent.message.params) == {"taskId": "t", "uri": "u"}
    harness.reply(sent, {"ok": True})
    assert client.answer(1).result == {"ok": True}


def test_parameters_that_are_a_list_pass():
    """Parameters that are a list pass."""
    harness, client = ready()
    client.say(parse('{"jsonrpc":"2.0","id":1,"method":"vendor/x","params":[1,2]}'))
    assert harness.take("vendor/x").message.fields["params"] == [1, 2]


def test_any_other_notification_passes_both_forms():
    """Any other notification passes both ways."""
    harness, client = ready()
    client.tell("notifications/vendor", {"a": 1})
    client.tell("notifications/roots/list_changed")
    assert harness.got("notifications/vendor")[0].params == {"a": 1}
    assert harness.got("notifications/roots/list_changed")
    for method in (
        "notifications/elicitation/complete",
        "notifications/tasks/status",
        "notifications/vendor",
    ):
        harness.serve(message.notification(method, {"b": 2}))
        assert client.heard(method)[0].params == {"b": 2}


# ---- progress, cancellation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["t", 0, 7])
def test_progress_comes_under_the_clients_own_token(token):
    """Progress comes under the client's own token."""
    harness, client = ready()
    client.call("x", "order", _meta={"progressToken": token, "more": 1})
    sent = harness.take()
    assert sent.message.meta["more"] == 1
    ours = sent.message.meta["progressToken"]
    harness.serve(
        message.notification("notifications/progress", {"progressToken": ours, "progress": 0.5})
    )
    harness.reply(sent)
    (note,) = client.heard("notifications/progress")
    assert note.params == {"progressToken": token, "progress": 0.5}
    assert client.got[-2] == (note, ("str", "x"))
    harness.serve(
        message.notification("notifications/progress", {"progressToken": ours, "progress": 0.6})
    )
    assert len(client.heard("notifications/progress")) == 1, "none comes after the answer"


def test_a_cancelled_call_is_cancelled_at_the_server_and_gets_no_answer():
    """A cancelled call is cancelled at the server and gets no answer."""
    harness, client = ready()
    client.call("x", "order")
    sent = harness.take()
    client.tell("notifications/cancelled", {"requestId": "x", "reason": "no"})
    (note,) = harness.got("notifications/cancelled")
    assert note.params == {"requestId": sent.message.id, "reason": "no"}
    assert client.dropped == [("str", "x")]
    harness.reply(sent)
    assert not client.answers("x")
    assert harness.ended() == ["cancelled"]
    assert harness.relay.is_idle


def test_a_call_that_is_cancelled_while_it_waits_is_never_sent():
    """A call that is cancelled while it waits is never sent."""
    harness, client = ready()
    harness.opens_at_once = False
    harness.die()
    client.call("x", "order")
    client.tell("notifications/cancelled", {"requestId": "x"})
    harness.wait(0)
    harness.open_now()
    assert not harness.got("tools/call")
    assert not client.answers("x")
    assert harness.records("call_finished")[-1]["was_sent"] is False


@pytest.mark.parametrize(("loss", "may_have_run"), [(REFUSED, False), (CUT, True)])
def test_what_was_refused_on_its_way_was_not_sent(loss, may_have_run):
    """A call is cancelled while it waits for another try: the event says whether the last one may have run."""
    harness, client = ready(url=True, idempotent=("order",))
    client.call(1, "order")
    harness.lose(harness.take(), loss)
    client.tell("notifications/cancelled", {"requestId": 1})
    assert harness.records("call_finished")[-1]["outcome"] == "cancelled"
    assert harness.records("call_finished")[-1]["was_sent"] is may_have_run


def test_a_cancellation_of_nothing_goes_nowhere():
    """A cancellation of nothing goes nowhere."""
    harness, client = ready()
    client.tell("notifications/cancelled", {"requestId": 99})
    client.tell("notifications/cancelled", {})
    assert not harness.got("notifications/cancelled")


def test_calls_that_were_cancelled_leave_nothing_behind():
    """A server need not answer what was cancelled: nothing may wait for that."""
    harness, client = ready()
    client.call(0, "order")
    client.tell("notifications/cancelled", {"requestId": 0})
    before = harness.relay.status(harness.now)["under_way"]
    for number in range(1, 50):
        client.call(number, "order")
        client.tell("notifications/cancelled", {"requestId": number})
    assert harness.relay.status(harness.now)["under_way"] == before == 0
