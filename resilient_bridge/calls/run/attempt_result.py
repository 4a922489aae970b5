"""The end of an attempt: its layers are exited and the next step is decided, in one pass.

Rule: one generator serves every call. It waits only if an answer is needed first: that of a user's
async condition, before a layer or the Retry decides by it, or that of a shared budget, before a
repeat. A repeat that the decision does not use is given back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...failure import Failure
from ..conditions import Ask, conditions, knowing, tenacity_state, wants_another
from ..evidence import failure_in, keep_answer, proven
from ..frame import report
from ..retry.retrying import Retrying


if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from ..frame import CallFrame
    from ..guards import Guard
    from ..steps import Step
    from .plan import Plan


T = TypeVar("T")


def decide_next(  # noqa: C901, PLR0912, PLR0917 -- one pass: each generator more would be entered at every failure
    plan: Plan,
    first: CallFrame,
    frame: CallFrame,
    error: BaseException | None,
    result: object,
    retrying: Retrying | None,
) -> Generator[Step, Any, tuple[Retrying | None, BaseException | None]]:
    """Exit the layers of an attempt with its `error` or `result`, and decide what follows.

    Return the run that repeats it; or None, with the error that the call ends in (None: the result
    stays).
    """
    answers: dict[int, bool | Exception] | None = {} if plan.asks else None
    # If no condition waits, no other module is entered.
    asking: Callable[..., Any] = _directly if answers is None else partial(knowing, answers)
    is_asked_for = False
    try:
        if error is not None:
            for guard in plan.exits:
                if answers is not None and (theirs := guard.conditions()):
                    yield from _ask(theirs, frame, error, answers)
                try:
                    error = asking(guard.leave, frame, error)
                except Exception as mistake:  # noqa: BLE001 -- the call ends in it, and the other layers are exited all the same
                    error = mistake
            failure = None
            if plan.retry is not None and isinstance(error, Exception):
                failure = failure_in(frame, error)
                if failure is not None:
                    failure = proven(plan, frame, failure, error)
                    if answers is not None:
                        yield Ask(conditions(plan.retry), failure, answers)
                        if plan.matcher.theirs:
                            state = tenacity_state(frame, error, None)
                            yield Ask(plan.matcher.theirs, state, answers)
            frame.seen = None
        else:
            first.answered = None
            if answers is not None:
                yield from _ask_of_answer(plan, frame, result, answers)
            failure, is_asked_for = asking(_exit_answered, plan, frame, result)
            if failure is None:
                if retrying is not None:
                    retrying.recovered(frame)
                return None, None
            if answers is not None:
                yield Ask(conditions(plan.retry), failure, answers)
        if plan.tokens is not None:
            step = asking(plan.tokens.step_for, plan, frame, failure, retrying, is_asked_for)
            if step is not None:
                yield step
        decided: tuple[Retrying | None, BaseException | None] = asking(
            _decided, plan, first, frame, error, result, failure, retrying, is_asked_for
        )
        return decided
    finally:
        if plan.tokens is not None:
            plan.tokens.settle_up(first)
        error = None  # an error must not be held by a frame that it holds


def _directly(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


def _decided(  # noqa: PLR0917 -- all that is known of the attempt
    plan: Plan,
    first: CallFrame,
    frame: CallFrame,
    error: BaseException | None,
    result: object,
    failure: Failure | None,
    retrying: Retrying | None,
    is_asked_for: bool,
) -> tuple[Retrying | None, BaseException | None]:
    retry = plan.retry
    if frame.is_rejected and retrying is None:
        report(first, 0)
    if failure is None or retry is None:
        if error is None:
            keep_answer(first, failure, result)
        return None, error
    if retrying is None:
        if frame.is_rejected and not plan.matcher.match(failure).is_repeatable:
            # the function was not called and will not be, so there is no run to report
            return None, error
        retrying = Retrying(plan, retry, first)
    if error is not None:
        again = retrying.failed(frame, cast("Exception", error), failure)
        return (retrying, None) if again else (None, retrying.ending)
    if retrying.answered(frame, result, failure, is_asked_for=is_asked_for):
        return retrying, None
    keep_answer(first, retrying.history[-1], result)
    return None, None


def _exit_answered(plan: Plan, frame: CallFrame, result: object) -> tuple[Failure | None, bool]:
    """Exit the layers of an attempt that has returned.

    Return the failure that the result represents, and whether the policy asks for another attempt.
    """
    try:
        plain, read = plan.reading
        failure, is_asked_for = None if type(result) in plain else read(result), False
        if plan.asks_result and wants_another(plan.matcher, frame, result):
            failure, is_asked_for = failure or Failure.of("SYS_RESULT_REJECTED"), True
    except BaseException:
        # An error in `on_result` says nothing about the server.
        exit_layers(plan.exits, frame, None)
        raise
    for guard in plan.exits:
        if failure is not None:
            guard.answered(frame, failure)
        guard.leave(frame, None)
    return None if failure is None else proven(plan, frame, failure, None), is_asked_for


def _ask(
    theirs: tuple[Any, ...],
    frame: CallFrame,
    error: BaseException | None,
    answers: dict[int, bool | Exception],
) -> Generator[Step, Any, None]:
    """Evaluate the conditions of a layer about the error that reaches it."""
    failure = failure_in(frame, error) if isinstance(error, Exception) else None
    if failure is not None:
        yield Ask(theirs, failure, answers)


def _ask_of_answer(
    plan: Plan, frame: CallFrame, result: object, answers: dict[int, bool | Exception]
) -> Generator[Step, Any, None]:
    """Evaluate the conditions about results, and those of layers about this one's failure."""
    retry = plan.retry
    if retry is not None and retry.on_result is not None:
        yield Ask((retry.on_result,), result, answers)
    if plan.matcher.theirs:
        yield Ask(plan.matcher.theirs, tenacity_state(frame, None, result), answers)
    failure = plan.reading.read(result)
    if failure is not None:
        for guard in plan.guards:
            if theirs := guard.conditions():
                yield Ask(theirs, failure, answers)


def exit_layers(
    guards: Iterable[Guard], frame: CallFrame, error: BaseException | None
) -> BaseException | None:
    """Exit every layer, even if a callback of one raises; return the error outside of them."""
    for guard in guards:
        try:
            error = guard.leave(frame, error)
        except Exception as mistake:  # noqa: BLE001 -- the call ends in it, and the other layers are exited all the same
            error = mistake
    return error
