"""A captive portal on a port: it answers in the server's place, or lets everything through to the server.

Rule: it records all bytes that it was sent while it answered, so that a test can look for secrets in them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trustme

from tests.peers.ports import HOST


PAGE = b"<html><title>Welcome to the hotel</title></html>"


def response(status: str, body: bytes = PAGE, *headers: str) -> bytes:
    """An HTTP answer, whole."""
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Length: {len(body)}",
        "Content-Type: text/html",
        *headers,
    ]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


class Portal:
    """A listener in front of `upstream`. `answer`: what it says; None: it is not there, and bytes pass.

    b"": it takes the request and says nothing until `release`.
    """

    def __init__(self, upstream: int) -> None:
        """Pass everything on, so far."""
        self.upstream = upstream
        self.answer: bytes | None = None
        self.heard: list[bytes] = []
        self.asked = asyncio.Event()
        self.release = asyncio.Event()
        self.tls: ssl.SSLContext | None = None
        self.port = 0
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self._open.add(writer)
        try:
            if self.answer is None:
                await self._pass(reader, writer)
            else:
                await self._answer(self.answer, reader, writer)
        except OSError:
            pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _answer(
        self, answer: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self.tls is not None:
            with suppress(OSError):
                await writer.start_tls(self.tls)
        # the head of a request, or the beginning of a handshake: each comes in one piece on loopback
        self.heard.append(await reader.read(65536))
        self.asked.set()
        if not answer:
            await self.release.wait()
        writer.write(answer)
        await writer.drain()
        writer.write_eof() if writer.can_write_eof() else None
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                while more := await reader.read(65536):
                    self.heard.append(more)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(HOST, self.upstream)

        async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await source.read(65536):
                    to.write(data)
                    await to.drain()
            to.transport.abort()

        self._open.add(far_writer)
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        self._open.discard(far_writer)

    def stand_between(self, answer: bytes, tls: ssl.SSLContext | None = None) -> None:
        """Cut every connection, and answer from now on; with `tls` after a handshake of its own."""
        self.answer, self.tls = answer, tls
        self.asked.clear()
        self.heard.clear()
        self.release.clear()
        for writer in self._open:
            writer.transport.abort()

    def go(self) -> None:
        """The user has signed in: what is dialled reaches the server again."""
        self.answer = None
        self.release.set()


@asynccontextmanager
async def portal(upstream: int) -> AsyncIterator[Portal]:
    """Run one in front of this port."""
    between = Portal(upstream)
    server = await asyncio.start_server(between.serve, HOST, 0)
    between.port = server.sockets[0].getsockname()[1]
    try:
        yield between
    finally:
        between.stand_between(b"")
        between.release.set()
        server.close()
        await server.wait_closed()


def certificates() -> tuple[ssl.SSLContext, ssl.SSLContext, ssl.SSLContext]:
    """The server's TLS, that of a portal with a certificate of its own, and the client's trust in the first."""
    trust = ssl.create_default_context()
    contexts = []
    for name in ("server", "portal"):
        authority = trustme.CA()
        if name == "server":
            authority.configure_trust(trust)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(HOST, "localhost").configure_cert(context)
        contexts.append(context)
    return contexts[0], contexts[1], trust
