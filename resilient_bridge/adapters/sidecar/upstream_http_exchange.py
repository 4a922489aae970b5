"""One message to an MCP server over streamable HTTP, and its response: JSON or an event stream.

Rule: messages are independent. The result of a POST is reported for its request, and affects no
other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ...protocol.event_stream import Position
from ...protocol.server_sent import EventStreamParser
from .defects import request_misnamed_by, request_named_in, unusable
from .message import NotAMessage, parse
from .upstream import Loss
from .upstream_http_headers import GET
from .upstream_http_losses import CUT, answer_of, own_answer, too_long
from .upstream_http_wire import Sent, TooLongError, body_of, events_of, is_event_stream


if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from .message import Message
    from .upstream_http_wire import Wire


# seconds that a stream may take to end after its answer; if it does, its connection can be reused
_LINGER: Final = 1.0
_RETRY: Final = 1.0  # seconds before a broken stream is resumed, if the server names none
_SHORTEST, _LONGEST = 0.1, 60.0  # bounds of the seconds that a server may name
_STANDS: Final = 1.0  # seconds after which a resumed stream counts as a success


class Exchange:
    """One message and its POST. `request` is its id if it is a request.

    `is_over` is set when it has its answer, its loss or its acceptance; nothing is reported for it
    afterwards.
    """

    def __init__(self, message: Message) -> None:
        self.message = message
        self.request: int | None = message.id if message.is_request else None
        self.sent = Sent()
        self.is_over = asyncio.Event()
        self.had_session = False
        self.task: asyncio.Task[None] | None = None


class Reading:
    """Reads the responses on a connection, within its bounds, and passes on their messages."""

    def __init__(
        self, wire: Wire, tell: Callable[[Message, int | None], None], note: Callable[[str], None],
        end: Callable[[int | None, Loss], bool],
        *, limit: int, resume_within: float, may_read: asyncio.Event,
    ) -> None:  # fmt: skip
        """Set the callbacks: `tell` gets each message, and the request in whose stream it came.

        `end` ends a request whose answer cannot be used; it returns whether that was an open one.

        While `may_read` is not set, streams are not read, so that the server has to wait.
        """
        self._wire, self._tell, self._note, self._end = wire, tell, note, end
        self._may_read = may_read
        self._limit, self._resume_within = limit, resume_within

    def parser(self) -> EventStreamParser:
        """Return a parser for one stream, also for its resumption on other connections."""
        # bytes that are not UTF-8 stay recognizable: a result must not be changed unnoticed
        return EventStreamParser(max_event_bytes=self._limit, errors="surrogateescape")

    def headers(self, parser: EventStreamParser) -> dict[str, str]:
        """Return the headers of a GET, with `last-event-id` if the parser has a position."""
        position = _position_of(parser)
        again = {} if position is None else {"last-event-id": position}
        return {**GET, **self._wire.session_headers(), **again}

    async def answer(
        self, exchange: Exchange, response: httpx.Response, *, is_resumable: bool
    ) -> Loss | None:
        """Read the answer to a request and pass it on. Returns the loss if there is no answer."""
        request = exchange.request
        assert request is not None  # noqa: S101 -- only a request has an answer
        try:
            if not is_event_stream(response):
                answer = answer_of(await body_of(response, self._limit), request)
                if isinstance(answer, Loss):
                    return answer
                self._tell(answer, request)
                return None
            parser = self.parser()
            await self.events(response, parser, exchange)
            await response.aclose()
            if not exchange.is_over.is_set() and is_resumable:
                await self._resume(exchange, parser)
        except TooLongError:
            return None if exchange.is_over.is_set() else too_long(self._limit)
        except Exception:  # noqa: BLE001 -- any error of a body that has begun
            return CUT
        return None if exchange.is_over.is_set() else CUT

    async def events(
        self, response: httpx.Response, parser: EventStreamParser, exchange: Exchange | None = None
    ) -> bool:
        """Pass on the messages of a stream until it ends or breaks.

        After the answer it has a second to end. Returns whether anything arrived. Raises
        TooLongError.
        """
        heard = False
        loop = asyncio.get_running_loop()
        scope = asyncio.timeout(None)
        try:
            async with scope:
                async for event in events_of(response.aiter_bytes(), parser):
                    heard = True
                    await self._may_read.wait()
                    if event is not None and event.type == "message" and event.data:
                        self._event(event.data, None if exchange is None else exchange.request)
                    if exchange is not None and exchange.is_over.is_set() and scope.when() is None:
                        scope.reschedule(loop.time() + _LINGER)
        except TooLongError:
            raise
        except Exception:  # noqa: BLE001 -- a broken stream has ended; the caller checks the answer
            return heard
        return heard

    def _event(self, data: str, request: int | None) -> None:
        try:
            message = parse(data.encode("utf-8", "surrogateescape"))
        except NotAMessage as error:
            self._note(f"the server sent an event that is no message: {error}")
            self._end(
                request_named_in(data), unusable(f"the answer is no JSON-RPC message: {error}")
            )
            return
        if request is not None and message.is_answer:
            message = own_answer(message, request)
        if not self._end(request_misnamed_by(message), unusable()):
            self._tell(message, request)

    async def _resume(self, exchange: Exchange, parser: EventStreamParser) -> None:
        """Resume a stream after its last event id until the answer has come, or it has failed.

        It has failed if the server refuses it for good, or for `resume_within` seconds.
        """
        loop = asyncio.get_running_loop()
        until: float | None = None
        while _position_of(parser) is not None:
            await asyncio.sleep(pause_of(parser))
            began = loop.time()
            until = began + self._resume_within if until is None else until
            headers = self.headers(parser)
            heard = False
            try:
                response = await self._wire.send("GET", headers, Sent())
                try:
                    if is_event_stream(response):
                        parser.restart(parser.last_event_id)
                        heard = await self.events(response, parser, exchange)
                    elif not is_passing(response.status_code):
                        return
                finally:
                    await response.aclose()
            except TooLongError:
                raise
            except Exception:  # noqa: BLE001, S110 -- not reachable now; the time for it is bounded
                pass
            if exchange.is_over.is_set():
                return
            if heard or loop.time() - began >= _STANDS:
                until = loop.time() + self._resume_within
            elif loop.time() >= until:
                return


def pause_of(parser: EventStreamParser) -> float:
    """Return the seconds before a stream is opened again: the server's `retry`, within bounds."""
    return _RETRY if parser.retry is None else min(max(parser.retry / 1000, _SHORTEST), _LONGEST)


def _position_of(parser: EventStreamParser) -> str | None:
    position = Position(parser.last_event_id).header
    return None if position is None else position.decode()


def is_passing(status: int) -> bool:
    """Return whether a GET refused with this status may succeed later."""
    return status in {408, 425, 429, 500, 502, 503, 504}
