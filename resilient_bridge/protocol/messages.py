"""What the consumer reads: messages, and the gaps between them. Rule: a message is what the server said, unchanged."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import attrs

from ..errors import redact


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..telemetry.events import Verdict

__all__ = ["Gap", "Message", "parse_timestamp", "print_like"]

_SHOWN: Final = 80
_ISO: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)([T ])(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)


@attrs.define(slots=True, eq=False)
class Message:
    """One message of the bridge.

    `type`, `id` (None where the server sends none) and `payload` are the server's. `replayed`: it came from the replay
    after a loss. `redelivered`: a process that ended without taking the next message may have seen it. `maybe_duplicate`:
    it came after a GAP or UNKNOWN verdict and may repeat one already seen: it carries no id, or it is older than what the client
    remembers (the last 2,048 messages, at most 30 minutes of them).
    """

    type: str
    id: str | None
    raw_timestamp: str | None
    payload: Mapping[str, Any]
    replayed: bool = False
    redelivered: bool = False
    maybe_duplicate: bool = False

    @property
    def timestamp(self) -> datetime | None:
        """The server's timestamp in UTC; None when it sent none or one that is not ISO 8601."""
        return parse_timestamp(self.raw_timestamp)

    def __repr__(self) -> str:
        """Type, id and flags; never the payload, which may hold secrets."""
        flags = "".join(
            f" {name}" for name in ("replayed", "redelivered", "maybe_duplicate") if getattr(self, name)
        )
        type_, id_, at = (None if part is None else redact(part, limit=_SHOWN) for part in self._told)
        return f"<Message {type_} id={id_} at={at}{flags}>"

    @property
    def _told(self) -> tuple[str | None, ...]:
        return self.type, self.id, self.raw_timestamp


@attrs.frozen(slots=True)
class Gap:
    """A place in the stream where messages are, or may be, missing (handed to `on_gap`).

    `verdict` is GAP (provably or presumably lost) or UNKNOWN (nobody can tell). `since` is the server's timestamp of the
    last message before the hole, `until` that of the first one after it, where known. `reason`: `new_session truncated
    mismatch` for GAP; `order no_replay empty no_anchor timeout side_buffer_full too_large` for UNKNOWN, and for an EventSource
    `no_event_id repeated_event_id event_id_jump`.
    """

    verdict: Verdict
    since: datetime | None
    until: datetime | None
    reason: str


def parse_timestamp(raw: str | None) -> datetime | None:
    """`raw` as an aware datetime in UTC (no zone is read as UTC); None if it is no ISO 8601 date and time.

    Digits beyond microseconds are cut, a leap second (`:60`) is read as the following second.
    """
    found = _ISO.fullmatch(raw) if raw is not None else None
    if found is None:
        return None
    date, _, hour, minute, second, fraction, zone = found.groups()
    leap = second == "60"
    text = f"{date}T{hour}:{minute}:{'59' if leap else second}.{(fraction or '0')[:6].ljust(6, '0')}"
    try:
        moment = datetime.fromisoformat(text + ("+00:00" if zone in {None, "Z"} else zone))
        return (moment + timedelta(seconds=1) if leap else moment).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def print_like(moment: datetime, sample: str) -> str:
    """`moment` written the way the server wrote `sample`: same separator, digits and zone style."""
    found = _ISO.fullmatch(sample)
    _, separator, _, _, _, fraction, zone = (
        found.groups() if found else (None, "T", None, None, None, None, "Z")
    )
    text = moment.astimezone(UTC).strftime(f"%Y-%m-%d{separator}%H:%M:%S")
    if fraction:
        text += "." + f"{moment.microsecond:06d}".ljust(9, "0")[: len(fraction)].ljust(len(fraction), "0")
    if zone is None:
        return text
    return text + ("Z" if zone == "Z" else "+00:00" if ":" in zone else "+0000")
