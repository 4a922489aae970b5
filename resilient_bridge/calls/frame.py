"""The engine's record of one attempt of a protected call, and the context variable that holds it.

Rule: one context variable holds the whole call context: the attempt in progress, its deadline, its
key, the enclosing attempts, and the world. A call reads it once and sets it once, which keeps the
success path short.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from ..world import REAL, World


if TYPE_CHECKING:
    from collections.abc import Callable

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

    def extend(self, before: float, deadline_at: float | None) -> None:
        """Move a deadline that was inherited: who inherits it has more time now."""
        for each in (self, self.first):
            if each is not None and each.deadline_at == before:
                each.deadline_at = deadline_at

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
    deadline_at: float | None,
) -> CallFrame:
    """Return a new attempt, or without an operation the boundary of a context."""
    attempt = CallFrame()
    attempt.operation, attempt.outer, attempt.world = operation, outer, world
    attempt.started, attempt.deadline_at, attempt.permit = started, deadline_at, None
    return attempt


def outside_of(attempt: CallFrame) -> CallFrame:
    """Return a boundary for work that runs inside the attempt but is not part of its call.

    Its repeats are its own; the deadline still applies.
    """
    outer = (attempt.first or attempt).outer
    return new_frame(None, outer, attempt.world, attempt.started, attempt.deadline_at)


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
