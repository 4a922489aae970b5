"""Rules for what WebSocket libraries raise, and for what our own transports refuse.

Rule: `ConnectionClosed.code` is never read (it warns); who closed first decides which of the two
close frames counts.
"""

from __future__ import annotations

from typing import Any

from .closes import close_finding
from .finding import Finding, Rules, wrong_setting
from .statuses import status_finding
from .system import BAD_HOST_NAME
from .system import RULES as SYSTEM
from .taxonomy import Category


_HANDSHAKE = Finding(
    code="PROTO_VIOLATION",
    message="websocket handshake not valid",
    proof="upgrade_refused",
    suggestions=("check that the url's path leads to a websocket server",),
)
_HANDSHAKE_CUT = Finding(
    code="CONN_RESET", message="connection lost during the handshake", proof="upgrade_refused"
)
_FRAMES = Finding(code="PROTO_VIOLATION", message="websocket protocol violated")
_TOO_BIG = Finding(code="PROTO_MESSAGE_TOO_BIG")
_MISUSE = Finding(code="SYS_INTERNAL_ERROR", message="connection used in the wrong state")
# of ours or of theirs: what we asked for may have run before its answer came out garbled
_NO_MESSAGE = Finding(code="PROTO_INVALID_MESSAGE", message="message is not valid json")
_NO_TEXT = Finding(code="PROTO_INVALID_FRAME", message="bytes are not valid utf-8")


def _closed(error: Any) -> Finding:
    received, sent = getattr(error, "rcvd", None), getattr(error, "sent", None)
    if received is not None and (sent is None or error.rcvd_then_sent):
        return close_finding(received.code, received.reason, "peer")
    if sent is not None:
        return close_finding(sent.code, sent.reason, "us")
    return close_finding(None, "", None)


def _refused_upgrade(error: Any) -> Finding:
    response = error.response
    return status_finding(
        response.status_code, response.headers, getattr(response, "body", None), upgrade=True
    )


def _no_answer(error: BaseException) -> Finding:
    """Distinguish a handshake that was cut (repeat) from one with another answer (do not)."""
    cause = error.__cause__
    if isinstance(cause, EOFError):
        return _HANDSHAKE_CUT
    if isinstance(cause, ConnectionError):
        read = SYSTEM["builtins", "ConnectionError"]
        found = read(cause) if callable(read) else read
        lost = found if isinstance(found, Finding) else _HANDSHAKE_CUT
        return lost.evolve(proof=_HANDSHAKE_CUT.proof)
    return _HANDSHAKE


def _unusable_uri(error: BaseException) -> Finding:
    """Distinguish the URL that was configured from one that a redirect named."""
    if type(error.__context__).__name__ == "InvalidStatus":
        return _REDIRECT.evolve(message="redirect to what is no websocket url refused")
    return wrong_setting("url not valid")


_REDIRECT = Finding(code="CONN_REDIRECT_REFUSED")
_NOT_UTF8 = Finding(code="PROTO_INVALID_MESSAGE", message="text cannot be encoded as utf-8")


def _unencodable(error: UnicodeEncodeError) -> Finding:
    # From 3.13 on getaddrinfo says so of a host name; before, it is a UnicodeError.
    return BAD_HOST_NAME if error.encoding == "idna" else _NOT_UTF8


RULES: Rules = {
    ("websockets", "ConnectionClosed"): _closed,
    ("websockets", "InvalidStatus"): _refused_upgrade,
    ("websockets", "InvalidProxyStatus"): _refused_upgrade,
    ("websockets", "InvalidMessage"): _no_answer,
    ("websockets", "InvalidProxyMessage"): _no_answer,
    ("websockets", "ProxyError"): Finding(
        code="CONN_RESET", message="proxy could not be used", proof="tunnel_refused"
    ),
    ("websockets", "InvalidHandshake"): _HANDSHAKE,
    ("websockets", "InvalidURI"): _unusable_uri,
    ("websockets", "InvalidProxy"): wrong_setting("proxy url not valid"),
    ("websockets", "ProtocolError"): _FRAMES,
    ("websockets", "PayloadTooBig"): _TOO_BIG,
    ("websockets", "TooManyFragments"): _TOO_BIG,
    ("websockets", "InvalidState"): _MISUSE,
    ("websockets", "ConcurrencyError"): _MISUSE,
    ("json", "JSONDecodeError"): _NO_MESSAGE,
    ("builtins", "UnicodeDecodeError"): _NO_TEXT,
    ("builtins", "UnicodeEncodeError"): _unencodable,
    ("asyncio", "LimitOverrunError"): Finding(
        code="PROTO_MESSAGE_TOO_BIG", message="line over the limit"
    ),
    ("resilient_bridge", "RedirectRefusedError"): _REDIRECT,
    ("resilient_bridge", "InsecureURLError"): Finding(
        code="CONN_INSECURE", category=Category.CONFIG
    ),
}
