"""Combines the log levels and the subscriptions of the clients that share a server. Pure.

Rule: the server gets the lowest log level and all subscriptions, and its messages are filtered for
each client. No client withdraws what another still wants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from collections.abc import Iterable

    from .message import Message
    from .state import Call, ClientState, State


SET_LEVEL: Final = "logging/setLevel"
SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def request_for_all(state: State, call: Call) -> Message:
    """Return the request to send: of shared log levels the lowest, any other as it is."""
    request = call.request
    if (
        not state.is_shared
        or request.method != SET_LEVEL
        or request.params.get("level") not in _LEVELS
    ):
        return request
    others = (one.log_level for one in state.clients.values() if one is not call.client)
    return _lowest([*others, request]) or request


def level_for_all(state: State) -> Message | None:
    """Return the request for the lowest level that a client has set; None if none has set one."""
    return _lowest(client.log_level for client in state.clients.values())


def is_wanted_by_others(state: State, client: ClientState, uri: str) -> bool:
    """Return whether another client is subscribed to a resource, or has requested it."""
    return any(
        uri in other.subscriptions
        or any(
            call.method == SUBSCRIBE and call.request.name == uri for call in other.calls.values()
        )
        for other in state.clients.values()
        if other is not client
    )


def is_subscribed(client: ClientState, uri: Any) -> bool:
    """Return whether a client is subscribed to a resource, or to a parent of its URI."""
    return isinstance(uri, str) and any(
        uri == one or uri.startswith(f"{one.rstrip('/')}/") for one in client.subscriptions
    )


def is_loud_enough(client: ClientState, level: Any) -> bool:
    wanted = client.log_level.params.get("level") if client.log_level is not None else None
    if wanted not in _LEVELS or level not in _LEVELS:
        return True
    return _LEVELS.index(level) >= _LEVELS.index(wanted)


def _lowest(requests: Iterable[Message | None]) -> Message | None:
    known = [one for one in requests if one is not None and one.params.get("level") in _LEVELS]
    return min(known, key=lambda one: _LEVELS.index(one.params["level"]), default=None)
