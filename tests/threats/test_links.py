"""Rows 5 and 20 to 22 on real sockets: floods, trickles, half-open links, cuts between any two bytes, proxies in the way.

Rule: loopback, small policies, and waiting for what happens instead of for time to pass.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import struct
from contextlib import asynccontextmanager, suppress

import pytest

import resilient_bridge as rb
from resilient_bridge.telemetry.events import ReconnectScheduled
from resilient_bridge.testing.proxy import Fault, FaultProxy
from resilient_bridge.testing.server import BridgeServer
from resilient_bridge.testing.simulation import Simulation
from tests.threats.raw_bridges import HandBridge, Recorder, http
from tests.threats.watching import Watch, push, quick, until


NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
HEARTBEAT = rb.Heartbeat(every=0.3, timeout=0.3, probe_timeout=0.3)


@asynccontextmanager
async def proxied(*, read=True, policy=None, **behaviour):
    """A bridge, a proxy before it, a client that is READY through both."""
    async with BridgeServer(**behaviour) as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        async with FaultProxy("127.0.0.1", port) as proxy:
            async with Watch(proxy.url("/ws"), read=read, policy=policy or quick()) as watch:
                await watch.ready(5)
                yield server, proxy, watch


def memory():
    """Bytes of this process in memory now."""
    with open("/proc/self/statm") as statm:  # noqa: PTH123 -- two numbers
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---- row 5: too much, too fast, too slow ------------------------------------------------------------------------


@pytest.mark.real
async def test_row_05_a_frame_of_50_mb():
    """A frame over the limit is answered with 1009 and typed; it is never held whole, and the session goes on."""
    async with proxied(policy=quick(dialect=rb.Dialect(max_frame_bytes=1 << 20))) as (server, _, watch):
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1], 5)
        frame = '{"type":"tool_call","payload":{"x":"%s"}}' % ("x" * 50_000_000)
        before = memory()
        await server.push_raw(frame)
        await watch.until(lambda: watch.losses, 10)
        assert memory() - before < 130_000_000  # the server's own copies; ours would be as much again, and its text
        (loss,) = [event.failure for event in watch.events if getattr(event, "failure", None) is not None][:1]
        assert loss.code == "PROTO_MESSAGE_TOO_BIG"
        assert loss.details["close_code"] == 1009
        assert loss.details["close_by"] == "us"
        await watch.recovered(2, within=10)
        await push(server, 2)
        await watch.until(lambda: watch.ids == [1, 2], 5)


async def flood(bridge, ws):
    """300,000 tiny frames, as fast as they are taken."""
    for n in range(300_000):
        await ws.send('{"type":"tick","id":"t%d","payload":{"n":%d}}' % (n, n))
        bridge.sent = n + 1


@pytest.mark.real
@pytest.mark.parametrize("overflow", ["pause", "resync"])
async def test_row_05_a_flood_of_tiny_frames(overflow):
    """A reader that stops: at most the bound waits in memory and the server feels it; with resync the link is dropped."""
    bridge = HandBridge(flood)
    bridge.sent = 0
    policy = quick(
        inbox=rb.Inbox(max_messages=500, overflow=overflow),
        heartbeat=rb.Heartbeat(every=5, timeout=5),
        replay=rb.Replay(timeout=0.2, max_messages=500),
    )
    async with bridge.listening(), Watch(bridge.url, read=False, policy=policy) as watch:
        reader = aiter(watch.client)
        first = await anext(reader)
        assert first.payload == {"n": 0}
        await watch.until(lambda: watch.client.health().unread >= 499, 10)
        sent = -1
        while sent != bridge.sent:  # until the socket's buffers are full, too
            sent = bridge.sent
            await asyncio.sleep(0.1)
            assert watch.client.health().unread <= 1_100
        assert bridge.sent < 200_000
        if overflow == "resync":
            assert "SYS_INBOX_FULL" in watch.losses
            return
        seen = [(await anext(reader)).payload["n"] for _ in range(20_000)]
        assert seen == [*range(1, 20_001)]
        assert watch.losses == []


async def trickle(_, ws):
    """A frame of a megabyte, one byte at a time, for ever."""
    transport = ws.transport
    transport.write(b"\x81\x7f" + struct.pack("!Q", 1 << 20))
    while True:
        transport.write(b" ")
        await asyncio.sleep(0.02)


@pytest.mark.real
async def test_row_05_one_byte_at_a_time():
    """A frame that never ends is a dead link: the heartbeat finds it within interval and timeout, and the client comes back."""
    bridge = HandBridge(trickle)
    async with bridge.listening(), Watch(bridge.url, policy=quick(heartbeat=HEARTBEAT)) as watch:
        loop = asyncio.get_running_loop()
        await watch.until(lambda: watch.connects >= 1, 5)
        begun = loop.time()
        await watch.until(lambda: watch.losses, 5)
        assert loop.time() - begun < 0.6 + 0.25 + 1.0
        assert set(watch.losses) <= {"CONN_HEARTBEAT_TIMEOUT", "CONN_TIMEOUT"}
        bridge.script = None
        await watch.ready(5)


@pytest.mark.real
async def test_row_05_an_upgrade_of_one_byte_at_a_time():
    """An HTTP answer that trickles in is inside the connect timeout."""

    async def serve_slowly(_, writer):
        with suppress(ConnectionError):
            for byte in b"HTTP/1.1 101 Switching Protocols\r\nX: " + b"y" * 10_000:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.01)

    policy = quick(reconnect=rb.Reconnect(backoff=rb.Backoff.constant(0.02), connect_timeout=0.3, attempts=None))
    handlers = []

    async def handle(reader, writer):
        handlers.append(asyncio.current_task())
        try:
            await serve_slowly(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with Watch(f"ws://127.0.0.1:{port}/", policy=policy) as watch:
            await watch.until(lambda: len(watch.waits) >= 2, 5)
            assert set(watch.failures) == {"CONN_TIMEOUT"}
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


# ---- row 20: half open ------------------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.requirement("V13")
@pytest.mark.parametrize("direction", ["both", "down", "up"])
async def test_row_20_half_open(direction):
    """Silence in either direction, without FIN or RST: found within interval and timeout, and nothing is lost."""
    async with proxied(policy=quick(heartbeat=HEARTBEAT)) as (server, proxy, watch):
        loop = asyncio.get_running_loop()
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1], 5)
        begun = loop.time()
        proxy.apply(Fault.black_hole(direction))
        receipt = await watch.client.send("note", {"n": 7})
        await push(server, 2)
        await watch.until(lambda: watch.losses, 5)
        assert loop.time() - begun < HEARTBEAT.every + HEARTBEAT.timeout + 0.25 + 0.5
        assert watch.losses == ["CONN_HEARTBEAT_TIMEOUT"]
        await watch.recovered(2, within=5)
        await push(server, 3)
        await watch.until(lambda: 3 in watch.ids, 5)
        assert watch.ids == [1, 2, 3]
        assert await receipt.confirmed(5) in {"applied", "read"}  # "read": it had been applied before the repetition
        assert [message["payload"]["n"] for message in server.received] == [7]


@pytest.mark.parametrize("way", ["both", "down", "up"])
@pytest.mark.requirement("V13")
def test_row_20_half_open_by_the_book(way):
    """With the recommended 15 and 10 seconds a half-open link is found within 25.5 s, at any moment of the interval."""
    for moment in range(0, 16, 3):

        async def main(server, moment=moment):
            loop = asyncio.get_running_loop()
            async with Watch(server.url) as watch:
                await watch.ready()
                await asyncio.sleep(moment + 0.37)
                begun = loop.time()
                for link in loop.network.links:
                    link.blackhole(1e6, way)
                await watch.until(lambda: watch.losses, 60)
                assert loop.time() - begun <= 25.5
                assert watch.losses == ["CONN_HEARTBEAT_TIMEOUT"]
                loop.network.heal()
                await watch.recovered(2)

        Simulation(moment).run(main)


# ---- row 21: between any two bytes ------------------------------------------------------------------------------


async def exchange(server, watch, proxy=None):
    """Ten pushed, ten sent, across whatever happens; what must hold at the end."""
    receipts = []
    for n in range(10):
        await push(server, n, type="stream_chunk" if n % 3 == 2 else "tool_call")
        receipts.append(await watch.client.send("note", {"n": n}))
        await asyncio.sleep(0.01)
    for receipt in receipts:
        assert await receipt.confirmed(20) in {"applied", "read"}
    await watch.until(lambda: set(range(10)) <= set(watch.ids), 20)
    applied = [message["payload"]["n"] for message in server.received]
    assert applied == [*range(10)]
    sure = [message.payload["n"] for message in watch.messages if not message.maybe_duplicate]
    assert sure == sorted(set(sure))
    if not watch.gaps:
        assert watch.ids == [*range(10)]
    for message in watch.messages:
        assert set(message.payload) == {"n"}  # never a part of a frame


def test_row_21_cut_between_any_two_bytes():
    """RST and FIN after every byte of a session's first 1,500 down and 1,200 up: no partial message, no loss, no repetition."""

    def cut(after, how, way):
        async def main(server):
            loop = asyncio.get_running_loop()
            while server.session is None:  # somebody has to own what is pushed
                async with Watch(server.url, session_id="s") as first:
                    await first.ready()
            loop.network.on_link.append(
                lambda link: link.cut_after(after, how, way) if link.number == 2 else None
            )
            async with Watch(server.url, session_id="s") as watch:
                await watch.until(lambda: watch.client.state == "READY" or watch.losses or watch.waits, 60)
                await exchange(server, watch)

        Simulation(after).run(main)

    for after in range(1, 1_500, 7):
        cut(after, "abort" if after % 2 else "fin", "down")
    for after in range(1, 1_200, 11):
        cut(after, "fin" if after % 2 else "abort", "up")


@pytest.mark.real
@pytest.mark.parametrize("how", ["abort", "fin"])
@pytest.mark.parametrize("direction", ["down", "up"])
async def test_row_21_cut_between_bytes_of_real_sockets(how, direction):
    """The same over TCP, at a dozen places each: upgrade, handshake, messages."""
    async with BridgeServer() as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        for after in (1, 60, 128, 129, 130, 131, 200, 333, 470, 600, 801, 1_200):
            async with FaultProxy("127.0.0.1", port) as proxy:
                proxy.script(getattr(Fault, how)(after=after, direction=direction))
                session = f"{how}-{direction}-{after}"
                async with Watch(proxy.url("/ws"), policy=quick(), session_id=session) as watch:
                    await until(lambda: server.session == session, 5)  # noqa: B023 -- awaited at once
                    server.received.clear()
                    await exchange(server, watch)


# ---- row 22: proxies --------------------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.parametrize("status", [502, 503, 504, 500, 429, 408, 425])
async def test_row_22_a_refused_upgrade_that_passes(status):
    """What a proxy says while its backend is away is told as it is, tried again, and over when the backend is back."""
    async with BridgeServer(reject_upgrade=status) as server:
        async with Watch(server.url, policy=quick()) as watch:
            await watch.until(lambda: watch.waits, 5)
            (event, *_) = watch.of(ReconnectScheduled)
            assert event.failure.details["http_status"] == status
            assert event.reason == f"upgrade_rejected({status})"
            assert event.failure.retryable
            assert (event.wait >= 5) == (status == 429)  # it asked for patience
            server.behave(reject_upgrade=None)
            watch.client.reconnect_now()
            await watch.ready(5)


@pytest.mark.real
@pytest.mark.parametrize("status", [426, 400, 404, 405, 410, 501])
async def test_row_22_a_refused_upgrade_that_lasts(status):
    """What another attempt cannot change ends the client at once, with the status in the error."""
    async with BridgeServer(reject_upgrade=status) as server:
        async with Watch(server.url, policy=quick()) as watch:
            await watch.until(lambda: watch.client.state == "FAILED", 5)
            with pytest.raises(rb.BridgeError) as caught:
                await watch.client.wait_ready(1)
            assert caught.value.failure.details["http_status"] == status
            assert str(status) in str(caught.value)
            assert len(server.attempt_times) == 1


@pytest.mark.real
@pytest.mark.parametrize(
    "answer",
    [
        http("502 Bad Gateway", "Server: nginx", body=b"<html>502</html>"),
        http("503 Service Unavailable", body=b"\xff\xfe not text"),
        http("503 Service Unavailable", body=b'{"code": "' + b"[" * 50_000),
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 1000000\r\n\r\ncut short",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
        b"HTTP/1.1 999 \r\n\r\n",
        b"HTTP/2 200\r\n\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"\x00" * 5_000,
        b"HTTP/1.1 101 X\r\n" + b"A: b\r\n" * 5_000 + b"\r\n",
    ],
    ids=lambda answer: answer[:28].decode("latin-1"),
)
async def test_row_22_answers_of_a_broken_proxy(answer):
    """Pages, cut bodies, other protocols, floods of headers instead of an upgrade: typed, bounded, never a crash or a hang."""
    async with Recorder(answer).listening() as proxy:
        async with Watch(f"ws://127.0.0.1:{proxy.port}/ws", policy=quick()) as watch:
            await watch.until(lambda: len(watch.waits) >= 2 or watch.client.state == "FAILED", 5)
            failure = watch.client.health().failure or watch.of(ReconnectScheduled)[0].failure
            assert failure.code != "SYS_INTERNAL_ERROR", failure
            assert len(failure.explain()) < 10_000


class IdleCut:
    """A TCP relay that closes both sides after so many seconds without a byte in either direction, as proxies do."""

    def __init__(self, port, seconds):
        self._target = port
        self._seconds = seconds
        self.cuts = 0
        self.connections = 0
        self._tasks = set()

    @asynccontextmanager
    async def listening(self):
        """Its port."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader, writer):
        self.connections += 1
        self._tasks.add(asyncio.current_task())
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        loop = asyncio.get_running_loop()
        self._last = loop.time()

        async def pipe(source, sink):
            with suppress(ConnectionError):
                while data := await source.read(65_536):
                    self._last = loop.time()
                    sink.write(data)

        pipes = [asyncio.create_task(pipe(reader, back)), asyncio.create_task(pipe(there, writer))]
        try:
            while not any(task.done() for task in pipes):
                idle = loop.time() - self._last
                if idle >= self._seconds:
                    self.cuts += 1
                    break
                await asyncio.wait(pipes, timeout=self._seconds - idle, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass
        finally:
            for task in pipes:
                task.cancel()
            await asyncio.wait(pipes)
            writer.transport.abort()
            back.transport.abort()


@asynccontextmanager
async def idle_relay(port, tmp_path):
    """The relay above."""
    del tmp_path
    relay = IdleCut(port, 0.8)
    async with relay.listening() as front:
        yield front


@asynccontextmanager
async def nginx(port, tmp_path):
    """The real thing, with `proxy_read_timeout` 800 ms."""
    if NGINX is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    front = await free_port()
    config = tmp_path / "nginx.conf"
    paths = "".join(
        f"{name}_temp_path {tmp_path}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config.write_text(
        f"daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;"
        f"events {{}} http {{ access_log off; {paths} server {{ listen 127.0.0.1:{front};"
        f"location / {{ proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1;"
        "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;"
        "proxy_read_timeout 800ms; proxy_send_timeout 800ms; } } }"
    )
    process = await asyncio.create_subprocess_exec(
        NGINX, "-c", str(config), "-p", str(tmp_path), "-e", str(tmp_path / "error.log"),
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await listens(front)
        yield front
    finally:
        process.terminate()
        await process.wait()


async def free_port():
    """A port that was free a moment ago."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


async def listens(port):
    """Wait until somebody does."""
    async with asyncio.timeout(10):
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.transport.abort()
                return
            await asyncio.sleep(0.02)


PROXIES = [idle_relay, nginx]


@pytest.mark.real
@pytest.mark.parametrize("proxy", PROXIES, ids=lambda proxy: proxy.__name__)
async def test_row_22_proxy_idle_cut(proxy, tmp_path):
    """A heartbeat slower than the proxy's patience: the cut has no close frame, is told as a loss, and is resumed from."""
    async with BridgeServer() as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        policy = quick(heartbeat=rb.Heartbeat(every=30, timeout=10))
        async with proxy(port, tmp_path) as front:
            async with Watch(f"ws://127.0.0.1:{front}/ws", policy=policy) as watch:
                await watch.ready(5)
                await push(server, 1)
                await watch.until(lambda: watch.ids == [1], 5)
                await watch.until(lambda: watch.losses, 5)
                assert watch.losses[0] in {"CONN_WEBSOCKET_CLOSED", "CONN_RESET"}
                await push(server, 2)
                await watch.recovered(2, within=5)
                await watch.until(lambda: 2 in watch.ids, 5)
                assert watch.ids == [1, 2]
                assert watch.verdicts[0] == ("RECOVERED", "anchor")


@pytest.mark.real
@pytest.mark.parametrize("proxy", PROXIES, ids=lambda proxy: proxy.__name__)
async def test_row_22_keepalive_under_the_cut(proxy, tmp_path):
    """A heartbeat faster than the proxy's patience keeps a silent link for several times as long."""
    async with BridgeServer() as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        policy = quick(heartbeat=rb.Heartbeat(every=0.25, timeout=2))
        async with proxy(port, tmp_path) as front:
            async with Watch(f"ws://127.0.0.1:{front}/ws", policy=policy) as watch:
                await watch.ready(5)
                pings = [0]

                def beats():
                    pings[0] = sum(frame["type"] == "heartbeat_ping" for frame in server.frames)
                    return pings[0] >= 10  # 2.5 s, three times the proxy's patience

                await watch.until(beats, 10)
                assert watch.losses == []
                assert len(server.connect_times) == 1


@pytest.mark.real
async def test_row_22_nginx_without_a_backend(tmp_path):
    """nginx whose backend is away says 502: told, tried again, and READY when the backend comes."""
    port = await free_port()
    async with nginx(port, tmp_path) as front:
        async with Watch(f"ws://127.0.0.1:{front}/ws", policy=quick()) as watch:
            await watch.until(lambda: len(watch.waits) >= 2, 5)
            assert {event.failure.details.get("http_status") for event in watch.of(ReconnectScheduled)} == {502}
            async with BridgeServer(port=port):
                await watch.ready(15)
                await watch.client.aclose()


@pytest.mark.real
async def test_row_22_a_session_error_in_the_body():
    """A refusal whose body names SESS_NOT_FOUND is a lost session, and not a lost bridge: a new one is joined."""
    async with BridgeServer() as server:
        async with Watch(server.url, policy=quick()) as watch:
            await watch.ready(5)
            old = watch.client.session_id
            server.behave(reject_upgrade=404, reject_code="SESS_NOT_FOUND")
            await server.cut("abort")
            await watch.until(lambda: watch.waits and watch.failures[-1] == "SESS_NOT_FOUND", 5)
            server.behave(reject_upgrade=None, reject_code=None)
            await watch.recovered(2, within=5)
            assert watch.client.session_id != old
            assert [gap.reason for gap in watch.gaps] == ["new_session"]
            assert json.dumps(watch.client.health().reason)
