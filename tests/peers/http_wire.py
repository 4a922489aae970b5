"""A minimal HTTP/1.1 for the servers of tests: read a request, encode an answer, break a connection.

Rule: nothing is decided or checked here; it also sends what no server should send.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, cast

import attrs


_LIMIT = 1 << 20  # bytes of a request's head


class BreakError(Exception):
    """Raised by the body of an answer: the connection ends here, by reset or by a plain close."""

    def __init__(self, *, reset: bool = False) -> None:
        """Store how the connection ends."""
        super().__init__("reset" if reset else "closed")
        self.reset = reset


@attrs.frozen
class Request:
    """A request: header names in lower case, `n` counts from 1 in the order of arrival."""

    n: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""

    def json(self) -> Any:
        """The body as JSON; None if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def rpc(self) -> str:
        """The JSON-RPC method in the body; empty if there is none."""
        body = self.json()
        return str(body.get("method", "")) if isinstance(body, dict) else ""


@attrs.frozen
class Answer:
    """A response: bytes are sent with their length, a generator's pieces in chunks; the generator may raise BreakError."""

    status: int = 200
    body: bytes | AsyncGenerator[bytes, None] = b""
    headers: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def of(cls, value: Any, status: int = 200, **headers: str) -> Answer:
        """An answer of JSON; underscores in header names stand for dashes."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return cls(
            status, json.dumps(value).encode(), {"content-type": "application/json", **named}
        )

    async def wire(self) -> AsyncGenerator[bytes, None]:
        """The head, then the pieces of the body as they go over the wire."""
        whole = self.body if isinstance(self.body, bytes) else None
        framing = "transfer-encoding: chunked" if whole is None else f"content-length: {len(whole)}"
        yield head_of(
            self.status, [*(f"{name}: {text}" for name, text in self.headers.items()), framing]
        )
        if isinstance(self.body, bytes):
            if self.body:
                yield self.body
            return
        async with aclosing(self.body) as pieces:
            async for piece in pieces:
                yield b"%x\r\n%b\r\n" % (len(piece), piece)
        yield b"0\r\n\r\n"


def head_of(status: int, lines: list[str]) -> bytes:
    """The bytes of a response's head."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    return "\r\n".join([f"HTTP/1.1 {status} {phrase}", *lines, "", ""]).encode("latin-1")


def parse_head(head: bytes) -> tuple[str, list[tuple[str, str]]]:
    """The first line, and the headers in order with their names in lower case."""
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return first, [(name.strip().lower(), text.strip()) for name, _, text in pairs]


class Connection(asyncio.StreamReaderProtocol):
    """One connection of a client: read requests, write pieces, end it; `ended` is set when it is closed completely.

    `task`, once set, is cancelled when the client disconnects.
    """

    def __init__(self, forget: Callable[[Connection], None]) -> None:
        """Belong to the running loop; `forget` is called when the socket is closed."""
        loop = asyncio.get_running_loop()
        self.reader = asyncio.StreamReader(limit=_LIMIT, loop=loop)
        super().__init__(self.reader, loop=loop)
        self.ended = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.is_idle = True
        self.is_made = False
        self._forget = forget

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport for writing."""
        super().connection_made(transport)
        transport = cast("asyncio.Transport", transport)  # uvloop's are none by name
        transport.set_write_buffer_limits(
            high=0
        )  # drained means handed to the kernel, so that a cut is exact
        self.transport = transport
        self.is_made = True
        self.writer = asyncio.StreamWriter(transport, self, self.reader, asyncio.get_running_loop())

    def eof_received(self) -> bool:
        """The client closed: cancel the task that answers."""
        super().eof_received()
        self._end_task()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        super().connection_lost(exc)
        self._end_task()
        self._forget(self)
        self.ended.set()

    def _end_task(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def read_head(self, n: int) -> Request | None:
        """The next request without its body; None if the client disconnected."""
        self.is_idle = True
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        self.is_idle = False
        first, headers = parse_head(head)
        method, path, _ = first.split(" ", 2)
        return Request(n, method, path, dict(headers))

    async def read_body(self, request: Request) -> Request:
        """The same request with its body, which needs a content-length."""
        assert "transfer-encoding" not in request.headers, (
            "wanted a request with content-length, got chunks"
        )
        size = int(request.headers.get("content-length", 0))
        return attrs.evolve(request, body=await self.reader.readexactly(size)) if size else request

    async def write(self, piece: bytes) -> None:
        """Write and let it drain."""
        self.writer.write(piece)
        await self.writer.drain()

    def reset(self) -> None:
        """End it with a RST: the client sees ECONNRESET."""
        sock: socket.socket = self.transport.get_extra_info("socket")
        if not self.transport.is_closing():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def close(self) -> None:
        """End it with a FIN after what was written."""
        self.transport.close()


async def forwarded(request: Request, host: str, port: int) -> AsyncGenerator[bytes, None]:
    """Send the request to a server, and yield its head and the pieces of its body as they arrive.

    OSError if the connection is refused; a 502, as from a proxy, if the server closes before it answers; BreakError if later.
    """
    reader, writer = await asyncio.open_connection(host, port, limit=_LIMIT)
    try:
        lines = [
            f"{name}: {text}" for name, text in request.headers.items() if name != "connection"
        ]
        head = "\r\n".join(
            [f"{request.method} {request.path} HTTP/1.1", *lines, "connection: close", "", ""]
        )
        writer.write(head.encode("latin-1") + request.body)
        async for piece in _relayed(reader):
            yield piece
    finally:
        writer.transport.abort()


async def _relayed(reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
    try:
        first, headers = parse_head(await reader.readuntil(b"\r\n\r\n"))
    except (asyncio.IncompleteReadError, ConnectionError):
        async for piece in Answer(502, b"the server ended").wire():
            yield piece
        return
    status = int(first.split(" ", 2)[1])
    yield head_of(status, [f"{name}: {text}" for name, text in headers if name != "connection"])
    size, tail = 0, b""
    try:
        while piece := await reader.read(1 << 16):  # to the end of file, which was asked for
            size, tail = size + len(piece), (tail + piece)[-5:]
            yield piece
    except ConnectionError:
        raise BreakError(reset=True) from None
    by_name = dict(headers)
    is_chunked = by_name.get("transfer-encoding") == "chunked"
    if tail != b"0\r\n\r\n" if is_chunked else size < int(by_name.get("content-length", 0)):
        raise BreakError
