"""Clients that were READY and meet a captive portal in front of servers that are not ours: they come back, with all they held."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from websockets.asyncio.server import serve

import resilient_bridge as rb
from resilient_bridge.errors import NotDeliveredError
from tests.bridges.portals import PAGE, certificates, portal, response
from tests.peers.nginx import needs_nginx, nginx
from tests.peers.ports import HOST
from tests.peers.running import until


pytestmark = pytest.mark.real

QUICK = rb.bridge.Reconnect(
    backoff=rb.Backoff.constant(0.02), attempts=3, grace=30, connect_timeout=1, connect_burst=10_000
)
FEW = QUICK.evolve(grace=0.2)
TOKEN = "s3cret-of-the-user"


class WebSocketsServer:
    """A server of the library websockets: what it read, and the headers of its connections."""

    def __init__(self, wanted=None):
        self.read = []
        self.headers = []
        self.wanted = wanted
        self.port = 0

    async def handle(self, ws):
        """Record, until the client is gone."""
        async for message in ws:
            self.read.append(json.loads(message))

    def check(self, connection, request):
        """401 without the wanted token."""
        self.headers.append(dict(request.headers))
        if (
            self.wanted is not None
            and request.headers.get("Authorization") != f"Bearer {self.wanted}"
        ):
            return connection.respond(401, "who are you\n")
        return None

    @asynccontextmanager
    async def running(self, ssl=None):
        """Listen on a free port."""
        async with serve(
            self.handle, HOST, 0, ssl=ssl, process_request=self.check, ping_interval=None
        ) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self


class AiohttpServer(WebSocketsServer):
    """The same with aiohttp."""

    async def answer(self, request):
        """One connection."""
        self.headers.append(dict(request.headers))
        if (
            self.wanted is not None
            and request.headers.get("Authorization") != f"Bearer {self.wanted}"
        ):
            return web.Response(status=401)
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        async for message in ws:
            if message.type is aiohttp.WSMsgType.TEXT:
                self.read.append(json.loads(message.data))
        return ws

    @asynccontextmanager
    async def running(self, ssl=None):
        """Listen on a free port."""
        app = web.Application()
        app.router.add_get("/", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, HOST, 0, ssl_context=ssl)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()


SERVERS = pytest.mark.parametrize("kind", [WebSocketsServer, AiohttpServer])
OTHER = "http://login.example/"
ANSWERS = {
    "200": response("200 OK"),
    "200 empty": response("200 OK", b""),
    "204": response("204 No Content", b""),
    **{code: response(f"{code} Moved", PAGE, f"Location: {OTHER}") for code in ("301", "302", "303", "307", "308")},
    "302 to itself": response("302 Found", b"", "Location: /login"),
    "302 nowhere": response("302 Found", b""),
    **{code: response(f"{code} No") for code in ("400", "403", "404", "405", "407", "410", "426", "451", "501", "511", "502", "503")},
    "511 for a day": response("511 Network Authentication Required", PAGE, "Retry-After: 999999"),
    "garbage": bytes(range(256)) * 4,
    "half a line": b"HTTP/1.1 2",
    "nothing, and closed": b"\r\n",
    "accepts another": response("101 Switching Protocols", b"", "Upgrade: websocket", "Sec-WebSocket-Accept: d3Jvbmc="),
}  # fmt: skip


@SERVERS
@pytest.mark.parametrize("answer", ANSWERS)
async def test_l09_after_a_portal_the_client_comes_back_and_delivers_once(kind, answer):
    """Whatever the portal answers, several times: what was queued arrives when it is gone, once and in order."""
    async with kind().running() as server, portal(server.port) as between:
        url = f"ws://{HOST}:{between.port}/"
        async with rb.BridgeClient(
            url, dialect=rb.dialects.plain, policy=rb.presets.default.evolve(reconnect=QUICK)
        ) as client:
            await client.wait_ready(5)
            await client.send({"n": 0})
            await until(lambda: server.read, "the first message")
            between.stand_between(ANSWERS[answer])
            for n in range(1, 6):
                await until(lambda n=n: len(between.heard) >= n, "an attempt")
                await client.send({"n": n})
            assert client.state not in {"READY", "FAILED"}
            between.go()
            await client.wait_ready(5)
            await until(lambda: len(server.read) >= 6, "what was queued")
            assert [message["n"] for message in server.read] == list(range(6))


@pytest.mark.parametrize("answer", ["200", "302", "403", "404", "407", "426", "451"])
async def test_l09_a_portal_that_stays_ends_the_client_with_its_answer(answer):
    """After the grace and the attempts, with the last answer as the error, and what was queued is told as dropped."""
    async with WebSocketsServer().running() as server, portal(server.port) as between:
        policy = rb.presets.default.evolve(reconnect=FEW)
        async with rb.BridgeClient(
            f"ws://{HOST}:{between.port}/", dialect=rb.dialects.plain, policy=policy
        ) as client:
            await client.wait_ready(5)
            between.stand_between(ANSWERS[answer])
            await until(lambda: between.heard, "an attempt")
            receipt = await client.send({"n": 1})
            await until(lambda: client.state == "FAILED", "the end")
            failure = client.health().failure
            shown = failure.details.get("http_status", 302)
            assert shown == int(answer), failure
            assert len(between.heard) >= 3
            with pytest.raises(NotDeliveredError):
                await receipt.confirmed(1)


async def test_l09_what_a_portal_ended_stays_in_a_durable_store(tmp_path):
    """The next client of the store delivers it."""
    store = str(tmp_path / "bridge.db")
    async with WebSocketsServer().running() as server, portal(server.port) as between:
        options = {
            "dialect": rb.dialects.plain,
            "policy": rb.presets.default.evolve(reconnect=FEW),
            "store": store,
        }
        url = f"ws://{HOST}:{between.port}/"
        async with rb.BridgeClient(url, **options) as client:
            await client.wait_ready(5)
            between.stand_between(ANSWERS["200"])
            await until(lambda: between.heard, "an attempt")
            await client.send({"n": 1})
            await until(lambda: client.state == "FAILED", "the end")
        between.go()
        async with rb.BridgeClient(url, **options) as client:
            await client.wait_ready(5)
            await until(lambda: server.read, "the message")
        assert server.read == [{"n": 1}]


@SERVERS
@pytest.mark.parametrize(
    ("where", "wants"),
    [("token", None), ("token", TOKEN), ("header", None), ("header", TOKEN), ("url", None)],
    ids=["token", "token and 401", "header", "header and 401", "url"],
)
async def test_l09_in_clear_text_a_portal_gets_no_token_after_its_first_answer(kind, wants, where):
    """The dials after it carry none, until a WebSocket server accepts one of them or asks for credentials."""
    async with kind(wants).running() as server, portal(server.port) as between:
        url, options = f"ws://{HOST}:{between.port}/", {}
        if where == "token":
            options["token"] = lambda: TOKEN
        elif where == "header":
            options["headers"] = {"Authorization": f"Bearer {TOKEN}"}
        else:
            url += f"?room=1&access_token={TOKEN}"
        policy = rb.presets.default.evolve(reconnect=QUICK, dialect=rb.bridge.Dialect.envelopes())
        async with rb.BridgeClient(url, policy=policy, **options) as client:
            await client.wait_ready(5)
            between.stand_between(ANSWERS["200"])
            await until(lambda: between.heard, "an attempt")
            await client.send("note", {"n": 1})
            await until(lambda: len(between.heard) >= 4, "some attempts")
            between.go()
            await client.wait_ready(5)
            await until(lambda: server.read, "what was queued")
        assert [TOKEN.encode() in heard for heard in between.heard[:4]] == [
            True,
            False,
            False,
            False,
        ]
        assert [message["payload"]["n"] for message in server.read] == [1]


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>Welcome</html>\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ],
    ids=["no HTTP", "another handshake"],
)
async def test_l09_in_clear_text_what_speaks_no_websocket_gets_no_token_again(answer):
    """It was told apart from the server by its handshake: the dials after it show nothing either."""
    async with WebSocketsServer(None).running() as server, portal(server.port) as between:
        policy = rb.presets.default.evolve(reconnect=QUICK, dialect=rb.bridge.Dialect.envelopes())
        async with rb.BridgeClient(
            f"ws://{HOST}:{between.port}/", token=lambda: TOKEN, policy=policy
        ) as client:
            await client.wait_ready(5)
            between.stand_between(answer)
            await until(lambda: len(between.heard) >= 4, "some attempts")
            between.go()
            await client.wait_ready(5)
        assert [TOKEN.encode() in heard for heard in between.heard[:4]] == [
            True,
            False,
            False,
            False,
        ]


async def test_l09_a_token_in_a_message_waits_for_the_upgrade():
    """A dialect that authenticates by a message shows the portal nothing at all."""
    async with (
        rb.testing.BridgeServer(token=TOKEN) as server,
        portal(urlsplit(server.url).port) as between,
    ):
        policy = rb.presets.default.evolve(reconnect=QUICK)
        async with rb.BridgeClient(
            f"ws://{HOST}:{between.port}/", token=TOKEN, policy=policy
        ) as client:
            await client.wait_ready(5)
            between.stand_between(ANSWERS["302"])
            await until(lambda: len(between.heard) >= 3, "some attempts")
            between.go()
            await client.wait_ready(5)
        assert not any(TOKEN.encode() in heard for heard in between.heard)


@pytest.mark.parametrize("how", ["foreign certificate", "no tls"])
@pytest.mark.parametrize("preset", ["default", "recursor", "pinned", "first"])
async def test_l09_a_foreign_certificate_is_tried_again_and_gets_nothing(how, preset):
    """Under `presets.default`, after READY, without a pin; elsewhere it is final, and never shown a byte of HTTP (R5)."""
    own, foreign, trust = certificates()
    is_final = (
        preset in {"recursor", "first"}
        or (preset == "pinned" and how != "no tls")
        or preset == "pinned"
    )
    async with WebSocketsServer().running(own) as server, portal(server.port) as between:
        chosen = rb.presets.recursor if preset == "recursor" else rb.presets.default
        reconnect = QUICK.evolve(retry_certificates=chosen.reconnect.retry_certificates)
        options = {
            "policy": chosen.evolve(reconnect=reconnect, dialect=rb.dialects.plain),
            "headers": {"Authorization": TOKEN},
            "ssl": trust,
        }
        if preset == "pinned":
            der = own_certificate(await shown(between.port, trust))
            options["pin"] = der
        answer = ANSWERS["200"]
        tls = foreign if how == "foreign certificate" else None
        if preset == "first":
            between.stand_between(answer, tls)
        async with rb.BridgeClient(f"wss://{HOST}:{between.port}/", **options) as client:
            if preset != "first":
                await client.wait_ready(5)
                await client.send({"n": 0})
                await until(lambda: server.read, "the first message")
                between.stand_between(answer, tls)
            if is_final:
                await until(lambda: client.state == "FAILED", "the end")
                assert client.health().failure.code == "CONN_TLS_HANDSHAKE_FAILED"
            else:
                events = client.events()
                for _ in range(8):
                    await anext(events)
                assert client.state not in {"READY", "FAILED"}
                await client.send({"n": 1})
                between.go()
                await client.wait_ready(5)
                await until(lambda: len(server.read) == 2, "what was queued")
        assert not any(TOKEN.encode() in heard or b"HTTP/1.1" in heard for heard in between.heard)


async def shown(port, trust):
    """The certificate that a server shows, in DER form."""
    _, writer = await asyncio.open_connection(HOST, port, ssl=trust)
    try:
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.transport.abort()


def own_certificate(der):
    """Its pin."""
    import hashlib

    return f"sha256:{hashlib.sha256(der).hexdigest()}"


async def test_l09_a_link_over_your_own_websocket_and_a_reconnecting_link_come_back_too():
    """`BridgeClient.over` and `rb.reconnecting` obey the same rule."""
    from websockets.asyncio.client import connect

    async with WebSocketsServer().running() as server, portal(server.port) as between:
        url = f"ws://{HOST}:{between.port}/"
        policy = rb.presets.default.evolve(reconnect=QUICK)
        async with (
            rb.BridgeClient.over(
                lambda: connect(url, proxy=None), policy=policy, dialect=rb.dialects.plain
            ) as client,
            rb.reconnecting(lambda: connect(url, proxy=None), policy) as link,
        ):
            await client.wait_ready(5)
            await link.send('{"n": 1}')
            for answer in itertools.islice(ANSWERS, 12):
                between.stand_between(ANSWERS[answer])
                await until(lambda: len(between.heard) >= 4, f"attempts against {answer}")
                sent = asyncio.ensure_future(link.send('{"n": 2}'))
                between.go()
                await client.wait_ready(5)
                await asyncio.wait_for(sent, 5)


@needs_nginx
@pytest.mark.parametrize(
    "refusal",
    [
        "return 200 '<html>'",
        "return 302 http://login.example/",
        "return 403",
        "return 404",
        "return 426",
    ],
)
async def test_l09_an_nginx_between_two_deployments(tmp_path, refusal):
    """An ingress that has no backend for a while answers by itself; then the server is there again."""
    flag = tmp_path / "away"
    upgrade = 'proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";'
    location = f"location /ws {{ if (-f {flag}) {{ {refusal}; }} proxy_pass http://behind/; proxy_http_version 1.1; {upgrade} }}"
    async with (
        WebSocketsServer().running() as server,
        portal(server.port) as between,
        nginx(tmp_path / "nginx", between.port, server=location) as front,
    ):
        url = front.url("/ws").replace("http", "ws", 1)
        policy = rb.presets.default.evolve(reconnect=QUICK, dialect=rb.dialects.plain)
        async with rb.BridgeClient(url, policy=policy) as client:
            events = client.events()
            await client.wait_ready(5)
            flag.touch()
            between.stand_between(b"")
            refused = 0
            async for event in events:
                refused += (
                    isinstance(event, rb.events.ReconnectScheduled)
                    and "upgrade_rejected" in event.reason
                )
                if refused == 4:
                    break
            await client.send({"n": 1})
            between.go()
            flag.unlink()
            await client.wait_ready(5)
            await until(lambda: server.read, "what was queued")


async def test_l12_who_waits_for_ready_learns_what_is_missing():
    """A server that accepts and says nothing: no reason of a state, but that the first attempt has no answer."""
    async with portal(0) as between:
        between.stand_between(b"")
        async with rb.BridgeClient(
            f"ws://{HOST}:{between.port}/", dialect=rb.dialects.plain
        ) as client:
            with pytest.raises(rb.errors.AttemptTimeoutError) as caught:
                await client.wait_ready(0.05)
        assert (
            caught.value.failure.message
            == "still CONNECTING after 0.05 s: the first attempt has no answer yet"
        )
