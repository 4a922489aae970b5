"""Text on the wire <-> envelopes.

Rule: strict on what we send, lenient on what we read, and never a value of an unexpected type.

Reading accepts what real servers send (no id, no timestamp, no payload) but nothing ambiguous:
duplicate keys, NaN, infinities, lone surrogates and 100,000-deep nesting are typed errors, counted,
and the session continues.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ..config.strict_json import decoder, is_deeper
from ..failure import ConfigError, Executed, Failure, ProtocolError
from ..failure.extras import needed
from .messages import Message


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .facts import Frame, Received


_TYPE: Final = re.compile(r"[a-z_]+")
_SHOWN: Final = 80
_MAX_DEPTH: Final = 100


class InvalidFrameError(ValueError):
    """A frame that is not a message; `failure` says why, field by field."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


_read: Final = decoder(
    constant="expected JSON, got {}",
    infinite="expected a finite number, got {}",
    twice="expected unique keys, got a duplicate key",
).raw_decode
_canonical: Final = json.JSONEncoder(
    separators=(",", ":"), sort_keys=True, ensure_ascii=True
).encode
_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def decode_json(text: str) -> Any:
    """The JSON value in `text`, whatever it is.

    Raises ValueError for what is no JSON, or none that could be written again.
    """
    # JSONDecoder.decode looks for white space with two regular expressions, at a third of the cost of a message (P11).
    text = text.strip(" \t\n\r")
    try:
        value, end = _read(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if end != len(text):
        raise ValueError("Extra data")
    if "\\u" in text and "\\ud" in text.lower():
        _encode(value).encode()  # a lone surrogate cannot be written again
    may_be_deep = len(text) > _MAX_DEPTH and text.count("{") + text.count("[") > _MAX_DEPTH
    if may_be_deep and is_deeper(value, _MAX_DEPTH):
        raise ValueError("nested too deeply")
    return value


def canonical(text: Frame) -> Frame:
    """Return what is equal for two frames exactly if they are the same message.

    For a frame that is no JSON, and for bytes, it is the frame itself.
    """
    if isinstance(text, bytes):
        return text
    try:
        return _canonical(json.loads(text))
    except (ValueError, RecursionError):
        return text


def decode(frame: str | bytes) -> dict[str, Any]:
    """The envelope in `frame`.

    Raises InvalidFrameError (PROTO_INVALID_FRAME or PROTO_INVALID_MESSAGE), nothing else.
    """
    try:
        text = frame if isinstance(frame, str) else frame.decode()
        value = decode_json(text)
    except ValueError as error:
        reason = str(error).split(":")[0]
        raise InvalidFrameError(
            Failure.of(
                "PROTO_INVALID_FRAME",
                f"expected one JSON message, got an unreadable frame: {reason}",
            )
        ) from None
    return envelope(value)


def envelope(value: Any) -> dict[str, Any]:
    """Check a value leniently as an envelope and return it.

    Raises InvalidFrameError (PROTO_INVALID_MESSAGE) with all violations.
    """
    body: dict[str, Any] = value
    if type(value) is dict:
        identity, stamp = body.get("id"), body.get("timestamp")
        if type(identity) in _NUMBERS or type(stamp) in _NUMBERS:
            body = _WithText(body)
            identity, stamp = body.get("id"), body.get("timestamp")
        if (
            type(body.get("type")) is str
            and body["type"]
            and (identity is None or type(identity) is str)
            and (stamp is None or type(stamp) is str)
            and type(body.get("payload", _MISSING)) in _PAYLOADS
        ):
            return body
        found = _violations(body)
    else:
        found = ({"field": "$", "constraint": "object", "received": _shown(value)},)
    raise InvalidFrameError(
        Failure.of(
            "PROTO_INVALID_MESSAGE",
            "message validation failed: "
            + ", ".join(f"{v['field']} ({v['constraint']})" for v in found),
            details={"violations": found},
        )
    )


class Body(dict[str, Any]):
    """A message as an envelope, in a dialect without envelopes; `raw` is what was received."""

    __slots__ = ("fact", "raw")

    def __init__(self, fact: Received) -> None:
        super().__init__(type=fact.type, id=fact.id, timestamp=fact.timestamp, payload=fact.payload)
        self.fact = fact
        self.raw = fact.raw


class _WithText(dict[str, Any]):
    """An envelope whose id or timestamp came as a number, as from JavaScript's Date.now(): text
    here, unchanged in `raw`.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: dict[str, Any]) -> None:
        text = {
            name: _encode(raw[name])
            for name in ("id", "timestamp")
            if type(raw.get(name)) in _NUMBERS
        }
        super().__init__(raw | text)
        self.raw = raw


def raw_of(body: dict[str, Any]) -> Any:
    """The decoded frame as it came."""
    return body.raw if isinstance(body, _CONVERTED) else body


def message_from(type_: str, body: dict[str, Any]) -> Message:
    return Message(
        type_, body.get("id"), body.get("timestamp"), body.get("payload") or {}, raw=raw_of(body)
    )


_CONVERTED: Final = (_WithText, Body)
_NUMBERS: Final = (int, float)  # and not bool
_MISSING: Final = object()  # what no JSON holds: a missing payload is read as {}
_PAYLOADS: Final = (dict, object)


@lru_cache(maxsize=256)  # a program sends few types, many times (P11)
def _is_name(text: str) -> bool:
    return _TYPE.fullmatch(text) is not None


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else type(value).__name__
    return text[:_SHOWN]


def _violations(value: Mapping[str, Any]) -> tuple[dict[str, str], ...]:
    """Every field of an envelope that has the wrong JSON type, as field, constraint, received."""
    kind, identity, stamp = value.get("type"), value.get("id"), value.get("timestamp")
    payload = value.get("payload", {})
    rules = (
        ("type", "required", bool(kind) and isinstance(kind, str), kind),
        ("id", "uuid", identity is None or isinstance(identity, str), identity),
        ("timestamp", "iso8601", stamp is None or isinstance(stamp, str), stamp),
        ("payload", "object", isinstance(payload, dict), payload),
    )
    return tuple(
        {"field": field, "constraint": constraint, "received": _shown(received)}
        for field, constraint, holds, received in rules
        if not holds
    )


def _with_orjson(dumps: Callable[[Any], bytes]) -> Callable[[Any], str]:
    def encode(payload: Any) -> str:
        text = dumps(payload)
        if b"null" in text:
            _encode(payload)  # orjson writes NaN and infinities as null; here they are errors
        return text.decode()

    return encode


_ENVELOPE: Final = frozenset({"type", "id", "timestamp", "payload"})


def fields_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a control frame: its payload, and the fields beside it where a server
    puts them there.
    """
    payload: dict[str, Any] = body.get("payload") or {}
    if len(body) <= len(_ENVELOPE) and payload:
        return payload
    return {**{name: value for name, value in body.items() if name not in _ENVELOPE}, **payload}


class Encoder:
    """Outgoing envelopes as text.

    `codec`: json, orjson (an error if it is not installed), or auto (orjson if it is).
    """

    def __init__(self, codec: str = "auto") -> None:
        self._payload: Callable[[Any], str] = _encode
        if codec != "json":
            try:
                orjson: Any = needed("orjson", "Dialect.codec")
            except ConfigError:
                if codec == "orjson":
                    raise
            else:
                self._payload = _with_orjson(orjson.dumps)

    def payload(self, type_: object, payload: Mapping[str, Any]) -> str:
        """`payload` as JSON.

        Raises ProtocolError (PROTO_INVALID_MESSAGE) if the message could not be sent as it is.
        """
        found: list[dict[str, str]] = []
        if not (isinstance(type_, str) and _is_name(type_)):
            found.append({"field": "type", "constraint": "^[a-z_]+$", "received": _shown(type_)})
        text = "{}"
        if not isinstance(payload, dict):
            try:
                payload = dict(payload)
            except (TypeError, ValueError):
                found.append(
                    {"field": "payload", "constraint": "object", "received": _shown(payload)}
                )
                payload = {}
        try:
            text = self._payload(payload)
        except (TypeError, ValueError, RecursionError, OverflowError):
            try:
                # the stricter codec refused, or the value is no JSON at all: the standard codec
                # decides and words the error
                text = _encode(payload)
                text.encode()
            except (TypeError, ValueError, RecursionError) as error:
                found.append(
                    {"field": "payload", "constraint": "json", "received": str(error)[:_SHOWN]}
                )
        else:
            if self._payload is _encode and not text.isascii():
                try:
                    text.encode()
                except UnicodeEncodeError:
                    found.append(
                        {"field": "payload", "constraint": "json", "received": "a lone surrogate"}
                    )
        if found:
            raise ProtocolError(
                Failure.of(
                    "PROTO_INVALID_MESSAGE",
                    "message validation failed: "
                    + ", ".join(f"{v['field']} ({v['constraint']})" for v in found),
                    details={"violations": tuple(found)},
                    executed=Executed.NO,
                )
            )
        return text

    def frame(
        self, type_: str, identity: str, stamp: str, payload: str, key: str | None = None
    ) -> str:
        """Return the envelope around a payload of JSON text; `key` becomes `idempotency_key`."""
        if key is not None:
            rest = "}" if payload == "{}" else "," + payload[1:]
            # our own keys need no escaping
            quoted = f'"{key}"' if key is identity else _encode(key)
            payload = f'{{"idempotency_key":{quoted}{rest}'
        return f'{{"type":"{type_}","id":"{identity}","timestamp":"{stamp}","payload":{payload}}}'

    @staticmethod
    def text(body: Mapping[str, Any]) -> str:
        """Any decoded envelope as JSON again."""
        return _encode(body)
