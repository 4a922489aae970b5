"""The state of a relay, for `/health` and for the status tool.

Without secrets. Pure.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from . import message
from .message import list_of
from .state import Phase


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .message import Message
    from .restarts import Restarts
    from .state import State


STATUS_TOOL: Final = "resilient_bridge_status"
"""The tool that `Sidecar.status_tool` adds to the server's."""

_DESCRIPTION: Final = "Says whether the server behind the sidecar is up, why it was restarted, and how calls have ended."


def status_of(state: State, restarts: Restarts, now: float) -> Mapping[str, Any]:
    current = state.current
    # no client has connected yet
    is_unused = current is None and not state.clients and state.last_loss is None
    phase = str(current.phase) if current is not None else "not started" if is_unused else "away"
    is_ready = current is not None and current.phase is Phase.READY
    refused_for = restarts.open_for(now)
    is_coming = current is not None and not current.is_reported_away and not restarts.is_failing
    status = (
        "ok"
        if is_ready or is_unused
        else "degraded"
        if is_coming and refused_for is None
        else "down"
    )
    found: dict[str, Any] = {
        "status": status,
        "server": phase,
        "restarts": state.restarts,
        "clients": len(state.clients),
        "waiting": len(state.waiting),
        "under_way": sum(len(session.pending) for session in state.sessions.values()),
        "outcomes": dict(state.outcomes),
        "strays": state.strays,
    }
    if state.last_loss is not None:
        found["last_loss"] = state.last_loss.reason
    due = restarts.due(state)
    if not is_ready and due is not None:
        found["next_start_in"] = round(max(0.0, due - now), 3)
    if refused_for is not None:
        found["refusing_for"] = round(refused_for, 3)
    return found


def add_status_tool(answer: Message) -> Message:
    """Return the last page of a list of tools with the status tool added at its end."""
    if not isinstance(answer.result.get("tools"), list):
        return answer
    own: dict[str, Any] = {
        "name": STATUS_TOOL,
        "description": _DESCRIPTION,
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }
    return answer.with_member(("result", "tools"), [*list_of(answer.result.get("tools")), own])


def status_answer(id: object, status: Mapping[str, Any], *, is_modern: bool) -> Message:
    text = json.dumps(status, indent=1)
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": False}
    return message.result(id, ({"resultType": "complete"} if is_modern else {}) | result)
