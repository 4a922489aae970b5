"""The HTTP front without sessions (protocol 2026-07-28): headers and body must agree, and closing a response cancels."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter

import httpx
import pytest

from tests.adapters.sidecar.scripted_relay import (
    MODERN,
    TOKEN,
    ScriptedRelay,
    answer_of,
    call,
    events,
    modern,
    request,
    running,
)
from tests.internals.adapters import HttpLimits
from tests.internals.adapters import message as rpc
from tests.peers.running import until
from tests.rows import each_row


pytestmark = pytest.mark.real


def mark_of(response):
    """The text that a tool returned."""
    return answer_of(response)["result"]["content"][0]["text"]


@pytest.mark.requirement("X7")
async def test_a_request_needs_no_session_and_gets_none():
    """Its answer alone is JSON; with a notification before it, a stream without event ids."""
    async with running() as front:
        body, headers = modern(call(1, "echo", "a"))
        response = await front.post(body, **headers)
        assert (mark_of(response), response.headers["content-type"]) == ("a", "application/json")
        assert "mcp-session-id" not in response.headers
        body, headers = modern(call(1, "progress", "b", {"progressToken": 5}))
        response = await front.post(body, **headers)
        assert [
            (event_id, message.get("method")) for event_id, message in events(response.text)
        ] == [
            (None, "notifications/progress"),
            (None, None),
        ]
        await front.post(body, **headers, mcp_session_id="ignored")
        assert len(front.relays) == 1


def most_of_one_token(got):
    """How many requests with the same client and progress token there were at most; each client had its own until it was answered."""
    return max(Counter((client, message.progress_token) for client, message in got).values())


def _base64(text):
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@each_row(
    ("change", "status", "code"),
    [
        ({"mcp-method": "tools/list"}, 400, -32020),
        ({"mcp-name": "other"}, 400, -32020),
        ({"mcp-name": _base64("echo")}, 200, None),
        ({"mcp-name": "=?base64?!?="}, 400, -32020),
        ({"mcp-protocol-version": "2099-01-01"}, 400, -32020),
        ({"mcp-protocol-version": None}, 400, -32020),
        ({"mcp-method": None}, 400, -32020),
        ({"mcp-param-city": "=?base64?!?="}, 400, -32020),
        ({"mcp-param-city": "Ulm"}, 200, None),  # no schema is known here that could say otherwise
    ],
)
async def test_headers_that_do_not_agree_with_the_body_are_refused(change, status, code):
    """400 and -32020, with the id of the request; the relay does not see it."""
    async with running() as front:
        body, headers = modern(call(9, "echo"))
        headers = {name: value for name, value in (headers | change).items() if value is not None}
        response = await front.post(body, **headers)
        assert (response.status_code, response.json().get("error", {}).get("code")) == (
            status,
            code,
        )
        assert response.json()["id"] == 9
        assert len(front.relays) == (1 if status == 200 else 0)


async def test_a_header_that_comes_twice_is_refused():
    """Two readers could take two different ones for the one that counts."""
    async with running() as front:
        body, headers = modern(call(1, "echo"))
        twice = [
            *headers.items(),
            ("mcp-name", "hold"),
            ("mcp-param-x", "1"),
            ("content-type", "application/json"),
        ]
        response = await front.http.post(
            front.url, content=json.dumps(body), headers=[*twice, ("accept", "*/*")]
        )
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)


async def test_parameters_in_headers_are_compared_where_the_schema_is_known():
    """With the tool's schema, an `Mcp-Param-*` header has to say what the argument says."""
    schema = {"type": "object", "properties": {"mark": {"type": "string", "x-mcp-header": "Mark"}}}
    async with running(schemas={"echo": schema}) as front:
        for mark, status in (("x", 200), ("y", 400), (None, 400)):
            body, headers = modern(call(1, "echo", "x"))
            headers |= {} if mark is None else {"mcp-param-mark": mark}
            assert (await front.post(body, **headers)).status_code == status


async def test_a_version_that_is_not_served_is_named_with_those_that_are():
    """For requests and notifications alike, so that a client can choose another."""
    data = {"supported": [MODERN], "requested": "2099-01-01"}
    async with running() as front:
        body, headers = modern(call(1, "echo"))
        body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"
        for sent in (body, {"jsonrpc": "2.0", "method": "vendor/note"}):
            refused = await front.post(sent, **headers | {"mcp-protocol-version": "2099-01-01"})
            error = refused.json()["error"]
            assert (refused.status_code, error["code"], error["data"]) == (400, -32022, data)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (request(1, "tools/list"), 400, -32602),  # no _meta
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, 400, -32600),
        ([], 400, -32600),
    ],
)
async def test_what_is_no_request_of_this_version_is_refused(body, status, code):
    """Answers are not posted, and what a request needs is in its `_meta`."""
    async with running() as front:
        response = await front.post(body, mcp_protocol_version=MODERN, mcp_method="tools/list")
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)


async def test_errors_have_the_status_of_their_code():
    """A method that the server does not have is 404; GET and DELETE do not exist."""
    async with running() as front:
        body, headers = modern(request(1, "vendor/thing"))
        response = await front.post(body, **headers)
        assert (response.status_code, response.json()["error"]["code"]) == (404, -32601)
        for method in ("GET", "DELETE", "PUT", "OPTIONS"):
            async with front.stream(method, mcp_protocol_version=MODERN) as response:
                assert (response.status_code, response.headers["allow"]) == (
                    405,
                    "GET, POST, DELETE",
                )
                assert not any(name.startswith("access-control") for name in response.headers)


async def test_closing_the_response_cancels_the_request():
    """The relay hears `notifications/cancelled`; one that is posted, with an id that anybody could guess, is not passed on."""
    async with running() as front:
        body, headers = modern(call(3, "hold"))
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
        holding = asyncio.create_task(front.post(body, **headers))
        await until(lambda: front.relays and len(front.relays[0].got) == 1, "the call is under way")
        assert (await front.post(cancel, mcp_protocol_version=MODERN)).status_code == 202
        assert (
            await front.post(
                {"jsonrpc": "2.0", "method": "vendor/note"}, mcp_protocol_version=MODERN
            )
        ).status_code == 202
        assert front.relays[0].cancelled == []
        holding.cancel()
        await until(lambda: front.relays[0].cancelled == [("int", 3)], "the relay heard of it")
        methods = [message.method for _, message in front.relays[0].got]
        assert methods == ["tools/call", "vendor/note", "notifications/cancelled"]


@pytest.mark.requirement("X7")
async def test_a_subscription_is_a_long_stream():
    """It stays open, with comments, and what the relay says for it comes through; the end does not wait for it."""
    async with (
        asyncio.timeout(10),
        running(limits=HttpLimits(keep_alive_seconds=0.05, close_seconds=9)) as front,
    ):
        body, headers = modern(
            request(1, "subscriptions/listen", notifications={"toolsListChanged": True})
        )
        async with front.stream("POST", body, **headers) as response:
            lines = response.aiter_lines()
            assert (await anext(lines)).startswith(": keep-alive")
            client, message = front.relays[0].got[0]
            client.deliver(rpc.notification("notifications/tools/list_changed"), message.key)
            while "list_changed" not in await anext(lines):
                pass
        await until(
            lambda: front.relays[0].cancelled == [("int", 1)],
            "the subscription ended with its stream",
        )


async def test_the_end_does_not_wait_for_subscriptions():
    """They would never end by themselves: their streams are ended."""
    async with httpx.AsyncClient(
        headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False
    ) as http:
        async with asyncio.timeout(10), running(limits=HttpLimits(close_seconds=60)) as front:
            front.http = http
            body, headers = modern(request(1, "subscriptions/listen", notifications={}))
            listening = asyncio.create_task(front.post(body, **headers))
            await until(lambda: front.relays and front.relays[0].got, "it listens")
        assert (await listening).status_code == 200


@pytest.mark.requirement("X7")
@pytest.mark.parametrize("shared", [True, False])
async def test_equal_ids_of_several_clients_meet_nowhere(shared, monkeypatch):
    """Twenty requests of id 1 and progress token 1 at once: each gets its own mark, and the relay never sees one id twice."""
    act, came = ScriptedRelay.act, []

    def when_all_are_here(relay, client, message):
        came.append((client, message))
        if len(came) == 20:
            for each in came:
                act(relay, *each)

    monkeypatch.setattr(ScriptedRelay, "act", when_all_are_here)
    async with running(shared=shared) as front:

        async def one(mark):
            id_ = 1 if len(mark) < 7 else mark  # half of them have only the token in common
            body, headers = modern(call(id_, "progress", mark, {"progressToken": 1}))
            response = await front.post(body, **headers)
            heard = [
                message["params"]["message"]
                for _, message in events(response.text)
                if "method" in message
            ]
            return heard, mark_of(response)

        marks = [f"mark {number}" for number in range(20)]
        assert await asyncio.gather(*map(one, marks)) == [([mark], mark) for mark in marks]
        assert most_of_one_token(front.relays[0].got) == 1
        await until(
            lambda: len(front.relays[0].clients) == 1, "clients that have nothing to do are gone"
        )
        assert len(front.relays) == 1
