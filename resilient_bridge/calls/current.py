"""What code inside of a protected call may see, ask, and tell the engine: a function, an adapter, a tool.

`rb.current_attempt()` is a read-only view of an attempt; the engine's own record is
`frame.CallFrame`.

Rule: each function acts on the attempt in which its caller runs. Outside of a protected call, and
where policies are switched off, it changes nothing that counts. Nobody outside of this room writes
to a frame. What reads failures is imported by the functions that ask for one: a test that only sets
the time loads no classifier.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

from .frame import CURRENT, ROOT, enclosing, leave_context, new_frame, outside_of, retries_around


if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextvars import Token

    from ..failure import Failure
    from ..world import World
    from .frame import CallFrame
    from .retry.value import Retry


class Attempt:
    """The current attempt, as the called function sees it. Read-only.

        @rb.resilient(idempotent=True)
        def order(item: str) -> str:
            attempt = rb.current_attempt()      # .idempotency_key is the same in each attempt
            return f"{item}: attempt {attempt.number}"
        print(order("book"))      # book: attempt 1

    `number` counts calls from 1. `failure` is how the previous attempt failed, None on the first;
    in a schedule, it is how this attempt failed.
    """

    __slots__ = ("__weakref__", "_failure", "_frame")

    def __init__(self, frame: CallFrame) -> None:
        """Create the view; only this package does."""
        self._frame = frame
        self._failure: Failure | None = None
        frame.view = ref(self)

    @property
    def number(self) -> int:
        """The number of this attempt, from 1."""
        return self._frame.number

    @property
    def failure(self) -> Failure | None:
        """How the previous attempt failed, None on the first; in a schedule, how this one did."""
        return self._failure or self._frame.failure

    @property
    def remaining(self) -> float | None:
        """The seconds until the nearest deadline of this call, never negative; None without one."""
        return self._frame.remaining

    @property
    def idempotency_key(self) -> str:
        """The call's key, the same on all its attempts: the server recognises a repeat by it."""
        return self._frame.idempotency_key

    def __repr__(self) -> str:
        """Return the number and the time left."""
        remaining = self.remaining
        return f"<Attempt {self.number}{'' if remaining is None else f', {remaining:.1f} s left'}>"


def current_attempt() -> Attempt | None:
    """Return the attempt this code runs in, None outside of a protected call.

        @rb.resilient(idempotent=True)
        def fetch() -> int:
            return rb.current_attempt().number
        print(fetch())      # 1

    A task that outlives the call that started it is outside again.
    """
    frame = CURRENT.get()
    if frame.operation is None or frame.is_over:
        return None
    return view_of(frame)


def view_of(frame: CallFrame) -> Attempt:
    """Return the view of an attempt; every reader gets the same one, as long as one keeps it."""
    seen: Any = None if frame.view is None else frame.view()
    return cast("Attempt | None", seen) or Attempt(frame)


def ask_schedule(schedule: Callable[[Attempt], Any], frame: CallFrame, failure: Failure) -> Any:
    """Return the answer of a user's schedule for an attempt that has just ended in `failure`.

    A view that is kept does not keep the failure alive: it would hold the error and all its frames.
    """
    view = Attempt(frame)
    view._failure = failure  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    try:
        return schedule(view)
    finally:
        view._failure = None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


# ---- for adapters and tools ----------------------------------------------------------------------


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


def keep_arguments(*args: Any) -> None:
    """Note the arguments of the call in progress, from which the key of its adaptive limit follows.

    For a call that may have taken the short path, which keeps none.
    """
    attempt = CURRENT.get()
    first = attempt.first or attempt
    if first.arguments is None:
        first.arguments = args, {}


def keep_permit() -> Callable[[], None] | None:
    """Keep the permit of the adaptive limit until a stream ends that the call has begun.

    Return what gives it back, to be called once or more; None if the call has no permit.
    """
    attempt = CURRENT.get()
    if attempt.limit_permit is None or attempt.operation is None:
        return None
    ended: Callable[[], None] | None = attempt.operation.plan.limit.stream(attempt)
    return ended


def hear_quota(headers: object, *, is_refused: bool) -> None:
    """Note what the headers of an answer say of a quota that is used up.

    The adaptive limit of the call in progress then waits for it. Where nothing is limited, only those
    of a refusal are read.
    """
    attempt = CURRENT.get()
    if attempt.limit_permit is None and not is_refused:
        return
    guard: Any = None if attempt.operation is None else attempt.operation.plan.limit
    if guard is not None:
        guard.hear(attempt, headers, is_refused=is_refused)


def is_retried_around() -> bool:
    """Return whether the code that runs is inside of an attempt of a policy with a Retry."""
    around = CURRENT.get()
    return around is not ROOT and (
        (around.operation is not None and around.operation.plan.attempts is not None)
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


def forbid_hedge() -> None:
    """Have no further request run beside that of the attempt in progress."""
    CURRENT.get().is_single = True


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
    if attempt.operation is None or attempt.world.is_disabled:
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
            operation = around.operation
            if operation is not None and not operation.plan.idempotent and not around.is_over:
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
    if first.key is None and first.outer is not None and first.outer.operation is None:
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
