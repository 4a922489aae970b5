"""Every course of a call but a first attempt that succeeds: one generator for sync and async.

It yields each wait (a call, a sleep, the wait for a permit) as a step that can block and can
suspend. `run` and `run_async` carry the steps out and send back the result, or throw the error in.
So the order in which layers are entered, attempts made and layers exited is written once and does
not depend on the kind of function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ..telemetry.hub import HUB
from ..world import REAL
from .attempt_result import decide_next, exit_layers
from .evidence import leave_function
from .fallback.rungs import rungs_for, rungs_for_answer
from .finished import call_ended, call_returned
from .frame import CURRENT
from .retry.refresh import Refresh
from .steps import Discard, Sleep


if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .frame import CallFrame
    from .plan import Plan
    from .retry.retrying import Retrying
    from .steps import CallOnce, Step

    Steps: TypeAlias = Generator[Step, Any, Any]


def steps_of(  # noqa: C901, PLR0912 -- one generator: each further one would be entered again at every step
    plan: Plan,
    first: CallFrame,
    call: CallOnce,
    outcome: tuple[BaseException | None, Any] | None = None,
) -> Steps:
    """Yield the steps of a call; return its result, or raise its final error.

    The layers around the Retry come first. `outcome` is how the first attempt has already ended:
    the error it raised, or None and what it returned.
    """
    frame, retrying, fell_back = first, None, False
    is_counted = outcome is not None  # by its runner
    error: BaseException | None = None
    ending: BaseException | None = None
    result: Any = None
    try:
        try:
            if outcome is None:
                for guard in plan.outer:
                    if (wait := guard.enter(first)) is not None:
                        yield wait
            while True:
                if outcome is not None:
                    (error, result), outcome = outcome, None
                else:
                    error = result = None
                    try:
                        if plan.pause.until and (wait := plan.pause_guard.enter(frame)) is not None:
                            yield wait
                        for guard in plan.guards:
                            if (wait := guard.enter(frame)) is not None:
                                yield wait
                        frame.is_called = True
                        if not is_counted:
                            is_counted = True
                            if plan.budget is not None:  # a call that is rejected earns no repeats
                                plan.budget.deposit(frame.world.monotonic())
                        result = yield call
                    except BaseException as raised:  # noqa: BLE001 -- what becomes of it is decided next
                        error = raised
                retrying, ending = yield from decide_next(
                    plan, first, frame, error, result, retrying
                )
                if retrying is None:
                    break
                if error is None:
                    yield Discard(result)
                frame = yield from _wait(frame, retrying)
            if ending is None and plan.fallback is not None and first.answered is not None:
                fell_back = True
                fell_back, result = yield from rungs_for_answer(
                    plan, plan.fallback, first, result, call
                )
        except BaseException as raised:  # noqa: BLE001 -- it is raised below, in the form that the layers give it
            ending = raised
        if ending is None:
            _succeeded(plan, first, fell_back=fell_back)
            return result
        return (yield from _failed(plan, first, call, ending, fell_back=fell_back))
    finally:
        # A frame must not hold an error that holds the frame; the same applies everywhere here.
        error = ending = outcome = None


def _wait(frame: CallFrame, retrying: Retrying) -> Generator[Step, Any, CallFrame]:
    """Refresh if the rule requires it, wait, and return the next attempt."""
    if retrying.before is not None:
        yield Refresh(retrying.before, retrying, frame)
    seconds = retrying.decision.wait
    retrying.first.waited += seconds
    if seconds > 0 or frame.world is not REAL:  # virtual time lists waits of 0, too
        yield Sleep(frame.world, seconds)
    following = retrying.next_attempt(frame)
    CURRENT.set(following)
    return following


def _succeeded(plan: Plan, first: CallFrame, *, fell_back: bool) -> None:
    """Exit the layers around the Retry of a call that succeeded."""
    if HUB.listening:
        call_returned(plan, first, fell_back=fell_back)
    if first.run is not None:
        first.run.close()
    if plan.around:
        exit_layers(plan.around, first, None)
    if plan.before:
        exit_layers(plan.before, first, None)


def _failed(
    plan: Plan, first: CallFrame, call: CallOnce, error: BaseException, *, fell_back: bool = False
) -> Steps:
    """Exit the layers of a call that failed finally; try the Fallback's rungs in between."""
    try:
        ending = _beyond(first, error, exit_layers(plan.around, first, error))
        if plan.fallback is not None and isinstance(ending, Exception) and not fell_back:
            try:
                result = yield from rungs_for(plan, plan.fallback, first, ending, call)
            except BaseException as failed:  # noqa: BLE001 -- it is raised below, in the form that the layers give it
                ending = failed
            else:
                exit_layers(plan.before, first, None)
                call_returned(plan, first, fell_back=True)
                return result
        ending = _beyond(first, ending, exit_layers(plan.before, first, ending))
        leave_function(plan, first, _last(first), ending)
        call_ended(plan, first, ending)
        raise ending
    finally:
        if first.run is not None:
            first.run.close()
        ending = error = None  # type: ignore[assignment]


def _last(first: CallFrame) -> CallFrame:
    frame = CURRENT.get()
    return frame if frame.first is first else first


def _beyond(first: CallFrame, before: BaseException, after: BaseException | None) -> BaseException:
    """Return the error outside of some layers; if a deadline replaced it, the repeats end."""
    if after is None or after is before:
        return before
    if first.run is not None:
        first.run.cut_off(after, first.world.monotonic())
    return after


def run(steps: Steps) -> Any:
    """Carry the steps out in this thread; return the result, or raise their final error."""
    go: Callable[[Any], Step] = steps.send
    value: Any = None
    try:
        while True:
            try:
                step = go(value)
            except StopIteration as end:
                return end.value
            try:
                go, value = steps.send, step.block()
            except StopIteration:
                # StopIteration of a user's iterator is no failure, and cannot be thrown into a
                # generator.
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001 -- the generator decides what becomes of it
                go, value = steps.throw, error
    finally:
        del value  # an error must not be held by a frame that it holds


async def run_async(steps: Steps, step: Step | None = None) -> Any:
    """Carry the steps out in this task, `step` first; return the result or raise the error."""
    go: Callable[[Any], Step] = steps.send
    value: Any = None
    try:
        while True:
            if step is None:
                try:
                    step = go(value)
                except StopIteration as end:
                    return end.value
            try:
                go, value = steps.send, await step.suspend()
            except BaseException as error:  # noqa: BLE001 -- the generator decides what becomes of it
                go, value = steps.throw, error
            step = None
    finally:
        del value  # an error must not be held by a frame that it holds
