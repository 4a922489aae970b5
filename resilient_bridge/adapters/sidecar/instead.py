"""Answers that the relay gives in place of the server, from what is known of both sides. Pure.

Rule: only where the server's own answer is not available, or would be about another session or take
something from another client.
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
# What the era without sessions wants of a list, where it was learned from an answer in the other.
_ASKED_OF_MODERN: Final[Mapping[str, Any]] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def remembered(state: State, call: Call) -> Message | None:
    """Answer a list while the server is away: an empty or failed one makes clients forget their tools."""
    if call.method not in LISTS or state.usable is not None:
        return None
    page = state.known.page(call.method, cursor_of(call.request))
    if page is None or not _is_for_all(state, call, page):
        return None
    answer = message.result(call.request.id, {**_ASKED_OF_MODERN, **page} if call.client.is_modern else page)
    if state.options.status_tool and call.method == "tools/list" and "nextCursor" not in page:
        answer = add_status_tool(answer)
    return answer


def wanted_by_others(state: State, call: Call) -> Message | None:
    """Answer a client's unsubscribe where another client of the server is still subscribed."""
    client, uri = call.client, call.request.name
    if not state.is_shared or call.method != UNSUBSCRIBE or not is_wanted_by_others(state, client, uri):
        return None
    client.subscriptions.pop(uri, None)
    return message.result(call.request.id, {})


def stale(state: State, call: Call, session: Session) -> Message | None:
    """Return the refusal of a cursor of an earlier session: the client starts again with the first page."""
    cursor = cursor_of(call.request) if call.method in LISTS else ""
    if not cursor or not state.restarts or session.lists.knows_cursor(call.method, cursor):
        return None
    text = "invalid cursor: it is of an earlier session of the server, begin again with the first page"
    return message.error(call.request.id, _STALE_CURSOR, text)


def is_missing(state: State, call: Call, session: Session) -> bool:
    """Return whether a called tool existed before a restart and does not exist now."""
    if not call.is_tool or call.name not in state.tools_ever or "tools/list" not in session.lists.complete:
        return False
    return session.lists.tool(call.name) is None


def _is_for_all(state: State, call: Call, page: Mapping[str, Any]) -> bool:
    """Return whether an answer to one client may be given to another."""
    if not state.is_shared or page.get("cacheScope") == "public":
        return True
    return state.options.is_command and not call.client.is_modern
