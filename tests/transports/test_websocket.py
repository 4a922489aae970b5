"""The WebSocket transport over real sockets: what it refuses, what it carries, and what remains after a close."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedError,
    InvalidProxy,
    InvalidStatus,
)

from tests.internals.transports import InsecureURLError, WebSocketTransport
from tests.internals.transports import websocket_RedirectRefusedError as RedirectRefusedError
from tests.peers.running import until


pytestmark = pytest.mark.real


async def test_it_carries_frames_and_closes_with_a_code(bridge, dial):
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


async def test_a_frame_that_is_not_utf8_is_handed_on_and_the_link_stays(dial, raw_server):
    """Invalid UTF-8 is passed on as bytes and does not end the link; a higher layer decides what it means."""

    async def broken(reader, writer):
        writer.write(b"\x81\x02\xff\xfe" + b"\x81\x02ok")
        await reader.read()

    async with raw_server(broken) as url:
        link = await dial(url)
        assert await link.receive() == b"\xff\xfe"
        assert await link.receive() == "ok"
        link.abort()
        await link.close()


async def test_an_address_is_dialled_instead_of_the_name(bridge, monkeypatch, dial):
    """With `address` no name is looked up, and Host stays that of the URL."""
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", None)
    link = await dial(f"ws://bridge.invalid:{bridge.port}/x", address=("127.0.0.1", bridge.port))
    assert bridge.requests[0].headers["Host"] == f"bridge.invalid:{bridge.port}"
    assert link.address == ("127.0.0.1", bridge.port)
    await link.close()


async def test_a_native_error_is_not_dressed_up(bridge, unused_port, dial):
    """A refused connect is `ConnectionRefusedError` with its errno; a refused upgrade is `InvalidStatus`."""
    with pytest.raises(ConnectionRefusedError) as refused:
        await dial(f"ws://127.0.0.1:{unused_port}/")
    assert refused.value.errno == 111
    bridge.answers = [(HTTPStatus.TOO_MANY_REQUESTS, "")]
    with pytest.raises(InvalidStatus) as rejected:
        await dial(bridge.url)
    assert rejected.value.response.status_code == 429


async def test_a_name_with_several_addresses_keeps_its_errno(monkeypatch, unused_port, dial):
    """If each address fails with another error, the raised one has the most informative errno."""
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
async def test_credentials_do_not_leave_in_the_clear(bridge, options, dial):
    """ws:// with credentials to another machine is refused before dialling, and so is a local name with a remote address."""
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
@pytest.mark.parametrize("query", ["token=canary", "v=1&api_key=canary", "access_token=canary"])
async def test_sec5_a_token_in_a_query_does_not_leave_in_the_clear(bridge, dial, query):
    """ws:// to another machine with a secret parameter is refused before dialling; any other parameter goes."""
    far = f"ws://bridge.invalid:{bridge.port}/"
    with pytest.raises(InsecureURLError) as caught:
        await dial(f"{far}?{query}", address=("192.0.2.1", bridge.port))
    assert "canary" not in str(caught.value)
    assert bridge.requests == []
    await (await dial(f"{bridge.url}?{query}")).close()


@pytest.mark.requirement("R5")
async def test_a_pin_on_a_plain_url_is_an_error(bridge, dial):
    """A pin or context that could not protect anything is refused, not ignored."""
    with pytest.raises(ValueError, match="pin: wanted a wss:// url"):
        await dial(bridge.url, pin="sha256:" + "00" * 32)
    assert bridge.requests == []


@pytest.mark.requirement("R5")
async def test_a_redirect_inside_the_origin_is_followed(bridge, dial):
    """With the same scheme, host and port the new path is requested, with the credentials, five times at most."""
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
async def test_a_redirect_to_another_origin_never_gets_there(bridge, recorder, scheme, dial):
    """The other origin sees no connection at all, whatever its scheme, and the error shows no query."""
    async with recorder() as other:
        bridge.answers = [
            (HTTPStatus.TEMPORARY_REDIRECT, f"{scheme}://127.0.0.1:{other.port}/?token=canary")
        ]
        with pytest.raises(RedirectRefusedError) as caught:
            await dial(
                bridge.url, headers={"Authorization": "Bearer canary", "X-Api-Key": "canary"}
            )
        await asyncio.sleep(0.02)
        assert other.connections == 0
    assert "canary" not in str(caught.value)


@pytest.mark.requirement("R5")
async def test_a_redirect_from_tls_to_plain_is_refused(bridge, serving, trusting, recorder, dial):
    """wss:// to ws:// on the same host is another origin: refused, and nothing is sent there."""
    async with recorder() as plain:

        def answer(ws, _request):
            response = ws.respond(HTTPStatus.FOUND, "")
            response.headers["Location"] = f"ws://localhost:{plain.port}/"
            return response

        async with serve(
            bridge.handle, "127.0.0.1", 0, ssl=serving("good"), process_request=answer
        ) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(RedirectRefusedError):
                await dial(f"wss://localhost:{port}/", ssl=trusting, has_credentials=True)
        assert plain.connections == 0


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
    link = WebSocketTransport(foreign)
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
    link = WebSocketTransport(foreign)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await link.receive()
    await foreign.incoming.put("in")
    assert await link.receive() == "in"
    await link.close(1001)
    assert foreign.closed == [1001]


async def test_a_websockets_connection_is_wrapped(bridge):
    """A connection the user opened with websockets behaves as one of ours, abort included."""
    link = WebSocketTransport(await connect(bridge.url))
    await link.send("x")
    assert await link.receive() == "x"
    link.abort()
    with pytest.raises(ConnectionClosedError):
        await link.receive()
    await link.close()


async def test_no_token_reaches_the_log(bridge, caplog, dial):
    """Even with every logger at DEBUG neither headers nor frames of ours are logged."""
    caplog.set_level(logging.DEBUG)
    url = f"ws://user:canary-u@127.0.0.1:{bridge.port}/?token=canary-q"
    link = await dial(url, headers={"X-Api-Key": "canary-h"})
    await link.send('{"token": "canary-f"}')
    await link.receive()
    await link.close()
    ours = [
        record.getMessage()
        for record in caplog.records
        if not record.name.startswith("websockets.server")
    ]
    assert "canary" not in " ".join(ours)


async def test_this_machine_is_reached_without_the_proxy(bridge, recorder, monkeypatch, dial):
    """A proxy in the environment never sees what goes to this machine: its localhost is another one."""
    async with recorder() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        link = await dial(bridge.url, headers={"Authorization": "Bearer t"})
        await link.close()
        assert proxy.connections == 0


async def test_the_proxy_of_the_environment_is_used_and_never_redialled(bridge, monkeypatch, dial):
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


async def test_a_bad_proxy_does_not_show_its_password(monkeypatch, dial):
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
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert not {"httpx", "httpx2", "httpcore", "requests", "aiohttp", "tenacity"} & set(
        done.stdout.split()
    )


async def _addresses(*addresses):
    """What `getaddrinfo` answers for these addresses."""
    return [
        (
            socket.AF_INET6 if len(address) == 4 else socket.AF_INET,
            socket.SOCK_STREAM,
            6,
            "",
            address,
        )
        for address in addresses
    ]


@pytest.fixture
def unused_port():
    """A loopback port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


SMALLEST = b"\x82\x00"


async def test_sec6_a_flood_of_the_smallest_frames_lets_the_loop_go_on(bridge, dial):
    """SEC6: 131,072 frames in one piece of 256 KiB: a few thousand in one iteration of the loop; none is lost, and the order stays."""
    link = await dial(bridge.url)
    connection, whole = link._ws, 2**17
    connection.data_received(SMALLEST * (whole - 1))
    connection.data_received(b"\x82\x04last")
    most = before = len(connection.arrivals)
    while (now := len(connection.arrivals)) < whole:
        most, before = max(most, now - before), now
        await asyncio.sleep(0)
    assert most < 4_000
    assert [await link.receive() for _ in range(whole)] == [""] * (whole - 1) + ["last"]
    await bridge.sockets[0].send("the connection reads again")
    assert await link.receive() == "the connection reads again"
    await link.close()


async def test_sec6_what_is_not_parsed_yet_is_not_lost_with_the_connection(dial, raw_server):
    """SEC6: a server of 20,000 tiny frames that ends the connection at once: all of them are read."""

    async def flood(reader, writer):
        writer.write(SMALLEST * 20_000)
        await writer.drain()

    async with raw_server(flood) as url:
        link = await dial(url)
        received = 0
        with pytest.raises(ConnectionClosed):
            while True:
                await link.receive()
                received += 1
        assert received == 20_000
