"""Sends the clients' log level, subscriptions and roots to a new session, or withdraws them.

Rule: a new session has no such state. Clients are notified only of what may have changed meanwhile:
their resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from . import message
from .catalog import SETTLING
from .shared import UNSUBSCRIBE, is_wanted_by_others, level_for_all


if TYPE_CHECKING:
    from .message import Message
    from .state import ClientState, Session, State
    from .upstream import Loss

_ANSWER: Final = 30.0  # seconds for an answer that no client waits for


def say_again(state: State, session: Session, now: float) -> None:
    """Send the clients' log level and subscriptions, and a change of roots, to a new session."""
    if (level := level_for_all(state)) is not None:
        state.ask(session, level, _ignore, now + SETTLING)
    for client in state.clients.values():
        for request in list(client.subscriptions.values()):
            _subscribe(state, session, client, request, now)
        if client.asks_roots and "roots" in client.capabilities:
            state.to_server(session, message.notification("notifications/roots/list_changed"))


def take_back(state: State, client: ClientState, now: float) -> None:
    """Withdraw the subscriptions and log level that only a client that has left wanted."""
    session = state.usable
    if not state.is_shared or session is None:
        return
    for uri in client.subscriptions:
        if not is_wanted_by_others(state, client, uri):
            state.ask(
                session, message.request(0, UNSUBSCRIBE, {"uri": uri}), _ignore, now + _ANSWER
            )
    if client.log_level is not None and (level := level_for_all(state)) is not None:
        state.ask(session, level, _ignore, now + _ANSWER)


def _subscribe(
    state: State, session: Session, client: ClientState, request: Message, now: float
) -> None:
    uri = request.name

    def then(answer: Message | None, _loss: Loss | None, _now: float) -> None:
        if answer is None:
            return
        if answer.is_refusal:  # the resource is gone
            client.subscriptions.pop(uri, None)
            state.to_client(client, message.notification("notifications/resources/list_changed"))
        else:  # the resource may have changed meanwhile
            state.to_client(
                client, message.notification("notifications/resources/updated", {"uri": uri})
            )

    state.ask(session, request, then, now + SETTLING)


def _ignore(*_: object) -> None:
    """Ignore the answer."""
