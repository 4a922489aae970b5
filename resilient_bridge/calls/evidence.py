"""What is known of a failed attempt, and whether the call may be repeated.

A repeat needs a permission, or the proof that the call did not run.

Rule: a proof covers one request on the wire, the last one. It proves something about a whole call
only if the call is that one request. An error that a user's function raises may always follow a
side effect, so only its own statement (`NotExecutedError`, `classify.register`) proves anything
about it, and that holds for the innermost protected function alone. Nothing here waits, reads a clock
or tells anybody.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ..failure import (
    OWN_LAYER,
    OWN_WORDS,
    Executed,
    Record,
    attach,
    changed,
    number_in,
    record_of,
    unproven,
)
from ..failure.lookup import raw_failure
from .frame import CURRENT, ROOT, inside_of, mark_around


if TYPE_CHECKING:
    from collections.abc import Generator

    from ..failure import Failure
    from .frame import CallFrame, Planned


_LIMITED: Final = 429
# A member that is looked up in its class costs as much as a function call.
_NO: Final = Executed.NO
_MAYBE: Final = Executed.MAYBE


def failure_in(attempt: CallFrame, error: BaseException) -> Failure | None:
    """Return the failure of an attempt's error, computed once; None for one like cancellation."""
    seen = attempt.seen
    if seen is not None and seen[0] is error:
        return seen[1]
    failure = raw_failure(error)
    attempt.seen = (error, failure)
    return failure


def proven(
    plan: Planned, attempt: CallFrame, failure: Failure, error: BaseException | None
) -> Failure:
    """Return the failure of an attempt, with a proof if one holds; without one it may have run."""
    if attempt.is_rejected:  # the function was not called, whatever error a layer raised
        refused = failure.executed is _NO or attempt.is_called
        return failure if refused else changed(failure, executed=_NO, proof=OWN_LAYER)
    if failure.executed is not _NO:
        return failure
    # A request that our own layer refused is not the request that was sent.
    is_of_the_request = attempt.requests == 0 or (
        attempt.requests == 1 and failure.proof != OWN_LAYER
    )
    if plan.proofs == "all" or (plan.proofs == "request" and is_of_the_request):
        return failure
    if failure.proof in OWN_WORDS:
        record = None if error is None else record_inside(attempt, error)
        # the error has left no protected function inside this attempt
        if record is None or not record.crossed:
            return failure
    return changed(failure, executed=_MAYBE, proof="")


def record_inside(attempt: CallFrame, error: BaseException) -> Record | None:
    """Return the record that a policy inside of this attempt left with the error.

    None if there is none, or if it is that of an earlier call.
    """
    record, inside = record_of(error), attempt.inside
    if record is None or record.mark is None or inside is None or inside.mark is not record.mark:
        return None
    return record


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


def permission_for(plan: Planned, attempt: CallFrame, failure: Failure) -> str:
    """Return the permission for a repeat: "idempotent", a proof's name, "limiter"; else empty.

    The last is a convention, not a proof: providers document that a request answered by 429 was not
    executed.
    """
    if plan.idempotent:
        return "idempotent"
    if failure.executed is _NO:
        return failure.proof
    if plan.idempotent is None and attempt.requests <= 1 and not may_have_started(plan, failure):
        return "limiter"
    return ""


def may_have_started(plan: Planned, failure: Failure) -> bool:
    """Return whether the call may have started.

    It may unless there is a proof, or a limiter rejected a request that we sent ourselves.
    """
    is_turned_away = plan.proofs == "request" and number_in(failure, "http_status") == _LIMITED
    return failure.executed is not _NO and not is_turned_away


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
