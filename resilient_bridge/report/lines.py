"""One line of a log, parsed to a record or a description of its damage. Pure.

Rule: no bytes cause an exception. The forms that are read are events of `SessionLog` and of
`pipe --events`, those of the MCP sidecar (times in seconds), and structured lines (`form="log"`,
`form="openviber"`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import attrs

from ..failure import READ, redact


LONGEST: Final = 1_048_576
"""The longest line that is read, in bytes; the package itself writes at most 64 KiB."""
_EARLIEST, _LATEST = 0.0, 253_402_300_000.0  # 1970 to 9999, in seconds: the years of `datetime`

Fields: TypeAlias = Mapping[str, Any]


@attrs.frozen
class Record:
    """A valid line: its time (seconds since 1970), the name of its event, and its fields.

    `event` is empty for a line that a program wrote itself.
    """

    at: float
    event: str
    fields: Fields


@attrs.frozen
class Damage:
    """A line that could not be read, and why."""

    reason: str


def read_line(line: bytes) -> Record | Damage | None:
    """Return the record of a line, or its damage; None for an empty line."""
    if len(line) > LONGEST:
        return Damage(f"longer than {LONGEST} bytes")
    if not line.strip():
        return None
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):  # a UnicodeDecodeError is a ValueError
        return Damage("not JSON")
    if not isinstance(found, dict):
        return Damage("not an object")
    fields = cast("dict[str, Any]", found)
    is_structured = "at" not in fields and "ts" in fields
    at = seconds_of(fields.get("ts" if is_structured else "at"))
    if at is None:
        return Damage("without a time")
    return Record(
        at, _structured_name(fields) if is_structured else text_in(fields, "event"), fields
    )


def seconds_of(value: object) -> float | None:
    """Return a time as seconds since 1970: an ISO 8601 text, UTC if it has no zone, or a number."""
    if isinstance(value, str) and len(value) < 64:
        return _iso(value)
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and _EARLIEST <= value <= _LATEST
    ):
        return float(value)
    return None


@lru_cache(maxsize=256)
def _iso(text: str) -> float | None:
    try:
        time = datetime.fromisoformat(text)
        at = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return at if _EARLIEST <= at <= _LATEST else None


def text_in(fields: Fields, name: str) -> str:
    """Return a field's text on one line, bounded and with secrets masked; "" if it is no text."""
    value = fields.get(name)
    return safe(value) if isinstance(value, str) else ""


def safe(text: str) -> str:
    """Return text that can be shown: one line, at most 300 characters, secrets masked again."""
    return _safe(text[: READ + 1])  # the rest of a longer text is neither read nor cached


@lru_cache(maxsize=4096)
def _safe(text: str) -> str:
    return redact(text, limit=300)


def number_in(fields: Fields, name: str) -> float:
    """Return a field's finite number that is not negative, else 0.

    It may be a number in a string, as amounts of money are logged.
    """
    value = fields.get(name)
    if isinstance(value, str) and len(value) < 40:
        try:
            value = float(value)
        except ValueError:
            return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18:
        return float(value) if math.isfinite(value) else 0.0
    return 0.0


def count_in(fields: Fields, name: str) -> int:
    """Return a field's whole number, else 0."""
    return int(number_in(fields, name))


def first_text(value: object) -> str:
    """Return the first item of a list of texts, else ""."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return safe(items[0]) if items and isinstance(items[0], str) else ""


def failure_in(fields: Fields) -> Fields:
    """Return the failure of an event as its `to_dict()`; empty if it has none."""
    value = fields.get("failure")
    return cast("Fields", value) if isinstance(value, dict) else {}


def _structured_name(fields: Fields) -> str:
    """Return the message of a structured line up to its colon; the failure follows."""
    return text_in(fields, "msg").partition(": ")[0][:80] or "(no message)"
