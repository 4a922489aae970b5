"""The event that reports how a call ended: one for each call, whatever form the call had.

Rule: this code costs nothing while there is no listener. The runners check only `HUB.listening`
before they call it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import events
from ..failure import RejectedError, failure_or_none
from ..telemetry.hub import HUB, tell


if TYPE_CHECKING:
    from ..failure import Failure
    from .frame import CallFrame, Operation


def call_worked(operation: Operation, seconds: float) -> None:
    """Report a call whose first attempt was admitted and succeeded."""
    if not operation.plan.form.endswith("stream"):  # a stream ends with its last item
        tell_finished(operation, "ok", 1, seconds, 0.0, None)


def call_returned(operation: Operation, first: CallFrame) -> None:
    """Report a call that has returned: no success if the value represents a failure."""
    if operation.plan.form.endswith("stream") or not HUB.listening:
        return
    failure: Failure | None = first.answered
    outcome: events.CallOutcome = (
        "fell_back" if first.fell_back else "ok" if failure is None else "failed"
    )
    tell_finished(
        operation, outcome, _attempts(first, None), _seconds(first), first.waited, failure
    )


def call_ended(operation: Operation, first: CallFrame, error: BaseException) -> None:
    """Report a call that has raised, also one of a stream: it has not started."""
    if not HUB.listening:
        return
    attempts = _attempts(first, error)
    outcome: events.CallOutcome = "cancelled"
    if isinstance(error, Exception):
        outcome = "rejected" if attempts == 0 else "failed"
    tell_finished(operation, outcome, attempts, _seconds(first), first.waited, _failure(error))


def block_finished(operation: Operation, first: CallFrame, error: BaseException | None) -> None:
    """Report a block that has ended; `error` is None if it succeeded."""
    if not HUB.listening or first.world.is_disabled:
        return
    if error is None:
        tell_finished(operation, "ok", _attempts(first, None), _seconds(first), first.waited, None)
    else:
        call_ended(operation, first, error)


def stream_finished(
    operation: Operation, held: CallFrame, attempts: int, waited: float, error: BaseException | None
) -> None:
    """Report a stream that has ended; a reader that leaves early counts as a success."""
    if not HUB.listening or held.world.is_disabled:
        return
    failure: Failure | None = None
    outcome: events.CallOutcome = "ok"
    if error is not None and not isinstance(error, GeneratorExit):
        failure = _failure(error)
        outcome = "failed" if isinstance(error, Exception) else "cancelled"
    tell_finished(operation, outcome, attempts, _seconds(held), waited, failure)


def tell_finished(  # noqa: PLR0917 -- the fields of the event, in their order
    operation: Operation,
    outcome: events.CallOutcome,
    attempts: int,
    seconds: float,
    waited: float,
    failure: Failure | None,
) -> None:
    """Emit the event."""
    tell(
        events.CallFinished(
            name=operation.name,
            outcome=outcome,
            attempts=attempts,
            seconds=seconds,
            waited=waited,
            key=operation.key,
            failure=failure,
        )
    )


def rejected(
    name: str,
    by: str,
    key: str,
    failure: Failure,
) -> None:
    """Report that a layer rejected an attempt."""
    if HUB.listening:
        tell(events.CallRejected(name=name, by=by, key=key, failure=failure))


def _attempts(first: CallFrame, error: BaseException | None) -> int:
    if first.run is not None:
        calls: int = first.run.calls
        return calls
    return (
        0 if first.is_rejected or (isinstance(error, RejectedError) and not first.is_called) else 1
    )


def _seconds(first: CallFrame) -> float:
    return first.world.monotonic() - first.started


def _failure(error: BaseException) -> Failure | None:
    return failure_or_none(error) if isinstance(error, Exception) else None
