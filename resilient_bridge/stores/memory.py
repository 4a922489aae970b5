"""The default store, in memory: another client of the same object resumes the session."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ..failure.teaching import taught
from ..protocol import Watermark


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..failure import StoreError
    from ..protocol import Entry, Now


class MemoryStore:
    """A store in memory: nothing survives the process.

        bridge = rb.BridgeClient("wss://host/ws", store=rb.stores.MemoryStore())

    It is what a BridgeClient has without `store=`.
    """

    is_durable = False
    on_failure: Callable[[StoreError | None], object] | None = None

    @taught
    def __init__(self) -> None:
        self._sessions: dict[str, Watermark] = {}
        self._entries: dict[str, Entry] = {}
        self._last: str | None = None
        self._last_seq = 0
        self._records: dict[str, str] = {}

    def __repr__(self) -> str:
        """A status line."""
        return f"<MemoryStore sessions={len(self._sessions)} entries={len(self._entries)}>"

    async def open(self, now: Now, *, outbox: bool = True) -> None:
        """Do nothing: there is nothing to open."""

    async def close(self, *, outbox: bool = True) -> None:
        """Do nothing: the next client of this object continues from here."""

    def session(self, session_id: str) -> Watermark:
        """Return the position of this session, a new one if there is none."""
        self._last = session_id
        return self._sessions.setdefault(session_id, Watermark(session_id))

    def drop_session(self, session_id: str) -> None:
        """Drop a session that the server has forgotten."""
        self._sessions.pop(session_id, None)

    def last_session(self) -> str | None:
        """Return the session used last, by the server's name for it."""
        return None if self._last is None else self.session(self._last).session_id

    def touch(self, taken: int = 0) -> None:
        """Do nothing: the client has changed the position itself."""

    def keep(self, watermark: Watermark) -> None:
        """Do nothing: the client has changed the position itself."""

    def entries(self) -> Iterable[Entry]:
        """Return the accepted sends without an outcome."""
        return tuple(self._entries.values())

    def outcomes(self) -> Iterable[Entry]:
        """Return nothing: a client remembers what it settled itself."""
        return ()

    def last_seq(self) -> int:
        """Return the highest sequence number of the accepted sends."""
        return self._last_seq

    def put(self, entry: Entry) -> None:
        """Accept a send."""
        self._entries[entry.id] = entry
        self._last_seq = max(self._last_seq, entry.seq)

    def mark(self, through: int, wall: float) -> None:
        """Do nothing: the entry itself records whether it was handed out."""

    def settle(self, entry: Entry) -> None:
        """Remove a send whose outcome is known."""
        self._entries.pop(entry.id, None)

    def records(self) -> Mapping[str, str]:
        """Return the session records, by session id."""
        return MappingProxyType(self._records)

    def keep_record(self, session_id: str, record: str) -> None:
        """Save a session record."""
        self._records[session_id] = record

    def drop_record(self, session_id: str) -> None:
        """Remove a session record."""
        self._records.pop(session_id, None)
