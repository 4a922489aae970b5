"""Sessions: records of agents and their work, kept by a store, found again after a restart.

Rule: when an operation returns, the store has saved it. `protocol/session_records.py` alone defines
which operation may follow which.
"""

from __future__ import annotations

import asyncio
import os
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self, overload

import attrs

from ..failure import Failure, SessionError, config_error
from ..failure.teaching import taught
from ..protocol import Now
from ..protocol.clock import Identifiers
from ..protocol.session_records import SessionCheckpoint, SessionRecord, SessionState
from ..transports.loop_guard import LoopGuard
from ..values.fields import check_flag
from ..world import current_world
from .arguments import store_of
from .session_record import change, record_of, turn


if TYPE_CHECKING:
    from types import TracebackType
    from typing import TypeAlias

    from ..protocol import Store
    from ..protocol.session_records import SessionOperation
    from ..world import World

    Storage: TypeAlias = str | os.PathLike[str] | Store
    """Where records are kept: a path (SQLite), a redis:// URL, or a store object."""
    Records: TypeAlias = list[SessionRecord]


_COMPARED: Final = 1_000  # how many known ids an unknown one is compared with


class _Unchanged(Enum):
    """The default of an argument that leaves a field unchanged."""

    UNCHANGED = "kept"


_UNCHANGED: Final = _Unchanged.UNCHANGED


class Sessions:
    """The session records of a store.

        async with rb.stores.Sessions("sessions.db") as sessions:
            record = await sessions.create("coder", "/tmp")
            await sessions.activate(record.id)
            await sessions.checkpoint(record.id, message_count=7, context_snapshot={})
            await sessions.pause(record.id)
            print((await sessions.resume(record.id)).checkpoint.message_count)      # 7

    The store is a path (SQLite), a redis:// URL, or a store object, which a BridgeClient may share.
    Use `async with`: outside of it, operations raise ConfigError. All but `list` and `forget`
    return the record as stored.

    Each raises SessionError (SESS_NOT_FOUND for an unknown id, SESS_CLOSED for a closed session,
    SESS_NOT_RESUMABLE, PROTO_SEQUENCE_ERROR for a wrong order) and StoreError (nothing was saved or
    changed; or the record is damaged).
    """

    @taught
    def __init__(self, store: Storage, /) -> None:
        self._store = store_of(store, "Sessions.store")
        self._open: tuple[World, Identifiers] | None = None
        self._guard = LoopGuard("Sessions")

    def __repr__(self) -> str:
        """A status line, e.g. `<Sessions <MemoryStore sessions=1 entries=0> open>`."""
        return f"<Sessions {self._store!r} {'closed' if self._open is None else 'open'}>"

    async def __aenter__(self) -> Self:
        """Open the store. Raises StoreError if it cannot be used."""
        self._guard.check()
        if self._open is not None:
            raise config_error("Sessions", "sessions that are not open", "ones that are")
        self._guard.loop = asyncio.get_running_loop()
        world = current_world()
        self._open = world, Identifiers(world.new_rng())
        try:
            await self._store.open(self._now(), outbox=False)
        except BaseException:
            self._open = self._guard.loop = None
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Close the store for these sessions."""
        self._guard.check()
        self._open = self._guard.loop = None
        await self._store.close(outbox=False)

    # ---- a session's life -------------------------------------------------------------------------------------

    async def create(
        self,
        agent_type: str | None,
        working_directory: str | os.PathLike[str] | None,
        *,
        session_id: str | None = None,
        resumable: bool = True,
    ) -> SessionRecord:
        """Create a session; its id is `session_id`, or a new UUID.

        The directory is stored as given.

        Raises ConfigError if a record with this id exists already, SessionError (SESS_CLOSED) if
        that one is closed.
        """
        _, ids = self._opened()
        directory = (
            os.fspath(working_directory)
            if isinstance(working_directory, os.PathLike)
            else working_directory
        )
        identity = ids() if session_id is None else session_id
        record = SessionRecord.create(
            identity, agent_type, directory, self._now(), resumable=resumable
        )
        return await self._add(record, "Sessions.create.session_id")

    async def adopt(self, record: SessionRecord, /) -> SessionRecord:
        """Store a record from elsewhere unchanged. Raises as `create` does.

        For example those of `SessionRecord.all_from_json(text)`, another program's file.
        """
        if not isinstance(record, SessionRecord):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise config_error("Sessions.adopt.record", "a SessionRecord", type(record).__name__)
        return await self._add(record, "Sessions.adopt.record.id")

    async def _add(self, record: SessionRecord, field: str) -> SessionRecord:
        self._opened()

        def decide(before: SessionRecord | None) -> SessionRecord:
            if before is None:
                return record
            if before.state is SessionState.CLOSED:
                before.after("activate", self._now())  # raises SESS_CLOSED
            raise config_error(field, "an id that no kept session has", record.id)

        return await change(self._store, record.id, decide)

    async def activate(self, session_id: str, /) -> SessionRecord:
        """Start work on a created session, or take over an active one from a process that died.

        Its checkpoint stays.
        """
        return await self._move(session_id, "activate")

    async def checkpoint(
        self,
        session_id: str,
        /,
        *,
        message_count: int | _Unchanged = _UNCHANGED,
        last_message_id: str | _Unchanged | None = _UNCHANGED,
        context_snapshot: Any = _UNCHANGED,
    ) -> SessionRecord:
        """Save the progress of a created, active or paused session.

        Omitted values are unchanged; initially they are 0 and None.

        `context_snapshot` is any JSON value of at most 1 MiB; ConfigError for anything else.
        """
        received = {
            "message_count": message_count,
            "last_message_id": last_message_id,
            "context_snapshot": context_snapshot,
        }
        fields = {name: value for name, value in received.items() if value is not _UNCHANGED}
        return await self._move(session_id, "checkpoint", changes=fields)

    async def pause(self, session_id: str, /) -> SessionRecord:
        """Pause the session until it is resumed, in this process or another."""
        return await self._move(session_id, "pause")

    async def resume(self, session_id: str, /) -> SessionRecord:
        """Activate a paused, resumable session; its checkpoint says where to continue.

        Of two concurrent callers, one succeeds.
        """
        return await self._move(session_id, "resume")

    async def fail(self, session_id: str, failure: Failure, /) -> SessionRecord:
        """Put the session in the error state: from there it can only be closed.

        `rb.classify(error)` makes a Failure of any exception.
        """
        if not isinstance(failure, Failure):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise config_error("Sessions.fail.failure", "a Failure", type(failure).__name__)
        return await self._move(session_id, "fail", error=failure)

    @overload
    async def close(
        self, session_id: str, /, *, missing_ok: Literal[False] = ...
    ) -> SessionRecord: ...
    @overload
    async def close(self, session_id: str, /, *, missing_ok: bool) -> SessionRecord | None: ...
    async def close(self, session_id: str, /, *, missing_ok: bool = False) -> SessionRecord | None:
        """Close the session: every later operation on it is SESS_CLOSED.

        The record stays until it is forgotten.

        `missing_ok`: return silently if there is nothing to close: the record of a session that is
        closed already, None for an unknown id. Without it both are a SessionError.
        """
        check_flag("Sessions.close.missing_ok", missing_ok)
        self._check(session_id)

        def decide(before: SessionRecord | None) -> SessionRecord | None:
            if missing_ok and (before is None or before.state is SessionState.CLOSED):
                return before
            return (before or self._unknown(session_id)).after("close", self._now())

        return await change(self._store, session_id, decide)

    async def _move(
        self,
        session_id: str,
        operation: SessionOperation,
        *,
        changes: dict[str, Any] | None = None,
        error: Failure | None = None,
    ) -> SessionRecord:
        self._check(session_id)

        def decide(before: SessionRecord | None) -> SessionRecord:
            record = before or self._unknown(session_id)
            checkpoint = (
                None
                if changes is None
                else attrs.evolve(record.checkpoint or SessionCheckpoint(), **changes)
            )
            return record.after(operation, self._now(), checkpoint=checkpoint, error=error)

        return await change(self._store, session_id, decide)

    # ---- the stored records -----------------------------------------------------------------------------------

    async def get(self, session_id: str, /) -> SessionRecord:
        """Return the record as it was last stored."""
        self._check(session_id)
        return record_of(self._store, session_id) or self._unknown(session_id)

    async def list(self, state: SessionState | str | None = None) -> Records:
        """Return the records, or those in one state, the latest activity first.

        A damaged record raises StoreError, which names the session.
        """
        self._opened()
        if state is not None and state not in set(SessionState):
            raise config_error("Sessions.list.state", "one of " + ", ".join(SessionState), state)
        found_records = [
            record_of(self._store, session_id) for session_id in tuple(self._store.records())
        ]
        found = [
            record
            for record in found_records
            if record is not None and state in {None, record.state}
        ]
        return sorted(found, key=lambda record: record.last_activity_at, reverse=True)

    async def forget(self, session_id: str, /) -> None:
        """Delete the record, whatever its state and even if it is damaged.

        Afterwards the id is unknown.
        """
        self._check(session_id)
        async with turn(self._store, session_id):
            if session_id not in self._store.records():
                self._unknown(session_id)
            dropped = self._store.drop_record(session_id)
            if dropped is not None:
                await dropped

    # ---- small steps ------------------------------------------------------------------------------------------

    def _opened(self) -> tuple[World, Identifiers]:
        if self._open is None:
            raise config_error(
                "Sessions", "sessions entered with `async with`", "ones that are not open"
            )
        self._guard.check()
        return self._open

    def _check(self, session_id: object) -> None:
        self._opened()
        if not isinstance(session_id, str):
            raise config_error("Sessions.session_id", "text", session_id)

    def _now(self) -> Now:
        world, _ = self._opened()
        return Now(asyncio.get_running_loop().time(), world.loop_wall())

    def _unknown(self, session_id: str) -> NoReturn:
        from difflib import get_close_matches

        ids = self._store.records()
        latest = islice(ids, max(len(ids) - _COMPARED, 0), None)
        near = get_close_matches(session_id, latest)
        raise SessionError(
            Failure.of(
                "SESS_NOT_FOUND",
                f"no session with the id {session_id}",
                suggestions=(
                    *(f"did you mean {known}" for known in near),
                    "check the spelling of the session's id",
                    "the session may have been forgotten, or be kept by another store",
                    "list() shows the sessions that are kept",
                ),
                details={"received": session_id, "expected": near, "session_id": session_id},
            )
        )
