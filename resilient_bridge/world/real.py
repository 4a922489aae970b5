"""The real world, and the base class of the worlds that tests install."""

from __future__ import annotations

import time
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar


if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor
    from typing import Protocol

    class TimerHandle(Protocol):
        """A timer that can be cancelled."""

        def cancel(self) -> None: ...


T = TypeVar("T")


async def _no_wait() -> None:
    """Return at once."""


class World:
    """The machine's clocks, real waits, the system's random source and real threads."""

    is_disabled: bool = False
    """Whether all policies are disabled: each call goes through unprotected."""
    limits_move_clock: bool = False
    """Whether a timer of `call_later` that fires may move the clock: one that is not needed any more
    has to be cancelled then.
    """
    rng: random.Random
    """The source of jitter."""
    ids: random.Random
    """The source of ids.

    In a seeded world it is separate from `rng`, so that a new id changes no wait.
    """

    def __init__(self) -> None:
        # Attributes, because they are read on every call. Both are in seconds: a monotonic clock,
        # and the time since 1970.
        self.monotonic: Callable[[], float] = time.monotonic
        self.wall: Callable[[], float] = time.time
        # The wall clock that goes with the running loop's clock, for code that waits for I/O.
        self.loop_wall: Callable[[], float] = time.time

    def now(self) -> datetime:
        """Return the wall clock as a date in UTC."""
        return datetime.fromtimestamp(self.wall(), UTC)

    # ---- randomness, and what loads late ---------------------------------------------------------------------------------------------

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # Created on first use: importing `random` or `asyncio` takes longer than importing this
            # package. The system's source, because forked workers with one sequence would wait
            # equally long.
            if name == "asleep":
                import asyncio

                # `asyncio.sleep` as it is then: a test may replace it
                self.asleep = lambda seconds: asyncio.sleep(seconds) if seconds > 0 else _no_wait()
                return self.asleep
            if name not in ("rng", "ids"):
                raise AttributeError(name)
            from random import SystemRandom

            self.rng = self.ids = SystemRandom()
            return self.rng

    def use_random(self, rng: random.Random, ids: random.Random) -> None:
        """Draw jitter and ids from these sources. The same seeds give the same run."""
        self.rng, self.ids = rng, ids

    def new_rng(self) -> random.Random:
        """Return a random source for one owner, with a seed of its own."""
        from random import Random

        return Random(self.ids.getrandbits(128))

    def new_id(self) -> str:
        """Return a new UUID (version 4) as text."""
        from uuid import UUID

        return str(UUID(int=self.ids.getrandbits(128), version=4))

    def new_token(self) -> str:
        """Return a unique name of 16 random hexadecimal digits."""
        return f"{self.ids.getrandbits(64):016x}"

    # ---- waits --------------------------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Block this thread. A wait of 0 makes no call: `time.sleep(0)` costs 80 microseconds."""
        if seconds > 0:
            time.sleep(seconds)

    if TYPE_CHECKING:

        async def asleep(self, seconds: float) -> None:
            """Suspend this task; a wait of 0 does not yield to other tasks.

            It is `asyncio.sleep`, without a coroutine of ours around it.
            """

    def time_of(self, loop: asyncio.AbstractEventLoop) -> float:
        """Return the time of the loop's clock, for `call_later`; it may be simulated or cached."""
        return loop.time()

    def call_later(
        self, loop: asyncio.AbstractEventLoop, seconds: float, callback: Callable[[], None]
    ) -> TimerHandle:
        """Have `loop` run `callback` after `seconds`, and return the timer."""
        return loop.call_later(seconds, callback)

    # ---- threads ------------------------------------------------------------------------------------------------

    def start_thread(self, function: Callable[[], object], name: str) -> Thread:
        """Run `function` in a new daemon thread, and return that."""
        thread = Thread(target=function, name=f"resilient_bridge {name}", daemon=True)
        thread.start()
        return thread

    def call_in_thread(self, function: Callable[[], T], name: str) -> Future[T]:
        """Call `function` in a daemon thread of its own.

        Return its future. A simulated world calls it in this thread, before this returns.
        """
        from concurrent.futures import Future

        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        # `run_into` pops the future out of a list: an error refers to the frames that it passed, so
        # a frame that held the future, and thus the error, would form a reference cycle.
        self.start_thread(partial(run_into, [future], function), name)
        return future

    def new_executor(self, name: str) -> ThreadPoolExecutor:
        """Return an executor with one thread. The caller shuts it down."""
        from concurrent.futures import ThreadPoolExecutor

        return ThreadPoolExecutor(1, thread_name_prefix=f"resilient_bridge {name}")

    # ---- tests --------------------------------------------------------------------------------------------------

    def injected(self, function: Any, owner: object) -> Any:  # noqa: ARG002 -- a test's world looks at it
        """Return the replacement for `function`, which `owner` protects; only tests inject one."""
        return function


REAL: Final = World()
"""The default world: real clocks, waits, random numbers and threads."""

WORLD: Final[ContextVar[World]] = ContextVar("resilient_bridge.world", default=REAL)


def current_world() -> World:
    """Return the world of this context."""
    return WORLD.get()


def run_into(held: list[Future[Any]], function: Callable[[], Any]) -> None:
    """Call the function, and set its result or error on the future, which is popped from `held`."""
    try:
        result = function()
    except BaseException as error:  # noqa: BLE001 -- it is raised where the call was made
        held.pop().set_exception(error)
    else:
        held.pop().set_result(result)
        del result
