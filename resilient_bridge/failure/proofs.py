"""What proves that a call did not run: the one table behind `executed=NO`. Pure.

Rule: an event is a proof only if no code path raises it after the first byte of the request was
sent. Everything that is not a row here may have run. A row speaks of one request, the last one;
those of `OWN_WORDS` speak of a whole function, whatever else it has sent.
docs/reference/executed.md is printed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Proof(NamedTuple):
    """One row: the event, the layer that sees it, and why nothing can have run."""

    event: str
    seen_by: str
    why: str


PROOFS: Final[Mapping[str, Proof]] = MappingProxyType(
    {
        "not_resolved": Proof(
            "the host name was not resolved", "getaddrinfo", "there was no address to send to"
        ),
        "not_connected": Proof(
            "the connection was refused, or no route led to it",
            "the socket's connect",
            "no connection existed that a byte could have travelled on",
        ),
        "connect_timeout": Proof(
            "the connection was not made in time",
            "the HTTP client's connect",
            "the request is written after the connection was made",
        ),
        "pool_timeout": Proof(
            "no connection of the pool was free in time",
            "the HTTP client's pool",
            "the request was waiting for a connection",
        ),
        "tls_failed": Proof(
            "the server's certificate was not accepted",
            "our end of the TLS handshake",
            "the request is written after the handshake",
        ),
        "tunnel_refused": Proof(
            "the proxy made no tunnel",
            "the client's CONNECT",
            "the request is written into the tunnel",
        ),
        "upgrade_refused": Proof(
            "the WebSocket upgrade was refused, or cut",
            "the WebSocket handshake",
            "frames are written after the handshake",
        ),
        "refused_stream": Proof(
            "the HTTP/2 stream was reset with REFUSED_STREAM",
            "the HTTP/2 connection",
            "the server states that it did no processing (RFC 9113, 8.7)",
        ),
        "http_401": Proof(
            "401 Unauthorized",
            "the answer to the request",
            "the request was not applied for lack of credentials (RFC 9110, 15.5.2)",
        ),
        "http_407": Proof(
            "407 Proxy Authentication Required",
            "the answer to the request",
            "the proxy did not forward it (RFC 9110, 15.5.8)",
        ),
        "http_421": Proof(
            "421 Misdirected Request",
            "the answer to the request",
            "the server does not answer for this host (RFC 9110, 15.5.20)",
        ),
        "http_425": Proof(
            "425 Too Early",
            "the answer to the request",
            "the server did not process what might be replayed (RFC 8470)",
        ),
        "http_426": Proof(
            "426 Upgrade Required",
            "the answer to the request",
            "the server refuses this protocol (RFC 9110, 15.5.22)",
        ),
        "mcp_session_unknown": Proof(
            "the MCP session that the request carried is unknown",
            "the answer to the request",
            "the server looks the session up before it does anything",
        ),
        "rpc_not_parsed": Proof(
            "JSON-RPC -32700, parse error",
            "the answer to the request",
            "the server could not read the request (JSON-RPC 2.0, 5.1)",
        ),
        "rpc_unknown_method": Proof(
            "JSON-RPC -32601, method not found",
            "the answer to the request",
            "there is nothing that could have run (JSON-RPC 2.0, 5.1)",
        ),
        "own_layer": Proof(
            "refused here: open circuit, full bulkhead or queue, rate limit, deadline before the call, checked arguments",
            "a layer of this package",
            "nothing was handed to a connection",
        ),
        "not_executed": Proof(
            "`raise NotExecutedError from error`",
            "the function itself",
            "stated by the code that knows; for the innermost protected function that it leaves",
        ),
        "stated": Proof(
            "`classify.register(…, executed=Executed.NO)`",
            "you",
            "stated by you; for the innermost protected function that it leaves",
        ),
    }
)
"""Every proof by its name, as in `Failure.proof`."""

STATED_ON_THE_WIRE: Final = frozenset({"refused_stream"})
"""The peer's statements about the request itself: they hold whenever the error around them came."""
