"""What every line of a RedisState has: the exchange it belongs to, a key, and questions that somebody waits with.

Rule: a line only keeps lists, under the lock of its exchange; it neither waits nor sends. What was told while the store is away is
forgotten.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ...world import REAL


if TYPE_CHECKING:
    from collections.abc import Callable

    from .exchange import Exchange


LINGER: Final = 0.01
"""Seconds that an ending waits for others to be told with, unless it decides something; whoever asks does not wait for it."""

T = TypeVar("T")


class PendingQuestion(Generic[T]):
    """A question on its way. It is answered by the exchange's thread, and taken or cancelled by whoever asked."""

    def __init__(self, patience: float, late: Callable[[], None], give_back: Callable[[T], None]) -> None:
        self.patience = patience
        self._late = late
        self._give_back = give_back
        self._lock = Lock()
        self._answer: T | None = None
        self._is_answered = self._is_over = False
        self._wake: Callable[[], object] | None = None

    def when_answered(self, wake: Callable[[], object], /) -> None:
        """Call `wake` once there is an answer."""
        with self._lock:
            if not self._is_answered:
                self._wake = wake
                return
        wake()

    def answer(self, answer: T | None) -> None:
        """Give the answer (None: there is none), or take it back where nobody waits for it."""
        with self._lock:
            self._is_answered, is_wanted, wake = True, not self._is_over, self._wake
            if is_wanted:
                self._answer = answer
        if not is_wanted and answer is not None:
            self._give_back(answer)
        elif is_wanted and wake is not None:
            wake()

    def take(self, *, is_late: bool) -> T | None:
        """Return the answer, None if there is none by now."""
        with self._lock:
            self._is_over = True
            if self._is_answered:
                return self._answer
        if is_late:
            self._late()
        return None

    def cancel(self) -> None:
        """Nobody wants the answer."""
        with self._lock:
            self._is_over = True
            answer, self._answer = self._answer, None
        if answer is not None:
            self._give_back(answer)


class Line:
    """What circuits and budgets have in common."""

    is_polled: bool = False

    def __init__(self, exchange: Exchange, key: str) -> None:
        self._exchange = exchange
        self.key = key
        self.used_at = 0.0
        self.polled_at = 0.0
        self.is_watched = False

    @property
    def is_up(self) -> bool:
        """Whether the store answers."""
        return self._exchange.is_up

    def too_late(self, reply: list[Any]) -> None:
        """Nobody waited for this reply."""

    def watch(self, *, is_watched: bool) -> None:
        """Views come by themselves from now on, or no more."""
        self.is_watched = is_watched

    def use(self) -> None:
        """Note that it is in use."""
        self.used_at = REAL.monotonic()
