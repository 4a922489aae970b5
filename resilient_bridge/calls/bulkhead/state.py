"""The permits of one bulkhead and the queue for them. Pure.

The queue is first come, first served, across threads and event loops. A released permit is handed
over to the first waiter directly and is never free in between, so no call overtakes the queue. Each
waiter is woken by its own callback, called outside the lock. A waiter that stops waiting calls
`leave`, which passes on a permit that it was handed in the same instant.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from ...locks import new_lock
from ..registry import Sort
from ..rejections import BulkheadFullError


if TYPE_CHECKING:
    from collections.abc import Callable

    from .value import Bulkhead


class Ticket:
    """A waiter in the queue."""

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
        self._lock = new_lock()
        self._queue: OrderedDict[Ticket, None] = _EMPTY_QUEUE
        MADE.add(self)

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a permit."""
        return len(self._queue)

    def try_acquire(self) -> bool:
        """Take a permit if one is free; each permit taken has to be given back with `release`."""
        with self._lock:
            if self.running >= self.settings.calls or self._queue:
                return False
            self.running += 1
            return True

    def join(self, wake: Callable[[], object]) -> Ticket:
        """Join the queue. Raises BulkheadFullError.

        `wake` is called once, from any thread, when a permit is handed over. It returns False if
        the waiter no longer takes it.
        """
        ticket = Ticket(wake)
        with self._lock:
            if self.running >= self.settings.calls and len(self._queue) >= self.settings.queue:
                raise self.rejection()
            if self._queue is _EMPTY_QUEUE:
                self._queue = OrderedDict()
            self._queue[ticket] = None
        self._hand_over()  # a permit may have been released since `try_acquire`
        return ticket

    def is_served(self, ticket: Ticket) -> bool:
        """Return whether a permit was handed over: then it has to be released."""
        return ticket.is_served

    def leave(self, ticket: Ticket) -> None:
        """Stop waiting, for any reason; a permit that was handed over already goes to the next."""
        with self._lock:
            if not ticket.is_served:
                self._queue.pop(ticket, None)
                return
        self.release()

    def release(self) -> None:
        """Release a permit to the first in the queue."""
        with self._lock:
            if self.running:  # 0 in a forked child that was not told of this permit
                self.running -= 1
        if self._queue:
            self._hand_over()

    def configure(self, settings: Bulkhead) -> None:
        """Apply other numbers. Running calls continue; waiting ones still wait or are admitted."""
        self.settings = settings
        self._hand_over()

    def begin_anew(self, held: int) -> None:
        """Start over in a forked child, which has so many of the permits.

        The calls of the parent's other threads neither run nor wait here.
        """
        self.running = held
        self._queue = _EMPTY_QUEUE

    def rejection(self, waited: float | None = None) -> BulkheadFullError:
        """Return the error for a call that got no permit, or waited so many seconds in vain."""
        return BulkheadFullError(self.key, self.settings.calls, waited)

    def _hand_over(self) -> None:
        """Hand every free permit to the first in the queue."""
        while self._queue:
            with self._lock:
                if not self._queue or self.running >= self.settings.calls:
                    return
                ticket, _ = self._queue.popitem(last=False)
                ticket.is_served = True
                self.running += 1
            if ticket.wake() is False:  # its event loop is closed, so it cannot take the permit
                with self._lock:
                    ticket.is_served = False
                    self.running -= 1


MADE: Final[WeakSet[BulkheadState]] = WeakSet()
"""Every bulkhead of this process."""

_EMPTY_QUEUE: Final[OrderedDict[Ticket, None]] = OrderedDict()  # shared until a call waits


BULKHEADS: Final = Sort[BulkheadState, "Bulkhead"](
    "bulkhead", BulkheadState, lambda state: min(state.running, 1)
)
