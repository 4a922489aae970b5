"""One HTTP request and its response over ASGI: a bounded body, a JSON answer or an event stream.

Rule: this module handles HTTP, and no sessions. It sends one response, and detects a disconnected
client while it sends a stream.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from . import message as rpc


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, MutableMapping

    from .front_http_stream import MessageStream

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]
    Headers = Iterable[tuple[str, str]]


JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
ABORT: Final = "resilient_bridge.abort"
"""The key in the ASGI `state` of the server's function that aborts the connection."""
ADMIT: Final = "resilient_bridge.admit"
"""The key in the same `state` of the function that admits the client of a connection.

It returns whether there is room for it.
"""

PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32700, -32600, -32603

_STREAM_HEADERS: Final = (
    ("content-type", EVENTS),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)
_KEEP_ALIVE: Final = b": keep-alive\r\n\r\n"


class BodyError(Exception):
    """A body that is too large, too slow, or incomplete.

    `status` is the HTTP status to answer with; 0 if the client has disconnected.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Exchange:
    """One request and its response. Names of headers are in lower case."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.pairs: list[tuple[str, str]] = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
        ]
        # the values of a repeated header are joined by ", ", which no origin and no token contains
        self.headers: dict[str, str] = {}
        for name, value in self.pairs:
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        state: dict[str, Any] = scope.get("state", {})
        self._cut: Callable[[], None] | None = state.get(ABORT)
        self._admit: Callable[[], bool] | None = state.get(ADMIT)
        self._receive, self._send = receive, send

    def admit(self) -> bool:
        """Count the connection as that of a client with access; False if there are too many."""
        return self._admit is None or self._admit()

    def accepts(self, kind: str) -> bool:
        ranges = {
            part.partition(";")[0].strip().lower()
            for part in self.headers.get("accept", "").split(",")
        }
        return not ranges.isdisjoint({kind, kind.partition("/")[0] + "/*", "*/*"})

    async def body(self, size: int, seconds: float) -> bytes:
        """Return the body: at most `size` bytes within `seconds`. Raises BodyError."""
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and len(declared) < 20 and int(declared) > size:
            raise BodyError(413, "Request body too large")
        parts: list[bytes] = []
        room = size
        try:
            async with asyncio.timeout(seconds):
                while True:
                    event = await self._receive()
                    if event["type"] != "http.request":
                        raise BodyError(0, "the client left")
                    parts.append(event.get("body", b""))
                    room -= len(parts[-1])
                    if room < 0:
                        raise BodyError(413, "Request body too large")
                    if not event.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise BodyError(408, "Request body too slow") from None

    async def respond(
        self, status: int, body: str = "", headers: Headers = (), *, kind: str = JSON
    ) -> None:
        data = body.encode("utf-8", "replace")
        own = [("content-length", str(len(data)))] + ([("content-type", kind)] if data else [])
        await self._begin(status, [*own, *headers])
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def refuse(
        self,
        status: int,
        text: str,
        headers: Headers = (),
        *,
        code: int = INVALID_REQUEST,
        id: object = None,
        data: Any = None,
        closes: bool = False,
    ) -> None:
        """Answer with a JSON-RPC error; `id` is that of the request, None if it is not known.

        With `closes` the connection is closed then.
        """
        error: dict[str, Any] = {"code": code, "message": text}
        if data is not None:
            error["data"] = data
        body = json.dumps({"jsonrpc": "2.0", "id": id, "error": error}, separators=(",", ":"))
        # 413 does not close: the server reads and drops the rest of the body, because closing at
        # once would reset the connection and lose the answer.
        closing = [("connection", "close")] if closes or status == 408 else []
        await self.respond(status, body, [*headers, *closing])

    async def read_message(self, size: int, seconds: float) -> rpc.Message | None:
        """Return the message in the body; None if it was refused or the client has disconnected."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            await self.refuse(415, f"Unsupported Media Type: Content-Type must be {JSON}")
            return None
        try:
            body = await self.body(size, seconds)
        except BodyError as error:
            if error.status:
                await self.refuse(error.status, error.text)
            return None
        try:
            return rpc.parse(body)
        except rpc.NotAMessage as error:
            code = INVALID_REQUEST if _is_json(body) else PARSE_ERROR
            await self.refuse(400, f"Body must be one JSON-RPC message: {error}", code=code)
            return None

    async def answer_or_stream(
        self,
        stream: MessageStream,
        headers: Headers,
        *,
        wait: float,
        keep_alive: float,
        status_of: Callable[[str], int] | None = None,
    ) -> bool:
        """Send the answer as JSON if it comes alone within `wait` seconds, else the whole stream.

        Returns as `stream_events` does. `status_of` returns the HTTP status for the text of an
        answer that is sent as JSON; without it, that is 200.
        """
        with self._reading(stream) as gone:
            if wait > 0:
                await _first_event(stream, gone, wait)
            answer = stream.only_answer
            if answer is None:
                return await self._stream(stream, headers, keep_alive, gone)
            await self.respond(status_of(answer.text) if status_of else 200, answer.text, headers)
            return True

    async def stream_events(
        self, stream: MessageStream, headers: Headers, *, keep_alive: float
    ) -> bool:
        """Send events until the stream ends.

        Returns False if the client disconnected or another reader replaced this one before.
        """
        with self._reading(stream) as gone:
            return await self._stream(stream, headers, keep_alive, gone)

    def abort(self) -> None:
        """Abort the connection, if the ASGI server supports that."""
        if self._cut is not None:
            self._cut()

    @contextmanager
    def _reading(self, stream: MessageStream) -> Generator[asyncio.Task[None]]:
        """Attach to a stream; yield a task that ends, and wakes it, when the client disconnects."""
        gone = asyncio.get_running_loop().create_task(self._disconnected())
        gone.add_done_callback(lambda _: stream.wake.set())
        stream.attach(self)
        try:
            yield gone
        finally:
            gone.cancel()
            stream.detach(self)

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _begin(self, status: int, headers: Headers) -> None:
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def _stream(
        self, stream: MessageStream, headers: Headers, keep_alive: float, gone: asyncio.Task[None]
    ) -> bool:
        await self._begin(200, [*_STREAM_HEADERS, *headers])
        while not gone.done() and stream.reader is self:
            stream.wake.clear()
            if chunk := stream.take():
                await self._send_part(chunk)
            elif stream.is_ended:
                await self._send_part(b"", more=False)
                return True
            elif not await _woken(stream, keep_alive):
                await self._send_part(_KEEP_ALIVE)
        await self._send_part(b"", more=False)
        return False

    async def _send_part(self, part: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": part, "more_body": more})


async def _woken(stream: MessageStream, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await stream.wake.wait()
    except TimeoutError:
        return False
    return True


async def _first_event(stream: MessageStream, gone: asyncio.Task[None], seconds: float) -> None:
    """Wait up to `seconds` until a message is queued, the stream ends or the client disconnects."""
    try:
        async with asyncio.timeout(seconds):
            while not (stream.has_messages or stream.is_ended or gone.done()):
                stream.wake.clear()
                await stream.wake.wait()
    except TimeoutError:
        return


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True
