"""A key function behind the adapters: it reads what the user called, and streams count for their own value."""

from __future__ import annotations

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.calls import Breaker


def test_of_a_transport_it_reads_the_request():
    """One circuit for each tenant of an origin, whatever the method is."""
    asked = []

    def answer(request):
        asked.append(request.headers["tenant"])
        return httpx.Response(503 if request.headers["tenant"] == "a" else 200)

    breaker = Breaker.consecutive(2, key=lambda request: request.headers["tenant"])
    transport = rb.HTTPTransport(rb.Policy(breaker), inner=httpx.MockTransport(answer))
    with httpx.Client(transport=transport, base_url="http://host") as client:
        assert client.get("/", headers={"tenant": "a"}).status_code == 503
        assert client.post("/", headers={"tenant": "a"}).status_code == 503
        with pytest.raises(rb.CircuitOpenError):
            client.get("/", headers={"tenant": "a"})
        assert client.get("/", headers={"tenant": "b"}).status_code == 200
    assert asked == ["a", "a", "b"]
    assert "http://host[a]" in rb.calls.circuits()


class Client:
    """A client of a model, of which one is down."""

    def ask(self, text, *, model):
        if model == "down":
            raise ConnectionRefusedError
        return text

    def stream(self, text, *, model):
        yield text
        if model == "down":
            raise ConnectionResetError


def test_of_a_wrapped_client_it_reads_the_arguments_of_the_method():
    breaker = Breaker.consecutive(2, key=lambda *_, model, **__: model)
    client = rb.wrap(Client(), rb.Policy(breaker), methods=("ask", "stream"))
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            client.ask("x", model="down")
    with pytest.raises(rb.CircuitOpenError):
        client.ask("x", model="down")
    assert client.ask("x", model="up") == "x"


def test_a_stream_that_breaks_off_counts_for_its_own_value():
    breaker = Breaker(rate=0.5, window=4, key=lambda *_, model, **__: model)
    client = rb.wrap(Client(), rb.Policy(breaker), methods=("ask", "stream"))
    for _ in range(2):
        with pytest.raises(ConnectionResetError):
            list(client.stream("x", model="down"))
    with pytest.raises(rb.CircuitOpenError):
        list(client.stream("x", model="down"))
    assert list(client.stream("x", model="up")) == ["x"]


class Server:
    """A client with a connection, of which one tool is down."""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def call_tool(self, name, arguments=None):
        if name == "down":
            raise ValueError("this tool is broken")
        return {"name": name, "arguments": arguments}


async def test_of_a_link_it_reads_the_arguments_of_the_method():
    """One circuit for each tool of an MCP server."""
    breaker = Breaker.consecutive(2, on=ValueError, key=lambda name, *_: name)
    async with rb.reconnecting(Server, policy=rb.Policy(breaker)) as link:
        for _ in range(2):
            with pytest.raises(ValueError, match="broken"):
                await link.call_tool("down", {})
        with pytest.raises(rb.CircuitOpenError):
            await link.call_tool("down", {})
        assert (await link.call_tool("up", {}))["name"] == "up"
