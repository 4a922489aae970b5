"""The two runners: around an async function, and around a sync one.

The short way stands here, in one piece: a first attempt that is let in and succeeds, which is what nearly every call is. It knows no
waiting and no repeating; whatever else may happen takes the long way (`ways`). Rule: the layers are taken in order,
outermost first, and given back in the reverse order on every way out, cancellation included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import RejectedError
from ..telemetry.hub import HUB
from ..world import REAL
from .attempt import CURRENT, ROOT, Attempt, begun
from .endings import PLAIN, leave_all
from .finished import block_finished, call_worked, rejected, tell_finished
from .steps import Call, settled
from .threads import run_in_thread
from .ways import follow, follow_async, from_failure, from_start


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .binding import Binding
    from .breaker_state import CircuitState
    from .plan import Plan
    from .ways import Steps

__all__ = ["protect_async", "protect_sync"]


def protect_async(  # noqa: C901, PLR0915 -- one frame, because it is on every call
    function: Callable[..., Awaitable[Any]], binding: Binding
) -> Callable[..., Any]:
    """Return `function` behind the layers of `binding`; the policy is replaced by setting `.policy` on the result."""
    current, plain, real, root, hub = CURRENT, PLAIN, REAL, ROOT, HUB
    monotonic = REAL.monotonic

    async def call(*args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0912, PLR0915 -- see above
        plan: Plan = binding.plan
        if attributes["policy"] is not plan.policy:
            plan = binding.adopt(attributes["policy"])
        outer = current.get()
        if not plan.is_short or (outer is not root and outer.world is not real):
            if outer.world.is_disabled:
                return await function(*args, **kwargs)
            return await follow_async(_whole(plan, binding, outer, Call(function, args, kwargs)))
        now = monotonic()
        if now < plan.pause.until:
            return await follow_async(_whole(plan, binding, outer, Call(function, args, kwargs)))
        circuit, budget = plan.circuit, plan.budget
        permit = 0
        if circuit is not None:
            permit = circuit.era if circuit.is_closed else _admitted(circuit, now, outer, plan)
        attempt = Attempt()
        attempt.plan, attempt.outer, attempt.started = plan, outer, now
        if circuit is not None:
            attempt.permit = permit
        if outer is not root and outer.deadline_at is not None and not outer.is_over:
            attempt.deadline_at = outer.deadline_at
        if budget is not None:
            if now >= budget.turns_at:
                budget.turn(now)
            budget.calls += 1
        error = result = None
        token = current.set(attempt)
        try:
            try:
                if plan.enters:
                    for enter in plan.enters:
                        enter(attempt)
                result = await function(*args, **kwargs)
            except BaseException as raised:  # noqa: BLE001 -- what becomes of it is decided on the long way
                error = raised
            else:
                if type(result) in plain and not plan.asks_result:
                    if plan.leaves:
                        for leave in plan.leaves:
                            leave(attempt, None)
                    if circuit is not None and not circuit.is_calm:
                        ended = monotonic()
                        circuit.succeeded(permit, ended, ended - now)
                    if hub.listening:
                        call_worked(plan, monotonic() - now)
                    return result
            return await follow_async(
                from_failure(plan, attempt, Call(function, args, kwargs), error, result)
            )
        finally:
            attempt.outer = None
            try:  # noqa: SIM105 -- `suppress` costs as much as all of this
                current.reset(token)
            except ValueError:  # an abandoned coroutine, closed by the garbage collector: its context is gone
                pass
            del error, attempt  # an error must not be held by a frame that it holds

    attributes = call.__dict__  # read this way, the policy in force costs a third of `call.policy`
    attributes["policy"] = binding.plan.policy
    return call


def protect_sync(  # noqa: C901, PLR0915 -- one frame, because it is on every call
    function: Callable[..., Any], binding: Binding
) -> Callable[..., Any]:
    """Return `function` behind the layers of `binding`; the policy is replaced by setting `.policy` on the result."""
    current, plain, real, root, hub = CURRENT, PLAIN, REAL, ROOT, HUB
    monotonic = REAL.monotonic

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0912, PLR0915 -- see above
        plan: Plan = binding.plan
        if attributes["policy"] is not plan.policy:
            plan = binding.adopt(attributes["policy"])
        outer = current.get()
        if not plan.is_short or (outer is not root and outer.world is not real):
            if outer.world.is_disabled:
                return function(*args, **kwargs)
            return follow(_whole(plan, binding, outer, Call(function, args, kwargs)))
        now = monotonic()
        if now < plan.pause.until:
            return follow(_whole(plan, binding, outer, Call(function, args, kwargs)))
        circuit, budget = plan.circuit, plan.budget
        permit = 0
        if circuit is not None:
            permit = circuit.era if circuit.is_closed else _admitted(circuit, now, outer, plan)
        attempt = Attempt()
        attempt.plan, attempt.outer, attempt.started = plan, outer, now
        if circuit is not None:
            attempt.permit = permit
        if outer is not root and outer.deadline_at is not None and not outer.is_over:
            attempt.deadline_at = outer.deadline_at
        if budget is not None:
            if now >= budget.turns_at:
                budget.turn(now)
            budget.calls += 1
        error = result = None
        token = current.set(attempt)
        try:
            try:
                if plan.enters:
                    for enter in plan.enters:
                        enter(attempt)
                result = function(*args, **kwargs)
                if type(result) not in plain:
                    settled(function, result)
            except StopIteration:
                _let_go(plan, attempt)
                raise
            except BaseException as raised:  # noqa: BLE001 -- what becomes of it is decided on the long way
                error = raised
            else:
                if type(result) in plain and not plan.asks_result:
                    if plan.leaves:
                        for leave in plan.leaves:
                            leave(attempt, None)
                    if circuit is not None and not circuit.is_calm:
                        ended = monotonic()
                        circuit.succeeded(permit, ended, ended - now)
                    if hub.listening:
                        call_worked(plan, monotonic() - now)
                    return result
            return follow(from_failure(plan, attempt, Call(function, args, kwargs), error, result))
        finally:
            attempt.outer = None
            current.reset(token)
            del error, attempt  # an error must not be held by a frame that it holds

    attributes = call.__dict__  # read this way, the policy in force costs a third of `call.policy`
    attributes["policy"] = binding.plan.policy
    return call


def _whole(plan: Plan, binding: Binding, outer: Attempt, call: Call) -> Steps:
    """Go the long way from the start: in a test's environment, or with layers that wait or fall back."""
    world = outer.world
    now = world.monotonic()
    inherits = outer.deadline_at is not None and not outer.is_over
    first = begun(plan, outer, world, now, outer.deadline_at if inherits else None)
    if plan.budget is not None:
        plan.budget.deposit(now)
    call.function = world.injected(call.function, binding)
    if plan.thread_timeout is not None:
        call.function = run_in_thread(call.function, plan)
    token = CURRENT.set(first)
    try:
        return (yield from from_start(plan, first, call))
    finally:
        first.outer = None
        CURRENT.reset(token)
        del first


def _admitted(circuit: CircuitState, now: float, outer: Attempt, plan: Plan) -> int:
    """Ask a circuit that is not closed; its rejection ends the call before anything is called."""
    try:
        return circuit.admit(now)
    except RejectedError as error:
        if outer.plan is None and outer is not ROOT:
            outer.calls = 0  # nothing was called: `capture` says so
        if HUB.listening:
            rejected(plan.name, "circuit", circuit.key, error.failure)
            tell_finished(plan, "rejected", 0, 0.0, 0.0, error.failure)
        raise


def _let_go(plan: Plan, attempt: Attempt) -> None:
    """Leave the layers of a call that ended an iterator: neither a success nor a failure."""
    leave_all(reversed(plan.guards), attempt, GeneratorExit())
    leave_all(plan.around, attempt, None)
    block_finished(plan, attempt, None)
