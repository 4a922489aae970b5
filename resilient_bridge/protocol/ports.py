"""What a client needs from a store: positions, unsettled sends and what became of settled ones.

Stores implement it. Rule: an accepted send is stored, as durably as the store promises, before
`send()` returns; and what is handed out is marked before a byte is sent, so that after a crash it
is known what may have arrived. A method that returns an awaitable has done its work when that is
done; None means that it is done already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ..failure import StoreError
    from .clock import Now
    from .entries import Entry
    from .watermark import Watermark


class Store(Protocol):
    """One client's memory.

    `is_durable`: what it has accepted outlives the process; a client that ends leaves the rest to
    the next one.

    `on_failure` is called with failures that no caller waits for (a position, an outcome: they are
    tried again), and with None when the store works again.
    """

    on_failure: Callable[[StoreError | None], object] | None

    @property
    def is_durable(self) -> bool:
        """Return whether anything outlives this process."""
        ...

    async def open(self, now: Now, *, outbox: bool = True) -> None:
        """Become the one owner, and load. Raises StoreError: in use, away, damaged beyond use.

        Not `outbox`: for the session records alone, which one client and any number of others of
        this process may share.
        """

    async def close(self, *, outbox: bool = True) -> None:
        """Save the exact position, and release the store with its last user.

        May be called again.
        """

    def session(self, session_id: str) -> Watermark:
        """Return the position of this session, a fresh one if there is none."""
        ...

    def drop_session(self, session_id: str) -> None:
        """The server has forgotten this session."""

    def last_session(self) -> str | None:
        """Return the session used last, to be resumed when the caller names none."""

    def touch(self, taken: int = 0) -> Awaitable[None] | None:
        """The position may have moved: save it within 100 ms.

        `taken`: so many messages are about to be handed out.

        The caller awaits what it returns before it hands them out. Raises StoreError, as does the
        awaitable, if a crash could bring back more than 64 of them, or bring them back as new: then
        none may be handed out.
        """

    def keep(self, watermark: Watermark) -> Awaitable[None] | None:
        """Save this position now: a join is about to be sent, and a later process must know of it."""

    def entries(self) -> Iterable[Entry]:
        """Return what was accepted and never settled, in any order."""
        ...

    def outcomes(self) -> Iterable[Entry]:
        """Return what earlier processes accepted and settled, as far as it is remembered, oldest
        first.
        """
        ...

    def last_seq(self) -> int:
        """Return the highest sequence number ever used in this store."""
        ...

    def put(self, entry: Entry) -> Awaitable[None] | None:
        """Accept a send, before any of it is sent. Raises StoreError: it was not accepted."""

    def mark(self, through: int, wall: float) -> Awaitable[None] | None:
        """Mark entries up to this number: they may be sent from now on.

        Raises StoreError: none of them may.
        """

    def settle(self, entry: Entry) -> None:
        """Save the outcome of this send."""

    def records(self) -> Mapping[str, str]:
        """Return the session records, by session id, the oldest first."""
        ...

    def keep_record(self, session_id: str, record: str) -> Awaitable[None] | None:
        """Save a session record; it replaces an earlier one. Raises StoreError."""

    def drop_record(self, session_id: str) -> Awaitable[None] | None:
        """Forget a session record. Raises StoreError."""
