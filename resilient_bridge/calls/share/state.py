"""The answers that one owner's calls have had, by key: those used last, within their time. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from ...locks import new_lock


if TYPE_CHECKING:
    from .value import Share


class Cached(NamedTuple):
    """An answer, which is handed out in copies only, and when it came, by which clock."""

    answer: Any
    at: float
    clock: object


class Answers:
    """The answers of one owner; `flights` are its calls under way, by loop, world and key.

    Rule: a time counts only for the clock that it was taken with: an answer of a test in virtual
    time is none in real time.
    """

    __slots__ = ("_answers", "_lock", "flights")

    def __init__(self) -> None:
        self._lock = new_lock()
        self._answers: OrderedDict[Any, Cached] = OrderedDict()
        self.flights: dict[Any, Any] = {}

    def __len__(self) -> int:
        """Return how many answers are cached."""
        return len(self._answers)

    def find(self, key: object, oldest: float, now: float, clock: object) -> Cached | None:
        """Return the answer of a key if it is at most `oldest` seconds old."""
        if not oldest:
            return None
        with self._lock:
            cached = self._answers.get(key)
            if cached is None or cached.clock is not clock or now - cached.at > oldest:
                return None
            self._answers.move_to_end(key)
            return cached

    def keep(self, layer: Share, key: object, cached: Cached) -> None:
        """Keep an answer, if any may be given again; the one that was not used for longest goes."""
        oldest = max(layer.fresh_for, layer.stale_for)
        if not oldest:
            return
        with self._lock:
            self._answers[key] = cached
            self._answers.move_to_end(key)
            while len(self._answers) > layer.most:
                self._answers.popitem(last=False)
