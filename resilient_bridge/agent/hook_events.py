"""Validate the seven hook events of an agent, and build the answers to them.

Rule: an answer is bounded JSON that names every wrong field, and repeats nothing of a payload.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import attrs

from .. import events
from ..config.strict_json import decoder, is_deeper
from ..failure import Failure, ProtocolError, config_error, redact
from ..protocol.messages import parse_timestamp
from ..telemetry import emit


HookName: TypeAlias = Literal[
    "SessionStart",
    "SessionEnd",
    "PreToolUse",
    "PostToolUse",
    "UserPromptSubmit",
    "Stop",
    "SubagentStop",
]
"""The name of a hook event."""

_FIELDS: Final = ("event", "timestamp", "session_id", "payload")
# bytes of an event (characters, if it comes as text): the default limit of a WebSocket message
_MOST: Final = 1_048_576
_DEEPEST: Final = 100
_SHOWN: Final = 80
# What `z.string().datetime()` accepts by default: UTC with Z; seconds and their fraction may be
# left out.
_STAMP: Final = re.compile(
    r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d(:[0-5]\d(?:\.\d+)?)?Z", re.ASCII
)

# The constraint of a violation, and its message in the answer.
_ROOT: Final = "one JSON object"
_REQUIRED: Final = "required"
_ONE_OF: Final = f"one of: {', '.join(get_args(HookName))}"
_UTC: Final = "ISO 8601 in UTC, such as 2026-03-20T14:32:00Z"
_FILLED: Final = "at least 1 character"
_MESSAGES: Final[Mapping[str, str]] = {
    _REQUIRED: "Required",
    _ONE_OF: f"Invalid enum value. Expected {_ONE_OF}",
    _UTC: f"Invalid datetime. Expected {_UTC}",
    _FILLED: "String must contain at least 1 character",
}

_NO_NUMBER: Final = "a number that is not finite"
_decode: Final = decoder(constant=_NO_NUMBER, infinite=_NO_NUMBER, twice="a duplicate key").decode
_encode: Final = json.JSONEncoder(ensure_ascii=True).encode
_MISSING: Final = object()  # the value of a missing field


@attrs.frozen
class _Unreadable:
    """Stands for a value that is not valid JSON; `reason` is what is wrong."""

    reason: str


@attrs.frozen
class HookEvent:
    """One hook event of an agent.

        body = {"event": "PreToolUse", "timestamp": "2026-03-20T14:32:00Z", "session_id": "s1"}
        event = rb.agent.HookEvent.parse({**body, "payload": {"tool": "bash"}})
        print(event.payload["tool"])      # bash

    `timestamp` is in UTC. `payload` is a JSON object; `repr` omits it, because it may hold secrets.
    """

    event: HookName
    timestamp: datetime
    session_id: str = attrs.field(repr=lambda text: repr(redact(text, limit=_SHOWN)))
    payload: Mapping[str, Any] = attrs.field(repr=False, hash=False)

    @classmethod
    def parse(cls, data: str | bytes | Mapping[str, Any], /) -> HookEvent:
        """Return the event in `data`: JSON as text or bytes, or a decoded object.

        `event` is one of the seven names, `timestamp` ISO 8601 in UTC with a Z (no offset; seconds
        and their fraction may be left out, digits beyond microseconds are cut), `session_id` not
        empty, `payload` an object with text keys. Other fields are allowed and dropped. The limits
        are 1 MiB and 100 levels; a duplicate key, NaN, an infinity and a lone surrogate are
        invalid.

        Raises ProtocolError (HOOK_VALIDATION_FAILED) with every violation in its details, and emits
        HookRejected. Raises ConfigError for `data` of any other type.
        """
        body = _body(data)
        if isinstance(body, _Unreadable):
            raise _refused([_violation("$", _ROOT, body.reason)])
        found = [
            _violation(name, *wrong) for name in _FIELDS if (wrong := _wrong(name, body[name]))
        ]
        stamp = _moment(body["timestamp"])
        if found or stamp is None:
            raise _refused(found)
        return cls(body["event"], stamp, body["session_id"], body["payload"])


def hook_answer(data: str | bytes | Mapping[str, Any], /) -> dict[str, Any]:
    """Return the answer to the hook that sent `data`: received, or one error for each wrong field.

        body = {"event": "PreToolUse", "timestamp": "2026-03-20T14:32:00Z", "session_id": "s1"}
        print(rb.agent.hook_answer({**body, "payload": {}}))      # {'received': True}

    See `HookEvent.parse`.
    """
    try:
        HookEvent.parse(data)
    except ProtocolError as error:
        return {"received": False, "code": error.failure.code, "errors": _errors(error.failure)}
    return {"received": True}


def _errors(failure: Failure) -> list[dict[str, str]]:
    return [
        {
            "field": wrong["field"],
            "message": _MESSAGES.get(wrong["constraint"])
            or f"Expected {wrong['constraint']}, received {wrong['received']}",
        }
        for wrong in failure.details["violations"]
    ]


def _refused(violations: list[dict[str, str]]) -> ProtocolError:
    failure = Failure.of(
        "HOOK_VALIDATION_FAILED",
        "hook event invalid: "
        + ", ".join(f"{wrong['field']} ({wrong['constraint']})" for wrong in violations),
        details={"violations": tuple(violations)},
    )
    emit(events.HookRejected(failure=failure))
    return ProtocolError(failure)


def _violation(field: str, constraint: str, received: str) -> dict[str, str]:
    return {"field": field, "constraint": constraint, "received": received[:_SHOWN]}


def _body(data: object) -> dict[str, Any] | _Unreadable:
    """Return the four fields, each a JSON value, _MISSING or _Unreadable; one _Unreadable if `data`
    is no object.
    """
    if isinstance(data, Mapping):
        received = cast("Mapping[str, Any]", data)
        return {
            name: _plain(name, received[name]) if name in received else _MISSING for name in _FIELDS
        }
    value = _read(data) if isinstance(data, (str, bytes, bytearray)) else data
    if isinstance(value, _Unreadable):
        return value
    if isinstance(value, dict):
        read = cast("dict[str, Any]", value)
        return {name: read.get(name, _MISSING) for name in _FIELDS}
    kind = _kind(value)
    if not kind:  # not a JSON type: a mistake of the caller
        raise config_error("HookEvent.parse.data", "text, bytes or a mapping", type(data).__name__)
    return _Unreadable(kind)


def _plain(name: str, value: object) -> Any:
    """Return a field of a decoded object, encoded and decoded again, so that the same rules hold."""
    if name == "payload" and isinstance(value, Mapping):
        value = dict(cast("Mapping[object, object]", value))
        for key in value:
            if not isinstance(key, str):
                return _Unreadable(f"a key of type {type(key).__name__}")
    try:
        text = _encode(value)
    except TypeError:
        return _Unreadable("a value that is no JSON")
    except (ValueError, RecursionError) as error:
        return _Unreadable(_reason(error))
    return _read(text)


def _read(data: str | bytes | bytearray) -> Any:
    """Return the JSON value in `data`, or _Unreadable with the reason."""
    if len(data) > _MOST:
        return _Unreadable(f"more than {_MOST} bytes")
    try:
        text = data if isinstance(data, str) else data.decode()
        value = _decode(text)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()  # raises for a lone surrogate
        elif isinstance(data, str):
            text.encode()  # raises for a lone surrogate in the text itself
    except (ValueError, RecursionError) as error:
        return _Unreadable(_reason(error))
    return _Unreadable("nesting too deep") if is_deeper(value, _DEEPEST) else value


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nesting too deep"
    if isinstance(error, UnicodeDecodeError):
        return "bytes that are not UTF-8"
    if isinstance(error, UnicodeEncodeError):
        return "a lone surrogate"
    if isinstance(error, json.JSONDecodeError):
        return "text that is no JSON"
    text = str(error)
    return "a number of too many digits" if text.startswith("Exceeds") else text


def _wrong(name: str, value: Any) -> tuple[str, str] | None:
    """Return the violated constraint of a field and what was received; None without a violation."""
    if value is _MISSING:
        return _REQUIRED, "nothing"
    wanted = "object" if name == "payload" else "string"
    if isinstance(value, _Unreadable):
        return wanted, value.reason
    kind = _kind(value)
    if kind != wanted:
        return wanted, kind
    if name == "event" and value not in get_args(HookName):
        return _ONE_OF, value
    if name == "timestamp" and _moment(value) is None:
        return _UTC, value
    return (_FILLED, "an empty string") if name == "session_id" and not value else None


def _moment(value: object) -> datetime | None:
    found = _STAMP.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    return parse_timestamp(found[0] if found[1] else f"{found[0][:-1]}:00Z")


def _kind(value: object) -> str:
    """Return the name of the JSON type of a value, empty for any other object."""
    if value is None:
        return "null"
    names = (
        (bool, "boolean"),
        (str, "string"),
        ((int, float), "number"),
        (list, "array"),
        (dict, "object"),
    )
    return next((name for kinds, name in names if isinstance(value, kinds)), "")
