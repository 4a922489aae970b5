"""Every code in one table, with all that follows from the code alone.

Rule: a code's meaning is written here and nowhere else. A rule that knows more about one case
overrides one field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import attrs

from .taxonomy import Category, CodeInfo, Executed, Kind, Severity, lasting, passing


_CONFIG, _AUTH, _UPSTREAM = Category.CONFIG, Category.AUTH, Category.UPSTREAM
_TRANSPORT, _TIMEOUT, _PROTOCOL, _INTERNAL = (
    Category.TRANSPORT,
    Category.TIMEOUT,
    Category.PROTOCOL,
    Category.INTERNAL,
)
_WARNING, _CRITICAL, _FATAL = Severity.WARNING, Severity.CRITICAL, Severity.FATAL
_NO, _MAYBE, _YES = Executed.NO, Executed.MAYBE, Executed.YES


CODES: Mapping[str, CodeInfo] = MappingProxyType(
    {
        # CONN_, the link
        "CONN_WEBSOCKET_CLOSED": passing(
            _TRANSPORT, _MAYBE, "connection closed", "reconnect and ask for what was missed"
        ),
        "CONN_TLS_HANDSHAKE_FAILED": lasting(
            _TRANSPORT,
            _NO,
            "tls handshake failed",
            "check the certificate's expiry, chain and host name; for a self-signed one confirm the pinning hash",
            severity=_CRITICAL,
        ),
        "CONN_TIMEOUT": passing(
            _TIMEOUT,
            _NO,
            "connection timed out",
            "check that the host is reachable, or allow more time",
        ),
        "CONN_REFUSED": passing(
            _TRANSPORT, _NO, "connection refused", "check the port and that the server is running"
        ),
        "CONN_RESET": passing(
            _TRANSPORT, _MAYBE, "connection reset", "reconnect; if it recurs, read the server's log"
        ),
        "CONN_DNS_FAILED": passing(
            _TRANSPORT,
            _NO,
            "host name not resolved",
            "check the spelling of the host and the resolver",
        ),
        "CONN_UNREACHABLE": passing(
            _TRANSPORT, _MAYBE, "network unreachable", "check the network, the vpn and the route"
        ),
        "CONN_UPGRADE_REJECTED": lasting(
            _UPSTREAM,
            _NO,
            "websocket upgrade rejected",
            "check the url's path and the proxy in between",
        ),
        "CONN_HEARTBEAT_TIMEOUT": passing(
            _TIMEOUT,
            _MAYBE,
            "no heartbeat from the peer",
            "reconnect; the peer or the path is gone",
        ),
        "CONN_RECONNECT_EXHAUSTED": lasting(
            _TRANSPORT,
            _MAYBE,
            "reconnecting given up",
            "check the server, then open a new connection",
            severity=_CRITICAL,
        ),
        "CONN_REDIRECT_REFUSED": lasting(
            _CONFIG,
            _NO,
            "redirect to another origin refused",
            "use the final url; credentials never follow a redirect to another origin",
        ),
        "CONN_INSECURE": lasting(
            _CONFIG,
            _NO,
            "credentials over plaintext refused",
            "use wss://, or allow plaintext explicitly",
        ),
        "CONN_NOT_CONNECTED": passing(
            _TRANSPORT,
            _NO,
            "not connected",
            "wait until the connection is ready",
            severity=_WARNING,
        ),
        "CONN_RESOURCE_EXHAUSTED": passing(
            _TRANSPORT,
            _NO,
            "local resource busy or exhausted",
            "free descriptors or ports, or wait",
        ),
        # AUTH_, who we are
        "AUTH_TOKEN_EXPIRED": lasting(_AUTH, _NO, "token expired", "refresh the token"),
        "AUTH_INVALID_TOKEN": lasting(
            _AUTH, _NO, "credentials not accepted", "check or renew the token"
        ),
        "AUTH_INSECURE_TRANSPORT": lasting(
            _AUTH, _NO, "credentials not accepted over an unencrypted link", "use wss://"
        ),
        # Not critical: that opens circuits, and one refused call proves nothing about the others.
        "AUTH_FORBIDDEN": lasting(_AUTH, _NO, "access forbidden", "ask for the missing permission"),
        "AUTH_REFRESH_FAILED": lasting(
            _AUTH,
            _NO,
            "credentials could not be refreshed",
            "check the token source, then log in again",
            severity=_CRITICAL,
        ),
        # PROTO_, the protocol
        "PROTO_INVALID_MESSAGE": lasting(
            _PROTOCOL, _NO, "invalid message", "correct the listed fields", kind=Kind.CORRUPTION
        ),
        "PROTO_INVALID_FRAME": lasting(
            _PROTOCOL,
            _NO,
            "invalid frame",
            "check that both ends speak the same protocol and that no proxy alters the stream",
            kind=Kind.CORRUPTION,
        ),
        "PROTO_SEQUENCE_ERROR": lasting(
            _PROTOCOL, _NO, "message out of sequence", "send what the current phase expects first"
        ),
        "PROTO_MESSAGE_TOO_BIG": lasting(
            _PROTOCOL, _NO, "message too big", "send less at once, or raise the limit on both ends"
        ),
        "PROTO_VIOLATION": lasting(
            _PROTOCOL,
            _MAYBE,
            "protocol violated",
            "check the protocol versions of both ends",
            severity=_CRITICAL,
        ),
        "PROTO_UNKNOWN_TYPE": lasting(
            _PROTOCOL,
            _NO,
            "message type unknown to the peer",
            "check the type's name and the peer's version",
        ),
        # SESS_, the session
        "SESS_NOT_FOUND": lasting(
            _UPSTREAM,
            _NO,
            "session not found",
            "join a new session; this one may have expired",
            session_valid=False,
        ),
        "SESS_CLOSED": lasting(
            _UPSTREAM, _NO, "session closed", "join a new session", session_valid=False
        ),
        "SESS_NOT_RESUMABLE": lasting(
            _UPSTREAM,
            _NO,
            "session cannot be resumed",
            "only a paused, resumable session can be resumed: start a new one",
            session_valid=False,
        ),
        "SESS_SUPERSEDED": lasting(
            _UPSTREAM,
            _MAYBE,
            "session taken over by another connection",
            "use the other connection, or close it first",
            severity=_FATAL,
            session_valid=False,
        ),
        # TOOL_, HOOK_: what the agent runs and reports
        "TOOL_EXECUTION_FAILED": lasting(
            _UPSTREAM, _YES, "tool failed", "read the tool's error output"
        ),
        "TOOL_TIMEOUT": passing(
            _TIMEOUT, _MAYBE, "tool timed out", "ask for less at once, or allow more time"
        ),
        "TOOL_NOT_FOUND": lasting(
            _UPSTREAM, _NO, "no such tool", "call one of the tools there are", severity=_WARNING
        ),
        "TOOL_ARGUMENTS_INVALID": lasting(
            _PROTOCOL, _NO, "tool arguments invalid", "correct the listed fields", severity=_WARNING
        ),
        "HOOK_VALIDATION_FAILED": lasting(
            _PROTOCOL, _NO, "hook event invalid", "correct the listed fields", severity=_WARNING
        ),
        # SYS_: all others, ours or the server's
        "SYS_INTERNAL_ERROR": lasting(
            _INTERNAL,
            _MAYBE,
            "internal error",
            "report it with its cause; repeating is unlikely to help",
        ),
        "SYS_CONFIG_INVALID": lasting(
            _CONFIG, _NO, "invalid configuration", "correct the named setting"
        ),
        "SYS_RATE_LIMITED": passing(
            _UPSTREAM,
            _MAYBE,
            "rate limited",
            "wait, then repeat; slow down if it recurs",
            severity=_WARNING,
        ),
        "SYS_UNAVAILABLE": passing(
            _UPSTREAM, _MAYBE, "server unavailable", "wait for the server to come back"
        ),
        "SYS_UPSTREAM_REJECTED": lasting(
            _UPSTREAM,
            _MAYBE,
            "rejected by the server",
            "read the server's message and change the request",
        ),
        "SYS_OUTBOX_FULL": passing(
            _TRANSPORT,
            _NO,
            "outbox full",
            "wait until queued messages were delivered, or raise the bound",
        ),
        "SYS_INBOX_FULL": lasting(
            _TRANSPORT,
            _MAYBE,
            "inbox full",
            "read messages faster, or raise the bound",
            kind=Kind.PARTIAL,
        ),
        "SYS_NOT_DELIVERED": passing(
            _TRANSPORT, _NO, "message not delivered", "send it again: it provably never left"
        ),
        "SYS_NOT_EXECUTED": passing(_UPSTREAM, _NO, "not executed", "repeat it: nothing ran"),
        "SYS_STORE_UNAVAILABLE": passing(
            _TRANSPORT,
            _NO,
            "store unavailable",
            "free space or bring the store back; what it refused was not accepted, and may be sent again",
        ),
        "SYS_STORE_IN_USE": lasting(
            _CONFIG, _NO, "store in use", "close the other client, or give each its own store"
        ),
        "SYS_STATE_DAMAGED": lasting(
            _INTERNAL,
            _NO,
            "saved state damaged",
            "look at the file that was set aside; what could be saved of it is in use",
            kind=Kind.CORRUPTION,
        ),
        "SYS_STATE_FOREIGN": lasting(
            _CONFIG,
            _NO,
            "saved state of another version or program",
            "use the version that wrote it, or another path",
        ),
        "SYS_ARTIFACT_INVALID": lasting(
            _UPSTREAM,
            _YES,
            "artifact missing or changed",
            "run the phase that makes it again",
            kind=Kind.PARTIAL,
        ),
        "SYS_SPEND_LIMIT": lasting(
            _CONFIG,
            _NO,
            "spend limit reached",
            "have a person approve more, or cancel",
            severity=_WARNING,
        ),
        "SYS_CONTEXT_OVERFLOW": lasting(
            _UPSTREAM,
            _NO,
            "context too long",
            "compact the history, or offer fewer tools",
            severity=_WARNING,
        ),
        "SYS_OUTCOME_UNKNOWN": lasting(
            _TRANSPORT,
            _MAYBE,
            "outcome unknown",
            "ask the peer whether it ran before sending it again",
            kind=Kind.PARTIAL,
        ),
        "SYS_TIMEOUT": passing(_TIMEOUT, _MAYBE, "timed out", "allow more time, or ask for less"),
        "SYS_DEADLINE_EXCEEDED": lasting(
            _TIMEOUT,
            _MAYBE,
            "deadline exceeded",
            "allow all attempts together more time, or ask for less",
        ),
        "SYS_CIRCUIT_OPEN": passing(
            _TRANSPORT, _NO, "circuit open", "wait until the circuit lets a probe through"
        ),
        "SYS_BULKHEAD_FULL": passing(
            _TRANSPORT,
            _NO,
            "too many calls at once",
            "wait for a running call to end, or allow more",
            severity=_WARNING,
        ),
        "SYS_THROTTLED": passing(
            _TRANSPORT,
            _NO,
            "rate limit of this process used up",
            "wait, or allow more calls",
            severity=_WARNING,
        ),
        "SYS_TOO_LARGE": lasting(
            _UPSTREAM, _NO, "argument too large", "send less at once, or raise the bound"
        ),
        "SYS_RESULT_REJECTED": passing(
            _UPSTREAM,
            _YES,
            "result not accepted",
            "repeat the call, or relax what counts as a result",
        ),
    }
)
"""The one table of codes."""

PREFIXES: Mapping[str, str] = MappingProxyType(
    {
        "CONN_": "CONN_WEBSOCKET_CLOSED",
        "AUTH_": "AUTH_INVALID_TOKEN",
        "PROTO_": "PROTO_VIOLATION",
        "SESS_": "SESS_CLOSED",
        "TOOL_": "TOOL_EXECUTION_FAILED",
        "HOOK_": "HOOK_VALIDATION_FAILED",
        "SYS_": "SYS_UPSTREAM_REJECTED",
    }
)
"""The seven prefixes, each with the code by which an unlisted code of that prefix is treated."""


def code_info(code: str) -> CodeInfo:
    """Return the row of a code; for an unlisted code that of its prefix. Unknown prefixes raise."""
    row = CODES.get(code)
    if row is None:
        for prefix, nearest in PREFIXES.items():
            if code.startswith(prefix) and len(code) > len(prefix):
                return attrs.evolve(
                    CODES[nearest], summary=code.removeprefix(prefix).replace("_", " ").lower()
                )
        wanted = " ".join(PREFIXES)
        message = f"code: wanted one that starts with {wanted}, got {code!r}"
        raise ValueError(message)
    return row


_LONGEST: Final = 100  # characters of a code that may be misspelt
OWN_CODES: Final[set[str]] = set()
"""The codes under our prefixes that the user's registrations have introduced."""


def is_known_code(code: object) -> bool:
    """Return True for a code of the table, or one that a registration has introduced."""
    return isinstance(code, str) and (code in CODES or code in OWN_CODES)


def near_code(text: object, words: Iterable[str] = (), cutoff: float = 0.6) -> str:
    """Return the nearest code of the table, or of other words; empty if none is near."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        return ""
    from difflib import get_close_matches  # here: most processes make no mistake

    known = {word.lower(): word for word in (*words, *CODES, *OWN_CODES)}
    suffixes = {code.partition("_")[2].lower(): code for code in CODES}  # RATE_LIMITED
    found = get_close_matches(text.lower(), [*known, *suffixes], n=1, cutoff=cutoff)
    return {**suffixes, **known}[found[0]] if found else ""
