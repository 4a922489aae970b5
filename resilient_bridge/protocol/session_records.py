"""Session records: which agent works where, its progress, and which operations are allowed.

Everything that moves a session is in this file.

    created --activate--> active --pause--> paused --close--> closed
                            ^                 |
                            +-----resume------+   only if it is resumable; its checkpoint comes with it

From every state but closed a session can fail (error) and be closed; an error can only be closed.
Rule: a record is a value, changed only by `after` along an edge of TRANSITIONS; any other operation
is a SessionError that names the state it requires.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import attrs

from ..failure import ConfigError, Failure, SessionError, StoreError
from ..values.fields import flag, instance_of, one_of, optional, path_of, refuse, whole
from .session_text import (
    as_damage,
    as_json,
    failure_fields,
    in_array,
    read_fields,
    read_text,
    restored_failure,
    stamp,
    write,
)


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .clock import Now


SNAPSHOT_BYTES: Final = 1_048_576
"""A context snapshot is at most so many bytes of JSON."""
_UNSAID: Final = datetime.fromtimestamp(0, UTC)  # the times of a session whose text has none


class SessionState(StrEnum):
    """The state of a session.

        async with rb.stores.Sessions("sessions.db") as sessions:
            record = await sessions.create("coder", "/tmp")
            print(record.state is rb.stores.SessionState.CREATED)      # True

    Whether a paused one can be resumed is its record's `resumable`.
    """

    CREATED = "created"
    ACTIVE = "active"
    PAUSED = "paused"
    CLOSED = "closed"
    ERROR = "error"


SessionOperation: TypeAlias = Literal["activate", "checkpoint", "pause", "resume", "fail", "close"]
"""What changes the state of a session: a method of `Sessions`."""

_S = SessionState
_OPEN: Final = (_S.CREATED, _S.ACTIVE, _S.PAUSED)

#: (state, operation) -> state
TRANSITIONS: Final[Mapping[tuple[SessionState, SessionOperation], SessionState]] = {
    (_S.CREATED, "activate"): _S.ACTIVE,
    (_S.ACTIVE, "activate"): _S.ACTIVE,  # its process may have died without pausing it
    **{(state, "checkpoint"): state for state in _OPEN},
    (_S.ACTIVE, "pause"): _S.PAUSED,
    (_S.PAUSED, "pause"): _S.PAUSED,
    (_S.PAUSED, "resume"): _S.ACTIVE,  # and only if it is resumable
    **{(state, "fail"): _S.ERROR for state in (*_OPEN, _S.ERROR)},
    **{(state, "close"): _S.CLOSED for state in (*_OPEN, _S.ERROR)},
}


def _as_utc(value: Any) -> Any:
    """Only the form is changed: what is no aware datetime is left to the validator."""
    try:
        return (
            value.astimezone(UTC)
            if isinstance(value, datetime) and value.utcoffset() is not None
            else value
        )
    except OverflowError:
        return value


def _as_state(value: Any) -> Any:
    return SessionState(value) if isinstance(value, str) and value in set(SessionState) else value


def _in_utc(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, datetime) or value.tzinfo is not UTC:
        refuse(path_of(instance, attribute), "an aware datetime", value)


def _text(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    try:
        if isinstance(value, str) and (value or attribute.name != "id"):
            value.encode()
            return
    except UnicodeEncodeError:
        value = "a lone surrogate"
    wanted = "text that is not empty" if attribute.name == "id" else "text"
    refuse(path_of(instance, attribute), wanted, value)


@attrs.frozen(kw_only=True)
class SessionCheckpoint:
    """The progress of a session: messages taken, the id of the last one that had an id, and any
    data its owner wants back.

        checkpoint = rb.stores.SessionCheckpoint(message_count=7, context_snapshot={"step": 3})
        print(checkpoint.context_snapshot["step"])      # 3

    `context_snapshot` is any JSON value of at most 1 MiB; it is copied. Raises ConfigError for
    values that JSON would change: NaN, tuples, keys that are no text, more than 100 levels.
    """

    message_count: int = attrs.field(default=0, validator=whole)
    last_message_id: str | None = attrs.field(default=None, validator=optional(_text))
    context_snapshot: Any = attrs.field(
        default=None, hash=False, repr=lambda value: f"<{type(value).__name__}>"
    )

    def __attrs_post_init__(self) -> None:
        copied = as_json(
            "SessionCheckpoint.context_snapshot", self.context_snapshot, SNAPSHOT_BYTES
        )
        object.__setattr__(self, "context_snapshot", copied)


@attrs.frozen(kw_only=True)
class SessionRecord:
    """One session: its owner, directory, state and times, and its checkpoint, if one was made.

        async with rb.stores.Sessions("sessions.db") as sessions:
            record = await sessions.create("coder", "/tmp")
            print(record.state, record.resumable)      # created True

    `agent_type` and `working_directory` are None if they are not known. Times are in UTC. `error`
    is why it failed, without its cause and history, which do not outlive a process.
    """

    id: str = attrs.field(validator=_text)
    agent_type: str | None = attrs.field(validator=optional(_text))
    working_directory: str | None = attrs.field(validator=optional(_text))
    state: SessionState = attrs.field(converter=_as_state, validator=one_of(*SessionState))
    resumable: bool = attrs.field(validator=flag)
    created_at: datetime = attrs.field(converter=_as_utc, validator=_in_utc)
    last_activity_at: datetime = attrs.field(converter=_as_utc, validator=_in_utc)
    checkpoint: SessionCheckpoint | None = attrs.field(
        default=None, validator=optional(instance_of(SessionCheckpoint))
    )
    error: Failure | None = attrs.field(
        default=None, converter=restored_failure, validator=optional(instance_of(Failure))
    )

    def __attrs_post_init__(self) -> None:
        if self.state is SessionState.ERROR and self.error is None:
            refuse("SessionRecord.error", "the failure of a session in error", None)

    @classmethod
    def create(
        cls,
        session_id: str,
        agent_type: str | None,
        working_directory: str | None,
        now: Now,
        *,
        resumable: bool = True,
    ) -> SessionRecord:
        """Return the record of a new session."""
        return cls(
            id=session_id,
            agent_type=agent_type,
            working_directory=working_directory,
            state=SessionState.CREATED,
            resumable=resumable,
            created_at=now.at,
            last_activity_at=now.at,
        )

    def after(
        self,
        operation: SessionOperation,
        now: Now,
        *,
        checkpoint: SessionCheckpoint | None = None,
        error: Failure | None = None,
    ) -> SessionRecord:
        """Return the record after an operation; a checkpoint or an error replaces the earlier one.

        Raises SessionError: SESS_CLOSED on a closed session, SESS_NOT_RESUMABLE for `resume` of one
        that is not both paused and resumable and for any operation that would continue one that
        cannot be resumed, PROTO_SEQUENCE_ERROR for an operation out of order.
        """
        state = TRANSITIONS.get((self.state, operation))
        if state is None or (operation == "resume" and not self.resumable):
            raise self._refusal(operation)
        return attrs.evolve(
            self,
            state=state,
            last_activity_at=now.at,
            checkpoint=checkpoint or self.checkpoint,
            error=error or self.error,
        )

    def _refusal(self, operation: SessionOperation) -> SessionError:
        needed = tuple(before for before, done in TRANSITIONS if done == operation)
        wanted = " or ".join(needed) + (" and resumable" if operation == "resume" else "")
        lasting = self.state is _S.PAUSED and not self.resumable
        got = f"{self.state.value} and not resumable" if lasting else self.state.value
        if self.state is _S.CLOSED:
            code = "SESS_CLOSED"
        elif operation == "resume" or lasting or self.state is _S.ERROR:
            code = "SESS_NOT_RESUMABLE"
        else:
            code = "PROTO_SEQUENCE_ERROR"
        hint = None if lasting else _INSTEAD.get(self.state)
        return SessionError(
            Failure.of(
                code,
                f"cannot {operation} session {self.id}: wanted one that is {wanted}, got one that is {got}",
                session_valid=True if hint else None,
                suggestions=(hint,) if hint else (),
                details={
                    "expected": needed,
                    "received": operation,
                    "phase": self.state.value,
                    "session_id": self.id,
                },
            )
        )

    def to_json(self) -> str:
        """Return the record as one line of JSON that `from_json` reads back to an equal record."""
        checkpoint, error = self.checkpoint, self.error
        return write(
            {
                "id": self.id,
                "agent_type": self.agent_type,
                "working_directory": self.working_directory,
                "state": self.state.value,
                "resumable": self.resumable,
                "created_at": stamp(self.created_at),
                "last_activity_at": stamp(self.last_activity_at),
                "checkpoint": None
                if checkpoint is None
                else attrs.asdict(checkpoint, recurse=False),
                "error": None if error is None else failure_fields(error),
            }
        )

    @classmethod
    def from_json(cls, text: str, *, at: datetime = _UNSAID) -> SessionRecord:
        """Return the record that `to_json` wrote.

        Also that of a `PersistedSession` of the seed, which is paused and resumable, and that of
        its `Session`, which has a state and no times: these are `at` then (an aware datetime; 1970
        if it is not given).

        Raises StoreError that names the field: SYS_STATE_DAMAGED for what is no record,
        SYS_STATE_FOREIGN for one of a later version.
        """
        return cls._read(read_text(text), at)

    @classmethod
    def all_from_json(cls, text: str, *, at: datetime = _UNSAID) -> tuple[SessionRecord, ...]:
        """Return the records of a file of sessions: an array, as the seed stores them, or one.

        Each is read as by `from_json`; the StoreError of a damaged one names its number, and no
        other is returned.
        """
        parsed = read_text(text)
        if not isinstance(parsed, list):
            return (cls._read(parsed, at),)
        records: list[SessionRecord] = []
        for index, one in enumerate(cast("list[object]", parsed)):
            try:
                records.append(cls._read(one, at))
            except StoreError as error:
                raise in_array(error, index) from error
        return tuple(records)

    @classmethod
    def _read(cls, parsed: object, at: datetime) -> SessionRecord:
        fields, spell = read_fields(parsed, at)
        try:
            checkpoint = fields.pop("checkpoint")
            if checkpoint is not None:
                checkpoint = SessionCheckpoint(**checkpoint)
            return cls(**fields, checkpoint=checkpoint)
        except ConfigError as error:
            raise as_damage(error, spell) from error


#: What to do instead, for a session without an error.
_INSTEAD: Final = {
    _S.CREATED: "activate it first",
    _S.ACTIVE: "go on with it; if the process that had it has died, activate it",
    _S.PAUSED: "resume it",
}
