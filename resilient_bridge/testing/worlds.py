"""The worlds that replace the real one in tests: virtual, simulated, and without policies.

Rule: everything here is context-local. It applies to the code inside the `with` block and to tasks
started there, so that tests may run side by side. The policies and their decisions are the real
ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import Token
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ..calls.ports import CallFrame, current_frame, leave_world
from ..calls.ports import enter_world as enter_calls
from ..failure import config_error
from ..failure.teaching import RefusedUse, taught
from ..world import WORLD, World, current_world
from ..world.real import run_into
from .timeline import Timeline
from .virtual_clock import VirtualTime


T = TypeVar("T")
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class AlteredWorld(World):
    """The world around a block with one change, made by a subclass or by its creator."""

    def __init__(self, around: World) -> None:
        super().__init__()
        self.around = around
        self.monotonic, self.wall, self.loop_wall = around.monotonic, around.wall, around.loop_wall
        self.is_disabled = around.is_disabled
        self.limits_move_clock = around.limits_move_clock
        self.use_random(around.rng, around.ids)

    def sleep(self, seconds: float) -> None:
        self.around.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        await self.around.asleep(seconds)

    def time_of(self, loop: asyncio.AbstractEventLoop) -> float:
        return self.around.time_of(loop)

    def call_later(
        self, loop: asyncio.AbstractEventLoop, seconds: float, callback: Callable[[], None]
    ) -> Any:
        return self.around.call_later(loop, seconds, callback)

    def call_in_thread(self, function: Callable[[], T], name: str) -> Future[T]:
        return self.around.call_in_thread(function, name)

    def injected(self, function: Any, owner: object) -> Any:
        return self.around.injected(function, owner)


class _VirtualWorld(AlteredWorld):
    """Waits take no time and move a test's clock; random numbers come from a seed."""

    def __init__(self, around: World, time: VirtualTime, seed: int, start: float) -> None:
        super().__init__(around)
        self.time = time
        self.limits_move_clock = True
        self.monotonic = lambda: time.now
        self.wall = lambda: start + time.elapsed
        self.use_random(Random(seed), Random(f"{seed}/ids"))

    def sleep(self, seconds: float) -> None:
        self.time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        await self.time.asleep(seconds)

    def time_of(self, loop: asyncio.AbstractEventLoop) -> float:
        del loop
        return self.time.now

    def call_later(
        self, loop: asyncio.AbstractEventLoop, seconds: float, callback: Callable[[], None]
    ) -> Any:
        return self.time.limit(loop, seconds, callback)


class _SimulatedWorld(AlteredWorld):
    """The clocks of a simulated loop, and random numbers from the seed of the run.

    There are no threads: a function for a thread runs here.
    """

    def __init__(self, around: World, loop: Timeline, rng: Random, ids: Random) -> None:
        super().__init__(around)
        self.monotonic, self.wall, self.loop_wall = loop.time, loop.wall, loop.wall
        self.limits_move_clock = False
        self.use_random(rng, ids)
        self.loop = loop

    def sleep(self, seconds: float) -> None:
        self.loop.stall(seconds)

    def new_rng(self) -> Random:
        return self.ids  # one source for all owners: in a simulation they come in a fixed order

    def call_in_thread(self, function: Callable[[], T], name: str) -> Future[T]:
        del name
        future: Future[T] = Future()
        run_into([future], function)
        return future


class Inside(AbstractContextManager[T], Generic[T]):
    """A context manager that sets another world, which `world` makes from the outer one; it returns
    `subject`.

    A class, and not a generator: `contextlib` writes to the exceptions that pass through one, and
    some refuse.
    """

    def __init__(self, subject: T, world: Callable[[World], World]) -> None:
        self._subject = subject
        self._world = world
        self._stays: list[tuple[CallFrame, World, Token[CallFrame], Token[World]]] = []

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = RefusedUse(
            "rb.testing", "with", "async with", "with rb.testing.virtual_time() as clock: ..."
        )

        def __getattr__(self, name: str) -> Any:
            wanted = "what `with` returns"
            raise AttributeError(
                f"wanted {wanted}, got {name!r} of the block itself; write with rb.testing.virtual_time() as clock: clock.{name}"
            )

    def __enter__(self) -> T:
        call, around = current_frame(), current_world()
        tokens = enter_world(self._world(around))
        self._stays.append((call, around, *tokens))
        return self._subject

    def __exit__(self, *exc: object) -> None:
        call, around, of_call, of_world = self._stays.pop()
        leave_world(of_call, call)
        try:
            WORLD.reset(of_world)
        except ValueError:
            # exited in another context than entered, as fixtures are: that context ends with the
            # test
            WORLD.set(around)


def enter_world(world: World) -> tuple[Token[CallFrame], Token[World]]:
    """Set a world in this context, for all readers and for the calls that start in it."""
    return enter_calls(world), WORLD.set(world)


@taught
def virtual_time(
    *, seed: int = 0, start: datetime | None = None
) -> AbstractContextManager[VirtualTime]:
    """Make the policies called inside wait in virtual time.

        with rb.testing.virtual_time() as time, rb.testing.inject(search, 503, 503):
            search("x")      # waits twice, and takes no time
        print(len(time.slept))      # 2

    Waits take no time: they are recorded in `slept` and move the clock. Jitter comes from `seed`.
    The date starts at `start` (an aware datetime), or with the year 2026, so that two runs of a
    seed have the same times of events, too. ConfigError for a naive `start`.

    It is the clock of the policies only: a sleep of your own takes real time. The clock moves to
    the earliest wait once no other task is ready, so waits of parallel tasks overlap; those of
    parallel threads add up. A Timeout or Deadline ends when `advance` or a wait of a policy passes
    its end, or when as many real seconds have passed: around a sleep of your own, or a socket that
    does not answer. For whole programs in virtual time there is `simulate`.
    """
    if start is not None and start.tzinfo is None:
        raise config_error(
            "virtual_time.start", "an aware datetime, such as datetime.now(UTC)", "a naive one"
        )
    time, began = VirtualTime(), (start or _START).timestamp()
    return Inside(time, lambda around: _VirtualWorld(around, time, seed, began))


@taught
def disabled() -> AbstractContextManager[None]:
    """Run protected functions and blocks as if no policy protected them.

        with rb.testing.disabled():
            search("x")      # once, without its policy

    For tests of the functions themselves.
    """

    def without_policies(around: World) -> World:
        world = AlteredWorld(around)
        world.is_disabled = True
        return world

    return Inside(None, without_policies)


def enter_simulation(loop: Timeline, rng: Random, ids: Random) -> None:
    """Use a simulated loop's clocks in this context, and random numbers from the run's seed."""
    enter_world(_SimulatedWorld(current_world(), loop, rng, ids))
