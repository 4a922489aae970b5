"""The two eras of the protocol: a real client of one in front of a server that knows only the other."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

import pytest

from tests.internals.adapters import BothErasUpstream, Loss, message


FOLDER = Path(__file__).parent
MODERN = "2026-07-28"
VERSION = "io.modelcontextprotocol/protocolVersion"


def _server(name: str):
    mcp = pytest.importorskip("mcp")
    arguments = [
        "-m",
        "resilient_bridge",
        "mcp",
        "--quiet",
        "--",
        sys.executable,
        str(FOLDER / name),
    ]
    return mcp.StdioServerParameters(
        command=sys.executable, args=arguments, env=dict(os.environ), cwd=FOLDER.parents[2]
    )


@pytest.mark.real
@pytest.mark.requirement("X7")
async def test_a_client_with_sessions_before_a_server_without():
    """Lists, calls, subscriptions, the log level and a question of the server pass; the client never learns of the other era."""
    import mcp_types as types
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client

    heard: list[str] = []

    async def answer(_context, _params):
        return types.ElicitResult(action="accept", content={"name": "bob"})

    async def hear(received):
        heard.append(getattr(received, "method", ""))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mcp: methods of an era that is going
        server = stdio_client(_server("modern_only_server.py"))
        async with Client(
            server, mode="legacy", elicitation_callback=answer, message_handler=hear
        ) as client:
            assert client.server_info.name == "mo"
            assert client.protocol_version == "2025-11-25"
            assert [tool.name for tool in (await client.list_tools()).tools] == ["ask", "touch"]
            asked = json.loads((await client.call_tool("ask", {})).content[0].text)
            assert asked == [{"k1": {"action": "accept", "content": {"name": "bob"}}}, "st8"]
            await client.set_logging_level("warning")
            await client.subscribe_resource("file:///a")
            assert (await client.call_tool("touch", {})).content[0].text == "warning"
    assert heard == ["notifications/tools/list_changed", "notifications/resources/updated"]


@pytest.mark.real
@pytest.mark.requirement("X7")
async def test_a_client_without_sessions_before_a_server_with_them():
    """Lists, calls and changes pass to a client that speaks the later era only."""
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client

    async with Client(stdio_client(_server("legacy_only_server.py")), mode=MODERN) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["touch"]
        async with client.listen(tools_list_changed=True) as changes:
            assert (await client.call_tool("touch", {})).content[0].text == "ok"
            change = await anext(aiter(changes))
            assert type(change).__name__ == "ToolsListChanged"


@pytest.mark.real
async def test_a_client_of_both_eras_falls_back_by_itself():
    """It hears the server's own refusal of the later era, and opens in the earlier one: nothing is translated."""
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client

    async with Client(stdio_client(_server("legacy_only_server.py")), mode="auto") as client:
        assert client.protocol_version == "2025-06-18"
        assert (await client.call_tool("touch", {})).content[0].text == "ok"


# ---- without a wire --------------------------------------------------------------------------------------------------


class Wire:
    """A connection behind, and the receiver in front: what went to each."""

    def __init__(self) -> None:
        self.sent: list[message.Message] = []
        self.heard: list[message.Message] = []
        self.notes: list[str] = []
        self.cancelled: list[int] = []
        self.losses: list[Loss] = []
        self.upstream = BothErasUpstream(lambda receiver: self, self)

    def send(self, received):
        self.sent.append(received)

    def cancel(self, request):
        self.cancelled.append(request)

    def on_lost(self, loss):
        self.losses.append(loss)

    def on_message(self, received, request):
        del request
        self.heard.append(received)

    def on_unanswered(self, request, loss):
        self.heard.append(message.error(request, -1, loss.reason))

    def on_note(self, text):
        self.notes.append(text)

    def refuse(self, received, code=-32601):
        self.upstream.on_message(message.error(received.id, code, "no"), None)


def _modern(number: int, method: str) -> message.Message:
    return message.request(number, method, {"_meta": {VERSION: MODERN}})


def _behind_a_modern_server():
    """A wire whose client has a session, and whose server knows requests alone."""
    wire = Wire()
    wire.upstream.send(
        message.request(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
    )
    wire.refuse(wire.sent[0], -32022)
    found = {"supportedVersions": [MODERN], "capabilities": {}}
    wire.upstream.on_message(message.result(wire.sent[1].id, found), None)
    return wire


def _behind_an_old_server(request):
    """A wire whose client makes this request without a session, and whose server has sessions."""
    wire = Wire()
    wire.upstream.send(request)
    wire.refuse(wire.sent[0])
    wire.upstream.on_message(message.result(wire.sent[1].id, {"capabilities": {}}), None)
    return wire


def _while_the_other_era_is_tried():
    """A wire whose server refused the calls 1 and 2; the call 3 waits."""
    wire = Wire()
    for number in (1, 2):
        wire.upstream.send(_modern(number, "tools/call"))
    wire.refuse(wire.sent[0])
    wire.refuse(wire.sent[1])
    wire.upstream.send(_modern(3, "tools/call"))
    return wire


def test_a_server_that_refuses_both_eras_gives_its_first_refusal():
    """The client hears what the server said to the client's own era."""
    wire = Wire()
    wire.upstream.send(message.request(1, "initialize", {"protocolVersion": "2025-11-25"}))
    wire.refuse(wire.sent[0], -32022)
    assert wire.sent[1].method == "server/discover"
    wire.refuse(wire.sent[1])
    assert [(one.id, one.error["code"]) for one in wire.heard] == [(1, -32022)]


def test_requests_that_are_refused_together_are_all_sent_again():
    """A client of the later era that asks twice at once gets both answers, each once."""
    wire = Wire()
    first, second = _modern(1, "tools/list"), _modern(2, "prompts/list")
    wire.upstream.send(first)
    wire.upstream.send(second)
    wire.refuse(first)
    wire.refuse(second)
    opening = wire.sent[2]
    assert opening.method == "initialize"
    wire.upstream.on_message(
        message.result(opening.id, {"capabilities": {}, "protocolVersion": "x"}), None
    )
    again = [one for one in wire.sent[3:] if one.is_request]
    assert [one.method for one in again] == ["tools/list", "prompts/list"]
    for one in again:
        wire.upstream.on_message(message.result(one.id, {"tools": []}), None)
    assert [one.id for one in wire.heard] == [1, 2]
    assert all(one.result["resultType"] == "complete" for one in wire.heard)
    assert len(wire.notes) == 1


def test_a_question_of_an_old_server_is_refused_with_the_reason():
    """In the later era a server cannot ask: the server hears why, and the client nothing."""
    wire = _behind_an_old_server(_modern(1, "tools/call"))
    wire.upstream.on_message(message.request("q", "sampling/createMessage"), None)
    refusal = wire.sent[-1]
    assert (refusal.id, refusal.error["code"]) == ("q", -32601)
    assert "2026-07-28" in refusal.error["message"]
    assert wire.heard == []


def test_a_server_that_wants_input_for_ever_is_stopped():
    """After ten rounds the call ends with an error."""
    wire = _behind_a_modern_server()
    wire.upstream.send(message.request(2, "tools/call", {"name": "a"}))
    for _ in range(20):
        asked = wire.sent[-1]
        if wire.heard[-1].id == 2:
            break
        wire.upstream.on_message(
            message.result(asked.id, {"resultType": "input_required", "requestState": "s"}), None
        )
    assert "10 times" in wire.heard[-1].error["message"]
    calls = [one for one in wire.sent if one.method == "tools/call"]
    assert len(calls) == 11
    assert len({one.id for one in calls}) == 11


def test_a_loss_is_reported_for_the_clients_own_request():
    """A request that was sent again under another id is reported under the client's."""
    wire = _behind_a_modern_server()
    wire.upstream.send(message.request(2, "tools/call", {"name": "a"}))
    wire.upstream.on_message(
        message.result(2, {"resultType": "input_required", "requestState": "s"}), None
    )
    wire.upstream.on_unanswered(wire.sent[-1].id, Loss(reason="cut"))
    assert (wire.heard[-1].id, wire.heard[-1].error["message"]) == (2, "cut")


def test_a_server_with_sessions_hears_that_a_modern_client_cancels():
    """The client closes its stream, which that server would not understand: it is told, or the tool would run on."""
    wire = _behind_an_old_server(_modern(1, "tools/call"))
    wire.upstream.cancel(1)
    assert [(one.method, one.params["requestId"]) for one in wire.sent[-1:]] == [
        ("notifications/cancelled", 1)
    ]
    assert wire.cancelled == [1]


def test_a_stream_of_changes_that_is_cancelled_hears_no_more():
    """A modern client that listened and left gets no further change, and the other stream gets each once."""
    listen = {"notifications": {"toolsListChanged": True}, "_meta": {VERSION: MODERN}}
    wire = _behind_an_old_server(message.request(1, "subscriptions/listen", listen))
    wire.upstream.send(message.request(2, "subscriptions/listen", listen))
    wire.upstream.cancel(1)
    wire.heard.clear()
    wire.upstream.on_message(message.notification("notifications/tools/list_changed"), None)
    assert [one.meta["io.modelcontextprotocol/subscriptionId"] for one in wire.heard] == [2]


def test_a_subscription_is_acknowledged_when_the_server_has_accepted_it():
    """Refused and unanswered resources are not among what the client is promised; a stream that was left is not acknowledged."""
    uris = ["file:///accepted", "file:///refused", "file:///unanswered"]
    listen = {"notifications": {"resourceSubscriptions": uris}, "_meta": {VERSION: MODERN}}
    wire = _behind_an_old_server(message.request(1, "subscriptions/listen", listen))
    accepted, refused, unanswered = wire.sent[-3:]
    wire.upstream.send(message.request(2, "subscriptions/listen", listen))
    wire.upstream.cancel(2)
    wire.upstream.on_message(message.result(accepted.id, {}), None)
    wire.refuse(refused, -32002)
    for late in wire.sent[-3:]:
        wire.upstream.on_message(message.result(late.id, {}), None)
    assert wire.heard == []
    wire.upstream.on_unanswered(unanswered.id, Loss(reason="cut"))
    assert [(one.method, one.params["notifications"]) for one in wire.heard] == [
        ("notifications/subscriptions/acknowledged", {"resourceSubscriptions": uris[:1]})
    ]
    wire.heard.clear()
    for uri in uris:
        wire.upstream.on_message(
            message.notification("notifications/resources/updated", {"uri": uri}), None
        )
    assert [one.params["uri"] for one in wire.heard] == uris[:1]


def test_what_is_cancelled_while_the_other_era_is_tried_is_never_sent():
    """Neither a request that waited for that, nor one that was refused, runs once nobody wants it."""
    wire = _while_the_other_era_is_tried()
    wire.upstream.send(_modern(4, "tools/call"))
    wire.upstream.cancel(2)
    wire.upstream.cancel(3)
    before = len(wire.sent)
    wire.upstream.on_message(message.result(wire.sent[2].id, {"capabilities": {}}), None)
    assert [one.id for one in wire.sent[before:] if one.is_request] == [1, 4]


def test_a_request_that_is_cancelled_while_its_server_waits_for_input_is_not_sent_again():
    """The client answers late what it was asked: the call that it no longer wants does not run."""
    wire = _behind_a_modern_server()
    wire.upstream.send(message.request(2, "tools/call", {"name": "a"}))
    asked = {"resultType": "input_required", "inputRequests": {"k": {"method": "roots/list"}}}
    wire.upstream.on_message(message.result(2, asked), None)
    question = wire.heard[-1]
    wire.upstream.send(message.notification("notifications/cancelled", {"requestId": 2}))
    before = len(wire.sent)
    wire.upstream.send(message.result(question.id, {"roots": []}))
    assert wire.sent[before:] == []


def test_what_a_connection_had_not_sent_when_it_ended_did_not_run():
    """It waited for the other era to be tried, or was refused in the first: nothing of it is unknown."""
    wire = _while_the_other_era_is_tried()
    wire.upstream.on_lost(Loss(reason="exit code 1"))
    assert wire.losses[0].unread == {1, 2, 3}
