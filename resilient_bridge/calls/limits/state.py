"""The permits of one bulkhead with the queue for them, and the turns of one rate limit. Pure.

The queue of a bulkhead is first come, first served, across threads and event loops. A released
permit is handed over to the first waiter directly and is never free in between, so no call
overtakes the queue. Each waiter is woken by its own callback, called outside the lock. A waiter
that stops waiting calls `leave`, which passes on a permit that it was handed in the same instant.

A rate limit is two numbers: the time at which its token bucket is full again, once with the turns
that are taken in advance, and once with the calls that have started. The bucket holds `calls`
tokens and fills up in `per` seconds. Because no tokens are counted, nothing has to be refilled, and
no fraction of a token gets lost. Turns say who may wait and how long; a call starts by the second
number: turns that come late, because the loop was blocked, and turns that others gave back would
otherwise start more calls at once than the bucket holds.
"""

from __future__ import annotations

from collections import OrderedDict
from math import inf
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from ...locks import new_lock
from ..registry import Sort
from ..rejections import BulkheadFullError, ThrottledError


if TYPE_CHECKING:
    from collections.abc import Callable

    from .value import Bulkhead, RateLimit


# ---- how many run at once ------------------------------------------------------------------------


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
            if (
                self.running >= self.settings.calls
                and len(self._queue) >= self.settings.most_waiting
            ):
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


# ---- how many start in a span of time ------------------------------------------------------------


# seconds: allows for rounding, as in a hundred times a hundredth of a second
_ROUNDING: Final = 1e-9
# seconds: a timer is late by this much without being late
_PUNCTUAL: Final = 1e-3


class RateState:
    """The rate limit `key` with its `settings`; the caller passes monotonic seconds."""

    __slots__ = ("__weakref__", "_full_at", "_lock", "_per", "_refilled_at", "key", "settings")

    def __init__(self, key: str, settings: RateLimit) -> None:
        self.key = key
        self.settings = settings
        self._lock = new_lock()
        self._full_at = -inf  # with all turns that are taken
        self._refilled_at = -inf  # with the calls that have started
        self._per = settings.per  # the numbers that both were made with

    def reserve(self, now: float, max_wait: float) -> float:
        """Take the next turn and return the seconds until it comes, 0 for at once.

        Raises ThrottledError, and takes none, when that is more than `max_wait`. A turn that is not
        used is given back with `cancel`.
        """
        with self._lock:
            limit = self.settings
            if limit.per != self._per:
                self._rescale(now, limit.per)
            token = limit.per / limit.calls
            debt = max(0.0, self._full_at - now) + token
            wait = debt - limit.per
            refilled = self._refilled_at + token - limit.per - now
            if refilled > _PUNCTUAL:
                wait = max(wait, refilled)
            if wait <= _ROUNDING:
                wait = 0.0
            elif wait > max_wait + _ROUNDING:
                raise ThrottledError(self.key, limit.calls, limit.per, wait)
            self._full_at = now + debt
            return wait

    def start(self, now: float) -> float:
        """Use the turn that has come, and return 0; or, if the bucket has no token, take another
        one and return the seconds until that.

        That is so after the loop was blocked for longer than a full bucket lasts, and where turns
        were given back between others.
        """
        with self._lock:
            limit = self.settings
            if limit.per != self._per:
                self._rescale(now, limit.per)
            token = limit.per / limit.calls
            debt = max(0.0, self._refilled_at - now) + token
            if debt - limit.per <= _PUNCTUAL:
                self._refilled_at = now + debt
                return 0.0
            self._full_at = max(self._full_at, now) + token
            return max(self._full_at, self._refilled_at + token) - limit.per - now

    def _rescale(self, now: float, per: float) -> None:
        """Apply another span of time: the used share of the bucket stays the same."""
        share = per / self._per
        self._full_at = now + max(0.0, self._full_at - now) * share
        self._refilled_at = now + max(0.0, self._refilled_at - now) * share
        self._per = per

    def cancel(self, *, has_started: bool = False) -> None:
        """Give a turn back, also one that was used: the next caller's comes earlier; waiting
        callers keep theirs.
        """
        with self._lock:
            token = self._per / self.settings.calls
            self._full_at -= token
            if has_started:
                self._refilled_at -= token

    def is_used(self, now: float) -> bool:
        """Return whether calls have used turns that have not come back."""
        return max(self._full_at, self._refilled_at) > now

    def configure(self, settings: RateLimit) -> None:
        """Apply other numbers; the used part of the bucket stays used, in proportion."""
        self.settings = settings
