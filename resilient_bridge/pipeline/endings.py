"""How an attempt ends, and what follows from it: the step between the layers of a plan and its repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from ..classification.plain import PLAIN
from ..errors import Failure
from .asking import wants_another
from .attempt import ROOT, report
from .decision import match
from .evidence import proven
from .guards import BreakerGuard, failure_in
from .retrying import Retrying


if TYPE_CHECKING:
    from collections.abc import Iterable

    from .attempt import Attempt
    from .guards import Guard
    from .plan import Plan

__all__ = [
    "PLAIN",
    "Left",
    "after_answer",
    "after_failure",
    "decided",
    "decided_answer",
    "failure_of_answer",
    "forget_answer",
    "leave_all",
    "left",
    "left_answer",
]

_MOST_PLAIN: Final = 1_024


class Left(NamedTuple):
    """How an attempt ended, beyond its layers: an error, with its failure where a Retry asks for it, or an answer that may stand for one."""

    error: BaseException | None
    failure: Failure | None
    result: object = None
    is_asked_for: bool = False


def after_failure(
    plan: Plan, first: Attempt, attempt: Attempt, error: BaseException, retrying: Retrying | None
) -> tuple[Retrying | None, BaseException | None]:
    """An attempt has raised. Return the run that repeats it, or None with the error that the call ends in."""
    return decided(plan, first, attempt, left(plan, attempt, error), retrying)


def left(plan: Plan, attempt: Attempt, error: BaseException) -> Left:
    """Leave the layers of an attempt that has raised."""
    ending = leave_all(reversed(plan.guards), attempt, error)
    failure = None
    if plan.retry is not None and isinstance(ending, Exception):
        failure = failure_in(attempt, ending)
        if failure is not None:
            failure = proven(plan, attempt, failure, ending)
    attempt.seen = None
    return Left(ending, failure)


def decided(
    plan: Plan, first: Attempt, attempt: Attempt, end: Left, retrying: Retrying | None
) -> tuple[Retrying | None, BaseException | None]:
    """Decide about an attempt that has been left: return what `after_failure` does."""
    ending, failure = end.error, end.failure
    if attempt.is_rejected and retrying is None:
        report(first, 0)
    if failure is None or plan.retry is None:
        return None, ending
    if retrying is None:
        if attempt.is_rejected and not match(plan.retry, failure).is_repeatable:
            return None, ending  # nothing was called, and nothing will be: there is no run to tell of
        retrying = Retrying(plan, plan.retry, first)
    if retrying.failed(attempt, cast("Exception", ending), failure) is None:
        return None, retrying.ending
    return retrying, None


def after_answer(
    plan: Plan, first: Attempt, attempt: Attempt, result: object, retrying: Retrying | None
) -> Retrying | None:
    """An attempt has returned something that may stand for a failure. Return the run that repeats it, None if it stays."""
    return decided_answer(plan, first, attempt, left_answer(plan, attempt, result), retrying)


def left_answer(plan: Plan, attempt: Attempt, result: object) -> Left:
    """Leave the layers of an attempt that has returned."""
    try:
        failure, is_asked_for = failure_of_answer(result), False
        if plan.asks_result and plan.retry is not None and wants_another(plan.retry, attempt, result):
            failure, is_asked_for = failure or Failure.of("SYS_RESULT_REJECTED"), True
    except BaseException:
        # A mistake in `on_result` says nothing of the other side.
        leave_all(reversed(plan.guards), attempt, None)
        raise
    for guard in reversed(plan.guards):
        if failure is not None and isinstance(guard, BreakerGuard):
            guard.answered(attempt, failure)
        guard.leave(attempt, None)
    if failure is not None:
        failure = proven(plan, attempt, failure, None)
    return Left(None, failure, result, is_asked_for)


def decided_answer(
    plan: Plan, first: Attempt, attempt: Attempt, end: Left, retrying: Retrying | None
) -> Retrying | None:
    """Decide about an answer whose layers have been left: return what `after_answer` does."""
    first.answered = None
    if end.failure is None:
        if retrying is not None:
            retrying.recovered(attempt)
        return None
    if plan.retry is None:
        _keep_answer(first, end.failure)
        return None
    if retrying is None:
        retrying = Retrying(plan, plan.retry, first)
    again = retrying.answered(attempt, end.result, end.failure, is_asked_for=end.is_asked_for)
    if again is None:
        _keep_answer(first, retrying.history[-1])
        return None
    return retrying


def _keep_answer(first: Attempt, failure: Failure | None) -> None:
    """Keep what a returned answer stands for: for the Fallback, and for `capture`."""
    first.answered = failure
    edge = first.outer
    if edge is not None and edge.plan is None and edge is not ROOT:
        edge.answered = failure


def forget_answer(first: Attempt) -> None:
    """The answer was replaced."""
    _keep_answer(first, None)


def leave_all(guards: Iterable[Guard], attempt: Attempt, error: BaseException | None) -> BaseException | None:
    """Leave every layer, whatever a callback of one of them raises; return the error beyond them."""
    for guard in guards:
        try:
            error = guard.leave(attempt, error)
        except Exception as mistake:  # noqa: BLE001 -- the call ends in it, and the other layers are left all the same
            error = mistake
    return error


def failure_of_answer(result: object) -> Failure | None:
    """Return what a returned answer stands for, None when it is a success."""
    kind = type(result)
    if kind in PLAIN:
        return None
    from ..classification import classify
    from ..classification.answers import may_be_answer

    if isinstance(result, BaseException):
        return None  # a function may return an exception without meaning to raise it
    if not may_be_answer(kind):
        # A sync function may not return an awaitable: that has to be asked each time.
        if len(PLAIN) < _MOST_PLAIN and not hasattr(cast("Any", kind), "__await__"):
            PLAIN.add(kind)
        return None
    return classify(result)
