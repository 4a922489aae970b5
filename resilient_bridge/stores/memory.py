"""The store of a living process. Give one object to two clients, one after the other, and the second resumes the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol import Watermark


if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..protocol import Entry

__all__ = ["MemoryStore"]


class MemoryStore:
    """Keeps everything in dictionaries; nothing survives the process."""

    def __init__(self) -> None:
        self._sessions: dict[str, Watermark] = {}
        self._entries: dict[str, Entry] = {}
        self._last: str | None = None

    def __repr__(self) -> str:
        """A status line."""
        return f"<MemoryStore sessions={len(self._sessions)} entries={len(self._entries)}>"

    def session(self, session_id: str) -> Watermark:
        """The position of this session, a fresh one if there is none."""
        self._last = session_id
        return self._sessions.setdefault(session_id, Watermark(session_id))

    def drop_session(self, session_id: str) -> None:
        """The server has forgotten this session."""
        self._sessions.pop(session_id, None)

    def last_session(self) -> str | None:
        """The session used last."""
        return self._last

    def entries(self) -> Iterable[Entry]:
        """What was accepted and never settled."""
        return tuple(self._entries.values())

    def put(self, entry: Entry) -> None:
        """Accept a send."""
        self._entries[entry.id] = entry

    def forget(self, entry: Entry) -> None:
        """The outcome of this send is known."""
        self._entries.pop(entry.id, None)
