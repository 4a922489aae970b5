"""Names that differ between releases 15, 16 and 17 of websockets. Rule: only this module knows of
such differences.
"""

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
    """Return the current target of a `connect`; release 17 stores it parsed, others as text."""
    parsed: WebSocketURI | None = getattr(opening, "ws_uri", None)
    return parse_uri(opening.uri) if parsed is None else parsed


def half_received(connection: Connection) -> int | None:
    """Return how many bytes of an unfinished data frame or fragmented message have arrived; None if
    there is none.

    The parser holds the unparsed part of a frame; a control frame has at most 125 bytes, and two in
    its header.
    """
    protocol: Any = connection.protocol
    parts: int | None = getattr(protocol, "current_size", getattr(protocol, "cur_size", None))
    waiting = len(protocol.reader.buffer)
    if waiting <= _CONTROL_BYTES:
        return parts
    return (parts or 0) + waiting


def options_of(opening: connect) -> dict[str, Any]:
    """Return the arguments that it passes to the loop: `create_connection_kwargs`, up to 16
    `connection_kwargs`.
    """
    arguments: dict[str, Any] | None = getattr(opening, "create_connection_kwargs", None)
    return vars(opening)["connection_kwargs"] if arguments is None else arguments


def maker_of(opening: connect) -> Callable[[WebSocketURI], ClientConnection]:
    """Return the factory of its connection object: `factory`, up to 16 `protocol_factory`."""
    factory: Callable[[WebSocketURI], ClientConnection] | None = getattr(opening, "factory", None)
    return vars(opening)["protocol_factory"] if factory is None else factory
