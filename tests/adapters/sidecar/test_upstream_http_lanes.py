"""The connections to an MCP server over HTTP: one for each request under way, used again, through the proxy and with the cookies that there are."""

from __future__ import annotations

import asyncio
import ssl

import httpx
import pytest
from aiohttp import web

from tests.adapters.sidecar.http_servers import Scripted, body_of, call, connected, opened
from tests.internals.adapters import LostError, proxy_to, upstream_http_lanes
from tests.peers.running import until


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]


class Meeting(Scripted):
    """Answers calls once a number of them is there; says over which connections they came, and which are open."""

    def __init__(self, size):
        """`size`: how many calls have to be there."""
        super().__init__(self.meet)
        self.size, self.came, self.ports, self.open = size, 0, [], set()
        self.full = asyncio.Event()

    async def meet(self, request, message):
        """Wait for the others."""
        self.came += 1
        self.ports.append(request.transport.get_extra_info("peername")[1])
        self.open.add(request.transport)
        if self.came % self.size == 0:
            self.full.set()
        await self.full.wait()
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **body_of("done")})

    async def round(self, upstream, heard, first):
        """All of them at once; returns the ports they came from."""
        self.full.clear()
        self.ports.clear()
        for number in range(first, first + self.size):
            upstream.send(call(number))
        for number in range(first, first + self.size):
            assert (await heard.outcome(number)).result
        return set(self.ports)

    def still_open(self):
        """How many connections the client has not closed."""
        return sum(not transport.is_closing() for transport in self.open)


async def test_each_request_under_way_has_a_connection_which_the_next_uses_again():
    """Fifty calls at once take fifty connections, and fifty more take the same."""
    server = Meeting(50)
    async with server.serving() as url, connected(url) as (upstream, heard):
        first = await server.round(upstream, heard, 1)
        assert len(first) == 50
        assert await server.round(upstream, heard, 101) == first


async def test_connections_that_no_request_had_for_long_are_closed(monkeypatch):
    """After some seconds; those above the bound at once, and all of them at the end."""
    server = Meeting(8)
    monkeypatch.setattr(upstream_http_lanes, "_MOST_IDLE", 3)
    monkeypatch.setattr(upstream_http_lanes, "_IDLE_SECONDS", 0.3)
    async with server.serving() as url:
        async with connected(url) as (upstream, heard):
            await server.round(upstream, heard, 1)
            await until(lambda: server.still_open() <= 3, "three connections")
            await until(lambda: server.still_open() == 0, "no connection")
            monkeypatch.undo()
            await server.round(upstream, heard, 101)
            assert server.still_open() == 8
        await until(lambda: server.still_open() == 0, "no connection")


async def test_a_request_that_is_cancelled_leaves_no_connection():
    """Nobody knows what was on its way: its connection is closed, and not kept beside the next one."""
    server = Meeting(50)
    async with server.serving() as url, connected(url) as (upstream, _):
        for number in range(40):
            upstream.send(call(number))
            await until(lambda: server.came > number, "the call")  # noqa: B023 -- asked now
            upstream.cancel(number)
        await until(lambda: server.still_open() == 0, "no connection")


async def test_after_the_end_nothing_is_sent(monkeypatch):
    """Not by a request that comes late, and one connection that cannot be closed keeps no other."""
    server = Meeting(4)
    async with server.serving() as url:
        lanes = upstream_http_lanes.Lanes(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), None)
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}'
        answers = [lanes.send(httpx.Request("POST", url, content=body)) for _ in range(4)]
        for answer in await asyncio.gather(*answers):
            await answer.aread()
        stubborn = next(iter(lanes._all))
        close = stubborn.aclose

        async def fail():
            await close()
            raise OSError

        monkeypatch.setattr(stubborn, "aclose", fail)
        await lanes.close()
        await until(lambda: server.still_open() == 0, "no connection")
        with pytest.raises(httpx.ConnectError):
            await lanes.send(httpx.Request("POST", url, content=body))
        assert server.came == 4


async def test_a_login_in_the_url_is_the_one_authorization():
    """A header of that name gives way, whatever its case."""
    server = Scripted()
    async with server.serving() as url:
        headers = {"Authorization": "Bearer topsecret-1"}
        async with connected(url.replace("//", "//ann:pw@"), headers=headers) as (upstream, heard):
            await opened(upstream, heard)
    assert {tuple(sent.getall("Authorization")) for _, sent in server.posts} == {
        ("Basic YW5uOnB3",)
    }


async def test_a_cookie_comes_back_with_the_requests_after_it():
    """A balancer may know by it which machine has the session."""

    async def script(request, message):
        answer = web.json_response({"jsonrpc": "2.0", "id": message["id"], **body_of("done")})
        answer.set_cookie("machine", "7")
        return answer

    server = Scripted(script)
    async with server.serving() as url, connected(url) as (upstream, heard):
        for number in (1, 2):
            upstream.send(call(number))
            await heard.outcome(number)
    assert [headers.get("Cookie") for _, headers in server.posts] == [None, "machine=7"]


async def test_requests_go_through_the_proxy_of_the_environment(monkeypatch):
    """To another machine; never those to this machine's own loopback."""
    proxy, here = Scripted(), Scripted()
    async with proxy.serving() as at, here.serving() as url:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, at.removesuffix("/mcp"))
        async with connected("http://mcp.example.test/mcp") as (upstream, heard):
            assert (await opened(upstream, heard))["serverInfo"]["name"] == "s"
        async with connected(url) as (upstream, heard):
            assert (await opened(upstream, heard))["serverInfo"]["name"] == "s"
    assert {headers["Host"] for _, headers in proxy.posts} == {"mcp.example.test"}
    assert {headers["Host"] for _, headers in here.posts} == {httpx.URL(url).netloc.decode()}


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, "https://host/mcp", None),
        ({"https_proxy": "http://p:1"}, "https://host/mcp", "http://p:1"),
        ({"https_proxy": "p:1"}, "https://host/mcp", "http://p:1"),
        ({"https_proxy": "http://p:1"}, "http://host/mcp", None),
        ({"all_proxy": "http://p:1"}, "http://host/mcp", "http://p:1"),
        ({"https_proxy": "http://p:1", "no_proxy": "host"}, "https://host/mcp", None),
        ({"https_proxy": "http://p:1", "no_proxy": "*"}, "https://host/mcp", None),
        ({"https_proxy": "http://p:1", "no_proxy": "host:8443"}, "https://host:8443/mcp", None),
        ({"all_proxy": "http://p:1"}, "http://127.0.0.1:7/mcp", None),
        ({"https_proxy": "http://p:1", "no_proxy": "::1"}, "https://[::1]:8443/mcp", None),
    ],
)
def test_the_proxy_is_that_of_the_environment(monkeypatch, environment, url, proxy):
    """As other programs read it."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_to(httpx.URL(url)) == proxy


@pytest.mark.parametrize(
    "proxy", ["ftp://u:secret-77@proxy.test:1", "socks4://proxy.test:1", "http://proxy.test:port"]
)
async def test_c02_a_proxy_that_cannot_be_used_ends_the_first_start(proxy, monkeypatch):
    """C02: no attempt will succeed while the environment is as it is; credentials in it are not shown."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, proxy)
    with pytest.raises(LostError) as caught:
        async with connected("http://mcp.example.test/mcp"):
            pass
    assert caught.value.loss.is_final
    assert caught.value.loss.reason.startswith("the proxy of the environment cannot be used: ")
    assert "secret-77" not in repr(caught.value.loss)
