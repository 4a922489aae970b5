"""A double on real loopback, behind aiohttp's server or the one of `websockets`. Tests enter one and get its ws:// URL.

`async with serving_websockets(double) as url:` gives the base URL as text, and `url.drop()` cuts every socket without a
close handshake. An error in a double is raised where the block ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Protocol, Self

from aiohttp import WSMsgType, web
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tests.bridges.doubles.base import Double
from tests.bridges.doubles.socket import Closed, Socket


class _Adapted(Socket, Protocol):
    def abort(self) -> None:
        """Cut the connection."""


class Address(str):
    """The base URL, without a slash at its end, and the sockets that are open there."""

    __slots__ = ("_double", "_sockets", "_tasks")
    _double: Double
    _sockets: set[_Adapted]
    _tasks: list[asyncio.Task[None]]

    def __new__(cls, port: int, double: Double) -> Self:
        """Text like any other."""
        address = super().__new__(cls, f"ws://127.0.0.1:{port}")
        address._double = double
        address._sockets = set()
        address._tasks = []
        return address

    def drop(self) -> None:
        """Cut every socket without a close handshake."""
        for socket in [*self._sockets]:
            socket.abort()

    async def serve(self, socket: _Adapted) -> None:
        """Let the double serve a socket; what goes wrong there is raised by `stop`."""
        task = asyncio.get_running_loop().create_task(self._double.serve(socket))
        self._tasks.append(task)
        self._sockets.add(socket)
        await asyncio.wait([task])
        self._sockets.discard(socket)

    async def stop(self) -> None:
        """End what is served; raise what was wrong in the double."""
        self.drop()
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


class _WebsocketsSocket:
    """A server connection of `websockets`."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        assert connection.request is not None
        self.path, self.headers = connection.request.path, connection.request.headers

    async def recv(self) -> str | bytes:
        try:
            return await self._connection.recv()
        except ConnectionClosed as closed:
            raise self._end(closed) from closed

    async def send(self, frame: str | bytes) -> None:
        try:
            await self._connection.send(frame)
        except ConnectionClosed as closed:
            raise self._end(closed) from closed

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if code == 1006:
            self.abort()
        else:
            await self._connection.close(None if code == 1005 else code, reason)  # type: ignore[arg-type]

    def abort(self) -> None:
        self._connection.transport.abort()

    def _end(self, closed: ConnectionClosed) -> ConnectionError:
        if closed.rcvd is not None:
            return Closed(closed.rcvd.code, closed.rcvd.reason)
        return ConnectionResetError("the connection is lost")


class _AiohttpSocket:
    """A WebSocketResponse of aiohttp."""

    def __init__(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        self._request, self._socket = request, socket
        self.path, self.headers = request.path_qs, request.headers

    async def recv(self) -> str | bytes:
        message = await self._socket.receive()
        if message.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
            return message.data
        if message.type is WSMsgType.CLOSE:
            raise Closed(message.data or 1005, message.extra or "")
        raise ConnectionResetError("the connection is lost")

    async def send(self, frame: str | bytes) -> None:
        if isinstance(frame, str):
            await self._socket.send_str(frame)
        else:
            await self._socket.send_bytes(frame)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if code == 1006:
            self.abort()
        elif code != 1005:
            await self._socket.close(code=code, message=reason.encode())
        elif (
            self._socket._writer is not None
        ):  # aiohttp has no public call for a close frame without a code
            await self._socket._writer.send_frame(b"", WSMsgType.CLOSE)

    def abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()


def _as_response(answer: tuple[int, Any]) -> Response:
    body = json.dumps(answer[1]).encode()
    headers = Headers(
        {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
    )
    return Response(answer[0], HTTPStatus(answer[0]).phrase, headers, body)


def _is_upgrade(headers: Mapping[str, str]) -> bool:
    return headers.get("Upgrade", "").lower() == "websocket"


@asynccontextmanager
async def serving_websockets(double: Double) -> AsyncIterator[Address]:
    """Serve a double with `websockets`, in whatever loop runs; GET requests without an upgrade go to `double.rest`."""

    def process(connection: ServerConnection, request: Request) -> Response | None:
        if not _is_upgrade(request.headers):
            answer = double.rest(request.method, request.path, request.headers)
            return _as_response(answer or (404, {}))
        status = double.refuse(request.path, request.headers)
        return None if status is None else connection.respond(HTTPStatus(status), "refused\n")

    async def handle(connection: ServerConnection) -> None:
        await address.serve(_WebsocketsSocket(connection))

    options: dict[str, Any] = {"ping_interval": None, "max_size": None, "close_timeout": 1}
    async with serve(handle, "127.0.0.1", 0, process_request=process, **options) as server:
        address = Address(server.sockets[0].getsockname()[1], double)
        try:
            yield address
        finally:
            await address.stop()


@asynccontextmanager
async def serving_aiohttp(double: Double) -> AsyncIterator[Address]:
    """Serve a double with aiohttp; requests of any method without an upgrade go to `double.rest`."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if not _is_upgrade(request.headers):
            status, body = double.rest(request.method, request.path_qs, request.headers) or (
                404,
                {},
            )
            return web.json_response(body, status=status)
        status = double.refuse(request.path_qs, request.headers)
        if status is not None:
            return web.Response(status=status, text="refused\n")
        socket = web.WebSocketResponse(timeout=1, max_msg_size=0)
        await socket.prepare(request)
        await address.serve(_AiohttpSocket(request, socket))
        return socket

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = Address(runner.addresses[0][1], double)
        try:
            yield address
        finally:
            await address.stop()
    finally:
        await runner.cleanup()
