"""Known-bad variants of the durable client: each is a mistake of real outboxes, and the campaign must catch every one.

Rule: a variant changes one decision and nothing else, in a process of its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from resilient_bridge.protocol import Watermark
from resilient_bridge.stores import SQLiteStore
from tests.internals.client import Driver
from tests.internals.protocol import Outbox, outbound
from tests.internals.stores import sends as sqlite_sends


if TYPE_CHECKING:
    from collections.abc import Callable

_SOON: Final = 0.02  # seconds: short enough to look harmless


def mark_after_send() -> None:
    """Marks a message as sent a moment after it was sent: after a crash in between it counts as provably unsent."""
    mark = SQLiteStore.mark

    def late(self: SQLiteStore, through: int, wall: float) -> None:
        def now() -> None:
            if self._users:
                mark(self, through, wall)

        asyncio.get_running_loop().call_later(_SOON, now)

    SQLiteStore.mark = late  # type: ignore[method-assign, assignment]


def accepted_before_written() -> None:
    """Accepts a message and writes it a moment later."""
    put = SQLiteStore.put

    def late(self: SQLiteStore, entry: Any) -> None:
        def now() -> None:
            if self._users:
                put(self, entry)

        asyncio.get_running_loop().call_later(_SOON, now)

    SQLiteStore.put = late  # type: ignore[method-assign, assignment]


def outcomes_never_written() -> None:
    """Does not store confirmations: each process sends everything again."""
    SQLiteStore.settle = lambda self, entry: None  # type: ignore[method-assign]


def position_before_taken() -> None:
    """Counts a message as read when it arrives: messages not yet consumed at the crash are lost."""
    accept = Watermark.accept

    def eager(self: Watermark, *args: Any, **kwargs: Any) -> None:
        accept(self, *args, **kwargs)
        self.handed = self.taken = self.accepted

    Watermark.accept = eager  # type: ignore[method-assign]
    Watermark.hand = Watermark.take = lambda self: None  # type: ignore[method-assign]


def pop_before_ack() -> None:
    """Deletes a message from the store when it is written to the socket: messages in flight at the crash are lost."""
    hand_out = Outbox.hand_out
    after = Driver.after

    def popping(self: Outbox, now: Any, generation: int) -> Any:
        entry = hand_out(self, now, generation)
        popped.append(entry)
        return entry

    popped: list[Any] = []

    def settling(self: Driver, now: Any) -> None:
        for entry in popped:
            self.store.settle(entry)
        popped.clear()
        after(self, now)

    Outbox.hand_out = popping  # type: ignore[method-assign]
    Driver.after = settling  # type: ignore[method-assign]


def another_id_on_resend() -> None:
    """Gives a message read from the store a new id: the server takes it for a new message."""
    entry_of = sqlite_sends.entry_of

    def renamed(row: Any, handed: Any, now: Any) -> Any:
        new = f"{row.id[:-4]}ffff" if not row.id.endswith("ffff") else f"{row.id[:-4]}0000"
        frame = row.frame.replace(row.id, new)
        return entry_of(row._replace(id=new, frame=frame), handed, now)

    sqlite_sends.entry_of = renamed


def repeats_unflagged() -> None:
    """Treats every replayed message as one that was never consumed."""
    Watermark.was_in_hand = lambda self, key, text, channel=None: False  # type: ignore[method-assign]


def position_seldom_saved() -> None:
    """Saves the position only together with other writes: a crash repeats all messages since then."""
    SQLiteStore.touch = lambda self, taken=0: None  # type: ignore[method-assign]


def order_of_keys() -> None:
    """Reads the outbox back in the order of the keys, as text."""
    restore = outbound.Outbox.restore

    def shuffled(self: Outbox, entries: Any) -> None:
        restore(self, entries)
        for queue in (self.queued, self.unconfirmed):
            ordered = sorted(queue, key=lambda entry: entry.key)
            queue.clear()
            queue.extend(ordered)

    outbound.Outbox.restore = shuffled  # type: ignore[method-assign]
    outbound.Outbox.requeue = _requeue_unsorted  # type: ignore[method-assign]


def _requeue_unsorted(self: Outbox, now: Any, *, same_epoch: bool) -> None:
    del now, same_epoch
    again = [*self.unconfirmed, *self.queued]
    self.unconfirmed.clear()
    self.queued.clear()
    self.queued.extend(again)


#: Name -> the function that installs the mistake.
VARIANTS: Final[dict[str, Callable[[], None]]] = {
    make.__name__: make
    for make in (
        mark_after_send, accepted_before_written, outcomes_never_written, position_before_taken, pop_before_ack,
        another_id_on_resend, repeats_unflagged, position_seldom_saved, order_of_keys,
    )
}  # fmt: skip

#: The attributes that some of them change, for a test that makes the mistake in its own process and undoes it.
CHANGED: Final[dict[str, list[tuple[Any, str]]]] = {
    "accepted_before_written": [(SQLiteStore, "put")],
    "another_id_on_resend": [(sqlite_sends, "entry_of")],
    "repeats_unflagged": [(Watermark, "was_in_hand")],
}


def become(name: str | None) -> None:
    """Install the mistake in this process."""
    if name is not None:
        VARIANTS[name]()
