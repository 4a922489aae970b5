"""What a loss means, lasting or passing: one table for every loop that connects again.

`BridgeClient`, `EventSource`, `rb.reconnecting` and `Reconnect.process_exception` all ask
`meaning`. It examines the code, the close code and the HTTP status, then whose mistake it was: a
programming error (NameError, TypeError, ValueError …) of the code that opens connections is
lasting, because the next attempt runs the same code; errors of the system and of the network,
timeouts, and what is not known are passing.

What `meaning` calls lasting is asked once more of a link that was READY before, if it was the answer
to a dial: `may_be_a_portal` says which answers may come from something between us and the server.

Rule: an unlisted close code, or a loss without one, reconnects (mission.md, "where the seeds
disagree" 1); a decision that can be overridden is overridden in the policy (`Reconnect.rules`), not
here.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ...failure import Category, Kind, Severity


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...failure import Failure


class LossAction(StrEnum):
    """Reconnect; refresh credentials first (once); join a new session; or give up for good."""

    RECONNECT = "reconnect"
    REFRESH = "refresh"
    NEW_SESSION = "new_session"
    FAIL = "fail"


_R, _F, _N = LossAction.REFRESH, LossAction.FAIL, LossAction.NEW_SESSION

_BY_CODE: Final[Mapping[str, LossAction]] = {
    "AUTH_FORBIDDEN": _F,
    "SESS_NOT_FOUND": _N,
    "SESS_CLOSED": _N,
    "CONN_REDIRECT_REFUSED": _F,
    "CONN_INSECURE": _F,
    "CONN_RECONNECT_EXHAUSTED": _F,
    "SYS_CONFIG_INVALID": _F,
    "AUTH_REFRESH_FAILED": LossAction.RECONNECT,
}
_BY_CLOSE: Final[Mapping[int, LossAction]] = {
    1002: _F, 1003: _F, 1007: _F, 1010: _F,
    1008: _R, 4001: _R, 4401: _R,
    4003: _F, 4403: _F,
    4004: _N, 4404: _N,
}  # fmt: skip
#: Close codes that we send ourselves when the peer's message cannot be taken: garbled, or larger than the client allows.
_UNREADABLE: Final = frozenset({1002, 1003, 1007, 1009})
_PROGRAMMING: Final = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, NotImplementedError, RecursionError,
    ReferenceError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
_RETRIED_STATUS: Final = frozenset({408, 425, 429})
_PERMANENT_5XX: Final = frozenset({501, 505, 506, 508, 510})
_NETWORK_LOGIN: Final = 511  # by RFC 6585 an origin server never sends it
#: A certificate for something else, or no TLS at all. The server's own, expired or revoked, is not among them.
_FOREIGN_TLS: Final = frozenset({"SELF_SIGNED", "UNTRUSTED_CHAIN", "HOSTNAME_MISMATCH", "PROTOCOL"})
_TEXT: Final = 60  # characters of a peer's close text in a reason
_SLOW_CLOSES: Final = frozenset({1012, 1013})
#: Why a probe was sent, which is the reason if it is not answered.
_DOUBTS: Final = frozenset({"suspected_sleep", "probe_unanswered", "health_check_failed"})

_REASON_BY_CODE: Final[Mapping[str, str]] = {
    "CONN_HEARTBEAT_TIMEOUT": "heartbeat_timeout",
    "CONN_REFUSED": "connect_refused",
    "CONN_DNS_FAILED": "dns",
    "CONN_TLS_HANDSHAKE_FAILED": "tls",
    "CONN_TIMEOUT": "timeout",
    "AUTH_TOKEN_EXPIRED": "auth_expired",
    "SESS_NOT_FOUND": "session_lost",
    "SESS_CLOSED": "session_lost",
    "SESS_SUPERSEDED": "superseded",
    "SYS_INBOX_FULL": "overflow",
    "CONN_RECONNECT_EXHAUSTED": "exhausted",
    "SYS_CONFIG_INVALID": "config",
    "CONN_INSECURE": "config",
    "CONN_REDIRECT_REFUSED": "upgrade_rejected(redirect)",
}


def meaning(
    failure: Failure,
    superseded: tuple[int, ...],
    *,
    poisoned: bool = False,
    was_open: bool = False,
    is_remade: bool = True,
) -> LossAction:
    """Return what to do about a link that ended with `failure`.

    `poisoned`: one of our entries was found guilty of it. `was_open`: the connection had been made,
    so a programming error says nothing about the code that makes one. `is_remade`: the next attempt
    makes its client afresh; where it is the same object again (EventSource), whatever that object
    refuses permanently it will refuse again.
    """
    close = _peer_close(failure)
    if is_superseded(failure, superseded) or failure.severity is Severity.FATAL:
        return LossAction.FAIL
    if poisoned:
        return LossAction.RECONNECT
    # An AUTH code that the server defined itself is about the credentials as well.
    by_code = _BY_CODE.get(failure.code, _R if failure.code.startswith("AUTH_") else None)
    if by_code is not None:
        return by_code
    if close is not None and close in _BY_CLOSE:
        return _BY_CLOSE[close]
    status = failure.details.get("http_status")
    if isinstance(status, int):
        if status == 401:
            return LossAction.REFRESH
        retried = status in _RETRIED_STATUS or (
            500 <= status <= 599 and status not in _PERMANENT_5XX
        )
        return LossAction.RECONNECT if retried else LossAction.FAIL
    if failure.code == "CONN_TLS_HANDSHAKE_FAILED" and not failure.retryable:
        return LossAction.FAIL
    if not was_open and is_programming_error(failure):
        return LossAction.FAIL
    if (
        not is_remade
        and failure.kind is Kind.PERMANENT
        and failure.category is not Category.TIMEOUT
    ):
        return LossAction.FAIL
    return LossAction.RECONNECT


def may_be_a_portal(failure: Failure, wall: float, *, certificates: bool) -> bool:
    """Return whether the answer to a dial may come from something between us and the server.

    That is a captive portal, a proxy, or an ingress between two deployments: any HTTP status but
    401, which is about the credentials, as is a body that says so; a redirect to another origin;
    and with `certificates` a certificate of something else, or a peer that speaks no TLS. An
    expired certificate (`wall` is the time) is the server's own defect.
    """
    if failure.code == "CONN_REDIRECT_REFUSED":
        return True
    details = failure.details
    if failure.code == "CONN_TLS_HANDSHAKE_FAILED":
        is_foreign = details.get("reason") in _FOREIGN_TLS
        return certificates and is_foreign and not _is_past(details.get("expiry"), wall)
    names_client = failure.code == "SESS_SUPERSEDED" or (
        failure.code.startswith("AUTH_") and failure.code != "AUTH_FORBIDDEN"
    )
    status = details.get("http_status")
    return isinstance(status, int) and status != 401 and not names_client


def _is_past(moment: object, wall: float) -> bool:
    try:
        return isinstance(moment, str) and datetime.fromisoformat(moment).timestamp() <= wall
    except ValueError:
        return False


def is_network_login(failure: Failure) -> bool:
    """Return whether the network asks for a login (511): nothing in it is about the server."""
    return failure.details.get("http_status") == _NETWORK_LOGIN


def is_no_handshake(failure: Failure) -> bool:
    """Return whether a dial was answered, and by what speaks no WebSocket: no HTTP, or another handshake."""
    return failure.code == "PROTO_VIOLATION" and failure.proof == "upgrade_refused"


def is_programming_error(failure: Failure) -> bool:
    """Is it a mistake in the code that was run?

    What a peer sent can be a ValueError, too: as JSON, as text, for a model of pydantic.
    """
    cause = failure.cause
    is_about_data = type(cause).__name__ == "ValidationError"
    return (
        failure.code == "SYS_INTERNAL_ERROR"
        and issubclass(type(cause), _PROGRAMMING)
        and not is_about_data
    )


def is_unreadable(failure: Failure) -> bool:
    """Return whether we closed because the peer sent what this client cannot accept.

    If it comes again, another connection will not help.
    """
    return (
        failure.details.get("close_by") == "us" and failure.details.get("close_code") in _UNREADABLE
    )


def is_silence(failure: Failure, *, has_slept: bool = False) -> bool:
    """Return whether the peer closed because it heard nothing of us, and not because of what it heard.

    The library websockets says so with 1011, "keepalive ping timeout". `has_slept`: this machine
    did while the connection lasted.
    """
    from ...failure.closes import names_silence  # loaded with the first loss

    is_named = has_slept or names_silence(str(failure.details.get("close_text") or ""))
    return _peer_close(failure) == 1011 and is_named


def is_superseded(failure: Failure, codes: tuple[int, ...]) -> bool:
    """Return whether another client took the session."""
    return failure.code == "SESS_SUPERSEDED" or _peer_close(failure) in codes


def _peer_close(failure: Failure) -> int | None:
    close = failure.details.get("close_code")
    return close if isinstance(close, int) and failure.details.get("close_by") == "peer" else None


def wants_slow_start(failure: Failure) -> bool:
    """1012, 1013 and 429 ask for patience: the server's hint, or at least five seconds."""
    return _peer_close(failure) in _SLOW_CLOSES or failure.details.get("http_status") == 429


def reason_of(failure: Failure) -> str:
    """The reason a user reads on the edge that this failure causes."""
    doubt = failure.details.get("reason")
    if failure.code == "CONN_HEARTBEAT_TIMEOUT" and doubt in _DOUBTS:
        return str(doubt)
    if failure.code in _REASON_BY_CODE:
        return _REASON_BY_CODE[failure.code]
    status = failure.details.get("http_status")
    if isinstance(status, int):
        return f"upgrade_rejected({status})"
    if failure.code.startswith("AUTH_"):
        return "auth_rejected"
    close = _peer_close(failure)
    if close is not None:
        text = str(failure.details.get("close_text") or "")[:_TEXT]
        return f"peer_closed({close}, {text})" if text else f"peer_closed({close})"
    return "protocol_error" if failure.code.startswith("PROTO_") else "connection_lost"
