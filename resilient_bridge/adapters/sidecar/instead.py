"""Answers that the relay gives to requests instead of the server. No I/O, no clock.

Rule: only if the server is not available, if the request refers to another session, or if it would
end the subscription of another client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from . import message
from .lists import LISTS, cursor_of
from .shared import UNSUBSCRIBE, is_wanted_by_others
from .status import add_status_tool


if TYPE_CHECKING:
    from .message import Message
    from .state import Call, Session, State

_STALE_CURSOR: Final = -32602
# Members that 2026-07-28 requires of a list; pages of earlier versions lack them.
_ASKED_OF_MODERN: Final[Mapping[str, Any]] = {
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
}


def remembered(state: State, call: Call) -> Message | None:
    """Return the answer to a list from memory while no session is usable; None if there is none.

    An empty or failed list would make clients forget their tools.
    """
    if call.method not in LISTS or state.usable is not None:
        return None
    page = state.known.page(call.method, cursor_of(call.request))
    if page is None or not _is_for_all(state, call, page):
        return None
    answer = message.result(
        call.request.id, {**_ASKED_OF_MODERN, **page} if call.client.is_modern else page
    )
    if state.options.status_tool and call.method == "tools/list" and "nextCursor" not in page:
        answer = add_status_tool(answer)
    return answer


def wanted_by_others(state: State, call: Call) -> Message | None:
    """Return the answer to an unsubscribe if another client is still subscribed, else None."""
    client, uri = call.client, call.request.name
    if (
        not state.is_shared
        or call.method != UNSUBSCRIBE
        or not is_wanted_by_others(state, client, uri)
    ):
        return None
    client.subscriptions.pop(uri, None)
    return message.result(call.request.id, {})


def stale(state: State, call: Call, session: Session) -> Message | None:
    """Return an error for a cursor of an earlier session, else None.

    The client then starts again with the first page.
    """
    cursor = cursor_of(call.request) if call.method in LISTS else ""
    if not cursor or not state.restarts or session.lists.knows_cursor(call.method, cursor):
        return None
    text = (
        "invalid cursor: it is of an earlier session of the server, begin again with the first page"
    )
    return message.error(call.request.id, _STALE_CURSOR, text)


def is_missing(state: State, call: Call, session: Session) -> bool:
    """Return whether a call's tool was listed once and is not in this session's complete list."""
    if (
        not call.is_tool
        or call.name not in state.tools_ever
        or "tools/list" not in session.lists.complete
    ):
        return False
    return session.lists.tool(call.name) is None


def _is_for_all(state: State, call: Call, page: Mapping[str, Any]) -> bool:
    """Return whether a page that another client may have requested may be given to this one."""
    if not state.is_shared or page.get("cacheScope") == "public":
        return True
    return state.options.is_command and not call.client.is_modern
