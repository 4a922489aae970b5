"""The block form: `for attempt in policy.attempts(): with attempt: …`, and the same with `async for`.

Rule: the same decisions as a decorated function makes, taken where the block ends. Every layer is taken when a block is
entered and given back when it is left, so that a loop that is broken out of leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..errors import config_error
from ..policies.deadline import Deadline
from ..policies.fields import refuse
from ..policies.timeout import Timeout
from ..world import REAL
from .attempt import CURRENT, Attempt
from .endings import Left, leave_all
from .evidence import leave_function, proven
from .finished import block_finished
from .guards import bound, failure_in
from .plan import Plan
from .refresh import Refresh
from .retrying import Retrying
from .tokens import give_back, token_for


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextvars import Token
    from types import TracebackType
    from typing import Literal, Self

    from .plan import HasLayers
    from .states import States
    from .steps import Step

__all__ = ["Attempts", "BlockAttempt"]


class BlockAttempt(Attempt):
    """One turn of the loop: `with attempt:` protects the block. Each is entered once."""

    def __init__(self, run: _Run, around: Attempt) -> None:
        """Belong to a loop."""
        self.plan, self.outer, self.world = run.plan, around, around.world
        self.started, self.deadline_at = around.world.monotonic(), around.deadline_at
        self._run = run
        self._token: Token[Attempt] | None = None
        self.was_entered = False

    def __enter__(self) -> Self:
        """Begin the block."""
        if self.was_entered:
            raise config_error("attempt", "one `with` for each turn of the loop", "a second one")
        self.was_entered = True
        self._token = CURRENT.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Give the layers back. A failure that is repeated ends here; any other is raised, and ends the loop."""
        with suppress(
            ValueError
        ):  # left in another task than it was entered in: that one's context is its own
            if self._token is not None:
                CURRENT.reset(self._token)
        return self._run.left(self, error)


class _UnprotectedBlock(BlockAttempt):
    """The one turn of a loop whose policies are switched off (`rb.testing.disabled`): the block runs as if it stood alone."""

    def __init__(self) -> None:
        self.outer = CURRENT.get()
        self.world, self.deadline_at = self.outer.world, self.outer.deadline_at

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        return False


class Attempts:
    """What `policy.attempts()` returns: iterate over it once, sync or async."""

    def __init__(self, policy: HasLayers, states: States, *, idempotent: bool | None) -> None:
        """Prepare; nothing is taken yet."""
        self._policy = policy
        self._states = states
        self._idempotent = idempotent

    def __iter__(self) -> Iterator[BlockAttempt]:
        """Yield attempts until one succeeds; waits block this thread. ConfigError for a policy with a Timeout."""
        run = self._start(is_async=False)
        if CURRENT.get().world.is_disabled:
            yield _UnprotectedBlock()
            return
        while (attempt := run.next()) is not None:
            try:
                for enter in run.enters:
                    if (turn := enter(attempt)) is not None:
                        turn.block()
            except BaseException as error:  # noqa: BLE001 -- raised again unless it is repeated
                run.left_unentered(attempt, error)
            else:
                try:
                    yield attempt
                finally:
                    run.give_back(attempt)
            if (again := run.again(attempt)) is not None:
                if again.before is not None:
                    Refresh(again.before, again, attempt).block()
                again.first.waited += again.decision.wait
                _warn_of_loop(again.decision.wait)
                attempt.world.sleep(again.decision.wait)

    async def __aiter__(self) -> AsyncIterator[BlockAttempt]:
        """Yield attempts until one succeeds; waits suspend this task."""
        run = self._start(is_async=True)
        if CURRENT.get().world.is_disabled:
            yield _UnprotectedBlock()
            return
        while (attempt := run.next()) is not None:
            try:
                for enter in run.enters:
                    if (turn := enter(attempt)) is not None:
                        await turn.suspend()
            except BaseException as error:  # noqa: BLE001 -- raised again unless it is repeated
                run.left_unentered(attempt, error)
            else:
                try:
                    yield attempt
                finally:
                    run.give_back(attempt)
            if run.asking is not None:
                await run.asked(*run.asking)
            if (again := run.again(attempt)) is not None:
                if again.before is not None:
                    await Refresh(again.before, again, attempt).suspend()
                again.first.waited += again.decision.wait
                await attempt.world.asleep(again.decision.wait)

    def _start(self, *, is_async: bool) -> _Run:
        if any(isinstance(layer, Timeout) for layer in self._policy.layers) and not is_async:
            refuse(
                "Policy.attempts", "no Timeout around a sync block: it cannot be interrupted", self._policy
            )
        plan = Plan(
            self._policy,
            self._states,
            form="async_block" if is_async else "block",
            idempotent=self._idempotent,
            name=self._states.name,
            allowed_by="policy.attempts(idempotent=True)",
        )
        if plan.fallback is not None:
            refuse("Policy.attempts", "no Fallback: a block cannot be replaced by a function", self._policy)
        return _Run(plan, is_async=is_async)


class _Run:
    """One loop: the attempts made so far and what follows."""

    def __init__(self, plan: Plan, *, is_async: bool) -> None:
        self.plan = plan
        self.is_async = is_async
        # A failed attempt whose repeat has to be asked for: in a task not where its block ends, which cannot wait, but before the next turn.
        self.asking: tuple[BlockAttempt, Left, Step] | None = None
        self.retrying: Retrying | None = None
        self.is_done = False
        self._last: BlockAttempt | None = None
        self._first: BlockAttempt | None = None
        self._around = CURRENT.get()
        self.enters = (*plan.outer_enters, *(guard.enter for guard in plan.guards))

    def next(self) -> BlockAttempt | None:
        """Return the next attempt, None when the loop is over."""
        last = self._last
        if self.is_done:
            return None
        if last is not None and not last.was_entered:
            raise config_error(
                "policy.attempts", "`with attempt:` around the body of the loop", "a body without it"
            )
        attempt = BlockAttempt(self, self._around)
        if last is None or self._first is None:
            self._first = attempt
            self._begin(attempt, attempt.started)
        else:
            attempt.number, attempt.first, attempt.deadline_at = (
                last.number + 1,
                self._first,
                last.deadline_at,
            )
            failed = None if self.retrying is None else self.retrying.history[-1]
            attempt.failure = failed
        self._last = attempt
        return attempt

    def _begin(self, attempt: BlockAttempt, now: float) -> None:
        budget = self.plan.budget
        if budget is not None:
            budget.deposit(now)
        deadline = next((layer for layer in self.plan.policy.layers if isinstance(layer, Deadline)), None)
        if deadline is not None:
            bound(attempt, deadline.seconds)

    def left(self, attempt: BlockAttempt, error: BaseException | None) -> bool:
        """A block has ended; return whether its error ends here."""
        ending: Any = self._leave(attempt, error)
        if ending is None:
            if self.retrying is not None:
                self.retrying.recovered(attempt)
            self._over(None)
            return False
        retry = self.plan.retry
        failure = failure_in(attempt, ending) if retry is not None and isinstance(ending, Exception) else None
        if failure is not None:
            failure = proven(self.plan, attempt, failure, ending)
        attempt.seen = None
        end = Left(ending, failure)
        try:
            step = token_for(self.plan, attempt, end, self.retrying)
            if step is not None and self.is_async:
                self.asking = attempt, end, step
                return True
            if step is not None:
                step.block()
            return self._decided(attempt, end, error)
        finally:
            del ending, error, end  # an error must not be held by a frame that it holds

    async def asked(self, attempt: BlockAttempt, end: Left, step: Step) -> None:
        """Ask, and decide about a block that has ended; raise the error that the loop ends in."""
        self.asking = None
        try:
            await step.suspend()
            if not self._decided(attempt, end, end.error) and end.error is not None:
                raise end.error
        finally:
            del end

    def _decided(self, attempt: BlockAttempt, end: Left, error: BaseException | None) -> bool:
        """Return whether the failed block is repeated; False: `error` goes on, or another one is raised."""
        ending: Any = end.error
        try:
            if end.failure is not None and self.plan.retry is not None and self._first is not None:
                if self.retrying is None:
                    self.retrying = Retrying(self.plan, self.plan.retry, self._first)
                if self.retrying.failed(attempt, ending, end.failure) is not None:
                    return True
                ending = self.retrying.ending
        finally:
            if self._first is not None:
                give_back(self.plan, self._first)
        if self._first is not None:
            leave_function(self.plan, self._first, attempt, ending)
        self._over(ending)
        if ending is error:
            return False
        try:
            raise ending
        finally:
            del ending, error, end

    def left_unentered(self, attempt: BlockAttempt, error: BaseException) -> None:
        """A layer did not admit the attempt: it is repeated like any other failure, or raised."""
        attempt.was_entered = True
        if not self.left(attempt, error):
            raise error

    def give_back(self, attempt: BlockAttempt) -> None:
        """The loop was left before the block: the layers were taken for nothing."""
        if not attempt.was_entered:
            self._leave(attempt, None)

    def again(self, attempt: BlockAttempt) -> Retrying | None:
        """Return the run that another attempt follows from, None when the loop is over."""
        return None if self.is_done or not attempt.was_entered else self.retrying

    def _leave(self, attempt: BlockAttempt, error: BaseException | None) -> BaseException | None:
        guards = (*reversed(self.plan.guards), *self.plan.around, *self.plan.before)
        return leave_all(guards, attempt, error)

    def _over(self, error: BaseException | None) -> None:
        self.is_done = True
        if self._first is not None:
            block_finished(self.plan, self._first, error)
        if self.retrying is not None:
            self.retrying.close()
        if self._first is not None:
            self._first.outer = None


def _warn_of_loop(wait: float) -> None:
    """Warn of a wait that would block the event loop of this thread; in virtual time there is none."""
    if wait > 0 and CURRENT.get().world is REAL and _runs_loop():
        text = f"`for attempt in policy.attempts()` blocks the event loop for {wait:.3g} s: write `async for`"
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def _runs_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
