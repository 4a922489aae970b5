"""A wrapped SDK and the HTTP client under it: proxies of the environment, and a client that its user brings (test_http_proxies.py: HTTPTransport's).

Rule: the proxy is nginx, which marks what comes through it; the server keeps what arrived.
"""

from __future__ import annotations

import asyncio
import gc
from contextlib import asynccontextmanager

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import types

import resilient_bridge as rb
from tests.adapters.test_http_proxies import FORWARD, VARIABLES
from tests.peers.nginx import needs_nginx, nginx
from tests.peers.providers import Providers
from tests.peers.scripted_answers import Turn


pytestmark = [pytest.mark.real, needs_nginx, pytest.mark.timeout(60)]

FAST = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(0)))
WORDS = [{"role": "user", "content": "hi"}]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    """None but those of the test."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def _chat(client):
    return client.chat.completions.create(model="m", messages=WORDS)


def _message(client):
    return client.messages.create(model="m", max_tokens=9, messages=WORDS)


def _content(client):
    return client.models.generate_content(model="m", contents="hi")


def _google(server, http_client=None):
    both = {}
    if http_client is not None:
        name = (
            "httpx_async_client" if isinstance(http_client, httpx2.AsyncClient) else "httpx_client"
        )
        both[name] = http_client
    return genai.Client(api_key="k", http_options=types.HttpOptions(base_url=server.google, **both))


def _made(kind, address):
    return lambda server, http_client=None: kind(
        api_key="k", base_url=getattr(server, address), http_client=http_client
    )


# How a client is made, its async or sync call, the class of its HTTP client, and what refuses once.
KINDS = {
    "openai": (_made(openai.AsyncOpenAI, "openai"), _chat, httpx2.AsyncClient),
    "openai sync": (_made(openai.OpenAI, "openai"), _chat, httpx2.Client),
    "anthropic": (
        _made(anthropic.AsyncAnthropic, "anthropic"),
        _message,
        httpx2.AsyncClient,
    ),
    "anthropic sync": (_made(anthropic.Anthropic, "anthropic"), _message, httpx2.Client),
    "google": (_google, lambda client: _content(client.aio), httpx2.AsyncClient),
    "google sync": (_google, _content, httpx2.Client),
}


async def _asked(kind, client):
    """Make the call of this kind of client."""
    _, call, http = KINDS[kind]
    if http is httpx2.AsyncClient:
        return await call(client)
    return await asyncio.to_thread(call, client)


@asynccontextmanager
async def proxied(folder):
    """A server of the providers, and a proxy that leads to it."""
    async with (
        Providers() as server,
        nginx(folder, server.port, server=FORWARD.format(port=server.port)) as proxy,
    ):
        yield server, proxy


def _routes(server):
    """Through what each request came."""
    return [exchange.request.headers.get("x-via", "direct") for exchange in server.log]


async def _close(kind, own):
    """Close an SDK's client, or an HTTP client, of this kind."""
    own = getattr(own, "aio", own) if KINDS[kind][2] is httpx2.AsyncClient else own
    closed = (own.aclose if hasattr(own, "aclose") else own.close)()
    if closed is not None:
        await closed


@pytest.mark.parametrize("kind", KINDS)
async def test_c02_each_attempt_goes_through_the_proxy_of_the_environment(
    kind, tmp_path, monkeypatch
):
    """C02: as the SDK's own client would send it; and none where NO_PROXY names the host."""
    make, _, _ = KINDS[kind]
    async with proxied(tmp_path / "nginx") as (server, proxy):
        monkeypatch.setenv("http_proxy", proxy.url())
        server.script(Turn.refused("rate_limited", retry_after_ms=1))
        own = make(server)
        await _asked(kind, rb.wrap(own, FAST))
        assert _routes(server) == ["nginx", "nginx"]
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        other = make(server)
        await _asked(kind, rb.wrap(other, FAST))
        assert _routes(server) == ["nginx", "nginx", "direct"]
        await _close(kind, own)
        await _close(kind, other)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_that_its_user_brings_keeps_its_routes_and_its_connections(kind, tmp_path):
    """Each attempt goes the way of its mount, on the connection that calls without a policy use as well."""
    make, _, http = KINDS[kind]
    async with proxied(tmp_path / "nginx") as (server, proxy):
        transport = (
            httpx2.AsyncHTTPTransport if http is httpx2.AsyncClient else httpx2.HTTPTransport
        )(proxy=proxy.url())
        brought = http(mounts={"http://": transport}, headers={"x-team": "a"}, trust_env=False)
        before = brought._transport, dict(brought._mounts), brought.timeout, dict(brought.headers)
        own = make(server, brought)
        await _asked(kind, own)
        server.script(Turn.refused("rate_limited", retry_after_ms=1))
        await _asked(kind, rb.wrap(own, FAST))
        await _asked(kind, own)
        assert _routes(server) == ["nginx"] * 4
        assert len(transport._pool.connections) == 1
        after = brought._transport, dict(brought._mounts), brought.timeout, dict(brought.headers)
        assert after == before
        await _close(kind, brought)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_end_of_a_wrapped_client_leaves_the_client_open(kind):
    """Its user goes on with the client and its connection: nothing that `wrap` made closes them when it is gone."""
    make, _, _ = KINDS[kind]
    async with Providers() as server:
        own = make(server)
        client = rb.wrap(own, FAST)
        await _asked(kind, client)
        del client
        gc.collect()
        await asyncio.sleep(0.01)  # a client that is gone would close its connections in a task
        await _asked(kind, own)
        assert server.connections == 1
        await _close(kind, own)
