"""A log of events with positions (numbers, ids or times): what follows one, and what was dropped.

Rule: the log keeps the order of the pushes, whatever their times are, and it records what it has
dropped.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Final, Literal, NamedTuple

from .server_faults import Behaviour
from .server_wire import Stamps, new_id, parse_instant


Position = Literal["number", "id", "time"]
"""What the server's events are counted by."""

_TO_THE_MILLISECOND: Final = Behaviour()


class Entry(NamedTuple):
    """An event: its position on the wire and as a number (0 for an id), and its frame."""

    position: int | str
    at: int
    text: str


class Answer(NamedTuple):
    """The frames after a position; incomplete if the log cannot prove that none is missing."""

    texts: list[str]
    is_complete: bool


class Log:
    """The newest `keep` events of one process, and the positions of all."""

    def __init__(
        self,
        position: Position,
        *,
        inclusive: bool,
        contiguous: bool,
        keep: int,
        stamps: Stamps,
        rng: random.Random,
    ) -> None:
        self._position = position
        self._inclusive = inclusive
        self._contiguous = contiguous
        self._keep = keep
        self._stamps = stamps
        self._rng = rng
        self._cap: int | None = None
        self._entries: deque[Entry] = deque()
        self._newest: int | None = None  # the highest number, or latest time, ever pushed
        self._dropped: int | None = None  # ... that is no longer stored
        self.name = new_id(rng)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def texts(self) -> list[str]:
        return [entry.text for entry in self._entries]

    # ---- writing
    def next_position(self) -> int | str:
        if self._position == "id":
            return new_id(self._rng)
        if self._position == "number":
            step = 1 if self._contiguous else self._rng.randint(1, 3)
            return (self._newest or 0) + step
        return self._stamps.show(self._stamps.now(), _TO_THE_MILLISECOND) or ""

    def append(self, position: int | str, text: str) -> None:
        at = self._read(position) or 0
        self._entries.append(Entry(position, at, text))
        self._newest = at if self._newest is None else max(at, self._newest)
        self._shrink()

    def trim(self, keep: int) -> None:
        while len(self._entries) > keep:
            at = self._entries.popleft().at
            self._dropped = at if self._dropped is None else max(at, self._dropped)

    def limit(self, cap: int | None) -> None:
        """Store at most this many from now on; None restores the original limit."""
        self._cap = cap
        self._shrink()

    def _shrink(self) -> None:
        self.trim(self._keep if self._cap is None else min(self._cap, self._keep))

    def forget(self) -> None:
        """Become the log of a new process: empty, with another name, and numbers from the start."""
        self._entries.clear()
        # With times, the new process knows that it has no event from before its start; with numbers
        # it cannot know.
        is_time = self._position == "time" and self._newest is not None
        self._dropped = self._stamps.now() if is_time else None
        self._newest = None
        self.name = new_id(self._rng)

    # ---- reading
    def after(self, asked: object) -> Answer:
        """Return the events after a position, or from it on if the log is inclusive.

        With an empty position there are none.
        """
        if asked is None or asked == "":
            return Answer([], is_complete=True)
        if self._position == "id":
            return self._after_id(asked)
        at = self._read(asked)
        if at is None:
            return Answer(self.texts, is_complete=False)
        first = at if self._inclusive else at + 1  # the first event to send
        is_complete = self._dropped is None or first > self._dropped
        if self._position == "number":
            is_complete = is_complete and at <= (self._newest or 0)
            return Answer([entry.text for entry in self._entries if entry.at >= first], is_complete)
        # Times go backwards when the clock is set: the answer is everything from the first event
        # that fits.
        start = next(
            (n for n, entry in enumerate(self._entries) if entry.at >= first), len(self._entries)
        )
        return Answer(self.texts[start:], is_complete)

    def _after_id(self, asked: object) -> Answer:
        for n, entry in enumerate(self._entries):
            if entry.position == asked:
                return Answer(self.texts[n if self._inclusive else n + 1 :], is_complete=True)
        return Answer(self.texts, is_complete=False)

    def _read(self, position: object) -> int | None:
        """Return a number, or the milliseconds of a time; None for anything else."""
        if self._position == "time":
            return parse_instant(position)
        if not isinstance(position, (int, str)) or isinstance(position, bool):
            return None
        try:
            return int(position)
        except ValueError:
            return None
