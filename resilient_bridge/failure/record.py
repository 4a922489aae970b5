"""What is stored on the exception itself: the record of the attempts behind it, a mark, and notes.

Rule: writing the record never fails and never changes the exception's class; reading returns our
record or None.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from .failure import changed
from .vocabulary import Executed, Kind


if TYPE_CHECKING:
    from .failure import Failure, Stopped

ATTRIBUTE: Final = "__resilience__"
OWN_WORDS: Final = frozenset({"not_executed", "stated"})
"""The proofs that a function gives of itself: `NotExecutedError`, `classify.register`."""


ONE_REQUEST: Final = "__rb_one_request__"
"""The attribute by which our adapters mark an error as that of one request."""


class Record(NamedTuple):
    """The attempts behind an exception.

    Earlier failures, why no further one was made, calls, seconds, and the note.
    """

    history: tuple[Failure, ...] = ()
    stopped: Stopped | None = None
    calls: int = 1
    seconds: float = 0.0
    note: str = ""
    executed: Executed | None = None  # whether the call ran, if more is known than from its error
    crossed: int = 0  # protected functions that the exception has left
    mark: object = None  # by which the outer policies know that the record was written inside them
    requests: int = 0  # sent inside the call, as far as they were counted


def ended(failure: Failure, record: Record) -> Failure:
    """Return the failure of a call that a policy gave up.

    It has its history, and is permanent if its attempts are used up.
    """
    is_over = record.stopped == "attempts" and failure.kind is Kind.TRANSIENT
    kind = Kind.PERMANENT if is_over else failure.kind
    executed = record.executed or failure.executed
    # An error says nothing about the whole function that raised it, except its own `executed`, for the innermost function.
    if (
        executed is Executed.NO
        and record.crossed
        and (failure.proof not in OWN_WORDS or record.crossed > 1)
    ):
        executed = Executed.MAYBE
    proof = failure.proof if executed is failure.executed else ""
    result = changed(
        failure,
        history=record.history,
        stopped=record.stopped,
        kind=kind,
        executed=executed,
        proof=proof,
    )
    if record.requests > 1:
        result = attrs.evolve(result, details={**failure.details, "requests_sent": record.requests})
    return result


def attach(error: BaseException, record: Record | None) -> bool:
    """Store the record on the exception, in place of an earlier one (None: remove it).

    Returns False if the exception takes no attribute.

    Frozen dataclasses and attrs classes refuse `setattr`: that refusal is bypassed.
    """
    try:
        object.__setattr__(error, ATTRIBUTE, record)
    except Exception:  # noqa: BLE001 (a class without a dictionary, or a descriptor in the way)
        return False
    return True


def allow_proof(error: BaseException) -> None:
    """Mark an error as that of one request of our adapter: it can prove that this did not run."""
    with suppress(Exception):  # a class may refuse attributes
        object.__setattr__(error, ONE_REQUEST, True)


def record_of(error: BaseException) -> Record | None:
    """Return the record stored on the exception, or None.

    Never raises and runs no code of the exception's class.
    """
    try:
        record = object.__getattribute__(error, "__dict__").get(ATTRIBUTE)
    except Exception:  # noqa: BLE001 (a class may hide its dictionary)
        return None
    return record if isinstance(record, Record) else None


def note_once(error: BaseException, note: str) -> bool:
    """Add a note to an error, if it does not have it yet; return whether it was added."""
    with suppress(Exception):  # an exception may refuse notes, or hide those that it has
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
            return True
    return False


def take_back(error: BaseException, note: str) -> None:
    """Remove the note of an earlier call that raised the same object.

    Notes must not pile up on a constant.
    """
    try:
        notes: list[str] = error.__notes__
        if note in notes:
            notes.remove(note)
    except Exception:  # noqa: BLE001 (none yet, or a class that hides them)
        return
