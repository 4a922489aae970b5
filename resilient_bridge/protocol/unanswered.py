"""Sent messages without an answer: which entries wait for one, and what is known of a request that
will not get it.

Rule: what was handed out may have been executed; what was never handed out was not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..failure import Executed, Failure
from .entries import Entry, EntryState


if TYPE_CHECKING:
    from collections.abc import Iterable


def unanswered(entries: Iterable[Entry], type_: str, generation: int) -> list[Entry]:
    """Return the entries of this type that were handed out on this connection and have no answer or
    acknowledgement, given up or not.
    """
    return [
        entry
        for entry in entries
        if entry.type == type_
        and entry.generation == generation
        and entry.answer is None
        and (
            entry.state is EntryState.WRITTEN
            or (entry.is_request and entry.state is EntryState.UNKNOWN and entry.reason == "failed")
        )
    ]


def no_answer(entry: Entry, why: str) -> Failure:
    """Return the failure of a request whose caller no longer waits."""
    never = entry.state is EntryState.QUEUED
    remaining = "it never left" if never else "it was handed out"
    refused = tuple(f"{failure.code}: {failure.message}" for failure in entry.refusals)
    meanwhile = f"; refused meanwhile: {', '.join(refused)}" if refused else ""
    return Failure.of(
        "SYS_TIMEOUT",
        f"{entry.type}: {why}; {remaining}{meanwhile}",
        executed=Executed.NO if never else Executed.MAYBE,
        details={"refusals": refused} if refused else {},
    )


def lost_answer(entry: Entry, failure: Failure) -> Failure:
    """Return the failure of a request that was handed out on a link that `failure` ended."""
    return Failure.of(
        "SYS_OUTCOME_UNKNOWN",
        f"{entry.type} was handed out and the link was lost before an answer came: {failure.message}",
        cause=failure.cause,
        retry_after=failure.retry_after,
    )


def not_handed_out(failure: Failure) -> Failure:
    """Return the failure of a request that waited for a link that `failure` ended."""
    return Failure.of(
        "CONN_NOT_CONNECTED", f"it never left: {failure.message}", cause=failure.cause
    )
