"""Adaptive limits that several processes share: what was learnt, the places, and who is next.

Each operation on a limit reads it from the store, changes it as if it were this process's own, and
writes it back, in one critical section of microseconds. The queue stays in its process; of it the
others see when the first call arrived, and the earliest of all processes starts first. A process
that has not written for a second is not waited for.

Rule: no call starts without the store, unless the store is away: then the limit goes on in this
process alone, from what was learnt last, without the places of the others.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from ...failure import config_error
from ...values.identical import NotComparableError, digest_of
from ..shared import LimitShare
from .machine import FORGOTTEN_AFTER
from .state import Limit, Limits


if TYPE_CHECKING:
    from collections.abc import Hashable
    from contextlib import AbstractContextManager
    from threading import RLock

    from ..shared import LimitLine, LimitView, SharedLimitState
    from .machine import Ticket
    from .value import AdaptiveLimit


_LOOKS: Final = (0.005, 0.05)
"""Seconds after which a waiting process looks again for a free place: a twentieth of a call's
duration, between these."""
_SHUT_LOOKS: Final = 0.25  # the same, while nobody may start
_PRESENT: Final = 1.0  # seconds after which a process that wrote nothing is not waited for


class SharedLimit(Limit):
    """One limit, with the line to what all processes know of it."""

    __slots__ = ("ahead", "depth", "is_held", "line", "other_earlier", "other_running")

    def __init__(
        self, key: Hashable, at_once: float, now: float, settings: AdaptiveLimit, line: LimitLine
    ) -> None:
        super().__init__(key, at_once, now, settings)
        self.line = line
        self.depth = 0  # how many blocks of this thread hold it
        self.is_held = False
        self.other_running = self.other_earlier = 0  # calls in flight of the other users
        self.ahead = inf  # when the first waiting call of the others arrived

    # ---- reading and writing --------------------------------------------------------------------

    def read(self, now: float) -> bool:
        """Hold the limit, and take what the others have changed; return whether it was written before."""
        running, earlier = self.running - self.other_running, self.earlier - self.other_earlier
        view = self.line.hold(now)
        self.is_held = view is not None
        if view is not None:
            self._see(view, now)
        elif not self.line.is_up:
            self.other_running = self.other_earlier = 0
            self.ahead = inf
        self.recount(running + self.other_running, earlier + self.other_earlier, now)
        return view is not None and bool(view.numbers)

    def _see(self, view: LimitView, now: float) -> None:
        if view.numbers:
            self.take(view.numbers)
        self.other_running = sum([other.running for other in view.others])
        self.other_earlier = sum([other.earlier for other in view.others])
        waiting = [other.first for other in view.others if now - other.at <= _PRESENT]
        self.ahead = min(waiting, default=inf)

    def write(self, now: float) -> None:
        """Write what this process has changed, and hold the limit no more."""
        if self.is_held:
            self.is_held = False
            share = LimitShare(
                running=self.running - self.other_running,
                earlier=self.earlier - self.other_earlier,
                first=self.queue[0].arrived if self.queue else inf,
                at=now,
            )
            self.line.write(self.numbers(), share, self.refused_at + FORGOTTEN_AFTER)

    # ---- what is different ----------------------------------------------------------------------

    def earlier_ended(self, now: float) -> None:
        """Count the end of a call of this process that began before there was a limit."""
        if self.earlier > self.other_earlier:
            super().earlier_ended(now)

    def next_at(self, now: float) -> float:
        """Return when to look again: an end in another process wakes nobody here."""
        if not self.queue:
            return inf
        least, most = _LOOKS
        look = now + min(most, max(least, self._duration / 20))
        if (opens_at := max(self.opens_at, self._starts_at)) > look:
            look = min(opens_at, now + _SHUT_LOOKS)
        return look if self._waits_for_others() else min(super().next_at(now), look)

    def _may_start(self, now: float) -> bool:
        return not self._waits_for_others() and super()._may_start(now)

    def _waits_for_others(self) -> bool:
        """Return whether a call of another process is first, or nobody knows."""
        return self.queue[0].arrived > self.ahead or not (self.is_held or not self.line.is_up)


class SharedLimits(Limits):
    """The limits of one owner, or of one name, that all processes with the same store share."""

    __slots__ = ("store",)

    def __init__(self, key: str, settings: AdaptiveLimit, store: SharedLimitState) -> None:
        super().__init__(key, settings)
        self.store = store

    @property
    def in_force(self) -> bool:
        """Whether some call may have to wait, because of a refusal in whatever process."""
        return super().in_force or (self._is_common and self.store.is_limited(self.clock()))

    @property
    def _is_common(self) -> bool:
        return self.clock is not None and self.store.is_common(self.clock)

    def find(self, key: Hashable, now: float) -> Limit | None:
        """Return the limit of a key, None if there is none in any process."""
        if self._is_common:
            with self._lock:
                limit = self.by_key.get(key)
                if limit is None:
                    self._adopt(key, now)
                elif limit.is_unused(now):
                    with self._held(limit, now):  # another process may have been refused
                        pass
            self.store.report()
        return super().find(key, now)

    def advance(self, limit: Limit, now: float, asking: Ticket | None = None) -> float:
        """Wake the calls whose wait is over; return when to do that again."""
        at = super().advance(limit, now, asking)
        self.store.report()
        return at

    def _adopt(self, key: Hashable, now: float) -> None:
        """Take over a limit that another process began, with the calls in flight here."""
        limit: Any = self._new(key, 1, now)
        if not limit.read(now):
            if limit.is_held:
                limit.line.release()
            return
        in_flight = sum(guard._key(frame) == key for frame, guard in list(self.flying.items()))  # noqa: SLF001 -- the guard of the layer
        if in_flight:
            limit.began_with_calls(in_flight)
        limit.write(now)
        self.by_key[key] = limit

    def in_use(self, now: float) -> list[Limit]:
        """Return the limits that are not forgotten, as all processes know them."""
        with self._lock:
            for limit in self.by_key.values():
                with self._held(limit, now):
                    pass
        return super().in_use(now)

    def _twin(self) -> Limits:
        return SharedLimits(self.key, self.settings, self.store)

    def _new(self, key: Hashable, at_once: float, now: float) -> Limit:
        if not self._is_common:
            return super()._new(key, at_once, now)
        try:
            name = digest_of(self.key, key)
        except NotComparableError as error:
            wanted = "a function that returns a text, a number, or several: all processes have to agree on it"
            raise config_error("AdaptiveLimit.key", wanted, error.got) from None
        return SharedLimit(key, at_once, now, self.settings, self.store.limit(name))

    def _held(self, limit: Limit, now: float) -> AbstractContextManager[object]:
        if isinstance(limit, SharedLimit):
            return _Held(self._lock, limit, now)
        return self._lock


class _Held:
    """Holds one limit for this thread, and for this process."""

    __slots__ = ("_limit", "_lock", "_now")

    def __init__(self, lock: RLock, limit: SharedLimit, now: float) -> None:
        self._lock = lock
        self._limit = limit
        self._now = now

    def __enter__(self) -> None:
        self._lock.acquire()
        self._limit.depth += 1
        if self._limit.depth == 1:
            self._limit.read(self._now)

    def __exit__(self, *_: object) -> None:
        self._limit.depth -= 1
        if not self._limit.depth:
            self._limit.write(self._now)
        self._lock.release()
