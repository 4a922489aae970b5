"""The record of a client's own session: what entering, leaving and losing the session do to it.

Rule: every change of a record holds its `turn`, so concurrent changes run one after the other. The
store has saved what is returned; a StoreError leaves the record unchanged.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar, cast

import attrs

from ..failure import SessionError, StoreError
from ..protocol.session_records import SessionCheckpoint, SessionRecord, SessionState
from ..protocol.session_text import damaged


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from ..protocol import Now, Store, Watermark


R = TypeVar("R", bound="SessionRecord | None")


# ---- one record, one change at a time --------------------------------------------------------------------------


class _QueuedChange:
    """A lock, and how many hold it or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


# An entry exists only while a caller holds or awaits its lock. That caller also references the
# store, so the store's id() cannot be reused meanwhile.
_QUEUES: Final[dict[tuple[int, str], _QueuedChange]] = {}


@asynccontextmanager
async def turn(store: Store, session_id: str) -> AsyncGenerator[None]:
    """Lock the record of a session; wait only while another caller holds it."""
    key = (id(store), session_id)
    mine = _QUEUES.setdefault(key, _QueuedChange())
    mine.users += 1
    try:
        async with mine.lock:
            yield
    finally:
        mine.users -= 1
        if not mine.users:
            del _QUEUES[key]


def record_of(store: Store, session_id: str) -> SessionRecord | None:
    """Return the stored record of a session.

    Raises StoreError, which names session and field, for an invalid text.
    """
    text = store.records().get(session_id)
    if text is None:
        return None
    try:
        record = SessionRecord.from_json(text)
        if record.id != session_id:
            raise damaged("id", repr(session_id), record.id)
    except StoreError as error:
        failure = error.failure
        raise StoreError(
            attrs.evolve(failure, message=f"session {session_id}: {failure.message}")
        ) from error
    return record


async def change(store: Store, session_id: str, decide: Callable[[SessionRecord | None], R]) -> R:
    """Replace the record by what `decide` returns for it, and return that; None stores nothing."""
    async with turn(store, session_id):
        before = record_of(store, session_id)
        after = decide(before)
        if after is not None and after != before:
            written = store.keep_record(session_id, after.to_json())
            if written is not None:
                await written
        return after


# ---- a client's session ----------------------------------------------------------------------------------------


async def on_enter(store: Store, session_id: str, now: Now) -> SessionRecord:
    """Activate the record of a session that a client is about to join; create it if there is none.

    Raises SessionError: SESS_CLOSED if it was closed, SESS_NOT_RESUMABLE if it is in error, or
    paused and not resumable.
    """
    return await change(store, session_id, lambda before: _entered(before, session_id, now))


def _entered(before: SessionRecord | None, session_id: str, now: Now) -> SessionRecord:
    if before is None:
        before = SessionRecord.create(session_id, None, None, now)
    return before.after("resume" if before.state is SessionState.PAUSED else "activate", now)


def _found_in(before: SessionRecord | None, session_id: str, now: Now) -> SessionRecord:
    """Return the activated record of a session that the server has joined already.

    It is too late to refuse the session, so a record that cannot be activated is left unchanged.
    """
    try:
        return _entered(before, session_id, now)
    except SessionError:
        return cast("SessionRecord", before)  # not None: a new record can be activated


async def on_exit(store: Store, watermark: Watermark, now: Now) -> SessionRecord | None:
    """Pause the record of a session that a client has left, with the position as its checkpoint.

    The user's context snapshot stays. A record that was closed, failed or forgotten meanwhile is
    not changed.
    """

    def decide(before: SessionRecord | None) -> SessionRecord | None:
        if before is None or before.state not in {SessionState.ACTIVE, SessionState.PAUSED}:
            return before
        return before.after("pause", now, checkpoint=_reached(before.checkpoint, watermark))

    return await change(store, watermark.session_id, decide)


def _reached(earlier: SessionCheckpoint | None, watermark: Watermark) -> SessionCheckpoint:
    """Return the checkpoint of this position.

    What a new position does not know is taken from the earlier checkpoint.
    """
    earlier = earlier or SessionCheckpoint()
    if not watermark.taken:
        return earlier
    ids = (mark.key[1] for _, mark in reversed(watermark.marks(0)) if mark.key is not None)
    return attrs.evolve(
        earlier, message_count=watermark.taken, last_message_id=next(ids, earlier.last_message_id)
    )


async def on_lost(store: Store, old_id: str, new_id: str, now: Now) -> SessionRecord:
    """Copy the data of a session that the server has forgotten to the new one; close the old one.

    The new record is stored before the old one is closed, so the context snapshot is in one of
    them, whatever fails in between.
    """
    old = record_of(store, old_id)

    def begin(before: SessionRecord | None) -> SessionRecord:
        if before is not None or old is None:
            return _found_in(before, new_id, now)
        new = SessionRecord.create(
            new_id, old.agent_type, old.working_directory, now, resumable=old.resumable
        )
        snapshot = old.checkpoint and SessionCheckpoint(
            context_snapshot=old.checkpoint.context_snapshot
        )
        return new.after("activate", now, checkpoint=snapshot)

    def end(before: SessionRecord | None) -> SessionRecord | None:
        return (
            before
            if before is None or before.state is SessionState.CLOSED
            else before.after("close", now)
        )

    entered = await change(store, new_id, begin)
    await change(store, old_id, end)
    return entered


async def on_renamed(store: Store, old_id: str, new_id: str, now: Now) -> SessionRecord:
    """Move the record to the server's name for the session (a dialect's `session_from_join`)."""
    old = record_of(store, old_id)

    def begin(before: SessionRecord | None) -> SessionRecord:
        return _found_in(before or (old and attrs.evolve(old, id=new_id)), new_id, now)

    entered = await change(store, new_id, begin)
    async with turn(store, old_id):
        dropped = store.drop_record(old_id)
        if dropped is not None:
            await dropped
    return entered
