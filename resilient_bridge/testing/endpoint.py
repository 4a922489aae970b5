"""The sockets of the simulated network: asyncio transports with flow control, and the listener.

Rule: a program sees what it would see of asyncio on real TCP: the same order of callbacks and the
same errors, each in the context in which the socket was opened.
"""

# asyncio's own flow control is used, so that buffers and pauses are counted as in its socket
# transports.
# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import errno
import socket
import struct
from asyncio.transports import _FlowControlMixin
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final, cast

from .link import Direction, Sign
from .timeline import Timeline


Address = tuple[Any, ...]

_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER with which a close is a reset


class SimulatedSocket:
    """The socket in `get_extra_info("socket")` and `server.sockets`: names and options only."""

    def __init__(
        self, family: socket.AddressFamily, name: Address, peer: Address | None = None
    ) -> None:
        self.family = family
        self.type = socket.SOCK_STREAM
        self.proto = socket.IPPROTO_TCP
        self._name = name
        self._peer = peer
        self._options: dict[tuple[int, int], int | bytes] = {}

    def __repr__(self) -> str:
        return f"<SimulatedSocket {self._name} {self._peer or 'listening'}>"

    def getsockname(self) -> Address:
        return self._name

    def getpeername(self) -> Address:
        """Return the address of the other end; OSError (ENOTCONN) on a listener."""
        if self._peer is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return self._peer

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """Store an option.

        Only SO_LINGER with zero seconds has an effect: the next close is a reset.
        """
        self._options[level, option] = value

    def getsockopt(self, level: int, option: int, _size: int = 0) -> int | bytes:
        return self._options.get((level, option), 0)

    def fileno(self) -> int:
        """Return -1: no file descriptor exists."""
        return -1

    def is_reset_on_close(self) -> bool:
        """Return whether a close loses the bytes in flight."""
        return self._options.get((socket.SOL_SOCKET, socket.SO_LINGER)) == _RESET


class SimulatedTransport(_FlowControlMixin):
    """One end of a link as an asyncio socket transport: write buffer, pausing, FIN, reset."""

    _maybe_pause_protocol: Callable[[], None]
    _maybe_resume_protocol: Callable[[], None]

    def __init__(
        self, loop: Timeline, sock: SimulatedSocket, incoming: Direction, outgoing: Direction
    ) -> None:
        names = {"socket": sock, "sockname": sock.getsockname(), "peername": sock.getpeername()}
        super().__init__(names, loop)
        self.context = copy_context()
        self.is_gone = False
        self.on_gone: Callable[[], None] | None = None
        self._timeline = loop
        self._socket = sock
        self._incoming = incoming
        self._outgoing = outgoing
        self._buffer = bytearray()
        self._protocol: asyncio.Protocol | None = None
        self._is_paused = False
        self._is_closing = False
        self._is_eof_written = False

    def __repr__(self) -> str:
        return f"<SimulatedTransport {self._socket!r} {'closing' if self._is_closing else 'open'}>"

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Give the connection to its protocol; bytes that have already arrived follow."""
        self._protocol = cast("asyncio.Protocol", protocol)
        self._protocol.connection_made(self)
        self._incoming.arm()

    # -- the asyncio.Transport interface ------------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast("asyncio.BaseProtocol", self._protocol)

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        """Return whether arriving bytes are passed to the protocol."""
        return self._protocol is not None and not (self._is_paused or self._is_closing)

    def pause_reading(self) -> None:
        """Leave arriving bytes in the network, which then holds the sender back."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Read what has arrived, and what will arrive."""
        self._is_paused = False
        self._incoming.arm()

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; on a closed transport they are dropped, as asyncio does."""
        if self._is_eof_written:
            msg = "Cannot call write() after write_eof()"  # asyncio's own text
            raise RuntimeError(msg)
        if self.is_gone or not data:
            return
        if self._is_paused and self._incoming.holds_reset():
            self.fail(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            return
        self._buffer += data
        self._drain()
        self._maybe_pause_protocol()

    def write_foreign(self, data: bytes) -> None:
        """Send bytes that the program did not write."""
        if not (self.is_gone or self._is_eof_written):
            self._buffer += data
            self._drain()

    def can_write_eof(self) -> bool:
        """Return True: each direction can be closed alone."""
        return True

    def write_eof(self) -> None:
        """Close the writing direction once the buffer is sent."""
        if not (self._is_eof_written or self._is_closing):
            self._is_eof_written = True
            if not self._buffer:
                self._outgoing.sign(Sign.FIN)

    def close(self) -> None:
        """Stop reading, send the buffered bytes, then close."""
        if not self._is_closing:
            self._is_closing = True
            if self._buffer:
                self._incoming.arm()  # no reader is left, but a reset ends the wait
            else:
                self._finish(None)

    def abort(self) -> None:
        """Close now; buffered bytes are lost, and bytes that the network has taken still arrive."""
        self._buffer.clear()
        self._finish(None)

    # -- callbacks of the network -------------------------------------------------------------------------------

    def on_data(self, data: bytes) -> None:
        """Pass bytes to the protocol; if it raises, its connection is lost."""
        try:
            cast("asyncio.Protocol", self._protocol).data_received(data)
        except Exception as error:  # noqa: BLE001 - as asyncio: reported, and the connection ends
            self._fatal(error, "Fatal error: protocol.data_received() call failed.")

    def on_sign(self, sign: Sign) -> None:
        if sign is Sign.RESET:
            self.fail(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
        elif self.is_reading():
            try:
                stays_open = cast("asyncio.Protocol", self._protocol).eof_received()
            except Exception as error:  # noqa: BLE001 - as asyncio
                self._fatal(error, "Fatal error: protocol.eof_received() call failed.")
                return
            if not stays_open:
                self.close()

    def fail(self, error: Exception) -> None:
        self._buffer.clear()
        self._finish(error)

    def _fatal(self, error: Exception, message: str) -> None:
        self._timeline.call_exception_handler(
            {"message": message, "exception": error, "transport": self}
        )
        self.fail(error)

    def pump(self) -> None:
        """Send more, now that the reader has made room."""
        if self._buffer:
            self._drain()
            self._maybe_resume_protocol()

    def _drain(self) -> None:
        buffer, outgoing = self._buffer, self._outgoing
        while buffer and (room := outgoing.weather.window - outgoing.in_flight) > 0:
            chunk = bytes(buffer[:room])
            del buffer[:room]
            outgoing.send(chunk)
        if not buffer:
            if self._is_closing:
                self._finish(None)
            elif self._is_eof_written:
                outgoing.sign(Sign.FIN)

    def _finish(self, error: Exception | None) -> None:
        if self.is_gone:
            return
        self._is_closing = self.is_gone = True
        # Closing with unread bytes is a reset on every real system: the peer loses what is in
        # flight.
        if self._incoming.holds_data() or self._socket.is_reset_on_close():
            self._outgoing.end(Sign.RESET, lose=True)
        elif not self._is_eof_written:
            self._outgoing.sign(Sign.FIN)
        self._incoming.arm()
        self._timeline.call_soon(self._lost, error, context=self.context)

    def _lost(self, error: Exception | None) -> None:
        try:
            if self._protocol is not None:
                self._protocol.connection_lost(error)
        finally:
            if self.on_gone is not None:
                self.on_gone()


class Listener(asyncio.AbstractServer):
    """The result of `create_server`: accepts links in the context in which it was made."""

    def __init__(
        self, loop: Timeline, factory: Callable[[], asyncio.BaseProtocol], sock: SimulatedSocket
    ) -> None:
        self.context = copy_context()
        self._loop = loop
        self._factory = factory
        self._socket = sock
        self._clients: dict[SimulatedTransport, None] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._is_serving = False
        self._is_closed = False
        self.on_close: Callable[[], None] | None = None

    @property
    def sockets(self) -> tuple[SimulatedSocket, ...]:
        """The listening socket; none once closed."""
        return () if self._is_closed else (self._socket,)

    def accept(self, transport: SimulatedTransport) -> None:
        """Accept a connection; its protocol is made and called in the loop's next iteration."""
        self._clients[transport] = None
        transport.on_gone = lambda: self._detach(transport)
        self._loop.call_soon(self._welcome, transport, context=transport.context)

    def _welcome(self, transport: SimulatedTransport) -> None:
        if not transport.is_gone:
            transport.start(self._factory())

    def _detach(self, transport: SimulatedTransport) -> None:
        del self._clients[transport]
        self._wake()

    def _wake(self) -> None:
        if self._is_closed and not self._clients:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def is_serving(self) -> bool:
        return self._is_serving

    async def start_serving(self) -> None:
        self._is_serving = not self._is_closed

    async def serve_forever(self) -> None:
        await self.start_serving()
        try:
            await self._loop.create_future()
        finally:
            self.close()

    def close(self) -> None:
        """Stop accepting; open connections continue."""
        if not self._is_closed:
            self._is_closed, self._is_serving = True, False
            if self.on_close is not None:
                self.on_close()
            self._wake()

    def close_clients(self) -> None:
        for transport in tuple(self._clients):
            transport.close()

    def abort_clients(self) -> None:
        for transport in tuple(self._clients):
            transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the listener is closed and every connection has ended (on 3.11 too)."""
        if not self._is_closed or self._clients:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter
