"""The step of a call that asks a budget shared between processes for a repeat.

Rule: a repeat is asked for before it is decided on, because only a step can wait, and only where one may follow: what is never repeated
costs no question. One that the decision then does without goes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...errors import is_limited
from ..evidence import permission_for
from ..nesting import largest_cap, retries_around
from ..retry.decision import counter, is_used_up, place
from .budget import Token
from .waits import Answer


if TYPE_CHECKING:
    from ...errors import Failure
    from ..frame import CallFrame
    from ..retry.planned import Plan as Repeated
    from ..retry.retrying import Retrying
    from ..retry.value import Retry

    class Plan(Repeated, Protocol):
        """The part of a plan that asking for a repeat needs."""

        @property
        def tokens(self) -> SharedBudget | None: ...
        @property
        def retry(self) -> Retry | None: ...

    from ..steps import Step
    from .budget import SharedBudget

__all__ = ["give_back", "token_for"]


class _Asking:
    """The step that asks: the token stands at the first attempt of the call afterwards."""

    __slots__ = ("_attempt", "_budget", "_first")

    def __init__(self, budget: SharedBudget, first: CallFrame, attempt: CallFrame) -> None:
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


def token_for(
    plan: Plan,
    attempt: CallFrame,
    failure: Failure | None,
    retrying: Retrying | None,
    is_asked_for: bool,
) -> Step | None:
    """Return the step that asks for a repeat after a failed attempt; None where none will be made, or nothing is shared."""
    budget, retry = plan.tokens, plan.retry
    if budget is None or retry is None or failure is None or attempt.is_last or is_limited(failure):
        return None
    found = plan.matcher.match(failure, is_asked_for=is_asked_for or bool(plan.matcher.theirs))
    if not found.is_repeatable or not permission_for(plan, attempt, failure):
        return None
    counts = {} if retrying is None else dict(retrying.counts)
    counted_by = place(counter(found.rule))
    counts[counted_by] = counts.get(counted_by, 0) + 1
    recurred = 0 if retrying is None else sum(past.code == failure.code for past in retrying.history)
    first = attempt.first or attempt
    cap = largest_cap(retry, retries_around(first))
    if is_used_up(plan.matcher, failure, found, counts, recurred, cap=cap):
        return None
    return _Asking(budget, first, attempt)


def give_back(plan: Plan, first: CallFrame) -> None:
    """Return a repeat that the decision did without."""
    token: Token | None = first.token
    if token is not None and plan.tokens is not None:
        first.token = None
        plan.tokens.give_back(token, first.world.monotonic())
