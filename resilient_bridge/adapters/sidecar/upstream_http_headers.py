"""The MCP headers of a message over HTTP; since 2026-07-28 they repeat parts of the body. Pure.

Rule: a header that repeats the body is read from the message itself, so both always agree.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final

from ...failure import mapping_of
from . import eras


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .message import Message


VERSION: Final = "mcp-protocol-version"
SESSION: Final = "mcp-session-id"
EVENTS: Final = "text/event-stream"
POST: Final = {"accept": f"application/json, {EVENTS}", "content-type": "application/json"}
GET: Final = {"accept": EVENTS, "cache-control": "no-cache"}

_NAMED: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
_PLAIN: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_ENCODED: Final = re.compile(r"=\?base64\?.*\?=")
_MARK: Final = "x-mcp-header"
_DEEP: Final = 40  # levels of a schema that are searched for marks


def modern_version(message: Message) -> str:
    """Return the version that a message of 2026-07-28 or later names in its `_meta`.

    Empty for an earlier one.
    """
    version = message.meta.get(eras.VERSION)
    return version if isinstance(version, str) else ""


def modern_headers(message: Message, version: str, marks: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that repeat a message's content.

    `marks` are those of each tool, as `marks_of` returns them.
    """
    headers = {VERSION: version}
    if message.method:
        headers["mcp-method"] = encoded(message.method)
    if message.method in _NAMED and message.name:
        headers["mcp-name"] = encoded(message.name)
    if message.method == "tools/call" and message.name in marks:
        from mcp.shared.inbound import mcp_param_headers

        headers |= mcp_param_headers(marks[message.name], _texts(message.params.get("arguments")))
    return headers


def encoded(value: str) -> str:
    """Return a value for a header: as it is, or as `=?base64?…?=` if it has other characters."""
    if (_PLAIN.fullmatch(value) or not value) and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode('ascii')}?="


def marks_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the `x-mcp-header` marks of the tools that have valid ones, by the tool's name.

    Raises ImportError if there are marks and the package `mcp` is not installed.
    """
    marks: dict[str, Any] = {}
    for tool in tools:
        name, schema = tool.get("name"), tool.get("inputSchema")
        if not isinstance(name, str) or not _is_marked(schema):
            continue
        from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map

        if find_invalid_x_mcp_header(schema) is None:
            marks[name] = x_mcp_header_map(schema)
    return marks


def _is_marked(schema: object, depth: int = 0) -> bool:
    if depth > _DEEP:
        return False
    if isinstance(schema, list):
        parts: list[Any] = schema  # pyright: ignore[reportUnknownVariableType]
        return any(_is_marked(part, depth + 1) for part in parts)
    members = mapping_of(schema)
    return _MARK in members or any(_is_marked(value, depth + 1) for value in members.values())


def _texts(arguments: object) -> dict[str, Any]:
    return {str(name): value for name, value in mapping_of(arguments).items()}
