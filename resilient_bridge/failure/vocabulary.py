"""The words that a failure is described with, and what follows from each: codes, categories, proofs.

Four closed sets, each value spelled as the wire and the logs spell it; one table of every code; and
one of what proves that a call did not run.

Rule: a code's meaning is written here and nowhere else; a reader that knows more about one case
overrides one field. `retryable` alone decides a retry; severity decides who is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

import attrs


class Category(StrEnum):
    """Where a failure comes from.

        failure = rb.classify(ConnectionResetError())
        print(failure.category is rb.Category.TRANSPORT)      # True

    It decides no repeat: `Failure.retryable` does.
    """

    CONFIG = "CONFIG"
    AUTH = "AUTH"
    UPSTREAM = "UPSTREAM"
    TRANSPORT = "TRANSPORT"
    TIMEOUT = "TIMEOUT"
    PROTOCOL = "PROTOCOL"
    INTERNAL = "INTERNAL"


class Kind(StrEnum):
    """What recovery a failure calls for: wait, give up, restore, or resume.

        failure = rb.classify(ConnectionResetError())
        print(failure.kind is rb.Kind.TRANSIENT)      # True

    What a Retry repeats by default is `on=rb.Kind.TRANSIENT`.
    """

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    CORRUPTION = "corruption"
    PARTIAL = "partial"


class Severity(StrEnum):
    """Who is notified: log; + metric; + notify; + alert, open the circuit; end of the session.

        failure = rb.classify(ConnectionResetError())
        print(failure.severity is rb.errors.Severity.ERROR)      # True

    In this order: INFO, WARNING, ERROR, CRITICAL, FATAL.
    """

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"
    FATAL = "fatal"


class Executed(StrEnum):
    """Whether the server can have acted on what was sent.

        failure = rb.classify(ConnectionRefusedError())
        print(failure.executed is rb.errors.Executed.NO)      # True

    Of anything but NO a repeat needs permission, such as `idempotent=True`.
    """

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


MCP_CODES: Mapping[Category, int] = MappingProxyType(
    {
        Category.CONFIG: -32004,
        Category.AUTH: -32003,
        Category.UPSTREAM: -32002,
        Category.TIMEOUT: -32001,
        Category.TRANSPORT: -32000,
        Category.PROTOCOL: -32000,
        Category.INTERNAL: -32603,
    }
)
"""JSON-RPC error codes of the categories."""


@attrs.frozen(kw_only=True)
class CodeInfo:
    """What a code means by itself: the defaults of a `Failure` that carries it."""

    category: Category
    kind: Kind
    severity: Severity
    retryable: bool
    executed: Executed
    session_valid: bool = True
    hint: str
    summary: str
    raised: str = ""
    """The exception class of a failure with this code, by its name; empty for that of the prefix."""


def lasting(
    category: Category,
    executed: Executed,
    summary: str,
    hint: str,
    *,
    severity: Severity = Severity.ERROR,
    kind: Kind = Kind.PERMANENT,
    session_valid: bool = True,
    raised: str = "",
) -> CodeInfo:
    """Return a row for a code where repeating the same call cannot help."""
    return CodeInfo(
        category=category,
        kind=kind,
        severity=severity,
        retryable=kind is Kind.TRANSIENT,
        executed=executed,
        session_valid=session_valid,
        summary=summary,
        hint=hint,
        raised=raised,
    )


def passing(
    category: Category,
    executed: Executed,
    summary: str,
    hint: str,
    *,
    severity: Severity = Severity.ERROR,
    raised: str = "",
) -> CodeInfo:
    """Return a row for a code where repeating the same call can help."""
    return lasting(
        category, executed, summary, hint, severity=severity, kind=Kind.TRANSIENT, raised=raised
    )


# ---- codes ------------------------------------------------------------------------------------------


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
            raised="ConfigError",
        ),
        "CONN_NOT_CONNECTED": passing(
            _TRANSPORT,
            _NO,
            "not connected",
            "wait until the connection is ready",
            severity=_WARNING,
            raised="NotConnectedError",
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
            _CONFIG,
            _NO,
            "invalid configuration",
            "correct the named setting",
            raised="ConfigError",
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
            raised="OutboxFullError",
        ),
        "SYS_INBOX_FULL": lasting(
            _TRANSPORT,
            _MAYBE,
            "inbox full",
            "read messages faster, or raise the bound",
            kind=Kind.PARTIAL,
            raised="InboxFullError",
        ),
        "SYS_NOT_DELIVERED": passing(
            _TRANSPORT,
            _NO,
            "message not delivered",
            "send it again: it provably never left",
            raised="NotDeliveredError",
        ),
        "SYS_NOT_EXECUTED": passing(
            _UPSTREAM,
            _NO,
            "not executed",
            "repeat it: nothing ran",
            raised="NotExecutedError",
        ),
        "SYS_STORE_UNAVAILABLE": passing(
            _TRANSPORT,
            _NO,
            "store unavailable",
            "free space or bring the store back; what it refused was not accepted, and may be sent again",
            raised="StoreError",
        ),
        "SYS_STORE_IN_USE": lasting(
            _CONFIG,
            _NO,
            "store in use",
            "close the other client, or give each its own store",
            raised="StoreError",
        ),
        "SYS_STATE_DAMAGED": lasting(
            _INTERNAL,
            _NO,
            "saved state damaged",
            "look at the file that was set aside; what could be saved of it is in use",
            kind=Kind.CORRUPTION,
            raised="StoreError",
        ),
        "SYS_STATE_FOREIGN": lasting(
            _CONFIG,
            _NO,
            "saved state of another version or program",
            "use the version that wrote it, or another path",
            raised="StoreError",
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
            raised="SpendLimitError",
        ),
        "SYS_CONTEXT_OVERFLOW": lasting(
            _UPSTREAM,
            _NO,
            "context too long",
            "compact the history, or offer fewer tools",
            severity=_WARNING,
            raised="ContextOverflowError",
        ),
        "SYS_OUTCOME_UNKNOWN": lasting(
            _TRANSPORT,
            _MAYBE,
            "outcome unknown",
            "ask the peer whether it ran before sending it again",
            kind=Kind.PARTIAL,
            raised="OutcomeUnknownError",
        ),
        "SYS_EFFECT_HELD": lasting(
            _UPSTREAM,
            _MAYBE,
            "an identical call is in doubt, and this one was not made",
            "find out whether it took effect before calling it again",
            severity=_WARNING,
            kind=Kind.PARTIAL,
            raised="EffectHeldError",
        ),
        "SYS_TIMEOUT": passing(
            _TIMEOUT,
            _MAYBE,
            "timed out",
            "allow more time, or ask for less",
            raised="AttemptTimeoutError",
        ),
        "SYS_DEADLINE_EXCEEDED": lasting(
            _TIMEOUT,
            _MAYBE,
            "deadline exceeded",
            "allow all attempts together more time, or ask for less",
            raised="DeadlineExceededError",
        ),
        "SYS_CIRCUIT_OPEN": passing(
            _TRANSPORT,
            _NO,
            "circuit open",
            "wait until the circuit lets a probe through",
            raised="CircuitOpenError",
        ),
        "SYS_BULKHEAD_FULL": passing(
            _TRANSPORT,
            _NO,
            "too many calls at once",
            "wait for a running call to end, or allow more",
            severity=_WARNING,
            raised="BulkheadFullError",
        ),
        "SYS_THROTTLED": passing(
            _TRANSPORT,
            _NO,
            "rate limit of this process used up",
            "wait, or allow more calls",
            severity=_WARNING,
            raised="ThrottledError",
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


# ---- what proves that a call did not run ------------------------------------------------------------


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
