"""The lines of `pipe`: JSON in, JSON out.

Rule: the error about a bad line names its number and every bad field, and never the content of
the fields.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import attrs

from ..config.strict_json import unique
from ..failure import Executed, Failure, ProtocolError
from ..protocol import Message


_FLAGS: Final = ("replayed", "redelivered", "maybe_duplicate")


@attrs.frozen
class Outgoing:
    """One line to send: type and payload, optionally a key and a time to live in seconds.

    If `type` is empty, `payload` is the user's own frame.
    """

    type: str
    payload: Mapping[str, Any] | bytes
    idempotency_key: str | None = None
    ttl: float | None = None


def parse_line(line: bytes, number: int) -> Outgoing:
    """Return the message on line `number`.

    Raises ProtocolError (PROTO_INVALID_MESSAGE) with all violations of the line.
    """
    fields = parse_object(line, number)
    found = [
        (name, wanted, _kind(fields.get(name)))
        for name, wanted, holds in _RULES
        if not holds(fields)
    ]
    found += [
        (name, "no such field", _kind(fields[name])) for name in fields if name not in _FIELDS
    ]
    if found:
        raise bad_line(number, *found)
    return Outgoing(
        fields["type"], fields["payload"], fields.get("idempotency_key"), fields.get("ttl")
    )


def parse_frame(line: bytes, number: int, *, has_types: bool) -> Outgoing:
    """Return the user's own frame on line `number`: any JSON object, or the bytes in one that has
    `raw_base64` alone.

    `has_types`: an object with a type and a payload alone is a message instead. Raises as
    `parse_line`.
    """
    fields = parse_object(line, number)
    if fields.keys() == {"raw_base64"}:
        return Outgoing("", _bytes_in(fields["raw_base64"], number))
    if has_types and fields.keys() == _MESSAGE and all(holds(fields) for _, _, holds in _RULES):
        return Outgoing(fields["type"], fields["payload"])
    return Outgoing("", fields)


def _bytes_in(text: object, number: int) -> bytes:
    try:
        if isinstance(text, str):
            return base64.b64decode(text, validate=True)
    except ValueError:
        pass
    raise bad_line(
        number, ("raw_base64", "bytes in base64", "text that is none" if text else _kind(text))
    )


def parse_object(line: bytes, number: int) -> dict[str, Any]:
    """Return the JSON object on line `number`. Raises as `parse_line`."""
    try:
        value = json.loads(line.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise bad_line(number, ("$", "one JSON object", _what_json_says(error))) from None
    if not isinstance(value, dict):
        raise bad_line(number, ("$", "one JSON object", _kind(value)))
    return cast("dict[str, Any]", value)


def bad_line(number: int, *violations: tuple[str, str, str]) -> ProtocolError:
    """Return the error for a line with these violations: (field, expected, received)."""
    parts = [f"{wanted} expected, got {got}" for _, wanted, got in violations]
    # "$" is the line itself
    places = ["" if field == "$" else f"{field}: " for field, _, _ in violations]
    text = "; ".join(map(str.__add__, places, parts))
    names = ("field", "constraint", "received")
    details = {
        "line": number,
        "violations": tuple(dict(zip(names, one, strict=True)) for one in violations),
    }
    return ProtocolError(
        Failure.of(
            "PROTO_INVALID_MESSAGE", f"line {number}: {text}", details=details, executed=Executed.NO
        )
    )


_JSON_SAYS: Final = {
    "Expecting value": "text that is not JSON",
    "Extra data": "something behind it",
    "Unexpected UTF-8 BOM (decode using utf-8-sig)": "a byte order mark",
}


_unique: Final = unique("an object that has a name twice")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name}, which JSON does not have")


def _what_json_says(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        what = (
            _JSON_SAYS.get(error.msg)
            or f"text that is not JSON, {error.msg.lower().removesuffix(' at')}"
        )
        return f"{what} at character {error.pos + 1}"
    if isinstance(error, UnicodeDecodeError):
        return f"bytes that are not UTF-8 at byte {error.start + 1}"
    if isinstance(error, RecursionError):
        return "too deep a nesting"
    return "a number with too many digits" if "digits" in str(error) else str(error)


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    if isinstance(value, bool):
        return "true or false"
    if value is None:
        return "nothing"
    return (
        "an object"
        if isinstance(value, dict)
        else "a list"
        if isinstance(value, list)
        else "a number"
    )


def _is_text(value: object) -> bool:
    # a lone surrogate is possible in JSON, and cannot be encoded in UTF-8
    return (
        isinstance(value, str)
        and value != ""
        and not any("\ud800" <= char <= "\udfff" for char in value)
    )


def _is_duration(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 < cast("float", value) < math.inf


_Rule = tuple[str, str, Callable[[Mapping[str, Any]], bool]]
_RULES: Final[tuple[_Rule, ...]] = (
    ("type", "a name", lambda fields: _is_text(fields.get("type"))),
    ("payload", "an object", lambda fields: isinstance(fields.get("payload"), dict)),
    (
        "idempotency_key",
        "a string of text, not empty",
        lambda fields: "idempotency_key" not in fields or _is_text(fields["idempotency_key"]),
    ),
    ("ttl", "seconds above 0", lambda fields: "ttl" not in fields or _is_duration(fields["ttl"])),
)
_FIELDS: Final = frozenset(name for name, _, _ in _RULES)
_MESSAGE: Final = frozenset({"type", "payload"})
_ENVELOPE: Final = frozenset({"type", "id", "timestamp", "payload"})


def print_message(message: Message, *, is_envelope: bool = True) -> str:
    """Return a received message as one line of JSON, in ASCII.

    A flag is included only if it is true.

    With `is_envelope=False` the dialect has frames of its own. If this frame is no envelope, `raw`
    is the whole frame, or `raw_base64` if it is bytes.
    """
    fields: dict[str, Any] = {
        "type": message.type,
        "id": message.id,
        "timestamp": message.raw_timestamp,
        "payload": dict(message.payload),
    }
    fields |= {name: True for name in _FLAGS if getattr(message, name)}
    if not is_envelope and not _says_the_same(message):
        fields |= _raw(message.raw)
    return json.dumps(fields, separators=(",", ":"))


def _says_the_same(message: Message) -> bool:
    """Return whether the frame is an envelope whose whole content is in the line already."""
    raw: Any = message.raw
    if not isinstance(raw, dict) or not _MESSAGE <= raw.keys() <= _ENVELOPE:
        return False
    body = cast("dict[str, Any]", raw)
    shown = (message.type, message.id, message.raw_timestamp, message.payload)
    return (body["type"], body.get("id"), body.get("timestamp"), body["payload"]) == shown


def _raw(frame: Any) -> dict[str, Any]:
    if isinstance(frame, bytes):  # also where they are UTF-8: a binary frame is not a text
        return {"raw_base64": base64.b64encode(frame).decode()}
    return {"raw": frame}
