"""Routes a server's notifications and requests to clients and their streams. No I/O, no clock.

Rule: a notification goes to the client whose request it belongs to; one without a request, or of a
change, goes to all that want it. No client gets what belongs to the call of another. Requests of a
server that several clients share are refused.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from . import message
from .eras import ACKNOWLEDGED, CHANGES, LISTEN, SUBSCRIPTION
from .lists import LISTS
from .message import key_of, object_of
from .shared import is_loud_enough, is_subscribed
from .state import Asked, Call


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .message import Message
    from .state import ClientState, Session, State


_UPDATED: Final = "notifications/resources/updated"
_NEEDS: Final[Mapping[str, str]] = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}
_METHOD_NOT_FOUND: Final = -32601
_CLIENT_HAS_GONE: Final = -32603
_LARGEST: Final = sys.float_info.max


def tell_changed(state: State, notice: str) -> None:
    """Notify the clients that a list has changed, each in the form of its era."""
    for client in state.clients.values():
        if client.is_modern:
            for call in client.calls.values():
                wanted = object_of(call.request.params.get("notifications"))
                if call.method == LISTEN and wanted.get(CHANGES[notice][1]):
                    params = {"_meta": {SUBSCRIPTION: call.request.id}}
                    _to_listener(state, call, message.notification(notice, params))
        elif client.is_initialized:
            state.to_client(client, message.notification(notice))


def deliver_notice(state: State, session: Session, note: Message, request: int | None) -> None:
    """Deliver a notification of the server to the clients that it concerns."""
    method = note.method
    if method == "notifications/progress":
        _deliver_progress(state, session, note)
    elif method == "notifications/cancelled":
        _deliver_cancelled(state, session, note)
    elif SUBSCRIPTION in note.meta:
        _deliver_to_listener(state, session, note)
    else:
        about = pending_call(session, request)
        is_for_all = method in CHANGES or method == _UPDATED
        # it came in the stream of a request that is not pending: that client no longer waits
        is_of_one = request is not None and request not in session.pending
        if state.is_shared and about is None and not is_for_all and is_of_one:
            state.strays += 1
            return
        is_for_one = about is not None and not is_for_all
        for client in (
            [about.client] if about is not None and is_for_one else list(state.clients.values())
        ):
            if _is_wanted(state, client, note):
                related = about or sole_call(session, client)
                state.to_client(client, note, related.request.key if related is not None else None)


def ask_client(state: State, session: Session, request: Message, about: int | None) -> None:
    """Deliver a request of the server to the client whose call caused it, or refuse it.

    It is refused if the client is not certain or does not offer it, and on a shared server always.
    """
    call = pending_call(session, about)
    clients = [call.client] if call is not None else list(state.clients.values())
    needs = _NEEDS.get(request.method)
    if (
        len(clients) != 1
        or (needs is not None and needs not in clients[0].capabilities)
        or state.is_shared
    ):
        refusal = message.error(
            request.id, _METHOD_NOT_FOUND, f"the client does not offer {request.method}"
        )
        state.to_server(session, refusal)
        return
    client = clients[0]
    client.asks_roots |= request.method == "roots/list"
    number = state.number()
    state.asked[number] = Asked(session, request, client)
    related = call or sole_call(session, client)
    state.to_client(
        client, request.with_id(number), related.request.key if related is not None else None
    )


def leave(state: State, client: ClientState) -> None:
    """Refuse the server's requests to a client that has left."""
    for number, asked in list(state.asked.items()):
        if asked.client is client:
            del state.asked[number]
            state.to_server(
                asked.session,
                message.error(asked.request.id, _CLIENT_HAS_GONE, "the client has left"),
            )


def pending_call(session: Session, request: int | None) -> Call | None:
    """Return the client's pending call with this id in a session."""
    found = session.pending.get(request) if request is not None else None
    return found if isinstance(found, Call) else None


def sole_call(session: Session, client: ClientState) -> Call | None:
    """Return the only call of this client that the server can be working on.

    None if there is none, or more than one. Lists and listen streams do not count; if tools are
    called, no other request counts.
    """
    calls = [
        one for one in session.pending.values() if isinstance(one, Call) and one.client is client
    ]
    working = [one for one in calls if one.method not in LISTS and one.method != LISTEN]
    tools = [one for one in working if one.is_tool]
    found = tools or working
    return found[0] if len(found) == 1 else None


def _deliver_progress(state: State, session: Session, note: Message) -> None:
    token = note.params.get("progressToken")
    call = pending_call(
        session, token if isinstance(token, int) and not isinstance(token, bool) else None
    )
    progress = note.params.get("progress")
    if call is None or call.request.progress_token is None:
        state.strays += 1
        return
    if isinstance(progress, int | float) and not isinstance(progress, bool):
        if progress <= call.progress and (call.sends > 1 or call.has_reported):
            return  # progress has to grow, also after a repeat or a report of ours
        if call.progress < progress <= _LARGEST:
            call.progress = float(progress)
    state.to_client(
        call.client, note.with_progress_token(call.request.progress_token), call.request.key
    )


def _deliver_cancelled(state: State, session: Session, note: Message) -> None:
    key = key_of(note.params.get("requestId"))
    for number, asked in list(state.asked.items()):
        if asked.session is session and asked.request.key == key:
            del state.asked[number]
            state.to_client(asked.client, note.with_request_id(number))


def _deliver_to_listener(state: State, session: Session, note: Message) -> None:
    found = note.meta[SUBSCRIPTION]
    call = pending_call(
        session, found if isinstance(found, int) and not isinstance(found, bool) else None
    )
    if call is None:
        state.strays += 1
        return
    is_acknowledgement = note.method == ACKNOWLEDGED
    # the stream was opened again: report every resource as updated, a change may have been missed
    if is_acknowledgement and call.has_acknowledged:
        for uri in (
            object_of(call.request.params.get("notifications")).get("resourceSubscriptions") or ()
        ):
            params = {"uri": uri, "_meta": {SUBSCRIPTION: call.request.id}}
            _to_listener(state, call, message.notification(_UPDATED, params))
        return
    call.has_acknowledged |= is_acknowledgement
    _to_listener(state, call, note.with_member(("params", "_meta", SUBSCRIPTION), call.request.id))


def _to_listener(state: State, call: Call, note: Message) -> None:
    state.to_client(call.client, note, call.request.key)


def _is_wanted(state: State, client: ClientState, note: Message) -> bool:
    """Return whether a client gets a notification, by its era, log level and subscriptions."""
    if client.is_modern or not client.is_initialized:
        # In 2026-07-28 a notification comes only in a stream that the client has opened. Other
        # clients accept only log messages before they are initialized.
        return bool(client.is_modern) or note.method == "notifications/message"
    if note.method == _UPDATED:
        return not state.is_shared or is_subscribed(client, note.params.get("uri"))
    return note.method != "notifications/message" or is_loud_enough(
        client, note.params.get("level")
    )
