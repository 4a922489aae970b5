"""The pause after a 429 with Retry-After: all calls of that function, client or origin wait.

Rule: one call's Retry-After applies to the others. No call waits longer than its own
`max_retry_after` and deadline allow: a call that would have to is rejected at once, before anything
is called. A pause belongs to the clock by which it was set, so that a pause of a test in virtual
time has no effect in real time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ...failure import Failure, ThrottledError, is_limited
from ...transports.event_loop import running_loop
from ...values.backoff import Backoff
from ...world import REAL
from ..guards import not_admitted
from ..registry import InUse


if TYPE_CHECKING:
    from collections.abc import Generator

    from ...world import World
    from ..frame import CallFrame
    from ..registry import States
    from .value import Retry


# The calls that waited for the same end are spread over a tenth of the pause, as are those that got
# the Retry-After.
_SPREAD: Final = 0.1


class Pause:
    """The time until which the calls of one owner wait; the runners read `until` without a lock."""

    __slots__ = ("__weakref__", "_clock", "_seconds", "key", "until")

    def __init__(self, key: str) -> None:
        self.key = key
        self.until = 0.0
        self._clock: object = None
        self._seconds = 0.0

    def heard(self, world: World, failure: Failure, retry: Retry) -> None:
        """Handle a failure: if a limiter asks for a wait within the limit, all calls wait."""
        seconds = failure.retry_after
        if seconds is None or seconds > retry.max_retry_after or not is_limited(failure):
            return
        now = world.monotonic()
        until = now + seconds
        if self._clock is not world.monotonic or until > self.until:
            self._clock, self.until, self._seconds = world.monotonic, until, seconds
        if world.monotonic is REAL.monotonic:
            PAUSED.difference_update([other for other in list(PAUSED) if other.until <= now])
            PAUSED.add(self)

    def to_go(self, world: World) -> float:
        """Return the seconds until the pause is over, 0 or less if it is."""
        return self.until - world.monotonic() if self._clock is world.monotonic else 0.0

    def spread(self, world: World) -> float:
        """Return the delay after the end for one of the waiting calls."""
        return self._seconds * _SPREAD * world.rng.random()


PAUSED: Final[set[Pause]] = set()
"""The pauses in real time that may not be over.

While there is none, which is nearly always, the runners check nothing else.
"""

NO_PAUSE: Final = Pause("")
"""The pause of a policy without a Retry, which does not specify how long its calls would wait."""

_PAUSES: Final = InUse[Pause]()


def pause_of(states: States) -> Pause:
    """Return the pause of an owner's calls, whatever key its layers share with other owners."""
    make = partial(Pause, states.name)
    return states.owned(
        "pause", partial(_PAUSES.of, states.name, make) if states.shares_pause else make
    )


class PauseGuard:
    """Waits, before an attempt, for the end of a pause."""

    __slots__ = ("_retry", "pause")

    def __init__(self, pause: Pause, retry: Retry) -> None:
        self.pause = pause
        self._retry = retry

    def enter(self, attempt: CallFrame) -> _PauseWait | None:
        return None if self.pause.to_go(attempt.world) <= 0 else _PauseWait(self, attempt)

    def waits(self, attempt: CallFrame) -> Generator[float, None, None]:
        """Yield the seconds to wait until no pause is left. Raises ThrottledError.

        Another call may start or extend a pause in the meantime.
        """
        world, most, retry = attempt.world, self._retry.max_retry_after, self._retry
        while (wanted := self.pause.to_go(world)) > 0:
            remaining = attempt.remaining
            if wanted > most or (remaining is not None and wanted >= remaining):
                raise self._rejection(attempt, wanted)
            is_exact = isinstance(retry.backoff, Backoff) and not retry.backoff.is_random
            wait = wanted if is_exact else min(wanted + self.pause.spread(world), most)
            if remaining is not None and wait >= remaining:
                wait = wanted
            (attempt.first or attempt).waited += wait
            most -= wait
            yield wait

    def _rejection(self, attempt: CallFrame, wanted: float) -> ThrottledError:
        text = f"{self.pause.key} is paused: a limiter asked for {wanted:.3g} s more"
        error = ThrottledError(Failure.of("SYS_THROTTLED", text, retry_after=wanted))
        not_admitted(attempt, "rate_limit", self.pause.key, error)
        return error


class _PauseWait:
    """The wait of one attempt."""

    __slots__ = ("_attempt", "_guard")

    def __init__(self, guard: PauseGuard, attempt: CallFrame) -> None:
        self._guard = guard
        self._attempt = attempt

    def block(self) -> None:
        for seconds in self._guard.waits(self._attempt):
            self._attempt.world.sleep(seconds)

    async def suspend(self) -> None:
        for seconds in self._guard.waits(self._attempt):
            running_loop("Retry")
            await self._attempt.world.asleep(seconds)
