"""The retries of one call, from its first failure on.

Decides, lets tenacity carry it out, and keeps the counts.

Rule: nothing of this exists while calls succeed. The first attempt runs without it; when that
fails, a new tenacity controller is started with that outcome and our clock, and its hooks return
what `decision` decided. The budget is asked last, in the stop hook, because asking spends from it.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ... import events
from ...failure import (
    WHY_STOPPED,
    Failure,
    Record,
    RejectedError,
    changed,
    ended,
    is_limited,
    number_in,
    record_of,
)
from ...failure.record import take_back
from ...failure.what import add_note, ask, is_tenacity
from ...telemetry import emit
from ...telemetry.event import QUIET_WAIT
from ...telemetry.hub import HUB
from ...values.backoff import Backoff
from ...values.foreign import as_wait
from ..attempt import ask_schedule
from ..evidence import failure_in, keep, may_have_started, permission_for, record_inside
from ..finished import rejected
from ..frame import ROOT, CallFrame, inside_of, largest_cap, new_frame, report, retries_around
from .decision import Decision, Match, counter, decide, rule_key
from .unrepeated import log_unrepeated, why_unrepeated


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import tenacity

    from ...failure import Stopped
    from ...values.rule import Rule
    from .budget_state import BudgetState
    from .planned import RepeatPlan
    from .value import Retry


_LOG: Final = logging.getLogger("resilient_bridge")
_STOP: Final = object()


class Retrying:
    """The state of a call that has failed at least once."""

    def __init__(self, plan: RepeatPlan, retry: Retry, first: CallFrame) -> None:
        self.plan = plan
        self.retry = retry
        self.first = first
        self.calls = 0
        self.permission = ""
        self.is_repeatable = False  # whether the policy names the last failure
        self.requests = 0
        self.counts: dict[int | None, int] = {}  # by `rule_key`
        self.history: list[Failure] = []
        # By schedule (None: the general one): how often a wait was drawn from it, and the last wait.
        self.drawn: dict[int | None, tuple[int, float | None]] = {}
        self.current: CallFrame | None = None  # the attempt under way, from the second on
        self.rule: Rule | None = None
        self.before: Callable[[], Awaitable[None] | None] | None = None
        self.ending: BaseException | None = None  # the error that the call raises in the end
        # The last error of an attempt that was made, not of a layer that rejected it, and the number of failures by then.
        self.own: tuple[Exception, int] | None = None
        self.decision = Decision(0.0)
        self.around = () if first.outer is ROOT else retries_around(first)
        self.cap = largest_cap(retry.attempts, self.around) if self.around else None
        self.controller, self.state = _primed(self, first)
        first.run = self  # used when the deadline ends the call from outside

    def failed(self, attempt: CallFrame, error: Exception, failure: Failure) -> bool:
        """Handle an attempt that raised `error`; return whether it is retried.

        If not, `ending` is to be raised.
        """
        self.state.set_exception((type(error), error, error.__traceback__))
        try:
            stop = self._step(attempt, failure)
        except Exception as wrong:  # from a user's condition, schedule or limit: the call's own error is still the one to be raised
            if not add_note(error, "not repeated: the policy raised", wrong):
                raise
            self.ending = error
            return False
        if not (attempt.is_rejected and issubclass(type(error), RejectedError)):
            self.own = error, len(self.history)
        elif stop is not None and self.own is not None:
            # The caller gets the error of the last attempt that ran; the layer's rejection only ended the retries.
            stop = "rejected"
        if stop is None:
            return True
        self.ending = error
        if stop == "rejected" and self.own is not None:
            self.ending, known = self.own
            del self.history[known:]
        self._report_inside()
        self.first.is_rejected = attempt.is_rejected and self.own is None
        self._gave_up(self.ending, stop, attempt)
        return False

    def answered(
        self, attempt: CallFrame, result: object, failure: Failure, *, is_asked_for: bool
    ) -> bool:
        """Handle an attempt whose result stands for a failure; return whether it is retried.

        If not, the result is returned unchanged, and the failure has the reason.
        """
        self.state.set_result(result)
        stop = self._step(attempt, failure, is_asked_for=is_asked_for)
        if stop is None:
            return True
        inside = attempt.inside
        if (
            self.calls > 1 or inside is None or not inside.most
        ):  # else a policy inside has reported it
            self._tell(stop)
        self._report_inside()
        self.history[-1] = self._ended(stop)  # for the Fallback and for `capture`, as on an error
        return False

    def next_attempt(self, attempt: CallFrame) -> CallFrame:
        """Return the attempt after this one."""
        world = attempt.world
        following = new_frame(
            attempt.plan, self.first, world, world.monotonic(), attempt.deadline_at
        )
        following.number = attempt.number + 1
        following.failure = self.history[-1]
        following.first = self.first
        self.current = following
        return following

    def recovered(self, attempt: CallFrame) -> None:
        """Report that the last attempt succeeded."""
        for outer in self.around:
            inside = inside_of(outer)
            inside.most = max(inside.most, self.calls)
        if attempt.failure is not None:
            attempt.failure = changed(attempt.failure, cause=None)
        self.calls += 1
        report(self.first, self.calls)
        if HUB.listening or _LOG.isEnabledFor(logging.INFO):
            emit(events.RetryRecovered(name=self.plan.name, attempt=attempt.number))

    # ---- one step ---------------------------------------------------------------------------------------------

    def _step(
        self, attempt: CallFrame, failure: Failure, *, is_asked_for: bool = False
    ) -> Stopped | None:
        """Decide what follows the attempt that has just ended.

        Returns why the call stops, None if it is retried.
        """
        world, retry = attempt.world, self.retry
        self.current = None
        if attempt.failure is not None:  # break the cycle between the attempt and its error
            attempt.failure = changed(attempt.failure, cause=None)
        if not attempt.is_rejected:
            self.calls += 1
        report(self.first, self.calls)
        if failure.retry_after is None and (moment := number_in(failure, "retry_at")) is not None:
            # A Retry-After with a date, counted by our own clock.
            failure = changed(failure, retry_after=max(0.0, moment - world.wall()))
        if failure.retry_after is not None:
            self.plan.pause.heard(world, failure, retry)
        matcher = self.plan.matcher
        if not is_asked_for and matcher.theirs:
            is_asked_for = any(ask(what, self.state) for what in matcher.theirs)
        found = matcher.match(failure, is_asked_for=is_asked_for)
        self.is_repeatable = found.is_repeatable
        self.rule, counted_by = found.rule, rule_key(counter(found.rule))
        calls = 1 if attempt.inside is None else max(1, attempt.inside.most)
        self.counts[counted_by] = self.counts.get(counted_by, 0) + calls
        self.requests += attempt.requests
        self.permission = permission_for(self.plan, attempt, failure)
        self.decision = self._decided(attempt, failure, found)
        self.state.start_time = self.first.started
        self.state.outcome_timestamp = world.monotonic()
        if self.controller.iter(self.state) is _STOP:
            return self.decision.stop or "attempts"
        self.state.prepare_for_next_attempt()
        key = rule_key(
            self.rule if self.rule is not None and self.rule.backoff is not None else None
        )
        self.drawn[key] = self.drawn.get(key, (1, None))[0], self.decision.wait
        self.before = self.rule.before if self.rule is not None else None
        # The levels are those of the events: without a listener no event is created.
        if self.decision.wait > QUIET_WAIT or HUB.listening or _LOG.isEnabledFor(logging.INFO):
            further = self.decision.further
            scheduled = events.RetryScheduled(
                name=self.plan.name,
                attempt=attempt.number + 1,
                wait=self.decision.wait,
                failure=failure,
                permission=self.permission,
                attempts=None if further is None else attempt.number + further,
            )
            emit(scheduled)
        return None

    def _decided(self, attempt: CallFrame, failure: Failure, found: Match) -> Decision:
        recurred = sum(earlier.code == failure.code for earlier in self.history)
        self.history.append(failure)
        decision = decide(
            self.plan.matcher,
            failure,
            found,
            may_repeat=bool(self.permission),
            counts=self.counts,
            cap=self.cap,
            elsewhere=self._failed_elsewhere(),
            recurred=recurred,
            drawn=self._drawn(attempt, failure) if found.is_repeatable else 0.0,
            remaining=attempt.remaining,
            world=attempt.world,
        )
        if decision.stop is None:
            if self._recurses():
                return Decision(0.0, "attempts")
            if attempt.is_last:
                return Decision(0.0, "not_retryable")
            if self._comes_too_late(attempt, decision.wait):
                return Decision(0.0, "not_idempotent")
            next_at = attempt.world.monotonic() + decision.wait
            if any(circuit.rejects(next_at) for circuit in self.plan.circuits):
                return Decision(0.0, "rejected")  # the retry would be rejected
        return decision

    def _drawn(self, attempt: CallFrame, failure: Failure) -> float:
        """Draw the wait from the schedule.

        A Backoff, a tenacity wait, or a function of the attempt that has just failed.

        Each schedule has its own count: that of a rule counts the failures of this rule alone.
        """
        rule = self.rule if self.rule is not None and self.rule.backoff is not None else None
        backoff: Any = self.retry.backoff if rule is None else rule.backoff
        count, previous = self.drawn.get(rule_key(rule), (0, None))
        if isinstance(backoff, Backoff):
            wait = backoff.next(count + 1, previous, attempt.world.rng)
        elif is_tenacity(backoff, "wait_base"):
            wait = as_wait(backoff(self.state))
        else:
            wait = as_wait(ask_schedule(backoff, attempt, failure))
        self.drawn[rule_key(rule)] = count + 1, wait
        return wait

    def _failed_elsewhere(self) -> int:
        # calls of this operation that finally failed in the same attempt of the outermost policy
        outermost = self.around[-1].inside if self.around else None
        return 0 if outermost is None else outermost.failed.get(id(self.plan), 0)

    def _report_inside(self) -> None:
        """Report to the outer policies how many calls failed here."""
        key = id(self.plan)
        for outer in self.around:
            inside = inside_of(outer)
            inside.failed[key] = failed = inside.failed.get(key, 0) + sum(self.counts.values())
            inside.most = max(inside.most, failed)

    def _recurses(self) -> bool:
        """Return whether the rule's own `before` makes this call: it must not refresh itself."""
        around: CallFrame | None = self.first.outer
        while around is not None:
            if around.before_of is not None and around.before_of is self.rule:
                return True
            around = around.outer
        return False

    def _comes_too_late(self, attempt: CallFrame, wait: float) -> bool:
        """Return whether the permission to retry expires before the next attempt starts.

        Only if an earlier attempt may have run.
        """
        until = attempt.may_repeat_until
        if until is None or attempt.world.monotonic() + wait <= until:
            return False
        return any(may_have_started(self.plan, failure) for failure in self.history)

    # ---- hooks of tenacity ------------------------------------------------------------------------------------

    def stops(self, state: tenacity.RetryCallState) -> bool:
        """Answer tenacity's `stop=`."""
        if self.decision.stop is not None:
            return True
        attempts: Any = self.retry.attempts
        if not isinstance(attempts, int) and counter(self.rule) is None and attempts(state):
            self.decision = Decision(0.0, "attempts")
            return True
        budget = self.plan.budget
        if budget is not None and not self._may_spend(budget):
            self.decision = Decision(0.0, "budget")
            rejected(self.plan.name, "budget", budget.key, self.history[-1])
            return True
        return False

    def _may_spend(self, budget: BudgetState) -> bool:
        if is_limited(self.history[-1]):
            return True  # a rate limiter answered: the service is up, and all calls share one pause
        token = (
            self.first.token
        )  # asked of a shared budget beforehand, because the answer takes time
        if token is None:
            return budget.spend(self.first.world.monotonic())
        self.first.token = None
        return bool(token.is_granted)

    # ---- the end ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the call.

        Breaks the reference cycle of controller, state and errors, so that they are freed at once.
        """
        self.first.run = None
        self.state.outcome = None
        self.history = []
        self.own = self.ending = self.before = self.current = None
        steps = getattr(self.controller, "iter_state", None)  # tenacity before 8.4 has none
        if steps is not None:
            steps.reset()  # its functions hold the controller
        del self.controller, self.state

    def cut_off(self, error: BaseException, now: float) -> None:
        """Record that the deadline ended the call with `error`, in an attempt or before one."""
        if self.current is not None and self.current.is_called:
            self.calls += 1
        report(self.first, self.calls)
        failure = failure_in(self.first, error)
        if failure is None:
            return
        self.history.append(failure)
        self._gave_up(error, "deadline", self.first, now)

    def _gave_up(
        self, error: BaseException, stop: Stopped, attempt: CallFrame, now: float | None = None
    ) -> None:
        """Attach to the error the attempts before it and the reason why no further one was made."""
        seconds = (attempt.world.monotonic() if now is None else now) - self.first.started
        ran = self.history[-1].executed
        inner = record_inside(attempt, error)
        if inner is not None and inner.stopped and self.calls == 1:
            # A policy inside has retried the call; its record says more than "1 call" would.
            keep(self.first, attempt, error, inner._replace(executed=ran, requests=self.requests))
            return
        before = record_of(error)
        note = self._note(stop, seconds, error, attempt)
        if before is not None and before.note:
            take_back(error, before.note)
        record = Record(
            history=tuple(self.history[:-1]),
            stopped=stop,
            calls=self.calls,
            seconds=seconds,
            note=note,
            executed=ran,
            crossed=0 if inner is None else inner.crossed,
            requests=self.requests,
        )
        if keep(self.first, attempt, error, record) and note:
            with suppress(
                Exception
            ):  # a frozen exception cannot take a note; its record says the same
                error.add_note(note)
        self._tell(stop)
        if note and stop == "not_retryable" and self.calls == 1:
            log_unrepeated(self.plan.logged, self.plan.name, error, note)

    def _ended(self, stop: Stopped) -> Failure:
        return ended(self.history[-1], Record(history=tuple(self.history[:-1]), stopped=stop))

    def _tell(self, stop: Stopped) -> None:
        seconds = self.first.world.monotonic() - self.first.started
        emit(events.GaveUp(name=self.plan.name, failure=self._ended(stop), seconds=seconds))

    def _note(self, stop: Stopped, seconds: float, error: BaseException, attempt: CallFrame) -> str:
        if stop == "not_idempotent" and self.calls == 1:
            sent = (
                f" ({self.requests} requests were sent inside of it)" if self.requests > 1 else ""
            )
            look = "find out before you call it again"
            return f"not repeated: it may have run{sent}; {look}. If twice does no harm: {self.plan.allowed_by}"
        if stop == "not_retryable" and self.calls == 1:
            if not self.permission or self.plan.matcher.most == 1:
                return ""  # nothing could have been repeated anyway
            if self.is_repeatable:  # but not with what is left of its arguments
                return f"not repeated: {attempt.why_last}" if attempt.why_last else ""
            return why_unrepeated(self.history[-1], error, self.retry)
        why = WHY_STOPPED[stop]
        retry_after = self.history[-1].retry_after
        if stop == "retry_after" and retry_after is not None:
            why = f"the server asks for {retry_after:g} s, more than max_retry_after={self.retry.max_retry_after:g}"
        calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
        return f"gave up after {calls} in {seconds:.1f} s: {why}"


def _primed(
    run: Retrying, first: CallFrame
) -> tuple[tenacity.BaseRetrying, tenacity.RetryCallState]:
    import tenacity  # here: the success path never pays for it

    controller = tenacity.Retrying(
        sleep=first.world.sleep,
        stop=run.stops,
        wait=lambda _: run.decision.wait,
        retry=lambda _: True,
        retry_error_callback=lambda _: _STOP,
    )
    controller.begin()
    # No function and no arguments: they may hold secrets, and tenacity would show them.
    return controller, tenacity.RetryCallState(controller, None, (), {})
