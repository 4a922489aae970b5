"""The rungs of a Fallback, after the call has failed for good.

Rule: never silently. The switch is asked for where `acknowledge` is given, and told in every case: an event a rung.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..classification import failure_or_none
from ..policies.what import matches_ended
from ..telemetry import emit, events
from .attempt import CURRENT, outside_of
from .begun import starting, starting_async
from .steps import Call, Step


if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .attempt import Attempt
    from .plan import Plan

__all__ = ["rungs_for"]

_LONGEST_CHAIN: Final = 100


def rungs_for(plan: Plan, first: Attempt, error: Exception, call: Call) -> Generator[Step, Any, Any]:
    """Return what the first rung that works returns; raise what the last one raised, or `error` where none may be tried."""
    fallback, failure = plan.fallback, failure_or_none(error)
    if fallback is None or failure is None or (fallback.on and not matches_ended(fallback.on, failure)):
        raise error
    # The repeats are over: a rung that repeats on its own is inside of nothing that would.
    token = CURRENT.set(outside_of(first))
    try:
        if fallback.acknowledge is not None and not (yield Call(fallback.acknowledge, (failure,), {})):
            raise error
        for number, rung in enumerate(fallback.ladder, 1):
            emit(events.FellBack(at=datetime.now(UTC), name=plan.name, rung=number, failure=failure))
            try:
                return (yield Call(_begun_by(plan, rung), call.args, call.kwargs))
            except Exception as failed:  # noqa: BLE001 -- the next rung is what it is for
                error = _after(error, failed)
        raise error
    finally:
        CURRENT.reset(token)
        del error, failure  # an error must not be held by a frame that it holds


def _after(error: Exception, failed: Exception) -> Exception:
    """Return what the rung raised, with the error that it was to replace at the end of its chain."""
    last: BaseException = failed
    for _ in range(_LONGEST_CHAIN):
        if last is error:
            return failed
        if last.__context__ is None:
            last.__context__ = error
            return failed
        last = last.__context__
    return failed


def _begun_by(plan: Plan, rung: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rung in the form of the function that it stands in for."""
    if plan.form == "async_stream":
        return starting_async(rung)
    return starting(rung) if plan.form == "stream" else rung
