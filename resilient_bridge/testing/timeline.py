"""Virtual time for asyncio: a loop that jumps from timer to timer and can repeat a run exactly.

Rule: the same seed gives the same run. No clock, thread or object address decides what runs next. A
run that cannot continue, or does not end, raises an error instead of hanging.
"""

# CPython's own names (`_run_once`, `_ready`, `_run`, `_cancelled`, `_thread_id` ...) are used here
# because asyncio has no public way to give a loop another clock. They are the same on 3.11, 3.12
# and 3.13; only this package may use them.
# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import gc
import hashlib
import heapq
import math
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from functools import partial
from itertools import count
from pathlib import PurePath
from threading import get_ident
from typing import Any, Final, TypeVar, TypeVarTuple, cast

from .orders import ORDERS, Orders, SeededOrders, skip, stepping


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH: Final = 1_767_225_600.0
"""The wall clocks at virtual time 0: 2026-01-01T00:00:00Z, in seconds since 1970."""

_SWEEP: Final = 128  # cancelled timers kept in the heap before a sweep is worth its cost
# steps between two collections of garbage, and those left to clean up after an overrun
_CHECK: Final = 100_000
_MERCY: Final = 3_600.0  # virtual seconds left to clean up after an overrun


class SimulationError(AssertionError):
    """A simulated run left something behind or cannot end; the message names run and fault.

        async def main(server: rb.testing.BridgeServer) -> None:
            asyncio.create_task(asyncio.sleep(60))      # left behind
        try:
            rb.testing.simulate(main)
        except rb.testing.SimulationError: ...

    The same seed and faults give it again.
    """


class SimDeadlock(SimulationError):  # noqa: N818 - the name that every simulator gives it
    """Nothing is ready and no timer is left: a task waits for a wake-up that cannot come."""


class SimOverrun(SimulationError):  # noqa: N818
    """The run exceeded its bound of steps (it spins) or of virtual seconds (it waits in vain)."""


def stream(seed: int, name: str) -> random.Random:
    """Return the random stream of one part of a run: its draws must not change the others."""
    # a str is hashed with SHA-512: the same in every process
    return random.Random(f"{seed}/{name}")


class SimulatedTask(asyncio.Task[Any]):
    """A task whose hash is its number.

    `asyncio.wait`, `all_tasks` and TaskGroup keep tasks in sets; hashed by address, their order
    would change from process to process, and with it the run.
    """

    def __init__(self, coro: Coroutine[Any, Any, Any], number: int, **options: Any) -> None:
        self.number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


class SimulatedFuture(asyncio.Future[Any]):
    """A future whose hash is its number, for the same reason; whoever makes it sets the number."""

    __slots__ = ("number",)

    number: int

    def __hash__(self) -> int:
        return self.number


class SimulatedTimer(asyncio.TimerHandle):
    """A timer handle that does in one function what asyncio's does in three."""

    __slots__ = ()

    _loop: Timeline

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[object, ...],
        loop: Timeline,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = False

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._loop._timer_cancelled_count += self._scheduled
            self._callback = self._args = None  # type: ignore[assignment]


def waiting_at(task: asyncio.Task[Any]) -> str:
    """Describe a task and where it waits: `task-3 (test_x.py:12 run > locks.py:213 wait)`."""
    places: list[str] = []
    inner: Any = task.get_coro()
    while (frame := getattr(inner, "cr_frame", None)) is not None:
        code = frame.f_code
        places.append(f"{PurePath(code.co_filename).name}:{frame.f_lineno} {code.co_name}")
        inner = inner.cr_await
    return f"{task.get_name()} ({' > '.join(dict.fromkeys(places[:1] + places[-1:])) or 'ended'})"


class Timeline(asyncio.BaseEventLoop):
    """An event loop in virtual time, without I/O.

    `steps` counts callbacks, `errors` has one line per call of the exception handler. `max_steps`
    and `max_seconds` (virtual) end a run with SimOverrun. `orders` says which ready callback runs
    next (orders.py): "fifo" is asyncio's own order.
    """

    _closed: bool
    _ready: deque[asyncio.Handle]
    _stopping: bool
    _task_factory: object
    _thread_id: int | None
    _timer_cancelled_count: int

    def __init__(
        self,
        *,
        seed: int = 0,
        max_steps: int = 10_000_000,
        max_seconds: float = 604_800.0,
        orders: Orders | Callable[[random.Random], SeededOrders] = "fifo",
        label: str = "",
    ) -> None:
        super().__init__()
        self.seed = seed
        self.label = label or f"seed={seed}"
        self.max_steps = max_steps
        self.max_seconds = max_seconds
        self.wall_offset = 0.0
        self.steps = 0
        self.errors: list[str] = []
        self.strays: list[str] | None = None
        self.recent: deque[str] = deque(maxlen=100)
        self._scheduler = stream(seed, "scheduler")
        self._now = 0.0
        self._slept = 0.0
        self._order = count()
        self._tie: Callable[[], float] = self._order.__next__
        self._seeded: SeededOrders | None = None
        # What `call_soon` returns for the step of a task, which only asyncio asks for: it drops it.
        self._handle_of_steps = asyncio.Handle(skip, (), self)
        if make := ORDERS[orders] if isinstance(orders, str) else orders:
            self._seeded = make(stream(seed, "orders"))
            self._tie = self._seeded.tie
            self._ready = cast("deque[asyncio.Handle]", self._seeded)
        self._numbers = count(1)
        self._timers: list[tuple[float, float, asyncio.TimerHandle]] = []
        self._arrivals: list[tuple[float, float, asyncio.Handle]] = []
        self._next_check = min(_CHECK, max_steps + 1)
        self._trace = hashlib.blake2b(digest_size=16)
        self.set_exception_handler(self._keep_error)

    # -- time ---------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the monotonic clock: virtual seconds since the loop was made."""
        return self._now

    def true_time(self) -> float:
        """Return the time of a perfect wall clock, in seconds since 1970.

        It continues while the machine sleeps.
        """
        return EPOCH + self._now + self._slept

    def wall(self) -> float:
        """Return the client's wall clock: `true_time()` plus `wall_offset`, which tests may set."""
        return EPOCH + self._now + self._slept + self.wall_offset

    def stall(self, seconds: float) -> None:
        """Block the loop: time passes, packets arrive; nothing runs until the caller returns."""
        self._now += _duration("stall", seconds)

    def sleep_machine(self, seconds: float) -> None:
        """Suspend the machine: wall clocks advance by `seconds`, the monotonic clock stops."""
        self._slept += _duration("sleep_machine", seconds)

    # -- the trace ----------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Add a user-visible event to the trace: two runs are equal if their notes are."""
        line = f"{self._now!r} {text}"
        self.recent.append(line)
        self._trace.update(line.encode("utf-8", "backslashreplace") + b"\n")

    def trace_hash(self) -> str:
        """Return a digest of every connect, cut, fault and note so far, with its virtual time."""
        return self._trace.hexdigest()

    def _keep_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep what asyncio would only log: in a simulation every such line is a failure."""
        error = context.get("exception")
        text = str(context.get("message"))
        if error is not None:
            text += f": {type(error).__name__}: {error}"
        if not self._closed:
            self.errors.append(text)
        elif self.strays is not None:  # garbage that is collected only in a later run
            self.strays.append(f"{text} ({self.label})")

    # -- one turn -----------------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        if self._seeded is not None:
            self._run_seeded(self._seeded)
            return
        ready = self._ready
        self._drop_cancelled()
        if not ready and not self._stopping:
            self._advance()
        self._gather(self._now)
        turn = len(ready)
        self.steps += turn
        if self.steps >= self._next_check:
            self._check()
        for _ in range(turn):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _run_seeded(self, ready: SeededOrders) -> None:
        """Run one callback after the other until the loop stops: which one, the seed chooses, of
        those that are ready and the next one due.
        """
        timers, arrivals = self._timers, self._arrivals
        heappop, next_of, free, blocked = heapq.heappop, ready.next, ready.free, ready.blocked
        while not self._stopping:
            if self._timer_cancelled_count or arrivals:
                self._drop_cancelled()
            if not free and not blocked:
                self._advance()
            now = self._now
            if (timers and timers[0][0] < now) or (arrivals and arrivals[0][0] < now):
                self._gather(math.nextafter(now, 0.0))  # overdue: in order
            arrives = bool(arrivals) and arrivals[0][0] <= now
            due = arrivals[0] if arrives else timers[0] if timers and timers[0][0] <= now else None
            self.steps += 1
            if self.steps >= self._next_check:
                self._check()
            run = next_of(due)
            if run is None:
                if arrives:
                    handle = heappop(arrivals)[2]
                else:
                    handle = timer = heappop(timers)[2]
                    timer._scheduled = False  # type: ignore[attr-defined]
                run = skip if handle._cancelled else handle._run
            try:
                run()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as asyncio's handles do
                what = {"message": "Exception in the step of a task", "exception": error}
                self.call_exception_handler(what)

    def _drop_cancelled(self) -> None:
        timers, arrivals = self._timers, self._arrivals
        if self._timer_cancelled_count > _SWEEP:
            self._sweep()
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._timer_cancelled_count -= 1
        while arrivals and arrivals[0][2]._cancelled:
            heapq.heappop(arrivals)

    def _gather(self, now: float) -> None:
        # Packets that have arrived are handled before timers that are due, as `select` does: after
        # a stall, a reader gets its bytes in the iteration in which its timeout fires, not one
        # later.
        ready, timers, arrivals = self._ready, self._timers, self._arrivals
        while arrivals and arrivals[0][0] <= now:
            ready.append(heapq.heappop(arrivals)[2])
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False  # type: ignore[attr-defined]  # asyncio counts cancelled ones by it
            if timer._cancelled:
                self._timer_cancelled_count -= 1
            else:
                ready.append(timer)

    def _advance(self) -> None:
        """Jump to the next timer or packet; without one, nothing can happen any more."""
        heads = [heap[0][0] for heap in (self._timers, self._arrivals) if heap]
        if not heads:
            msg = f"deadlock after {self._now:.3f} s: nothing is ready and no timer is left{self.describe()}"
            raise SimDeadlock(msg)
        if min(heads) > self.max_seconds:
            msg = f"still running after {self.max_seconds:g} virtual seconds{self.describe()}"
            self.max_seconds += _MERCY
            raise SimOverrun(msg)
        self._now = max(self._now, min(heads))

    def _sweep(self) -> None:
        if self._timer_cancelled_count * 2 > len(self._timers):
            self._timers[:] = [entry for entry in self._timers if not entry[2]._cancelled]
            heapq.heapify(self._timers)
            self._timer_cancelled_count = 0

    def _check(self) -> None:
        """Stop a run that spins, and collect garbage.

        The collection comes at fixed steps, because it can end generators and tasks.
        """
        if self.steps > self.max_steps:
            msg = f"more than {self.max_steps} steps, after {self._now:.3f} s{self.describe()}"
            self.max_steps = self.steps + _CHECK
            self._next_check = self.max_steps + 1
            raise SimOverrun(msg)
        if not gc.isenabled():
            gc.collect()
        self._next_check = min(self.steps + _CHECK, self.max_steps + 1)

    def describe(self) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        return f" ({self.label}); waiting: {', '.join(map(waiting_at, tasks[:20])) or 'nobody'}"

    # -- scheduling ---------------------------------------------------------------------------------------------

    def _fence(self) -> None:
        """Refuse other threads: the system decides when they run, so no seed could repeat it.

        To be called if the loop does not run in this thread: it may not run yet, or be closed.
        """
        if self._closed:
            msg = "Event loop is closed"  # asyncio's own text
            raise RuntimeError(msg)
        if self._thread_id is not None:
            msg = f"a simulated loop belongs to one thread, got a call from {threading.current_thread().name}"
            raise RuntimeError(msg)

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Run the callback in the next iteration; RuntimeError in any thread but the loop's own."""
        if self._thread_id != get_ident():
            self._fence()
        if (seeded := self._seeded) is not None and (task := stepping(callback)) is not None:
            run = (copy_context() if context is None else context).run
            seeded.append_step(partial(run, callback, *args), task)
            return self._handle_of_steps
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Do what `call_soon` does, with the same check: no other thread may call it."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run the callback after so many virtual seconds: see `call_at`."""
        return self._call_at(self._now + delay, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run the callback at a virtual instant.

        Equal instants keep the order of the calls, unless `orders` decides. Infinity is never; nan
        raises ValueError.
        """
        return self._call_at(when, callback, args, context)

    def _call_at(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> asyncio.TimerHandle:
        if self._thread_id != get_ident():
            self._fence()
        timer = SimulatedTimer(when, callback, args, self, context)
        if when < math.inf:
            heapq.heappush(self._timers, (when, self._tie(), timer))
            timer._scheduled = True
        elif when != math.inf:
            msg = "timer wanted an instant, got nan"
            raise ValueError(msg)
        return timer

    def call_on_arrival(
        self, when: float, callback: Callable[[], object], context: Context
    ) -> asyncio.Handle:
        """Run the callback when a packet arrives: at that instant, before any timer due at it."""
        handle = asyncio.Handle(callback, (), self, context)
        heapq.heappush(self._arrivals, (when, next(self._order), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future whose hash depends only on the number of futures before it."""
        future = SimulatedFuture(loop=self)
        future.number = next(self._order)  # not in its constructor: that would be slower
        return future

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        """Start a task whose hash and name depend only on the number of tasks before it."""
        # Not through a task factory of ours: 3.13.0 gives every task that comes from one the name
        # "None".
        if self._task_factory is not None:
            return super().create_task(coro, name=name, context=context, **options)
        if self._thread_id != get_ident():
            self._fence()
        number = next(self._numbers)
        name = f"task-{number}" if name is None else str(name)
        return SimulatedTask(coro, number, loop=self, name=name, context=context, **options)  # type: ignore[arg-type]

    def close(self) -> None:
        super().close()
        self._timers.clear()
        self._arrivals.clear()


def _duration(what: str, seconds: float) -> float:
    if not 0 <= seconds < math.inf:
        msg = f"{what} wanted seconds of at least 0, got {seconds}"
        raise ValueError(msg)
    return seconds
