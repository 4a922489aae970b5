"""A retry budget shared by several processes: the local budget and the line to the store.

Rule: while the line is up, all processes together allow a repeat. The local budget then only counts
what was allowed, so that it can decide alone when the line goes down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ...failure import is_limited
from ..evidence import permission_for
from ..frame import largest_cap, retries_around
from ..names import SharedNames
from ..shared.waits import AwaitedAnswer, is_real_time
from .budget_state import BudgetState
from .decision import counter, further_calls, rule_key


if TYPE_CHECKING:
    from ...failure import Failure
    from ..frame import CallFrame
    from ..shared.ports import Question, SharedState
    from ..steps import Step
    from .budget import RetryBudget
    from .planned import RepeatPlan
    from .retrying import Retrying


class Token(NamedTuple):
    """The budget's answer to one failed call, and whether it is that of all processes."""

    is_granted: bool
    is_shared: bool


class SharedBudget(BudgetState):
    """The budget `key`, shared by all users of that name with the same `store`."""

    __slots__ = ("_line", "store")

    is_shared = True

    def __init__(self, key: str, settings: RetryBudget, store: SharedState) -> None:
        self.store = store
        self._line = store.budget(key, settings)
        super().__init__(key, settings)

    def deposit(self, now: float) -> None:
        """Count a call: its first attempt, and not its repeats."""
        super().deposit(now)
        if self._line.is_up and is_real_time():
            self._line.deposit()

    def configure(self, settings: RetryBudget) -> None:
        """Apply other numbers; the calls and repeats of the last seconds still count."""
        super().configure(settings)
        self._line.configure(settings)

    def request(self, now: float) -> Token | Question[bool]:
        """Ask for a repeat: return a question for `settle`, or at once this process's answer."""
        if self._line.is_up and is_real_time():
            return self._line.ask()
        return Token(self.spend(now), is_shared=False)

    def settle(self, answer: bool | None, now: float) -> Token:
        """Return the budget's answer; without one this process decides alone."""
        if answer is None:
            return Token(self.spend(now), is_shared=False)
        if answer:
            self.note(now)
        return Token(answer, is_shared=True)

    def step_for(
        self,
        plan: RepeatPlan,
        attempt: CallFrame,
        failure: Failure | None,
        retrying: Retrying | None,
        is_asked_for: bool,
    ) -> Step | None:
        """Return the step that asks for a repeat after a failed attempt; None if none will be made.

        The step runs before the decision, because only a step can wait. It runs only if a repeat
        may follow: a failure that is never repeated costs no question. If the decision then makes
        no repeat, `settle_up` gives it back.
        """
        retry = plan.retry
        if retry is None or failure is None or attempt.is_last or is_limited(failure):
            return None
        found = plan.matcher.match(failure, is_asked_for=is_asked_for or bool(plan.matcher.theirs))
        if not found.is_repeatable or not permission_for(plan, attempt, failure):
            return None
        counts = {} if retrying is None else dict(retrying.counts)
        counted_by = rule_key(counter(found.rule))
        counts[counted_by] = counts.get(counted_by, 0) + 1
        recurred = (
            0 if retrying is None else sum(past.code == failure.code for past in retrying.history)
        )
        first = attempt.first or attempt
        cap = largest_cap(retry.attempts, retries_around(first))
        further = further_calls(plan.matcher, failure, found, counts, recurred, cap=cap)
        if further is not None and further <= 0:
            return None
        return _AskForRepeat(self, first, attempt)

    def settle_up(self, first: CallFrame) -> None:
        """Give back the repeat that the decision did not use, if there is one."""
        token: Token | None = first.token
        first.token = None
        if token is not None and token.is_granted:
            self.take_back(first.world.monotonic())
            if token.is_shared:
                self._line.give_back()


SHARED_BUDGETS: Final = SharedNames[SharedBudget, "RetryBudget"](
    "shared retry budget", lambda store, key, settings: SharedBudget(key, settings, store)
)


# ---- the step that asks for a repeat ----------------------------------------------------------------------------------


class _AskForRepeat:
    """The step that asks: afterwards the first attempt of the call holds the token."""

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

    def _asked(self) -> AwaitedAnswer[bool] | None:
        found = self._budget.request(self._attempt.world.monotonic())
        if isinstance(found, Token):
            self._first.token = found
            return None
        return AwaitedAnswer(found, self._attempt, self._settle)

    def _settle(self, answer: bool | None) -> None:
        self._first.token = self._budget.settle(answer, self._attempt.world.monotonic())
