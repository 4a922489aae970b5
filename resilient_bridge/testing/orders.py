"""Which ready callback runs next: drawn from a seed, within what a program may rely on.

asyncio runs callbacks in the order in which they became ready. A program may rely on that for
callbacks (`call_soon`, done callbacks, protocols), because it is documented, and for `sleep(0)`,
which lets the others go first. It may not rely on the order in which tasks take their steps: that
depends on the network, on timers and on the machine.

Rule: so the seed chooses among tasks. A ready task may be overtaken by everything that becomes
ready after it, but

- a callback is never overtaken by what became ready after it: neither by another callback nor by
  the step of a task;
- a task that yields with `sleep(0)` continues after everything that was ready at that moment,
  except other tasks that have yielded;
- timers due at one instant run in any order, and mixed with what is ready at that instant. What is
  overdue, because the loop was blocked, comes in the order of time, and packets before timers.
"""

# CPython's own names, as in timeline.py.
# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from types import BuiltinMethodType, MethodType
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary


Orders = Literal["seeded", "pct", "fifo"]
"""How `simulate` orders tasks that are ready at once."""

_FREE: Final = -1  # the epoch of entries for which no task that yields has to wait
_SWITCHES: Final = 2  # changes of priority in a run of "pct"
_LONGEST: Final = 10_000  # steps within which they come
_CALLBACKS: Final = 0.9  # how often a callback or a timer may come before the tasks that are ready

Step = tuple[Callable[[], object], Any, int]
"""The next step of a task that is ready: what runs it, the task, and its epoch."""


def stepping(callback: Callable[..., object]) -> Any:
    """Return the task of which the callback is the next step; None if it is something else."""
    kind, owner = type(callback), getattr(callback, "__self__", None)
    if kind is BuiltinMethodType:
        is_step = callback.__name__ == "task_wakeup"
    elif kind is MethodType:  # tasks without asyncio's C module
        is_step = callback.__name__ in {"__step", "__wakeup"} and asyncio.isfuture(owner)
    else:
        is_step = kind.__name__ == "TaskStepMethWrapper"
    return owner if is_step else None


def skip() -> None:
    """Run in the place of a callback that was cancelled."""


Due = tuple[float, float, asyncio.Handle]
"""A timer or a packet: its instant, what decides between equal instants, and its callback."""


class SeededOrders:
    """The ready callbacks of a loop, and the draw of the next one.

    It takes the place of the loop's `_ready`: `append`, `clear` and `len` are those of a deque.
    """

    _chooses = False  # whether a subclass does, in `_choose`

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._random = rng.random
        self.tie = rng.random
        # Steps that may run now.
        self.free: list[Step] = []
        # The earliest callback that has to run before what follows it, and what follows it.
        self.blocked: deque[Step | tuple[asyncio.Handle, None, int]] = deque()
        # An epoch ends where a task yields: it waits for all that is left of this and earlier ones.
        self._epoch = 0
        self._unrun = 0  # how many of this epoch have not run
        self._earlier: dict[int, int] = {}  # the same for earlier epochs, if any
        self._yielded: deque[Step] = deque()
        self._running: Any = None  # the task whose step runs

    def __len__(self) -> int:
        return len(self.free) + len(self.blocked) + len(self._yielded)

    def clear(self) -> None:
        self.free.clear()
        self.blocked.clear()
        self._yielded.clear()
        self._earlier.clear()
        self._unrun = 0
        self._running = None

    def append(self, handle: asyncio.Handle) -> None:
        """Add a callback that is ready from now on."""
        self._unrun += 1
        self.blocked.append((handle, None, self._epoch))

    def append_step(self, run: Callable[[], object], task: Any) -> None:
        """Add the next step of a task that is ready from now on."""
        if task is self._running:
            self._yields(run, task)
            return
        self._unrun += 1
        (self.blocked or self.free).append((run, task, self._epoch))

    def _yields(self, run: Callable[[], object], task: Any) -> None:
        if not self._unrun and not self._earlier:
            self.free.append((run, task, _FREE))
            return
        self._yielded.append((run, task, self._epoch))
        if self._unrun:
            self._earlier[self._epoch] = self._unrun
            self._unrun = 0
        self._epoch += 1

    def next(self, due: Due | None) -> Callable[[], object] | None:
        """Remove the next callback and return what runs it; None for the timer or packet that is
        `due` now.

        Call it only if something is ready or due.
        """
        free, blocked = self.free, self.blocked
        steps = len(free)
        if self._chooses:
            index = self._choose(due)
        else:
            choices = steps + (1 if blocked else 0) + (due is not None)
            index = int(self._random() * choices) if choices > 1 else 0
        if index < steps:
            step = free[index]
            last = free.pop()
            if step is not last:
                free[index] = last
            run, self._running, epoch = step
        elif blocked and index == steps:
            handle, self._running, epoch = blocked.popleft()
            run = skip if handle._cancelled else handle._run  # type: ignore[union-attr]
            while blocked and blocked[0][1] is not None:
                free.append(blocked.popleft())  # type: ignore[arg-type]
        else:
            self._running = None
            return None
        if epoch == self._epoch:
            self._unrun -= 1
        elif epoch != _FREE:
            self._count_off(epoch)
        return run

    def _choose(self, due: Due | None) -> int:
        """Return the index of the next step; the number of steps for the blocked callback, if there
        is one; a number above for what is due.
        """
        choices = len(self.free) + (1 if self.blocked else 0) + (due is not None)
        return int(self._random() * choices) if choices > 1 else 0

    def _count_off(self, epoch: int) -> None:
        earlier, yielded = self._earlier, self._yielded
        earlier[epoch] -= 1
        if not earlier[epoch]:
            del earlier[epoch]
            # Epochs are added in order, so the first one is the lowest.
            lowest = next(iter(earlier), self._epoch)
            while yielded and yielded[0][2] < lowest:
                run, task, _ = yielded.popleft()
                self.free.append((run, task, _FREE))


class PriorityOrders(SeededOrders):
    """Each task has a priority, and the highest runs: few switches, so that one task may be left
    far behind the others (probabilistic concurrency testing).

    Twice in a run the task that runs becomes the last of all, and so does one that yields.
    """

    _chooses = True

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self._priorities: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self._lowest = 0.0
        self._step = 0
        # Any length of a run is as likely to have one as any other.
        self._switches = {int(_LONGEST ** rng.random()) for _ in range(_SWITCHES)}

    def _yields(self, run: Callable[[], object], task: Any) -> None:
        super()._yields(run, task)
        self._demote(task)

    def _demote(self, task: object) -> None:
        self._lowest -= 1.0
        self._priorities[task] = self._lowest

    def _priority(self, task: Any) -> float:
        priority = self._priorities.get(task)
        if priority is None:
            priority = self._priorities[task] = self._rng.random()
        return priority

    def _choose(self, due: Due | None) -> int:
        self._step += 1
        steps = len(self.free)
        priorities = [self._priority(task) for _, task, _ in self.free]
        # Callbacks and timers may come again at once: sometimes a task has its turn all the same,
        # however low it is.
        if not steps or self._rng.random() < _CALLBACKS:
            priorities += [
                self._rng.random() for _ in range((1 if self.blocked else 0) + (due is not None))
            ]
        index = max(range(len(priorities)), key=priorities.__getitem__)
        if index < steps and self._step in self._switches:
            self._demote(self.free[index][1])
        return index


ORDERS: Final[dict[str, Callable[[Random], SeededOrders] | None]] = {
    "seeded": SeededOrders,
    "pct": PriorityOrders,
    "fifo": None,
}
"""How the ready callbacks are ordered: None is asyncio's own order."""
