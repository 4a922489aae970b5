"""The call engine for sync functions: `engine` without its awaits, made by tests/twins.py."""

# A checker does not see that a short call goes on as a long one, which has what that needs.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import events
from ..failure import RejectedError, failure_or_none
from ..failure.failure import PLAIN
from ..failure.what import matches_ended
from ..telemetry import emit
from ..telemetry.hub import HUB
from ..world import REAL
from .binding import settled
from .conditions import conditions, knowing, tenacity_state
from .decision import failure_in, proven
from .evidence import keep_answer
from .fallback.ladder import chained, note_mistake, note_unreplaced, rungs_allowed, started
from .finished import call_worked, rejected, tell_finished
from .frame import CURRENT, ROOT, CallFrame, leave_context, outside_of
from .repeats import (
    after,
    asked_of_all,
    closed,
    decided,
    exit_answered,
    exit_around,
    exit_layers,
    failure_to_decide,
    finished_with,
    let_go,
    returned,
)
from .retry.coordination import PAUSED, pause_wait, refresh, refresh_lock
from .timeout.guard import check_block, run_in_thread
from .tracing import TRACING, traced


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextvars import ContextVar

    from ..failure import Failure
    from ..telemetry.hub import Hub
    from .binding import Binding
    from .breaker.state import CircuitState
    from .plan import Operation, Plan
    from .repeats import Repeats


# ---- the loop -----------------------------------------------------------------------------------


def _loop(  # noqa: C901, PLR0915 -- the loop that every call runs, from top to bottom
    current: ContextVar[CallFrame],
    root: CallFrame,
    hub: Hub,
    special: set[Any],
    clock: Callable[[], float],
) -> Callable[[Callable[..., Any], Binding], Callable[..., Any]]:
    """Return `protect_sync`. What it reads on every call are cells, which all functions share."""
    set_frame, reset_frame = current.set, current.reset

    def protect_sync(  # noqa: C901, PLR0915 -- see above
        function: Callable[..., Any], binding: Binding
    ) -> Callable[..., Any]:
        """Return `function` behind the layers of `binding`; set its `.policy` to replace the policy."""

        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0912, PLR0915 -- see above
            operation: Operation = binding.operation
            if attributes["policy"] is not operation.policy:
                operation = binding.adopt(attributes["policy"])
            plan, outer = operation.plan, current.get()
            error: BaseException | None
            ending: BaseException | None
            stopped: StopIteration | None = None
            first = frame = CallFrame()
            first.operation, first.outer = operation, outer
            first.deadline_at = first.permit = None
            if (
                plan.is_short
                and (outer is root or (outer.world is REAL and not outer.is_bounded))
                and not (special and _is_special(operation))
            ):
                # Nearly every call: no layer of it waits. Its first attempt is admitted here, so
                # that an open circuit costs nothing but its answer.
                is_short, circuit, budget = True, operation.in_front, operation.budget
                first.started = now = clock()
                if circuit is not None:
                    if circuit.is_plain:
                        first.permit = circuit.era
                    else:
                        under_way = circuit.under_way
                        if under_way:
                            circuit.count_overdue(now)
                        if circuit.is_closed:
                            first.permit = circuit.era
                        elif outer is root and not hub.listening:
                            first.permit = circuit.admit(now)
                        else:
                            first.permit = _admitted(circuit, now, outer, operation)
                        if under_way is not None:
                            under_way[first] = None
                if budget is not None:
                    if now >= budget.next_second_at:
                        budget.turn(now)
                    budget.calls += 1
            else:
                if outer.world.is_disabled:
                    return function(*args, **kwargs)
                if outer.is_bounded:
                    check_block(outer)
                if operation.by_key is not None:
                    bound = operation.by_key.of(args, kwargs)
                    return protect_sync(function, bound)(*args, **kwargs)
                is_short, first.world = False, outer.world
                first.started = outer.world.monotonic()
                target, budget = outer.world.injected(function, binding), operation.budget
                if plan.thread_timeout is not None:
                    target = run_in_thread(target, plan.thread_timeout, operation.name)
                if plan.limit is not None:
                    first.arguments = args, kwargs
                error = result = None
            if outer is not root and outer.deadline_at is not None and not outer.is_over:
                if outer.heirs is None:  # nearly always: what `inherit` does, without its call
                    first.deadline_at = outer.deadline_at
                else:
                    first.inherit(outer)
            token = set_frame(first)
            try:
                try:
                    if not is_short:
                        traced(first)
                        for guard in plan.outer:
                            if (wait := guard.enter(first)) is not None:
                                wait.block()
                    while True:
                        if is_short:
                            try:
                                if plan.first_enter is not None:
                                    plan.first_enter.enter(first)
                                # without a merge of keywords that are not there
                                result = function(*args, **kwargs) if kwargs else function(*args)
                                if type(result) not in PLAIN:
                                    settled(function, result)
                            except StopIteration as raised:
                                let_go(operation, first, first)
                                stopped = raised
                                break
                            except BaseException as raised:  # noqa: BLE001 -- what becomes of it is decided below
                                error, result = raised, None
                            else:
                                if type(result) in plan.plain:
                                    # Nearly every attempt: nothing to read, nothing to decide.
                                    if plan.first_leave is not None:
                                        plan.first_leave.leave(first, None)
                                    if circuit is not None and not circuit.is_silent:
                                        seconds, under_way = clock() - now, circuit.under_way
                                        # 0: no longer listed, because it was counted as overdue
                                        if (
                                            under_way is None
                                            or under_way.pop(first, 0) is None
                                            or not circuit.is_counted(first)
                                        ) and seconds >= circuit.tell_after:
                                            circuit.succeeded(first.permit, now + seconds, seconds)
                                    if hub.listening:
                                        call_worked(operation, clock() - now)
                                    return result
                                error = None
                            is_short, target, budget = False, function, None
                        else:
                            try:
                                if (
                                    operation.pause.until
                                    and (wait := pause_wait(frame)) is not None
                                ):
                                    wait.block()
                                for guard in plan.guards:
                                    if (wait := guard.enter(frame)) is not None:
                                        wait.block()
                                frame.is_called = True
                                if budget is not None:  # a call that is rejected earns no repeats
                                    budget.deposit(first.world.monotonic())
                                    budget = None
                                result = target(*args, **kwargs)
                                if type(result) not in PLAIN:
                                    settled(function, result)
                            except StopIteration as raised:
                                let_go(operation, first, frame)
                                stopped = raised
                                break
                            except BaseException as raised:  # noqa: BLE001 -- as above
                                error, result = raised, None
                        if plan.is_asking:
                            again, ending = _after_asking(operation, first, frame, error, result)
                        else:
                            again, ending = after(operation, first, frame, error, result)
                        if again is None:
                            break
                        if error is None:
                            discarded(result)
                        if again.before is not None:
                            refreshed_sync(again, frame)
                        seconds = again.decision.wait
                        first.waited += seconds
                        # virtual time lists 0, too; a refused call waits at its limit
                        if seconds > 0 or not (first.world is REAL or again.was_refused):
                            first.world.sleep(seconds)
                        frame = again.next_attempt(frame)
                        set_frame(frame)
                        error = None
                except BaseException as raised:  # noqa: BLE001 -- of a wait, or of the policy itself
                    ending = raised
                if stopped is not None:
                    raise stopped
                if ending is not None:
                    ending = exit_around(plan, first, ending)
                if plan.fallback is not None:
                    ending, result = _fallen_back(
                        operation, first, frame, ending, result, args, kwargs
                    )
                if ending is not None:
                    raise finished_with(operation, first, frame, ending)
                returned(operation, first)
                return result
            finally:
                first.outer = None
                reset_frame(token)
                if not is_short:
                    closed(first)
                    # an error must not be held by a frame that it holds
                    error = ending = stopped = again = wait = None
                    del first, frame

        # read this way, the policy in force costs a third of `call.policy`
        attributes = call.__dict__
        attributes["policy"] = binding.operation.policy
        return call

    return protect_sync


protect_sync: Final = _loop(CURRENT, ROOT, HUB, PAUSED, REAL.monotonic)


def _is_special(operation: Operation) -> bool:
    """Return whether calls are traced, or those of this policy wait for a limiter."""
    return (
        TRACING.open is not None
        or REAL.monotonic() < operation.pause.until
        or (operation.limits is not None and operation.limits.in_force)
    )


def _admitted(circuit: CircuitState, now: float, outer: CallFrame, operation: Operation) -> int:
    """Ask a circuit that is not closed; its rejection ends the call before the function runs."""
    try:
        return circuit.admit(now)
    except RejectedError as error:
        if outer.operation is None and outer is not ROOT:
            outer.calls = 0  # the function was not called: `capture` reports that
        if HUB.listening:
            rejected(operation.name, "circuit", circuit.key, error.failure)
            tell_finished(operation, "rejected", 0, 0.0, 0.0, error.failure)
        raise


# ---- between two attempts -----------------------------------------------------------------------


def _after_asking(
    operation: Operation,
    first: CallFrame,
    frame: CallFrame,
    error: BaseException | None,
    result: object,
) -> tuple[Repeats | None, BaseException | None]:
    """Do what `after` does, where an answer is needed first.

    That of a user's async condition, before a layer or the Retry decides by it, or that of a shared
    budget. A repeat that the decision does not use is given back.
    """
    plan = operation.plan
    answers: dict[int, bool | Exception] = {}
    is_asked_for = False
    try:
        if error is not None:
            for guard in plan.exits:
                if plan.asks and isinstance(error, Exception) and (asked := guard.conditions()):
                    _answered(asked, failure_in(frame, error), answers)
                error = knowing(answers, exit_layers, (guard,), frame, error)
            failure = failure_to_decide(plan, frame, error)
            if failure is not None and plan.asks:
                _answered(conditions(plan.retry), failure, answers)
                if plan.matcher.theirs:
                    state = tenacity_state(frame, error, None)
                    _answered(plan.matcher.theirs, state, answers)
        else:
            if plan.asks:
                _answers_about(plan, frame, result, answers)
            failure, is_asked_for = knowing(answers, exit_answered, plan, first, frame, result)
            if failure is None:
                return None, None
            if plan.asks:
                _answered(conditions(plan.retry), failure, answers)
        wait = knowing(
            answers, asked_of_all, operation, first, frame, failure, is_asked_for=is_asked_for
        )
        if wait is not None:
            wait.block()
        return knowing(
            answers, decided, operation, first, frame, error, result, failure, is_asked_for
        )
    finally:
        if (tokens := operation.tokens) is not None:
            tokens.settle_up(first)
        error = None  # an error must not be held by a frame that it holds


def _answers_about(
    plan: Plan, frame: CallFrame, result: object, answers: dict[int, bool | Exception]
) -> None:
    """Evaluate the conditions about results, and those of layers about this one's failure."""
    if plan.retry is not None and plan.retry.on_result is not None:
        _answered((plan.retry.on_result,), result, answers)
    if plan.matcher.theirs:
        _answered(plan.matcher.theirs, tenacity_state(frame, None, result), answers)
    failure = plan.reading.read(result)
    for guard in plan.guards:
        _answered(guard.conditions(), failure, answers)


def _answered(
    asked: Iterable[Callable[[Any], Any]], about: object, answers: dict[int, bool | Exception]
) -> None:
    """Evaluate each condition about something, if there is something, and keep what it says."""
    for condition in () if about is None else asked:
        try:
            answer: Any = condition(about)
            answers[id(condition)] = bool(answer)
        except Exception as wrong:  # noqa: BLE001 -- raised again by the decision that reads the answer
            answers[id(condition)] = wrong


def discarded(answer: Any) -> None:
    """Close a returned value that will not be read, because another attempt follows."""
    close = getattr(answer, "close", None)
    if callable(close):
        close()


def refreshed_sync(repeats: Repeats, frame: CallFrame) -> None:
    """Run the `before` of the rule by which the call is repeated, unless another call has."""
    before: Any = repeats.before
    lock = refresh_lock(repeats.operation.states, repeats.rule)
    done_before = lock.done
    with lock.of_threads:
        if not lock.is_fresh(frame, done_before):
            with lock.refreshing(frame):
                refresh(before)


def _called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call what may be sync although the call is async: a rung, `before`, `acknowledge`."""
    result: Any = function(*args, **kwargs)
    return settled(function, result)


# ---- the Fallback -------------------------------------------------------------------------------


def _fallen_back(  # noqa: PLR0917 -- all that is known of the call
    operation: Operation,
    first: CallFrame,
    last: CallFrame,
    ending: BaseException | None,
    result: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[BaseException | None, Any]:
    """Let the rungs answer in place of a call that failed for good, by an error or by its result.

    Return the error that the call still ends in, and its result.
    """
    plan = operation.plan
    error = ending if isinstance(ending, Exception) else None
    try:
        failure = first.answered if ending is None else None
        if error is not None and (failure := failure_or_none(error)) is not None:
            failure = proven(plan, last, failure, error)
        if failure is None:
            return ending, result
        try:
            is_replaced, answer = _climbed(operation, first, failure, error, args, kwargs)
            if is_replaced and ending is None:
                keep_answer(first, None)
                discarded(result)
        except BaseException as failed:  # noqa: BLE001 -- it is raised in the form that the layers give it
            return failed if ending is not None else exit_around(plan, first, failed), None
        if not is_replaced:
            return ending, result
        first.fell_back = True
        if ending is not None:
            exit_layers(plan.before, first, None)
        return None, answer
    finally:
        error = ending = failure = None  # an error must not be held by a frame that it holds


def _climbed(  # noqa: PLR0917 -- as above
    operation: Operation,
    first: CallFrame,
    failure: Failure,
    error: Exception | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[bool, Any]:
    """Return whether a rung succeeded, and its result; raise the error of the last one.

    Rule: a switch is never silent: `acknowledge`, if given, is asked first, and each rung is
    reported as an event.
    """
    plan = operation.plan
    fallback: Any = plan.fallback
    answers: dict[int, bool | Exception] = {}
    if plan.asks:
        _answered(conditions(fallback), failure, answers)
    if fallback.on and not knowing(answers, matches_ended, fallback.on, failure):
        return False, None
    rungs = rungs_allowed(plan, fallback, failure)
    if not rungs:
        note_unreplaced(error)
        return False, None
    # The repeats are over: a rung that repeats on its own is not inside the repeats of this call.
    token = CURRENT.set(outside_of(first))
    ending = error
    try:
        if fallback.acknowledge is not None:
            try:
                if not _called(fallback.acknowledge, (failure,), {}):
                    return False, None
            except Exception as mistake:  # the caller's failure must not be lost because of it
                if not note_mistake(error, mistake):
                    raise
                return False, None
        for number, rung in rungs:
            emit(events.FellBack(name=operation.name, rung=number, failure=failure))
            try:
                answer = _called(started(plan, rung), args, kwargs)
            except Exception as failed:  # noqa: BLE001 -- the next rung is what it is for
                ending = failed if ending is None else chained(ending, failed)
                continue
            if plan.reading.read(answer) is None or number == rungs[-1][0]:
                return True, answer
            discarded(answer)
        if ending is None:
            return False, None
        raise ending
    finally:
        leave_context(token)
        del error, ending, failure  # an error must not be held by a frame that it holds
