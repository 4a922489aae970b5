"""Adaptive limits that the processes of a machine share: what was learnt, the places, who is next.

Each operation on a limit reads it from the store, changes it as if it were this process's own, and
writes it back, in one critical section of microseconds. The queue stays in its process; of it the
others see when the first call arrived, and the earliest of all processes starts first. A process
that has not written for a second is not waited for. Limits of many machines are in remote_limits.

Rule: no call starts without the store, unless the store is away: then the limit goes on in this
process alone, from what was learnt last, without the places of the others.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from ...failure import config_error
from ...values.identical import NotComparableError, digest_of
from ..shared import PRESENT, LimitShare
from .machine import FORGOTTEN_AFTER
from .state import Limit, Limits


if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from contextlib import AbstractContextManager
    from threading import RLock

    from ..shared import LimitLine, SharedLimitState
    from .machine import Ticket
    from .value import AdaptiveLimit


_LOOKS: Final = (0.005, 0.05)
"""Seconds after which a waiting process looks again for a free place: a twentieth of a call's
duration, between these."""
_SHUT_LOOKS: Final = 0.25  # the same, while nobody may start


class SharedLimit(Limit):
    """One limit, with what the other users of it have."""

    __slots__ = ("ahead", "depth", "other_earlier", "other_running")

    def __init__(self, key: Hashable, at_once: float, now: float, settings: AdaptiveLimit) -> None:
        super().__init__(key, at_once, now, settings)
        self.depth = 0  # how many blocks of this thread change it
        self.other_running = self.other_earlier = 0  # calls in flight of the other users
        self.ahead = inf  # when the first waiting call of the others arrived

    def begin(self, now: float) -> None:
        """Begin to change it."""

    def end(self, now: float) -> None:
        """Pass on what was changed."""

    # ---- the others -----------------------------------------------------------------------------

    def see(self, others: Sequence[LimitShare], clock: float, ahead: float = 0.0) -> None:
        """Take the shares of the others: it is `clock` by theirs, which is so far ahead of ours."""
        self.other_running = sum([other.running for other in others])
        self.other_earlier = sum([other.earlier for other in others])
        waiting = [other.first for other in others if clock - other.at <= PRESENT]
        self.ahead = min(waiting, default=inf) - ahead

    def see_none(self) -> None:
        """Go on alone."""
        self.see((), 0.0)

    def share(self, now: float, ahead: float = 0.0) -> LimitShare:
        """Return what this process has of it, by a clock that is so far ahead."""
        return LimitShare(
            running=self.running - self.other_running,
            earlier=self.earlier - self.other_earlier,
            first=self.queue[0].arrived + ahead if self.queue else inf,
            at=now + ahead,
        )

    def earlier_ended(self, now: float) -> None:
        """Count the end of a call of this process that began before there was a limit."""
        if self.earlier > self.other_earlier:
            super().earlier_ended(now)

    def look_at(self, now: float) -> float:
        """Return when to look again: an end in another process wakes nobody here."""
        least, most = _LOOKS
        look = now + min(most, max(least, self._duration / 20))
        if (opens_at := max(self.opens_at, self._starts_at)) > look:
            look = min(opens_at, now + _SHUT_LOOKS)
        return look

    def next_at(self, now: float) -> float:
        """Return when to look again, at the latest."""
        if not self.queue:
            return inf
        look = self.look_at(now)
        return look if self._has_to_wait() else min(super().next_at(now), look)

    def _may_start(self, now: float) -> bool:
        return not self._has_to_wait() and super()._may_start(now)

    def _has_to_wait(self) -> bool:
        """Return whether a call of another process is first, or this one may not start any."""
        return self.queue[0].arrived > self.ahead


class HeldLimit(SharedLimit):
    """One limit that is read, changed and written in one critical section."""

    __slots__ = ("is_held", "line")

    def __init__(
        self, key: Hashable, at_once: float, now: float, settings: AdaptiveLimit, line: LimitLine
    ) -> None:
        super().__init__(key, at_once, now, settings)
        self.line = line
        self.is_held = False

    def begin(self, now: float) -> None:
        """Hold the limit, and take what the others have changed."""
        self.read(now)

    def read(self, now: float) -> bool:
        """Do so, and return whether somebody has written it before."""
        running, earlier = self.running - self.other_running, self.earlier - self.other_earlier
        view = self.line.hold(now)
        self.is_held = view is not None
        if view is not None:
            if view.numbers:
                self.take(view.numbers)
            self.see(view.others, now)
        elif not self.line.is_up:
            self.see_none()
        self.recount(running + self.other_running, earlier + self.other_earlier, now)
        return view is not None and bool(view.numbers)

    def end(self, now: float) -> None:
        """Write what this process has changed, and hold the limit no more."""
        if self.is_held:
            self.is_held = False
            self.line.write(self.numbers(), self.share(now), self.refused_at + FORGOTTEN_AFTER)

    def _has_to_wait(self) -> bool:
        return super()._has_to_wait() or not (self.is_held or not self.line.is_up)


class SharedLimits(Limits):
    """The limits of one owner, or of one name, that the processes of a machine share."""

    __slots__ = ("store",)

    def __init__(self, key: str, settings: AdaptiveLimit, store: Any) -> None:
        super().__init__(key, settings)
        self.store = store

    @property
    def in_force(self) -> bool:
        """Whether some call may have to wait, because of a refusal in whatever process."""
        return super().in_force or (self.is_common and self._is_limited())

    def _is_limited(self) -> bool:
        """Return whether some limit is in force, of whatever name."""
        store: SharedLimitState = self.store
        return store.is_limited(self.clock())

    @property
    def is_common(self) -> bool:
        """Whether the processes agree on the time by which these limits go."""
        return self.clock is not None and self.store.is_common(self.clock)

    def find(self, key: Hashable, now: float) -> Limit | None:
        """Return the limit of a key, None if there is none in any process."""
        if self.is_common:
            with self._lock:
                self._meet(key, now)
            self._report()
        return super().find(key, now)

    def _meet(self, key: Hashable, now: float) -> None:
        """Learn of a limit that another process began."""
        limit = self.by_key.get(key)
        if limit is None:
            self._adopt(key, now)
        elif limit.is_unused(now):
            with self._held(limit, now):  # another process may have been refused
                pass

    def advance(self, limit: Limit, now: float, asking: Ticket | None = None) -> float:
        """Wake the calls whose wait is over; return when to do that again."""
        at = super().advance(limit, now, asking)
        self._report()
        return at

    def _report(self) -> None:
        self.store.report()

    def _adopt(self, key: Hashable, now: float) -> None:
        """Take over a limit that another process began, with the calls in flight here."""
        limit: Any = self._new(key, 1, now)
        if not limit.read(now):
            if limit.is_held:
                limit.line.release()
            return
        self._count_earlier(limit)
        limit.end(now)
        self.by_key[key] = limit

    def _count_earlier(self, limit: Limit) -> None:
        """Count the calls in flight that began when this process knew no limit of their key."""
        flying: list[Any] = list(self.flying.items())
        in_flight = sum(guard._key(frame) == limit.key for frame, guard in flying)  # noqa: SLF001 -- the guard of the layer
        if in_flight:
            limit.began_with_calls(in_flight)

    def in_use(self, now: float) -> list[Limit]:
        """Return the limits that are not forgotten, as all processes know them."""
        with self._lock:
            for limit in self.by_key.values():
                with self._held(limit, now):
                    pass
        return super().in_use(now)

    def _twin(self) -> Limits:
        return type(self)(self.key, self.settings, self.store)

    def _new(self, key: Hashable, at_once: float, now: float) -> Limit:
        if not self.is_common:
            return super()._new(key, at_once, now)
        return HeldLimit(key, at_once, now, self.settings, self.store.limit(self.shared_name(key)))

    def shared_name(self, key: Hashable) -> str:
        """Return the name of a limit in all processes: a digest. ConfigError for a key without one."""
        try:
            return digest_of(self.key, key)
        except NotComparableError as error:
            wanted = "a function that returns a text, a number, or several: all processes have to agree on it"
            raise config_error("AdaptiveLimit.key", wanted, error.got) from None

    def _held(self, limit: Limit, now: float) -> AbstractContextManager[object]:
        if isinstance(limit, SharedLimit):
            return _Changing(self._lock, limit, now)
        return self._lock


class _Changing:
    """Has one limit for this thread alone, from the outermost `begin` to its `end`."""

    __slots__ = ("_limit", "_lock", "_now")

    def __init__(self, lock: RLock, limit: SharedLimit, now: float) -> None:
        self._lock = lock
        self._limit = limit
        self._now = now

    def __enter__(self) -> None:
        self._lock.acquire()
        self._limit.depth += 1
        if self._limit.depth == 1:
            self._limit.begin(self._now)

    def __exit__(self, *_: object) -> None:
        self._limit.depth -= 1
        if not self._limit.depth:
            self._limit.end(self._now)
        self._lock.release()
