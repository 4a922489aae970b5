"""Servers on loopback that break a connection in every way there is, written with nothing but asyncio streams."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import trustme


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _asked(reader: asyncio.StreamReader) -> bytes:
    """Read a request, its body too if it says how long that is."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.partition(b":")[2]))
        if line == b"transfer-encoding: chunked":
            await reader.readuntil(b"0\r\n\r\n")
    return head


def answering(answer: bytes) -> Serve:
    """Answer each connection once, then close it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _asked(reader)
        writer.write(answer)
        await writer.drain()

    return serve


def status(line: str, *headers: str, body: bytes = b"") -> bytes:
    """A whole answer."""
    lines = (
        f"HTTP/1.1 {line}",
        *headers,
        f"Content-Length: {len(body)}",
        "Connection: close",
        "",
        "",
    )
    return "\r\n".join(lines).encode() + body


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await reader.read()


async def gone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close without an answer."""
    await _asked(reader)


async def shut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close before anything is said."""
    await asyncio.sleep(0)


SERVERS: dict[str, Serve] = {
    "silent": silent,
    "closed": gone,
    "cut": answering(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
    "chunk": answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"),
    "garbage": answering(b"garbage\r\n\r\n"),
    "busy": answering(status("503 Service Unavailable")),
    "limited": answering(status("429 Too Many Requests", "Retry-After: 7")),
    "missing": answering(status("404 Not Found")),
    "bad key": answering(
        status(
            "401 Unauthorized",
            "Content-Type: application/json",
            body=b'{"error": {"code": "invalid_api_key"}}',
        )
    ),
    "page": answering(status("200 OK", "Content-Type: text/html", body=b"<html>")),
    "proxy": answering(status("407 Proxy Authentication Required")),
}


class Wires:
    """The servers, on a loop of their own; `url(name)` leads to one."""

    def __init__(self) -> None:
        self.ports: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        self.held: list[socket.socket] = []

    def url(self, name: str, path: str = "/") -> str:
        """Where a fault lives."""
        if name == "dns":
            return f"http://nosuch.invalid{path}"
        scheme = "https" if name in {"certificate", "handshake"} else "http"
        return f"{scheme}://127.0.0.1:{self.ports[name]}{path}"

    def serve(self, name: str, serve: Serve) -> Serve:
        """Count connections, and end each of them."""

        async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.counts[name] += 1
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                try:
                    await serve(reader, writer)
                finally:
                    writer.close()

        return counted


def _fill(wires: Wires) -> None:
    """Make a port that nobody accepts from: once its queue is full, a connect gets no answer."""
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    wires.held.append(full)
    wires.ports["full"] = full.getsockname()[1]
    for _ in range(4):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(full.getsockname())
        wires.held.append(one)


async def _run(wires: Wires, ready: threading.Event, ended: threading.Event) -> None:
    servers = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

    async def start(name: str, serve: Serve, **options: Any) -> None:
        server = await asyncio.start_server(wires.serve(name, serve), "127.0.0.1", 0, **options)
        wires.ports[name] = server.sockets[0].getsockname()[1]
        servers.append(server)

    for name, serve in SERVERS.items():
        await start(name, serve)
    await start("certificate", gone, ssl=context)
    await start("handshake", shut)
    with socket.create_server(("127.0.0.1", 0)) as free:
        wires.ports["refused"] = free.getsockname()[1]
    away = f"Location: http://127.0.0.1:{wires.ports['refused']}/"
    await start("redirected", answering(status("303 See Other", away)))
    await start("round", answering(status("302 Found", "Location: /")))
    _fill(wires)
    ready.set()
    while not ended.is_set():
        await asyncio.sleep(0.02)
    for server in servers:
        server.close()
    for one in wires.held:
        one.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextlib.contextmanager
def running() -> Iterator[Wires]:
    """The servers while the block runs."""
    wires, ready, ended = Wires(), threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_run(wires, ready, ended)))
    thread.start()
    assert ready.wait(20)
    try:
        yield wires
    finally:
        ended.set()
        thread.join()


__all__ = ["AsyncIterator", "Wires", "answering", "running", "status"]
