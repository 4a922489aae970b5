"""What a WebSocket close code means, received or sent.

Rule: after an unlisted code, or a loss without a code, a reconnect is possible. This table says
what the failure is; the reconnect policy says which codes a link reconnects after.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from .failure import Finding, short_of
from .vocabulary import Category


By: TypeAlias = Literal["peer", "us"]

_CLOSED = Finding(code="CONN_WEBSOCKET_CLOSED")
_UPSTREAM = _CLOSED.evolve(category=Category.UPSTREAM)
_VIOLATION = Finding(code="PROTO_VIOLATION", message="peer reported a protocol violation")
_LOGIN = Finding(code="AUTH_INVALID_TOKEN")
_POLICY = Finding(  # refused credentials mostly, but some servers send it for an unknown message type
    code="AUTH_INVALID_TOKEN",
    message="closed with 1008: credentials, or a message, not accepted",
    suggestions=(
        "check or renew the token",
        "if the peer's words name a message type, it does not know that one: switch it off in the Dialect",
    ),
)
_FORBIDDEN = Finding(code="AUTH_FORBIDDEN")

_RECEIVED: Mapping[int, Finding] = {
    # The peer has finished; a link that reconnects overrides this.
    1000: _CLOSED.evolve(retryable=False),
    1002: _VIOLATION,
    1003: _VIOLATION,
    1007: _VIOLATION,
    1008: _POLICY,
    1009: Finding(code="PROTO_MESSAGE_TOO_BIG"),
    1010: _VIOLATION,
    1011: _UPSTREAM,
    1013: _UPSTREAM,
    3000: _LOGIN,
    3003: _FORBIDDEN,
    3008: _CLOSED.evolve(category=Category.TIMEOUT),
    4001: _LOGIN,
    4003: _FORBIDDEN,
    4004: Finding(code="SESS_NOT_FOUND"),
    4401: _LOGIN,
    4403: _FORBIDDEN,
    4404: Finding(code="SESS_NOT_FOUND"),
    4408: _CLOSED.evolve(category=Category.TIMEOUT),
    4409: Finding(code="SESS_SUPERSEDED"),
    4429: Finding(code="SYS_RATE_LIMITED"),
}
_GARBLED = Finding(code="PROTO_INVALID_FRAME", message="peer sent an invalid frame")
_SENT: Mapping[int, Finding] = {  # codes that mean something else when we send them
    1002: _GARBLED,
    1003: _GARBLED,
    1007: _GARBLED,
    1009: Finding(code="PROTO_MESSAGE_TOO_BIG", message="peer sent a message over the limit"),
    1011: _CLOSED,
}
_CLOSERS: Mapping[By, str] = {
    "peer": "connection closed by the peer",
    "us": "connection closed by us",
}
_SILENCE = re.compile(r"\b(keep-?alive|heartbeat|pings?|pongs?|idle|inactiv\w*)\b", re.IGNORECASE)


def close_finding(code: int | None, text: str, by: By | None) -> Finding:
    """Return the verdict on one close; see `classify_close`."""
    text = text[:500]
    who = "connection lost" if by is None else _CLOSERS[by]
    details = {"close_code": code, "close_text": text, "close_by": by}
    finding = _look_up(code, text, by)
    if finding.code == "CONN_WEBSOCKET_CLOSED":
        finding = finding.evolve(message=who + short_of(text))
    elif code == 1008 and text:  # the close text comes first: the code alone says too little
        close_text = short_of(text).removeprefix(": ")
        finding = finding.evolve(message=f"{close_text} ({finding.message})")
    elif text:
        finding = finding.evolve(message=finding.summary + short_of(text))
    return finding.evolve(
        details={
            key: value for key, value in details.items() if value is not None or key == "close_by"
        },
    )


_PRINTED = re.compile(
    r"\b(received|sent) ([1-4]\d{3}) \([^()]{1,40}\)(?: (.{1,125}?))?; (?:then (?:received|sent) [1-4]\d{3} \(|no close frame )",
    re.DOTALL,
)
_PRINTED_WITHOUT = "no close frame received or sent"


def printed_close(text: str) -> Finding | None:
    """Return the verdict on a text in which the `websockets` library has printed how a connection
    closed; None for any other text. The frame that came first counts.
    """
    if "close frame" not in text and "; then " not in text:
        return None
    if (first := _PRINTED.search(text)) is not None:
        return close_finding(
            int(first[2]), first[3] or "", "peer" if first[1] == "received" else "us"
        )
    return close_finding(None, "", None) if _PRINTED_WITHOUT in text else None


def names_silence(text: str) -> bool:
    """Return whether a close text says that one end heard nothing of the other for too long."""
    return _SILENCE.search(text) is not None


def _look_up(code: int | None, text: str, by: By | None) -> Finding:
    if code is None:
        return _CLOSED
    if by == "us":
        if code == 1011 and (not text or names_silence(text)):
            return Finding(code="CONN_HEARTBEAT_TIMEOUT")
        if code in _SENT:
            return _SENT[code]
    return _RECEIVED.get(code) or _unlisted(code)


def _unlisted(code: int) -> Finding:
    if code < 3000:
        return _CLOSED
    if 4400 <= code <= 4599:
        from .statuses import is_passing  # what reads bodies is loaded with the first failure

        return _UPSTREAM.evolve(retryable=is_passing(code - 4000))
    return _UPSTREAM
