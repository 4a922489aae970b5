"""Events and records as lines of a session log: one JSON object each, bounded, without secrets.

Does no I/O.

Rule: every input becomes one line. A value with a sensitive name is masked; the name may be its
key, the item before it, or a field `name` beside a field `value`. Texts are redacted as well. Cut
values are marked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from .. import events
from ..failure import (
    MASK,
    Failure,
    class_name,
    hides,
    is_sensitive,
    model_type,
    redact,
    redact_value,
    text_of,
)
from ..telemetry.debug import kind_of
from ..telemetry.event import TOOL_CALL, name_in_words
from .state_files.document import instant


if TYPE_CHECKING:
    from ..telemetry.event import Event


LONGEST_LINE: Final = 65_536
"""Bytes, the line break included."""
_DEEPEST: Final = 8
_WIDEST: Final = 100  # items of one mapping or sequence
_MOST: Final = 2_000  # values in one line
# characters read for one line; more than its length, because of a text only a part is shown
_WORK: Final = 2 * LONGEST_LINE
_READ: Final = 8_192  # at most so many of them count for one text
_CUT: Final = "…"
_VIBER_KEYS: Final = ("level", "ts", "msg", "tool", "provider", "attempt", "error", "duration_ms")
_NAMES: Final = ("name", "key", "field", "header")
_VALUES: Final = ("value", "received")


def event_line(event: Event, more: Mapping[str, object] | None = None) -> bytes:
    """Return the line of an event: `at`, `event` (its class), its fields, and `more`.

    A failure is written as its `to_dict()`.
    """
    kind = type(event).__name__
    try:
        fields = dict(list(vars(event).items())[1:])
        if not fields.get("bridge"):
            fields.pop("bridge", None)
        return record_line({"event": kind, **fields, **(more or {})}, event.at)
    except Exception as error:  # noqa: BLE001 -- an event that cannot be read gets a line, too
        return _written({"at": None, "event": redact(kind), "unreadable": type(error).__name__})


def log_line(event: Event) -> bytes:
    """Return the line of an event in a structured log: level, ts, msg, and known fields of it."""
    try:
        return _written(_log_fields(event))
    except Exception as error:  # noqa: BLE001 -- an event that cannot be read gets a line, too
        return _unreadable(error)


def viber_line(event: Event) -> bytes:
    """Return the line of an event as OpenViber prints it.

    Its keys are level, ts (to the second) and msg, then those of tool, provider, attempt, error and
    duration_ms that are known.
    """
    try:
        line = _log_fields(event)
        line["ts"] = event.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if isinstance(event, events.ToolFailed):
            line["msg"] = "Tool execution failed"
        elif isinstance(event, events.RetryScheduled) and "provider" in line:
            line["msg"] = "Retrying LLM request"
        elif (
            isinstance(event, events.GaveUp | events.CallFinished) and event.name == TOOL_CALL.get()
        ):
            line["level"] = "info"  # its ToolFailed follows, and is the one error
        return _written({key: line[key] for key in _VIBER_KEYS if key in line})
    except Exception as error:  # noqa: BLE001 -- as in `log_line`
        return _unreadable(error)


def _log_fields(event: Event) -> dict[str, Any]:
    """Return the fields of a structured log for an event, masked.

    Raises for an event that cannot be read.
    """
    failure: Failure | None = getattr(event, "failure", None)
    details: Mapping[str, Any] = {} if failure is None else failure.details
    seconds = getattr(event, "seconds", None)
    kind = kind_of(event)
    known = {
        "tool": getattr(event, "tool", None) or details.get("tool"),
        "name": getattr(event, "name", None),
        "provider": details.get("provider_id"),
        "attempt": getattr(event, "attempt", None),
        "error": None if failure is None else model_type(failure),
        "code": None if failure is None else failure.code,
        "duration_ms": round(seconds * 1_000) if isinstance(seconds, int | float) else None,
    }
    words = name_in_words(event).capitalize()
    msg = words if failure is None else f"{words}: {failure.message}"
    line = {"level": _level(event, failure), "ts": instant(event.at)}
    line |= {"msg": msg} if kind is None else {"kind": kind, "msg": msg}
    plain = {**line, **{name: value for name, value in known.items() if value is not None}}
    return _Masked().mapping(plain, 0)


def _unreadable(error: Exception) -> bytes:
    text = f"an event that cannot be read: {type(error).__name__}"
    return _written({"level": "error", "ts": None, "msg": text})


def _level(event: Event, failure: Failure | None) -> str:
    if failure is None:
        return "info"
    return "warn" if hasattr(event, "wait") or not getattr(event, "required", True) else "error"


def record_line(record: Mapping[str, object], at: datetime) -> bytes:
    """Return the line of a record: `at`, unless it has its own, and its fields. Never raises."""
    try:
        stamped: dict[str, object] = {"at": instant(at), **record}
        plain = _Masked().mapping(stamped, 0)
        line = _written(plain)
    except Exception as error:  # noqa: BLE001 -- an unreadable object gets a line that says so
        return _written({"at": instant(at), "unreadable": type(error).__name__})
    if len(line) <= LONGEST_LINE:
        return line
    fields = {name: plain[name] for name in ("at", "event") if isinstance(plain.get(name), str)}
    return _written({**fields, "cut": f"a line of {len(line)} bytes"})


def _written(plain: dict[str, Any]) -> bytes:
    # ASCII escapes every control character, and all others that some reader takes for a line break.
    return f"{json.dumps(plain, separators=(',', ':'), allow_nan=False)}\n".encode()


class _Masked:
    """Masks one value, which may have any size and contain itself."""

    def __init__(self) -> None:
        self._values_allowed = _MOST
        self._work = _WORK

    def value(self, value: object, depth: int) -> Any:
        self._values_allowed -= 1
        match value:
            case Failure():
                return value.to_dict()  # redacted when it was made
            case datetime():
                return value.isoformat()
            case float() if not math.isfinite(value):
                return str(value)
            case BaseException():
                return f"{class_name(value)}: {text_of(value)}"
            case str() | bytes() | bytearray():
                self._work -= min(len(value), _READ)
                return redact_value(value) if self._work > 0 else _CUT
            case bool() | int() | float() | None:
                return redact_value(value)
            case _ if depth >= _DEEPEST or self._values_allowed <= 0:
                return _CUT
            case Mapping():
                return self.mapping(cast("Mapping[Any, object]", value), depth)
            case Sequence() | AbstractSet():
                return self._items(cast("Sequence[object]", value), depth)
            case _:
                return redact_value(value)

    def mapping(self, value: Mapping[Any, object], depth: int) -> dict[str, Any]:
        names_secret = any(_is_secret(value.get(name)) for name in _NAMES)
        plain: dict[str, Any] = {}
        for number, (key, item) in enumerate(islice(value.items(), _WIDEST + 1)):
            if number >= _WIDEST or self._values_allowed <= 0 or self._work <= 0:
                plain[_CUT] = len(value) - number
                break
            written = _text(key)
            self._work -= min(len(written), _READ)
            name = redact(written, limit=100)
            hidden = hides(name, item) or (names_secret and name in _VALUES)
            plain[name] = MASK if hidden and item is not None else self.value(item, depth + 1)
        return plain

    def _items(self, items: Sequence[object] | AbstractSet[object], depth: int) -> list[Any]:
        plain: list[Any] = []
        before: object = None
        for number, item in enumerate(islice(items, _WIDEST + 1)):
            if number >= _WIDEST or self._values_allowed <= 0 or self._work <= 0:
                plain.append(f"{_CUT} {len(items) - number} more")
                break
            plain.append(
                MASK if _is_secret(before) and item is not None else self.value(item, depth + 1)
            )
            before = item
        return plain


def _is_secret(name: object) -> bool:
    return isinstance(name, str | bytes) and is_sensitive(_text(name))


def _text(name: object) -> str:
    return name.decode("utf-8", "ignore") if isinstance(name, bytes) else str(name)
