"""The replay buffer of a session: a correct one, and the seed's as printed.

Rule: entries stay in the order in which they were pushed, whatever their timestamps are; the bounds
drop the oldest.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable

import attrs

from .server_wire import ENCODE


@attrs.frozen
class Entry:
    """One pushed message: its text as sent, its time, and the stamp's resolution in ms."""

    text: str
    size: int  # bytes on the wire, the separator included
    stamp: int  # milliseconds since 1970, rounded down to the resolution
    step: int
    at: float  # seconds of the loop's clock: the age must not jump with the wall clock


class ReplayBuffer:
    """At most `bytes` and `age` of the newest messages (100 KB, 30 min); `since` is inclusive and
    stable.
    """

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._size = 0
        self.keep: int | None = None  # a limit on the count, for tests that need a gap

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: Entry, *, limit: int, age: float) -> None:
        """Add a message, and drop the oldest until size, age and count are within bounds."""
        self._entries.append(entry)
        self._size += entry.size
        self.trim(entry.at, limit=limit, age=age)

    def trim(self, now: float, *, limit: int, age: float) -> None:
        entries = self._entries
        while entries and (
            self._size > limit
            or now - entries[0].at > age
            or (self.keep is not None and len(entries) > self.keep)
        ):
            self._size -= entries.popleft().size

    def since(self, instant: int | None, *, exclusive: bool = False) -> list[str]:
        """Return the texts from that instant (milliseconds) on, in order; without one, all."""
        if instant is None:
            return [entry.text for entry in self._entries]
        if exclusive:
            return [entry.text for entry in self._entries if entry.stamp > instant]
        # a stamp is rounded down, so `since` is too: 05.500 must not hide what was printed as 05
        return [
            entry.text for entry in self._entries if entry.stamp >= instant - instant % entry.step
        ]


class SeedBuffer:
    """The buffer of the ReCursor page exactly as printed.

    `size` is measured once and not again while trimming, so an overflow empties it; an entry is
    text and has no `timestamp`, so `since` finds nothing; `maxAge` is declared and never used.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._buffer: list[str] = []
        self._size = 2  # the brackets
        for text in texts:
            self._add(text)

    def _add(self, text: str) -> None:
        self._buffer.append(text)
        self._size += len(json.dumps(text, ensure_ascii=False)) + (len(self._buffer) > 1)

    def append(self, text: str, *, limit: int) -> None:
        """`buffer.push(message)`, then the trim loop whose condition never changes."""
        self._add(text)
        if self._size > limit:
            self._buffer.clear()
            self._size = 2

    def since(self, instant: int | None) -> list[str]:
        """`msg.timestamp > since` compares undefined: never true."""
        return list(self._buffer) if instant is None else []


def ordered(texts: list[str], order: str) -> list[str]:
    """Return the entries as a server sorts its answer, instead of in live order."""
    if order == "live":
        return texts
    rows = [(json.loads(text), text) for text in texts]
    if order == "type":
        rows.sort(key=lambda row: (row[0].get("timestamp") or "", row[0]["type"]))
    else:
        rows.reverse()  # newest first where it is equal
        rows.sort(key=lambda row: row[0].get("timestamp") or "")
    return [text for _, text in rows]


def replay_frame(
    texts: list[str], *, as_strings: bool, ident: str | None, stamp: str | None
) -> str:
    """Return a replay_buffer message around these texts, without encoding them again."""
    head = '{"type":"replay_buffer",'
    if ident is not None:
        head += f'"id":{ENCODE(ident)},'
    if stamp is not None:
        head += f'"timestamp":{ENCODE(stamp)},'
    body = ENCODE(texts) if as_strings else f"[{','.join(texts)}]"
    return f'{head}"payload":{{"messages":{body}}}}}'
