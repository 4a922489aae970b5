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
import math
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


def _is_step(callback: Callable[..., object]) -> bool:
    """Return whether the callback is the next step of a task, and not just a method of one."""
    kind = type(callback)
    if kind is BuiltinMethodType:
        return callback.__name__ == "task_wakeup"
    if kind is MethodType:  # tasks without asyncio's C module
        return callback.__name__ in {"__step", "__wakeup"}
    return kind.__name__ == "TaskStepMethWrapper"


class SeededOrders:
    """The ready callbacks of a loop, and the draw of the next one.

    It takes the place of the loop's `_ready`: `append`, `clear` and `len` are those of a deque.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        # Steps that may run now, each with its epoch.
        self._free: list[tuple[asyncio.Handle, int]] = []
        # The earliest callback that has to run before what follows it, and what follows it.
        self._blocked: deque[tuple[asyncio.Handle, int]] = deque()
        # An epoch ends where a task yields: it waits for all that is left of this and earlier ones.
        self._epoch = 0
        self._unrun: dict[int, int] = {}
        self._yielded: deque[tuple[asyncio.Handle, int]] = deque()
        self._running: Any = None  # the task whose step runs
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def clear(self) -> None:
        self.size = 0
        self._free.clear()
        self._blocked.clear()
        self._yielded.clear()
        self._unrun.clear()
        self._running = None

    def append(self, handle: asyncio.Handle) -> None:
        """Add a callback that is ready from now on."""
        self.size += 1
        callback: Any = handle._callback  # type: ignore[attr-defined]
        is_step = _is_step(callback)
        if is_step and callback.__self__ is self._running:
            self._yields(handle)
            return
        epoch = self._epoch
        self._unrun[epoch] = self._unrun.get(epoch, 0) + 1
        (self._free if is_step and not self._blocked else self._blocked).append((handle, epoch))

    def _yields(self, handle: asyncio.Handle) -> None:
        if self._unrun:
            self._yielded.append((handle, self._epoch))
            self._epoch += 1
        else:
            self._free.append((handle, _FREE))

    def tie(self) -> float:
        """Return what decides between two timers of one instant."""
        return self._rng.random()

    def next(self, is_due: bool) -> asyncio.Handle | None:
        """Remove and return the next callback; None for the timer or packet that `is_due` now.

        Call it only if something is ready or due.
        """
        free, blocked = self._free, self._blocked
        steps = len(free)
        index = self._choose(steps, bool(blocked), is_due)
        if index < steps:
            handle, epoch = free[index]
            last = free.pop()
            if index < steps - 1:
                free[index] = last
            self._running = handle._callback.__self__  # type: ignore[attr-defined]
        elif blocked and index == steps:
            handle, epoch = blocked.popleft()
            while blocked and _is_step(blocked[0][0]._callback):  # type: ignore[attr-defined]
                free.append(blocked.popleft())
            self._running = None
        else:
            self._running = None
            return None
        self.size -= 1
        if epoch != _FREE:
            self._count_off(epoch)
        return handle

    def _choose(self, steps: int, has_blocked: bool, is_due: bool) -> int:
        """Return which of the steps is next, `steps` for the blocked callback, or a number above."""
        choices = steps + has_blocked + is_due
        return int(self._rng.random() * choices) if choices > 1 else 0

    def _count_off(self, epoch: int) -> None:
        unrun, yielded = self._unrun, self._yielded
        unrun[epoch] -= 1
        if not unrun[epoch]:
            del unrun[epoch]
            # Epochs are added in order, so the first one is the lowest.
            lowest = next(iter(unrun), math.inf)
            while yielded and yielded[0][1] < lowest:
                self._free.append((yielded.popleft()[0], _FREE))


class PriorityOrders(SeededOrders):
    """Each task has a priority, and the highest runs: few switches, so that one task may be left
    far behind the others (probabilistic concurrency testing).

    Twice in a run the task that runs becomes the last of all, and so does one that yields.
    """

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self._priorities: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self._lowest = 0.0
        self._step = 0
        # Any length of a run is as likely to have one as any other.
        self._switches = {int(_LONGEST ** rng.random()) for _ in range(_SWITCHES)}

    def _yields(self, handle: asyncio.Handle) -> None:
        super()._yields(handle)
        self._demote(self._running)

    def _demote(self, task: object) -> None:
        self._lowest -= 1.0
        self._priorities[task] = self._lowest

    def _priority(self, entry: tuple[asyncio.Handle, int]) -> float:
        task: Any = entry[0]._callback.__self__  # type: ignore[attr-defined]
        priority = self._priorities.get(task)
        if priority is None:
            priority = self._priorities[task] = self._rng.random()
        return priority

    def _choose(self, steps: int, has_blocked: bool, is_due: bool) -> int:
        self._step += 1
        priorities = [self._priority(entry) for entry in self._free]
        # Callbacks and timers may come again at once: sometimes a task has its turn all the same,
        # however low it is.
        if not steps or self._rng.random() < _CALLBACKS:
            priorities += [self._rng.random() for _ in range(has_blocked + is_due)]
        index = max(range(len(priorities)), key=priorities.__getitem__)
        if index < steps and self._step in self._switches:
            self._demote(self._free[index][0]._callback.__self__)  # type: ignore[attr-defined]
        return index


ORDERS: Final[dict[str, Callable[[Random], SeededOrders] | None]] = {
    "seeded": SeededOrders,
    "pct": PriorityOrders,
    "fifo": None,
}
"""How the ready callbacks are ordered: None is asyncio's own order."""
