"""A connection around another one, which translates if the server refuses the client's era of MCP.

Rule: the client's first messages are sent as they are, without a probe. Only if the server refuses
their era is the other one probed; if that is refused as well, the client gets the first refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from . import message
from .eras import CAPABILITIES, CLIENT, MODERN, VERSION, LegacyClient, ModernClient


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .message import Message
    from .upstream import Loss, Receiver, Upstream

    Then: TypeAlias = Callable[[Message | None], None]


_PROBE: Final = -1  # the id of our own request; the relay's ids are not negative
_LATEST_LEGACY: Final = "2025-11-25"
_NOT_REFUSALS: Final = frozenset({-32603})  # internal error: the server knows the era


class BothErasUpstream:
    """An `Upstream` around the one that `make` returns."""

    def __init__(self, make: Callable[[Receiver], Upstream], receiver: Receiver) -> None:
        self._receiver = receiver
        self._inner = make(self)
        self._front: LegacyClient | ModernClient | None = None
        self._opening: Message | None = None  # an initialize that is not answered yet
        # requests of 2026-07-28, while it is not known whether the server knows them
        self._tried: dict[int, Message] = {}
        self._is_modern = False  # it knows them
        # messages of the client while the other era is tried
        self._held: list[Message] | None = None
        # requests that were refused in the first era
        self._refusals: list[tuple[Message, Message]] = []
        self._then: Then | None = None

    # ---- as a connection ---------------------------------------------------------------------------------------

    async def open(self) -> None:
        await self._inner.open()

    async def close(self) -> None:
        await self._inner.close()

    def cancel(self, request: int) -> None:
        self._tried.pop(request, None)
        self._refusals = [pair for pair in self._refusals if pair[0].id != request]
        if self._held is not None:
            self._held = [one for one in self._held if not one.is_request or one.id != request]
        # a server with sessions does not treat a closed stream as a cancellation
        if isinstance(self._front, ModernClient):
            note = message.notification("notifications/cancelled", {"requestId": request})
            self._do(self._front.from_client(note))
        self._inner.cancel(request)

    def set_reading(self, *, is_reading: bool) -> None:
        self._inner.set_reading(is_reading=is_reading)

    def know_tools(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self._inner.know_tools(tools)

    def send(self, received: Message) -> None:
        if self._held is not None:
            self._held.append(received)
        elif self._front is not None:
            self._do(self._front.from_client(received))
        else:
            if received.method == "initialize":
                self._opening = received
            elif received.is_request and not self._is_modern and VERSION in received.meta:
                self._tried[received.id] = received
            self._inner.send(received)

    # ---- as the receiver of the connection behind --------------------------------------------------------------

    def on_message(self, received: Message, request: int | None) -> None:
        if self._then is not None and received.is_answer and received.id == _PROBE:
            then, self._then = self._then, None
            then(received)
        elif self._front is not None:
            self._do(self._front.from_server(received, request))
        elif (
            self._held is not None
            and received.is_answer
            and "error" in received.fields
            and received.id in self._tried
        ):
            self._refusals.append((self._tried.pop(received.id), received))
        elif received.is_answer and not self._is_known(received):
            self._try_other(received)
        else:
            self._receiver.on_message(received, request)

    def on_unanswered(self, request: int, loss: Loss) -> None:
        if request == _PROBE and self._then is not None:
            then, self._then = self._then, None
            then(None)
            return
        self._tried.pop(request, None)
        if self._opening is not None and self._opening.id == request:
            self._opening = None
        theirs = request if self._front is None else self._front.unanswered(request)
        if theirs is not None:
            self._receiver.on_unanswered(theirs, loss)
        elif isinstance(self._front, ModernClient):
            self._do(self._front.subscribed(request, is_accepted=False))

    def on_lost(self, loss: Loss) -> None:
        self._then = None
        unread = set(loss.unread)
        if self._front is not None:
            theirs = map(self._front.unanswered, loss.unread)
            unread = {number for number in theirs if number is not None}
        unread.update(one.id for one in self._held or () if one.is_request)  # never sent
        unread.update(refused.id for refused, _ in self._refusals)
        self._receiver.on_lost(attrs.evolve(loss, unread=frozenset(unread)))

    def on_note(self, text: str) -> None:
        self._receiver.on_note(text)

    # ---- the other era -----------------------------------------------------------------------------------------

    def _is_known(self, answer: Message) -> bool:
        """Return False if an answer of the server refuses the client's era, else True."""
        is_opening = self._opening is not None and answer.id == self._opening.id
        tried = self._tried.pop(answer.id, None) if isinstance(answer.id, int) else None
        if not is_opening and tried is None:
            return True
        if "error" not in answer.fields or answer.error.get("code") in _NOT_REFUSALS:
            self._is_modern |= tried is not None
            self._tried.clear()
            self._opening = None
            return True
        if tried is not None:
            self._tried[answer.id] = tried
            # A client that sends `server/discover` handles the refusal itself: it can use
            # `initialize`.
            return tried.method == "server/discover"
        return False

    def _try_other(self, refusal: Message) -> None:
        self._held = []
        opening, self._opening = self._opening, None
        if opening is not None:
            meta = {VERSION: MODERN, CAPABILITIES: opening.params.get("capabilities", {})}
            self._then = lambda answer: self._tried_modern(
                refusal, None if answer is None else _legacy_front(opening, answer)
            )
            self._inner.send(message.request(_PROBE, "server/discover", {"_meta": meta}))
            return
        first = self._tried.pop(refusal.id)
        self._refusals.append((first, refusal))
        info = first.meta.get(CLIENT, {"name": "resilient-bridge", "version": "0"})
        hello: dict[str, Any] = {
            "protocolVersion": _LATEST_LEGACY,
            "capabilities": {},
            "clientInfo": info,
        }
        self._then = self._tried_legacy
        self._inner.send(message.request(_PROBE, "initialize", hello))

    def _tried_modern(self, refusal: Message, front: LegacyClient | None) -> None:
        if front is None:
            self._receiver.on_message(refusal, None)
        else:
            self._front = front
            self._receiver.on_note(
                f"the server speaks MCP {MODERN} only, the client an earlier version: translated"
            )
            self._receiver.on_message(front.opened(), None)
        self._release()

    def _tried_legacy(self, answer: Message | None) -> None:
        if answer is None or "error" in answer.fields:
            self._tried.clear()
            self._is_modern = True
            for _, refusal in self._refusals:
                self._receiver.on_message(refusal, None)
        else:
            self._front = ModernClient(answer)
            self._receiver.on_note(
                f"the client speaks MCP {MODERN}, the server an earlier version: translated, without what a server asks"
            )
            self._inner.send(message.notification("notifications/initialized"))
            self._tried.clear()
            for request, _ in self._refusals:
                self._do(self._front.from_client(request))
        self._refusals = []
        self._release()

    def _release(self) -> None:
        held, self._held = self._held or [], None
        for one in held:
            self.send(one)

    def _do(self, out: Any) -> None:
        for one in out.to_server:
            self._inner.send(one)
        for one, about in out.to_client:
            self._receiver.on_message(one, about)


def _legacy_front(opening: Message, answer: Message) -> LegacyClient | None:
    versions = answer.result.get("supportedVersions")
    return (
        LegacyClient(opening, answer) if isinstance(versions, list) and MODERN in versions else None
    )
