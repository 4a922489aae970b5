"""One attempt of a protected call: the engine's record, and what code inside may see, ask and tell.

`CallFrame` is the record, in a context variable. `rb.current_attempt()` is a read-only view of it for
the called function; adapters and tools have the functions below it.

Rule: one context variable holds the whole call context: the attempt in progress, its deadline, its
key, the enclosing attempts, and the world. A call reads it once and sets it once, which keeps the
success path short. Each function acts on the attempt in which its caller runs; outside of a
protected call, and where policies are switched off, it changes nothing that counts. Nobody outside of
this room writes to a frame. Nothing here reads a failure: a test that only sets the time loads no
classifier.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast
from weakref import WeakKeyDictionary, ref

from ..world import REAL, World


if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ..failure import Failure
    from ..values.rule import Rule

    class Planned(Protocol):
        """A policy compiled (`plan.Plan`), as what takes part in its calls reads it."""

        @property
        def layers(self) -> tuple[object, ...]: ...
        @property
        def form(self) -> Form: ...
        @property
        def idempotent(self) -> bool | None: ...
        @property
        def proofs(self) -> Proofs: ...
        @property
        def attempts(self) -> object: ...
        @property
        def limit(self) -> Any: ...

    class Operation(Protocol):
        """What an owner does by a plan (`plan.Operation`), as what takes part in its calls reads it."""

        @property
        def name(self) -> str: ...
        @property
        def key(self) -> str: ...
        @property
        def plan(self) -> Planned: ...


Form: TypeAlias = Literal["async", "sync", "async_stream", "stream", "async_block", "block"]
"""What is protected: an async or sync function, an async or sync generator function, or a block,
which is async or sync.
"""

Proofs: TypeAlias = Literal["none", "request", "all"]
"""Which proofs of the errors that come out of a call hold for the whole call: none, because it is a function of the user's and may have
done other things before; those of the one request that it is; or all, because the callee gives none that does not hold."""


class Inside:
    """What the policies inside of one attempt report to those around it.

    They report how often each operation failed finally, and the most calls that one took. The outer
    policies count inner repeats as used up, so that nested retries do not multiply.
    """

    __slots__ = ("failed", "mark", "most")

    def __init__(self) -> None:
        self.failed: dict[int, int] = {}  # by the id of the operation
        self.most = 0
        self.mark: object = None  # of the last record that an inner call attached to its error


class CallFrame:
    """One attempt as the engine keeps it; `Attempt` is the called function's view of it."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "deadline_at",
        "operation",
        "outer",
        "permit",
        "started",
    )

    # An attempt is made on every call. Whoever makes one sets these five, which have no default: CPython is quick to set a name
    # only if the class does not have it, too.
    # None: not an attempt but the boundary of a context (the outermost one, or a test's)
    operation: Operation | None
    # Removed from the first attempt when its call ends, so that finished calls form no chain.
    outer: CallFrame | None
    started: float
    deadline_at: float | None  # monotonic; inherited, and the earliest counts
    permit: Any  # what the circuit has to be given back; see `slot`

    # All others have their defaults here and are set where they differ, which few calls need.
    number: int = 1
    world: World = REAL
    failure: Failure | None = None
    first: CallFrame | None = None  # the first attempt of the same call; None: this is the first
    is_rejected: bool = False  # a layer did not admit it: nothing was called
    is_called: bool = False  # its function has been called; only the long path sets it
    is_last: bool = False  # the callee cannot be called again: its arguments are used up
    why_last: str = ""  # why, for the note
    is_single: bool = False  # its arguments can be read once only: no other request beside it
    further: int = 0  # requests that a Hedge has sent in it beside the first one
    # monotonic: from then on only what provably did not run is repeated
    may_repeat_until: float | None = None
    # A boundary: a call made from it has a policy, which knows what its errors prove.
    is_protected: bool = False
    # Of a block under a Deadline: whether it runs, the frame that it stands for, and when it began
    # if the deadline is its own.
    is_bounded: bool = False
    around: CallFrame | None = None
    bounded_since: float | None = None
    # Inside of a shared call, whose deadline may grow: all that has inherited it, the outer before the
    # inner, each with what it has it from. `own_deadline` and `timers`: of one with a deadline of its
    # own, up to which it grows, and what ends it then.
    heirs: WeakKeyDictionary[Any, ref[CallFrame]] | None = None
    own_deadline: float | None = None
    timers: Any = None
    before_of: Rule | None = None  # the rule whose `before` runs in this frame
    # on the first attempt: the `Repeats` of this call, once an attempt has failed
    run: Any = None
    own: Any = None  # by the guard of a user's layer that let it in: the view it was shown
    scope: Any = None  # the scope of a call that is traced; on the first one
    waited: float = 0.0  # seconds between attempts; on the first one
    fell_back: bool = False  # a rung of the Fallback has answered; on the first attempt
    calls: int = 1  # what `capture` reads on the boundary that it made
    # the failure that a returned value represents; on the first attempt, and on such a boundary
    answered: Failure | None = None
    answer: Any = None  # that value; on such a boundary
    requests: int = 0  # requests sent inside this attempt, as far as they were counted
    inside: Inside | None = None  # what failed inside of this attempt; see `Inside`
    # What each guard has to give back, None while it has nothing. A policy has every sort of layer once, so one place each is
    # enough; those around the Retry keep theirs on the first attempt.
    slot: Any = None
    # of an adaptive limit: the ticket with the permit that it holds, and what the server's headers
    # have said of a wait
    limit_permit: Any = None
    header_wait: float | None = None
    is_streaming: bool = False  # it has returned a stream, whose end gives the permit back
    # on the first attempt: its ticket once it has been refused, and the call's arguments where the
    # key of its limit may be asked for
    ticket: Any = None
    arguments: Any = None
    # the answer of a shared budget about the latest failed attempt; on the first attempt
    token: Any = None
    seen: tuple[BaseException, Failure | None] | None = None
    key: str | None = None  # see idempotency_key
    # The key handed out: every reader gets the same one, for as long as one of them keeps it.
    view: Callable[[], Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the whole call has ended; a boundary is over when the attempt around it is."""
        first = self.first or self
        if first.operation is None:
            return first.outer is not None and first.outer.is_over
        return first.outer is None

    @property
    def remaining(self) -> float | None:
        """The seconds until the nearest deadline of this call, never negative; None without one."""
        at = self.deadline_at
        return None if at is None else max(0.0, at - self.world.monotonic())

    def inherit(self, around: CallFrame) -> None:
        """Have the deadline of what is around, also when that grows."""
        self.deadline_at, heirs = around.deadline_at, around.heirs
        if heirs is not None:
            self.heirs = heirs
            heirs[self] = ref(around)

    def follow(self, around: CallFrame) -> None:
        """Have the deadline of what is around, which has grown, up to the own one."""
        before, self.deadline_at = self.deadline_at, earlier(around.deadline_at, self.own_deadline)
        if self.timers is not None and before is not None and self.deadline_at is not None:
            self.timers.postpone(self, self.deadline_at - before)

    @property
    def idempotency_key(self) -> str:
        """The call's key, the same on all its attempts: the server recognises a repeat by it."""
        first = self.first or self
        if first.key is None:
            first.key = self.world.new_id()
        return first.key


def new_frame(
    operation: Operation | None,
    outer: CallFrame | None,
    world: World,
    started: float,
    around: CallFrame | None,
) -> CallFrame:
    """Return a new attempt, or without an operation the boundary of a context.

    `around` is what it has its deadline from.
    """
    attempt = CallFrame()
    attempt.operation, attempt.outer, attempt.world = operation, outer, world
    attempt.started, attempt.deadline_at, attempt.permit = started, None, None
    if around is not None:
        attempt.inherit(around)
    return attempt


def earlier(one: float | None, other: float | None) -> float | None:
    """Return the earlier of two deadlines; None is none."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def grown(around: CallFrame) -> None:
    """Have all that inherited the deadline of a shared call follow it: it has grown."""
    heirs = around.heirs
    if heirs is None:
        return
    for found in heirs.keyrefs():  # a copy: other threads may add to it
        heir: Any = found()
        if heir is None:
            continue
        source = heirs.get(heir)
        if source is not None and (outer := source()) is not None:
            heir.follow(outer)


def outside_of(attempt: CallFrame) -> CallFrame:
    """Return a boundary for work that runs inside the attempt but is not part of its call.

    Its repeats are its own; the deadline still applies.
    """
    outer = (attempt.first or attempt).outer
    return new_frame(None, outer, attempt.world, attempt.started, attempt)


ROOT = new_frame(None, None, REAL, 0.0, None)
CURRENT: ContextVar[CallFrame] = ContextVar("resilient_bridge.attempt", default=ROOT)


def leave_context(token: Token[CallFrame]) -> None:
    """Take a frame out of its context.

    The context of an abandoned coroutine, which the garbage collector closes, is gone already.
    """
    with suppress(ValueError):
        CURRENT.reset(token)


def report(first: CallFrame, calls: int) -> None:
    """Report how many times a call has called its function: `capture` reads it on its boundary."""
    edge = first.outer
    if edge is not None and edge.operation is None and edge is not ROOT:
        edge.calls = calls


def inside_of(attempt: CallFrame) -> Inside:
    """Return the record of the calls inside of an attempt."""
    if attempt.inside is None:
        attempt.inside = Inside()
    return attempt.inside


def enclosing(attempt: CallFrame) -> CallFrame | None:
    """Return the attempt or boundary in which the call of this attempt was made."""
    return attempt.outer if attempt.operation is None else (attempt.first or attempt).outer


def mark_around(first: CallFrame, mark: object) -> None:
    """Mark the enclosing attempts: the record with this mark comes from inside of them."""
    around = first.outer
    while around is not None and around is not ROOT:
        if around.operation is not None:
            inside_of(around).mark = mark
        around = enclosing(around)


# ---- nested policies: the innermost retries, and its attempts count for those around it --------


def retries_around(first: CallFrame) -> tuple[CallFrame, ...]:
    """Return the enclosing attempts whose policies have a Retry, the nearest first.

    Their repeats and those of this call are counted together.
    """
    found: list[CallFrame] = []
    around = first.outer
    while around is not None and around.before_of is None:
        operation = around.operation
        if operation is not None and operation.plan.attempts is not None and not around.is_over:
            found.append(around)
        around = enclosing(around)
    return tuple(found)


def largest_cap(attempts: object, around: tuple[CallFrame, ...]) -> int | None:
    """Return the largest `attempts` of nested policies.

    None if there is only one policy, or if tenacity's stop decides.
    """
    if not around or not isinstance(attempts, int):
        return None
    caps = [attempt.operation.plan.attempts for attempt in around if attempt.operation]
    return max([attempts, *(cap for cap in caps if isinstance(cap, int))])


# ---- what the called function sees ------------------------------------------------------------------------------


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
    CURRENT.set(new_frame(None, None, around.world, around.started, around))


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
    edge = new_frame(None, around, world, around.started, around)
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
