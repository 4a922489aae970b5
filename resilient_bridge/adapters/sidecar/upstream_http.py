"""A connection to an MCP server over streamable HTTP: one session, or requests of 2026-07-28.

Sessions are those of 2024-11-05 to 2025-11-25. Rule: each POST has a task, and its failure affects
its own request only. An unknown session affects all requests, and is reported for each separately.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import attrs

from ...client.cancelled import ended
from ...failure import Executed
from ...failure.extras import how_to_install
from ...failure.rpc import is_session_error
from ...world import current_world
from .upstream import Loss, Upstream
from .upstream_http_exchange import Exchange, Reading
from .upstream_http_headers import POST, SESSION, marks_of, modern_headers, modern_version
from .upstream_http_losses import SESSION_GONE, answer_in_refusal, loss_of_error, loss_of_status
from .upstream_http_notices import Notices
from .upstream_http_wire import Sent, Wire, refusal_of


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx

    from .message import Message
    from .upstream import Receiver


_INITIALIZED: Final = "notifications/initialized"
_CANCELLED: Final = "notifications/cancelled"
_ACCEPTED: Final = 10.0  # seconds that requests wait for a server to accept "initialized"
_GOODBYE: Final = 2.0  # seconds for the tasks to end, and again for DELETE


class HTTPUpstream(Upstream):
    """One connection to an MCP server over streamable HTTP; see `Upstream` for its interface.

    `headers` are sent with every request, and never to another origin. `open` reads the secrets
    that they name; a 401 reads them again, and the request is sent once more if they have changed.
    Credentials over http:// to another machine are refused by `open` unless
    `allow_plaintext_credentials`.

    `max_message` bounds the bytes of an answer or an event. `connect_timeout` is in seconds; there
    is no limit for the time of an answer. A broken stream with event ids is resumed, as long as
    that succeeds within `resume_within` seconds. A message is of 2026-07-28 if its `_meta` names a
    version.
    """

    def __init__(
        self,
        url: str,
        *,
        receiver: Receiver,
        headers: Mapping[str, str] | None = None,
        max_message: int = 64 * 2**20,
        connect_timeout: float = 10.0,
        resume_within: float = 30.0,
        allow_plaintext_credentials: bool = False,
    ) -> None:
        self._url, self._headers, self._receiver = url, dict(headers or {}), receiver
        self._connect_timeout, self._allow = connect_timeout, allow_plaintext_credentials
        self._max_message, self._resume_within = max_message, resume_within
        self._open: dict[int, Exchange] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._barriers: tuple[Exchange, ...] = ()  # they have to end before a later message is sent
        self._marks: dict[str, Any] = {}
        self._modern = ""  # the version of the last message of 2026-07-28 or later
        self._is_gone = self._is_closed = self._is_lost = False
        self._may_read = asyncio.Event()
        self._may_read.set()

    async def open(self) -> None:
        """Prepare the client; nothing is sent.

        Raises LostError for a URL, headers, secrets or a proxy that cannot be used.
        """
        self._wire = Wire(
            self._url,
            self._headers,
            connect_timeout=self._connect_timeout,
            allow_plaintext_credentials=self._allow,
        )
        self._reading = Reading(
            self._wire,
            self._tell,
            self._note,
            self._end,
            limit=self._max_message,
            resume_within=self._resume_within,
            may_read=self._may_read,
        )

    def know_tools(self, tools: Sequence[Mapping[str, Any]]) -> None:
        """Remember which arguments are also sent as headers."""
        try:
            self._marks |= marks_of(tools)
        except ImportError:
            self._note(f"tools name arguments for headers: wanted {how_to_install('mcp')}")

    def set_reading(self, *, is_reading: bool) -> None:
        """Pause or resume reading event streams; an answer as JSON, which has a bound, still comes."""
        if is_reading:
            self._may_read.set()
        else:
            self._may_read.clear()

    # ---- sending ----------------------------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Send a message in its own task, after an earlier `initialize` or its notification."""
        if self._is_closed:
            return
        self._modern = (
            "" if message.method == "initialize" else modern_version(message) or self._modern
        )
        cancelled: object = (
            message.params.get("requestId") if message.method == _CANCELLED else None
        )
        about = self._open.get(cancelled) if isinstance(cancelled, int) else None
        if message.method == _CANCELLED and self._modern and not self._wire.version:
            if about is not None:  # since 2026-07-28 closing its stream cancels it
                self.cancel(about.request or 0)
            return
        exchange = Exchange(message)
        if exchange.request is not None:
            self._open[exchange.request] = exchange
        barriers = self._barriers = tuple(
            barrier for barrier in self._barriers if not barrier.is_over.is_set()
        )
        if message.method in {"initialize", _INITIALIZED}:
            self._barriers = (*barriers, exchange)
        self._start(exchange, barriers, about)

    def _start(
        self, exchange: Exchange, barriers: tuple[Exchange, ...], about: Exchange | None
    ) -> None:
        task = asyncio.get_running_loop().create_task(
            self._go(exchange, barriers, about), name="resilient_bridge mcp post"
        )
        exchange.task = task
        self._tasks.add(task)

        def over(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            exchange.is_over.set()
            exchange.sent.is_whole.set()

        task.add_done_callback(over)

    async def _go(
        self, exchange: Exchange, barriers: tuple[Exchange, ...], about: Exchange | None
    ) -> None:
        try:
            for barrier in barriers:
                await _passed(barrier)
            if about is not None:
                await about.sent.is_whole.wait()
                if not about.sent.is_started:
                    return  # the server never received it
            await self._post(exchange)
        except Exception as error:  # noqa: BLE001 -- any error of the HTTP client is classified
            sent = exchange.sent
            loss = loss_of_error(
                error,
                is_started=sent.is_started,
                hops=sent.hops,
                is_known=self._wire.is_known,
                now_wall=current_world().loop_wall(),
            )
            self._ended(exchange, loss)

    async def _post(self, exchange: Exchange) -> None:
        message, wire = exchange.message, self._wire
        is_first = message.method == "initialize"
        version = modern_version(message) or ("" if wire.version else self._modern)
        if version and not is_first:
            headers = modern_headers(message, version, self._marks)
        else:
            headers = {} if is_first else wire.session_headers()
        exchange.had_session = SESSION in headers
        response = await wire.send(
            "POST", {**POST, **headers}, exchange.sent, message.text.encode()
        )
        try:
            if not 200 <= response.status_code < 300:
                await self._refused(exchange, response)
                return
            wire.is_known = True
            if is_first:
                wire.session = response.headers.get(SESSION, "")
                wire.secrets.learn(wire.session)
            if exchange.request is not None:
                loss = await self._reading.answer(exchange, response, is_resumable=not version)
                self._ended(exchange, loss)
                return
            await refusal_of(response)  # its connection is reusable once the body is read
            exchange.is_over.set()
            if message.method == _INITIALIZED and not version:
                self._listen()
        finally:
            await response.aclose()

    async def _refused(self, exchange: Exchange, response: httpx.Response) -> None:
        body, status, request = await refusal_of(response), response.status_code, exchange.request
        loss = loss_of_status(
            status,
            response.headers,
            body,
            had_session=exchange.had_session,
            is_known=self._wire.is_known,
            now_wall=current_world().loop_wall(),
        )
        if status == 401 and self._wire.unreadable:
            loss = attrs.evolve(loss, reason=f"{loss.reason}; {self._wire.unreadable}")
        answer = (
            None
            if request is None or loss.is_session_gone
            else answer_in_refusal(status, body, request)
        )
        if answer is not None:
            self._tell(answer, request)
        else:
            self._ended(exchange, loss)

    # ---- reporting ----------------------------------------------------------------------------------------------------

    def _tell(self, message: Message, request: int | None) -> None:
        """Pass on a message of the server; an answer ends its exchange, on whichever stream."""
        if self._is_closed or (
            request is not None and request not in self._open and message.is_answer
        ):
            return
        if message.is_answer and isinstance(message.id, int) and message.id in self._open:
            if self._open[message.id].had_session and is_session_error(message.error):
                self._end(message.id, SESSION_GONE)
                return
            exchange = self._open.pop(message.id)
            request = exchange.request if request is None else request
            version = message.result.get("protocolVersion")
            if exchange.message.method == "initialize" and isinstance(version, str):
                self._wire.version = version
            exchange.is_over.set()
        self._receiver.on_message(message, request)
        self._lost_when_idle()

    def _ended(self, exchange: Exchange, loss: Loss | None) -> None:
        """Handle the end of a POST: report its loss, unless the exchange is over already."""
        if self._is_closed or loss is None or exchange.is_over.is_set():
            return
        exchange.is_over.set()
        self._is_gone |= loss.is_session_gone
        secrets = self._wire.secrets
        loss = attrs.evolve(loss, reason=secrets.text(loss.reason), words=secrets.text(loss.words))
        if exchange.request is None:
            self._note(f"{exchange.message.method or 'an answer'} was not accepted: {loss.reason}")
        elif self._open.pop(exchange.request, None) is not None:
            self._receiver.on_unanswered(exchange.request, loss)
        self._lost_when_idle()

    def _end(self, request: int | None, loss: Loss) -> bool:
        """End a request whose answer cannot be used; return whether it is an open one."""
        exchange = None if request is None else self._open.get(request)
        if exchange is None:
            return False
        self._ended(exchange, loss)
        return True

    def _note(self, text: str) -> None:
        if not self._is_closed:
            self._receiver.on_note(self._wire.secrets.text(text))

    # ---- what the server says by itself -----------------------------------------------------------------------------

    def _listen(self) -> None:
        notices = Notices(self._wire, self._reading, self._note)

        async def listen() -> None:
            if await notices.listen():
                self._is_gone = self._is_lost = True
                self._lost_when_idle()

        task = asyncio.get_running_loop().create_task(listen(), name="resilient_bridge mcp notices")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _lost_when_idle(self) -> None:
        """Report a session that the GET stream found unknown, once no request is open."""
        if self._is_lost and not self._open and not self._is_closed:
            self._is_lost = False
            loss = Loss(
                reason="the session is unknown", executed=Executed.MAYBE, is_session_gone=True
            )
            self._receiver.on_lost(loss)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def cancel(self, request: int) -> None:
        """Close the stream of this request; nothing is reported for it afterwards."""
        exchange = self._open.pop(request, None)
        if exchange is None:
            return
        exchange.is_over.set()
        if exchange.task is not None:
            exchange.task.cancel()
        self._lost_when_idle()

    async def close(self) -> None:
        """Close all streams, the session (DELETE) if the server knows it, and all connections.

        Takes about 5 s at most.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._open.clear()
        if not hasattr(self, "_wire"):
            return
        await ended(
            asyncio.get_running_loop().create_task(self._leave(), name="resilient_bridge mcp close")
        )

    async def _leave(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_GOODBYE)
        if self._wire.session and not self._is_gone:
            with suppress(Exception):
                async with asyncio.timeout(_GOODBYE):
                    response = await self._wire.send("DELETE", self._wire.session_headers(), Sent())
                    await response.aclose()
        await self._wire.close()


async def _passed(barrier: Exchange) -> None:
    """Wait for the answer to `initialize`, or at most `_ACCEPTED` seconds for a notification."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_ACCEPTED if barrier.request is None else None):
            await barrier.is_over.wait()
