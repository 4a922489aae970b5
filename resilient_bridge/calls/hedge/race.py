"""The race of one attempt: its own request, and the further ones that start while that is slow.

The first request runs where the attempt runs, in the caller's task and context, so that an attempt
that is fast enough costs a timer. A further one runs in a task with a copy of that context and a
frame of its own. When one of those has ended the race, the caller's task is cancelled out of the
first request, as a Timeout does it: with a `cancel()` that is taken back by `uncancel()`.

Rules:

- A race returns when all of its requests have ended: it leaves no task, permit or connection.
- What ends it: a success, or a failure that a repeat cannot help. Of other failures, that of the
  first request is the attempt's, once no request is left.
- A further request takes what it needs from the limits around it at once, or it does not start. It
  starts neither behind a circuit that is not closed nor while a limiter asks for a pause.
- To the layers around, the race is one attempt: a circuit counts it once.
- A request that was cancelled may have run: then an error of the race proves nothing.
- Where further requests go elsewhere (`Hedge.to`), only a success of theirs ends the race, and what
  the circuit, the limit and the learnt time are told is what the first request showed.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from ... import events
from ...failure import RATE_LIMITED, Executed, Record, changed, unproven
from ...telemetry import emit
from ...transports.event_loop import running_loop
from ..decision import failure_in, record_inside
from ..evidence import keep
from ..frame import CURRENT, ROOT, CallFrame, enclosing, inside_of
from ..stream_items import StartedStream
from .state import HedgeState
from .stream_task import StreamTask


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...failure import Failure
    from ...failure.classifier import Reading
    from ...world.real import TimerHandle
    from ..guards import Guard
    from .value import Hedge


class Racing:
    """The Hedge of one plan: its numbers, how answers are read, and the layers around it.

    `guards` are those that a further request needs something of. Where it goes elsewhere, to the
    function `to` of the name `target`, `counts` are those that learn from the first request alone.
    """

    __slots__ = ("counts", "guards", "layer", "reading", "target", "to")

    def __init__(
        self,
        layer: Hedge,
        reading: Reading,
        guards: tuple[Guard, ...],
        *,
        to: Callable[..., Awaitable[Any]] | None = None,
        target: str = "",
        counts: tuple[Guard, ...] = (),
    ) -> None:
        self.layer = layer
        self.reading = reading
        self.guards = guards
        self.to = to
        self.target = target
        self.counts = counts

    def __call__(
        self,
        operation: Any,
        function: Callable[..., Awaitable[Any]],
        discarded: Callable[[Any], Awaitable[None]],
    ) -> Callable[..., Awaitable[Any]]:
        """Return what makes one attempt at `function`; `discarded` closes an answer nobody reads."""
        state: HedgeState = operation.states.owned("hedge", HedgeState)

        async def attempt(*args: Any, **kwargs: Any) -> Any:
            send = partial(function, *args, **kwargs)
            again = send if self.to is None else partial(self.to, *args, **kwargs)
            return await _Race(self, state, CURRENT.get(), send, discarded, again=again).run()

        return attempt

    def admits(self, state: HedgeState, frame: CallFrame, hedge: CallFrame) -> bool:
        """Take from budget and limits what a further request needs; False if it may not start."""
        operation: Any = frame.operation
        if frame.is_last or frame.is_single or operation.pause.to_go(frame.world) > 0:
            return False
        if not state.take(hedge.started):
            return False
        for taken, guard in enumerate(self.guards):
            if not guard.enter_hedge(hedge):
                hedge.is_rejected = True
                self.leave(hedge, taken=taken)
                state.give_back()
                return False
        return True

    def leave(
        self, hedge: CallFrame, failure: Failure | None = None, taken: int | None = None
    ) -> None:
        """Give back what a further request had taken, which may have ended in a failure."""
        for guard in reversed(self.guards[:taken]):
            guard.leave_hedge(hedge, failure)


class _Further:
    """A further request: its task, its answer, its frame, and the failure that the answer stands for.

    The task of a stream goes on after the answer, which has the first item.
    """

    __slots__ = ("answer", "failure", "frame", "holds", "task")

    def __init__(self, frame: CallFrame, answer: asyncio.Future[Any]) -> None:
        self.frame = frame
        self.failure: Failure | None = None
        self.answer = answer
        self.holds = True  # what the limits around it have admitted it with
        self.task: asyncio.Task[Any] | None = None

    @property
    def may_have_run(self) -> bool:
        return self.failure is None or self.failure.executed is not Executed.NO


class _Race:
    """The requests of one attempt."""

    __slots__ = (
        "again",
        "cancelled_before",
        "context",
        "discarded",
        "first",
        "further",
        "is_over",
        "loop",
        "racing",
        "send",
        "started",
        "state",
        "task",
        "timer",
        "winner",
        "woken",
    )

    def __init__(
        self,
        racing: Racing,
        state: HedgeState,
        frame: CallFrame,
        send: Callable[[], Awaitable[Any]],
        discarded: Callable[[Any], Awaitable[None]],
        *,
        again: Callable[[], Awaitable[Any]],
    ) -> None:
        self.racing = racing
        self.state = state
        self.first = frame
        self.send = send
        self.again = again
        self.discarded = discarded
        self.loop = running_loop("Hedge")
        self.task: asyncio.Task[Any] | None = asyncio.current_task(self.loop)
        self.cancelled_before = 0 if self.task is None else self.task.cancelling()
        self.context = copy_context()
        self.further: list[_Further] = []
        self.is_over = False
        self.winner: _Further | None = None
        self.woken: asyncio.Future[None] | None = None  # exists once the first request has failed
        self.timer: TimerHandle | None = None
        self.started = frame.world.monotonic()

    async def run(self) -> Any:
        """Return the answer of the request that won, or raise the error that ended the race."""
        after = self.state.begin(self.racing.layer)
        if after is not None and self.task is not None:
            self._look_after(after)
        error: BaseException | None = None
        failure: Failure | None = None
        try:
            try:
                result = await self.send()
            except BaseException as raised:  # noqa: BLE001 -- what becomes of it is decided below
                error, result = raised, None
            failure = self._failure_of(self.first, error, result)
            if self.further:
                failure, error, result = await self._decided(failure, error, result)
            if error is not None:
                raise error
            if failure is None and (self.racing.to is None or self.woken is None):
                self.state.answered(self._seconds())
            return result
        finally:
            self._stop()
            self.task = None  # it holds the error, which holds a frame that holds this
            error = failure = None  # an error must not be held by a frame that it holds

    # ---- further requests -----------------------------------------------------------------------

    def _look_after(self, seconds: float) -> None:
        """See in so many seconds whether a further request has to start."""
        look = partial(self.context.copy().run, self._look)
        self.timer = self.first.world.call_later(self.loop, seconds, look)

    def _look(self) -> None:
        """Start a further request, if there may be one now; look again when as long has passed."""
        if self.is_over or self.woken is not None:
            return
        if self.racing.admits(self.state, self.first, hedge := self._new_frame()):
            request = _Further(hedge, self.loop.create_future())
            self.further.append(request)
            request.answer.add_done_callback(partial(self._has_ended, request))
            request.task = self.loop.create_task(
                self._answered(request), context=self.context.copy(), name="hedge"
            )
            request.task.add_done_callback(partial(_cancel, request.answer))
        if len(self.further) < self.racing.layer.most:
            self._look_after(self._seconds())

    def _new_frame(self) -> CallFrame:
        first, hedge = self.first, CallFrame()
        hedge.operation, hedge.outer = first.operation, first.first or first
        hedge.first, hedge.world = first.first or first, first.world
        hedge.started = first.world.monotonic()
        hedge.permit = None
        hedge.inherit(first)
        hedge.number, hedge.failure = first.number, first.failure
        return hedge

    async def _answered(self, request: _Further) -> None:
        """Send a further request, in its own task."""
        CURRENT.set(request.frame)
        try:
            result = await self.again()
            request.failure = self._failure_of(request.frame, None, result)
        except Exception as error:  # noqa: BLE001 -- the race decides what becomes of it
            request.failure = self._failure_of(request.frame, error, None)
            request.answer.set_exception(error)
            request.answer.exception()  # it counts as read: nobody may ask for it
            return
        if not isinstance(result, StartedStream) or result.is_empty:
            request.answer.set_result(result)
            return
        CURRENT.set(enclosing(request.frame) or ROOT)  # with its first item the call has ended
        steps = result.items = StreamTask(result.items, asyncio.current_task(self.loop))
        request.answer.set_result(result)
        await steps.serve()

    def _has_ended(self, request: _Further, answer: asyncio.Future[Any]) -> None:
        """Give back what a further request held; end the race if that is what it did."""
        self._give_back(request)
        failure = request.failure
        ends = not answer.cancelled() and (
            failure is None or not (failure.retryable or self.racing.to)
        )
        if self.is_over or self.winner is not None:
            return
        if ends:
            self.winner = request
            if self.woken is None and self.task is not None:
                self.task.cancel()  # out of the first request; `_decided` takes it back
        if self.woken is not None and (ends or self._all_ended()) and not self.woken.done():
            self.woken.set_result(None)

    # ---- the end --------------------------------------------------------------------------------

    async def _decided(
        self, failure: Failure | None, error: BaseException | None, result: Any
    ) -> tuple[Failure | None, BaseException | None, Any]:
        """End the race after the first request has ended; return how its attempt ends."""
        winner, number, unknown = None, 0, 0
        try:
            winner = await self._winner(failure, error, result)
            if winner is not None:
                self._count_first(failure, error)
                unknown = 1 if self.woken is None else 0
                failure, error = winner.failure, winner.answer.exception()
                result = winner.answer.result() if error is None else None
            unknown += await self._all_cancelled(winner, result)
        except BaseException:
            unknown += await self._all_cancelled(None, None)
            self._merge(None, None)
            raise
        else:
            self._merge(winner, error)
            if winner is not None:
                number = 2 + self.further.index(winner)
            elif error is None or isinstance(error, Exception):
                number = 1
            return failure, error, result
        finally:
            self._report(number, unknown)
            for each in self.further:
                # each of these holds an error, which holds a frame that holds `each`
                each.failure = each.frame.seen = None
                del each.answer, each.task
            self.further.clear()
            self.winner = None
            winner = failure = error = None

    async def _winner(
        self, failure: Failure | None, error: BaseException | None, result: Any
    ) -> _Further | None:
        """Return the further request that ends the race; None if the first one does."""
        self._stop()
        if self.winner is not None and self.task is not None:
            # What was cancelled beside us is not ours to take back.
            is_ours = self.task.uncancel() <= self.cancelled_before
            if error is None:
                await self.discarded(result)
            elif not isinstance(error, Exception) and not (
                is_ours and isinstance(error, CancelledError)
            ):
                return None
            return self.winner
        if failure is None or not failure.retryable:
            self.is_over = True
            return None
        if not self._all_ended():
            self.woken = self.loop.create_future()
            await self.woken
        return self.winner

    async def _all_cancelled(self, winner: _Further | None, result: Any) -> int:
        """Cancel the requests that run, and wait until they have ended; return how many ran.

        Answers that nobody will read are closed, `result` too if the caller is cancelled here.
        """
        self.is_over = True
        running = [
            each.task for each in self.further if each.task is not None and not each.answer.done()
        ]
        cut: CancelledError | None = None
        pending = running
        while pending:
            for task in pending:
                task.cancel()
            try:
                await asyncio.wait(pending)
            except CancelledError as cancelled:
                cut = cancelled
            pending = [task for task in pending if not task.done()]
        try:
            for each in self.further:
                # the callbacks that do this may come later than the end of the task
                each.answer.cancel()
                self._give_back(each)
            for each in self.further:
                answer = each.answer
                if each is not winner and not answer.cancelled() and answer.exception() is None:
                    await self.discarded(answer.result())
            if cut is not None:
                await self.discarded(result)
                raise cut
        finally:
            cut = None
        return len(running)

    def _merge(self, winner: _Further | None, error: BaseException | None) -> None:
        """Have the attempt know what happened inside of its further requests."""
        first = self.first
        first.further += len(self.further)
        for each in self.further:
            hedge = each.frame
            first.requests += hedge.requests
            first.is_last = first.is_last or hedge.is_last
            first.why_last = first.why_last or hedge.why_last
            if first.may_repeat_until is None:
                first.may_repeat_until = hedge.may_repeat_until
            if hedge.inside is not None and self.racing.to is None:
                inside = inside_of(first)
                inside.most = max(inside.most, hedge.inside.most)
                for operation, failed in hedge.inside.failed.items():
                    inside.failed[operation] = max(inside.failed.get(operation, 0), failed)
        if winner is not None:
            first.seen = winner.frame.seen
            if winner.frame.inside is not None:
                inside_of(first).mark = winner.frame.inside.mark
        if isinstance(error, Exception):
            failure = failure_in(first, error)
            others = [each for each in self.further if each is not winner]
            if failure is not None and (
                winner is not None or any(each.may_have_run for each in others)
            ):
                first.seen = error, unproven(failure)
                record = record_inside(first, error) or Record()
                keep(first.first or first, first, error, record._replace(executed=Executed.MAYBE))

    def _count_first(self, failure: Failure | None, error: BaseException | None) -> None:
        """Have circuit and limit count what the first request ended in, not an answer from elsewhere."""
        if self.woken is None:
            failure, error = None, CancelledError()  # nobody knows what it would have answered
        for guard in self.racing.counts:
            for frame in {self.first, self.first.first or self.first}:
                with suppress(Exception):  # of the user's condition; the call has its answer
                    if failure is not None and error is None:
                        guard.answered(frame, failure)
                    guard.leave(frame, error)

    def _report(self, winner: int, unknown: int) -> None:
        operation: Any = self.first.operation
        failures = [each.failure for each in self.further if each.failure is not None]
        emit(
            events.Hedged(
                name=operation.name,
                requests=1 + len(self.further),
                winner=winner,
                unknown=unknown,
                seconds=self._seconds(),
                to=self.racing.target,
                failure=changed(failures[-1], cause=None) if failures and self.racing.to else None,
            )
        )

    def _give_back(self, request: _Further) -> None:
        """Give back what a further request holds, once."""
        if request.holds:
            request.holds = False
            self.racing.leave(request.frame, request.failure)

    # ---- smaller questions ----------------------------------------------------------------------

    def _failure_of(
        self, frame: CallFrame, error: BaseException | None, result: Any
    ) -> Failure | None:
        """Return the failure that an error or an answer stands for; note a refusal."""
        if error is not None:
            failure = failure_in(frame, error) if isinstance(error, Exception) else None
        else:
            plain, read = self.racing.reading
            failure = None if type(result) in plain else read(result)
        if failure is not None and (
            failure.code == RATE_LIMITED or failure.retry_after is not None
        ):
            self.state.refused(frame.world.monotonic(), failure.retry_after)
        return failure

    def _seconds(self) -> float:
        return self.first.world.monotonic() - self.started

    def _all_ended(self) -> bool:
        return all(each.answer.done() for each in self.further)

    def _stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def _cancel(answer: asyncio.Future[Any], _: object) -> None:
    """Cancel the answer of a task that has ended without one."""
    answer.cancel()
