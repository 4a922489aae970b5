"""What an error or answer shows the calls around it, and what code inside of a call says of its failure.

`decision` reads it. Nothing here waits, reads a clock or tells anybody.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..failure import Record, attach, unproven
from .decision import failure_in, record_inside
from .frame import CURRENT, ROOT, inside_of, mark_around


if TYPE_CHECKING:
    from collections.abc import Generator

    from ..failure import Failure
    from .frame import CallFrame, Planned


def keep(first: CallFrame, last: CallFrame, error: BaseException, record: Record) -> bool:
    """Attach a record to an error; return False if the error takes none.

    The attempts around recognise by it that the error comes from inside of them.
    """
    mark = object()
    if not attach(error, record._replace(mark=mark)):
        return False
    inside_of(last).mark = mark
    mark_around(first, mark)
    return True


def leave_function(plan: Planned, first: CallFrame, last: CallFrame, error: BaseException) -> None:
    """Record on an error that it has left a user's function: its proof of one step ends there."""
    if plan.proofs != "none" or first.is_rejected or not isinstance(error, Exception):
        return
    record = record_inside(last, error) or record_inside(first, error) or Record()
    keep(first, last, error, record._replace(crossed=record.crossed + 1))


def keep_answer(first: CallFrame, failure: Failure | None, result: object = None) -> None:
    """Keep the failure of a returned value for the Fallback and for `capture`.

    A function around the call may handle it and return something else: `capture` compares.
    """
    first.answered = failure
    edge = first.outer
    if edge is not None and edge.operation is None and edge is not ROOT:
        edge.answered, edge.answer = failure, result


# ---- asked and told by code inside of the call ------------------------------------------------------------------


def failure_in_call(error: Exception) -> Failure | None:
    """Return the failure of the attempt's error, computed once; None for one like cancellation."""
    return failure_in(CURRENT.get(), error)


def disprove(error: Exception, failure: Failure) -> None:
    """Take the proof from the failure of the attempt's error: the call may have run."""
    CURRENT.get().seen = error, unproven(failure)


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
