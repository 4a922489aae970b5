"""The WebSocket transport: dials one URL, follows no redirect to another origin, and carries frames
until the link is lost.

Rule: a credential is sent only to the origin of the URL, and only encrypted or to this machine.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from ssl import SSLCertVerificationError, SSLContext
from typing import Any, Final, cast

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosedError, InvalidProxy, InvalidStatus
from websockets.frames import DATA_OPCODES, Frame, Opcode
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from . import tls
from .arrivals import Arrivals
from .loopback import is_ip, is_loopback
from .origin import (
    RedirectRefusedError,
    checked_headers,
    origin_of,
    parse_url,
    redirect_within,
    refuse_credentials,
)
from .racing import first_connected, interleaved
from .websockets_releases import get_proxy, half_received, maker_of, options_of, target_of


# without a version, which would help an attacker more than an operator
USER_AGENT: Final = "resilient_bridge"
# seconds for a peer to end the TCP connection once closing began; then it is aborted
CLOSE_SECONDS: Final = 2.0
MAX_REDIRECTS: Final = 5
NEXT_ADDRESS_SECONDS: Final = 0.25  # RFC 8305, 5
NEXT_TLS_ADDRESS_SECONDS: Final = 1.0  # an attempt over TLS takes more round trips
_QUEUED_BYTES: Final = 64 * 2**20  # limit of the unread frames, but at least two are queued
_REDIRECTS: Final = frozenset({300, 301, 302, 303, 307, 308})

# Parsed at once: a piece of the smallest frames takes 30 ms. Where there are few, as in a large
# message, larger pieces cost less.
_PIECE: Final = 4_096
_LARGE_PIECE: Final = 16_384
_FEW: Final = 64
_FRAMES: Final = 512  # after which the loop goes on

# At level DEBUG, websockets logs headers and frames, and so tokens: a root logger set to DEBUG must
# not get them.
_logger = logging.getLogger(__name__)
_logger.setLevel(logging.INFO)


class WebSocketTransport:
    """One open WebSocket connection, a `Transport`; the native exceptions of websockets surface
    unchanged.
    """

    def __init__(self, ws: Any, address: tuple[str, int] | None = None) -> None:
        """Wrap an open connection: that of `open_websocket()`, or a user's, which is any object
        with `send`, `recv` and `close`.
        """
        self.address = address
        """Host and port that were dialled; None for an HTTP proxy or a wrapped connection."""
        self.keeps_bytes = False
        """Whether a frame that was sent as bytes is received as bytes, even if it is UTF-8."""
        self._ws = ws
        self._aborted = False
        self._is_websockets = isinstance(ws, Connection)
        self._arrivals = ws.arrivals if isinstance(ws, _BoundedConnection) else None
        self._pending: set[asyncio.Future[Any]] = set()

    def __repr__(self) -> str:
        return (
            f"<WebSocketTransport {self.address or 'wrapped'}{' aborted' if self._aborted else ''}>"
        )

    @property
    def half_received(self) -> int | None:
        return half_received(self._ws) if self._is_websockets else None

    async def send(self, *frames: str | bytes) -> None:
        if isinstance(self._ws, _BoundedConnection) and not self._aborted:
            await self._ws.send_frames(frames)
        else:
            for frame in frames:
                if self._is_websockets and not self._aborted:
                    await self._ws.send(frame)
                else:
                    await self._foreign(self._ws.send, frame)
        # An abort wakes a sender that waits for the buffer without an error: raise it here, because
        # the frames are lost.
        if self._aborted:
            raise ConnectionClosedError(None, None)

    def send_now(self, *frames: str | bytes) -> bool:
        """Send frames if that needs no waiting; see `Transport.send_now`. Always False on a
        connection that we did not open.
        """
        return (
            isinstance(self._ws, _BoundedConnection)
            and not self._aborted
            and self._ws.send_frames_now(frames)
        )

    async def receive(self) -> str | bytes:
        """Wait for the next frame and return it as text, or as bytes if it is not UTF-8; see
        `Transport.receive`.

        By default websockets does not decode, because it would close the connection with 1007 for
        text that is not UTF-8. With `keeps_bytes` it decodes: a frame that was sent as bytes is
        returned as bytes, and text that is not UTF-8 closes the connection.
        """
        if self._aborted or not self._is_websockets:
            return await self._foreign(self._ws.recv)  # type: ignore[no-any-return]
        if self.keeps_bytes:
            return await self._ws.recv()  # type: ignore[no-any-return]
        frame: bytes = await self._ws.recv(decode=False)
        try:
            return frame.decode()
        except UnicodeDecodeError:
            return frame

    def receive_now(self) -> str | bytes | None:
        """Return the next frame if it has arrived whole; see `Transport.receive_now`. Always None
        on a connection that we did not open.
        """
        arrivals = self._arrivals
        if arrivals is None or self._aborted:
            return None
        frame = arrivals.take()
        if frame is None:
            return None
        data: Any = frame.data
        if self.keeps_bytes and frame.opcode is Opcode.BINARY:
            return bytes(data)
        try:
            return data.decode()  # type: ignore[no-any-return]
        except UnicodeDecodeError:
            if not self.keeps_bytes:
                return bytes(data)
            arrivals.put_back(frame)  # `receive` then makes websockets close the connection
            return None

    async def ping(self) -> Awaitable[Any] | None:
        """Send a WebSocket ping and return an awaitable that is done when the pong arrives.

        Return None after an abort, or if the connection is not one of websockets.
        """
        return await self._ws.ping() if self._is_websockets and not self._aborted else None

    async def _foreign(self, method: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """Await a call on a connection that may have no abort; `abort()` cancels the call."""
        if self._aborted:
            raise ConnectionClosedError(None, None)
        call = asyncio.ensure_future(method(*arguments))
        self._pending.add(call)
        try:
            return await call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._aborted and not (task and task.cancelling()):
                raise ConnectionClosedError(None, None) from None
            raise
        finally:
            self._pending.discard(call)

    def abort(self) -> None:
        if self._aborted:
            return
        self._aborted = True
        abort = getattr(getattr(self._ws, "transport", None), "abort", None)
        if abort is not None:
            abort()
        for call in tuple(self._pending):
            call.cancel()
        if abort is None:  # only its own close releases its resources
            farewell = asyncio.ensure_future(self._let_go())
            self._pending.add(farewell)
            farewell.add_done_callback(self._pending.discard)

    async def _let_go(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._ws.close()
        except Exception:
            _logger.debug("closing an aborted connection failed", exc_info=True)

    async def close(self, code: int = 1000) -> None:
        """Close with a closing handshake and this code; see `Transport.close`. A connection that we
        opened is closed after 2 s at most.
        """
        if not self._aborted:
            await self._ws.close(code)
        elif self._is_websockets:
            await self._ws.wait_closed()
        else:
            await asyncio.gather(*self._pending, return_exceptions=True)


async def open_websocket(
    url: str,
    *,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ssl: SSLContext | None = None,
    pin: str | bytes | Iterable[str] | None = None,
    address: tuple[str, int] | None = None,
    max_frame_bytes: int,
    subprotocols: Sequence[str] = (),
    allow_plaintext_credentials: bool = False,
    has_credentials: bool = False,
    resolved: Callable[[tuple[str, int]], None] | None = None,
) -> WebSocketTransport:
    """Dial a ws:// or wss:// URL and return the open transport.

    The caller limits the whole (DNS, TCP, TLS, upgrade) with one `asyncio.timeout`; a cancelled
    call leaves no connection open. `pin` is the SHA-256 of the peer's certificate
    (`tls.parse_pin`), or several; `ssl` the caller's own context; if both are given, both are checked.
    `address` is dialled in place of the URL's host, whose name stays in Host, SNI and certificate
    check; `resolved` is called with the first address that DNS returned, even if the attempt fails.
    Redirects are followed within the origin, five at most. `max_frame_bytes` limits a received
    message: a longer one closes the connection with code 1009. `subprotocols` are offered in order
    of preference. The environment's HTTP proxy is used, except for this machine.

    Raises `InsecureURLError`, `RedirectRefusedError`, `ValueError` (headers, pin), or the network's
    own errors, unchanged: `OSError` (with errno), `ssl.SSLError`, and websockets' `InvalidURI`,
    `InvalidStatus` and other handshake errors. The error of a refused certificate has the
    certificate's notAfter time as `certificate_expiry` if it could be read. No error contains the
    URL's user or query.
    """
    target = parse_url(url)
    pairs = checked_headers(headers)
    is_local = is_loopback(target.host) and (address is None or is_loopback(address[0]))
    if not (target.secure or is_local or allow_plaintext_credentials):
        refuse_credentials(target, pairs, has_credentials=has_credentials)
    options = _tls_options(target, ssl, pin)
    # A proxy would look up "localhost" on its own machine, and get the credentials on the way.
    proxy = None if is_local else get_proxy(target)
    if proxy is None and address is not None:
        options["host"], options["port"] = address

    try:
        opening = _Connect(
            url,
            additional_headers=pairs,
            user_agent_header=USER_AGENT,
            compression=None,
            proxy=proxy,
            open_timeout=None,
            ping_interval=None,
            close_timeout=CLOSE_SECONDS,
            max_size=max_frame_bytes,
            subprotocols=[Subprotocol(name) for name in subprotocols] or None,
            max_queue=max(2, min(64, _QUEUED_BYTES // max(1, max_frame_bytes))),
            write_limit=2**16,
            logger=_logger,
            create_connection=_BoundedConnection,
            **options,
        )
        opening.resolved = resolved
        ws = await opening
    except SSLCertVerificationError as error:
        if proxy is None:
            await tls.explain_refusal(error, *(address or (target.host, target.port)), target.host)
        raise
    except InvalidProxy as error:
        raise InvalidProxy(
            "the environment's proxy", error.msg
        ) from None  # its address may hold a password
    peer: Any = None if proxy is not None else ws.remote_address
    return WebSocketTransport(ws, None if peer is None else (peer[0], peer[1]))


def _tls_options(
    target: WebSocketURI, ssl: SSLContext | None, pin: str | bytes | Iterable[str] | None
) -> dict[str, Any]:
    if target.secure:
        context = tls.shared_default_context() if ssl is None else ssl
        return {
            "ssl": context if pin is None else tls.pinned_context(pin, ssl),
            "ssl_shutdown_timeout": CLOSE_SECONDS,
        }
    if pin is not None or ssl is not None:
        raise ValueError(
            f"{'ssl' if pin is None else 'pin'}: wanted a wss:// url, got {origin_of(target)}"
        )
    return {}


class _BoundedConnection(ClientConnection):
    """A connection that is aborted if the peer does not end it within CLOSE_SECONDS of the start of
    closing, and that lets the loop go on between a few hundred frames: 256 KiB, which is what a
    transport reads at once, may hold 131,072, and would stop it for seconds.
    """

    arrivals: Arrivals | None = None
    _deadline: asyncio.TimerHandle | None = None
    _unfed: bytearray | None = None  # what was received and is not parsed yet
    _frames = 0  # parsed in this iteration of the loop
    _is_full = False  # too many messages are unread

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        frames: Any = getattr(self, "recv_messages", None)
        # `recv_messages` is internal to websockets: if a release has no such attribute, its own
        # slower queue is used.
        if all(hasattr(frames, name) for name in ("high", "pause", "resume")):
            self.arrivals = Arrivals(
                frames.high or 0, partial(self._fill, True), partial(self._fill, False)
            )
            self.recv_messages = cast("Any", self.arrivals)

    def _fill(self, is_full: bool) -> None:
        self._is_full = is_full
        self._set_reading()

    def _set_reading(self) -> None:
        if self._is_full or self._unfed is not None:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def process_event(self, event: Any) -> None:
        self._frames += 1
        if self.arrivals is not None and type(event) is Frame and event.opcode in DATA_OPCODES:
            self.arrivals.put(event)
        else:
            super().process_event(event)

    async def send_frames(self, frames: Iterable[str | bytes]) -> None:
        if not self.send_frames_now(frames):
            # `send_context` waits, or raises the error that ended the connection
            async with self.send_context():
                self._write(frames)
        elif self.paused:
            await self.drain()

    def send_frames_now(self, frames: Iterable[str | bytes]) -> bool:
        """Send frames if nothing has to be waited for. False: nothing was sent."""
        if self.paused or self.protocol.state is not State.OPEN or self.transport.is_closing():
            return False
        self._write(frames)
        return True

    def _write(self, frames: Iterable[str | bytes]) -> None:
        """Write all frames in one call, text as text and bytes as binary frames: a system call costs
        more than all other work for a small frame.
        """
        for frame in frames:
            if type(frame) is bytes:
                self.protocol.send_binary(frame)
            else:
                self.protocol.send_text(frame.encode())  # type: ignore[union-attr] # pyright: ignore[reportAttributeAccessIssue]
        self.transport.write(b"".join(self.protocol.data_to_send()))

    def data_received(self, data: bytes) -> None:
        if self._unfed is not None:
            self._unfed += data
        elif len(data) <= _PIECE:
            self._feed(data)
        else:
            self._unfed = bytearray(data)
            self._feed_pieces()

    def _feed_pieces(self) -> None:
        """Parse what was received, or as much of it as one iteration of the loop may."""
        unfed = self._unfed
        if unfed is None:  # the connection has ended
            return
        self._frames = position = 0
        while position < len(unfed) and self._frames < _FRAMES:
            piece = unfed[
                position : position + (_LARGE_PIECE if position and self._frames < _FEW else _PIECE)
            ]
            position += len(piece)
            self._feed(bytes(piece))
        del unfed[:position]
        if unfed:
            self.loop.call_soon(self._feed_pieces)
        else:
            self._unfed = None
        self._set_reading()

    def _feed_rest(self) -> None:
        unfed, self._unfed = self._unfed, None
        if unfed:
            self._feed(bytes(unfed))

    def eof_received(self) -> None:
        self._feed_rest()
        super().eof_received()

    def _feed(self, data: bytes) -> None:
        super().data_received(data)
        # websockets applies its close timeout in send() and close() only. A reader would wait until
        # the peer ends the connection, for example while it goes on sending a 50 MB frame that was
        # answered with 1009.
        if self._deadline is None and self.protocol.state is State.CLOSING:
            self._deadline = self.loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._feed_rest()
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)


class _Connect(connect):
    """websockets' `connect`, with staggered attempts to all addresses of a name, and redirects only
    inside the origin.
    """

    _redirects = 0
    resolved: Callable[[tuple[str, int]], None] | None = None

    async def open_tcp_connection(self) -> ClientConnection:
        return await self._raced(super().open_tcp_connection)

    async def create_connection(self) -> ClientConnection:  # the method's name up to websockets 16
        return await self._raced(cast("Any", super()).create_connection)

    async def _raced(self, open_one: Callable[[], Awaitable[ClientConnection]]) -> ClientConnection:
        here, options = target_of(self), dict(options_of(self))
        if self.proxy is not None or "host" in options or is_ip(here.host):
            return await open_one()
        loop, make = asyncio.get_running_loop(), maker_of(self)
        if here.secure:
            options.setdefault("server_hostname", here.host)

        async def dial(host: str) -> ClientConnection:
            _, connection = await loop.create_connection(
                lambda: make(here), host, here.port, **options
            )
            return connection

        infos = await loop.getaddrinfo(here.host, here.port, type=socket.SOCK_STREAM)
        hosts = interleaved(infos)
        if hosts and self.resolved is not None:
            self.resolved((hosts[0], here.port))
        return await first_connected(
            [partial(dial, host) for host in hosts],
            NEXT_TLS_ADDRESS_SECONDS if here.secure else NEXT_ADDRESS_SECONDS,
            lambda connection: connection.transport.abort(),
        )

    def process_redirect(self, exc: Exception) -> Exception | str:
        if not isinstance(exc, InvalidStatus) or exc.response.status_code not in _REDIRECTS:
            return exc
        location = exc.response.headers.get_all("Location")
        if not location:
            return exc
        self._redirects += 1
        if self._redirects > MAX_REDIRECTS:
            return RedirectRefusedError(
                f"redirect refused: wanted at most {MAX_REDIRECTS}, got one more"
            )
        try:
            return redirect_within(self.uri, location[0])
        except RedirectRefusedError as refusal:
            return refusal
