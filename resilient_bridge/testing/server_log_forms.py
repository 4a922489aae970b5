"""The frames of a bridge with a log: where the position is, and how it is requested and answered.

Rule: nothing of the client is imported, so that its mistakes are not repeated here. A path is
dotted: `meta.seq`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import parse_qs

import attrs


ABSENT: Final[Any] = object()
"""The value for a frame or URL without a request."""

_POSITION: Final = "{position}"


@attrs.frozen(kw_only=True)
class Forms:
    """The names and forms of one bridge; None for a frame that it does not have."""

    field: str
    ask: str | Mapping[str, Any]
    type: str
    payload: str | None
    id: str | None
    reset: str | None
    end: str | None
    hello: str | None
    epoch: str | None
    ping: Mapping[str, Any] | None
    pong: str | None

    def event(
        self, kind: str, payload: Mapping[str, Any], position: int | str, ident: str | None
    ) -> dict[str, Any]:
        """Return the frame of an event; its own fields override those of the payload."""
        frame: dict[str, Any] = {}
        if self.payload is None:
            frame = dict(payload)
        else:
            put(frame, self.payload, dict(payload))
        put(frame, self.type, kind)
        put(frame, self.field, position)
        if self.id is not None and ident is not None:
            put(frame, self.id, ident)
        return frame

    def notice(self, kind: str) -> dict[str, Any]:
        frame: dict[str, Any] = {}
        put(frame, self.type, kind)
        return frame

    def greeting(self, log: str) -> dict[str, Any] | None:
        """Return the first frame of a connection, with the name of the log if it has one."""
        if self.hello is None:
            return None
        frame = self.notice(self.hello)
        if self.epoch is not None:
            put(frame, self.epoch, log)
        return frame

    def asked_in_url(self, path: str) -> Any:
        """Return the position requested in an upgrade's query, as text; ABSENT without one."""
        if not isinstance(self.ask, str):
            return ABSENT
        values = parse_qs(path.partition("?")[2], keep_blank_values=True).get(self.ask)
        return values[-1] if values else ABSENT

    def asked_in(self, frame: object) -> Any:
        """Return the position that a frame requests; ABSENT if it is no such frame."""
        if isinstance(self.ask, str):
            return ABSENT
        found: list[Any] = []
        return found[0] if _fits(self.ask, frame, found) and found else ABSENT

    def is_ping(self, frame: object) -> bool:
        return self.ping is not None and _fits(self.ping, frame, [])


def decoded(frame: str | bytes) -> Any:
    """Return a text frame's JSON; the frame itself if it is binary or no JSON."""
    if isinstance(frame, bytes):
        return frame
    try:
        return json.loads(frame)
    except (ValueError, RecursionError):
        return frame


def put(frame: dict[str, Any], path: str, value: object) -> None:
    """Write a value to a path, creating objects on the way; existing ones are copied."""
    *outer, last = path.split(".")
    for name in outer:
        there: object = frame.get(name)
        inner = dict(cast("dict[str, Any]", there)) if isinstance(there, dict) else {}
        frame[name] = inner
        frame = inner
    frame[last] = value


def has_position(template: object) -> bool:
    """Return whether the text "{position}" is a value in this form."""
    return template == _POSITION or any(map(has_position, _values(template)))


def _values(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from cast("Mapping[str, object]", value).values()
    elif isinstance(value, list):
        yield from cast("list[object]", value)


def _fits(template: object, value: object, found: list[Any]) -> bool:
    """Return whether the value fits the form; the value at "{position}" goes to `found`."""
    if template == _POSITION:
        found.append(value)
        return True
    if isinstance(template, Mapping):
        if not isinstance(value, dict):
            return False
        fields = cast("dict[str, object]", value)
        wanted = cast("Mapping[str, object]", template)
        return all(
            name in fields and _fits(part, fields[name], found) for name, part in wanted.items()
        )
    if isinstance(template, list):
        parts = cast("list[object]", template)
        if not isinstance(value, list):
            return False
        values = cast("list[object]", value)
        return len(parts) == len(values) and all(
            _fits(part, each, found) for part, each in zip(parts, values, strict=True)
        )
    return template == value
