"""The layer that lets calls start as their limit allows, and learns from how they end.

While nothing is limited, a call is only noted as in flight. Under a limit it takes a place, or waits
for one in the queue. The first two of a queue watch the time; all others are woken by an end.

Rule: what happened is counted before anybody decides about a repeat. Going back to the front is a
repeat like any other: `stops` says why a refused call does not, and `repeats` asks it.
"""

from __future__ import annotations

import asyncio
import os
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from ... import events
from ...failure import (
    Executed,
    Failure,
    ThrottledError,
    is_refusal,
    quota_wait,
    wait_asked,
)
from ...failure.what import matches_safely
from ...telemetry import emit
from ...telemetry.hub import HUB
from ...transports.event_loop import running_loop
from ...world import REAL
from ...world.signal import Signal
from ..decision import failure_in
from ..fallback.ladder import rungs_allowed
from ..frame import enclosing
from ..guards import Guard, not_admitted
from ..retry.coordination import pausing
from ..waits import AnswerWait
from .machine import Ticket
from .state import made


if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ...failure import Stopped
    from ..breaker.state import CircuitState
    from ..decision import Matcher
    from ..fallback.value import Fallback
    from ..frame import CallFrame
    from ..guards import Wait
    from ..shared import Question
    from .state import Change, Limit, Limits
    from .value import AdaptiveLimit

    class Decides(Protocol):
        """The part of a plan that says whether a refused call goes back."""

        @property
        def matcher(self) -> Matcher: ...
        @property
        def foresees(self) -> bool: ...
        @property
        def fallback(self) -> Fallback | None: ...

    class Operation(Protocol):
        """The part of an operation that says so."""

        @property
        def plan(self) -> Decides: ...
        @property
        def circuit(self) -> CircuitState | None: ...


_SOON: Final = 5.0  # seconds; a refusal that asks for more sends the call to its Fallback
_SHORTEST: Final = 0.001  # seconds of a wait, so that rounding makes no busy loop
_ALL: Final = ()  # the key of an owner whose calls have one limit


class Call(Ticket):
    """A call at the door, with its limit."""

    __slots__ = ("limit",)

    def __init__(self, arrived: float, limit: Limit) -> None:
        super().__init__(arrived)
        self.limit = limit


class AdaptiveGuard(Guard):
    """Takes a place before the call, and counts how the call ended."""

    __slots__ = ("layer", "may_wait")

    is_adaptive = True

    def __init__(self, layer: AdaptiveLimit, is_shared: bool = False) -> None:
        self.layer = layer
        # The short path is not taken while a limit is in force, of which another process may know.
        self.may_wait = is_shared or layer.start is not None  # type: ignore[misc]

    def enter(self, attempt: CallFrame) -> Wait | None:
        operation: Any = attempt.operation
        limits: Limits = operation.limits
        # Nearly every call: nothing is limited.
        if not (limits.by_key or self.may_wait) and limits.clock is attempt.world.monotonic:
            limits.flying[attempt] = self
            return None
        limits = limits.of(attempt.world.monotonic)
        question = limits.ask() if self.may_wait else None
        return _Asking(self, limits, attempt, question) if question else self.admit(limits, attempt)

    def admit(self, limits: Limits, attempt: CallFrame) -> Wait | None:
        """Take a permit, or return the wait for one."""
        now = attempt.world.monotonic()
        limit = _find(limits, self._key(attempt), now) if limits.in_force else None
        if limit is None:
            limits.flying[attempt] = self
            return None
        if _holds_permit(attempt, limit):
            return None
        first = attempt.first or attempt
        call: Call | None = first.ticket
        if call is None or call.limit is not limit:
            call = Call(now, limit)
        is_throttled = limits.throttles(limit, call, now, attempt.world.rng)
        if is_throttled or limits.enter(limit, call, now):
            self.settle(limits, attempt, call, now)
            return None
        return _Turn(self, limits, attempt, call)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        operation: Any = attempt.operation
        limits: Limits = operation.limits
        if limits.clock is not attempt.world.monotonic:
            limits = limits.of(attempt.world.monotonic)
        if error is None and not limits.by_key and attempt.limit_permit is None:
            limits.flying.pop(attempt, None)
            return None
        failure = failure_in(attempt, error) if isinstance(error, Exception) else None
        self._count(limits, attempt, failure, has_failed=error is not None)
        return error

    def answered(self, attempt: CallFrame, failure: Failure) -> None:
        self._count(_limits_of(attempt), attempt, failure, has_failed=True)

    def enter_hedge(self, hedge: CallFrame) -> bool:
        limits = _limits_of(hedge)
        if limits.in_force and _find(limits, self._key(hedge), hedge.started) is not None:
            return False  # the server has refused calls: it gets none that could be done without
        limits.flying[hedge] = self
        return True

    def leave_hedge(self, hedge: CallFrame, failure: Failure | None) -> None:
        self._count(_limits_of(hedge), hedge, failure, has_failed=failure is not None)

    # ---- counting -------------------------------------------------------------------------------

    def _count(
        self, limits: Limits, attempt: CallFrame, failure: Failure | None, *, has_failed: bool
    ) -> None:
        """Count the end of an attempt; nothing if it took no place and is not in flight."""
        call: Call | None = attempt.limit_permit
        attempt.limit_permit = None
        if call is None and limits.flying.pop(attempt, None) is None:
            return
        is_refused = failure is not None and is_refusal(failure)
        if call is None and not limits.by_key and not is_refused:
            return
        now = attempt.world.monotonic()
        if call is None:
            key = self._key(attempt)
            limit = limits.by_key.get(key)
            if limit is None:
                if not is_refused:
                    return
                limit = limits.first_refused(key, self._flying(limits, key) + 1, now)
                _tell_forgotten(limits)
            call = Call(attempt.started, limit)
            call.began = attempt.started
        if failure is not None and is_refused:
            wait = wait_asked(failure, attempt.world.wall)
            if wait is None:
                wait = attempt.header_wait
            (attempt.first or attempt).ticket = call
            change = limits.refused(call.limit, call, now, failure, wait, attempt.world.rng)
            _tell(limits, call.limit, change, failure)
            if limits.clock is REAL.monotonic:
                pausing(limits, now)
            return
        (attempt.first or attempt).ticket = None  # a later repeat waits behind those that wait now
        if has_failed:
            limits.released(call.limit, call, now)
        else:
            change = limits.succeeded(call.limit, call, now, is_stream=attempt.is_streaming)
            _tell(limits, call.limit, change, None)

    def stream(self, attempt: CallFrame) -> Callable[[], None] | None:
        """Have the call keep its permit after it has returned, and return what gives it back."""
        call: Call | None = attempt.limit_permit
        if call is None:
            return None
        attempt.is_streaming = True
        limits, clock = _limits_of(attempt), attempt.world.monotonic

        def ended() -> None:
            if call.has_permit:
                limits.released(call.limit, call, clock())

        return ended

    def hear(self, attempt: CallFrame, headers: object, *, is_refused: bool) -> None:
        """Take the wait that headers ask for, of a quota that is used up."""
        wait = quota_wait(headers, attempt.world.wall())
        if wait is None:
            return
        call: Call | None = attempt.limit_permit
        if is_refused:
            attempt.header_wait = wait
        elif call is not None:
            _limits_of(attempt).heard(call.limit, wait, attempt.world.monotonic())

    def _key(self, attempt: CallFrame) -> Hashable:
        """Return the key of the limit of a call."""
        operation: Any = attempt.operation
        arguments = (attempt.first or attempt).arguments
        limited_by = operation.states.limited_by
        key: Hashable = _ALL
        if operation.limit_key is not None:
            key = operation.limit_key
        elif not (isinstance(self.layer.key, str) or arguments is None or limited_by is None):
            key = limited_by(*arguments)
        return key

    def _flying(self, limits: Limits, key: Hashable) -> int:
        """Return how many calls of this key are in flight without a place."""
        flying: list[tuple[CallFrame, AdaptiveGuard]] = list(limits.flying.items())
        return sum(guard._key(other) == key for other, guard in flying)  # noqa: SLF001 -- of its class

    # ---- a place --------------------------------------------------------------------------------

    def settle(self, limits: Limits, attempt: CallFrame, call: Call, now: float) -> None:
        """Keep the place, or raise the error of a call whose wait has ended without one."""
        limit, last = call.limit, call.limit.last
        limit.longest_wait = max(limit.longest_wait, now - call.arrived)
        if call.ended == "admitted":
            attempt.limit_permit = call
            return
        name = limits.name_of(limit.key)
        if call.ended == "exhausted":
            text = f"{name} refuses every call: another one is trying"
        elif call.ended == "impatient":
            text = f"{name} has refused every call, and nothing moved for {limit.patience:g} s"
        elif call.ended == "throttled":
            counted, most = limit.counted, limits.settings.throttle
            text = f"{name} accepted {counted.seen - counted.failed} of {counted.seen} requests in two minutes, so this one was not sent (throttle={most:g})"
        else:
            text = f"{name} is limited: no place before the deadline"
        details: dict[str, Any] = {"adaptive_limit": name}
        if last is not None:
            text, details["refusal"] = f"{text}; the last refusal: {last}", str(last)
        was_sent = bool(call.refusals)
        failure = Failure.of(
            "SYS_THROTTLED",
            text,
            retry_after=limit.remaining_wait(now) or None,
            retryable=False,
            executed=Executed.MAYBE if was_sent else Executed.NO,
            details=details,
        )
        error = ThrottledError(failure)
        not_admitted(attempt, "adaptive_limit", name, error)
        raise error

    def wait_of(self, attempt: CallFrame) -> float:
        """Return for how many seconds the door is shut for a refused call."""
        call: Call | None = (attempt.first or attempt).ticket
        return 0.0 if call is None else call.limit.remaining_wait(attempt.world.monotonic())

    # ---- a refused call -------------------------------------------------------------------------

    def stops(self, operation: Operation, attempt: CallFrame, failure: Failure) -> Stopped | None:
        """Return why a refused call does not go back to the front; None if it does.

        Whether a repeat is permitted has been asked before.
        """
        first, plan = attempt.first or attempt, operation.plan
        call: Call | None = first.ticket
        now, retry = attempt.world.monotonic(), plan.matcher.retry
        if failure.retry_after is not None and failure.retry_after > retry.max_retry_after:
            return "retry_after"
        if call is None:  # made inside of a call that holds a place of this limit
            return None
        limit = call.limit
        wait, remaining = limit.remaining_wait(now), attempt.remaining
        if remaining is not None and wait >= remaining:
            return "deadline"
        if attempt.may_repeat_until is not None and now + wait > attempt.may_repeat_until:
            return "not_idempotent"
        circuit = operation.circuit
        if plan.foresees and circuit is not None and circuit.rejects(now + wait):
            return "rejected"
        if limit.is_exhausted and (limit.queue or not limit.is_idle):
            return "rejected"
        if limit.is_idle and limit.remaining_patience(call, now) <= 0:
            return "rejected"
        asks_long = (failure.retry_after or 0.0) > _SOON
        if (call.refusals > 1 or asks_long) and _may_fall_back(plan, failure):
            return "rejected"
        return None


def _tell(limits: Limits, limit: Limit, change: Change, failure: Failure | None) -> None:
    """Report what has changed about a limit."""
    if not change or (change == "lowered" and not HUB.listening):
        return
    emit(
        events.LimitChanged(
            key=limits.name_of(limit.key),
            owner=limits.key,
            state=change,
            at_once=limit.at_once,
            per_second=1 / limit.spacing if limit.spacing else None,
            waiting=len(limit.queue),
            refused=limit.refused,
            longest_wait=limit.longest_wait,
            failure=failure,
        )
    )


def _find(limits: Limits, key: Hashable, now: float) -> Limit | None:
    """Return the limit of a key, None if there is none; report those that are forgotten by now."""
    limit = limits.find(key, now)
    _tell_forgotten(limits)
    return limit


def _tell_forgotten(limits: Limits) -> None:
    for limit in limits.take_forgotten() if limits.forgotten else ():
        _tell(limits, limit, "forgotten", None)


def _limits_of(attempt: CallFrame) -> Limits:
    """Return the limits of the attempt's owner, by the clock of its world."""
    operation: Any = attempt.operation
    limits: Limits = operation.limits
    return limits.of(attempt.world.monotonic)


def _may_fall_back(plan: Decides, failure: Failure) -> bool:
    """Return whether a rung of the Fallback may be called after this refusal."""
    fallback = plan.fallback
    if fallback is None or (fallback.on and not matches_safely(fallback.on, failure)):
        return False
    return bool(rungs_allowed(cast("Any", plan), fallback, failure))


def _holds_permit(attempt: CallFrame, limit: Limit) -> bool:
    """Return whether the call was made inside of one that holds a place of this limit."""
    around = (attempt.first or attempt).outer
    while around is not None:
        held: Call | None = around.limit_permit
        if held is not None and held.limit is limit:
            return True
        around = enclosing(around)
    return False


class _Asking(AnswerWait[bool]):
    """The wait of a first call for what other processes know; then it is let in, or waits again."""

    __slots__ = ("_attempt", "_guard", "_limits")

    def __init__(
        self, guard: AdaptiveGuard, limits: Limits, attempt: CallFrame, question: Question[bool]
    ) -> None:
        super().__init__(question, bool, attempt.remaining)
        self._guard = guard
        self._limits = limits
        self._attempt = attempt

    def block(self) -> None:
        """Wait in this thread."""
        super().block()
        wait = self._guard.admit(self._limits, self._attempt)
        if wait is not None:
            wait.block()

    async def suspend(self) -> None:
        """Wait in this task."""
        await super().suspend()
        wait = self._guard.admit(self._limits, self._attempt)
        if wait is not None:
            await wait.suspend()


class _Turn:
    """The wait of a call for its place."""

    __slots__ = ("_attempt", "_call", "_guard", "_limits", "_signal")

    def __init__(
        self, guard: AdaptiveGuard, limits: Limits, attempt: CallFrame, call: Call
    ) -> None:
        self._guard = guard
        self._limits = limits
        self._attempt = attempt
        self._call = call
        self._signal = Signal()

    def block(self) -> None:
        """Wait in this thread."""
        world, began = self._attempt.world, self._attempt.world.monotonic()
        self._limits.join(self._call.limit, self._call, began)
        try:
            while (seconds := self._seconds()) is not None:
                if world.monotonic is REAL.monotonic or seconds == inf:
                    self._signal.wait(None if seconds == inf else seconds)
                else:
                    world.sleep(seconds)
        except BaseException:
            self._stop_waiting()
            raise
        self._settle(began)

    async def suspend(self) -> None:
        """Wait in this task."""
        world, began = self._attempt.world, self._attempt.world.monotonic()
        self._limits.join(self._call.limit, self._call, began)
        try:
            while (seconds := self._seconds()) is not None:
                running_loop("AdaptiveLimit")
                if world.monotonic is REAL.monotonic or seconds == inf:
                    await self._signal.suspend(world, None if seconds == inf else seconds)
                else:
                    await self._sleep(seconds)
        except BaseException:
            self._stop_waiting()
            raise
        self._settle(began)

    async def _sleep(self, seconds: float) -> None:
        """Wait in a test's time, which a wait moves and a timer does not."""
        woken = asyncio.ensure_future(self._signal.suspend(self._attempt.world))
        slept = asyncio.ensure_future(self._attempt.world.asleep(seconds))
        try:
            await asyncio.wait((woken, slept), return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            slept.cancel()

    def _seconds(self) -> float | None:
        """Return how long to wait until this is asked again; None if the wait is over."""
        call, limit, now = self._call, self._call.limit, self._attempt.world.monotonic()
        self._signal = Signal()
        call.wake = self._signal.set
        at = self._limits.advance(limit, now, call)
        if call.ended:
            return None
        remaining = self._attempt.remaining
        if remaining is not None and (
            remaining <= 0 or (not call.refusals and limit.remaining_wait(now) >= remaining)
        ):
            self._limits.leave(limit, call, now)
            return None
        seconds = inf
        if limit.is_watched_by(call):
            seconds = max(at - now, _SHORTEST)
        return seconds if remaining is None else min(seconds, max(remaining, _SHORTEST))

    def _stop_waiting(self) -> None:
        self._call.wake = None
        self._limits.leave(self._call.limit, self._call, self._attempt.world.monotonic())

    def _settle(self, began: float) -> None:
        now = self._attempt.world.monotonic()
        (self._attempt.first or self._attempt).waited += now - began
        self._call.wake = None
        self._guard.settle(self._limits, self._attempt, self._call, now)


def _begin_anew() -> None:
    """In a forked child: the calls of the parent's other threads are not here."""
    for limits in made():
        limits.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
