"""An aiohttp server that counts the requests it ran for each key, for tests that break the connection in between.

Rule: a request is counted when it has been read whole, before a byte of the answer is sent; tests compare with `ran`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from aiohttp import web

from tests.peers.ports import HOST, Port


Respond = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


class Effects:
    """`async with Effects() as far:`; `ran` counts requests by `?key=` or the header X-Key, `port` is where it listens.

    Every answer is a model's, with `size` bytes of text. `respond` may answer instead, after the effect was counted.
    """

    def __init__(self, *, size: int = 10, respond: Respond | None = None) -> None:
        """Create the server; it does not listen yet."""
        self.ran: Counter[str] = Counter()
        self.size = size
        self.respond = respond
        self._port = Port()
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port.number

    def url(self, path: str = "/") -> str:
        """The address without a proxy."""
        return f"http://{HOST}:{self.port}{path}"

    @property
    def repeated(self) -> dict[str, int]:
        """The keys that ran more than once."""
        return {key: count for key, count in self.ran.items() if count > 1}

    async def __aenter__(self) -> Self:
        """Listen."""
        await self._runner.setup()
        await web.SockSite(self._runner, self._port.listen()).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every connection."""
        await self._runner.cleanup()
        self._port.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.ran[request.query.get("key") or request.headers.get("x-key", "")] += 1
        if self.respond is not None and (response := await self.respond(request)) is not None:
            return response
        message = {"role": "assistant", "content": "x" * self.size}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return web.json_response(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [choice],
            }
        )
