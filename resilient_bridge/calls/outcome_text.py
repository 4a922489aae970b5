"""The JSON text of an Outcome's value: bounded in size, and made without raising.

Rule: the output of a failed call is redacted. A result is not, because the caller asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from ..failure import redact_lines


if TYPE_CHECKING:
    from ..failure import Failure


LIMIT: Final = 100_000
"""The most characters of a result that a model gets."""
_DEEPEST: Final = 20
_COMMANDS: Final = "resilient_bridge.agent.tools.shell_commands"
_LINE: Final = 8_000  # characters of one line of output: all that `redact` reads
_BINARY: Final = 10  # bytes are binary if more than one character in ten does not decode
# Line breaks for many readers that JSON does not escape.
_BREAKS: Final = {point: f"\\u{point:04x}" for point in (0x85, 0x2028, 0x2029)}
# Causes followed: a deadline is raised from a cancellation, and that from a command's error.
_CHAIN: Final = 4


class _Room:
    """The characters that still fit, and whether anything was cut."""

    def __init__(self) -> None:
        self.remaining = LIMIT
        self.is_cut = False


def as_line(report: Mapping[str, Any], **values: object) -> str:
    """Return one line of JSON: the whole report, and the values as far as they fit.

    `cut` is set if something is missing.
    """
    import json

    room = _Room()
    line = {**report, **{name: _plain(value, room, 0) for name, value in values.items()}}
    if room.is_cut:
        line["cut"] = f"longer than {LIMIT:,} characters: the rest is left out"
    return json.dumps(line, ensure_ascii=False).translate(_BREAKS)


def printed(
    name: str, value: object, error: BaseException | None, failure: Failure | None
) -> object:
    """Return a command's `exit_code`, `stdout` or `stderr`.

    From its error, the failure or its result; None if unknown.
    """
    for _ in range(_CHAIN):
        if type(error).__module__ == "subprocess":
            output = getattr(error, "returncode" if name == "exit_code" else name, None)
            if output is not None:
                return output if name == "exit_code" else _redacted(output)
        error = _cause(error)
    if failure is not None:
        return failure.details.get(name)
    # Compared by module name, because tools are a higher layer. Other objects with an exit_code are shown whole.
    return getattr(value, name) if type(value).__module__ == _COMMANDS else None


def _cause(error: BaseException | None) -> BaseException | None:
    try:
        return None if error is None else error.__cause__
    except Exception:  # noqa: BLE001 -- a class may define __cause__ as a property that raises
        return None


def _redacted(output: object) -> str:
    if isinstance(output, bytes):
        output = output[-4 * LIMIT :].decode("utf-8", "replace")
    text = output if isinstance(output, str) else ""
    if len(text) > LIMIT:  # half a secret may no longer look like one: drop the first word with it
        text = ([*text[-LIMIT:].split(None, 1), ""])[1]
    return redact_lines(text.strip(), limit=_LINE)


def _plain(value: Any, room: _Room, depth: int) -> Any:
    """Return a value as JSON data, and subtract its size from the room."""
    if room.remaining <= 0 or depth > _DEEPEST:
        room.is_cut = True
        return "…"
    room.remaining -= 4  # brackets, a comma, a space
    try:
        return _taken_apart(value, room, depth)
    except Exception:  # noqa: BLE001 -- a value may be anything, and its own methods may fail
        return f"<{type(value).__name__} without text>"


def _taken_apart(value: Any, room: _Room, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if type(value) in (int, float):
        text = repr(value)  # ValueError for an integer of thousands of digits
        room.remaining -= len(text)
        return (
            value if value - value == 0 else text
        )  # as text for nan and infinity, which JSON does not have
    if isinstance(value, bytes | bytearray):
        return _fitting(_decoded(value, room.remaining), room)
    if isinstance(value, Mapping):
        return _named(cast("Any", value), room, depth)
    if isinstance(value, list | tuple | set | frozenset):
        parts = cast("list[Any]", value)
        found: list[Any] = []
        for part in parts:
            if room.remaining <= 0:
                room.is_cut = True
                break
            found.append(_plain(part, room, depth + 1))
        return found
    return _fitting(value if type(value) is str else str(value), room)


def _named(value: Mapping[Any, Any], room: _Room, depth: int) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for key, item in value.items():
        if room.remaining <= 0:
            room.is_cut = True
            break
        name = _fitting(str(key), room)
        named[name] = _plain(item, room, depth + 1)
    return named


def _decoded(data: bytes | bytearray, most: int) -> str:
    text = bytes(data[: most + 1]).decode("utf-8", "replace")
    if "\0" in text or text.count("\ufffd") > 1 + len(text) // _BINARY:
        return f"<{len(data)} bytes that are no text>"
    return text


def _fitting(text: str, room: _Room) -> str:
    """Return as much of a text as fits, measured by its length in JSON."""
    most = max(room.remaining, 0)
    if len(text) > most:
        room.is_cut = True
        text = text[:most] + "…"
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # half of a surrogate pair is no text
    cost = len(text)
    if not text.isprintable():
        import json

        cost = len(json.dumps(text, ensure_ascii=False).translate(_BREAKS))
        if cost > most + 2:  # every control character takes six
            room.is_cut = True
            text = text[: len(text) * most // cost]
    room.remaining -= cost
    return text
