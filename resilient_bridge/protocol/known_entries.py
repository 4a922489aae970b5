"""Entries that were sent, by id, key and number, for as long as an answer may come: while open, and
a while after.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from .entries import EntryState


if TYPE_CHECKING:
    from collections.abc import Iterable

    from .entries import Entry


_REMEMBERED: Final = 1_024  # settled entries that late answers and receipt(key) can still find


class KnownEntries:
    """The entries of one session. `has_numbers`: a server may answer by number."""

    def __init__(self, *, has_numbers: bool) -> None:
        self.by_id: dict[str, Entry] = {}
        self._by_key: dict[str, Entry] = {}
        self._by_number: dict[int, Entry] = {}
        self._has_numbers = has_numbers
        self._settled: deque[Entry] = deque()

    def add(self, entry: Entry) -> None:
        self.by_id[entry.id] = entry
        if self._has_numbers:
            self._by_number[entry.seq] = entry
        if entry.key is not entry.id:
            self._by_key[entry.key] = entry

    def restore(self, outcomes: Iterable[Entry], entries: Iterable[Entry]) -> None:
        """Take over what an earlier process knew: the outcomes of settled entries, and the open
        entries.
        """
        for entry in outcomes:
            self.add(entry)
            self._settled.append(entry)
        for entry in entries:
            self.add(entry)

    def drop(self, entry: Entry) -> None:
        self.by_id.pop(entry.id, None)
        self._by_number.pop(entry.seq, None)
        if self._by_key.get(entry.key) is entry:
            del self._by_key[entry.key]

    def settled(self, entry: Entry) -> None:
        self._settled.append(entry)
        while len(self._settled) > _REMEMBERED:
            self.drop(self._settled.popleft())

    def find(self, key: str) -> Entry | None:
        return self._by_key.get(key) or self.by_id.get(key)

    def by_name(self, name: Any) -> Entry | None:
        """Return the entry with this id, key or number; a server's value may be of any type."""
        if isinstance(name, str):
            return self.by_id.get(name) or self._by_key.get(name)
        is_number = isinstance(name, int | float) and not isinstance(name, bool)
        return self._by_number.get(cast("int", name)) if is_number else None

    def standing(self, key: str) -> Entry | None:
        """Return the send under this key that makes a second one redundant: it is pending or
        confirmed.
        """
        known = self._by_key.get(key)
        stands = known is not None and (not known.is_settled or known.state is EntryState.CONFIRMED)
        return known if stands else None
