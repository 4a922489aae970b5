"""The listening socket of the HTTP front: how it ends. What it serves is in test_front_http.py."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.internals.adapters import HttpLimits, listening


pytestmark = pytest.mark.real


@pytest.mark.parametrize("reads", [True, False])
async def test_a_response_that_the_client_has_not_read_is_still_sent_at_the_end(reads):
    """The app has ended and its last bytes wait for the socket; a client that never reads delays the end by `close_seconds` only."""
    body, sent = b"x" * 2**23, asyncio.Event()

    async def app(scope, receive, send):
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        sent.set()

    serving = AsyncExitStack()
    limits = HttpLimits(close_seconds=30 if reads else 0.1)
    port = await serving.enter_async_context(listening(app, "127.0.0.1", 0, limits))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    await sent.wait()
    closing = asyncio.create_task(serving.aclose())
    await asyncio.wait([closing], timeout=0)
    async with asyncio.timeout(20):
        if reads:
            assert (await reader.read()).partition(b"\r\n\r\n")[2] == body
        await closing
    writer.close()
