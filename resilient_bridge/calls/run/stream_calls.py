"""Generator functions, sync and async: protected up to their first item, committed from then on.

Rule: an item that was handed out is never handed out again. Until the first one a stream is a call like any other, with every
layer; after it a failure is raised as it comes, the circuit hears of it, and nothing is repeated. A Bulkhead holds its place
until the stream ends, and a Deadline goes on (`stream_limits`).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ...errors import DeadlineExceededError, Executed, Record, attach
from ..evidence import failure_in
from ..finished import stream_finished
from ..first_item import StartedStream, starting, starting_async
from ..frame import CURRENT, CallFrame
from ..frame import new_frame as begin_attempt
from ..timeout.stream_limits import NO_LIMITS
from ..tracing import open_scope, within
from .attempt_result import exit_layers
from .runners import protect_async, protect_sync


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from ..guards import Guard
    from ..tracing import CallScope
    from .binding import Binding
    from .plan import Plan


_NOTE = "not repeated: items had been handed out"


def protect_stream(function: Callable[..., Any], binding: Binding) -> Callable[..., Any]:
    """Return a generator function behind the layers of `binding`."""

    begin: Any = protect_sync(starting(function), binding)

    def stream(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        plan = _plan_in_force(binding, begin, attributes["policy"])
        held = begin_held(plan)
        scope = None if held.world.is_disabled else open_scope(plan)
        opened: StartedStream | None = None
        ending: BaseException | None = None
        try:
            for guard in _held_guards(plan, held):
                if (turn := guard.enter(held)) is not None:
                    turn.block()
            with within(scope):
                opened = started = cast("StartedStream", begin(*args, **kwargs))
            if started.is_empty:
                return started.returned
            returned = yield from _rest(started)
        except BaseException as error:
            ending = error
            if opened is not None and isinstance(error, Exception):
                broken_off(plan, held, error)
            raise
        finally:
            _let_go(plan, held)
            _finished(plan, held, opened, ending, scope)
            del ending  # an error must not be held by a frame that it holds
        return returned

    attributes = stream.__dict__
    attributes["policy"] = binding.plan.policy
    return stream


def _rest(started: StartedStream) -> Generator[Any, Any, Any]:
    """Hand on the first item, then everything else, in both directions."""
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
        close = getattr(items, "close", None)  # an iterator that is no generator may have none
        if close is not None:
            close()
        raise


def protect_async_stream(  # noqa: C901, PLR0915 -- `yield from` does not exist for async generators
    function: Callable[..., Any], binding: Binding
) -> Callable[..., Any]:
    """Return an async generator function behind the layers of `binding`."""

    begin: Any = protect_async(starting_async(function), binding)

    async def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:  # noqa: C901, PLR0912, PLR0915 -- see above
        plan = _plan_in_force(binding, begin, attributes["policy"])
        held = begin_held(plan)
        scope = None if held.world.is_disabled else open_scope(plan)
        opened: StartedStream | None = None
        ending: BaseException | None = None
        try:
            for guard in _held_guards(plan, held):
                if (turn := guard.enter(held)) is not None:
                    await turn.suspend()
            with within(scope):
                opened = started = cast("StartedStream", await begin(*args, **kwargs))
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
        except BaseException as error:
            ending = error
            if opened is not None and isinstance(error, Exception):
                broken_off(plan, held, error)
            raise
        finally:
            _let_go(plan, held)
            _finished(plan, held, opened, ending, scope)
            del ending  # an error must not be held by a frame that it holds

    attributes = stream.__dict__
    attributes["policy"] = binding.plan.policy
    return stream


def _finished(
    plan: Plan,
    held: CallFrame,
    opened: StartedStream | None,
    ending: BaseException | None,
    scope: CallScope | None,
) -> None:
    """Report the end of a stream: in its scope, which is over then."""
    if opened is not None:
        with within(scope):
            stream_finished(plan, held, opened.attempts, opened.waited, ending)
    if scope is not None:
        scope.close()


def _plan_in_force(binding: Binding, begin: Any, policy: object) -> Plan:
    """Return the plan of the policy that stands on the function now, for the whole of this stream."""
    begin.policy = policy
    return binding.plan if binding.plan.policy is policy else binding.adopt(policy)


def begin_held(plan: Plan) -> CallFrame:
    """Return where the layers that last as long as the stream keep what they took."""
    around = CURRENT.get()
    return begin_attempt(plan, around, around.world, around.world.monotonic(), around.deadline_at)


def _held_guards(plan: Plan, held: CallFrame) -> tuple[Guard, ...]:
    return () if held.world.is_disabled else plan.held


def broken_off(plan: Plan, held: CallFrame, error: Exception) -> None:
    """A stream failed after its first item: the circuit has to hear of it, and the reader why it was not repeated."""
    failure = failure_in(held, error)
    held.seen = None
    if failure is None or held.world.is_disabled:
        return
    says_nothing = issubclass(type(error), DeadlineExceededError)  # the caller's time is up
    for guard in plan.guards:
        if not says_nothing:
            guard.broke_off(held, error, failure)
    record = Record(executed=Executed.MAYBE, crossed=0 if plan.proofs != "none" else 1)
    if plan.retry is not None:
        record = record._replace(stopped="not_idempotent", note=_NOTE)
    if attach(error, record) and record.note:
        with suppress(Exception):  # a frozen exception takes no note
            error.add_note(_NOTE)


def _let_go(plan: Plan, held: CallFrame) -> None:
    exit_layers(plan.held, held, None)
