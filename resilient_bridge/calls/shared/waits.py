"""Waiting for a store's answer.

A thread blocks, a task is suspended, no longer than the store's patience.

Rule: an answer that no call takes is given back. A call that has waited for the whole patience
reports it to the store, so that no other call waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from ...transports.event_loop import running_loop
from ...world import REAL
from ...world.signal import Signal
from ..frame import CURRENT


if TYPE_CHECKING:
    from collections.abc import Callable

    from ..frame import CallFrame
    from .ports import Question


T = TypeVar("T")


def waited_for(question: Question[T], patience: float | None = None) -> T | None:
    """Block until there is an answer, and return it; None if it does not come in time."""
    signal = Signal()
    question.when_answered(signal.set)
    try:
        signal.wait(question.patience if patience is None else patience)
    except BaseException:
        question.cancel()
        raise
    return question.take(is_late=patience is None)


def is_real_time() -> bool:
    """Return whether policies use the real clock here, not that of a test."""
    world = CURRENT.get().world
    return world is REAL or world.monotonic is REAL.monotonic


class AwaitedAnswer(Generic[T]):
    """The step of a call that waits for an answer.

    `settle` is called with it, or with None; it may raise.
    """

    __slots__ = ("_attempt", "_question", "_settle")

    def __init__(
        self, question: Question[T], attempt: CallFrame, settle: Callable[[T | None], None]
    ) -> None:
        self._question = question
        self._attempt = attempt
        self._settle = settle

    def block(self) -> None:
        """Wait in this thread."""
        self._settle(waited_for(self._question, self._shorter()))

    async def suspend(self) -> None:
        """Wait in this task."""
        running_loop("Policy.state")
        question, patience, signal = self._question, self._shorter(), Signal()
        question.when_answered(signal.set)
        try:
            await signal.suspend(REAL, question.patience if patience is None else patience)
        except BaseException:
            question.cancel()
            raise
        self._settle(question.take(is_late=patience is None))

    def _shorter(self) -> float | None:
        """Return the time that remains for the call, if that is shorter than the store's patience."""
        remaining = self._attempt.remaining
        return remaining if remaining is not None and remaining < self._question.patience else None
