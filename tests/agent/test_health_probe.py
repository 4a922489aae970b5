"""One look at a daemon: what each answer means, how long a look takes, and that it leaves nothing behind. Real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Daemon, DaemonHealth


pytestmark = pytest.mark.real

READY, STARTING, STOPPING, UNREACHABLE = DaemonHealth


class Speaker:
    """A server that says what it is told to, and notes what it was asked and how the connection ended."""

    def __init__(self) -> None:
        self.says = b""
        self.asked: list[bytes] = []
        self.ends: list[BaseException | None] = []
        self.url = ""
        self.body = b""  # said a moment later
        self.closed_early: list[bool] = []  # whether the client had closed before that
        self.hangs = False
        self._talks: set[asyncio.Task[None]] = set()

    async def _answer(self, reader, writer):
        self._talks.add(asyncio.current_task())
        try:
            self.asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self.says)
            await writer.drain()
            if self.body:
                await asyncio.sleep(0.05)
                self.closed_early.append(reader.at_eof())
                writer.write(self.body)
            if not self.hangs:
                writer.write_eof()
            await reader.read()
            self.ends.append(None)
        except OSError as error:
            self.ends.append(error)
        finally:
            writer.transport.abort()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Speaker]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/health"
        async with server:
            yield self
            await self.idle()

    async def idle(self) -> None:
        """Wait until every connection has ended."""
        async with asyncio.timeout(10):
            await asyncio.gather(*self._talks)
        await asyncio.sleep(0)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def http(status: str, body: bytes = b"") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def looking_at(health, **options) -> Daemon:
    return Daemon("never-started", health=health, **options)


@pytest.mark.requirement("G9")
async def test_what_the_endpoint_says():
    """200 is ready; 503 is starting, and stopping after it has been ready; what does not answer is unreachable, and then 503 is a start again."""
    async with Speaker().listening() as speaker:
        daemon = looking_at(speaker.url)
        seen = []
        for status in (
            "503 Starting",
            "200 OK",
            "503 Bye",
            "200 OK",
            "404 Not Found",
            "503 Starting",
        ):
            speaker.says = http(status, b"body")
            seen.append(await daemon.health())
        assert seen == [STARTING, READY, STOPPING, READY, UNREACHABLE, STARTING]
        assert READY == "ready"
        assert speaker.asked[0].startswith(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"\r\nConnection: close\r\n" in speaker.asked[0]


@pytest.mark.requirement("G9")
async def test_no_server_is_unreachable():
    """A refused connection is an answer at once, and no exception."""
    async with Speaker().listening() as speaker:
        pass
    began = time.monotonic()
    assert await looking_at(speaker.url, probe_timeout=30).health() is UNREACHABLE
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "says",
    [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 2OO OK\r\n\r\n", b"HTTP/1.1 200", b"x" * 100_000],
    ids=["nothing", "another protocol", "no number", "half a line", "no end of line"],
)
async def test_what_is_no_http_is_unreachable(says):
    """Whatever listens there and speaks something else, or too much, is not the daemon."""
    async with Speaker().listening() as speaker:
        speaker.says = says
        assert await looking_at(speaker.url, probe_timeout=30).health() is UNREACHABLE


async def test_silence_costs_the_time_of_one_look():
    """A daemon that accepts and says nothing is unreachable after `probe_timeout`."""
    async with Speaker().listening() as speaker:
        speaker.hangs = True
        began = time.monotonic()
        assert await looking_at(speaker.url, probe_timeout=0.1).health() is UNREACHABLE
        assert 0.09 < time.monotonic() - began < 5


async def test_a_body_that_never_ends_does_not_hide_the_status():
    """The status counts, however the rest of the answer behaves."""
    async with Speaker().listening() as speaker:
        speaker.says, speaker.hangs = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf", True
        # x05: seconds for the status, on a machine that does something else as well
        assert await looking_at(speaker.url, probe_timeout=2).health() is READY


async def test_a_daemon_can_finish_what_it_says():
    """The body is read too, however late: a daemon that is hung up on in the middle logs an error at each look."""
    async with Speaker().listening() as speaker:
        speaker.says, speaker.body = http("200 OK"), b"x" * 50_000
        assert await looking_at(speaker.url, probe_timeout=30).health() is READY
    assert (speaker.closed_early, speaker.ends) == ([False], [None])


async def test_a_look_leaves_no_socket_and_no_task():
    """Answered, silent or cancelled in the middle: the number of open files is what it was."""
    async with Speaker().listening() as speaker:
        daemon = looking_at(speaker.url, probe_timeout=30)
        speaker.says = http("200 OK")
        await daemon.health()
        await speaker.idle()
        before = open_files()
        for _ in range(5):
            await daemon.health()
        speaker.hangs = True
        speaker.says = b""
        await looking_at(speaker.url, probe_timeout=0.05).health()
        look = asyncio.create_task(daemon.health())
        asked = len(speaker.asked)
        async with asyncio.timeout(30):
            while len(speaker.asked) == asked:
                await asyncio.sleep(0.005)
        look.cancel()
        with pytest.raises(asyncio.CancelledError):
            await look
        async with asyncio.timeout(30):  # x05: the server may accept what has timed out only now
            while open_files() != before:
                await speaker.idle()
                await asyncio.sleep(0.005)


async def test_a_function_can_look():
    """Its answer counts; what it raises, what is no health and what takes too long is unreachable."""

    async def answers():
        return DaemonHealth.STARTING

    async def raises():
        raise RuntimeError("token=hunter2hunter2")

    async def invents():
        return "fine"

    async def hangs():
        await asyncio.get_running_loop().create_future()

    assert await looking_at(answers).health() is STARTING
    for check in (raises, invents, hangs):
        assert await looking_at(check, probe_timeout=0.05).health() is UNREACHABLE


async def test_a_look_can_be_cancelled():
    """A cancellation is never taken for a daemon that is not there."""

    async def hangs():
        await asyncio.get_running_loop().create_future()

    look = asyncio.create_task(looking_at(hangs, probe_timeout=30).health())
    await asyncio.sleep(0)
    look.cancel()
    with pytest.raises(asyncio.CancelledError):
        await look


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost/health",
        "localhost:7890/health",
        "http://",
        "http://user:hunter2@localhost/health",
        "http://localhost:port/health",
        "http://localhost/he alth",
        "http://localhost/\r\nX-Evil: 1",
        "http://[::1/health",
        "http://bücher/health",
        None,
        7890,
    ],
)
def test_a_url_that_is_not_plain_http_is_refused(url):
    """ConfigError names the argument, and never shows the URL: it may hold a password."""
    with pytest.raises(rb.ConfigError, match=r"Daemon\.health: wanted an http:// URL") as raised:
        looking_at(url)
    assert "hunter2" not in str(raised.value)
