"""The steps of a call that has to wait before it is decided on: for a budget shared between processes, for conditions of the user's.

Rule: a repeat is asked for before it is decided on, because only a step can wait, and only where one may follow: what is never repeated
costs no question. One that the decision then does without goes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from ..policies.foreign import is_tenacity
from .asking import Ask, answering, conditions, tenacity_state
from .decision import counter, is_used_up, match, place
from .endings import Left, decided, decided_answer, failure_of_answer, leave_all, left, left_answer
from .evidence import permission_for, proven
from .guards import BreakerGuard, failure_in
from .nesting import largest_cap, retries_around
from .shared_budget import Token
from .verdicts import is_limited
from .waits import Answer


if TYPE_CHECKING:
    from collections.abc import Generator

    from .attempt import Attempt
    from .plan import Plan
    from .retrying import Retrying
    from .shared_budget import SharedBudget
    from .steps import Step

__all__ = ["give_back", "slowly_after_answer", "slowly_after_failure", "token_for"]


class _Asking:
    """The step that asks: the token stands at the first attempt of the call afterwards."""

    __slots__ = ("_attempt", "_budget", "_first")

    def __init__(self, budget: SharedBudget, first: Attempt, attempt: Attempt) -> None:
        self._budget = budget
        self._first = first
        self._attempt = attempt

    def block(self) -> None:
        if (answer := self._asked()) is not None:
            answer.block()

    async def suspend(self) -> None:
        if (answer := self._asked()) is not None:
            await answer.suspend()

    def _asked(self) -> Answer[bool] | None:
        found = self._budget.request(self._attempt.world.monotonic())
        if isinstance(found, Token):
            self._first.token = found
            return None
        return Answer(found, self._attempt, self._settle)

    def _settle(self, answer: bool | None) -> None:
        self._first.token = self._budget.settle(answer, self._attempt.world.monotonic())


def token_for(plan: Plan, attempt: Attempt, end: Left, retrying: Retrying | None) -> Step | None:
    """Return the step that asks for a repeat after a failed attempt; None where none will be made, or nothing is shared."""
    budget, retry, failure = plan.tokens, plan.retry, end.failure
    if budget is None or retry is None or failure is None or attempt.is_last or is_limited(failure):
        return None
    theirs = any(is_tenacity(what, "retry_base") for what in cast("Iterable[object]", retry.on))
    found = match(retry, failure, is_asked_for=end.is_asked_for or theirs)
    if not found.is_repeatable or not permission_for(plan, attempt, failure):
        return None
    counts = {} if retrying is None else dict(retrying.counts)
    counted_by = place(counter(found.rule))
    counts[counted_by] = counts.get(counted_by, 0) + 1
    recurred = 0 if retrying is None else sum(past.code == failure.code for past in retrying.history)
    first = attempt.first or attempt
    cap = largest_cap(retry, retries_around(first))
    if is_used_up(retry, failure, found, counts, recurred, cap=cap):
        return None
    return _Asking(budget, first, attempt)


def slowly_after_failure(
    plan: Plan, first: Attempt, attempt: Attempt, error: BaseException, retrying: Retrying | None
) -> Generator[Step, None, tuple[Retrying | None, BaseException | None]]:
    """Do what `after_failure` does, for a call that has to wait for conditions, or for a budget shared with other processes."""
    answers: dict[int, bool | Exception] = {}
    if plan.asks:
        end = yield from _left_asking(plan, attempt, error, answers)
    else:
        end = left(plan, attempt, error)
    try:
        with answering(answers):
            step = token_for(plan, attempt, end, retrying)
        if step is not None:
            yield step
        with answering(answers):
            return decided(plan, first, attempt, end, retrying)
    finally:
        give_back(plan, first)
        del error, end  # an error must not be held by a frame that it holds


def slowly_after_answer(
    plan: Plan, first: Attempt, attempt: Attempt, result: object, retrying: Retrying | None
) -> Generator[Step, None, Retrying | None]:
    """Do what `after_answer` does, for a call that has to wait for conditions, or for a budget shared with other processes."""
    answers: dict[int, bool | Exception] = {}
    if plan.asks:
        yield from _asked_of_answer(plan, attempt, result, answers)
    with answering(answers):
        end = left_answer(plan, attempt, result)
    if plan.asks and end.failure is not None:
        yield Ask(conditions(plan.retry), end.failure, answers)
    try:
        with answering(answers):
            step = token_for(plan, attempt, end, retrying)
        if step is not None:
            yield step
        with answering(answers):
            return decided_answer(plan, first, attempt, end, retrying)
    finally:
        give_back(plan, first)


def _left_asking(
    plan: Plan, attempt: Attempt, error: BaseException, answers: dict[int, bool | Exception]
) -> Generator[Step, None, Left]:
    """Leave the layers of an attempt that has raised, asking before each what its conditions say."""
    ending: BaseException | None = error
    try:
        for guard in reversed(plan.guards):
            if isinstance(guard, BreakerGuard) and isinstance(ending, Exception):
                failure = failure_in(attempt, ending)
                if failure is not None:
                    yield Ask(conditions(guard.layer), failure, answers)
            with answering(answers):
                ending = leave_all((guard,), attempt, ending)
        failure = failure_in(attempt, ending) if isinstance(ending, Exception) else None
        if failure is not None and ending is not None and plan.retry is not None:
            failure = proven(plan, attempt, failure, ending)
            yield Ask(conditions(plan.retry), failure, answers)
            if theirs := _of_tenacity(plan):
                yield Ask(theirs, tenacity_state(attempt, ending, None), answers)
        attempt.seen = None
        return Left(ending, failure if plan.retry is not None else None)
    finally:
        del error, ending


def _asked_of_answer(
    plan: Plan, attempt: Attempt, result: object, answers: dict[int, bool | Exception]
) -> Generator[Step, None, None]:
    """Ask what stands about results, and about what this one stands for."""
    retry = plan.retry
    if retry is not None and retry.on_result is not None:
        yield Ask((retry.on_result,), result, answers)
    if theirs := _of_tenacity(plan):
        yield Ask(theirs, tenacity_state(attempt, None, result), answers)
    failure = failure_of_answer(result)
    if failure is not None:
        for guard in plan.guards:
            if isinstance(guard, BreakerGuard):
                yield Ask(conditions(guard.layer), failure, answers)


def _of_tenacity(plan: Plan) -> tuple[Any, ...]:
    return (
        () if plan.retry is None else tuple(what for what in plan.retry.on if is_tenacity(what, "retry_base"))
    )


def give_back(plan: Plan, first: Attempt) -> None:
    """Return a repeat that the decision did without."""
    token: Token | None = first.token
    if token is not None and plan.tokens is not None:
        first.token = None
        plan.tokens.give_back(token, first.world.monotonic())
