"""The places of one bulkhead, and the queue for them: first come, first served, whatever thread or event loop they come from. Pure.

A place that becomes free is handed over: it never is free in between, so nobody overtakes the queue. Who waits is woken by a
callback of its own, called outside the lock; who stops waiting says so with `leave`, which passes on a place that it was handed
in the same instant.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from ..names import Names
from ..rejections import BulkheadFullError


if TYPE_CHECKING:
    from collections.abc import Callable

    from .value import Bulkhead


class Ticket:
    """A place in the queue."""

    __slots__ = ("is_served", "wake")

    def __init__(self, wake: Callable[[], object]) -> None:
        self.wake = wake
        self.is_served = False


class BulkheadState:
    """The bulkhead `key`, with the numbers of its `settings`."""

    __slots__ = ("__weakref__", "_lock", "_queue", "key", "running", "settings")

    def __init__(self, key: str, settings: Bulkhead) -> None:
        self.key = key
        self.settings = settings
        self.running = 0
        self._lock = Lock()
        self._queue: dict[Ticket, None] = _EMPTY_QUEUE  # in their order

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._queue)

    def try_acquire(self) -> bool:
        """Take a place if one is free; every place taken has to be given back with `release`."""
        with self._lock:
            if self.running >= self.settings.calls or self._queue:
                return False
            self.running += 1
            return True

    def join(self, wake: Callable[[], object]) -> Ticket:
        """Queue up; `wake` is called once, from any thread, when a place is handed over, and returns False if nobody takes it. Raises BulkheadFullError."""
        ticket = Ticket(wake)
        with self._lock:
            if self.running >= self.settings.calls and len(self._queue) >= self.settings.queue:
                raise self.rejection()
            if self._queue is _EMPTY_QUEUE:
                self._queue = {}
            self._queue[ticket] = None
        self._hand_over()  # a place may have become free since `try_acquire`
        return ticket

    def is_served(self, ticket: Ticket) -> bool:
        """Return whether the place was handed over: then it has to be released."""
        return ticket.is_served

    def leave(self, ticket: Ticket) -> None:
        """Stop waiting, for any reason; a place that was handed over already goes to the next."""
        with self._lock:
            if not ticket.is_served:
                self._queue.pop(ticket, None)
                return
        self.release()

    def release(self) -> None:
        """Give a place back, to the first in the queue."""
        with self._lock:
            self.running -= 1
        if self._queue:
            self._hand_over()

    def configure(self, settings: Bulkhead) -> None:
        """Go on with other numbers: who runs goes on running, who waits goes on waiting or is let in."""
        self.settings = settings
        self._hand_over()

    def rejection(self, waited: float | None = None) -> BulkheadFullError:
        """Return the error for a call that found no place, or waited so many seconds for none."""
        return BulkheadFullError(self.key, self.settings.calls, waited)

    def _hand_over(self) -> None:
        """Hand every free place to the first in the queue."""
        while self._queue:
            with self._lock:
                if not self._queue or self.running >= self.settings.calls:
                    return
                ticket = next(iter(self._queue))
                del self._queue[ticket]
                ticket.is_served = True
                self.running += 1
            if ticket.wake() is False:  # its event loop is closed: nobody is there to take the place
                with self._lock:
                    ticket.is_served = False
                    self.running -= 1


_EMPTY_QUEUE: Final[dict[Ticket, None]] = {}  # shared until somebody waits


BULKHEADS: Final = Names[BulkheadState, "Bulkhead"](
    "bulkhead", BulkheadState, lambda state: min(state.running, 1)
)
