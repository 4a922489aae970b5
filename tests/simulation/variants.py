"""Known-bad variants of the core: each is a mistake that real clients make, and the campaign must catch every one.

Rule: a variant changes one decision and nothing else, in place, for the length of a `with` block.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from resilient_bridge.bridge import Verdict
from resilient_bridge.protocol import EntryState, Watermark
from tests.internals.protocol import (
    Cut,
    EnvelopeLink,
    Joining,
    Outbox,
    Outcome,
    Reconnection,
    Rejoin,
    read_replay,
)
from tests.internals.protocol import rejoin as rejoin_module


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def _patched(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for target, name, value in changes:
            stack.enter_context(patch.object(target, name, value))
        yield


def exclusive_watermark() -> Any:
    """Asks for what is newer than the last timestamp, and believes the answer: siblings of one second are lost."""

    def since(self: Watermark, overlap: float, server_time: Any) -> str | None:
        del overlap, server_time
        return self._stamp

    def cut(answer: Any, watermark: Watermark) -> Cut:
        last = watermark._stamp or ""
        at = next(
            (i for i, item in enumerate(answer) if (item.message.raw_timestamp or "") > last),
            len(answer),
        )
        return Cut("anchor", at, at)

    return _patched((Watermark, "since", since), (rejoin_module, "cut", cut))


def pop_before_ack() -> Any:
    """Takes a message off the queue when it is written: what was in flight at the loss is gone."""
    hand_out = Outbox.hand_out

    def popping(self: Outbox, now: Any, generation: int) -> Any:
        entry = hand_out(self, now, generation)
        self._end(entry, EntryState.CONFIRMED, confirmation="read")
        return entry

    return _patched((Outbox, "hand_out", popping))


def no_dedupe() -> Any:
    """Delivers every answer whole."""
    return _patched(
        (rejoin_module, "cut", lambda answer, watermark: Cut("anchor", 0, 0)),
        (Rejoin, "_is_new", lambda self, item: True),
    )


def backoff_reset_on_connect() -> Any:
    """Starts the schedule over as soon as a connection was accepted: accept-then-close becomes a storm."""
    connected = Reconnection.connected

    def resetting(self: Reconnection) -> None:
        connected(self)
        self.attempt, self._previous, self.failed = 0, None, 0
        self._tokens = self._most_tokens = float(self._policy.connect_burst)

    return _patched((Reconnection, "connected", resetting))


def live_before_replay() -> Any:
    """Delivers live messages while the replay is still on its way."""

    def message(self: EnvelopeLink, type_: str, body: dict[str, Any], text: str, now: Any) -> None:
        if not self._is_answer(type_, body, now):
            self._in.live(type_, body, text, now)

    return _patched((EnvelopeLink, "_message", message))


def client_clock_watermark() -> Any:
    """Asks for what came since the last message by its own clock, and believes the answer."""
    accept = Watermark.accept
    seen: dict[int, float] = {}

    def noting(self: Watermark, *args: Any, **kwargs: Any) -> None:
        seen[id(self)] = asyncio.get_running_loop().wall()  # type: ignore[attr-defined]
        accept(self, *args, **kwargs)

    def since(self: Watermark, overlap: float, server_time: Any) -> str | None:
        del overlap, server_time
        wall = seen.get(id(self))
        return (
            None
            if wall is None
            else datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        )

    return _patched(
        (Watermark, "accept", noting),
        (Watermark, "since", since),
        (rejoin_module, "cut", lambda answer, watermark: Cut("anchor", 0, 0)),
    )


def watermark_before_consumer() -> Any:
    """Counts a message as read when it arrives: a crash loses what the consumer never saw."""
    accept = Watermark.accept

    def eager(self: Watermark, *args: Any, **kwargs: Any) -> None:
        accept(self, *args, **kwargs)
        self.handed = self.taken = self.accepted

    return _patched((Watermark, "accept", eager))


def resend_after_window() -> Any:
    """Sends again whatever is unconfirmed, however old: the server has forgotten the key and applies it twice."""
    return _patched((Outbox, "_unrepeatable", lambda self, entry, now, same_epoch: None))


def late_answer_merged() -> Any:
    """Delivers an answer that comes after the verdict."""
    on_replay = Joining.on_replay

    def merging(self: Joining, body: dict[str, Any], now: Any) -> None:
        if self.rejoin is not None:
            on_replay(self, body, now)
            return
        for item in read_replay(body, self._is_content, self._counts, now)[0]:
            message = item.message
            fields = {
                "id": message.id,
                "timestamp": message.raw_timestamp,
                "payload": message.payload,
            }
            self._in.live(message.type, fields, item.text, now)

    return _patched((Joining, "on_replay", merging))


def always_unknown() -> Any:
    """Never claims anything: honest, and useless."""
    resolve = Rejoin.resolve

    def shrugging(self: Rejoin) -> Outcome:
        outcome = resolve(self)
        return (
            outcome
            if outcome.verdict is None
            else outcome._replace(verdict=Verdict.UNKNOWN, reason="empty")
        )

    return _patched((Rejoin, "resolve", shrugging))


#: Name -> what makes the mistake.
VARIANTS: Final[dict[str, Callable[[], Any]]] = {
    make.__name__: make
    for make in (
        exclusive_watermark, pop_before_ack, no_dedupe, backoff_reset_on_connect, live_before_replay,
        client_clock_watermark, watermark_before_consumer, resend_after_window, late_answer_merged, always_unknown,
    )
}  # fmt: skip
