"""Row 22 on real sockets: what stands between a client and its bridge, and what it answers when the bridge is away.

Rule: the same two tests run behind a relay of our own and behind nginx, where there is one.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import asynccontextmanager, suppress

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import BridgeServer
from tests.internals.telemetry import ReconnectScheduled
from tests.rows import each_row
from tests.threats.raw_bridges import Recorder, http
from tests.threats.watching import Watch, port_of, push, quick


NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


@pytest.mark.real
@pytest.mark.parametrize("status", [502, 503, 504, 500, 429, 408, 425])
async def test_row_22_a_refused_upgrade_that_passes(status):
    """What a proxy says while its backend is away is told as it is, tried again, and over when the backend is back."""
    async with (
        BridgeServer(reject_upgrade=status) as server,
        Watch(server.url, policy=quick()) as watch,
    ):
        await watch.until(lambda: watch.waits)
        (event, *_) = watch.of(ReconnectScheduled)
        assert event.failure.details["http_status"] == status
        assert event.reason == f"upgrade_rejected({status})"
        assert event.failure.retryable
        assert (event.wait >= 5) == (status == 429)  # it asked for patience
        server.behave(reject_upgrade=None)
        watch.client.reconnect_now()
        await watch.ready()


@pytest.mark.real
@pytest.mark.parametrize("status", [426, 400, 404, 405, 410, 501])
async def test_row_22_a_refused_upgrade_that_lasts(status):
    """What another attempt cannot change ends the client at once, with the status in the error."""
    async with (
        BridgeServer(reject_upgrade=status) as server,
        Watch(server.url, policy=quick()) as watch,
    ):
        await watch.until(lambda: watch.client.state == "FAILED")
        with pytest.raises(rb.BridgeError) as caught:
            await watch.client.wait_ready(1)
        assert caught.value.failure.details["http_status"] == status
        assert str(status) in str(caught.value)
        assert len(server.attempt_times) == 1


@pytest.mark.real
@each_row(
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
    async with (
        Recorder(answer).listening() as proxy,
        Watch(f"ws://127.0.0.1:{proxy.port}/ws", policy=quick()) as watch,
    ):
        await watch.until(lambda: len(watch.waits) >= 2 or watch.client.state == "FAILED")
        failure = watch.client.health().failure or watch.of(ReconnectScheduled)[0].failure
        assert failure.code != "SYS_INTERNAL_ERROR", failure
        assert len(failure.explain()) < 10_000


PATIENCE = 1.5  # x05: seconds of a proxy without a byte; ten times a heartbeat, which may be late on a busy machine


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
                await asyncio.wait(
                    pipes, timeout=self._seconds - idle, return_when=asyncio.FIRST_COMPLETED
                )
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
    relay = IdleCut(port, PATIENCE)
    async with relay.listening() as front:
        yield front


@asynccontextmanager
async def nginx(port, tmp_path):
    """The real thing, with the same time as its `proxy_read_timeout`."""
    if NGINX is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    front = await free_port()
    config = tmp_path / "nginx.conf"
    paths = "".join(
        f"{name}_temp_path {tmp_path}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config.write_text(
        f"daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;"
        f"events {{}} http {{ access_log off; {paths} server {{ listen 127.0.0.1:{front};"
        f"location / {{ proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1;"
        "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;"
        f"proxy_read_timeout {PATIENCE * 1000:.0f}ms; proxy_send_timeout {PATIENCE * 1000:.0f}ms; }} }} }}"
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
        policy = quick(heartbeat=rb.bridge.Heartbeat(every=30, timeout=10))
        async with (
            proxy(port_of(server.url), tmp_path) as front,
            Watch(f"ws://127.0.0.1:{front}/ws", policy=policy) as watch,
        ):
            await watch.ready()
            await push(server, 1)
            await watch.until(lambda: watch.ids == [1])
            await watch.until(lambda: watch.losses)
            assert watch.losses[0] in {"CONN_WEBSOCKET_CLOSED", "CONN_RESET"}
            await push(server, 2)
            await watch.recovered(2)
            await watch.until(lambda: 2 in watch.ids)
            assert watch.ids == [1, 2]
            assert watch.verdicts[0] == ("RECOVERED", "anchor")


@pytest.mark.real
@pytest.mark.parametrize("proxy", PROXIES, ids=lambda proxy: proxy.__name__)
async def test_row_22_keepalive_under_the_cut(proxy, tmp_path):
    """A heartbeat faster than the proxy's patience keeps a silent link for several times as long."""
    async with BridgeServer() as server:
        policy = quick(heartbeat=rb.bridge.Heartbeat(every=0.15, timeout=10))
        async with (
            proxy(port_of(server.url), tmp_path) as front,
            Watch(f"ws://127.0.0.1:{front}/ws", policy=policy) as watch,
        ):
            await watch.ready()
            pings = [0]

            def beats():
                pings[0] = sum(frame["type"] == "heartbeat_ping" for frame in server.frames)
                return pings[0] * 0.15 >= 3 * PATIENCE

            await watch.until(beats)
            assert watch.losses == []
            assert len(server.connect_times) == 1


@pytest.mark.real
async def test_row_22_nginx_without_a_backend(tmp_path):
    """nginx whose backend is away says 502: told, tried again, and READY when the backend comes."""
    port = await free_port()
    async with (
        nginx(port, tmp_path) as front,
        Watch(f"ws://127.0.0.1:{front}/ws", policy=quick()) as watch,
    ):
        await watch.until(lambda: len(watch.waits) >= 2)
        assert {
            event.failure.details.get("http_status") for event in watch.of(ReconnectScheduled)
        } == {502}
        async with BridgeServer(port=port):
            await watch.ready(15)
            await watch.client.aclose()


@pytest.mark.real
async def test_row_22_a_session_error_in_the_body():
    """A refusal whose body names SESS_NOT_FOUND is a lost session, and not a lost bridge: a new one is joined."""
    async with BridgeServer() as server, Watch(server.url, policy=quick()) as watch:
        await watch.ready()
        old = watch.client.session_id
        server.behave(reject_upgrade=404, reject_code="SESS_NOT_FOUND")
        await server.cut("abort")
        await watch.until(lambda: watch.waits and watch.failures[-1] == "SESS_NOT_FOUND")
        server.behave(reject_upgrade=None, reject_code=None)
        await watch.recovered(2)
        assert watch.client.session_id != old
        assert [gap.reason for gap in watch.gaps] == ["new_session"]
        assert json.dumps(watch.client.health().reason)
