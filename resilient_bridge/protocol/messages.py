"""What the consumer reads: messages, and the gaps between them.

Rule: a message is what the server sent, unchanged.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import attrs

from ..failure import redact


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..telemetry.events import Verdict
    from .facts import Position


_SHOWN: Final = 80
_ISO: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)([T ])(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)


@attrs.define(slots=True, eq=False)
class Message:
    """One message of the bridge.

        async for message in bridge:
            print(message.type, message.payload)
            if message.maybe_duplicate:
                ...      # it may have come before: look whether its work is done

    `type`, `id` (None where the server sends none) and `payload` are the server's. `raw` is the
    whole frame as it came, decoded (an object; in a dialect of its own also an array, a text or
    bytes): for fields that a server puts beside the payload, and for an id or a timestamp that is a
    number (in `id` it is text). `replayed`: it came from the replay after a loss. `redelivered`: a
    process that ended without taking the next message may have seen it. `maybe_duplicate`: it came
    after a GAP or UNKNOWN verdict and may repeat one already seen: it carries no id, or it is older
    than what the client remembers (the last 2,048 messages, at most 30 minutes of them).
    """

    type: str
    id: str | None
    raw_timestamp: str | None
    payload: Mapping[str, Any]
    replayed: bool = False
    redelivered: bool = False
    maybe_duplicate: bool = False
    raw: Any = attrs.field(factory=dict[str, Any])

    @property
    def timestamp(self) -> datetime | None:
        """The server's timestamp in UTC.

        None if it sent none, or one that is neither ISO 8601 nor a number since 1970.
        """
        return parse_timestamp(self.raw_timestamp)

    def __repr__(self) -> str:
        """Type, id and flags; never the payload, which may hold secrets."""
        flags = "".join(
            f" {name}"
            for name in ("replayed", "redelivered", "maybe_duplicate")
            if getattr(self, name)
        )
        type_, id_, at = (
            None if part is None else redact(part, limit=_SHOWN)
            for part in (self.type, self.id, self.raw_timestamp)
        )
        return f"<Message {type_} id={id_} at={at}{flags}>"


@attrs.frozen(slots=True)
class Gap:
    """A place in the stream where messages are, or may be, missing (handed to `on_gap`).

        async def on_gap(gap: rb.bridge.Gap) -> None:
            print(gap.verdict, gap.reason, gap.since, gap.until)

        bridge = rb.BridgeClient("wss://host/ws", on_gap=on_gap)

    `verdict` is GAP (provably or presumably lost) or UNKNOWN (it cannot be known). `since` is the
    server's timestamp of the last message before the hole, `until` that of the first one after it,
    where known; where no message of the answer showed that the log is the same (UNKNOWN(no_anchor)),
    `since` lies `Replay.overlap` before the last message. `reason`: `new_session truncated mismatch` for GAP; `order no_replay empty
    no_anchor timeout side_buffer_full too_large` for UNKNOWN, and for an EventSource `no_event_id
    repeated_event_id event_id_jump`. Where the server numbers its events
    (docs/reference/positions.md has the reasons), `channel` says whose are missing (None: the
    session's), `missing` is the first and last number, where these are exact, and `after` the
    position of the last event before it: of UNKNOWN(no_anchor) the one that did not come again.
    """

    verdict: Verdict
    since: datetime | None
    until: datetime | None
    reason: str
    channel: str | None = None
    missing: tuple[int, int] | None = None
    after: Position | None = None


def parse_timestamp(raw: str | None) -> datetime | None:
    """Return `raw` as an aware datetime in UTC; a time without a zone is read as UTC.

    None if it is no ISO 8601 date and time.

    Digits beyond microseconds are cut, a leap second (`:60`) is read as the following second.
    """
    found = _ISO.fullmatch(raw) if raw is not None else None
    if found is None:
        return None if raw is None else _since_1970(raw)
    date, _, hour, minute, second, fraction, zone = found.groups()
    leap = second == "60"
    text = (
        f"{date}T{hour}:{minute}:{'59' if leap else second}.{(fraction or '0')[:6].ljust(6, '0')}"
    )
    try:
        moment = datetime.fromisoformat(text + ("+00:00" if zone in {None, "Z"} else zone))
        return (moment + timedelta(seconds=1) if leap else moment).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


#: Digits before the point, up to so many: seconds, milliseconds (JavaScript's Date.now()), microseconds, nanoseconds.
_UNITS: Final = ((11, 1), (14, 1_000), (17, 1_000_000), (20, 1_000_000_000))
_NUMBER: Final = re.compile(r"(\d{9,20})(?:\.(\d{1,9})\d*)?", re.ASCII)


def _unit(digits: str) -> int:
    return next(unit for most, unit in _UNITS if len(digits) <= most)


def _since_1970(raw: str) -> datetime | None:
    found = _NUMBER.fullmatch(raw)
    if found is None:
        return None
    unit = _unit(found[1])
    micros = int(found[1]) * 1_000_000 // unit + int((found[2] or "0").ljust(9, "0")) // (
        1_000 * unit
    )
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    except OverflowError:
        return None


def as_sent(stamp: str) -> str | float:
    """A timestamp as the server wrote it: a number where it sends numbers."""
    number = _NUMBER.fullmatch(stamp)
    if number is None:
        return stamp
    return float(stamp) if number[2] else int(stamp)


def print_like(moment: datetime, sample: str) -> str:
    """`moment` written the way the server wrote `sample`: same separator, digits and zone style."""
    number = _NUMBER.fullmatch(sample)
    if number is not None:
        micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        whole, rest = divmod(micros * _unit(number[1]), 1_000_000)
        return f"{whole}.{rest:06d}"[: None if number[2] else -7]
    found = _ISO.fullmatch(sample)
    _, separator, _, _, _, fraction, zone = (
        found.groups() if found else (None, "T", None, None, None, None, "Z")
    )
    text = moment.astimezone(UTC).strftime(f"%Y-%m-%d{separator}%H:%M:%S")
    if fraction:
        text += "." + f"{moment.microsecond:06d}".ljust(9, "0")[: len(fraction)].ljust(
            len(fraction), "0"
        )
    if zone is None:
        return text
    return text + ("Z" if zone == "Z" else "+00:00" if ":" in zone else "+0000")
