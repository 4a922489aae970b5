"""Which numbers of `publish` a client got in a frame, whatever the system wraps them in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def numbers_in(frame: Any) -> list[int]:
    """Return the numbers of a frame in order: JSON text, several texts a line each, SSE, socket.io, or a value.

    A number is the value of a field `number` at any depth, JSON inside a text field included, or a "tick" of socket.io.
    """
    if isinstance(frame, str | bytes):
        lines = (frame.decode() if isinstance(frame, bytes) else frame).split("\n")
        return [number for line in lines for number in _walk(_parsed(line.removeprefix("data: ")))]
    return list(_walk(frame))


def _parsed(line: str) -> Any:
    text = line.lstrip("0123456789")  # socket.io's packet type
    if text[:1] not in {"{", "["}:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _walk(value: Any) -> Iterator[int]:
    if isinstance(value, str):
        yield from _walk(_parsed(value))
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name == "number" and isinstance(inner, int):
                yield inner
            else:
                yield from _walk(inner)
    elif isinstance(value, list):
        if len(value) > 1 and value[0] == "tick":
            yield value[1]
        else:
            for inner in value:
                yield from _walk(inner)
