"""The wire format of the bridge: frames to objects and back, the envelope's rules, ids and stamps.

Rule: it is written from the seed's text alone and imports nothing of the client, so that the
client's mistakes are not repeated here. Time comes from the injected wall clock, ids from the
injected random source.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

from .server_faults import Behaviour


Message = dict[str, Any]
"""A message as the bridge sends it."""
Violation = dict[str, Any]

ENCODE: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_TYPE: Final = re.compile(r"[a-z_]+")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ISO: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONG: Final = 200  # characters of a refused value that an error shows


def _no_constant(name: str) -> NoReturn:
    msg = f"a JSON number expected, got {name}"
    raise ValueError(msg)


_DECODE: Final = json.JSONDecoder(parse_constant=_no_constant).decode


class FrameError(Exception):
    """A frame that is no JSON object; the violation says why."""

    def __init__(self, constraint: str, received: object) -> None:
        super().__init__(f"{constraint} expected")
        self.violation: Violation = {
            "field": "frame",
            "constraint": constraint,
            "received": _short(received),
        }


def _short(value: object) -> object:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONG else text[:_LONG] + "…"


def decode(frame: str | bytes) -> Message:
    """Return the object in a text frame.

    Raises FrameError for binary frames, bad JSON, NaN, and anything that is not an object.
    """
    if isinstance(frame, bytes):
        constraint, received = "text", f"{len(frame)} bytes"
        raise FrameError(constraint, received)
    try:
        value: object = _DECODE(frame)
    except (ValueError, RecursionError):
        constraint = "json"
        raise FrameError(constraint, frame) from None
    if type(value) is not dict:
        constraint = "object"
        raise FrameError(constraint, frame)
    return value  # pyright: ignore[reportUnknownVariableType]  # keys of a JSON object are text


def violations(message: Message) -> list[Violation]:
    """Return everything wrong with an envelope; only heartbeats may have no id."""
    found: list[Violation] = []
    kind = message.get("type")
    if not isinstance(kind, str) or not kind:
        found.append({"field": "type", "constraint": "required", "received": _short(kind)})
    elif not _TYPE.fullmatch(kind):
        found.append({"field": "type", "constraint": "matches", "received": _short(kind)})
    ident = message.get("id")
    if ident is None:
        if not (isinstance(kind, str) and kind.startswith("heartbeat_")):
            found.append({"field": "id", "constraint": "required", "received": None})
    elif not isinstance(ident, str) or not _UUID.fullmatch(ident):
        found.append({"field": "id", "constraint": "uuid", "received": _short(ident)})
    stamp = message.get("timestamp")
    if stamp is None:
        found.append({"field": "timestamp", "constraint": "required", "received": None})
    elif not isinstance(stamp, str) or not _ISO.fullmatch(stamp):
        found.append({"field": "timestamp", "constraint": "iso8601", "received": _short(stamp)})
    if "payload" not in message:
        found.append({"field": "payload", "constraint": "required", "received": None})
    elif type(message["payload"]) is not dict:
        found.append(
            {"field": "payload", "constraint": "object", "received": _short(message["payload"])}
        )
    return found


def parse_instant(text: object) -> int | None:
    """Return the milliseconds since 1970 of an ISO 8601 instant, rounded down; None for anything
    else.

    A `:60` second counts as the next minute's first. An instant that `datetime` cannot hold in UTC
    is a number, too.
    """
    match = _ISO.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    minute, second, fraction, zone = match.groups()
    try:
        at = datetime.fromisoformat(f"{minute}:00+00:00")
    except ValueError:
        return None
    offset = 0
    if zone != "Z":
        offset = (int(zone[1:3]) * 60 + int(zone[4:6])) * (-60_000 if zone[0] == "-" else 60_000)
    whole = (at - _EPOCH) // timedelta(milliseconds=1)
    return whole + int(second) * 1000 + int((fraction or "0").ljust(3, "0")[:3]) - offset


class Stamps:
    """The bridge's wall clock and how it is printed: offset, resolution, and the faults of both."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._second = -1
        self._printed = ""
        self.offset = 0.0

    def now(self) -> int:
        """Return milliseconds since 1970 by the bridge's own clock, which may be stepped."""
        return int((self._wall() + self.offset) * 1000)

    def seconds(self) -> float:
        return self._wall() + self.offset

    def show(self, milliseconds: int, behaviour: Behaviour) -> str | None:
        """Return the stamp of a message at that instant; None if this bridge stamps nothing."""
        if behaviour.timestamps == "none":
            return None
        second, rest = divmod(milliseconds, 1000)
        if second != self._second:  # formatting a date costs more than the rest of a message
            self._second, self._printed = (
                second,
                (_EPOCH + timedelta(seconds=second)).isoformat()[:19],
            )
        fraction = f".{rest:03d}" if behaviour.timestamps == "ms" else ""
        if behaviour.timestamp_mode == "normal":
            return f"{self._printed}{fraction}Z"
        return _odd(behaviour.timestamp_mode, self._printed, rest, fraction)


def _odd(mode: str, printed: str, rest: int, fraction: str) -> str:
    match mode:
        case "year_9999":
            return f"9999{printed[4:]}{fraction}Z"
        case "year_1970":
            return f"1970{printed[4:]}{fraction}Z"
        case "nanoseconds":
            return f"{printed}.{rest:03d}456789Z"
        case "leap_second":
            return f"{printed[:17]}60{fraction}Z"
        case "plus_14":
            ahead = datetime.fromisoformat(printed) + timedelta(hours=14)
            return f"{ahead.isoformat()}{fraction}+14:00"
        case _:
            return "0001-01-01T00:00:00+14:00"


_VARIANT: Final = "89ab"


def new_id(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    variant = _VARIANT[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
