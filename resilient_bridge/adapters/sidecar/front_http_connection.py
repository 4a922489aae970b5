"""One connection of an HTTP front: uvicorn's HTTP/1.1 protocol with a bound for the time of a head.

Rule: a connection is a stranger's until the app admits its client. A stranger's lives for
`head_seconds`, whatever it sends; on that of a client each head may take as long. Only this module
and the one that listens import uvicorn.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, cast

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from .front_http_exchange import ABORT, ADMIT


if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from uvicorn.protocols.http.h11_impl import RequestResponseCycle
    from uvicorn.server import ServerState

    from .front_http_connections import Connections
    from .front_http_exchange import App
    from .front_http_limits import HttpLimits


# seconds: longer than clients keep an idle connection, so that the client closes it
_IDLE: Final = 75
_TOO_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Connection(H11Protocol):
    """A connection; it adds itself to the book, and calls `on_closed` after the last one."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        *,
        head_seconds: float,
        book: Connections,
        logger: logging.Logger,
        on_closed: Callable[[], None],
    ) -> None:
        super().__init__(config, state, {})
        self.logger = logger
        self._seconds, self._book, self._on_closed = head_seconds, book, on_closed
        self._is_admitted = self._has_data = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether its last response is sent, and nothing came since."""
        return self.timeout_keep_alive_task is not None

    def cut(self) -> None:
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app_state = {ABORT: transport.abort, ADMIT: self._admit}
        super().connection_made(transport)
        self._timer = self.loop.call_later(self._seconds, self._on_late)
        self._book.arrived(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._book.closed(self)
        self._stop_timer()
        super().connection_lost(exc)
        if not self.connections:
            self._on_closed()

    def data_received(self, data: bytes) -> None:
        self._has_data = True
        try:
            super().data_received(data)
        except (
            h11.LocalProtocolError
        ):  # what is invalid came after its response, so there is no other
            self._book.on_refused("requests", "a request: it goes on with what is not HTTP")
            self.transport.abort()
            return
        if not self._is_admitted:
            return
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None:  # the beginning of a head
            self._timer = self.loop.call_later(self._seconds, self._on_late)

    def send_400_response(self, msg: str) -> None:
        """Answer in place of the app, which may be working on the head of the same request."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # uvicorn declares no None
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        self._has_data = False
        super().on_response_complete()

    def _admit(self) -> bool:
        # one that was cut is not in the book any more, and must not come into it again
        if not self._is_admitted and not self.transport.is_closing() and self._book.admit(self):
            self._is_admitted = True
            self._stop_timer()
        return self._is_admitted

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_late(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self._has_data and self.conn.states == {h11.CLIENT: h11.IDLE, h11.SERVER: h11.IDLE}:
            text = f"a request: its head took longer than {self._seconds:g} s (--head-timeout)"
            self._book.on_refused("heads", text)
            self.transport.write(_TOO_LATE)
        self.transport.close()
        if self.transport.get_write_buffer_size():  # its client does not read
            self.transport.abort()


def config_of(app: App, limits: HttpLimits) -> Config:
    """Return uvicorn's configuration: HTTP/1.1 and nothing else, and none of its logs."""
    config = Config(
        cast("Any", app),
        http=Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_keep_alive=_IDLE,
    )
    config.load()
    return config


class _Refusals(logging.Handler):
    """Reports what uvicorn logs of a connection: clients cause it, and without a limit."""

    def __init__(self, on_refused: Callable[[str, str], None]) -> None:
        super().__init__()
        self._on_refused = on_refused

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            text = f"a request, by a defect of resilient_bridge: {self.format(record)}"
            self._on_refused("defects", text)
        else:
            self._on_refused("requests", f"a request: {record.getMessage()}")


def logger_of(book: Connections) -> logging.Logger:
    """Return a logger for connections that is not in the tree of loggers, so no other handler has it."""
    logger = logging.Logger("resilient_bridge.http", logging.WARNING)  # noqa: LOG001 -- see above
    logger.addHandler(_Refusals(book.on_refused))
    return logger
