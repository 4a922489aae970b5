"""A JSON text in which one member is set: everything else stays as it was written, to the byte.

Rule: what cannot be kept is refused, with the reason: a text that is no JSON, has comments, or
names a member twice. The result is read back before it is returned. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple, cast

from .strict_json import decoder


_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_COMMENT: Final = re.compile(rf"{_STRING}|(//|/\*)", re.DOTALL)
_INDENT: Final = re.compile(r"\{[ \t\r]*\n([ \t]+)\"")
_USUAL_INDENT: Final = "  "
_BOM: Final = "\ufeff"
_DECODER: Final = decoder(
    constant="{} is no number", infinite="{} is too large", twice="it names {!r} twice"
)


class NotEditableError(ValueError):
    """The text cannot be edited so that nothing of it is lost; the message says why."""


class _Object(NamedTuple):
    """An object in a text: where its brace closes, its members' values, and where the last one ends."""

    closes: int
    values: dict[str, tuple[int, int]]
    last_end: int | None


def members_of(text: str, key: str) -> dict[str, Any]:
    """Return the members of the object under `key`, none if it is missing.

    Raises NotEditableError.
    """
    found = _checked(text).get(key, {})
    if not isinstance(found, dict):
        raise NotEditableError(f"{json.dumps(key)} holds no object")
    return cast("dict[str, Any]", found)


def with_member(text: str, key: str, name: str, value: object) -> str:
    """Return the text with `value` as member `name` of the object under `key`.

    An empty text becomes a new object; one that has this value stays. Raises NotEditableError.
    """
    if not text.strip().removeprefix(_BOM):
        return json.dumps({key: {name: value}}, indent=2, ensure_ascii=False) + "\n"
    if (members := members_of(text, key)).get(name) == value and name in members:
        return text
    indent = found[1] if (found := _INDENT.search(text)) is not None else _USUAL_INDENT
    newline = "\r\n" if "\r\n" in text else "\n"
    root = _object_at(text, _start(text))
    if key not in root.values:
        new = _inserted(text, root, _item(key, {name: value}, indent, 1), indent, 1, newline)
    else:
        inner = _object_at(text, root.values[key][0])
        if name in inner.values:
            start, end = inner.values[name]
            lines = _item(name, value, indent, 2).partition(": ")[2]
            new = text[:start] + lines.replace("\n", newline) + text[end:]
        else:
            new = _inserted(text, inner, _item(name, value, indent, 2), indent, 2, newline)
    if _without(new, key, name) != _without(text, key, name) or members_of(new, key)[name] != value:
        raise NotEditableError("its form is one that is not understood")
    return new


def _checked(text: str) -> dict[str, Any]:
    try:
        found = _DECODER.decode(text.removeprefix(_BOM))
    except json.JSONDecodeError as error:
        if any(match[1] for match in _COMMENT.finditer(text)):
            raise NotEditableError("it has comments, which would be lost") from error
        raise NotEditableError(f"it is not JSON (line {error.lineno}: {error.msg})") from error
    except (ValueError, RecursionError) as error:
        raise NotEditableError(f"it is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise NotEditableError("it holds no object")
    return cast("dict[str, Any]", found)


def _without(text: str, key: str, name: str) -> dict[str, Any]:
    found, members = _checked(text), members_of(text, key)
    members.pop(name, None)
    return {**found, key: members}


def _start(text: str) -> int:
    return _skip(text, 1 if text.startswith(_BOM) else 0)


def _skip(text: str, index: int) -> int:
    found = _SPACE.match(text, index)
    return index if found is None else found.end()


def _object_at(text: str, index: int) -> _Object:
    """Return the object that begins at `index`, in a text that is known to be JSON."""
    values: dict[str, tuple[int, int]] = {}
    last_end = None
    index = _skip(text, index + 1)
    while text[index] != "}":
        key, index = _DECODER.raw_decode(text, index)
        start = _skip(text, _skip(text, index) + 1)  # after the colon
        _, end = _DECODER.raw_decode(text, start)
        values[key] = start, end
        last_end, index = end, _skip(text, end)
        if text[index] == ",":
            index = _skip(text, index + 1)
    return _Object(index, values, last_end)


def _item(name: str, value: object, indent: str, depth: int) -> str:
    """Return a member as it is written at this depth, without the indentation of its first line."""
    written = json.dumps({name: value}, indent=indent, ensure_ascii=False).split("\n")[1:-1]
    first, *rest = [line.removeprefix(indent) for line in written]
    return "\n".join([first, *(indent * depth + line for line in rest)])


def _inserted(  # noqa: PLR0917 -- a place in a text, and how it is indented there
    text: str, into: _Object, item: str, indent: str, depth: int, newline: str
) -> str:
    item = f"{newline}{indent * depth}" + item.replace("\n", newline)
    if into.last_end is not None:
        return f"{text[: into.last_end]},{item}{text[into.last_end :]}"
    opens = text.rindex("{", 0, into.closes) + 1
    return f"{text[:opens]}{item}{newline}{indent * (depth - 1)}{text[into.closes :]}"
