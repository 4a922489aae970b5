"""What a policy sees of the world: a clock, two ways to sleep, chance, and the switches of a test.

Rule: it comes with the context, never from a global, so that a test may slow, speed or fail its own calls and nobody
else's. Everything in this room that needs the time or a random number asks the environment of the attempt.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Callable
    from typing import Protocol

    class Timer(Protocol):
        """What can still be called off."""

        def cancel(self) -> None: ...


__all__ = ["REAL", "Environment"]


class Environment:
    """The real one: the monotonic clock, real sleeps, the system's random source."""

    is_disabled: bool = False
    _rng: random.Random | None = None

    def __init__(self) -> None:
        """See the world as it is."""
        # Seconds that only grow; an attribute, because it is read on every call.
        self.monotonic: Callable[[], float] = time.monotonic

    def use_rng(self, rng: random.Random) -> None:
        """Take chance from there, for a run that can be repeated."""
        self._rng = rng

    @property
    def rng(self) -> random.Random:
        """The source of jitter. The system's: forked workers must not share a sequence, or their jitter is none."""
        if self._rng is None:
            from random import SystemRandom

            self._rng = SystemRandom()
        return self._rng

    def sleep(self, seconds: float) -> None:
        """Block this thread. No wait is no call: `time.sleep(0)` costs 80 microseconds."""
        if seconds > 0:
            time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        """Suspend this task; no wait does not even give way."""
        if seconds > 0:
            import asyncio

            await asyncio.sleep(seconds)

    def time_of(self, loop: asyncio.AbstractEventLoop) -> float:
        """Return the time that `call_later` goes by. The loop's own: a loop may be simulated, or cache its clock."""
        return loop.time()

    def call_later(
        self, loop: asyncio.AbstractEventLoop, seconds: float, callback: Callable[[], None]
    ) -> Timer:
        """Have `callback` run by `loop` after that many seconds."""
        return loop.call_later(seconds, callback)

    def injected(self, function: Any, owner: object) -> Any:  # noqa: ARG002 -- tests look at it
        """Return what is called instead of `function`, which `owner` protects; only tests inject anything."""
        return function


REAL = Environment()
"""The world outside of tests."""
