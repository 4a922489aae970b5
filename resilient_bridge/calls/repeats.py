"""What follows an attempt that has ended: its layers are left, and the next step is decided.

An attempt that failed belongs to a story, `Repeats`, which exists from the first failure of a call
on: nothing of it is made for a call that succeeds. In this order: the layers are left, the failure
is read and proven, the policy is asked whether a repeat helps, is permitted, is within its numbers
and its time (`retry.decision`, pure), and the budget last, because asking spends from it.

Rule: nothing here waits. What takes time is in the loops of `engine`, which ask here what to do.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from .. import events
from ..failure import (
    REJECTED,
    WHY_STOPPED,
    Executed,
    Failure,
    Record,
    RejectedError,
    changed,
    ended,
    is_limited,
    is_refusal,
    record_of,
    wait_asked,
)
from ..failure.record import take_back
from ..failure.what import add_note, ask, is_tenacity
from ..telemetry import emit
from ..telemetry.event import QUIET_WAIT
from ..telemetry.hub import HUB
from ..values.backoff import Backoff, as_wait
from ..world import REAL
from .conditions import wants_another
from .decision import (
    Decision,
    Match,
    counter,
    decide,
    failure_in,
    further_calls,
    may_have_started,
    permission_for,
    proven,
    record_inside,
)
from .evidence import keep, keep_answer, leave_function
from .finished import block_finished, call_ended, call_returned, rejected
from .frame import ROOT, CallFrame, ask_schedule, inside_of, largest_cap, report, retries_around
from .retry.unrepeated import log_unrepeated, why_unrepeated


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import tenacity

    from ..failure import Stopped
    from ..values.rule import Rule
    from .adaptive.guard import AdaptiveGuard
    from .guards import Guard, Wait
    from .plan import Operation, Plan
    from .retry.value import Retry


_LOG: Final = logging.getLogger("resilient_bridge")
_STOP: Final = object()
_UNDECIDED: Final = Decision(0.0)


# ---- one attempt has ended ----------------------------------------------------------------------


def after(
    operation: Operation,
    first: CallFrame,
    frame: CallFrame,
    error: BaseException | None,
    result: object,
) -> tuple[Repeats | None, BaseException | None]:
    """Leave the layers of an attempt that ended in `error`, or in `result`; decide what follows.

    Return the story of the call, which says how to repeat it; or None, and the error that the call
    ends in (None: the result stays).
    """
    plan = operation.plan
    if error is not None:
        if plan.exits:
            error = exit_layers(plan.exits, frame, error)
        failure, is_asked_for = failure_to_decide(plan, frame, error), False
    else:
        failure, is_asked_for = exit_answered(plan, first, frame, result)
        if failure is None:
            return None, None
    return decided(operation, first, frame, error, result, failure, is_asked_for)


def exit_layers(
    guards: Iterable[Guard], frame: CallFrame, error: BaseException | None
) -> BaseException | None:
    """Leave these layers, all of them even if a callback of one raises; return the error outside."""
    for guard in guards:
        try:
            error = guard.leave(frame, error)
        except Exception as mistake:  # noqa: BLE001 -- the call ends in it, and the other layers are left all the same
            error = mistake
    return error


def failure_to_decide(plan: Plan, frame: CallFrame, error: BaseException | None) -> Failure | None:
    """Return the failure that a Retry has to decide about, with its proof if one holds."""
    failure = None
    if (plan.retry is not None or plan.limit is not None) and isinstance(error, Exception):
        failure = failure_in(frame, error)
        if failure is not None and plan.retry is None and not is_refusal(failure):
            failure = None  # a limit alone repeats nothing else
        if failure is not None:
            failure = proven(plan, frame, failure, error)
    frame.seen = None
    return failure


def exit_answered(
    plan: Plan, first: CallFrame, frame: CallFrame, result: object
) -> tuple[Failure | None, bool]:
    """Leave the layers of an attempt that has returned.

    Return the failure that the value represents, and whether the policy asks for another attempt.
    """
    first.answered = None
    try:
        plain, read = plan.reading
        failure, is_asked_for = None if type(result) in plain else read(result), False
        if plan.asks_result and wants_another(plan.matcher, frame, result):
            failure, is_asked_for = failure or Failure.of("SYS_RESULT_REJECTED"), True
    except BaseException:
        # an error in `on_result` says nothing about the server
        exit_layers(plan.exits, frame, None)
        raise
    for guard in plan.exits:
        if failure is not None:
            guard.answered(frame, failure)
        guard.leave(frame, None)
    if failure is not None:
        return proven(plan, frame, failure, None), is_asked_for
    if first.run is not None:
        first.run.recovered(frame)
    return None, False


def decided(  # noqa: PLR0917 -- all that is known of the attempt
    operation: Operation,
    first: CallFrame,
    frame: CallFrame,
    error: BaseException | None,
    result: object,
    failure: Failure | None,
    is_asked_for: bool,
) -> tuple[Repeats | None, BaseException | None]:
    """Decide what follows an attempt whose layers have been left; see `after`."""
    plan = operation.plan
    retry = plan.retry
    if retry is None and plan.limit is not None and failure is not None and is_refusal(failure):
        retry = plan.matcher.retry  # one attempt, which a refusal does not use up
    repeats: Repeats | None = first.run
    if repeats is None:
        if frame.is_rejected:
            report(first, 0)
        if failure is None or retry is None:
            if error is None:
                keep_answer(first, failure, result)
            return None, error
        if frame.is_rejected and not plan.matcher.match(failure).is_repeatable:
            return None, error  # nothing was called and nothing will be: there is no story to tell
        repeats = (_ByTenacity if plan.matcher.of_tenacity else Repeats)(operation, retry, first)
        first.run = repeats  # read when the deadline ends the call from outside
    elif failure is None:
        return None, error
    if error is not None:
        return repeats.raised(frame, error, failure)
    if repeats.returned(frame, result, failure, is_asked_for=is_asked_for):
        return repeats, None
    keep_answer(first, repeats.history[-1], result)
    return None, None


# ---- the call is over ---------------------------------------------------------------------------


def exit_around(plan: Plan, first: CallFrame, error: BaseException) -> BaseException:
    """Leave the layers between the Retry and the Fallback of a call that failed for good."""
    return _beyond(first, error, exit_layers(plan.around, first, error))


def finished_with(
    operation: Operation, first: CallFrame, last: CallFrame, error: BaseException
) -> BaseException:
    """Leave the outermost layers of a call that failed for good; return the error to be raised."""
    plan = operation.plan
    if plan.before:
        error = _beyond(first, error, exit_layers(plan.before, first, error))
    leave_function(plan, first, last, error)
    call_ended(operation, first, error)
    return error


def returned(operation: Operation, first: CallFrame) -> None:
    """Leave the layers around the Retry of a call that succeeded."""
    if HUB.listening:
        call_returned(operation, first)
    plan = operation.plan
    if plan.around:
        exit_layers(plan.around, first, None)
    if plan.before:
        exit_layers(plan.before, first, None)


def closed(first: CallFrame) -> None:
    """End the story of a call, and its scope if it is traced."""
    if first.run is not None:
        first.run.close()
    if first.scope is not None:
        first.scope.leave()
        first.scope.close()


def let_go(operation: Operation, first: CallFrame, frame: CallFrame) -> None:
    """Leave the layers of a call that ended an iterator: neither a success nor a failure."""
    plan = operation.plan
    exit_layers(reversed(plan.guards), frame, GeneratorExit())
    exit_layers(plan.around, first, None)
    exit_layers(plan.before, first, None)
    block_finished(operation, first, None)


def _beyond(first: CallFrame, before: BaseException, after: BaseException | None) -> BaseException:
    """Return the error outside of some layers; if a deadline replaced it, the repeats end."""
    if after is None or after is before:
        return before
    if first.run is not None:
        first.run.cut_off(after, first.world.monotonic())
    return after


# ---- the story of a call that has failed at least once ------------------------------------------


class Repeats:
    """What a call has been through since its first failure, and what is to be done next.

    Next: the wait of `decision`, and before it the `before` of the rule, if it has one.
    """

    __slots__ = (
        "around",
        "before",
        "calls",
        "cap",
        "counts",
        "current",
        "decision",
        "drawn",
        "first",
        "further",
        "history",
        "is_repeatable",
        "operation",
        "own",
        "permission",
        "requests",
        "retry",
        "rule",
        "was_refused",
    )

    def __init__(self, operation: Operation, retry: Retry, first: CallFrame) -> None:
        self.operation = operation
        self.retry = retry
        self.first = first
        self.calls = 0  # of the function; an attempt that a layer refused is none
        self.further = 0  # calls that a Hedge made beside those
        self.requests = 0
        self.permission = ""
        self.is_repeatable = False  # whether the policy names the last failure
        self.counts: dict[int | None, int] = {}  # by `Match.counted_by`
        self.history: list[Failure] = []
        # By schedule (None: the general one): how often a wait was drawn from it, and the last one.
        self.drawn: dict[int | None, tuple[int, float | None]] = {}
        self.current: CallFrame | None = None  # the attempt under way, from the second on
        self.rule: Rule | None = None
        self.was_refused = False  # the last failure is a refusal, which nothing counted
        self.before: Callable[[], Any] | None = None
        # The last error of an attempt that was made, and how many failures there were by then.
        self.own: tuple[BaseException, int] | None = None
        self.decision = _UNDECIDED
        self.around: tuple[CallFrame, ...] = () if first.outer is ROOT else retries_around(first)
        self.cap = largest_cap(retry.attempts, self.around) if self.around else None

    def raised(
        self, frame: CallFrame, error: BaseException, failure: Failure
    ) -> tuple[Repeats | None, BaseException | None]:
        """Handle an attempt that raised; return this story if it is repeated, else the error to raise."""
        try:
            stop = self._step(frame, failure, error, None)
        except Exception as wrong:  # from a condition, schedule or limit of the user's: the call's own error is still the one to be raised
            if not add_note(error, "not repeated: the policy raised", wrong):
                raise
            return None, error
        if not (frame.is_rejected and issubclass(type(error), RejectedError)):
            self.own = error, len(self.history)
        elif stop is not None and self.own is not None:
            # The caller gets the error of the last attempt that ran; the rejection only ended the repeats.
            stop = "rejected"
        if stop is None:
            return self, None
        if stop == "rejected" and self.own is not None:
            error, known = self.own
            del self.history[known:]
        self._report_inside()
        self.first.is_rejected = frame.is_rejected and self.own is None
        self._gave_up(error, stop, frame)
        return None, error

    def returned(
        self, frame: CallFrame, result: object, failure: Failure, *, is_asked_for: bool
    ) -> bool:
        """Handle an attempt whose result stands for a failure; return whether it is repeated.

        If not, the result is returned unchanged, and the failure has the reason.
        """
        stop = self._step(frame, failure, None, result, is_asked_for=is_asked_for)
        if stop is None:
            return True
        inside = frame.inside
        if self.calls > 1 or inside is None or not inside.most:  # else a policy inside reported it
            self._tell(stop)
        self._report_inside()
        self.history[-1] = self._ended(stop)  # for the Fallback and for `capture`, as on an error
        return False

    def next_attempt(self, frame: CallFrame) -> CallFrame:
        """Return the attempt after this one."""
        following = self.current = CallFrame()
        following.operation, following.outer, following.first = (
            self.operation,
            self.first,
            self.first,
        )
        if frame.world is not REAL:
            following.world = frame.world
        following.started = frame.world.monotonic()
        following.deadline_at, following.permit = frame.deadline_at, None
        if frame.heirs is not None:
            following.inherit(self.first)
        following.number, following.failure = frame.number + 1, self.history[-1]
        return following

    def recovered(self, frame: CallFrame) -> None:
        """Report that the last attempt succeeded."""
        for outer in self.around:
            inside = inside_of(outer)
            inside.most = max(inside.most, self.calls)
        if frame.failure is not None:
            frame.failure = changed(frame.failure, cause=None)
        self.calls += 1
        if self.first.outer is not ROOT:
            report(self.first, self.calls)
        if HUB.listening or _LOG.isEnabledFor(logging.INFO):
            emit(events.RetryRecovered(name=self.operation.name, attempt=frame.number))

    # ---- one step -------------------------------------------------------------------------------

    def _step(
        self,
        frame: CallFrame,
        failure: Failure,
        error: BaseException | None,
        result: object,
        *,
        is_asked_for: bool = False,
    ) -> Stopped | None:
        """Decide what follows the attempt that has just ended in `error`, or in `result`.

        Return why the call stops, None if it is repeated.
        """
        operation, world = self.operation, frame.world
        plan = operation.plan
        self.current = None
        if frame.failure is not None:  # break the cycle between the attempt and its error
            frame.failure = changed(frame.failure, cause=None)
        if not frame.is_rejected:
            self.calls += 1
            self.further += frame.further
        if self.first.outer is not ROOT:
            report(self.first, self.calls)
        if failure.retry_after is None and (asked := wait_asked(failure, world.wall)) is not None:
            failure = changed(failure, retry_after=asked)
        if plan.matcher.of_tenacity:
            is_asked_for = self._ask_tenacity(error, result, is_asked_for=is_asked_for)
        found = plan.matcher.match(failure, is_asked_for=is_asked_for)
        self.is_repeatable, rule, counted_by = found
        self.rule = rule
        if plan.limit is not None and rule is None and is_refusal(failure):
            return self._refused(plan.limit, frame, failure)
        if failure.retry_after is not None:
            operation.pause.heard(world, failure, self.retry)
        inside = frame.inside
        self.was_refused = False
        self.counts[counted_by] = self.counts.get(counted_by, 0) + (
            1 if inside is None else max(1, inside.most)
        )
        self.requests += frame.requests
        self.permission = permission_for(plan, frame, failure)
        self.decision = self._decided(frame, failure, found)
        if (stop := self._stopped()) is not None:
            return stop
        schedule = None if rule is None or rule.backoff is None else id(rule)
        self.drawn[schedule] = self.drawn.get(schedule, (1, None))[0], self.decision.wait
        self.before = None if rule is None else rule.before
        wait, _, further = self.decision
        self._tell_scheduled(frame, wait, None if further is None else frame.number + further)
        return None

    def _tell_scheduled(self, frame: CallFrame, wait: float, attempts: int | None) -> None:
        """Report the next attempt, `wait` seconds from now; of at most so many."""
        # The levels are those of the log: without a listener no event is created.
        if wait > QUIET_WAIT or HUB.listening or _LOG.isEnabledFor(logging.INFO):
            scheduled = events.RetryScheduled(
                name=self.operation.name,
                attempt=frame.number + 1,
                wait=wait,
                failure=self.history[-1],
                permission=self.permission,
                attempts=attempts,
            )
            emit(scheduled)

    def _refused(self, limit: AdaptiveGuard, frame: CallFrame, failure: Failure) -> Stopped | None:
        """Decide about a call that the server refused: it costs time, and nothing that is counted.

        It waits at the front of its adaptive limit, if a repeat is permitted; return why it does
        not, None if it does. Of refusals in a row the last one is kept.
        """
        if self.was_refused:
            self.history.pop()
        self.was_refused = True
        self.history.append(failure)
        self.requests += frame.requests
        self.before = None
        self.permission = permission_for(self.operation.plan, frame, failure)
        stop: Stopped | None = None
        if frame.is_last or not failure.retryable:
            stop = "not_retryable"
        elif not self.permission:
            stop = "not_idempotent"
        else:
            stop = limit.stops(self.operation, frame, failure)
        self.decision = Decision(0.0, stop)
        if stop is None:
            self._tell_scheduled(frame, limit.wait_of(frame), None)
        return stop

    def _ask_tenacity(
        self,
        error: BaseException | None,  # noqa: ARG002 -- of a Retry with its objects
        result: object,  # noqa: ARG002
        *,
        is_asked_for: bool,
    ) -> bool:
        """Return whether tenacity's conditions, or something else, ask for another attempt."""
        return is_asked_for

    def _decided(self, frame: CallFrame, failure: Failure, found: Match) -> Decision:
        operation = self.operation
        plan = operation.plan
        recurred = (
            sum([earlier.code == failure.code for earlier in self.history]) if self.history else 0
        )
        self.history.append(failure)
        decision = decide(
            plan.matcher,
            failure,
            found,
            may_repeat=bool(self.permission),
            counts=self.counts,
            cap=self.cap,
            elsewhere=self._failed_elsewhere() if self.around else 0,
            recurred=recurred,
            drawn=self._drawn(frame, failure) if found.is_repeatable else 0.0,
            remaining=None if frame.deadline_at is None else frame.remaining,
            world=frame.world,
        )
        if decision.stop is None:
            if self.rule is not None and self._recurses():
                return Decision(0.0, "attempts")
            if frame.is_last:
                return Decision(0.0, "not_retryable")
            next_at = frame.world.monotonic() + decision.wait
            if frame.may_repeat_until is not None and self._comes_too_late(frame, next_at):
                return Decision(0.0, "not_idempotent")
            if plan.foresees:
                circuit: Any = operation.circuit
                if circuit.rejects(next_at):
                    return Decision(0.0, "rejected")  # the repeat would be rejected
        return decision

    def _drawn(self, frame: CallFrame, failure: Failure) -> float:
        """Draw the wait from the schedule of the rule or of the Retry.

        Each schedule has its own count: that of a rule counts the failures of this rule alone.
        """
        rule = self.rule
        schedule = None if rule is None or rule.backoff is None else id(rule)
        backoff: Any = self.retry.backoff if schedule is None or rule is None else rule.backoff
        count, previous = self.drawn.get(schedule, (0, None))
        if isinstance(backoff, Backoff):
            wait = backoff.next(count + 1, previous, frame.world.rng)
        else:
            wait = self._asked_wait(backoff, frame, failure)
        self.drawn[schedule] = count + 1, wait
        return wait

    def _asked_wait(self, backoff: Any, frame: CallFrame, failure: Failure) -> float:
        """Return what a function of the attempt that has just failed says."""
        wait: float = as_wait(ask_schedule(backoff, frame, failure))
        return wait

    def _failed_elsewhere(self) -> int:
        # calls of this operation that finally failed in the same attempt of the outermost policy
        outermost = self.around[-1].inside
        return 0 if outermost is None else outermost.failed.get(id(self.operation), 0)

    def _recurses(self) -> bool:
        """Return whether the rule's own `before` makes this call: it must not refresh itself."""
        around = self.first.outer
        while around is not None:
            if around.before_of is self.rule:
                return True
            around = around.outer
        return False

    def _comes_too_late(self, frame: CallFrame, next_at: float) -> bool:
        """Return whether the permission to repeat expires before the next attempt starts.

        Only if an earlier attempt may have run.
        """
        until = frame.may_repeat_until
        if until is None or next_at <= until:
            return False
        return any(may_have_started(self.operation.plan, failure) for failure in self.history)

    def _stopped(self) -> Stopped | None:
        """Return why the call stops, after the budget was asked for a repeat; None if it goes on."""
        budget, failure = self.operation.budget, self.history[-1]
        # A rate limiter's answer is free: the service is up, and all calls share one pause.
        if self.decision.stop is None and budget is not None and not is_limited(failure):
            # Of a shared budget the answer was asked for beforehand, because it takes time.
            token, self.first.token = self.first.token, None
            now = self.first.world.monotonic()
            if not (budget.spend(now) if token is None else token.is_granted):
                self.decision = Decision(0.0, "budget")
                rejected(self.operation.name, "budget", budget.key, failure)
        return self.decision.stop

    # ---- the end --------------------------------------------------------------------------------

    def cut_off(self, error: BaseException, now: float) -> None:
        """Record that the deadline ended the call with `error`, in an attempt or before one."""
        if self.current is not None and self.current.is_called:
            self.calls += 1
        report(self.first, self.calls)
        failure = failure_in(self.first, error)
        if failure is not None:
            self.history.append(failure)
            self._gave_up(error, "deadline", self.first, now)

    def close(self) -> None:
        """End the story: a call that is over holds nothing of it."""
        self.first.run = None

    def _report_inside(self) -> None:
        """Report to the outer policies how many calls failed here."""
        key = id(self.operation)
        for outer in self.around:
            inside = inside_of(outer)
            inside.failed[key] = failed = inside.failed.get(key, 0) + sum(self.counts.values())
            inside.most = max(inside.most, failed)

    def _gave_up(
        self, error: BaseException, stop: Stopped, frame: CallFrame, now: float | None = None
    ) -> None:
        """Attach to the error the attempts before it and the reason why no further one was made."""
        seconds = (frame.world.monotonic() if now is None else now) - self.first.started
        ran = self._executed()
        inner = record_inside(frame, error)
        if inner is not None and inner.stopped and self.calls == 1:
            # A policy inside has repeated the call; its record says more than "1 call" would.
            keep(self.first, frame, error, inner._replace(executed=ran, requests=self.requests))
            return
        before = record_of(error)
        note = self._note(stop, seconds, error, frame)
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
        if keep(self.first, frame, error, record) and note:
            with suppress(Exception):  # a frozen exception takes no note; its record says the same
                error.add_note(note)
        self._tell(stop)
        if note and stop == "not_retryable" and self.calls == 1:
            log_unrepeated(self.operation.states.logged, self.operation.name, error, note)

    def _executed(self) -> Executed | None:
        """Return whether the call ran: what refused its last attempt says nothing of those before."""
        last = self.history[-1].executed
        if last is Executed.NO and self.calls and self.history[-1].code in REJECTED:
            before = {failure.executed for failure in self.history[:-1]}
            return last if before <= {Executed.NO} else Executed.MAYBE
        return last

    def _ended(self, stop: Stopped) -> Failure:
        return ended(self.history[-1], Record(history=tuple(self.history[:-1]), stopped=stop))

    def _tell(self, stop: Stopped) -> None:
        seconds = self.first.world.monotonic() - self.first.started
        emit(events.GaveUp(name=self.operation.name, failure=self._ended(stop), seconds=seconds))

    def _note(self, stop: Stopped, seconds: float, error: BaseException, frame: CallFrame) -> str:
        if stop == "not_idempotent" and self.calls == 1:
            sent = (
                f" ({self.requests} requests were sent inside of it)" if self.requests > 1 else ""
            )
            look = "find out before you call it again"
            return f"not repeated: it may have run{sent}; {look}. If twice does no harm: {self.operation.plan.allowed_by}"
        if stop == "not_retryable" and self.calls == 1:
            if not self.permission or self.operation.plan.matcher.most == 1:
                return ""  # nothing could have been repeated anyway
            if self.is_repeatable:  # but not with what is left of its arguments
                return f"not repeated: {frame.why_last}" if frame.why_last else ""
            return why_unrepeated(self.history[-1], error, self.retry)
        why = WHY_STOPPED[stop]
        retry_after = self.history[-1].retry_after
        if stop == "retry_after" and retry_after is not None:
            most = self.retry.max_retry_after
            why = f"the server asks for {retry_after:g} s, more than max_retry_after={most:g}"
        before, made = "", "1 call" if self.calls == 1 else f"{self.calls} calls"
        if not self.calls:  # every attempt was refused on its way to the function
            before, attempts = " before the first call,", len(self.history)
            made = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        if self.further:
            made += f" and {self.further} beside {'it' if self.calls == 1 else 'them'}"
        return f"gave up{before} after {made} in {seconds:.1f} s: {why}"


class _ByTenacity(Repeats):
    """The story of a call whose Retry contains objects of tenacity: tenacity runs it.

    Its hooks answer what was decided here; its conditions, stops and waits get its own state.
    """

    __slots__ = ("controller", "state")

    def __init__(self, operation: Operation, retry: Retry, first: CallFrame) -> None:
        import tenacity  # here: its objects are in the Retry, so it is loaded

        super().__init__(operation, retry, first)
        self.controller: Any = tenacity.Retrying(
            sleep=first.world.sleep,
            stop=self._stops,
            wait=lambda _: self.decision.wait,
            retry=lambda _: True,
            retry_error_callback=lambda _: _STOP,
        )
        self.controller.begin()
        # No function and no arguments: they may hold secrets, and tenacity would show them.
        self.state = tenacity.RetryCallState(self.controller, None, (), {})

    def _ask_tenacity(
        self, error: BaseException | None, result: object, *, is_asked_for: bool
    ) -> bool:
        if error is None:
            self.state.set_result(result)
        else:
            self.state.set_exception((type(error), error, error.__traceback__))
        return is_asked_for or any(
            ask(what, self.state) for what in self.operation.plan.matcher.theirs
        )

    def _asked_wait(self, backoff: Any, frame: CallFrame, failure: Failure) -> float:
        if is_tenacity(backoff, "wait_base"):
            wait: float = as_wait(backoff(self.state))
            return wait
        return super()._asked_wait(backoff, frame, failure)

    def _stopped(self) -> Stopped | None:
        self.state.start_time = self.first.started
        self.state.outcome_timestamp = self.first.world.monotonic()
        if self.controller.iter(self.state) is _STOP:
            return self.decision.stop or "attempts"
        self.state.prepare_for_next_attempt()
        return None

    def _stops(self, state: tenacity.RetryCallState) -> bool:
        """Answer tenacity's `stop=`."""
        attempts: Any = self.retry.attempts
        if (
            self.decision.stop is None
            and not isinstance(attempts, int)
            and counter(self.rule) is None
            and attempts(state)
        ):
            self.decision = Decision(0.0, "attempts")
        return super()._stopped() is not None

    def close(self) -> None:
        """End the story, and break the cycles of tenacity's controller."""
        super().close()
        self.state.outcome = None
        steps = getattr(self.controller, "iter_state", None)  # tenacity before 8.4 has none
        if steps is not None:
            steps.reset()  # its functions hold the controller
        del self.controller, self.state


# ---- a budget that several processes share ------------------------------------------------------


def asked_of_all(
    operation: Operation,
    first: CallFrame,
    frame: CallFrame,
    failure: Failure | None,
    *,
    is_asked_for: bool,
) -> Wait | None:
    """Ask a shared budget for a repeat after a failed attempt; return the wait for its answer.

    It is asked before the decision, because only the loop can wait, and only if a repeat may
    follow: a failure that is never repeated costs no question. What the decision does not use is
    given back by `settle_up`.
    """
    plan, tokens, repeats = operation.plan, operation.tokens, first.run
    retry = plan.retry
    if tokens is None or retry is None or failure is None or frame.is_last or is_limited(failure):
        return None
    found = plan.matcher.match(failure, is_asked_for=is_asked_for or bool(plan.matcher.theirs))
    if not found.is_repeatable or not permission_for(plan, frame, failure):
        return None
    if plan.limit is not None and found.rule is None and is_refusal(failure):
        return None
    counts = {} if repeats is None else dict(repeats.counts)
    counts[found.counted_by] = counts.get(found.counted_by, 0) + 1
    recurred = 0 if repeats is None else sum(past.code == failure.code for past in repeats.history)
    cap = largest_cap(retry.attempts, retries_around(first))
    further = further_calls(plan.matcher, failure, found, counts, recurred, cap=cap)
    if further is not None and further <= 0:
        return None
    return tokens.asked(first, frame)
