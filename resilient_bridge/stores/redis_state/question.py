"""A question to Redis that a call waits with: answered by the exchange's thread, ended by the call with `take` or `cancel`.

Rule: an answer that no call takes is given back, so a permit is never lost with the call that asked for it.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")


class PendingQuestion(Generic[T]):
    """A question under way. `late` is called when the call has waited in vain, `give_back` with an answer that it does not take."""

    def __init__(self, patience: float, late: Callable[[], None], give_back: Callable[[T], None]) -> None:
        self.patience = patience
        self._late = late
        self._give_back = give_back
        self._lock = Lock()
        self._answer: T | None = None
        self._is_answered = self._is_over = False
        self._wake: Callable[[], object] | None = None

    def when_answered(self, wake: Callable[[], object], /) -> None:
        """Call `wake` when the answer arrives; at once if it is there already."""
        with self._lock:
            if not self._is_answered:
                self._wake = wake
                return
        wake()

    def answer(self, answer: T | None) -> None:
        """Deliver the answer (None: there is none), or give it back if the call waits no more."""
        with self._lock:
            self._is_answered, is_wanted, wake = True, not self._is_over, self._wake
            if is_wanted:
                self._answer = answer
        if not is_wanted and answer is not None:
            self._give_back(answer)
        elif is_wanted and wake is not None:
            wake()

    def take(self, *, is_late: bool) -> T | None:
        """Return the answer, or None if there is none yet. `is_late`: the call has waited for all of its patience."""
        with self._lock:
            self._is_over = True
            if self._is_answered:
                return self._answer
        if is_late:
            self._late()
        return None

    def cancel(self) -> None:
        """The call waits no more: give back the answer, now or when it arrives."""
        with self._lock:
            self._is_over = True
            answer, self._answer = self._answer, None
        if answer is not None:
            self._give_back(answer)
