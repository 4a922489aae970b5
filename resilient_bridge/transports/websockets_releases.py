"""What releases 15 and 16 of websockets name otherwise than 17 does. Rule: a difference between its releases stands here alone."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from websockets.uri import WebSocketURI, parse_uri


if TYPE_CHECKING:
    from collections.abc import Callable

    from websockets.asyncio.client import ClientConnection, connect
    from websockets.asyncio.connection import Connection


_CONTROL_BYTES: Final = 127

_PROXIES = import_module("websockets.proxy" if find_spec("websockets.proxy") else "websockets.uri")

get_proxy: Final[Callable[[WebSocketURI], str | None]] = _PROXIES.get_proxy
"""The proxy that the environment names for a target; in `websockets.uri` up to 15."""


def target_of(opening: connect) -> WebSocketURI:
    """Return where a `connect` leads at this moment: 17 keeps it parsed, 16 as text."""
    parsed: WebSocketURI | None = getattr(opening, "ws_uri", None)
    return parse_uri(opening.uri) if parsed is None else parsed


def half_received(connection: Connection) -> int | None:
    """Return how many bytes of a data frame, or of a message in parts, have come, if one has begun; None if none has.

    What waits in the parser is the rest of a frame; a control frame has at most 125 bytes, and two in its head.
    """
    protocol: Any = connection.protocol
    parts: int | None = getattr(protocol, "current_size", getattr(protocol, "cur_size", None))
    waiting = len(protocol.reader.buffer)
    if waiting <= _CONTROL_BYTES:
        return parts
    return (parts or 0) + waiting


def options_of(opening: connect) -> dict[str, Any]:
    """Return the arguments that it hands to the loop: `create_connection_kwargs`, up to 16 `connection_kwargs`."""
    kept: dict[str, Any] | None = getattr(opening, "create_connection_kwargs", None)
    return vars(opening)["connection_kwargs"] if kept is None else kept


def maker_of(opening: connect) -> Callable[[WebSocketURI], ClientConnection]:
    """Return what makes its connection object: `factory`, up to 16 `protocol_factory`."""
    kept: Callable[[WebSocketURI], ClientConnection] | None = getattr(opening, "factory", None)
    return vars(opening)["protocol_factory"] if kept is None else kept
