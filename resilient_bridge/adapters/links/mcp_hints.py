"""An MCP server's hints about its tools: which are read-only, and which are idempotent.

They are requested once per connection, when the first call needs them, and again after a refusal.

Rule: only the hints of the connection on which a call is sent count. A list that does not arrive in
time counts as no hint.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from ..mcp_wire import is_command


if TYPE_CHECKING:
    from typing import TypeAlias

    from .connection import Connection

    Hint: TypeAlias = Literal["", "read", "idempotent"]


_PATIENCE: Final = 5.0  # seconds for the list of tools
_PAGES: Final = 20


async def hint_for(connection: Connection, tool: str, *, trusts: bool) -> Hint:
    """Return the hint of this connection's server about a tool, "" if it is not trusted.

    A server that the user starts as a command is trusted about read-only tools. Every other hint
    needs `trusts`.
    """
    client = connection.client
    if not hasattr(client, "list_tools") or not (trusts or is_command(client)):
        return ""
    if connection.hints is None:
        connection.hints = asyncio.ensure_future(_listed(connection))
    # All calls share the request, so a cancelled caller must not cancel it.
    found: dict[str, Hint] | None = await asyncio.shield(connection.hints)
    if found is None:
        connection.hints = None  # the next call asks again
        return ""
    hint = found.get(tool, "")
    return hint if trusts or hint == "read" else ""


async def _listed(connection: Connection) -> dict[str, Hint] | None:
    """Return the hints by tool; None if the list was refused."""
    found: dict[str, Hint] = {}
    cursor: str | None = None
    with suppress(Exception):
        async with asyncio.timeout(_PATIENCE):
            for _ in range(_PAGES):
                more = {} if cursor is None else {"cursor": cursor}
                ended = await connection.call(partial(connection.client.list_tools, **more))
                if ended.is_lost or ended.error is not None:
                    return None
                found |= {tool.name: _hint(tool) for tool in ended.result.tools}
                cursor = getattr(ended.result, "next_cursor", None) or getattr(
                    ended.result, "nextCursor", None
                )
                if not cursor:
                    break
    return found


def _hint(tool: Any) -> Hint:
    tool_hints = tool.annotations
    if tool_hints is None:
        return ""
    # The second name is from mcp 1.
    if _has_hint(tool_hints, "read_only_hint", "readOnlyHint"):
        return "read"
    return "idempotent" if _has_hint(tool_hints, "idempotent_hint", "idempotentHint") else ""


def _has_hint(tool_hints: Any, *names: str) -> bool:
    return any(getattr(tool_hints, name, None) is True for name in names)
