"""Generator functions, sync and async: repeatable up to their first item, and not after it.

Rule: no item is handed out twice. Until the first one, a stream is a call like any other, with
every layer. After it, a failure is raised as it is and reported to the circuit, and nothing is
repeated. A Bulkhead keeps its permit until the stream ends, and a Deadline continues
(see `stream_items`).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ..failure import DeadlineExceededError, Executed, Record, attach
from .decision import failure_in
from .engine import protect_async
from .engine_sync import protect_sync
from .finished import stream_finished
from .frame import CURRENT, CallFrame
from .frame import new_frame as begin_attempt
from .repeats import exit_layers
from .stream_items import NO_LIMITS, StartedStream, starting, starting_async
from .tracing import open_scope, within


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from types import TracebackType
    from typing import Self

    from .binding import Binding
    from .guards import Wait
    from .plan import Operation, Plan


_NOTE = "not repeated: items had been handed out"


class _Stream:
    """A stream from start to end: what its layers hold, and what is reported at the end."""

    __slots__ = ("held", "opened", "operation", "scope")

    def __init__(self, binding: Binding, begin: Any, policy: object) -> None:
        # The policy in force on the function now, for the whole of this stream.
        begin.policy = policy
        self.operation = binding.operation
        if self.operation.policy is not policy:
            self.operation = binding.adopt(policy)
        self.held = _begin_held(self.operation)
        self.scope = None if self.held.world.is_disabled else open_scope(self.operation)
        self.opened: StartedStream | None = None

    def waits(self) -> Generator[Wait, None, None]:
        """Enter the layers that last as long as the stream; yield the waits."""
        for guard in () if self.held.world.is_disabled else self.operation.plan.held:
            if (wait := guard.enter(self.held)) is not None:
                yield wait

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        opened = self.opened
        if opened is not None and opened.release is not None:
            opened.release()
        if opened is not None and isinstance(error, Exception):
            _broken_off(self.operation.plan, self.held, error)
        exit_layers(self.operation.plan.held, self.held, None)
        if opened is not None:
            with within(self.scope):
                stream_finished(self.operation, self.held, opened.attempts, opened.waited, error)
        if self.scope is not None:
            self.scope.close()


def _of_call(
    binding: Binding, policy: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Binding:
    """Return the binding of a stream: that of its key, if its policy has key functions."""
    operation = binding.operation
    if operation.policy is not policy:
        operation = binding.adopt(policy)
    if operation.by_key is None or CURRENT.get().world.is_disabled:
        return binding
    own: Binding = operation.by_key.of(args, kwargs)
    return own


def protect_stream(function: Callable[..., Any], binding: Binding) -> Callable[..., Any]:
    """Return a generator function behind the layers of `binding`."""

    begin: Any = protect_sync(starting(function), binding)

    def stream(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        own, start = _of_call(binding, attributes["policy"], args, kwargs), begin
        if own is not binding:
            start = protect_sync(starting(function), own)
        with _Stream(own, start, attributes["policy"]) as this:
            for wait in this.waits():
                wait.block()
            with within(this.scope):
                this.opened = started = cast("StartedStream", start(*args, **kwargs))
            return started.returned if started.is_empty else (yield from _rest(started))

    attributes = stream.__dict__
    attributes["policy"] = binding.operation.policy
    return stream


def _rest(started: StartedStream) -> Generator[Any, Any, Any]:
    """Pass on the first item, then all others, in both directions."""
    items, item, limits = started.items, started.item, started.limits
    try:
        while True:
            try:
                sent = yield item
            except GeneratorExit:
                items.close()
                raise
            except BaseException as error:  # noqa: BLE001 -- it is the generator's to handle
                item = items.throw(error)
            else:
                pull = partial(next, items) if sent is None else partial(items.send, sent)
                item = pull() if limits is NO_LIMITS else limits.next(pull)
    except StopIteration as end:
        return end.value
    except DeadlineExceededError:
        close = getattr(items, "close", None)  # an iterator that is no generator may not have one
        if close is not None:
            close()
        raise


def protect_async_stream(function: Callable[..., Any], binding: Binding) -> Callable[..., Any]:
    """Return an async generator function behind the layers of `binding`."""

    begin: Any = protect_async(starting_async(function), binding)

    async def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        own, start = _of_call(binding, attributes["policy"], args, kwargs), begin
        if own is not binding:
            start = protect_async(starting_async(function), own)
        with _Stream(own, start, attributes["policy"]) as this:
            for wait in this.waits():
                await wait.suspend()
            with within(this.scope):
                this.opened = started = cast("StartedStream", await start(*args, **kwargs))
            if started.is_empty:
                return
            items, item, limits = started.items, started.item, started.limits
            try:
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await items.aclose()
                        raise
                    except BaseException as error:  # noqa: BLE001 -- it is the generator's to handle
                        item = await items.athrow(error)
                    else:
                        if limits is NO_LIMITS:
                            item = await items.asend(sent)
                        else:
                            item = await limits.item(partial(items.asend, sent))
            except StopAsyncIteration:
                return
            except DeadlineExceededError:
                await items.aclose()
                raise

    attributes = stream.__dict__
    attributes["policy"] = binding.operation.policy
    return stream


def _begin_held(operation: Operation) -> CallFrame:
    """Return the frame that holds what the layers lasting as long as the stream acquired."""
    around = CURRENT.get()
    return begin_attempt(operation, around, around.world, around.world.monotonic(), around)


def stream_broke(protected: Any, error: Exception) -> None:
    """Report that a stream failed after the first item that the function `protected` had returned."""
    operation = protected.__binding__.operation
    _broken_off(operation.plan, _begin_held(operation), error)


def _broken_off(plan: Plan, held: CallFrame, error: Exception) -> None:
    """Report a failure after the first item to the circuit; note why nothing is repeated."""
    failure = failure_in(held, error)
    held.seen = None
    if failure is None or held.world.is_disabled:
        return
    # the caller's own deadline has passed
    says_nothing = issubclass(type(error), DeadlineExceededError)
    for guard in plan.guards:
        if not says_nothing:
            guard.broke_off(held, error, failure)
    record = Record(executed=Executed.MAYBE, crossed=0 if plan.proofs != "none" else 1)
    if plan.retry is not None:
        record = record._replace(stopped="not_idempotent", note=_NOTE)
    if attach(error, record) and record.note:
        with suppress(Exception):  # a frozen exception cannot take a note
            error.add_note(_NOTE)
