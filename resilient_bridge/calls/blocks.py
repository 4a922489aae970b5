"""The block form: `for attempt in policy.attempts(): with attempt: …`, sync or async.

Rule: the decisions are those of a decorated function, made where the block ends. Every layer is
entered with a block and exited with it, so that a loop that ends early leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING

from ..failure import config_error
from ..transports.event_loop import running_loop
from ..world import REAL
from .engine import refreshed
from .engine_sync import refreshed_sync
from .evidence import leave_function
from .finished import block_finished
from .frame import CURRENT, Attempt, CallFrame, leave_context
from .protect import loop_operation
from .repeats import asked_of_all, decided, exit_layers, failure_to_decide
from .retry.coordination import pause_wait
from .timeout.guard import bound, check_block
from .timeout.value import Deadline
from .tracing import TRACING, open_scope, within


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextvars import Token
    from types import TracebackType
    from typing import Self

    from ..failure import Failure
    from .guards import Wait
    from .plan import Compiles, Operation
    from .registry import States
    from .repeats import Repeats
    from .tracing import CallScope


class _BlockFrame(CallFrame):
    """The engine's record of one iteration of the loop."""

    def __init__(self, loop: _Loop | None, around: CallFrame) -> None:
        self.operation, self.outer, self.world = (
            None if loop is None else loop.operation,
            around,
            around.world,
        )
        self.started, self.permit = around.world.monotonic(), None
        self.inherit(around)
        self.loop = loop
        self.entered: Token[CallFrame] | None = None
        self.was_entered = False


class BlockAttempt(Attempt):
    """One iteration of the loop: `with attempt:` protects the block. Each is entered once."""

    __slots__ = ("_block",)

    def __init__(self, block: _BlockFrame) -> None:
        """Make an iteration; only `policy.attempts()` does."""
        super().__init__(block)
        self._block = block

    def __enter__(self) -> Self:
        """Start the block."""
        block = self._block
        if block.was_entered:
            raise config_error("attempt", "one `with` for each turn of the loop", "a second one")
        block.was_entered = True
        if block.loop is not None:
            if block.loop.scope is not None:
                block.loop.scope.enter()
            block.entered = CURRENT.set(block)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Exit the layers. A repeated failure ends here; any other is raised and ends the loop."""
        block, loop = self._block, self._block.loop
        if loop is None:  # policies are disabled: the block runs as if unprotected
            return False
        # A block may be exited in another task than it was entered in, and that task has its own
        # context.
        if block.entered is not None:
            entered, block.entered = block.entered, None
            leave_context(entered)
        try:
            return loop.ended(block, error)
        finally:
            if loop.scope is not None:
                loop.scope.leave()


class Attempts:
    """What `policy.attempts()` returns: iterate over it once, sync or async."""

    __slots__ = ("_idempotent", "_line", "_policy", "_states")

    def __init__(
        self, policy: Compiles, states: States, line: object, *, idempotent: bool | None
    ) -> None:
        """Prepare the loop at a `line` in the code; no layer is entered yet."""
        self._policy = policy
        self._states = states
        self._line = line
        self._idempotent = idempotent

    def __iter__(self) -> Iterator[BlockAttempt]:
        """Yield attempts until one succeeds; waits block this thread.

        ConfigError for a policy with a Timeout.
        """
        loop = self._start(is_async=False)
        if CURRENT.get().world.is_disabled:
            yield BlockAttempt(_BlockFrame(None, CURRENT.get()))
            return
        try:
            while (block := loop.next()) is not None:
                try:
                    for wait in loop.waits(block):
                        wait.block()
                except BaseException as error:  # noqa: BLE001 -- raised again unless it is repeated
                    loop.not_admitted_block(block, error)
                else:
                    try:
                        yield BlockAttempt(block)
                    finally:
                        loop.give_back(block)
                if (again := loop.repeats_after(block)) is not None:
                    if again.before is not None:
                        refreshed_sync(again, block)
                    again.first.waited += again.decision.wait
                    _warn_of_loop(again.decision.wait)
                    if not again.was_refused:  # else it waits at its limit
                        block.world.sleep(again.decision.wait)
        finally:
            loop.let_go()

    async def __aiter__(self) -> AsyncIterator[BlockAttempt]:
        """Yield attempts until one succeeds; waits suspend this task."""
        loop = self._start(is_async=True)
        if CURRENT.get().world.is_disabled:
            yield BlockAttempt(_BlockFrame(None, CURRENT.get()))
            return
        try:
            while (block := loop.next()) is not None:
                try:
                    for wait in loop.waits(block):
                        await wait.suspend()
                except BaseException as error:  # noqa: BLE001 -- raised again unless it is repeated
                    loop.not_admitted_block(block, error)
                else:
                    try:
                        yield BlockAttempt(block)
                    finally:
                        loop.give_back(block)
                if loop.asking is not None:
                    await loop.asked(*loop.asking)
                if (again := loop.repeats_after(block)) is not None:
                    if again.before is not None:
                        await refreshed(again, block)
                    again.first.waited += again.decision.wait
                    if again.decision.wait > 0:
                        running_loop("Retry")
                    if not again.was_refused:  # else it waits at its limit
                        await block.world.asleep(again.decision.wait)
        finally:
            loop.let_go()

    def _start(self, *, is_async: bool) -> _Loop:
        operation = loop_operation(
            self._policy, self._states, self._line, idempotent=self._idempotent, is_async=is_async
        )
        return _Loop(operation, is_async=is_async)


class _Loop:
    """One loop: the attempts made so far, and the next step."""

    def __init__(self, operation: Operation, *, is_async: bool) -> None:
        self.operation = operation
        self.plan = operation.plan
        self.is_async = is_async
        # What has to be waited for before a failed attempt is decided on: in a task not where its block ends, which cannot wait, but before
        # the next turn.
        self.asking: (
            tuple[Wait, _BlockFrame, BaseException, BaseException | None, Failure | None] | None
        ) = None
        self.repeats: Repeats | None = None
        self.is_done = False
        self.is_counted = False
        self.scope: CallScope | None = None
        self._last: _BlockFrame | None = None
        self._first: _BlockFrame | None = None
        self._around = CURRENT.get()

    def next(self) -> _BlockFrame | None:
        """Return the next attempt, None if the loop is over."""
        last = self._last
        if self.is_done:
            return None
        if last is not None and not last.was_entered:
            raise config_error(
                "policy.attempts",
                "`with attempt:` around the body of the loop",
                "a body without it",
            )
        block = _BlockFrame(self, self._around)
        if last is None or self._first is None:
            self._first = block
            self._begin(block)
        else:
            block.number, block.first = last.number + 1, self._first
            block.inherit(self._first)
            block.failure = None if self.repeats is None else self.repeats.history[-1]
        self._last = block
        return block

    def waits(self, block: _BlockFrame) -> Iterator[Wait]:
        """Enter every layer; yield the waits."""
        operation, plan = self.operation, self.plan
        for guard in plan.outer:
            if (wait := guard.enter(block)) is not None:
                yield wait
        if operation.pause.until and (wait := pause_wait(block)) is not None:
            yield wait
        for guard in plan.guards:
            if (wait := guard.enter(block)) is not None:
                yield wait
        if not self.is_counted:
            self.is_counted = True
            if operation.budget is not None:  # a block that is rejected earns no repeats
                operation.budget.deposit(block.world.monotonic())

    def _begin(self, block: _BlockFrame) -> None:
        if self._around.is_bounded:
            check_block(self._around)
        if TRACING.open is not None:
            self.scope = open_scope(self.operation)
        for layer in self.plan.layers:
            if isinstance(layer, Deadline):
                bound(block, layer.seconds)

    def ended(self, block: _BlockFrame, error: BaseException | None) -> bool:
        """Handle the end of a block; return whether its error ends here."""
        if error is None:
            error = exit_layers(self.plan.exits, block, None)
            if error is None and self.repeats is not None:
                self.repeats.recovered(block)
            self._over(error)
            if error is not None:
                raise error
            return False
        first, outside = self._first or block, exit_layers(self.plan.exits, block, error)
        try:
            failure = failure_to_decide(self.plan, block, outside)
            wait = asked_of_all(self.operation, first, block, failure, is_asked_for=False)
            if wait is not None and self.is_async:
                self.asking = wait, block, error, outside, failure
                return True
            if wait is not None:
                wait.block()
            return self._decided(block, error, outside, failure)
        finally:
            del error, outside  # an error must not be held by a frame that it holds

    async def asked(
        self,
        wait: Wait,
        block: _BlockFrame,
        error: BaseException,
        outside: BaseException | None,
        failure: Failure | None,
    ) -> None:
        """Wait for an answer, and decide about the ended block; raise the loop's final error."""
        self.asking = None
        try:
            await wait.suspend()
            if not self._decided(block, error, outside, failure):
                raise error
        finally:
            del error, outside

    def _decided(
        self,
        block: _BlockFrame,
        error: BaseException,
        outside: BaseException | None,
        failure: Failure | None,
    ) -> bool:
        """Return whether the failed block repeats; if not, `error` or another is raised.

        `outside` is the error as the layers of the block have turned it.
        """
        operation, first = self.operation, self._first or block
        ending: BaseException | None = None
        try:
            self.repeats, ending = decided(operation, first, block, outside, None, failure, False)
            if self.repeats is not None:
                return True
            ending = ending or error
            leave_function(operation.plan, first, block, ending)
            self._over(ending)
            if ending is error:
                return False
            raise ending
        finally:
            if (tokens := operation.tokens) is not None:
                tokens.settle_up(first)
            del ending, error, outside

    def not_admitted_block(self, block: _BlockFrame, error: BaseException) -> None:
        """Handle a rejected attempt: repeat it like any other failure, or raise the rejection."""
        block.was_entered = True
        if not self.ended(block, error):
            raise error

    def give_back(self, block: _BlockFrame) -> None:
        """Exit the layers: the loop was left before the block ran."""
        if not block.was_entered:
            exit_layers(self.plan.exits, block, None)

    def repeats_after(self, block: _BlockFrame) -> Repeats | None:
        """Return the story that says how long to wait for the next attempt, if one follows."""
        return None if self.is_done or not block.was_entered else self.repeats

    def _over(self, error: BaseException | None) -> None:
        self.is_done = True
        first = self._first
        if first is not None:
            if self.scope is not None:
                with within(self.scope):
                    block_finished(self.operation, first, error)
                self.scope.close()
            else:
                block_finished(self.operation, first, error)
            if first.run is not None:
                first.run.close()
            first.outer = None
        self.let_go()

    def let_go(self) -> None:
        """Release the attempts, which hold the loop, so that all are freed with their last reference."""
        for block in (self._first, self._last):
            if block is not None:
                block.loop = None
        if self._first is not None and self._first.run is not None:
            self._first.run.close()
        self._first = self._last = self.repeats = self.asking = None


def _warn_of_loop(wait: float) -> None:
    """Warn of a wait that would block this thread's event loop; in virtual time there is none."""
    if wait > 0 and CURRENT.get().world is REAL and _runs_loop():
        text = f"`for attempt in policy.attempts()` blocks the event loop for {wait:.3g} s: write `async for`"
        warnings.warn(text, RuntimeWarning, stacklevel=4)


def _runs_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
