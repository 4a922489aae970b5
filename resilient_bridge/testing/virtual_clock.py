"""Virtual time on a real event loop: a test moves the clock, or the earliest wait does.

The clock moves to the earliest wait when nothing else can run. Rule: a timeout, a deadline or a
timer never moves it by itself, but the loop's own time does: when as many seconds as a limit has
left pass there, and nothing else can run, the clock moves to the end of the limit. So parallel
waits overlap as in real time, work that is ready runs before a wait ends, and what waits for
something real is ended as in real time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from functools import partial
from math import ceil, inf
from time import monotonic
from typing import Any, Final
from weakref import ref

from ..failure import config_error
from ..failure.teaching import TeachesNames


# iterations of a loop in which something is always ready: a test that polls with `sleep(0)`
_ROUNDS: Final = 1_000
_BLIND_ROUNDS: Final = 100  # iterations of a loop that cannot report whether anything is ready


class _Timer:
    __slots__ = ("__weakref__", "callback", "is_over", "of_loop")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.is_over = False  # it has run, or was cancelled
        self.of_loop: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        self.is_over = True
        if self.of_loop is not None:
            self.of_loop.cancel()


class VirtualTime(TeachesNames):
    """The policies' clock: it moves by waits and by `advance`, and for a limit that has run out in
    the loop's own time.

        with rb.testing.virtual_time() as time, rb.testing.inject(search, 503, 503):
            search("x")
        print(len(time.slept))      # 2

    `slept` lists the waits, in seconds, in the order in which they start.
    """

    def __init__(self) -> None:
        self.slept: list[float] = []
        # From about now, so that circuits that existed before keep their times; whole, so that
        # steps add up exactly.
        self._origin = float(ceil(monotonic()))
        self._elapsed = (
            0.0  # the clock itself begins at 0, so that its steps are the same in each run
        )
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = itertools.count()
        self._waits: list[
            tuple[float, int, _Timer]
        ] = []  # of tasks: those timers that move the clock
        # The loop in which a callback checks whether anything else is ready. Weak: it may be closed
        # before that.
        self._watched: ref[asyncio.AbstractEventLoop] | None = None

    @property
    def now(self) -> float:
        """The monotonic time that policies see, in seconds."""
        return self._origin + self._elapsed

    @property
    def elapsed(self) -> float:
        """The virtual seconds since this clock was made."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, with the waits, timeouts and deadlines that end in that time.

        Raises ConfigError for a negative number or nan.
        """
        if not 0 <= seconds < inf:
            raise config_error("VirtualTime.advance.seconds", "seconds from 0", seconds)
        self._advance_to(self._elapsed + seconds)

    def sleep(self, seconds: float) -> None:
        """Record a blocking wait, and let its time pass."""
        self.slept.append(seconds)
        self.advance(seconds)

    async def asleep(self, seconds: float) -> None:
        """Record a wait of this task, and suspend the task until the clock has reached its end."""
        self.slept.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        timer = self.call_later(seconds, partial(_wake, loop, woken))
        heapq.heappush(self._waits, (self._elapsed + seconds, next(self._order), timer))
        self._watch(loop)
        try:
            await woken
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> _Timer:
        """Have `callback` run once that many seconds have passed."""
        timer = _Timer(callback)
        heapq.heappush(self._timers, (self._elapsed + seconds, next(self._order), timer))
        return timer

    def limit(
        self, loop: asyncio.AbstractEventLoop, seconds: float, callback: Callable[[], object]
    ) -> _Timer:
        """Have `loop` run `callback` once that many seconds have passed, virtual or its own ones."""
        ends = self._elapsed + seconds
        # Through the loop, as its own timers: a call that never yields is not cancelled, however
        # long it takes.
        timer = self.call_later(
            seconds, lambda: None if loop.is_closed() else loop.call_soon(callback)
        )
        timer.of_loop = loop.call_later(seconds, self._overtake, loop, ends, timer)
        return timer

    def _overtake(
        self, loop: asyncio.AbstractEventLoop, ends: float, timer: _Timer, rounds: int = 0
    ) -> None:
        """Move the clock to the end of a limit, unless something is ready: a busy machine may have
        stopped the loop for as long as the limit.
        """
        if timer.is_over:
            return
        if _is_busy(loop, rounds):
            loop.call_soon(self._overtake, loop, ends, timer, rounds + 1)
        else:
            self._advance_to(ends)

    def _advance_to(self, until: float) -> None:
        while self._timers and self._timers[0][0] <= until:
            at, _, timer = heapq.heappop(self._timers)
            self._elapsed = max(self._elapsed, at)
            if not timer.is_over:
                timer.is_over = True
                timer.callback()
        self._elapsed = max(self._elapsed, until)

    def _watch(self, loop: asyncio.AbstractEventLoop, rounds: int = 0) -> None:
        """Move the clock to the earliest wait as soon as nothing else is ready in this loop."""
        if rounds or self._watched is None or self._watched() is not loop:
            self._watched = ref(loop)
            loop.call_soon(self._look, loop, rounds + 1)

    def _look(self, loop: asyncio.AbstractEventLoop, rounds: int) -> None:
        while self._waits and self._waits[0][2].is_over:
            heapq.heappop(self._waits)
        if not self._waits:
            self._watched = None
        elif _is_busy(loop, rounds):
            self._watch(loop, rounds)
        else:
            self._watched = None
            self._advance_to(self._waits[0][0])
            self._watch(loop)


def _is_busy(loop: asyncio.AbstractEventLoop, rounds: int) -> bool:
    """Return whether something else is ready, in a loop that was asked `rounds` times before."""
    ready: Any = getattr(loop, "_ready", None)  # asyncio's own loops; there is no public way to ask
    return rounds < (_BLIND_ROUNDS if ready is None else _ROUNDS if ready else 0)


def _wake(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    if not future.done() and not loop.is_closed():
        future.set_result(None)
