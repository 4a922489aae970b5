"""The connections to one MCP server over HTTP: one for each request under way, used again by the next.

Rule: a request looks at its own connection alone. The pool of an HTTP client looks at all of them at each request and at each end, which
for fifty under way costs more than the requests do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import httpx


if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator


_IDLE_SECONDS: Final = (
    3.0  # an unused connection: below the 5 s after which Node and uvicorn close theirs, under a request
)
_MOST_IDLE: Final = 100  # connections that wait for a request
_GOODBYE: Final = 1.0


class Lanes:
    """Sends requests, each over a connection of its own: HTTP/1.1, because httpx resets no stream of HTTP/2, so that a
    cancellation would not arrive, and one failure would be everybody's.
    """

    def __init__(self, verify: ssl.SSLContext, proxy: str | None) -> None:
        """`proxy`: the URL of the one that requests go through. Raises what httpx raises for one that it cannot use."""
        self._verify, self._proxy = verify, None if proxy is None else httpx.Proxy(proxy)
        self._free: deque[tuple[httpx.AsyncHTTPTransport, float]] = deque()
        self._all: set[httpx.AsyncHTTPTransport] = set()
        self._keep(self._made())

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Return the answer with its body unread; until it is closed, its connection is its own. Raises what httpx raises."""
        lane = self._free.pop()[0] if self._free else self._made()
        try:
            response = await lane.handle_async_request(request)
        except BaseException:
            self._keep(lane)
            raise
        response.request = request
        response.stream = _Body(response.stream, lane, self)
        return response

    async def give_back(self, lane: httpx.AsyncHTTPTransport) -> None:
        """Let the next request have a connection, and close those that no request had for long."""
        self._keep(lane)
        oldest = asyncio.get_running_loop().time() - _IDLE_SECONDS
        while self._free and (self._free[0][1] < oldest or len(self._free) > _MOST_IDLE):
            unused = self._free.popleft()[0]
            self._all.discard(unused)
            with suppress(Exception):
                await unused.aclose()

    async def close(self) -> None:
        """Close every connection, within about a second."""
        lanes, self._all = self._all, set()
        self._free.clear()
        with suppress(Exception):
            async with asyncio.timeout(_GOODBYE):
                for lane in lanes:
                    await lane.aclose()

    def _made(self) -> httpx.AsyncHTTPTransport:
        lane = httpx.AsyncHTTPTransport(
            verify=self._verify,
            http2=False,
            proxy=self._proxy,
            limits=httpx.Limits(keepalive_expiry=_IDLE_SECONDS),
        )
        self._all.add(lane)
        return lane

    def _keep(self, lane: httpx.AsyncHTTPTransport) -> None:
        if lane in self._all:
            self._free.append((lane, asyncio.get_running_loop().time()))


class _Body(httpx.AsyncByteStream):
    """A body that gives its connection back when it is closed."""

    def __init__(self, stream: object, lane: httpx.AsyncHTTPTransport, lanes: Lanes) -> None:
        assert isinstance(stream, httpx.AsyncByteStream)  # noqa: S101 -- an async transport has no other
        self._stream, self._lane, self._lanes = stream, lane, lanes
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._stream.aclose()
        finally:
            await self._lanes.give_back(self._lane)
