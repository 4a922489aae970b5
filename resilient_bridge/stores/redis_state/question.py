"""A question to Redis: the exchange's thread answers it, a call ends it with `take` or `cancel`.

Rule: an answer that no call takes is given back, so a permit is never lost with the call that asked
for it.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")


class PendingQuestion(Generic[T]):
    """A question under way. `late`: a call waited in vain; `give_back` gets an unused answer."""

    def __init__(
        self, patience: float, late: Callable[[], None], give_back: Callable[[T], None]
    ) -> None:
        self.patience = patience
        self._late = late
        self._give_back = give_back
        self._future: Future[T | None] = Future()

    def when_answered(self, wake: Callable[[], object], /) -> None:
        """Call `wake` when the answer arrives; at once if it is there already."""
        self._future.add_done_callback(lambda _: wake())

    def answer(self, answer: T | None) -> None:
        """Deliver the answer (None: there is none), or give it back if the call waits no more."""
        if self._future.set_running_or_notify_cancel():
            self._future.set_result(answer)
        elif answer is not None:
            self._give_back(answer)

    def take(self, *, is_late: bool) -> T | None:
        """Return the answer; without one yet, end the question and return None.

        `is_late`: the call has waited for all of `patience`.
        """
        if not self._future.cancel():
            return self._future.result()
        if is_late:
            self._late()
        return None

    def cancel(self) -> None:
        """End the question: give back the answer, now or when it arrives."""
        if not self._future.cancel() and (answer := self._future.result()) is not None:
            self._give_back(answer)
