"""The long way of a call: everything but a first attempt that succeeds. One generator, for sync and async alike.

It yields what has to be waited for (a call, a sleep, a turn), each as a step that knows how to block and how to suspend; the runner
does it and sends back the result, or throws the error in. So there is one text for the order in which layers are taken,
attempts made and layers given back, and nothing in it knows which kind of function it serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from .attempt import CURRENT
from .endings import after_answer, after_failure, leave_all
from .evidence import leave_function
from .fallback import rungs_for, rungs_for_answer
from .finished import call_ended, call_returned
from .refresh import Refresh
from .steps import Discard, Sleep
from .tokens import slowly_after_answer, slowly_after_failure


if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .attempt import Attempt
    from .plan import Plan
    from .retrying import Retrying
    from .steps import Call, Step

    Steps: TypeAlias = Generator[Step, Any, Any]

__all__ = ["follow", "follow_async", "from_failure", "from_start"]


def from_start(plan: Plan, first: Attempt, call: Call) -> Steps:
    """Go the whole way, layers around the Retry first."""
    fell_back = False
    try:
        for enter in plan.outer_enters:
            if (turn := enter(first)) is not None:
                yield turn
        result = yield from _attempts(plan, first, first, call, None)
        if plan.fallback is not None and first.answered is not None:
            fell_back = True
            fell_back, result = yield from rungs_for_answer(plan, first, result, call)
    except BaseException as error:  # noqa: BLE001 -- it is raised below, in the form that the layers give it
        ending = error
    else:
        return _left(plan, first, result, fell_back=fell_back)
    try:
        return (yield from _ended(plan, first, call, ending, fell_back=fell_back))
    finally:
        del ending  # an error must not be held by a frame that it holds; so everywhere here


def from_failure(plan: Plan, first: Attempt, call: Call, error: BaseException | None, result: Any) -> Steps:
    """Go on after a first attempt that raised `error`, or returned what may stand for a failure."""
    ending: BaseException | None = None
    try:
        if error is None:
            if not plan.is_slow:
                retrying = after_answer(plan, first, first, result, None)
            else:
                retrying = yield from slowly_after_answer(plan, first, first, result, None)
        elif not plan.is_slow:
            retrying, ending = after_failure(plan, first, first, error, None)
        else:  # somebody has to be asked first
            retrying, ending = yield from slowly_after_failure(plan, first, first, error, None)
        if ending is None:
            if retrying is not None:
                if error is None:
                    yield Discard(result)
                following = yield from _next(first, retrying)
                result = yield from _attempts(plan, first, following, call, retrying)
            return _left(plan, first, result)
    except BaseException as raised:  # noqa: BLE001 -- it is raised below, in the form that the layers give it
        ending = raised
    try:
        return (yield from _ended(plan, first, call, ending))
    finally:
        del error, ending


def _attempts(  # noqa: C901, PLR0912 -- a generator more for each decision would be felt by every repeat
    plan: Plan, first: Attempt, attempt: Attempt, call: Call, retrying: Retrying | None
) -> Steps:
    """Make attempts until one stays as it is: return its result, or raise its error."""
    while True:
        try:
            for guard in plan.guards:
                if (turn := guard.enter(attempt)) is not None:
                    yield turn
            attempt.is_called = True
            result = yield call
        except BaseException as error:
            if not plan.is_slow:
                retrying, ending = after_failure(plan, first, attempt, error, retrying)
            else:
                retrying, ending = yield from slowly_after_failure(plan, first, attempt, error, retrying)
            if ending is error:
                del ending
                raise
        else:
            ending = None
            if not plan.is_slow:
                retrying = after_answer(plan, first, attempt, result, retrying)
            else:
                retrying = yield from slowly_after_answer(plan, first, attempt, result, retrying)
            if retrying is None:
                return result
            yield Discard(result)
        if retrying is None:
            try:
                raise ending  # type: ignore[misc]
            finally:
                del ending
        attempt = yield from _next(attempt, retrying)


def _next(attempt: Attempt, retrying: Retrying) -> Generator[Step, Any, Attempt]:
    """Refresh if the rule says so, wait, and begin the next attempt."""
    if retrying.before is not None:
        yield Refresh(retrying.before, retrying, attempt)
    retrying.first.waited += retrying.decision.wait
    yield Sleep(attempt.world, retrying.decision.wait)  # of 0, too: virtual time lists it
    following = retrying.next_attempt(attempt)
    CURRENT.set(following)
    return following


def _left(plan: Plan, first: Attempt, result: Any, *, fell_back: bool = False) -> Any:
    """The call is over, and well: leave the layers around the Retry."""
    call_returned(plan, first, fell_back=fell_back)
    if first.run is not None:
        first.run.close()
    leave_all(plan.around, first, None)
    leave_all(plan.before, first, None)
    return result


def _ended(plan: Plan, first: Attempt, call: Call, error: BaseException, *, fell_back: bool = False) -> Steps:
    """The call has failed for good: leave the layers, try the rungs of the Fallback in between."""
    try:
        ending = _beyond(first, error, leave_all(plan.around, first, error))
        if plan.fallback is not None and isinstance(ending, Exception) and not fell_back:
            try:
                result = yield from rungs_for(plan, first, ending, call)
            except BaseException as failed:  # noqa: BLE001 -- it is raised below, in the form that the layers give it
                ending = failed
            else:
                leave_all(plan.before, first, None)
                call_returned(plan, first, fell_back=True)
                return result
        ending = _beyond(first, ending, leave_all(plan.before, first, ending))
        leave_function(plan, first, _last(first), ending)
        call_ended(plan, first, ending)
        raise ending
    finally:
        if first.run is not None:
            first.run.close()
        ending = error = None  # type: ignore[assignment]


def _last(first: Attempt) -> Attempt:
    attempt = CURRENT.get()
    return attempt if attempt.first is first else first


def _beyond(first: Attempt, before: BaseException, after: BaseException | None) -> BaseException:
    """Return the error beyond some layers; where a deadline has put its own there, the repeats end with it."""
    if after is None or after is before:
        return before
    if first.run is not None:
        first.run.cut_off(after, first.world.monotonic())
    return after


def follow(steps: Steps) -> Any:
    """Go the way in this thread; return the result, or raise the error that it ends in."""
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
            except (
                StopIteration
            ):  # the end of somebody's iterator is no failure, and cannot be thrown into a generator
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001 -- the way decides what becomes of it
                go, value = steps.throw, error
    finally:
        del value  # an error must not be held by a frame that it holds


async def follow_async(steps: Steps) -> Any:
    """Go the way in this task; return the result, or raise the error that it ends in."""
    go: Callable[[Any], Step] = steps.send
    value: Any = None
    try:
        while True:
            try:
                step = go(value)
            except StopIteration as end:
                return end.value
            try:
                go, value = steps.send, await step.suspend()
            except BaseException as error:  # noqa: BLE001 -- the way decides what becomes of it
                go, value = steps.throw, error
    finally:
        del value  # an error must not be held by a frame that it holds
