"""Whether a request may be repeated although it may have run: by the protocol, by name, or by a trusted hint. Pure.

Rule: a hint counts only from a trusted server. A command that the user starts is trusted when it
calls a tool read-only; any other server, and idempotent tools, only with `trust_hints`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .lists import LISTS, hint_of


if TYPE_CHECKING:
    from .lists import Lists
    from .options import Sidecar
    from .state import Call, Session


READS: Final = frozenset(
    {
        *LISTS,
        "completion/complete",
        "logging/setLevel",
        "prompts/get",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "server/discover",
        "subscriptions/listen",
        "tasks/get",
        "tasks/list",
        "tasks/result",
    }
)
"""Requests that change nothing, or may be made twice, by the protocol."""


def permission_of(options: Sidecar, call: Call, session: Session) -> str:
    """Return "read" or "idempotent" if a request may be repeated, by its session's hints; else ""."""
    has_task = "task" in call.request.params  # what it makes is a task, and that is an effect
    if not call.is_tool:
        return "read" if call.method in READS and not has_task else ""
    if call.name in options.repeat:
        return "read"
    return "" if has_task else _trusted(options, session.lists, call.name)


def repeatable(options: Sidecar, lists: Lists) -> list[str]:
    """Return the names of the tools that may be repeated, the idempotent ones under their condition."""
    return [name for name in lists.names() if name in options.repeat or _trusted(options, lists, name)]


def _trusted(options: Sidecar, lists: Lists, name: str) -> str:
    hint = hint_of(lists.tool(name))
    return hint if options.trust_hints or (options.is_command and hint == "read") else ""
