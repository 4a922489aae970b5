"""What the calls of one policy have in common while they repeat: a budget, a pause, one refresh.

A *budget* may be shared by several processes. Rule: while the line to the store is up, all
processes together allow a repeat. The local budget then only counts what was allowed, so that it
can decide alone when the line goes down.

A *pause* follows a 429 with Retry-After: all calls of that function, client or origin wait. Rule:
one call's Retry-After applies to the others. No call waits longer than its own `max_retry_after`
and deadline allow: a call that would have to is rejected at once, before anything is called. A
pause belongs to the clock by which it was set, so that a pause of a test in virtual time has no
effect in real time.

A *refresh* is a rule's `before`: the function that runs before a repeat, such as a token refresh.
Rule: one at a time. Of many calls that fail together, one refreshes; the others wait for it and use
its result. The refresh is part of the call: it runs within the call's deadline, and an error that it
raises ends the call. It runs in a frame of its own, marked with the rule, so that a refresh that
meets the same failure does not refresh itself.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from inspect import isawaitable
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from ...failure import Failure, ThrottledError, config_error, is_limited
from ...locks import new_lock
from ...transports.event_loop import running_loop
from ...values.backoff import Backoff
from ...world import REAL
from ..frame import CURRENT, leave_context, new_frame
from ..guards import not_admitted
from ..registry import InUse, Sort
from ..waits import AnswerWait, Sleeps, is_real_time
from .budget_state import BudgetState


if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ...values.rule import Rule
    from ...world import World
    from ..frame import CallFrame
    from ..guards import Wait
    from ..registry import States
    from ..shared import Question, SharedState
    from .value import Retry, RetryBudget


# ---- a budget ------------------------------------------------------------------------------------


def _shared(store: SharedState, key: str, settings: RetryBudget) -> SharedBudget:
    return SharedBudget(key, settings, store)


BUDGETS: Final = Sort[BudgetState, "RetryBudget"]("retry budget", BudgetState, shared=_shared)


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

    def asked(self, first: CallFrame, frame: CallFrame) -> Wait | None:
        """Ask for a repeat after a failed attempt; return the wait for an answer of all processes.

        The answer is the `token` of the first attempt, at once or after the wait.
        """
        found = self.request(frame.world.monotonic())
        if isinstance(found, Token):
            first.token = found
            return None

        def settle(answer: bool | None) -> None:
            first.token = self.settle(answer, frame.world.monotonic())

        return AnswerWait(found, settle, frame.remaining)

    def settle_up(self, first: CallFrame) -> None:
        """Give back the repeat that the decision did not use, if there is one."""
        token: Token | None = first.token
        first.token = None
        if token is not None and token.is_granted:
            self.take_back(first.world.monotonic())
            if token.is_shared:
                self._line.give_back()


# ---- a pause -------------------------------------------------------------------------------------


# The calls that waited for the same end are spread over a tenth of the pause, as are those that got
# the Retry-After.
_SPREAD: Final = 0.1


class Pause:
    """The time until which the calls of one owner wait; the runners read `until` without a lock."""

    __slots__ = ("__weakref__", "_clock", "_seconds", "key", "until")

    def __init__(self, key: str) -> None:
        self.key = key
        self.until = 0.0
        self._clock: object = None
        self._seconds = 0.0

    def heard(self, world: World, failure: Failure, retry: Retry) -> None:
        """Handle a failure: if a limiter asks for a wait within the limit, all calls wait."""
        seconds = failure.retry_after
        if seconds is None or seconds > retry.max_retry_after or not is_limited(failure):
            return
        now = world.monotonic()
        until = now + seconds
        if self._clock is not world.monotonic or until > self.until:
            self._clock, self.until, self._seconds = world.monotonic, until, seconds
        if world.monotonic is REAL.monotonic:
            pausing(self, now)

    def to_go(self, world: World) -> float:
        """Return the seconds until the pause is over, 0 or less if it is."""
        return self.until - world.monotonic() if self._clock is world.monotonic else 0.0

    def spread(self, world: World) -> float:
        """Return the delay after the end for one of the waiting calls."""
        return self._seconds * _SPREAD * world.rng.random()


class Paused(Protocol):
    """What may make calls wait in real time, until a moment: a pause, or adaptive limits."""

    @property
    def until(self) -> float:
        """The moment, in monotonic seconds."""
        ...


PAUSED: Final[set[Paused]] = set()
"""The pauses and adaptive limits in real time that may not be over.

While there is none, which is nearly always, the runners check nothing else.
"""


def pausing(one: Paused, now: float) -> None:
    """List one that begins in real time, and drop what is over."""
    PAUSED.difference_update([other for other in list(PAUSED) if other.until <= now])
    PAUSED.add(one)


NO_PAUSE: Final = Pause("")
"""The pause of a policy without a Retry, which does not specify how long its calls would wait."""

_PAUSES: Final = InUse[Pause]()


def pause_of(states: States) -> Pause:
    """Return the pause of an owner's calls, whatever key its layers share with other owners."""
    make = partial(Pause, states.name)
    return states.owned(
        "pause", partial(_PAUSES.of, states.name, make) if states.shares_pause else make
    )


def pause_wait(attempt: CallFrame) -> Wait | None:
    """Return the wait of an attempt for the end of its operation's pause; None if there is none."""
    operation: Any = attempt.operation
    pause: Pause = operation.pause
    if pause.to_go(attempt.world) <= 0:
        return None
    return Sleeps("Retry", attempt.world, _waits(pause, operation.plan.matcher.retry, attempt))


def _waits(pause: Pause, retry: Retry, attempt: CallFrame) -> Generator[float, None, None]:
    """Yield the seconds to wait until no pause is left. Raises ThrottledError.

    Another call may start or extend a pause in the meantime.
    """
    world, most = attempt.world, retry.max_retry_after
    while (wanted := pause.to_go(world)) > 0:
        remaining = attempt.remaining
        if wanted > most or (remaining is not None and wanted >= remaining):
            text = f"{pause.key} is paused: a limiter asked for {wanted:.3g} s more"
            error = ThrottledError(Failure.of("SYS_THROTTLED", text, retry_after=wanted))
            not_admitted(attempt, "rate_limit", pause.key, error)
            raise error
        is_exact = isinstance(retry.backoff, Backoff) and not retry.backoff.is_random
        wait = wanted if is_exact else min(wanted + pause.spread(world), most)
        if remaining is not None and wait >= remaining:
            wait = wanted
        (attempt.first or attempt).waited += wait
        most -= wait
        yield wait


# ---- a refresh -----------------------------------------------------------------------------------


class RefreshLock:
    """The lock under which one call refreshes for a rule, while the other calls wait.

    It is shared by all functions and origins that the policy protects. It consists of a lock for
    threads, one for the tasks of each loop, and a count of the refreshes made.
    """

    __slots__ = ("__weakref__", "_of_loop", "done", "of_threads", "refreshed_at", "rule")

    def __init__(self, rule: Rule | None) -> None:
        self.rule = rule  # kept, so that its id() stays unique as long as this is in use
        self.done = 0
        self.refreshed_at = -inf
        self.of_threads = new_lock()
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    def is_fresh(self, frame: CallFrame, done_before: int) -> bool:
        """Return whether another call refreshed since this attempt started, or while it waited."""
        return self.done != done_before or self.refreshed_at > frame.started

    @contextmanager
    def refreshing(self, frame: CallFrame) -> Generator[None]:
        """Run the rule's `before` in a frame of its own; count the refresh if it succeeds."""
        inside = new_frame(None, frame, frame.world, frame.started, frame)
        inside.before_of = self.rule
        token = CURRENT.set(inside)
        try:
            yield
        finally:
            leave_context(token)
        self.done += 1
        self.refreshed_at = frame.world.monotonic()

    def of_loop(self) -> asyncio.Lock:
        """Return the lock for the tasks of the running loop."""
        return self._of_loop.setdefault(running_loop("Rule.before"), asyncio.Lock())


# By the id() of the rule: equal rules count separately.
_LOCKS: Final = InUse[RefreshLock]()


def refresh_lock(states: States, rule: Rule | None) -> RefreshLock:
    """Return the lock under which the calls that repeat by this rule wait for its `before`.

    Calls of the policy's other functions use the same lock; each owner keeps those it uses alive.
    """
    make = partial(RefreshLock, rule)
    return states.owned(f"refresh {id(rule)}", partial(_LOCKS.of, id(rule), make))


def refresh(before: Callable[[], Any]) -> None:
    """Call the `before` of a sync call. ConfigError for one that would have to be awaited."""
    result = before()
    if isawaitable(result):
        close = getattr(result, "close", None)
        if close is not None:
            close()
        raise config_error("Rule.before", "a sync function: the function it helps is sync", before)
