"""What code inside of a protected call may ask about it, and tell the engine: an adapter, a tool.

Rule: each function acts on the attempt in which its caller runs. Outside of a protected call, and
where policies are switched off, it changes nothing that counts. Nobody outside of this room writes
to a frame. What reads failures is imported by the functions that ask for one: a test that only sets
the time loads no classifier.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .frame import CURRENT, ROOT, enclosing, leave_context, new_frame, outside_of, retries_around


if TYPE_CHECKING:
    from collections.abc import Generator
    from contextvars import Token

    from ..failure import Failure
    from ..world import World
    from .frame import CallFrame
    from .retry.value import Retry


def current_frame() -> CallFrame:
    """Return the attempt in progress; outside of one the boundary of the context.

    For others to read: `world`, `number`, `started`, `deadline_at` and `remaining`.
    """
    return CURRENT.get()


def remaining() -> float | None:
    """Return the seconds until the nearest deadline, never negative; None without one."""
    return CURRENT.get().remaining


def request_sent() -> None:
    """Count a request that is sent: for the attempt in progress and for those around it."""
    attempt: CallFrame | None = CURRENT.get()
    while attempt is not None and attempt is not ROOT:
        attempt.requests += 1
        attempt = enclosing(attempt)


def is_retried_around() -> bool:
    """Return whether the code that runs is inside of an attempt of a policy with a Retry."""
    around = CURRENT.get()
    return around is not ROOT and (
        (around.plan is not None and around.plan.attempts is not None)
        or bool(retries_around(around))
    )


# ---- which attempt may follow ------------------------------------------------------------------------------------


def make_last(why: str = "") -> None:
    """Make the attempt in progress the last one: the call cannot be made again.

    `why` becomes the note of its error.
    """
    attempt = CURRENT.get()
    if not attempt.world.is_disabled:
        attempt.is_last = True
        attempt.why_last = why or attempt.why_last


def repeat_within(seconds: float) -> None:
    """Allow repeats for `seconds` from the first attempt; then only of what provably did not run."""
    attempt = CURRENT.get()
    if not attempt.world.is_disabled:
        attempt.may_repeat_until = (attempt.first or attempt).started + seconds


@contextmanager
def never_again() -> Generator[None]:
    """Make the attempt in progress the last one, for a call that runs tools between its requests.

    Its error may come from a later request, so Executed.NO becomes MAYBE for the whole call.
    """
    attempt = CURRENT.get()
    if attempt.plan is None or attempt.world.is_disabled:
        yield
        return
    attempt.is_last = True
    try:
        yield
    except Exception as error:
        from ..failure import unproven
        from .evidence import failure_in

        failure = failure_in(attempt, error)
        if failure is not None:
            attempt.seen = error, unproven(failure)
        # The surrounding policies see only the error: the refusal of a later request would look
        # like one of the first. So theirs are the last attempts, too, unless they are idempotent.
        around = (attempt.first or attempt).outer
        while around is not None and around.before_of is None:
            if around.plan is not None and not around.plan.idempotent and not around.is_over:
                around.is_last = True
            around = around.outer
        raise


def calls_for(retry: Retry, failure: Failure) -> object:
    """Return the most calls that a Retry makes for a failure: a number, or tenacity's stop.

    None if it does not repeat such a failure.
    """
    from .retry.decision import counter, match

    found = match(retry, failure)
    if not found.is_repeatable:
        return None
    rule = counter(found.rule)
    return retry.attempts if rule is None else rule.attempts


# ---- what an error of it means -----------------------------------------------------------------------------------


def failure_in_call(error: Exception) -> Failure | None:
    """Return the failure of the attempt's error, computed once; None for one like cancellation."""
    from .evidence import failure_in

    return failure_in(CURRENT.get(), error)


def disprove(error: Exception, failure: Failure) -> None:
    """Take the proof from the failure of the attempt's error: the call may have run."""
    from ..failure import unproven

    CURRENT.get().seen = error, unproven(failure)


def stream_broke(protected: Any, error: Exception) -> None:
    """Report that a stream failed after the first item that the function `protected` had returned."""
    from .stream_calls import begin_held, broken_off

    plan = protected.__binding__.plan
    broken_off(plan, begin_held(plan), error)


# ---- work that is not part of the call ----------------------------------------------------------------------------


@contextmanager
def outside() -> Generator[None]:
    """Run work inside the attempt that is not part of its call: its repeats are its own.

    The deadline still applies.
    """
    token = CURRENT.set(outside_of(CURRENT.get()))
    try:
        yield
    finally:
        leave_context(token)


def leave_call() -> None:
    """Leave all calls in this context, for the task of a request whose repeats are its own.

    The deadline still applies.
    """
    around = CURRENT.get()
    CURRENT.set(new_frame(None, None, around.world, around.started, around.deadline_at))


def caller() -> CallFrame | None:
    """Return the frame from which the call in progress was made."""
    attempt = CURRENT.get()
    return (attempt.first or attempt).outer


def frame_with_key() -> CallFrame:
    """Return the attempt in progress, with the idempotency key of the boundary around its call."""
    attempt = CURRENT.get()
    first = attempt.first or attempt
    if first.key is None and first.outer is not None and first.outer.plan is None:
        first.key = first.outer.key
    return attempt


# ---- another world, for tests -------------------------------------------------------------------------------------


def enter_world(world: World) -> Token[CallFrame]:
    """Have the calls that start in this context use `world`; return what `leave_world` needs."""
    around = CURRENT.get()
    edge = new_frame(None, around, world, around.started, around.deadline_at)
    edge.first = around.first or around
    return CURRENT.set(edge)


def leave_world(token: Token[CallFrame], before: CallFrame) -> None:
    """Use the world of before again.

    Also in another context than the one that was entered, as in fixtures: `before` is its frame.
    """
    try:
        CURRENT.reset(token)
    except ValueError:
        CURRENT.set(before)
