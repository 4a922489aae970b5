"""What a session needs from a store: positions and unsettled sends. Stores implement it; the core only calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol


if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from .entries import Entry
    from .watermark import Watermark

__all__ = ["Store"]


class Store(Protocol):
    """One client's memory. A durable store returns an awaitable from `put`; `send()` returns when it is done."""

    def session(self, session_id: str) -> Watermark:
        """The position of this session, a fresh one if there is none."""
        ...

    def drop_session(self, session_id: str) -> None:
        """The server has forgotten this session."""
        ...

    def last_session(self) -> str | None:
        """The session used last, to be resumed when the caller names none."""
        ...

    def entries(self) -> Iterable[Entry]:
        """What was accepted and never settled, in any order."""
        ...

    def put(self, entry: Entry) -> Awaitable[None] | None:
        """Accept a send, before anything moves."""
        ...

    def forget(self, entry: Entry) -> None:
        """The outcome of this send is known."""
        ...
