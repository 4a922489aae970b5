"""The step of a failed call that asks a budget shared between processes for a repeat.

Rule: a repeat is asked for before it is decided on, because only a step can wait, and only where one may follow: what is never repeated
costs no question. One that the decision then does without goes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from ..policies.foreign import is_tenacity
from .decision import counter, is_used_up, match, may_run_again, place
from .endings import decided, decided_answer, left, left_answer
from .shared_budget import Token
from .waits import Answer


if TYPE_CHECKING:
    from collections.abc import Generator

    from .attempt import Attempt
    from .endings import Left
    from .plan import Plan
    from .retrying import Retrying
    from .shared_budget import SharedBudget
    from .steps import Step

__all__ = ["give_back", "shared_after_answer", "shared_after_failure", "token_for"]


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
        found = self._budget.request(self._attempt.env.monotonic())
        if isinstance(found, Token):
            self._first.token = found
            return None
        return Answer(found, self._attempt, self._settle)

    def _settle(self, answer: bool | None) -> None:
        self._first.token = self._budget.settle(answer, self._attempt.env.monotonic())


def token_for(plan: Plan, attempt: Attempt, end: Left, retrying: Retrying | None) -> Step | None:
    """Return the step that asks for a repeat after a failed attempt; None where none will be made, or nothing is shared."""
    budget, retry, failure = plan.tokens, plan.retry, end.failure
    if budget is None or retry is None or failure is None or attempt.is_last:
        return None
    theirs = any(is_tenacity(what, "retry_base") for what in cast("Iterable[object]", retry.on))
    found = match(retry, failure, is_permitted=end.is_permitted or theirs)
    if not found.is_repeatable or not may_run_again(
        failure, idempotent=plan.idempotent, is_named=found.is_named
    ):
        return None
    counts = {} if retrying is None else dict(retrying.counts)
    counted_by = place(counter(found.rule))
    counts[counted_by] = counts.get(counted_by, 0) + 1
    recurred = 0 if retrying is None else sum(past.code == failure.code for past in retrying.history)
    if is_used_up(retry, failure, found, counts, recurred):
        return None
    return _Asking(budget, attempt.first or attempt, attempt)


def shared_after_failure(
    plan: Plan, first: Attempt, attempt: Attempt, error: BaseException, retrying: Retrying | None
) -> Generator[Step, None, tuple[Retrying | None, BaseException | None]]:
    """Do what `after_failure` does, for a call whose repeats are shared with other processes."""
    end = left(plan, attempt, error)
    try:
        if (step := token_for(plan, attempt, end, retrying)) is not None:
            yield step
        return decided(plan, first, attempt, end, retrying)
    finally:
        give_back(plan, first)
        del error, end  # an error must not be held by a frame that it holds


def shared_after_answer(
    plan: Plan, first: Attempt, attempt: Attempt, result: object, retrying: Retrying | None
) -> Generator[Step, None, Retrying | None]:
    """Do what `after_answer` does, for a call whose repeats are shared with other processes."""
    end = left_answer(plan, attempt, result)
    try:
        if (step := token_for(plan, attempt, end, retrying)) is not None:
            yield step
        return decided_answer(plan, first, attempt, end, retrying)
    finally:
        give_back(plan, first)


def give_back(plan: Plan, first: Attempt) -> None:
    """Return a repeat that the decision did without."""
    token: Token | None = first.token
    if token is not None and plan.tokens is not None:
        first.token = None
        plan.tokens.give_back(token, first.env.monotonic())
