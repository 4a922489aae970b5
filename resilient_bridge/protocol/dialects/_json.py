"""JSON frames by field names and dotted paths: most dialects are a table of these."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs

from ..facts import Acked, Received
from ..frames import decode_json
from ..policies.dialect import Dialect


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..facts import Fact, Send

    Body: TypeAlias = dict[str, Any]
    Read: TypeAlias = Callable[[Body], tuple[Fact, ...]]
    """Reads a decoded frame; returns the facts in it."""


def framed(**names: Any) -> Dialect:
    """The dialect of a server with frames of its own, which says where a token goes."""
    return Dialect.envelopes(error=None, bearer=False, **names)


def write(value: Any) -> str:
    """`value` as JSON in one line. Raises ValueError or TypeError for what is none."""
    return _encode(value)


_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def part(body: Any, path: str | None) -> Any:
    """Return the value at a dotted path, None if there is none."""
    if path is None:
        return None
    for name in path.split("."):
        body = fields(body).get(name)
    return body


def fields(value: Any) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """`value` if it is an array, else an empty one."""
    return list(cast("Any", value)) if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """Return a name as text: servers write some as numbers."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def table(
    *,
    type: str | None = "type",
    id: str | None = None,
    timestamp: str | None = None,
    payload: str | None = None,
    channel: str | None = None,
    position: str | None = None,
    ack: str | None = None,
    others: Mapping[str, Read] | None = None,
) -> Table:
    """Return a `decode` for JSON objects whose parts are at these dotted paths.

    `others` reads frames of those types. A frame without a position that has a name at `ack`
    acknowledges our message with that name.

    A frame that is no object is a message without a type. An event whose position is null or absent
    is in no log. One that `Positions.order` does not allow is refused: where events have numbers,
    anything but a whole number; elsewhere anything but that and a text (a time in fractions of a
    second is read as none).
    """
    paths = (type, id, timestamp, payload, channel, position, ack)
    return Table(*paths, dict(others or {}), all(path is None or "." not in path for path in paths))


@attrs.frozen
class Table:
    """The result of `table`: a value that is equal to another with the same names."""

    type: str | None
    id: str | None
    timestamp: str | None
    payload: str | None
    channel: str | None
    position: str | None
    ack: str | None
    others: Mapping[str, Read] = attrs.field(hash=False)
    _is_flat: bool

    def __call__(self, frame: str | bytes) -> tuple[Fact, ...]:
        """The facts of a frame."""
        if isinstance(frame, bytes):
            return (Received(raw=frame),)
        try:
            value: Any = decode_json(frame)
        except ValueError:
            return (Received(raw=frame),)  # text that is no JSON is a message, too
        body: Body = value
        if not isinstance(value, dict):
            return (Received(raw=value),)
        get: Callable[[Any], Any] = body.get if self._is_flat else partial(part, body)
        kind = get(self.type) if self.type is not None else ""
        if not isinstance(kind, str):
            kind = ""
        if kind in self.others:
            return self.others[kind](body)
        if self.ack is not None and self.position is not None and get(self.position) is None:
            named = text(get(self.ack))
            if named is not None:
                return (Acked(echo=named),)
        found = get(self.payload) if self.payload is not None else body
        return (
            Received(
                raw=body,
                type=kind,
                payload=fields(found),
                id=text(get(self.id)) if self.id is not None else None,
                timestamp=text(get(self.timestamp)) if self.timestamp is not None else None,
                channel=text(get(self.channel)) if self.channel is not None else None,
                # whatever it is: one that the order of positions does not allow is refused with its frame
                position=get(self.position) if self.position is not None else None,
            ),
        )


def own(message: Send, type_field: str | None = "type") -> str:
    """Return the user's own frame; a type that was passed beside it is written into it."""
    if message.type and type_field is not None and "." not in type_field:
        return _encode({type_field: message.type, **message.payload})
    return _encode(dict(message.payload))


def filled(template: Any, position: Any) -> Any:
    """Return a frame template in which the position replaces the text "{position}"."""
    if template == "{position}":
        return position
    if isinstance(template, dict):
        return {name: filled(value, position) for name, value in fields(template).items()}
    return (
        [filled(value, position) for value in items(template)]
        if isinstance(template, list)
        else template
    )
