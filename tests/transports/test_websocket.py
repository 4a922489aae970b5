"""The WebSocket transport over real sockets: what it refuses, what it carries, and what it leaves behind."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import hashlib
import logging
import os
import socket
import subprocess
import sys
import tracemalloc
from http import HTTPStatus
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedError,
    InvalidHandshake,
    InvalidProxy,
    InvalidStatus,
)

from resilient_bridge.testing.proxy import Fault, FaultProxy
from resilient_bridge.transports import websocket
from resilient_bridge.transports.websocket import (
    InsecureURLError,
    RedirectRefusedError,
    WebSocketTransport,
    open_websocket,
)


pytestmark = pytest.mark.real
MIB = 2**20
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@pytest.fixture
async def bridge():
    """A WebSocket server on loopback that echoes, or does what its `script` says."""
    server = Bridge()
    async with serve(
        server.handle,
        "127.0.0.1",
        0,
        process_request=server.answer,
        max_size=None,
        close_timeout=0.2,
        ping_interval=None,
    ) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server
        listening.close()


class Bridge:
    """Requests seen, connections open, and how to treat them."""

    def __init__(self) -> None:
        self.port = 0
        self.requests = []
        self.sockets = []
        self.answers = []
        self.received = []

    @property
    def url(self):
        return f"ws://127.0.0.1:{self.port}/ws"

    def answer(self, ws, request):
        self.requests.append(request)
        if not self.answers:
            return None
        status, location = self.answers.pop(0)
        response = ws.respond(status, "")
        response.headers["Location"] = location
        return response

    async def handle(self, ws):
        self.sockets.append(ws)
        with contextlib.suppress(ConnectionClosed):
            async for frame in ws:
                self.received.append(frame)
                await ws.send(frame)


@contextlib.asynccontextmanager
async def raw_server(after_upgrade):
    """A server below websockets: it upgrades by hand, then does as told with reader and writer."""

    async def handle(reader, writer):
        request = await reader.readuntil(b"\r\n\r\n")
        key = next(
            line[19:] for line in request.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key: ")
        )
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        with contextlib.suppress(ConnectionError):
            await after_upgrade(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    await asyncio.sleep(0.01)


async def dial(url, **options):
    """Open with the test's default bound."""
    async with asyncio.timeout(5):
        return await open_websocket(url, **{"max_frame_bytes": MIB} | options)


def sockets():
    """How many sockets this process holds."""
    links = (os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return sum(link.startswith("socket:") for link in links)


async def until(condition):
    """Wait for a condition, five seconds at most."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.002)


async def test_it_carries_frames_and_closes_with_a_code(bridge):
    """Text goes out and comes back whole, the close code arrives, and the request names only the library."""
    link = await dial(bridge.url, headers={"X-Trace": "1"})
    await link.send("größe")
    assert await link.receive() == "größe"
    assert link.address == ("127.0.0.1", bridge.port)
    assert repr(link) == f"<WebSocketTransport ('127.0.0.1', {bridge.port})>"
    await link.close(1001)
    await until(lambda: bridge.sockets[0].close_code is not None)
    assert bridge.sockets[0].close_code == 1001
    headers = bridge.requests[0].headers
    assert headers["User-Agent"] == "resilient_bridge"
    assert headers["X-Trace"] == "1"
    assert "Sec-WebSocket-Extensions" not in headers
    with pytest.raises(ConnectionClosed):
        await link.receive()
    with pytest.raises(ConnectionClosed):
        await link.send("late")
    await link.close()


async def test_a_frame_that_is_not_utf8_is_handed_on_and_the_link_stays(bridge):
    """Broken text comes as bytes and ends nothing: what it means is decided above."""

    async def broken(_reader, writer):
        writer.write(b"\x81\x02\xff\xfe" + b"\x81\x02ok")
        await writer.drain()
        await _reader.read()

    async with raw_server(broken) as url:
        link = await dial(url)
        assert await link.receive() == b"\xff\xfe"
        assert await link.receive() == "ok"
        link.abort()
        await link.close()


async def test_an_address_is_dialled_in_place_of_the_name(bridge, monkeypatch):
    """With `address` no name is looked up, and Host stays that of the URL."""
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", None)
    link = await dial(f"ws://bridge.invalid:{bridge.port}/x", address=("127.0.0.1", bridge.port))
    assert bridge.requests[0].headers["Host"] == f"bridge.invalid:{bridge.port}"
    assert link.address == ("127.0.0.1", bridge.port)
    await link.close()


async def test_a_native_error_is_not_dressed_up(bridge, unused_port):
    """A refused connect is `ConnectionRefusedError` with its errno; a refused upgrade is `InvalidStatus`."""
    with pytest.raises(ConnectionRefusedError) as refused:
        await dial(f"ws://127.0.0.1:{unused_port}/")
    assert refused.value.errno == 111
    bridge.answers = [(HTTPStatus.TOO_MANY_REQUESTS, "")]
    with pytest.raises(InvalidStatus) as rejected:
        await dial(bridge.url)
    assert rejected.value.response.status_code == 429


async def test_a_name_with_several_addresses_keeps_its_errno(monkeypatch, unused_port):
    """When each address fails in its own words the error still says which errno, and it is the telling one."""
    monkeypatch.setattr(
        asyncio.get_running_loop(),
        "getaddrinfo",
        lambda _host, port, **_: _addresses(("::1", port, 0, 0), ("127.0.0.1", port)),
    )
    with pytest.raises(ConnectionRefusedError) as caught:
        await dial(f"ws://localhost:{unused_port}/")
    assert caught.value.errno == 111


@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    "options", [{"has_credentials": True}, {"headers": {"Authorization": "Bearer canary"}}]
)
async def test_credentials_do_not_leave_in_the_clear(bridge, options):
    """ws:// with credentials to another machine is refused before anything is dialled, a local name with a far address too."""
    for url, address in (
        (f"ws://bridge.invalid:{bridge.port}/", ("127.0.0.1", bridge.port)),
        (f"ws://localhost:{bridge.port}/", ("192.0.2.1", bridge.port)),
    ):
        with pytest.raises(InsecureURLError):
            await dial(url, address=address, **options)
    assert bridge.requests == []
    link = await dial(
        f"ws://bridge.invalid:{bridge.port}/",
        address=("127.0.0.1", bridge.port),
        allow_plaintext_credentials=True,
        **options,
    )
    await link.close()
    await (await dial(bridge.url, **options)).close()


@pytest.mark.requirement("R5")
async def test_a_pin_on_a_plain_url_is_an_error(bridge):
    """A pin or context that could not protect anything is refused, not ignored."""
    with pytest.raises(ValueError, match="pin: wanted a wss:// url"):
        await dial(bridge.url, pin="sha256:" + "00" * 32)
    assert bridge.requests == []


@pytest.mark.requirement("R5")
async def test_a_redirect_inside_the_origin_is_followed(bridge):
    """Same scheme, host and port: the new path is asked, with the credentials, five times at most."""
    bridge.answers = [
        (HTTPStatus.FOUND, "/a"),
        (HTTPStatus.PERMANENT_REDIRECT, f"http://127.0.0.1:{bridge.port}/b"),
    ]
    link = await dial(bridge.url, headers={"Authorization": "Bearer t"})
    assert [request.path for request in bridge.requests] == ["/ws", "/a", "/b"]
    assert bridge.requests[-1].headers["Authorization"] == "Bearer t"
    await link.close()
    bridge.answers = [(HTTPStatus.FOUND, "/again")] * 9
    bridge.requests.clear()
    with pytest.raises(RedirectRefusedError, match="wanted at most 5"):
        await dial(bridge.url)
    assert len(bridge.requests) == 6


@pytest.mark.requirement("R5")
@pytest.mark.parametrize("scheme", ["ws", "wss", "http"])
async def test_a_redirect_to_another_origin_never_gets_there(bridge, recorder, scheme):
    """The other origin sees no connection at all, whatever its scheme, and the error shows no query."""
    async with recorder() as other:
        bridge.answers = [(HTTPStatus.TEMPORARY_REDIRECT, f"{scheme}://127.0.0.1:{other.port}/?token=canary")]
        with pytest.raises(RedirectRefusedError) as caught:
            await dial(bridge.url, headers={"Authorization": "Bearer canary", "X-Api-Key": "canary"})
        await asyncio.sleep(0.02)
        assert other.connections == 0
    assert "canary" not in str(caught.value)


@pytest.mark.requirement("R5")
async def test_a_redirect_from_tls_to_plain_is_refused(serving, trusting, recorder):
    """wss:// to ws:// on the same host is another origin: refused, and nothing is sent there."""
    async with recorder() as plain:

        def answer(ws, _request):
            response = ws.respond(HTTPStatus.FOUND, "")
            response.headers["Location"] = f"ws://localhost:{plain.port}/"
            return response

        async with serve(
            Bridge().handle, "127.0.0.1", 0, ssl=serving("good"), process_request=answer
        ) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(RedirectRefusedError):
                await dial(f"wss://localhost:{port}/", ssl=trusting, has_credentials=True)
        assert plain.connections == 0


@pytest.mark.parametrize("secure", [False, True], ids=["tcp", "tls"])
async def test_abort_ends_a_pending_receive_at_once(serving, trusting, secure):
    """No polite close, no wait, even when the line is a black hole; again changes nothing, and later calls end too."""
    bridge = Bridge()
    async with (
        serve(
            bridge.handle, "127.0.0.1", 0, ssl=serving("good") if secure else None, close_timeout=0.1
        ) as server,
        FaultProxy("127.0.0.1", server.sockets[0].getsockname()[1]) as proxy,
    ):
        link = await dial(
            f"{'wss' if secure else 'ws'}://localhost:{proxy.port}/", ssl=trusting if secure else None
        )
        proxy.apply(Fault.black_hole())
        receiving = asyncio.create_task(link.receive())
        await asyncio.sleep(0.01)
        before = proxy.bytes_up
        async with asyncio.timeout(0.5):
            link.abort()
            link.abort()
            with pytest.raises(ConnectionClosedError):
                await receiving
            for call in (link.receive(), link.send("x")):
                with pytest.raises(ConnectionClosedError):
                    await call
            await link.close()
        proxy.heal()
        await asyncio.sleep(0.02)
        assert proxy.bytes_up == before or secure
    assert repr(link).endswith(" aborted>")


async def test_abort_ends_a_pending_send_as_lost():
    """A sender that waits for room is told that its frame is lost, not that it went out."""

    async def deaf(_reader, _writer):
        await asyncio.sleep(5)

    async with raw_server(deaf) as url:
        link = await dial(url)

        async def fill():
            while True:
                await link.send("x" * MIB)

        sending = asyncio.create_task(fill())
        await asyncio.sleep(0.2)
        async with asyncio.timeout(0.5):
            link.abort()
            with pytest.raises(ConnectionClosedError):
                await sending
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            if "handle" in repr(task):
                task.cancel()
        await link.close()


async def test_after_an_abort_nothing_more_is_delivered(bridge):
    """Frames that had arrived but were not read are dropped with the link."""
    link = await dial(bridge.url)
    await link.send("one")
    await asyncio.sleep(0.05)
    link.abort()
    with pytest.raises(ConnectionClosedError):
        await link.receive()
    await link.close()


async def test_what_arrived_before_a_loss_is_delivered_before_it(bridge):
    """Frames that came before the cut are read first, then the native exception with the peer's code."""
    link = await dial(bridge.url)
    await until(lambda: bridge.sockets)
    await bridge.sockets[0].send("one")
    await bridge.sockets[0].close(1012, "restart")
    assert await link.receive() == "one"
    with pytest.raises(ConnectionClosedError) as caught:
        await link.receive()
    assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1012, "restart")


@pytest.mark.parametrize("stage", ["tcp", "tls", "upgrade"])
async def test_a_cancelled_open_leaves_nothing(serving, trusting, recorder, stage):
    """Whichever handshake hangs, the cancelled call takes its socket and tasks with it."""
    tasks, before = asyncio.all_tasks(), sockets()
    async with recorder(serving("good") if stage == "upgrade" else None) as server:
        scheme = "ws" if stage == "tcp" else "wss"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await open_websocket(
                    f"{scheme}://localhost:{server.port}/",
                    ssl=None if stage == "tcp" else trusting,
                    max_frame_bytes=MIB,
                )
        assert server.connections == 1
    await until(lambda: (asyncio.all_tasks(), sockets()) == (tasks, before))
    gc.collect()


async def test_an_open_cancelled_at_any_step_leaves_nothing(serving, trusting):
    """Cancelled after n turns of the loop, for every n up to success, an open over TLS leaves no socket and no task."""
    bridge = Bridge()
    async with serve(bridge.handle, "127.0.0.1", 0, ssl=serving("good"), ping_interval=None) as server:
        url = f"wss://localhost:{server.sockets[0].getsockname()[1]}/"
        tasks, before = asyncio.all_tasks(), sockets()
        opened = turns = 0
        while opened < 3:
            opening = asyncio.create_task(dial(url, ssl=trusting))
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            turns += 1
            try:
                link = await opening
            except asyncio.CancelledError:
                pass
            else:
                opened += 1
                await link.close()
            await until(lambda: (asyncio.all_tasks(), sockets()) == (tasks, before))
        assert turns > 5
    gc.collect()


async def test_a_frame_too_big_is_answered_1009_with_bounded_memory():
    """Of a 50 MB frame no more than a piece is held: our close says 1009, and the peak stays far below the frame."""
    seen = []

    async def flood(reader, writer):
        piece = bytes(65_536)
        writer.write(b"\x82\x7f" + (50 * MIB).to_bytes(8, "big"))
        for _ in range(50 * MIB // len(piece)):
            writer.write(piece)
            await writer.drain()
        seen.append(await reader.read(100))

    async with raw_server(flood) as url:
        link = await dial(url)
        tracemalloc.start()
        try:
            with pytest.raises(ConnectionClosedError) as caught:
                await link.receive()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (caught.value.rcvd, caught.value.sent.code) == (None, 1009)
    assert peak < 4 * MIB
    mask, payload = seen[0][2:6], seen[0][6:8]
    assert bytes(a ^ b for a, b in zip(mask, payload, strict=False)) == (1009).to_bytes(2, "big")


async def test_a_peer_that_never_stops_is_cut_off(monkeypatch):
    """A peer that goes on sending after our 1009 keeps the reader for the close time only, then it is aborted."""
    monkeypatch.setattr(websocket, "CLOSE_SECONDS", 0.1)

    async def endless(_reader, writer):
        writer.write(b"\x82\x7f" + (2**40).to_bytes(8, "big"))
        while True:
            writer.write(bytes(1000))
            await writer.drain()
            await asyncio.sleep(0.005)

    async with raw_server(endless) as url:
        link = await dial(url)
        async with asyncio.timeout(1):
            with pytest.raises(ConnectionClosedError):
                await link.receive()


@pytest.mark.parametrize("fault", [Fault.abort, Fault.fin])
async def test_a_cut_between_any_two_bytes_delivers_no_part_of_a_frame(bridge, fault):
    """Cut after n bytes down, for every n of handshake and frames: whole frames in order, then a native exception."""
    frames = ["first", "zweite größe", "3"]

    async with FaultProxy("127.0.0.1", bridge.port) as proxy:

        async def run(wanted):
            got = []
            link = None
            try:
                link = await dial(proxy.url())
                for frame in frames:
                    await link.send(frame)
                while len(got) < wanted:
                    async with asyncio.timeout(5):
                        got.append(await link.receive())
            except (ConnectionError, ConnectionClosed, InvalidHandshake):
                pass
            finally:
                if link is not None:
                    link.abort()
                    await link.close()
            return got

        assert await run(len(frames)) == frames
        outcomes = set()
        for after in range(1, proxy.bytes_down):
            proxy.script(fault(after=after))
            got = await run(99)
            assert got == frames[: len(got)]
            outcomes.add(len(got))
        assert outcomes == {0, 1, 2}


async def test_a_cut_between_any_two_bytes_reaches_the_peer_in_whole_frames(bridge):
    """Cut after n bytes up: the peer gets the whole frame or nothing of it."""
    async with FaultProxy("127.0.0.1", bridge.port) as proxy:
        link = await dial(proxy.url())
        upgrade = proxy.bytes_up
        link.abort()
        for after in range(upgrade - 3, upgrade + 6 + 12):
            proxy.script(Fault.abort(after=after, direction="up"))
            with contextlib.suppress(ConnectionError, ConnectionClosed, InvalidHandshake):
                link = await dial(proxy.url())
                await link.send("hello, frame")
                async with asyncio.timeout(5):
                    await link.receive()
        assert set(bridge.received) <= {"hello, frame"}


async def test_who_stops_reading_stops_the_peer(bridge):
    """With nobody receiving, a peer's frames pile up to a bound in bytes and no further; all of them arrive later."""
    link = await dial(bridge.url, max_frame_bytes=16 * MIB)
    await until(lambda: bridge.sockets)
    sent = 0

    async def flood():
        nonlocal sent
        for _ in range(60):
            await bridge.sockets[0].send("x" * 2 * MIB)
            sent += 1

    flooding = asyncio.create_task(flood())
    await asyncio.sleep(0.5)
    assert sent < 40
    for _ in range(60):
        assert len(await link.receive()) == 2 * MIB
    await flooding
    await link.close()


class Foreign:
    """A connection of another library: send, recv, close and nothing else."""

    def __init__(self) -> None:
        self.sent = []
        self.incoming = asyncio.Queue()
        self.closed = []

    async def send(self, message):
        self.sent.append(message)

    async def recv(self):
        return await self.incoming.get()

    async def close(self, code=1000):
        self.closed.append(code)


async def test_a_foreign_connection_is_wrapped():
    """Anything with send, recv and close serves; abort ends its pending receive and closes it in the background."""
    tasks = asyncio.all_tasks()
    foreign = Foreign()
    link = WebSocketTransport.wrap(foreign)
    assert link.address is None
    await link.send("out")
    await foreign.incoming.put("in")
    assert (await link.receive(), foreign.sent) == ("in", ["out"])
    receiving = asyncio.create_task(link.receive())
    await asyncio.sleep(0)
    link.abort()
    with pytest.raises(ConnectionClosedError):
        await receiving
    await link.close()
    assert foreign.closed == [1000]
    assert asyncio.all_tasks() == tasks


async def test_cancelling_a_foreign_receive_cancels_it_and_loses_nothing():
    """A cancelled receive stays a cancellation, and the next one gets the frame."""
    foreign = Foreign()
    link = WebSocketTransport.wrap(foreign)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await link.receive()
    await foreign.incoming.put("in")
    assert await link.receive() == "in"
    await link.close(1001)
    assert foreign.closed == [1001]


async def test_a_websockets_connection_is_wrapped(bridge):
    """A connection the user opened with websockets behaves as one of ours, abort included."""
    link = WebSocketTransport.wrap(await connect(bridge.url))
    await link.send("x")
    assert await link.receive() == "x"
    link.abort()
    with pytest.raises(ConnectionClosedError):
        await link.receive()
    await link.close()


async def test_no_token_reaches_the_log(bridge, caplog):
    """Even with every logger at DEBUG neither headers nor frames of ours are logged."""
    caplog.set_level(logging.DEBUG)
    url = f"ws://user:canary-u@127.0.0.1:{bridge.port}/?token=canary-q"
    link = await dial(url, headers={"X-Api-Key": "canary-h"})
    await link.send('{"token": "canary-f"}')
    await link.receive()
    await link.close()
    ours = [
        record.getMessage() for record in caplog.records if not record.name.startswith("websockets.server")
    ]
    assert "canary" not in " ".join(ours)


async def test_this_machine_is_reached_without_the_proxy(bridge, recorder, monkeypatch):
    """A proxy in the environment never sees what goes to this machine: its localhost is another one."""
    async with recorder() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        link = await dial(bridge.url, headers={"Authorization": "Bearer t"})
        await link.close()
        assert proxy.connections == 0


async def test_the_proxy_of_the_environment_is_used_and_never_redialled(bridge, monkeypatch):
    """A far host goes through the proxy, which looks the name up; its address is not one to dial again."""
    asked = []

    async def tunnel(reader, writer):
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", bridge.port)

        async def pump(source, sink):
            while data := await source.read(4096):
                sink.write(data)
            sink.close()

        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    async with await asyncio.start_server(tunnel, "127.0.0.1", 0) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        link = await dial("ws://bridge.invalid/ws", address=("127.0.0.1", 1))
        assert asked == [b"CONNECT bridge.invalid:80 HTTP/1.1"]
        assert link.address is None
        await link.send("x")
        assert await link.receive() == "x"
        await link.close()
        await asyncio.sleep(0.02)


async def test_a_bad_proxy_does_not_show_its_password(monkeypatch):
    """The environment's proxy may hold a password: the error about it does not."""
    monkeypatch.setenv("http_proxy", "gopher://user:canary@proxy:1/")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(InvalidProxy) as caught:
        await dial("ws://bridge.invalid/")
    assert "canary" not in str(caught.value)


def test_the_module_loads_no_http_stack():
    """`import resilient_bridge.transports.websocket` costs websockets and the standard library only."""
    code = "import sys, resilient_bridge.transports.websocket; print(*sys.modules, sep='\\n')"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert not {"httpx", "httpx2", "httpcore", "requests", "aiohttp", "tenacity"} & set(done.stdout.split())


async def _addresses(*addresses):
    """What `getaddrinfo` answers for these addresses."""
    return [
        (socket.AF_INET6 if len(address) == 4 else socket.AF_INET, socket.SOCK_STREAM, 6, "", address)
        for address in addresses
    ]


@pytest.fixture
def unused_port():
    """A port on loopback where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
