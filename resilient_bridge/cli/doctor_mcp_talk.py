"""A test client for MCP servers, for `doctor --mcp`: single messages over the sidecar's transports.

Rule: nothing is repeated and nothing is hidden; an answer that does not come in time is None.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from ..adapters.sidecar import eras, message
from ..adapters.sidecar.upstream import LostError
from ..adapters.sidecar.upstream_child import ChildUpstream


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..adapters.sidecar.message import Message
    from ..adapters.sidecar.upstream import Loss, Receiver, Upstream


LATEST: Final = "2025-11-25"
MODERN: Final[Mapping[str, Any]] = {
    eras.VERSION: eras.MODERN,
    eras.CAPABILITIES: {},
    eras.CLIENT: {"name": "resilient-bridge doctor", "version": "0"},
}
_ANSWER: Final = 5.0  # seconds for an answer
_START: Final = 86_400.0  # for the answer to initialize, which `--seconds` ends earlier
_PAGES: Final = 50


class Talk:
    """One connection, as an asynchronous context manager.

    `loss` says why it ended by itself, and `words` has the last lines of the server's stderr, or
    its response body. `noise` counts lines that were no messages. `unanswered` says why the last
    request gets no answer, where the connection knows that.
    """

    def __init__(self, make: Callable[[Receiver], Upstream]) -> None:
        self._upstream = make(self)
        self._answers: dict[int, asyncio.Future[dict[str, Any] | None]] = {}
        self._numbers = 0
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.loss = self.unanswered = ""
        self.noise = 0
        self.words = ""

    @classmethod
    def with_command(cls, command: Sequence[str]) -> Talk:
        """Return a connection to a child process, which is started on entering."""
        return cls(lambda receiver: ChildUpstream(command, receiver))

    async def __aenter__(self) -> Self:
        """Open the connection; if that fails, `loss` says why."""
        try:
            await self._upstream.open()
        except LostError as error:
            self.on_lost(error.loss)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._upstream.close()

    def begin(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        self._numbers += 1
        self.unanswered = ""
        self._answers[self._numbers] = asyncio.get_running_loop().create_future()
        if self.loss:
            self._answers[self._numbers].set_result(None)
        else:
            self._upstream.send(message.request(self._numbers, method, params))
        return self._numbers

    async def answer(self, number: int, seconds: float = _ANSWER) -> dict[str, Any] | None:
        """Return the answer to a request, None if there is none in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._answers[number])
        return None

    async def ask(
        self, method: str, params: Mapping[str, Any] | None = None, seconds: float = _ANSWER
    ) -> dict[str, Any] | None:
        return await self.answer(self.begin(method, params), seconds)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        if not self.loss:
            self._upstream.send(message.notification(method, params))

    def kill(self) -> None:
        """End the child with SIGKILL, as the kernel does when memory runs out."""
        if isinstance(self._upstream, ChildUpstream) and self._upstream.pid:
            with suppress(ProcessLookupError):
                os.kill(self._upstream.pid, getattr(signal, "SIGKILL", signal.SIGTERM))

    async def gone(self, seconds: float) -> str | None:
        """Return why it ended, None if it has not within so many seconds."""
        await asyncio.wait([self._ended], timeout=seconds)
        return self.loss or None

    async def leave(self, seconds: float) -> float | None:
        """Close the child's input; return the seconds until it ended, None if not in time."""
        if not isinstance(self._upstream, ChildUpstream):
            return None
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        self._upstream.close_input()
        return None if await self.gone(seconds) is None else loop.time() - started_at

    # ---- as a Receiver -----------------------------------------------------------------------------------------

    def on_message(self, received: Message, request: int | None) -> None:
        """Store an answer; answer a ping of the server, and refuse its other requests."""
        del request
        if received.is_answer:
            waiting = self._answers.get(received.id) if isinstance(received.id, int) else None
            if waiting is not None and not waiting.done():
                waiting.set_result(received.fields)
        elif received.is_request:
            answer = (
                message.result(received.id, {})
                if received.method == "ping"
                else message.error(received.id, -32601, "not offered")
            )
            self._upstream.send(answer)

    def on_unanswered(self, request: int, loss: Loss) -> None:
        """Record that this request gets no answer."""
        waiting = self._answers.get(request)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
            if request == self._numbers:
                self.unanswered = loss.reason

    def on_lost(self, loss: Loss) -> None:
        """Record that the connection ended by itself, and end all waiting."""
        self.loss, self.words = loss.reason, loss.words
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_result(None)
        if not self._ended.done():
            self._ended.set_result(None)

    def on_note(self, text: str) -> None:
        """Count a line on stdout that was no message; ignore other notes."""
        self.noise += "stdout" in text.split(":", 1)[0]


async def greet(talk: Talk) -> tuple[dict[str, Any] | None, float]:
    """Open a session; return the answer to initialize and how many seconds it took."""
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    info = {"name": "resilient-bridge doctor", "version": "0"}
    params = {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": info}
    answer = await talk.ask("initialize", params, _START)
    seconds = loop.time() - started_at
    if answer is not None and isinstance(answer.get("result"), dict):
        talk.notify("notifications/initialized")
    return answer, seconds


async def tools_of(talk: Talk) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        answer = await talk.ask("tools/list", {} if cursor is None else {"cursor": cursor})
        result = message.object_of(message.object_of(answer).get("result"))
        found += [dict(message.object_of(tool)) for tool in message.list_of(result.get("tools"))]
        cursor = result.get("nextCursor")
        if not cursor:
            break
    return found
