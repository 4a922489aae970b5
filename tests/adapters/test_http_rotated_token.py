"""M02 over HTTP clients: a token that is rotated while the client runs, at servers that are not ours.

Rule: the far end counts what came with which token.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import aiohttp
import httpx2
import pytest
import requests
from aiohttp import web
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import resilient_bridge as rb
from tests.adapters.http_clients import KINDS, QUICK, each_kind
from tests.adapters.sidecar.http_servers import Door, sdk_server
from tests.peers.mcp_server import build
from tests.peers.nginx import needs_nginx, nginx
from tests.peers.running import Ledger


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]
OLD, NEW = "old-token-77", "new-token-88"


class Shop:
    """A server of aiohttp behind one token: what came with which token, and the orders that it took."""

    def __init__(self):
        """It knows the old one."""
        self.valid, self.asked, self.orders, self.url = OLD, Counter(), [], ""
        self.is_open = False
        self.elsewhere, self.on_refusal = "", lambda: None

    async def _handle(self, request):
        token = request.headers.get("Authorization", "")
        self.asked[token] += 1
        if request.path == "/away":
            return web.Response(status=307, headers={"Location": self.elsewhere})
        if not self.is_open and token != f"Bearer {self.valid}":
            self.on_refusal()
            return web.json_response({"error": {"message": f"{token} is over"}}, status=401)
        if request.path == "/there":
            return web.Response(status=307, headers={"Location": "/"})
        self.orders.append((await request.text()) or request.method)
        return web.json_response({"ok": True})

    @asynccontextmanager
    async def open(self):
        """While it listens."""
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            await runner.cleanup()


def sources(tmp_path, monkeypatch):
    """The four forms of a token, and the function that rotates them all."""
    path, held = tmp_path / "token", [OLD]

    def rotate(value):
        monkeypatch.setenv("RB_ROTATED", value)
        path.write_text(f"{value}\n")
        held[0] = value

    async def later():
        await asyncio.sleep(0)
        return held[0]

    rotate(OLD)
    return {
        "env": "env:RB_ROTATED",
        "file": f"file:{path}",
        "callable": lambda: held[0],
        "async": later,
    }, rotate


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (kind, form)
        for kind in KINDS
        for form in ("env", "file", "callable", "async")
        if kind.is_async or form != "async"  # a sync client cannot wait for it
    ],
    ids=str,
)
async def test_m02_after_a_rotation_every_request_has_the_new_token(
    kind, form, tmp_path, monkeypatch
):
    """M02: nine POSTs after it, one refusal, each order once; a POST may be sent again because a 401 did not execute."""
    tokens, rotate = sources(tmp_path, monkeypatch)
    transport = rb.HTTPTransport(QUICK, token=tokens[form], trust_env=False)
    async with Shop().open() as shop, kind.client(transport) as client:
        assert (await client.post(shop.url, content=b"n0")).status_code == 200
        shop.valid, shop.on_refusal = NEW, lambda: rotate(NEW)
        for number in range(1, 10):
            assert (await client.post(shop.url, content=f"n{number}".encode())).status_code == 200
        assert shop.asked == {f"Bearer {OLD}": 2, f"Bearer {NEW}": 9}
        assert shop.orders == [f"n{number}" for number in range(10)]


@each_kind
async def test_m02_a_token_that_has_not_changed_is_refused_once(kind, caplog):
    """M02: the 401 is the answer, after one request; what the server echoes is masked in our events and lines."""
    async with Shop().open() as shop:
        shop.valid = NEW
        transport = rb.HTTPTransport(QUICK, token=OLD, trust_env=False)
        with rb.testing.record(calls=True) as events:
            async with kind.client(transport) as client:
                assert (await client.get(shop.url)).status_code == 401
        assert shop.asked == {f"Bearer {OLD}": 1}
        assert OLD not in repr(events) + caplog.text
        (finished,) = [event for event in events if isinstance(event, rb.events.CallFinished)]
        assert OLD not in repr(finished.failure) + finished.failure.explain()


@each_kind
async def test_m02_a_body_that_can_be_read_once_is_not_sent_again(kind):
    """M02: the 401 is the answer."""
    held = [OLD]

    def rotate():
        held[0] = NEW

    async def parts_async():
        yield b"n1"

    def parts():
        yield b"n1"

    async with Shop().open() as shop:
        shop.valid, shop.on_refusal = NEW, rotate
        transport = rb.HTTPTransport(QUICK, token=lambda: held[0], trust_env=False)
        async with kind.client(transport) as client:
            content = parts_async() if kind.is_async else parts()
            assert (await client.post(shop.url, content=content)).status_code == 401
            assert (await client.post(shop.url, content=b"n2")).status_code == 200
        assert shop.orders == ["n2"]


@each_kind
async def test_m02_a_token_stays_with_its_origin_and_gives_way_to_a_header(kind):
    """M02: it follows a redirect within the origin, none to another one, and no request that has its own."""
    async with Shop().open() as shop, Shop().open() as stranger:
        shop.elsewhere = f"{stranger.url}/"
        transport = rb.HTTPTransport(QUICK, token=OLD, trust_env=False)
        async with kind.client(transport, follow_redirects=True) as client:
            assert (await client.get(f"{shop.url}/there")).status_code == 200
            assert shop.asked == {f"Bearer {OLD}": 2}
            assert (await client.get(f"{shop.url}/away")).status_code == 401
            assert stranger.asked == {"": 1}
            await client.get(shop.url, headers={"Authorization": "Basic eDp5"})
            assert shop.asked["Basic eDp5"] == 1
            await client.get(shop.url, extensions={"rb.policy": None})
            assert shop.asked[f"Bearer {OLD}"] == 4


def test_m02_a_token_that_no_header_may_have_is_refused_without_being_shown():
    """M02: at once if it is written there, else by the request, as an error of the client's library; so is one in clear."""
    for wrong in ("swordfish\nX-Evil: 1", "", b"swordfish", 7):
        with pytest.raises(rb.ConfigError, match=r"HTTPTransport\.token") as caught:
            rb.HTTPTransport(token=wrong)
        assert "swordfish" not in str(caught.value)
    library = KINDS[0].library
    for port, source, kind in (
        (7, lambda: "swordfish\n", rb.ConfigError),
        (8, "env:RB_NOT_SET", rb.errors.AuthError),
        (9, lambda: 1 / 0, rb.errors.AuthError),
    ):
        with library.Client(transport=rb.HTTPTransport(token=source)) as client:
            with pytest.raises(kind) as caught:
                client.get(f"http://127.0.0.1:{port}/")
            assert isinstance(caught.value, library.HTTPError)
            assert "swordfish" not in str(caught.value)
    with (
        library.Client(transport=rb.HTTPTransport(token="swordfish")) as client,
        pytest.raises(rb.ConfigError, match="plaintext"),
    ):
        client.get("http://shop.example/")


async def test_m02_requests_and_aiohttp_read_a_refused_token_again(tmp_path, monkeypatch):
    """M02: the other two clients, by the same code."""
    tokens, rotate = sources(tmp_path, monkeypatch)

    def all_by_requests(url):
        with requests.Session() as session:
            session.trust_env = False
            session.mount("http://", rb.HTTPAdapter(QUICK, token=tokens["file"]))
            return [session.post(url, data=f"n{number}").status_code for number in range(3)]

    async with Shop().open() as shop:
        shop.valid, shop.on_refusal = NEW, lambda: rotate(NEW)
        assert await asyncio.to_thread(all_by_requests, shop.url) == [200] * 3
        assert shop.asked == {f"Bearer {OLD}": 1, f"Bearer {NEW}": 3}
        shop.valid, shop.on_refusal = OLD, lambda: rotate(OLD)
        middlewares = [rb.HTTPMiddleware(QUICK, token=tokens["async"])]
        async with aiohttp.ClientSession(middlewares=middlewares) as session:
            for number in range(3, 6):
                async with session.post(shop.url, data=f"n{number}") as answer:
                    assert answer.status == 200
        assert shop.asked == {f"Bearer {OLD}": 4, f"Bearer {NEW}": 4}
        assert shop.orders == [f"n{number}" for number in range(6)]


async def test_m02_an_mcp_link_reads_a_refused_token_again(tmp_path, monkeypatch):
    """M02: through the HTTP client of its factory; each order once, on one session, by a server of the SDK."""
    tokens, rotate = sources(tmp_path, monkeypatch)
    ledger = Ledger(tmp_path / "ledger")
    door = Door(OLD, lambda: build(ledger.file, 2).streamable_http_app(json_response=True))

    @asynccontextmanager
    async def remote():
        async with (
            httpx2.AsyncClient(
                transport=rb.HTTPTransport(token=tokens["file"], trust_env=False)
            ) as http,
            Client(streamable_http_client(server.url, http_client=http)) as client,
        ):
            yield client

    async with sdk_server(door) as server, rb.reconnecting(remote) as client:
        await client.call_tool("create_ticket", {"key": "n0"})
        door.valid, door.on_refusal = NEW, lambda: rotate(NEW)
        for number in range(1, 10):
            await client.call_tool("create_ticket", {"key": f"n{number}"})
    assert ledger.keys == [f"n{number}" for number in range(10)]
    assert 1 <= door.refused <= 2  # a call, and perhaps the stream of notices


@needs_nginx
@each_kind
async def test_m02_behind_nginx_whose_map_of_tokens_is_rotated(kind, tmp_path):
    """M02: nginx lets one token in; reloaded with the next one, the first request is refused by it, and sent again."""
    folder, current = tmp_path / "nginx", iter([OLD, OLD, *[NEW] * 10])
    (tmp_path / "tokens.map").write_text(f'"Bearer {OLD}" 1;')
    only = f"map $http_authorization $is_in {{ default 0; include {tmp_path}/tokens.map; }}"
    async with Shop().open() as shop:
        shop.is_open = True  # nginx is the door
        port = int(shop.url.rpartition(":")[2])
        async with nginx(
            folder, port, http=only, server="keepalive_timeout 0; if ($is_in = 0) { return 401; }"
        ) as front:
            transport = rb.HTTPTransport(
                QUICK, kind.inner(trust_env=False), token=lambda: next(current)
            )
            async with kind.client(transport) as client:
                assert (await client.post(front.url(), content=b"n0")).status_code == 200
                (tmp_path / "tokens.map").write_text(f'"Bearer {NEW}" 1;')
                await front.reload(is_old_gone=True)
                for number in range(1, 6):
                    assert (
                        await client.post(front.url(), content=f"n{number}".encode())
                    ).status_code == 200
        assert shop.asked[f"Bearer {OLD}"] == 1  # the refused one ended at nginx
        assert shop.orders == [f"n{number}" for number in range(6)]
