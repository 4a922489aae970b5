"""The two runners: around an async function, and around a sync one.

The short path is written here in one piece: a first attempt that is admitted and succeeds, as
nearly every call is. It has no waits and no repeats; every other course takes the long path
(`retry_loop`). Rule: the layers are entered in order, outermost first, and exited in the reverse
order in every case, cancellation included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...failure import RejectedError
from ...failure.plain import PLAIN
from ...telemetry.hub import HUB
from ...world import REAL
from ..finished import block_finished, call_worked, rejected, tell_finished
from ..frame import CURRENT, ROOT, CallFrame, leave_context, new_frame
from ..retry.pause import PAUSED
from ..steps import CallOnce, settled
from ..tracing import TRACING, open_scope
from .attempt_result import exit_layers
from .in_thread import run_in_thread
from .retry_loop import run, run_async, steps_of


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..guards import CircuitAsked
    from .binding import Binding
    from .plan import Plan
    from .retry_loop import Steps


def protect_async(  # noqa: C901, PLR0915 -- one frame, because it is on every call
    function: Callable[..., Awaitable[Any]], binding: Binding
) -> Callable[..., Any]:
    """Return `function` behind the layers of `binding`; set its `.policy` to replace the policy."""
    current, real, root, hub, paused, tracing = CURRENT, REAL, ROOT, HUB, PAUSED, TRACING
    monotonic = REAL.monotonic

    async def call(*args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0912, PLR0915 -- see above
        plan: Plan = binding.plan
        if attributes["policy"] is not plan.policy:
            plan = binding.adopt(attributes["policy"])
        outer = current.get()
        if not plan.is_short or (outer is not root and outer.world is not real):
            if outer.world.is_disabled:
                return await function(*args, **kwargs)
            return await run_async(_whole(plan, binding, outer, CallOnce(function, args, kwargs)))
        now = monotonic()
        if paused and (tracing.open is not None or now < plan.pause.until):
            return await run_async(_whole(plan, binding, outer, CallOnce(function, args, kwargs)))
        attempt = CallFrame()
        attempt.plan, attempt.outer, attempt.started = plan, outer, now
        attempt.deadline_at = attempt.permit = None
        circuit, budget = plan.circuit, plan.budget
        permit = 0
        if circuit is not None:
            if circuit.is_plain:
                permit = circuit.era
            else:
                under_way = circuit.under_way
                if under_way:
                    circuit.count_overdue(now)
                if circuit.is_closed:
                    permit = circuit.era
                elif outer is root and not hub.listening:  # a rejection without a listener
                    permit = circuit.admit(now)
                else:
                    permit = _admitted(circuit, now, outer, plan)
                if under_way is not None:
                    under_way[attempt] = None
            attempt.permit = permit
        if outer is not root and outer.deadline_at is not None and not outer.is_over:
            attempt.deadline_at = outer.deadline_at
        if budget is not None:
            if now >= budget.next_second_at:
                budget.turn(now)
            budget.calls += 1
        error = result = None
        token = current.set(attempt)
        try:
            try:
                if plan.enter is not None:
                    plan.enter(attempt)
                result = await function(*args, **kwargs)
            except BaseException as raised:  # noqa: BLE001 -- what becomes of it is decided on the long way
                error = raised
            else:
                if type(result) in plan.plain:
                    if plan.leave is not None:
                        plan.leave(attempt, None)
                    if circuit is not None and not circuit.is_silent:
                        ended = monotonic()
                        under_way = circuit.under_way
                        # 0: no longer listed, because it was counted as overdue
                        if (
                            under_way is None
                            or under_way.pop(attempt, 0) is None
                            or not circuit.is_counted(attempt)
                        ):
                            seconds = ended - now
                            if seconds >= circuit.tell_after:
                                circuit.succeeded(permit, ended, seconds)
                    if hub.listening:
                        call_worked(plan, monotonic() - now)
                    return result
            return await run_async(
                steps_of(plan, attempt, CallOnce(function, args, kwargs), (error, result))
            )
        finally:
            attempt.outer = None
            try:  # noqa: SIM105 -- `suppress` costs as much as all of this
                current.reset(token)
            # an abandoned coroutine, closed by the garbage collector: its context no longer exists
            except ValueError:
                pass
            del error, attempt  # an error must not be held by a frame that it holds

    attributes = call.__dict__  # read this way, the policy in force costs a third of `call.policy`
    attributes["policy"] = binding.plan.policy
    return call


def protect_sync(  # noqa: C901, PLR0915 -- one frame, because it is on every call
    function: Callable[..., Any], binding: Binding
) -> Callable[..., Any]:
    """Return `function` behind the layers of `binding`; set its `.policy` to replace the policy."""
    current, real, root, hub, paused, tracing = CURRENT, REAL, ROOT, HUB, PAUSED, TRACING
    monotonic = REAL.monotonic

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0912, PLR0915 -- see above
        plan: Plan = binding.plan
        if attributes["policy"] is not plan.policy:
            plan = binding.adopt(attributes["policy"])
        outer = current.get()
        if not plan.is_short or (outer is not root and outer.world is not real):
            if outer.world.is_disabled:
                return function(*args, **kwargs)
            return run(_whole(plan, binding, outer, CallOnce(function, args, kwargs)))
        now = monotonic()
        if paused and (tracing.open is not None or now < plan.pause.until):
            return run(_whole(plan, binding, outer, CallOnce(function, args, kwargs)))
        attempt = CallFrame()
        attempt.plan, attempt.outer, attempt.started = plan, outer, now
        attempt.deadline_at = attempt.permit = None
        circuit, budget = plan.circuit, plan.budget
        permit = 0
        if circuit is not None:
            if circuit.is_plain:
                permit = circuit.era
            else:
                under_way = circuit.under_way
                if under_way:
                    circuit.count_overdue(now)
                if circuit.is_closed:
                    permit = circuit.era
                elif outer is root and not hub.listening:  # a rejection without a listener
                    permit = circuit.admit(now)
                else:
                    permit = _admitted(circuit, now, outer, plan)
                if under_way is not None:
                    under_way[attempt] = None
            attempt.permit = permit
        if outer is not root and outer.deadline_at is not None and not outer.is_over:
            attempt.deadline_at = outer.deadline_at
        if budget is not None:
            if now >= budget.next_second_at:
                budget.turn(now)
            budget.calls += 1
        error = result = None
        token = current.set(attempt)
        try:
            try:
                if plan.enter is not None:
                    plan.enter(attempt)
                result = function(*args, **kwargs)
                if type(result) not in PLAIN:
                    settled(function, result)
            except StopIteration:
                _let_go(plan, attempt)
                raise
            except BaseException as raised:  # noqa: BLE001 -- what becomes of it is decided on the long way
                error = raised
            else:
                if type(result) in plan.plain:
                    if plan.leave is not None:
                        plan.leave(attempt, None)
                    if circuit is not None and not circuit.is_silent:
                        ended = monotonic()
                        under_way = circuit.under_way
                        # 0: no longer listed, because it was counted as overdue
                        if (
                            under_way is None
                            or under_way.pop(attempt, 0) is None
                            or not circuit.is_counted(attempt)
                        ):
                            seconds = ended - now
                            if seconds >= circuit.tell_after:
                                circuit.succeeded(permit, ended, seconds)
                    if hub.listening:
                        call_worked(plan, monotonic() - now)
                    return result
            return run(steps_of(plan, attempt, CallOnce(function, args, kwargs), (error, result)))
        finally:
            attempt.outer = None
            current.reset(token)
            del error, attempt  # an error must not be held by a frame that it holds

    attributes = call.__dict__  # read this way, the policy in force costs a third of `call.policy`
    attributes["policy"] = binding.plan.policy
    return call


def _whole(plan: Plan, binding: Binding, outer: CallFrame, call: CallOnce) -> Steps:
    """Take the long path from the start: in a test's world, or if layers wait or fall back."""
    world = outer.world
    now = world.monotonic()
    inherits = outer.deadline_at is not None and not outer.is_over
    first = new_frame(plan, outer, world, now, outer.deadline_at if inherits else None)
    call.function = world.injected(call.function, binding)
    if plan.thread_timeout is not None:
        call.function = run_in_thread(call.function, plan)
    # A stream ends with its last item: its scope is that of the generator around this.
    scope = None if TRACING.open is None or plan.form.endswith("stream") else open_scope(plan)
    if scope is not None:
        scope.enter()
    token = CURRENT.set(first)
    try:
        return (yield from steps_of(plan, first, call))
    finally:
        first.outer = None
        leave_context(token)
        del first
        if scope is not None:
            scope.leave()
            scope.close()


def _admitted(circuit: CircuitAsked, now: float, outer: CallFrame, plan: Plan) -> int:
    """Ask a circuit that is not closed; its rejection ends the call before the function runs."""
    try:
        return circuit.admit(now)
    except RejectedError as error:
        if outer.plan is None and outer is not ROOT:
            outer.calls = 0  # the function was not called: `capture` reports that
        if HUB.listening:
            rejected(plan.name, "circuit", circuit.key, error.failure)
            tell_finished(plan, "rejected", 0, 0.0, 0.0, error.failure)
        raise


def _let_go(plan: Plan, attempt: CallFrame) -> None:
    """Exit the layers of a call that ended an iterator: neither a success nor a failure."""
    exit_layers(reversed(plan.guards), attempt, GeneratorExit())
    exit_layers(plan.around, attempt, None)
    block_finished(plan, attempt, None)
