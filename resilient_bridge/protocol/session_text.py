"""The parts of a session record as JSON, ours and the seed's own, to and from plain fields.

Ours has a `format` and lower_case names; the seed's `PersistedSession` has `agentType` and its
like, and no state: it stored sessions to be resumed. The seed's `Session` has a state and no times.
Rule: a text is read with its exact meaning, or a StoreError names the field; nothing is guessed.
Does no I/O.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from ..config.strict_json import is_deeper, unique
from ..failure import (
    Category,
    ConfigError,
    Executed,
    Failure,
    Kind,
    Severity,
    StoreError,
    config_error,
)
from .messages import parse_timestamp


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import TypeAlias

    Spelling: TypeAlias = Callable[[str], str]


_FORMAT: Final = 1
_DEEPEST: Final = 100
_SHOWN: Final = 80
_RECORD: Final = (
    "id",
    "agent_type",
    "working_directory",
    "state",
    "resumable",
    "created_at",
    "last_activity_at",
    "checkpoint",
    "error",
)
_SESSION: Final = frozenset({"id", "state", "resumable", "checkpoint"})  # the seed's, without times
_CHECKPOINT: Final = ("message_count", "last_message_id", "context_snapshot")
_FAILURE: Final = (
    "code",
    "message",
    "category",
    "kind",
    "severity",
    "retryable",
    "executed",
    "session_valid",
    "retry_after",
    "suggestions",
    "details",
)

_KINDS: Final = {"category": Category, "kind": Kind, "severity": Severity, "executed": Executed}
_unique: Final = unique("a key that occurs twice")
_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def as_json(path: str, value: Any, most: int) -> Any:
    """A copy of `value`, as JSON gives it back.

    Raises ConfigError for what JSON would change, or more than `most` bytes.
    """
    try:
        text = _encode(value)
        size = len(text.encode())
        back = json.loads(text)
        is_same = back == value and not is_deeper(back, _DEEPEST)
    except (TypeError, ValueError, RecursionError) as error:
        raise config_error(path, "a JSON value", str(error)[:_SHOWN]) from None
    if not is_same:
        wanted = "a JSON value: lists, text as keys, at most 100 levels"
        raise config_error(path, wanted, f"{type(value).__name__} that is not")
    if size > most:
        raise config_error(path, f"at most {most} bytes of JSON", f"{size} bytes")
    return back


def failure_fields(failure: Failure) -> dict[str, Any]:
    """Return what is stored of a failure: all but its cause, its history and why no further attempt
    was made.
    """
    # What a reader learns of kind and repeats follows from how its attempts ended; the failure
    # itself is stored.
    fields = failure.to_dict() | {"kind": failure.kind.value, "retryable": failure.retryable}
    return {name: fields[name] for name in _FAILURE}


def restored_failure(failure: Any) -> Any:
    """Restore a failure from its text; any other value is returned unchanged."""
    return _failure_of(failure_fields(failure)) if isinstance(failure, Failure) else failure


def _failure_of(fields: Mapping[str, Any]) -> Failure:
    values: dict[str, Any] = {
        name: _KINDS[name](fields[name]) if name in _KINDS else fields[name] for name in _FAILURE
    }
    return Failure.of(values.pop("code"), values.pop("message"), **values)


def read_failure(fields: Any) -> Failure:
    """The failure that `failure_fields` wrote.

    Raises StoreError (SYS_STATE_DAMAGED) for anything else.
    """
    try:
        failure = _failure_of(fields)
        if failure_fields(failure) == fields and {
            type(failure.retryable),
            type(failure.session_valid),
        } == {bool}:
            return failure
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise damaged("error", "a failure as it is written", type(fields).__name__)


def stamp(moment: datetime) -> str:
    """A moment in UTC as text, to the microsecond."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def write(fields: Mapping[str, Any]) -> str:
    """The fields of a record as one line of JSON, with the number of the format."""
    return _encode({"format": _FORMAT, **fields})


def read_text(text: str) -> Any:
    """The JSON value of a text. Raises StoreError for what is no JSON."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (TypeError, ValueError, RecursionError) as error:
        raise damaged("$", "a JSON object", str(error).split(":")[0][:_SHOWN]) from None


def read_fields(parsed: Any, at: datetime) -> tuple[dict[str, Any], Spelling]:
    """The fields that a JSON value holds, by our names, and how the text spells them.

    `at` is the times of a session whose text has none. Raises StoreError naming what is wrong.

    SYS_STATE_FOREIGN: a later version has written it. SYS_STATE_DAMAGED: it is no record.
    """
    if not isinstance(parsed, dict):
        raise damaged("$", "a JSON object", type(parsed).__name__)
    fields = dict(cast("dict[str, Any]", parsed))
    if "format" in fields:
        _check_format(fields.pop("format"))
        spell: Spelling = str
    elif "agentType" in fields:
        spell = _camel
        fields = {"state": "paused", "resumable": True, "error": None, **fields}
    elif (
        fields.keys() >= _SESSION and "agent_type" not in fields
    ):  # that one is ours, without its format
        spell = _camel
        times = dict.fromkeys(("createdAt", "lastActivityAt"), stamp(at))
        fields = {"agentType": None, "workingDirectory": None, "error": None, **times, **fields}
    else:
        raise damaged("format", str(_FORMAT), "none")
    found = _fields(fields, _RECORD, spell, "")
    for name in ("created_at", "last_activity_at"):
        raw = found[name]
        found[name] = parse_timestamp(raw) if isinstance(raw, str) else None
        if found[name] is None:
            raise damaged(spell(name), "an ISO 8601 date and time", raw)
    if found["checkpoint"] is not None:
        found["checkpoint"] = _fields(found["checkpoint"], _CHECKPOINT, spell, "checkpoint")
    if found["error"] is not None:
        found["error"] = read_failure(found["error"])
    return found, spell


def _check_format(version: object) -> None:
    if type(version) is not int or version < 1:
        raise damaged("format", "a whole number of at least 1", version)
    if version != _FORMAT:
        raise _store_error("SYS_STATE_FOREIGN", "format", str(_FORMAT), version)


def _fields(parsed: Any, names: tuple[str, ...], spell: Spelling, path: str) -> dict[str, Any]:
    if not isinstance(parsed, dict):
        raise damaged(path, "an object or null", type(parsed).__name__)
    received = cast("dict[str, Any]", parsed)
    for name in names:
        if spell(name) not in received:
            raise damaged(f"{path}.{spell(name)}".lstrip("."), "a value", "none")
    # the seed's writers may add fields that we do not know
    if spell is str and (unknown := received.keys() - set(names)):
        raise damaged(f"{path}.{min(unknown)}".lstrip("."), "no such field", "one")
    return {name: received[spell(name)] for name in names}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def in_array(error: StoreError, index: int) -> StoreError:
    """Return the error of one record of an array; it names the record's number."""
    failure = error.failure
    (violation,) = failure.details["violations"]
    field = f"[{index}].{violation['field']}"
    return _store_error(failure.code, field, violation["constraint"], violation["received"])


def damaged(field: str, wanted: str, got: object) -> StoreError:
    return _store_error("SYS_STATE_DAMAGED", field, wanted, got)


def as_damage(error: ConfigError, spell: Spelling) -> StoreError:
    """Return the StoreError for a value that a record refuses; it names the field as the text does."""
    (violation,) = error.failure.details["violations"]
    owner, _, name = violation["field"].rpartition(".")
    path = f"checkpoint.{spell(name)}" if owner == "SessionCheckpoint" else spell(name)
    return damaged(path, violation["constraint"], violation["received"])


def _store_error(code: str, field: str, wanted: str, got: object) -> StoreError:
    violation = {"field": field, "constraint": wanted, "received": got}
    message = f"session record: {field}: wanted {wanted}, got {got!r}"
    suggestions = ("forget this session, or put back a record that can be read",)
    return StoreError(
        Failure.of(
            code,
            message,
            details={"violations": (violation,)},
            suggestions=suggestions if code == "SYS_STATE_DAMAGED" else (),
        )
    )
