"""One call for all callers of its key, and the copy of its answer that each of them gets.

The call runs in a task of its own, in a context in which nothing is set but the world and the
deadline. So it belongs to none of its callers: who started it may be cancelled, and no variable of
one of them (a tenant, a span, an attempt) is seen by what answers all of them.

Rules:

- The call is cancelled with its last caller, which waits until it has ended.
- No call waits for one that waits for it, however many are between them: it is made then.
- Nothing is aliased: what is cached is never handed out, each caller gets a copy. An answer that
  cannot be copied, or has to be closed, is refused.
- Only a success is cached. Only where a repeat could help, an old answer takes the place of a failure.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from contextlib import suppress
from contextvars import Context, ContextVar
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary, ref

import attrs

from ... import events
from ...failure import (
    Executed,
    Record,
    RejectedError,
    attach,
    changed,
    config_error,
    failure_or_none,
    record_of,
)
from ...failure.failure import PLAIN
from ...telemetry import emit
from ...telemetry.hub import HUB
from ...transports.event_loop import running_loop
from ...world import WORLD
from ..evidence import keep
from ..frame import CURRENT, enclosing, grown, inside_of, new_frame, retries_around
from ..keys import asked_key
from .state import Answers, Cached


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...failure import Failure
    from ...failure.classifier import Reading
    from ..frame import CallFrame
    from .value import Share


_IMMUTABLE: Final = frozenset({str, bytes, int, float, bool, complex, type(None)})


@attrs.frozen
class Answer:
    """What is known of the answer that a shared call has just given; see `current_answer`.

        async def age_of(query: str) -> float:
            await search(query)
            answer = rb.calls.current_answer()
            return answer.age if answer.stale else 0.0

    `stale` says that it is an old one, in the place of `failure`; `age` is its age in seconds.
    """

    stale: bool
    age: float
    failure: Failure | None = None


_ANSWER: ContextVar[Answer | None] = ContextVar("resilient_bridge.answer", default=None)


def current_answer() -> Answer | None:
    """Return what is known of the last answer that a Share gave in this task; None before one.

        async def newest(tenant: str) -> str:
            found = await search(tenant, "x")
            answer = rb.calls.current_answer()
            return f"{found}, {answer.age:.0f} s old" if answer.stale else f"{found}"

    Read it directly after the call.
    """
    return _ANSWER.get()


class Flight:
    """One call under way: its task, its context, how many callers it has, their longest deadline."""

    __slots__ = ("awaited", "boundary", "callers", "context", "is_cancelling", "task")

    def __init__(self, caller: CallFrame) -> None:
        self.callers = 0
        self.awaited: list[Flight] = []  # what it waits for itself
        self.is_cancelling = False  # by its last caller, which waits for its end
        self.boundary = new_frame(None, None, caller.world, caller.started, None)
        self.boundary.deadline_at = caller.deadline_at
        self.boundary.heirs = None if caller.deadline_at is None else WeakKeyDictionary()
        # Inside of a call that holds a permit of an adaptive limit none of that limit is waited for.
        around: CallFrame | None = caller
        while around is not None and self.boundary.limit_permit is None:
            self.boundary.limit_permit = around.limit_permit
            around = enclosing(around)
        self.context = Context()
        self.context.run(WORLD.set, WORLD.get())
        self.context.run(CURRENT.set, self.boundary)
        self.context.run(_AROUND.set, self)
        self.task: asyncio.Task[Any]

    @property
    def is_open(self) -> bool:
        """Whether a caller may join: it has not ended, and is not about to be cancelled."""
        return self.callers > 0 and not (self.is_cancelling or self.task.done())

    def waits_for(self, other: Flight) -> bool:
        """Return whether it cannot end before the other one does."""
        pending, seen = [self], set[int]()
        while pending:
            flight = pending.pop()
            if flight is other:
                return True
            if id(flight) not in seen:
                seen.add(id(flight))
                pending += flight.awaited
        return False

    def follow(self, caller: CallFrame) -> None:
        """Take as long as a caller has: the one with the most time decides."""
        before, deadline_at = self.boundary.deadline_at, caller.deadline_at
        if before is not None and (deadline_at is None or deadline_at > before):
            self.boundary.deadline_at = deadline_at
            grown(self.boundary)

    def leave(self) -> None:
        """Count a caller that is done with it."""
        self.callers -= 1
        if self.callers == 0:
            # One holds an error, which holds a frame that holds this; the other holds this itself.
            del self.task, self.context

    async def ended(self) -> None:
        """Wait for the end of the call, as one of its callers; the last one cancels it."""
        try:
            await asyncio.wait([self.task])
        except CancelledError:
            if self.callers == 1:
                self.is_cancelling = True
                self.task.cancel()
                while not self.task.done():
                    with suppress(CancelledError):
                        await asyncio.wait([self.task])
            raise


_AROUND: ContextVar[Flight | None] = ContextVar("resilient_bridge.shared_call", default=None)


class Sharing:
    """The Share of one plan."""

    __slots__ = ("layer", "reading")

    def __init__(self, layer: Share, reading: Reading) -> None:
        self.layer = layer
        self.reading = reading

    def __call__(
        self,
        operation: Any,
        function: Callable[..., Awaitable[Any]],
        discarded: Callable[[Any], Awaitable[None]],
    ) -> Callable[..., Awaitable[Any]]:
        """Return what a caller calls: the call of its key, with all other callers of that key.

        `function` has the layers inside of the Share; `discarded` closes an answer nobody reads.
        """
        call = _Call(self, operation, function, discarded)
        return call.made


class _Call:
    """One caller's call."""

    __slots__ = (
        "__weakref__",
        "answers",
        "discarded",
        "flight",
        "function",
        "layer",
        "operation",
        "reading",
    )

    def __init__(
        self,
        sharing: Sharing,
        operation: Any,
        function: Callable[..., Awaitable[Any]],
        discarded: Callable[[Any], Awaitable[None]],
    ) -> None:
        self.layer = sharing.layer
        self.reading = sharing.reading
        self.operation = operation
        self.answers: Answers = operation.states.owned("share", Answers)
        self.function = function
        self.discarded = discarded

    async def made(self, *args: Any, **kwargs: Any) -> Any:
        """Return a copy of the answer of this key: a fresh one, or that of the call under way."""
        frame, layer = CURRENT.get(), self.layer
        _ANSWER.set(None)
        key = asked_key(layer.key, "Share", args, kwargs)
        world = frame.world
        now = world.monotonic()
        cached = self.answers.find(key, layer.fresh_for, now, world.monotonic)
        if cached is not None:
            return self._answered(cached, now - cached.at, "fresh", None)
        loop = running_loop("Share")
        slot = loop, world.monotonic, key
        flight: Flight | None = self.answers.flights.get(slot)
        around = _AROUND.get()
        if flight is not None and around is not None and flight.waits_for(around):
            return await self.function(*args, **kwargs)  # both would wait for ever
        joins = flight is not None and flight.is_open
        if flight is None or not joins:
            # listed before it starts: a task may run at once
            flight = self.answers.flights[slot] = Flight(frame)
            flight.task = loop.create_task(
                self._flown(slot, flight, args, kwargs), context=flight.context, name="share"
            )
        flight.callers += 1
        self.flight = flight
        heirs = frame.heirs  # inside of another shared call, whose deadline may grow
        awaited = [] if around is None else around.awaited
        awaited.append(flight)
        try:
            flight.follow(frame)
            if heirs is not None:
                heirs[self] = ref(frame)
            await flight.ended()
            return self._landed(flight, frame, key, joins=joins)
        finally:
            if heirs is not None:  # a Fallback may still be tried, with nothing to follow
                heirs.pop(self, None)
            awaited.remove(flight)
            flight.leave()
            del self.flight

    def follow(self, caller: CallFrame) -> None:
        """Have the call take as long as this caller, whose deadline has grown."""
        self.flight.follow(caller)

    async def _flown(
        self, slot: Any, flight: Flight, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Cached:
        """Make the call, in its own task; keep its answer if it is a success."""
        *_, key = slot
        monotonic = flight.boundary.world.monotonic
        try:
            result = await self.function(*args, **kwargs)
            try:
                cached = Cached(self._original(result), monotonic(), monotonic)
            except BaseException:
                await self.discarded(result)
                raise
            if self._failure_of(cached.answer) is None:
                self.answers.keep(self.layer, key, cached)
            return cached
        finally:
            if self.answers.flights.get(slot) is flight:
                del self.answers.flights[slot]

    def _original(self, result: Any) -> Any:
        """Return what is cached of an answer: a copy, so that the function may go on with its own."""
        if type(result) in _IMMUTABLE:
            return result
        wanted = "an answer that can be copied: each caller gets one of its own"
        kind = cast("Any", type(result))
        for mark in ("__next__", "__anext__", "__await__", "aclose", "close"):
            if hasattr(kind, mark):
                raise self._refusal(wanted, result)
        try:
            return deepcopy(result)
        except Exception as error:
            raise self._refusal(wanted, result) from error

    def _refusal(self, wanted: str, result: Any) -> Exception:
        got, write = type(result).__name__, "rb.Policy(rb.Retry())"
        error = config_error(f"Share on {self.operation.name}", wanted, got, write=write)
        attach(error, Record(executed=Executed.MAYBE))  # the function has been called
        return error

    def _failure_of(self, answer: Any) -> Failure | None:
        plain, read = self.reading
        return None if type(answer) in plain or type(answer) in PLAIN else read(answer)

    # ---- what a caller gets ---------------------------------------------------------------------

    def _landed(self, flight: Flight, frame: CallFrame, key: object, *, joins: bool) -> Any:
        """Return what the call ended in, to one of its callers; or an old answer instead."""
        task = flight.task
        if task.cancelled():
            raise CancelledError
        error, failure, now = task.exception(), None, frame.world.monotonic()
        try:
            if error is None:
                cached: Cached = task.result()
                failure = self._failure_of(cached.answer)
                old = self._instead(failure, key, frame)
                if old is None:
                    return self._answered(cached, now - cached.at, "joined" if joins else "", None)
            else:
                failure = failure_or_none(error) if isinstance(error, Exception) else None
                old = self._instead(
                    failure, key, frame, is_rejected=isinstance(error, RejectedError)
                )
                if old is None:
                    raise self._own(error, flight, frame, is_first=not joins)
            return self._answered(old, now - old.at, "stale", failure)
        finally:
            del task  # an error must not be held by a frame that it holds
            error = failure = None

    def _instead(
        self, failure: Failure | None, key: object, frame: CallFrame, *, is_rejected: bool = False
    ) -> Cached | None:
        """Return the old answer that takes the place of a failure that passes; None for none."""
        if failure is None or not (failure.retryable or is_rejected):
            return None
        monotonic = frame.world.monotonic
        return self.answers.find(key, self.layer.stale_for, monotonic(), monotonic)

    def _answered(self, cached: Cached, age: float, how: Any, failure: Failure | None) -> Any:
        """Return a caller's copy of an answer, and say where it comes from."""
        known = None if failure is None else changed(failure, cause=None)  # it holds its frames
        _ANSWER.set(Answer(stale=how == "stale", age=age, failure=known))
        if how and (HUB.listening or how == "stale"):
            name = self.operation.name
            emit(events.AnswerShared(name=name, how=how, age=age, failure=failure))
        answer = cached.answer
        return answer if type(answer) in _IMMUTABLE else deepcopy(answer)

    def _own(
        self, error: BaseException, flight: Flight, frame: CallFrame, *, is_first: bool
    ) -> BaseException:
        """Return the error for one caller: the first one's is the call's, each other has a copy."""
        own, record = error if is_first else _copied(error), record_of(error)
        calls = flight.boundary.calls
        for around in retries_around(frame.first or frame):
            # what was repeated in the call counts for the policies around each of its callers
            inside = inside_of(around)
            inside.failed[id(self.operation)] = inside.failed.get(id(self.operation), 0) + calls
            inside.most = max(inside.most, inside.failed[id(self.operation)])
        if record is not None:
            keep(frame.first or frame, frame, own, record)
        return own


def _copied(error: BaseException) -> BaseException:
    """Return a copy of an error with its causes and notes; the error itself if it cannot be copied."""
    try:
        own = copy(error)
        if type(own) is not type(error) or own.args != error.args:
            return error
        own.__cause__, own.__context__ = error.__cause__, error.__context__
        own.__suppress_context__ = error.__suppress_context__
        if hasattr(error, "__notes__"):
            own.__notes__ = list(error.__notes__)
        return own.with_traceback(error.__traceback__)
    except Exception:  # noqa: BLE001 -- of the user's class: whatever it raises, it is no copy
        return error
