"""What proves that a call did not run: the one table behind `executed=NO`. Pure.

Rule: an event is a proof only if no code path raises it after the first byte of the request was sent. Everything that is not a row here
may have run. A row speaks of one request, the last one, unless it says that it speaks of the whole call. docs/reference/executed.md is
printed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from ..errors import OWN_WORDS


@attrs.frozen(kw_only=True)
class Proof:
    """One row: the event, the layer that sees it, why nothing can have run, and whether that holds for the whole call."""

    event: str
    seen_by: str
    why: str
    is_of_call: bool = False


PROOFS: Final[Mapping[str, Proof]] = MappingProxyType(
    {
        "not_resolved": Proof(
            event="the host name was not resolved",
            seen_by="getaddrinfo",
            why="there was no address to send to",
        ),
        "not_connected": Proof(
            event="the connection was refused, or no route led to it",
            seen_by="the socket's connect",
            why="no connection existed that a byte could have travelled on",
        ),
        "connect_timeout": Proof(
            event="the connection was not made in time",
            seen_by="the HTTP client's connect",
            why="the request is written after the connection was made",
        ),
        "pool_timeout": Proof(
            event="no connection of the pool was free in time",
            seen_by="the HTTP client's pool",
            why="the request was waiting for a connection",
        ),
        "tls_failed": Proof(
            event="the server's certificate was not accepted",
            seen_by="our end of the TLS handshake",
            why="the request is written after the handshake",
        ),
        "tunnel_refused": Proof(
            event="the proxy made no tunnel",
            seen_by="the client's CONNECT",
            why="the request is written into the tunnel",
        ),
        "upgrade_refused": Proof(
            event="the WebSocket upgrade was refused, or cut",
            seen_by="the WebSocket handshake",
            why="frames are written after the handshake",
        ),
        "refused_stream": Proof(
            event="the HTTP/2 stream was reset with REFUSED_STREAM",
            seen_by="the HTTP/2 connection",
            why="the server states that it did no processing (RFC 9113, 8.7)",
        ),
        "http_401": Proof(
            event="401 Unauthorized",
            seen_by="the answer to the request",
            why="the request was not applied for lack of credentials (RFC 9110, 15.5.2)",
        ),
        "http_407": Proof(
            event="407 Proxy Authentication Required",
            seen_by="the answer to the request",
            why="the proxy did not forward it (RFC 9110, 15.5.8)",
        ),
        "http_421": Proof(
            event="421 Misdirected Request",
            seen_by="the answer to the request",
            why="the server does not answer for this host (RFC 9110, 15.5.20)",
        ),
        "http_425": Proof(
            event="425 Too Early",
            seen_by="the answer to the request",
            why="the server did not process what might be replayed (RFC 8470)",
        ),
        "http_426": Proof(
            event="426 Upgrade Required",
            seen_by="the answer to the request",
            why="the server refuses this protocol (RFC 9110, 15.5.22)",
        ),
        "mcp_session_unknown": Proof(
            event="the MCP session that the request carried is unknown",
            seen_by="the answer to the request",
            why="the server looks the session up before it does anything",
        ),
        "rpc_not_parsed": Proof(
            event="JSON-RPC -32700, parse error",
            seen_by="the answer to the request",
            why="the server could not read the request (JSON-RPC 2.0, 5.1)",
        ),
        "rpc_unknown_method": Proof(
            event="JSON-RPC -32601, method not found",
            seen_by="the answer to the request",
            why="there is nothing that could have run (JSON-RPC 2.0, 5.1)",
        ),
        "own_layer": Proof(
            event="refused here: open circuit, full bulkhead or queue, rate limit, deadline before the call, checked arguments",
            seen_by="a layer of this package",
            why="nothing was handed to a connection",
        ),
        "not_executed": Proof(
            event="`raise NotExecutedError from error`",
            seen_by="the function itself",
            why="stated by the code that knows; for the innermost protected function that it leaves",
            is_of_call=True,
        ),
        "stated": Proof(
            event="`classify.register(…, executed=Executed.NO)`",
            seen_by="you",
            why="stated by you; for the innermost protected function that it leaves",
            is_of_call=True,
        ),
    }
)
"""Every proof by its name, which stands in `Failure.proof`."""

OF_THE_CALL: Final = OWN_WORDS
"""What speaks of a whole function, whatever else it has sent."""

STATED_ON_THE_WIRE: Final = frozenset({"refused_stream"})
"""What the peer said of the request itself: it holds although the error around it could have come at any time."""
