"""Cancel a task before the k-th turn of the loop: every place where a user's program can be cancelled, one by one.

Only an order of turns has a k-th one, so these runs are first in, first out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from resilient_bridge.testing import BridgeServer, simulate


BOUND = 10.0  # virtual seconds within which a cancelled task must have ended


def before_turn(loop: Any, turn: int, action: Callable[[], object]) -> Callable[[], None]:
    """Call `action` before the n-th turn of the loop from now; returns what takes that back."""
    plain, remaining = loop._run_once, turn

    def run_once() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            action()
        plain()

    def take_back() -> None:
        loop._run_once = plain

    loop._run_once = run_once
    return take_back


class Blow:
    """One cancellation: `landed` if the task was still running then."""

    def __init__(self, turn: int, again: int = 0) -> None:
        self.turn = turn
        self.again = again
        self.landed = False

    async def strike(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` as a task, cancel it, and see that it ends as cancelled: a CancelledError is never swallowed."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, name="victim")

        def cancel() -> None:
            self.landed = task.cancel() or self.landed

        takes = [before_turn(loop, self.turn, cancel)]
        if self.again:
            takes.append(before_turn(loop, self.turn + self.again, task.cancel))
        done, _ = await asyncio.wait([task], timeout=1_000 if self.turn > 100_000 else 100)
        for take_back in reversed(takes):
            take_back()
        assert done, f"still running: {task!r}"
        if self.landed:
            assert task.cancelled(), f"the cancellation was swallowed: {task!r}"
        else:
            task.result()
        return task


def sweep(
    scenario: Callable[[BridgeServer, Blow], Coroutine[Any, Any, None]],
    *,
    again: int = 0,
    step: int = 1,
) -> int:
    """Run the scenario for every `step`-th turn at which its victim can be cancelled; returns the last of them."""
    turn = 1 - step
    while True:
        turn += step
        blow = Blow(turn, again)
        try:
            simulate(lambda server, blow=blow: scenario(server, blow), orders="fifo")
        except BaseException as error:
            error.add_note(f"cancelled before turn {turn} of {scenario.__name__}")
            raise
        if not blow.landed:
            return turn - step
