"""What a layer returns from `enter` if its call has to wait: for some time, or for an answer.

A thread blocks, a task is suspended, no longer than the caller's patience and the call's deadline.

Rule: what was waited for and is not taken is given back: a turn, a permit that was handed over in
the same instant, what a store's answer grants. A call that has waited for the whole patience of a
store reports it to the store, so that no other call waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from ..transports.event_loop import running_loop
from ..world import REAL
from ..world.signal import Signal
from .frame import CURRENT


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..world import World
    from .shared import Question


T = TypeVar("T")


class Sleeps:
    """The wait for some time, or for several times that are known one after the other.

    `of` is the layer that waits; `give_back` is called if the wait is broken off.
    """

    __slots__ = ("_give_back", "_of", "_seconds", "_world")

    def __init__(
        self,
        of: str,
        world: World,
        seconds: Iterable[float],
        give_back: Callable[[], None] = lambda: None,
    ) -> None:
        self._of = of
        self._world = world
        self._seconds = seconds
        self._give_back = give_back

    def block(self) -> None:
        """Wait in this thread."""
        try:
            for seconds in self._seconds:
                self._world.sleep(seconds)
        except BaseException:
            self._give_back()
            raise

    async def suspend(self) -> None:
        """Wait in this task."""
        try:
            for seconds in self._seconds:
                running_loop(self._of)
                await self._world.asleep(seconds)
        except BaseException:
            self._give_back()
            raise


class SignalWait:
    """The wait for a signal from any thread, at most `patience` seconds; None: as long as it takes."""

    __slots__ = ("of", "patience", "world")

    def __init__(self, of: str, world: World, patience: float | None) -> None:
        self.of = of
        self.world = world
        self.patience = patience

    def begin(self, wake: Callable[[], bool]) -> None:
        """Have `wake` called at the end of the wait, which may be now."""
        raise NotImplementedError

    def settle(self) -> None:
        """Take what was waited for, or handle that it has not come. May raise."""
        raise NotImplementedError

    def give_back(self) -> None:
        """The wait was broken off: do without what was waited for."""
        raise NotImplementedError

    def longer(self) -> float | None:
        """Return the seconds for which a task waits on, because its deadline has grown; None: no limit."""
        return 0.0

    def block(self) -> None:
        """Wait in this thread."""
        signal = Signal()
        self.begin(signal.set)
        try:
            signal.wait(self.patience)
        except BaseException:
            self.give_back()
            raise
        self.settle()

    async def suspend(self) -> None:
        """Wait in this task."""
        signal = Signal()
        self.begin(signal.set)
        try:
            running_loop(self.of)
            patience = self.patience
            while not await signal.suspend(self.world, patience):
                patience = self.longer()
                if patience is not None and patience <= 0:
                    break
        except BaseException:
            self.give_back()
            raise
        self.settle()


class AnswerWait(SignalWait, Generic[T]):
    """The wait for a store's answer: `settle_by` is called with it, or with None.

    `remaining` is the rest of the call's deadline, if it has one.
    """

    __slots__ = ("_is_whole", "_question", "_settle_by")

    def __init__(
        self,
        question: Question[T],
        settle_by: Callable[[T | None], object],
        remaining: float | None = None,
    ) -> None:
        self._question = question
        self._settle_by = settle_by
        self._is_whole = remaining is None or remaining >= question.patience
        super().__init__("Policy.state", REAL, question.patience if self._is_whole else remaining)

    def begin(self, wake: Callable[[], bool]) -> None:
        self._question.when_answered(wake)

    def settle(self) -> None:
        self._settle_by(self._question.take(is_late=self._is_whole))

    def give_back(self) -> None:
        self._question.cancel()


def waited_for(question: Question[T]) -> T | None:
    """Block until there is an answer, and return it; None if it does not come in time."""
    answers: list[T | None] = []
    AnswerWait(question, answers.append).block()
    return answers[0]


def is_real_time() -> bool:
    """Return whether policies use the real clock here, not that of a test."""
    world = CURRENT.get().world
    return world is REAL or world.monotonic is REAL.monotonic
