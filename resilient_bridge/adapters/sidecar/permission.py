"""Whether a request that may have run may be repeated: by protocol, by name, or by hint. Pure.

Rule: a hint counts only from a trusted server. A command that the user starts is trusted for
read-only hints. Its idempotent hints, and all hints of a url, count only with `trust_hints`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .lists import LISTS, hint_of


if TYPE_CHECKING:
    from .lists import Lists
    from .options import Sidecar
    from .state import Call


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


def permission_of(options: Sidecar, call: Call, lists: Lists) -> str | None:
    """Return "read" or "idempotent" if a request may be repeated, else "".

    None if that depends on a hint about a tool that is not in these lists, which are incomplete.
    """
    has_task = "task" in call.request.params  # it creates a task, which is an effect
    if not call.is_tool:
        return "read" if call.method in READS and not has_task else ""
    if call.name in options.idempotent:
        return "read"
    if has_task or not (options.is_command or options.trust_hints):
        return ""
    is_known = "tools/list" in lists.complete or lists.tool(call.name) is not None
    return _trusted(options, lists, call.name) if is_known else None


def repeatable(options: Sidecar, lists: Lists) -> list[str]:
    """Return the names of the tools that may be repeated, also if only idempotent."""
    return [
        name
        for name in lists.names()
        if name in options.idempotent or _trusted(options, lists, name)
    ]


def _trusted(options: Sidecar, lists: Lists, name: str) -> str:
    hint = hint_of(lists.tool(name))
    return hint if options.trust_hints or (options.is_command and hint == "read") else ""
