"""Clients that people have, wrapped as a user would: read by mypy and pyright, never run. Rule: what is wrapped keeps its type."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, assert_type

import httpx
import httpx2
import websockets
from anthropic import Anthropic, AsyncAnthropic
from google import genai
from mcp.client import Client
from openai import AsyncOpenAI, OpenAI

import resilient_bridge as rb


web = rb.Policy(rb.Retry(), rb.Breaker())


# ---- wrap ----------------------------------------------------------------------------------------------------------
async def fresh_token() -> str:
    return "secret"


assert_type(rb.wrap(AsyncOpenAI()), AsyncOpenAI)
assert_type(rb.wrap(OpenAI(), web, idempotent=True), OpenAI)
assert_type(rb.wrap(AsyncAnthropic(), idempotent={"messages.batches.create"}), AsyncAnthropic)
assert_type(rb.wrap(Anthropic(), idempotent=lambda call: call.method == "files.create"), Anthropic)
assert_type(
    rb.wrap(genai.Client(), rb.presets.openviber, max_bytes={"contents": 100_000}), genai.Client
)
assert_type(rb.wrap([1], methods=["append"]), list[int])
assert_type(rb.wrap({"a": 1}, methods={"get": web}), dict[str, int])
assert_type(rb.wrap(AsyncOpenAI()).with_options(timeout=3), AsyncOpenAI)

# ---- HTTP ----------------------------------------------------------------------------------------------------------
httpx.Client(transport=rb.HTTPTransport())
httpx.AsyncClient(transport=rb.HTTPTransport(web))
httpx.Client(
    transport=rb.HTTPTransport(
        token="env:TOKEN", verify=False, http2=True, limits=httpx.Limits(), proxy="http://h:1"
    )
)
httpx.AsyncClient(transport=rb.HTTPTransport(token=fresh_token, trust_env=False))
assert_type(rb.wrap(httpx.Client()), httpx.Client)
httpx2.Client(transport=rb.HTTPTransport(rb.presets.gasoline, max_body=1_000_000))
httpx2.AsyncClient(transport=rb.HTTPTransport(web, httpx2.AsyncHTTPTransport(http2=True)))
OpenAI(http_client=httpx2.Client(transport=rb.HTTPTransport(idempotency_header=None)))


def is_read(call: rb.links.Call) -> bool:
    """A predicate sees the name and the arguments."""
    assert_type(call.method, str)
    assert_type(call.kwargs, Mapping[str, Any])
    return call.args[:1] == ("search",)


async def links(url: str) -> None:
    """A link gives what its factory makes."""
    async with rb.reconnecting(lambda: Client(url)) as mcp:
        assert_type(mcp, Client)
        await mcp.call_tool("search", {"q": "x"})
    link = rb.reconnecting(
        lambda: websockets.connect(url), web, idempotent=is_read, patience=timedelta(seconds=5)
    )
    async with link as ws:
        await ws.send("hello")
        async for message in ws:
            assert_type(message, str | bytes)
    assert_type(link.state, rb.bridge.BridgeState)
    assert_type(link.health(), rb.links.LinkHealth)
    await link.wait_ready(timeout=3)
    async for event in link.events():
        assert_type(event, rb.events.Event)
    child = rb.links.stdio("server", "--json", env={"A": "b"})
    assert_type(child(), AbstractAsyncContextManager[rb.links.Peer])
    async with rb.reconnecting(child, rb.presets.stdiobus) as peer:
        assert_type(await peer.request("ping", timeout=5, idempotent=True), Any)
    connect = websockets.connect(
        url,
        process_exception=rb.bridge.Reconnect().process_exception,
        reconnect_delays=rb.Backoff.exponential(1).waits,
    )
    async for _ in connect:
        pass


async def others(url: str) -> None:
    """Event streams, daemons, commands."""
    async with rb.links.EventSource(httpx2.AsyncClient(), url, last_event_id="7") as source:
        async for event in source:
            assert_type(event, rb.links.ServerSentEvent)
            assert_type(event.data, str)
    daemon = rb.agent.Daemon("server", "--port", "7890", health=url)
    assert_type(await daemon.ensure(), rb.agent.DaemonHealth)


def wrong() -> None:
    """What a checker catches."""
    rb.wrap(AsyncOpenAI(), "fast")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.wrap(AsyncOpenAI(), idempotent=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.wrap()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    rb.HTTPTransport(retries=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    rb.reconnecting(Client("x"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.links.stdio(["server"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
