"""The time limit of a tool.

An async tool runs in a task of its own, a sync one in a thread, so that the caller returns in time.

Rule: a thread cannot be stopped, and a task may ignore its cancellation. Either is abandoned: it is
referenced until it ends, its result is ignored, and an event reports it. A tool sees the context
variables of its caller; its own changes to them do not reach the caller.

A limit is a tuple of steps of one attempt, usually one. At each step but the last (2, 5, 30 s)
ToolPending is emitted, and the same execution continues.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import wait
from contextvars import copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ... import events
from ...calls.ports import caller, deadline_passed, frame_with_key, settled
from ...failure import AttemptTimeoutError, Executed, Failure, Kind, classify
from ...telemetry import emit
from ...values.fields import LONGEST
from ...world.signal import Signal
from ...world.threads import TOOL_THREADS
from .tool_arguments import ANEW


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ...world import World

    # gets the number of an attempt, returns the ends of its steps
    Limit: TypeAlias = Callable[[int], tuple[float, ...]]


GRACE: Final = 1.0
"""Seconds a cancelled tool has to clean up before it is abandoned."""

# the loop holds tasks weakly: an unreferenced one may be collected halfway
_abandoned: set[asyncio.Future[Any]] = set()


class _TaskEnd(NamedTuple):
    """The result of a tool, or its error as a value.

    An exception of a task that nobody awaits would be logged by asyncio.
    """

    value: Any
    error: BaseException | None

    def result(self) -> Any:
        if self.error is None:
            return self.value
        try:
            raise self.error
        finally:
            del self  # an error must not be held by a frame that it holds


def bound_async(
    function: Callable[..., Awaitable[Any]], *, limit: Limit, name: str, grace: float = GRACE
) -> Callable[..., Any]:
    """Return the async `function` bounded by `limit`.

    Once cancelled, it has `grace` seconds to end.
    """

    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        attempt = frame_with_key()
        args, kwargs = _arguments(args, kwargs)
        if attempt.world.is_disabled:
            return await function(*args, **kwargs)
        steps = limit(attempt.number)
        task = asyncio.ensure_future(_ended(function, args, kwargs))
        try:
            if await _is_done_in_steps(task, attempt.world, steps, name):
                return task.result().result()
            await _let_go(task, attempt.world, name, max(steps), grace)
            raise timed_out(steps, _error_of(task))
        except asyncio.CancelledError as cancelled:
            if not task.done() and task not in _abandoned:
                await _let_go(
                    task, attempt.world, name, attempt.world.monotonic() - attempt.started, grace
                )
            # shown with the error of a deadline
            cancelled.__cause__ = cancelled.__cause__ or _error_of(task)
            raise
        except GeneratorExit:  # the coroutine was closed: nothing can be awaited
            if not task.get_loop().is_closed():
                _keep(task)
                task.cancel()
            raise
        finally:
            del task  # it holds the error that holds this frame

    return call


def bound_in_thread(function: Callable[..., Any], *, limit: Limit, name: str) -> Callable[..., Any]:
    """Return the sync `function` as an async one that runs it in a thread, bounded by `limit`."""

    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        attempt = frame_with_key()
        args, kwargs = _arguments(args, kwargs)
        steps = (LONGEST,) if attempt.world.is_disabled else limit(attempt.number)
        context = copy_context()
        work = asyncio.get_running_loop().run_in_executor(
            TOOL_THREADS, lambda: context.run(_ended_sync, function, args, kwargs)
        )
        try:
            if await _is_done_in_steps(work, attempt.world, steps, name):
                return settled(function, work.result().result())
            _tell_thread(name, max(steps))
            raise timed_out(steps, None)
        except (asyncio.CancelledError, GeneratorExit):
            if not work.done():
                _tell_thread(name, attempt.world.monotonic() - attempt.started)
            raise
        finally:
            work.cancel()  # its result is ignored
            del work  # it holds the error that holds this frame

    return call


def bound_sync(function: Callable[..., Any], *, limit: Limit, name: str) -> Callable[..., Any]:
    """Return the sync `function` bounded by `limit` and by the deadline of its caller.

    It runs in a thread.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        attempt = frame_with_key()
        if attempt.world.is_disabled:
            return function(*args, **kwargs)
        steps, remaining = limit(attempt.number), attempt.remaining
        is_last = remaining is not None and remaining < max(steps)
        if remaining is not None and is_last:
            steps = (*(step for step in steps if step < remaining), remaining)
        work = attempt.world.call_in_thread(
            partial(copy_context().run, partial(_ended_sync, function, args, kwargs)), "tool"
        )
        try:
            for waited, step in _waits(steps):
                if wait([work], step - waited).done:
                    return work.result().result()
                _tell_pending(name, step, steps)
        finally:
            del work  # it holds the error that holds this frame
        _tell_thread(name, steps[-1])
        raise deadline_passed(attempt) if is_last else timed_out(steps, None)

    return call


def timed_out(steps: tuple[float, ...], cause: BaseException | None) -> AttemptTimeoutError:
    """Return the error for a tool that took too long, with the output that its last error has.

    After an escalating limit the work may continue at the peer: the error is permanent and allows
    no repeat, so that no policy starts it again, not even one that names it.
    """
    fields: Mapping[str, Any] = (
        classify(cause).details if cause is not None and issubclass(type(cause), Exception) else {}
    )
    after, goes_on = f"timed out after {max(steps):g} s", len(steps) > 1
    error = AttemptTimeoutError(
        Failure.of(
            "TOOL_TIMEOUT",
            f"{after}: what it has begun may go on" if goes_on else after,
            kind=Kind.PERMANENT if goes_on else None,
            retryable=False if goes_on else None,
            executed=Executed.MAYBE,
            details={
                **{key: fields[key] for key in ("stdout", "stderr") if key in fields},
                **({"max_retries": 0} if goes_on else {}),
            },
            cause=cause,
        )
    )
    error.__cause__ = cause
    return error


async def _ended(
    function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _TaskEnd:
    try:
        return _TaskEnd(await function(*args, **kwargs), None)
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 -- raised again by the caller
        return _TaskEnd(None, error)


def _ended_sync(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _TaskEnd:
    try:
        return _TaskEnd(function(*args, **kwargs), None)
    except BaseException as error:  # noqa: BLE001 -- as above; a StopIteration could not even cross a future
        return _TaskEnd(None, error)


def _arguments(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of an attempt.

    They are read again if `Toolbox.call` read them; else they are the caller's.
    """
    found = ANEW.get()
    if found is None or caller() is not found[0]:
        return args, kwargs
    read = found[1]()
    return read.args, dict(read.kwargs)


async def _is_done_within(work: asyncio.Future[Any], world: World, seconds: float) -> bool:
    """Wait for the work by the clock of `world`; return whether it is done.

    The work is not cancelled here.
    """
    signal = Signal()
    work.add_done_callback(signal.set)
    try:
        await signal.suspend(world, seconds)
    finally:
        work.remove_done_callback(signal.set)
    return work.done()


async def _is_done_in_steps(
    work: asyncio.Future[Any], world: World, steps: tuple[float, ...], name: str
) -> bool:
    """Wait for the work step by step; return whether it is done.

    The steps are counted from now. ToolPending is emitted after each step but the last.
    """
    for waited, step in _waits(steps):
        if await _is_done_within(work, world, step - waited):
            return True
        _tell_pending(name, step, steps)
    return False


def _waits(steps: tuple[float, ...]) -> list[tuple[float, float]]:
    """Return the start and the end of each step."""
    ends = sorted({*steps})
    return list(zip((0.0, *ends), ends, strict=False))


def _tell_pending(name: str, waited: float, steps: tuple[float, ...]) -> None:
    if waited < max(steps):
        emit(events.ToolPending(tool=name, seconds=waited, timeout=max(steps)))


async def _let_go(
    task: asyncio.Future[Any], world: World, name: str, seconds: float, grace: float
) -> None:
    """Cancel the task, wait `grace` seconds for its end, then abandon it."""
    _keep(task)
    task.cancel()
    try:
        is_done = await _is_done_within(task, world, grace)
    except asyncio.CancelledError:  # the caller was cancelled too
        _tell_task(task, name, seconds)
        raise
    if not is_done:
        _tell_task(task, name, seconds)


def _keep(task: asyncio.Future[Any]) -> None:
    for each in list(_abandoned):  # a task of a closed loop never ends
        if each.get_loop().is_closed():
            _abandoned.discard(each)
    _abandoned.add(task)
    task.add_done_callback(_abandoned.discard)


def _tell_task(task: asyncio.Future[Any], name: str, seconds: float) -> None:
    if not task.done():
        emit(events.CallLeftBehind(name=name, seconds=seconds, runs_in="task"))


def _tell_thread(name: str, seconds: float) -> None:
    emit(events.CallLeftBehind(name=name, seconds=seconds, runs_in="thread"))


def _error_of(task: asyncio.Future[Any]) -> BaseException | None:
    """Return the last error of a cancelled tool, other than its CancelledError."""
    if not task.done() or task.cancelled():
        return None
    ended: _TaskEnd = task.result()
    return ended.error.__cause__ if isinstance(ended.error, asyncio.CancelledError) else ended.error
