"""How a client reaches its bridge: an own WebSocket per attempt, or one the user opens himself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .supervisor import ask


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from ssl import SSLContext

    from ..policies import Dialect, Reconnect
    from ..transports import Transport
    from ..transports.websocket import WebSocketTransport
    from .supervisor import Dial

__all__ = ["dial_factory", "dial_url"]


def dial_url(
    url: Any,
    *,
    token: Any,
    headers: Any,
    pin: str | None,
    ssl: SSLContext | None,
    reconnect: Reconnect,
    dialect: Dialect,
) -> Dial:
    """Dial `url`; URL, token and headers are asked for on each attempt. Without an auth message the token is a header."""

    async def dial(address: tuple[str, int] | None) -> tuple[Transport, str | None]:
        from ..transports.websocket import open_websocket

        where: str = await ask(url)
        secret: str | None = await ask(token)
        extra: Mapping[str, str] = dict(await ask(headers) or {})
        if dialect.auth is None and secret is not None:
            extra = {**extra, "Authorization": f"Bearer {secret}"}
        transport = await open_websocket(
            where,
            headers=extra,
            ssl=ssl,
            pin=pin,
            address=address,
            max_frame_bytes=dialect.max_frame_bytes,
            allow_plaintext_credentials=reconnect.allow_plaintext_credentials,
            has_credentials=secret is not None,
        )
        return transport, secret

    return dial


def dial_factory(factory: Callable[[], AbstractAsyncContextManager[Any]], token: Any) -> Dial:
    """Enter the user's context manager on each attempt; it is left again when the connection ends."""

    async def dial(address: tuple[str, int] | None) -> tuple[Transport, str | None]:
        del address  # the user's own business
        from ..transports.websocket import WebSocketTransport

        secret: str | None = await ask(token)
        entered = factory()
        websocket = await entered.__aenter__()
        return _Entered(WebSocketTransport.wrap(websocket), entered), secret

    return dial


class _Entered:
    """A wrapped connection and the context manager it came from, which is left when the connection closes."""

    address = None

    def __init__(self, transport: WebSocketTransport, entered: AbstractAsyncContextManager[Any]) -> None:
        self._transport = transport
        self._entered: AbstractAsyncContextManager[Any] | None = entered
        self.send = transport.send
        self.receive = transport.receive
        self.abort = transport.abort

    async def close(self, code: int = 1000) -> None:
        entered, self._entered = self._entered, None
        try:
            await self._transport.close(code)
        finally:
            if entered is not None:
                task = asyncio.ensure_future(entered.__aexit__(None, None, None))
                await asyncio.shield(task)
