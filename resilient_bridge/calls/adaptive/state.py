"""The adaptive limits of one owner: one for each key, made by the first refusal of a call of that key.

Until then a call is only noted as in flight, and its key is not computed: with the first refusal
those of all calls in flight are, because half of them is what may run from then on.

Rule: one lock for all limits of an owner; waiting calls are woken outside of it. A limit belongs to
the clock by which it was made, so that one of a test in virtual time has no effect in real time. At
most 512 are kept, and none is dropped while a call waits for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast
from weakref import WeakSet

from ...locks import new_rlock
from ...values.window import Window
from ..registry import shown
from .machine import FORGOTTEN_AFTER, Machine, Ticket


if TYPE_CHECKING:
    import random
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from ...failure import Failure
    from ..shared import Question
    from .value import AdaptiveLimit


MOST: Final = 512
"""The most limits of one owner that are kept."""
WATCH: Final = 2
"""Waiting calls that watch the time: the second is there in case that the first is stuck."""
_COUNTED_FOR: Final = 120.0
"""Seconds for which `throttle` counts requests, and what became of them."""
_SHARED_FOR: Final = 30.0
"""Seconds after a success or a refusal of another limit for which the room counts as shared with it."""


Change: TypeAlias = Literal["", "began", "lowered", "exhausted", "recovered", "forgotten"]
"""What has changed about a limit."""


class Limit(Machine):
    """One limit with its key, the last refusal, how long a call here waited, and who watches the time."""

    __slots__ = (
        "counted", "key", "last", "longest_wait", "throttled", "watch_at", "watching",
    )  # fmt: skip

    def __init__(self, key: Hashable, at_once: float, now: float, settings: AdaptiveLimit) -> None:
        super().__init__(
            at_once, now, least=settings.least, most=settings.most, patience=settings.patience
        )
        self.key = key
        self.last: Failure | None = None
        self.longest_wait = 0.0
        # The requests that this process made, or did not send, and of those what was not accepted.
        self.counted = Window(_COUNTED_FOR, 24)
        self.throttled = 0  # calls that were not sent because of that
        self.watching: list[Ticket] = []  # the first of the queue, and the time they wait for
        self.watch_at = inf

    def count(self, now: float, *, is_accepted: bool) -> None:
        """Count a request that was sent, or one that `throttles` has rejected."""
        self.counted.turn(now)
        self.counted.count(1, int(not is_accepted))

    def throttles(self, most: float, now: float, rng: random.Random) -> bool:
        """Return whether to reject a call: the more likely, the more requests were refused.

        `most`: requests for each that is accepted, from which on some are rejected.
        """
        self.counted.turn(now)
        requests = self.counted.seen
        excess = requests - most * (requests - self.counted.failed)
        if excess <= 0 or rng.random() >= excess / (requests + 1):
            return False
        self.throttled += 1
        self.count(now, is_accepted=False)
        return True

    def is_watched_by(self, ticket: Ticket) -> bool:
        """Return whether this waiting call has to watch the time."""
        return ticket in self.queue[:WATCH]


class Limits:
    """The limits of the owner `key`, with the numbers of its `settings`."""

    __slots__ = (
        "__weakref__", "_lock", "_other", "by_key", "clock", "flying", "forgotten", "key", "settings",
        "until",
    )  # fmt: skip

    def __init__(self, key: str, settings: AdaptiveLimit) -> None:
        self.key = key
        self.settings = settings
        self.clock: Any = None  # of the world in which it is used
        self.until = -inf  # by the real clock: until then some limit is in force
        # The calls in flight that began while none of their key was limited, each with its layer,
        # which knows its key.
        self.flying: dict[Any, Any] = {}
        self.by_key: OrderedDict[Hashable, Limit] = OrderedDict()
        self.forgotten: list[Limit] = []  # of which nobody was told yet
        self._lock = new_rlock()
        self._other: Limits | None = None
        with _MADE:
            MADE.add(self)

    def of(self, clock: object) -> Limits:
        """Return the limits by this clock: those of a test's world are others."""
        if self.clock is clock:
            return self
        with self._lock:
            if self.clock is None:
                self.clock = clock
                return self
            if self._other is None or self._other.clock is not clock:
                self._other = self._twin()
                self._other.clock = clock
            return self._other

    def _twin(self) -> Limits:
        """Return limits of the same owner, for another clock."""
        return Limits(self.key, self.settings)

    def configure(self, settings: AdaptiveLimit) -> None:
        """Apply other numbers; what was learnt stays."""
        self.settings = settings
        with self._lock:
            for limit in self.by_key.values():
                limit.configure(
                    least=settings.least, most=settings.most, patience=settings.patience
                )

    @property
    def in_force(self) -> bool:
        """Whether some call may have to wait."""
        return bool(self.by_key) or self.settings.start is not None

    def ask(self) -> Question[bool] | None:
        """Ask whether some limit is in force, if this process does not know."""
        return None

    # ---- calls ----------------------------------------------------------------------------------

    def find(self, key: Hashable, now: float) -> Limit | None:
        """Return the limit of a key, None if there is none."""
        with self._lock:
            limit = self.by_key.get(key)
            if limit is not None and limit.is_unused(now):
                limit = None
            if limit is None:
                self._forget(now)
                start = self.settings.start
                return None if start is None else self._made(key, start, now)
            self.by_key.move_to_end(key)
            return limit

    def throttles(self, limit: Limit, ticket: Ticket, now: float, rng: random.Random) -> bool:
        """Return whether a call has to give up at once because of `throttle`.

        One that was sent and refused never has: it goes back to the front.
        """
        most = self.settings.throttle
        if most is None or ticket.refusals:
            return False
        with self._lock:
            if limit.throttles(most, now, rng):
                ticket.ended = "throttled"
        return bool(ticket.ended)

    def enter(self, limit: Limit, ticket: Ticket, now: float) -> bool:
        """Return whether a call need not wait: it has a place, or has to give up.

        If not, it is not in the queue yet: the short path of the engine takes no wait.
        """
        with self._held(limit, now):
            limit.join(ticket, now)
            over = limit.step(now)
            if not ticket.ended:
                limit.queue.remove(ticket)
        self._wake(limit, over, now)
        return bool(ticket.ended)

    def join(self, limit: Limit, ticket: Ticket, now: float) -> None:
        """Wait in the queue."""
        with self._held(limit, now):
            limit.join(ticket, now)

    def advance(self, limit: Limit, now: float, asking: Ticket | None = None) -> float:
        """Wake the calls whose wait is over; return when to do that again.

        The first two of the queue watch the time: they are woken if they have to watch another one,
        unless it is the one that is `asking`.
        """
        with self._held(limit, now):
            over = limit.step(now)
            at = limit.next_at(now)
            first = limit.queue[:WATCH]
            is_known = first == limit.watching and at >= limit.watch_at
            limit.watching, limit.watch_at = first, at
        self._wake(limit, over, now)
        for ticket in () if is_known else first:
            if ticket.wake is not None and ticket is not asking:
                ticket.wake()
        return at

    def leave(self, limit: Limit, ticket: Ticket, now: float) -> None:
        """Stop waiting, or give a permit back unused."""
        with self._held(limit, now):
            limit.leave(ticket, now)
        self.advance(limit, now)

    def succeeded(
        self, limit: Limit, ticket: Ticket, now: float, *, is_stream: bool = False
    ) -> Change:
        """Count a success, and give the permit back, unless it is a stream that has begun.

        Return what has changed.
        """
        with self._held(limit, now):
            was_exhausted = limit.is_exhausted
            if not ticket.has_permit:
                limit.earlier_ended(now)
            limit.count(now, is_accepted=True)
            limit.succeeded(ticket, now, is_stream=is_stream)
        self.advance(limit, now)
        return "recovered" if was_exhausted else ""

    def released(self, limit: Limit, ticket: Ticket, now: float) -> None:
        """Give a permit back after an end that says nothing about the limit."""
        with self._held(limit, now):
            if not ticket.has_permit:
                limit.earlier_ended(now)
            limit.released(ticket, now)
        self.advance(limit, now)

    def refused(  # noqa: PLR0917 -- what is known of a refusal
        self,
        limit: Limit,
        ticket: Ticket,
        now: float,
        failure: Failure,
        wait: float | None,
        rng: random.Random,
    ) -> Change:
        """Count a refusal, give the permit back, and shut the door; return what has changed."""
        with self._held(limit, now):
            before = limit.at_once, limit.spacing
            is_first, was_exhausted = not limit.refused, limit.is_exhausted
            if not ticket.has_permit:
                limit.earlier_ended(now)
            limit.last = failure
            limit.count(now, is_accepted=False)
            others = self._others(limit, now)
            limit.refuse(ticket, now, wait, rng, bool(others))
            starved = others if limit.is_starved else ()
            self.until = now + FORGOTTEN_AFTER
            is_lowered = (limit.at_once, limit.spacing) != before
        for other in starved:
            with self._held(other, now):
                other.make_room(now)
        self.advance(limit, now)
        if limit.is_exhausted and not was_exhausted:
            return "exhausted"
        return "began" if is_first else "lowered" if is_lowered else ""

    def heard(self, limit: Limit, wait: float, now: float) -> None:
        """Shut the door for so long, because a header says that nothing is left until then."""
        with self._held(limit, now):
            limit.heard(wait, now)

    def first_refused(self, key: Hashable, in_flight: int, now: float) -> Limit:
        """Return the limit that begins with a first refusal, of one of so many calls in flight."""
        with self._lock:
            limit = self.by_key.get(key)
            if limit is None or limit.is_unused(now):
                self._forget(now)
                limit = self._made(key, in_flight / 2, now)
                with self._held(limit, now):
                    limit.began_with_calls(in_flight)
            return limit

    def _made(self, key: Hashable, at_once: float, now: float) -> Limit:
        if len(self.by_key) >= MOST:
            unused = (each for each, limit in self.by_key.items() if not limit.queue)
            dropped = next(unused, None)
            if dropped is not None:
                del self.by_key[dropped]
        limit = self.by_key[key] = self._new(key, at_once, now)
        return limit

    def _new(self, key: Hashable, at_once: float, now: float) -> Limit:
        return Limit(key, at_once, now, self.settings)

    def _held(self, limit: Limit, now: float) -> AbstractContextManager[object]:  # noqa: ARG002 -- of limits that processes share
        """Hold the limit for this thread alone; and for this process, if others share it."""
        return self._lock

    def _forget(self, now: float) -> None:
        """Drop what is forgotten, so that calls of other keys need not ask for theirs."""
        for key in [key for key, limit in self.by_key.items() if limit.is_unused(now)]:
            limit = self.by_key.pop(key)
            if limit.refused:
                self.forgotten.append(limit)

    def take_forgotten(self) -> list[Limit]:
        """Return the limits that are forgotten, each once, for who reports them."""
        with self._lock:
            found, self.forgotten = self.forgotten, []
        return found

    def _others(self, limit: Limit, now: float) -> list[Limit]:
        """Return the other limits of the same credential that are in use, so that they share its room."""
        mine = _credential(limit.key)
        return [
            other
            for other in self.by_key.values()
            if other is not limit
            and _credential(other.key) == mine
            and now - max(other.succeeded_at, other.refused_at) < _SHARED_FOR
        ]

    def _wake(self, limit: Limit, over: Iterable[Ticket], now: float) -> None:
        for ticket in over:
            if ticket.wake is not None and ticket.wake() is False:  # its event loop is closed
                self.leave(limit, ticket, now)

    # ---- what it shows --------------------------------------------------------------------------

    def in_use(self, now: float) -> list[Limit]:
        """Return the limits that are not forgotten."""
        with self._lock:
            return [limit for limit in self.by_key.values() if not limit.is_unused(now)]

    def name_of(self, key: Hashable) -> str:
        """Return the name of the limit of a key: that of its owner, and what the key adds to it."""
        words = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
        more = " ".join(shown(word) for word in words if word not in ("", None))
        return f"{self.key} {more}" if more else self.key

    def begin_anew(self) -> None:
        """Start over in a forked child: the calls of the parent neither run nor wait here."""
        self.flying.clear()
        self.by_key.clear()
        self.forgotten.clear()


def _credential(key: Hashable) -> Hashable:
    """Return the part of a key that names the credential: the first, where an owner has such keys."""
    return cast("tuple[Hashable, ...]", key)[0] if isinstance(key, tuple) and key else None


MADE: Final[WeakSet[Limits]] = WeakSet()
"""The limits of every owner in this process."""
_MADE: Final = new_rlock()  # a set that grows while another thread walks it is an error


def made() -> list[Limits]:
    """Return the limits of every owner in this process."""
    with _MADE:
        return list(MADE)
