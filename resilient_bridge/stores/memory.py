"""The store of a living process. Give one object to two clients, one after the other, and the second resumes the first."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ..protocol import Watermark


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..errors import StoreError
    from ..protocol import Entry, Now


class MemoryStore:
    """Keeps everything in dictionaries; nothing survives the process."""

    is_durable = False
    on_failure: Callable[[StoreError | None], object] | None = None

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
        """There is nothing to open."""

    async def close(self, *, outbox: bool = True) -> None:
        """There is nothing to close: the next client of this object goes on from here."""

    def session(self, session_id: str) -> Watermark:
        """The position of this session, a fresh one if there is none."""
        self._last = session_id
        return self._sessions.setdefault(session_id, Watermark(session_id))

    def drop_session(self, session_id: str) -> None:
        """The server has forgotten this session."""
        self._sessions.pop(session_id, None)

    def last_session(self) -> str | None:
        """The session used last, by the name the server knows it by."""
        return None if self._last is None else self.session(self._last).session_id

    def touch(self, taken: int = 0) -> None:
        """The position is where the client has it."""

    def keep(self, watermark: Watermark) -> None:
        """The position is where the client has it."""

    def entries(self) -> Iterable[Entry]:
        """What was accepted and never settled."""
        return tuple(self._entries.values())

    def outcomes(self) -> Iterable[Entry]:
        """A client remembers what it settled itself."""
        return ()

    def last_seq(self) -> int:
        """The highest sequence number of what was accepted."""
        return self._last_seq

    def put(self, entry: Entry) -> None:
        """Accept a send."""
        self._entries[entry.id] = entry
        self._last_seq = max(self._last_seq, entry.seq)

    def mark(self, through: int, wall: float) -> None:
        """An entry knows itself whether it was handed out."""

    def settle(self, entry: Entry) -> None:
        """The outcome of this send is known."""
        self._entries.pop(entry.id, None)

    def records(self) -> Mapping[str, str]:
        """The session records, by session id."""
        return MappingProxyType(self._records)

    def keep_record(self, session_id: str, record: str) -> None:
        """Keep a session record."""
        self._records[session_id] = record

    def drop_record(self, session_id: str) -> None:
        """Forget a session record."""
        self._records.pop(session_id, None)
