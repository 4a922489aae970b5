"""A Deadline around a block: `async with rb.Deadline(5):` and `with rb.Deadline(5):`.

The frame of a block stands for the attempt in which it runs, and differs from it in its deadline
alone: everything that code inside asks or reports goes to the attempt. Calls inside inherit the
deadline as they inherit that of a call around them.

Rule: a deadline is only ever made shorter. An async block is cancelled at its end as a call under
`Deadline` is, by the same timers; a sync one bounds the waits inside, and no call inside starts
after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from ...failure import Executed
from ..frame import CURRENT, ROOT, CallFrame, leave_context, new_frame
from .guard import Timers, deadline_passed, late, timers_of, too_late


if TYPE_CHECKING:
    from contextvars import Token


_OWN: Final = frozenset(
    {
        *("around", "bounded_since", "deadline_at", "is_bounded", "limit", "timed", "timers"),
        *("follow", "idempotency_key", "inherit", "is_over", "remaining", "seconds"),
        *("token_of_context", "view"),
        *("__class__", "__dict__"),
    }
)
"""What a block's frame has of its own; all else is the attempt's."""


class _Run:
    """What the timers know a block by."""

    __slots__ = ("__weakref__", "started")

    def __init__(self, started: float) -> None:
        self.started = started


class BlockFrame(CallFrame):
    """The attempt, or boundary, in which a block runs, with the block's deadline."""

    __slots__ = ("around", "limit", "seconds", "timed", "timers", "token_of_context")

    around: CallFrame | None  # the attempt; None only while it is made
    limit: object  # the Deadline
    seconds: float  # its own
    timed: _Run
    timers: Timers | None  # of an async block
    token_of_context: Token[CallFrame]

    def follow(self, around: CallFrame) -> None:
        """Have the deadline of what is around, which has grown, up to the block's own."""
        if not self.is_bounded:  # it has ended
            self.deadline_at = around.deadline_at
            return
        own, before = self.timed.started + self.seconds, self.deadline_at
        at = own if around.deadline_at is None else min(own, around.deadline_at)
        if before is None or at <= before:
            return
        self.deadline_at = at
        if at == own:
            self.bounded_since = self.timed.started
        if self.timers is not None:
            self.timers.postpone(self.timed, at - before)

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN:
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "around"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.around, name, value)


# Of blocks that are not left yet, for those that are left in another context.
_ENTERED: Final[WeakSet[BlockFrame]] = WeakSet()


def enter(limit: object, seconds: float, *, is_async: bool) -> None:
    """Begin a block. Raises DeadlineExceededError if a deadline around it has passed already."""
    around = CURRENT.get()
    world = around.world
    if world.is_disabled:
        return
    if around is ROOT:  # all contexts share it
        around = new_frame(None, ROOT, world, 0.0, None)
    now = world.monotonic()
    inherited = None if around.is_over else around.deadline_at
    if inherited is not None and inherited <= now:
        raise late()
    frame = BlockFrame()
    frame.around, frame.limit, frame.timed, frame.timers = around, limit, _Run(now), None
    frame.seconds = seconds
    frame.is_bounded, frame.view = True, None
    if inherited is not None:
        frame.inherit(around)
    is_shortest = inherited is None or now + seconds <= inherited
    frame.deadline_at = now + seconds if is_shortest else inherited
    frame.bounded_since = now if is_shortest else None
    if is_async:
        rest = seconds if inherited is None else min(seconds, inherited - now)
        frame.timers = timers_of("block", seconds) if is_shortest else Timers(rest)
        frame.timers.enter(frame.timed, world)
    frame.token_of_context = CURRENT.set(frame)
    _ENTERED.add(frame)


def leave(limit: object, error: BaseException | None) -> None:
    """End the last block of this Deadline that was begun in this context.

    Raises DeadlineExceededError in the place of a cancellation that was its own.
    """
    frame = _last_of(limit)
    if frame is None:  # policies were disabled where it began
        return
    _ENTERED.discard(frame)
    leave_context(frame.token_of_context)
    try:
        timers, is_late = frame.timers, False
        if timers is not None:
            is_late = timers.leave(frame.timed, error)
            if timers.seconds < frame.seconds:  # for what is left of another deadline, so its alone
                timers.close()
        if is_late and frame.bounded_since is not None:
            raise too_late(frame.seconds, Executed.MAYBE, error)
        if is_late:
            passed = deadline_passed(frame)
            passed.__cause__ = error
            raise passed
    finally:
        # A task that outlives the block is outside of it.
        outside = frame.around
        frame.deadline_at = None if outside is None else outside.deadline_at
        frame.bounded_since, frame.is_bounded = None, False
        del frame, error  # an error must not be held by a frame that it holds


def _last_of(limit: object) -> BlockFrame | None:
    frame: CallFrame | None = CURRENT.get()
    while frame is not None:
        if not isinstance(frame, BlockFrame):
            frame = frame.outer
        elif frame.limit is limit and frame.is_bounded:
            return frame
        else:
            frame = frame.around
    return next((each for each in _ENTERED if each.limit is limit), None)
