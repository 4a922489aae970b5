"""The rungs of a Fallback, called after the final failure of a call.

A returned value that represents a failure counts as well. Rule: a switch is never silent:
`acknowledge`, if given, is asked first, and each rung is reported as an event. No side effect is
repeated: after a call that may have run, a rung needs the permission that a repeat would need, or
`may_have_run=`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ... import events
from ...failure import Executed, failure_or_none
from ...failure.what import add_note, matches_ended
from ...telemetry import emit
from ..conditions import Ask, conditions, knowing
from ..evidence import keep_answer, proven
from ..first_item import starting, starting_async
from ..frame import CURRENT, CallFrame, leave_context, outside_of
from ..steps import CallOnce, Discard, Step


if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ...failure import Failure
    from ..frame import Planned
    from .value import Fallback


_LONGEST_CHAIN: Final = 100
_NOTE: Final = "not replaced: it may have run; Fallback(may_have_run=True) allows it"


def rungs_for(
    plan: Planned, fallback: Fallback, first: CallFrame, error: Exception, call: CallOnce
) -> Generator[Step, Any, Any]:
    """Return the result of the first rung that succeeds.

    Raises the error of the last rung, or `error` if no rung may be tried.
    """
    failure = failure_or_none(error)
    if failure is None:
        raise error
    last = CURRENT.get()
    failure = proven(plan, last if last.first is first else first, failure, error)
    try:
        is_replaced, result = yield from _climb(plan, fallback, first, failure, error, call)
        if is_replaced:
            return result
        raise error
    finally:
        del error, failure  # an error must not be held by a frame that it holds


def rungs_for_answer(
    plan: Planned, fallback: Fallback, first: CallFrame, result: Any, call: CallOnce
) -> Generator[Step, Any, tuple[bool, Any]]:
    """Try the rungs for a returned failure.

    Return whether one replaced it, and the value to return. If no rung may be tried, the returned
    failure stands.
    """
    failure = first.answered
    if failure is None:
        return False, result
    is_replaced, replacement = yield from _climb(plan, fallback, first, failure, None, call)
    if not is_replaced:
        return False, result
    keep_answer(first, None)
    yield Discard(result)
    return True, replacement


def _climb(  # noqa: PLR0917 -- all that is known of the call
    plan: Planned,
    fallback: Fallback,
    first: CallFrame,
    failure: Failure,
    error: Exception | None,
    call: CallOnce,
) -> Generator[Step, Any, tuple[bool, Any]]:
    """Return whether a rung succeeded, and its result; raise the error of the last one."""
    if not (yield from _is_for(plan, fallback, failure)):
        return False, None
    rungs = [
        (number, rung)
        for number, rung in enumerate(fallback.ladder, 1)
        if _may_try(plan, fallback, failure, rung)
    ]
    if not rungs:
        _explain(error)
        return False, None
    # The repeats are over: a rung that repeats on its own is not inside the repeats of this call.
    token = CURRENT.set(outside_of(first))
    ending: Exception | None = error
    answer: Any = None
    try:
        if not (yield from _is_acknowledged(fallback, failure, error)):
            return False, None
        for number, rung in rungs:
            emit(events.FellBack(name=plan.name, rung=number, failure=failure))
            try:
                answer = yield CallOnce(_rung_in_form(plan, rung), call.args, call.kwargs)
            except Exception as failed:  # noqa: BLE001 -- the next rung is what it is for
                ending = failed if ending is None else _after(ending, failed)
                continue
            if plan.reading.read(answer) is None or number == rungs[-1][0]:
                return True, answer
            yield Discard(answer)
        if ending is None:
            return False, None
        raise ending
    finally:
        leave_context(token)
        del error, ending, failure  # an error must not be held by a frame that it holds


def _is_for(plan: Planned, fallback: Fallback, failure: Failure) -> Generator[Step, Any, bool]:
    if not fallback.on:
        return True
    answers: dict[int, bool | Exception] = {}
    if plan.asks:
        yield Ask(conditions(fallback), failure, answers)
    return knowing(answers, matches_ended, fallback.on, failure)


def _may_try(plan: Planned, fallback: Fallback, failure: Failure, rung: Callable[..., Any]) -> bool:
    """Return whether a rung may be called although the call may have run."""
    allowed = fallback.may_have_run
    if failure.executed is Executed.NO or plan.idempotent or allowed is True:
        return True
    return not isinstance(allowed, bool) and rung in allowed


def _is_acknowledged(
    fallback: Fallback, failure: Failure, error: Exception | None
) -> Generator[Step, Any, bool]:
    """Ask `acknowledge` whether to switch.

    An error in it means no: the failure stands, with a note of the mistake.
    """
    if fallback.acknowledge is None:
        return True
    try:
        return bool((yield CallOnce(fallback.acknowledge, (failure,), {})))
    except Exception as mistake:  # the caller's failure must not be lost because of it
        if error is None or not add_note(error, "not replaced: acknowledge raised", mistake):
            raise
        return False


def _explain(error: Exception | None) -> None:
    notes = getattr(error, "__notes__", None)
    if error is not None and (not isinstance(notes, list) or _NOTE not in notes):
        with suppress(Exception):  # a frozen exception takes no note
            error.add_note(_NOTE)


def _after(error: Exception, failed: Exception) -> Exception:
    """Return the rung's error, with the error it was to replace at the end of its chain."""
    last: BaseException = failed
    for _ in range(_LONGEST_CHAIN):
        if last is error:
            return failed
        if last.__context__ is None:
            last.__context__ = error
            return failed
        last = last.__context__
    return failed


def _rung_in_form(plan: Planned, rung: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rung with the same calling form as the function that it replaces."""
    if plan.form == "async_stream":
        return starting_async(rung)
    return starting(rung) if plan.form == "stream" else rung
