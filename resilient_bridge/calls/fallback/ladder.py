"""Which rungs of a Fallback may answer in place of a call that failed, and what is said of it.

Rule: no side effect is repeated: after a call that may have run, a rung needs the permission that a
repeat would need, or `may_have_run=`. `engine` calls the rungs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ...failure import Executed
from ...failure.what import add_note
from ..stream_items import starting, starting_async


if TYPE_CHECKING:
    from collections.abc import Callable

    from ...failure import Failure
    from ..frame import Planned
    from .value import Fallback


_LONGEST_CHAIN: Final = 100
_NOTE: Final = "not replaced: it may have run; Fallback(may_have_run=True) allows it"


def rungs_allowed(
    plan: Planned, fallback: Fallback, failure: Failure
) -> list[tuple[int, Callable[..., Any]]]:
    """Return the rungs that may be called, with their numbers, although the call may have run."""
    allowed, rungs = fallback.may_have_run, list(enumerate(fallback.ladder, 1))
    if failure.executed is Executed.NO or plan.idempotent or allowed is True:
        return rungs
    if isinstance(allowed, bool):
        return []
    return [(number, rung) for number, rung in rungs if rung in allowed]


def started(plan: Planned, rung: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rung with the same calling form as the function that it replaces."""
    if plan.form == "async_stream":
        return starting_async(rung)
    return starting(rung) if plan.form == "stream" else rung


def note_unreplaced(error: Exception | None) -> None:
    """Add to an error why no rung was tried, once."""
    notes = getattr(error, "__notes__", None)
    if error is not None and (not isinstance(notes, list) or _NOTE not in notes):
        with suppress(Exception):  # a frozen exception takes no note
            error.add_note(_NOTE)


def note_mistake(error: Exception | None, mistake: Exception) -> bool:
    """Add to an error that `acknowledge` raised, which means no; False if that has to be raised."""
    return error is not None and add_note(error, "not replaced: acknowledge raised", mistake)


def chained(error: Exception, failed: Exception) -> Exception:
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
