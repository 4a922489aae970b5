"""The connections to one MCP server over HTTP: one per request in progress, reused by the next.

Rule: a request has a connection for itself. The pool of httpx scans all connections when a request
begins and when it ends, which costs more than the requests themselves if fifty are in progress.
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


# seconds idle; less than the 5 s after which Node and uvicorn close, maybe during a new request
_IDLE_SECONDS: Final = 3.0
_MOST_IDLE: Final = 100  # idle connections that are kept
_GOODBYE: Final = 1.0


class Lanes:
    """Sends requests, each over its own HTTP/1.1 connection.

    Not HTTP/2: httpx does not reset its streams, so a server would not notice a cancellation, and
    one failure would affect every request.
    """

    def __init__(self, verify: ssl.SSLContext, proxy: str | None) -> None:
        """Prepare one transport; `proxy` is the URL of a proxy for all requests.

        Raises what httpx raises for a proxy that it cannot use.
        """
        self._verify, self._proxy = verify, None if proxy is None else httpx.Proxy(proxy)
        self._free: deque[tuple[httpx.AsyncHTTPTransport, float]] = deque()
        self._all: set[httpx.AsyncHTTPTransport] = set()
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._keep(self._made())

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Send a request; return the response with its body unread.

        Its connection is free again when the response is closed. Raises what httpx raises, and
        after `close` httpx.ConnectError.
        """
        self._refuse_closed(request)
        lane = self._free.pop()[0] if self._free else self._made()
        try:
            response = await lane.handle_async_request(request)
            self._refuse_closed(request)
        except BaseException:
            # Its state is unknown: it may hold a connection that would never be used or closed.
            await self._drop(lane)
            raise
        response.request = request
        response.stream = _Body(response.stream, lane, self)
        return response

    async def give_back(self, lane: httpx.AsyncHTTPTransport, *, is_usable: bool) -> None:
        """Keep a connection for the next request, or close it."""
        if not is_usable or lane not in self._all or len(self._free) >= _MOST_IDLE:
            await self._drop(lane)
        else:
            self._keep(lane)

    async def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._free.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                for lane in [*self._all]:
                    await self._drop(lane)

    def _refuse_closed(self, request: httpx.Request) -> None:
        if self._is_closed:
            raise httpx.ConnectError("the connection is closed", request=request)

    async def _drop(self, lane: httpx.AsyncHTTPTransport) -> None:
        self._all.discard(lane)
        with suppress(Exception):
            await lane.aclose()

    def _expire(self) -> None:
        """Close connections that have been idle for `_IDLE_SECONDS`, before their servers do."""
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._free and self._free[0][1] <= loop.time() - _IDLE_SECONDS:
            task = loop.create_task(
                self._drop(self._free.popleft()[0]), name="resilient_bridge mcp idle"
            )
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        if self._free:
            self._timer = loop.call_at(self._free[0][1] + _IDLE_SECONDS, self._expire)

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
        loop = asyncio.get_running_loop()
        self._free.append((lane, loop.time()))
        if self._timer is None:
            self._timer = loop.call_later(_IDLE_SECONDS, self._expire)


class _Body(httpx.AsyncByteStream):
    """A response body that returns its connection when it is closed."""

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
        is_usable = False
        try:
            await self._stream.aclose()
            is_usable = True
        finally:
            await self._lanes.give_back(self._lane, is_usable=is_usable)
