"""A server of event streams that plays a script for each request: it cuts, refuses, repeats and forgets as told.

Rule: it remembers what it was asked, and when; what a client makes of it is the test's to say.
"""

from __future__ import annotations

import asyncio
import contextlib


def numbered(*numbers):
    return b"".join(f"id: {n}\ndata: n{n}\n\n".encode() for n in numbers)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def stream(*pieces, then="hold", head=HEAD):
    """A script: 200 and these pieces; then the stream ends, breaks off in the middle of an event, is reset, or holds."""

    async def play(server, reader, writer):
        writer.write(head)
        for piece in pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write({"end": b"0\r\n\r\n", "break": b"ff\r\nid: 99\ndata: ha"}.get(then, b""))
        if then == "hold":
            await reader.read()
            server.remaining += 1
        elif then == "reset":
            await server.go.wait()
            writer.transport.abort()

    return play


def answer(status, *headers, body=b"", length=None):
    """A script: an answer that is no stream; its body never ends if `length` says more than there is."""

    async def play(server, reader, writer):
        length_line = f"Content-Length: {length or len(body)}"
        writer.write(
            "\r\n".join([f"HTTP/1.1 {status} X", *headers, length_line, "", ""]).encode() + body
        )
        if length is not None:
            await reader.read()

    return play


async def replay(server, reader, writer):
    """A script: 20 events, all after Last-Event-ID, of which each connection carries three and a half."""
    after = int(server.asked[-1].get("Last-Event-ID", 0))
    pieces = [numbered(n) for n in range(after + 1, min(after + 4, 21))]
    await stream(*pieces, then="break" if after < 17 else "hold")(server, reader, writer)


silence = stream(head=b"")


class Server:
    """Plays the next script for each request, the last one for all that follow."""

    def __init__(self, *scripts):
        self.scripts = list(scripts)
        self.asked = []  # the headers of each request, with its first line as "", its body and its time
        self.remaining = 0  # streams that the client closed
        self.go = asyncio.Event()

    async def _serve(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
            asked = dict(line.split(": ", 1) for line in lines)
            asked |= {"": first, "time": asyncio.get_running_loop().time()}
            asked["body"] = await reader.readexactly(int(asked.get("Content-Length", 0)))
            self.asked.append(asked)
            await (self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0])(
                self, reader, writer
            )
        writer.close()

    @contextlib.asynccontextmanager
    async def running(self):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/events"
        yield self
        server.close()
