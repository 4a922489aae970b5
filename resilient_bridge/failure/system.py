"""Rules for what a connection raises by itself: the operating system, TLS, WebSocket libraries, our transports.

Errnos, getaddrinfo, timeouts, ends of streams, and drivers that pass the system's words on; which
check a certificate failed, until when it was valid, and what to do about it; closes and handshakes.

Windows has its own numbers beside the errnos. Its default event loop raises them, and Python
reports every one that it does not know as EINVAL: a refused connection then looks like a wrong
setting. Rule: no other module reads `OSError.errno` of an error that may come from a socket.

Rule: the errno decides, and the class only if there is none; numbers come from the running system's
`errno`. A failed verification fails again, so it is never retryable; only an interrupted handshake
is. `ConnectionClosed.code` is never read (it warns): who closed first decides which of the two close
frames counts.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from .closes import close_finding
from .dispatch import Reader, Rows, Rules, own_words, wrong_setting
from .errnos import hints
from .failure import Finding, short_of
from .redaction import package_of, text_of
from .statuses import upgrade_finding
from .texts import text_finding
from .vocabulary import Category


# ---- errnos -----------------------------------------------------------------------------------------


_WINDOWS: Final[Mapping[int, int]] = {
    32: errno.EBUSY,  # ERROR_SHARING_VIOLATION: another process has the file open
    33: errno.EBUSY,  # ERROR_LOCK_VIOLATION
    64: errno.ECONNRESET,  # ERROR_NETNAME_DELETED
    121: errno.ETIMEDOUT,  # ERROR_SEM_TIMEOUT
    233: errno.EPIPE,  # ERROR_PIPE_NOT_CONNECTED
    995: errno.ECONNABORTED,  # ERROR_OPERATION_ABORTED
    1225: errno.ECONNREFUSED,  # ERROR_CONNECTION_REFUSED
    1229: errno.ENOTCONN,  # ERROR_CONNECTION_INVALID
    1231: errno.ENETUNREACH,  # ERROR_NETWORK_UNREACHABLE
    1232: errno.EHOSTUNREACH,  # ERROR_HOST_UNREACHABLE
    1234: errno.ECONNREFUSED,  # ERROR_PORT_UNREACHABLE
    1236: errno.ECONNABORTED,  # ERROR_CONNECTION_ABORTED
    1450: errno.ENOBUFS,  # ERROR_NO_SYSTEM_RESOURCES
    1460: errno.ETIMEDOUT,  # ERROR_TIMEOUT
}


def errno_of(error: BaseException) -> int | None:
    """Return the errno of an error, converted from a Windows number if needed, or None."""
    winerror: object = getattr(error, "winerror", None)
    number: object = _WINDOWS.get(winerror) if isinstance(winerror, int) else None
    if number is None:
        number = getattr(error, "errno", None)
    return number if isinstance(number, int) else None


def errno_of_windows(number: int) -> int:
    """Return the errno for a Windows number.

    The sockets' numbers (10061) and those that mean no network are unchanged.
    """
    return _WINDOWS.get(number, number)


_REFUSED = Finding(code="CONN_REFUSED", proof="not_connected", suggestions=hints("ECONNREFUSED"))
_RESET = Finding(code="CONN_RESET", suggestions=hints("ECONNRESET"))
_CLOSED = Finding(code="CONN_RESET", message="connection lost")
_UNREACHABLE = Finding(code="CONN_UNREACHABLE")
# A bare timeout does not say whether the connection existed: the code's "no" would be a guess.
_TIMEOUT = Finding(
    code="CONN_TIMEOUT",
    message="timed out",
    suggestions=("allow more time, or ask for less at once",),
)
_NETWORK_TIMEOUT = Finding(code="CONN_TIMEOUT")
_EXHAUSTED = Finding(code="CONN_RESOURCE_EXHAUSTED")
_SETTING = Finding(code="SYS_CONFIG_INVALID", message="refused by the operating system")
_MEMORY = Finding(
    code="SYS_INTERNAL_ERROR",
    message="out of memory",
    retryable=True,
    suggestions=("ask for less at once",),
    details={"max_retries": 1},
)


_NO_MEMORY = _EXHAUSTED.evolve(
    message="out of memory", suggestions=_MEMORY.suggestions, details=_MEMORY.details
)

_INVALID_VALUES = Finding(
    code="SYS_INTERNAL_ERROR",
    message="values not valid",
    suggestions=("correct the values it names",),
)


def _numbers(finding: Finding, names: str) -> Iterator[tuple[int, Finding]]:
    for name in names.split():
        number: int | None = getattr(errno, name, None)  # not every system has every errno
        if number is not None:
            yield (
                number,
                finding.evolve(
                    suggestions=hints(name.removeprefix("WSA")), details={"errno": number}
                ),
            )


ERRNOS: dict[int, Finding] = dict(
    [
        *_numbers(
            _SETTING, "ENOENT EACCES EPERM ENOTDIR EISDIR ENOSPC EROFS EINVAL ENOEXEC EAFNOSUPPORT"
        ),
        *_numbers(
            _EXHAUSTED, "EAGAIN EWOULDBLOCK EBUSY EINTR ETXTBSY EDEADLK EMFILE ENFILE ENOBUFS"
        ),
        *_numbers(_EXHAUSTED, "EADDRINUSE EADDRNOTAVAIL"),
        *_numbers(_REFUSED, "ECONNREFUSED WSAECONNREFUSED"),
        *_numbers(_RESET, "ECONNRESET EPIPE ECONNABORTED ENOTCONN ESHUTDOWN ENETRESET EPROTO"),
        *_numbers(_RESET, "WSAECONNRESET WSAECONNABORTED"),
        *_numbers(
            _UNREACHABLE,
            "ENETUNREACH EHOSTUNREACH ENETDOWN EHOSTDOWN WSAENETUNREACH WSAEHOSTUNREACH",
        ),
        *_numbers(_NETWORK_TIMEOUT, "ETIMEDOUT WSAETIMEDOUT"),
        (errno.ENOMEM, _NO_MEMORY.evolve(details={**_NO_MEMORY.details, "errno": errno.ENOMEM})),
    ]
)
"""The meaning of each errno, which stands in its details; one that is missing here is not known to be temporary."""

# getaddrinfo's own numbers: Linux counts down, BSD and macOS up, Windows from 10,000. They do not collide.
_GAI_SETTINGS = frozenset({-1, -6, -7, -8, 3, 5, 9, 10, 10022, 10044, 10047, 10109})
_DNS = Finding(code="CONN_DNS_FAILED", proof="not_resolved")
_DNS_SETTING = Finding(
    code="CONN_DNS_FAILED",
    category=Category.CONFIG,
    retryable=False,
    message="address family or port not usable",
    proof="not_resolved",
)
_SEVERAL = re.compile(r"\[(Errno|WinError) (\d{1,6})\]")


def _by_errno(fallback: Finding | None = None) -> Reader:
    """Return the rule of an OSError class: its errno decides, else the fallback of the class."""

    def read(error: OSError) -> Finding | None:
        number = errno_of(error)
        if number is None:
            several = _several_addresses(error) if type(error) is OSError else None
            return several or (fallback and _in_its_words(error, fallback))
        if (finding := ERRNOS.get(number)) is not None:
            return _in_its_words(error, finding)
        return fallback and _in_its_words(error, fallback).evolve(details={"errno": number})

    return read


def _in_its_words(error: OSError, finding: Finding) -> Finding:
    """Return the finding with the error's own text where that says more: which file, which time."""
    message: object = error.args[0] if len(error.args) == 1 else None
    text = message if isinstance(message, str) else ""
    if finding is _TIMEOUT and text:
        return finding.evolve(message=f"timed out: {text}")
    if finding.code != _SETTING.code:
        return finding
    if isinstance(error.strerror, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- None without an errno
        text = error.strerror.lower()
        if isinstance(error.filename, str | bytes):
            name = (
                error.filename if isinstance(error.filename, str) else os.fsdecode(error.filename)
            )
            text = f"{text}: {name}"
    return finding.evolve(message=text) if text else finding


def _several_addresses(error: OSError) -> Finding | None:
    # anyio tries every address of a host, and raises its own error made from theirs.
    cause: Any = error.__cause__
    causes: Iterable[object] = getattr(cause, "exceptions", (cause,))  # several, if it is a group
    numbers = [number for one in causes if isinstance(one, OSError) and (number := errno_of(one))]
    if numbers:
        return _least_hopeful(numbers)
    # asyncio joins their texts: "Multiple exceptions: [Errno 111] …, [Errno 101] …"
    text = error.args[0] if error.args else None
    if not isinstance(text, str) or not text.startswith("Multiple exceptions: "):
        return None
    numbers = [
        errno_of_windows(int(number)) if kind == "WinError" else int(number)
        for kind, number in _SEVERAL.findall(text[:4096])
    ]
    return _least_hopeful(numbers)


def _least_hopeful(numbers: Iterable[int]) -> Finding | None:
    known = [ERRNOS[number] for number in numbers if number in ERRNOS]
    lasting = [finding for finding in known if finding.code == _SETTING.code]
    return next(iter(lasting or known), None)


def _getaddrinfo(error: OSError) -> Finding:
    setting = error.errno in _GAI_SETTINGS
    return (_DNS_SETTING if setting else _DNS).evolve(details={"reason": f"EAI {error.errno}"})


_BAD_HOST_NAME = Finding(code="SYS_CONFIG_INVALID", message="host name not valid")


def _host_name(error: UnicodeError) -> Finding | None:
    # getaddrinfo encodes the host first: "label empty or too long"
    if package_of(type(error)) != "builtins":
        return None
    if "label" not in str(error) and "idna" not in str(error):
        return None
    return _BAD_HOST_NAME


def _in_words(error: BaseException) -> Finding | None:
    """The rule for a driver's class that has nothing but the words of the system or of its server."""
    return text_finding(own_words(error, *_DRIVERS))


def _no_key(error: BaseException) -> Finding | None:
    """The rule for a missing key: ValueError (google-genai) or TypeError (anthropic), by text.

    A class of the user's below them is not read: its words are the user's.
    """
    if type(error) not in {ValueError, TypeError}:
        return None
    text = text_of(error)
    provider = next(
        (name for words, name in _NO_KEY.items() if text.strip('"').startswith(words)), None
    )
    if provider is None:
        return None
    message = NO_CREDENTIALS.message + short_of(text)
    return NO_CREDENTIALS.evolve(message=message, details={"provider_id": provider})


NO_CREDENTIALS: Final = Finding(
    code="SYS_CONFIG_INVALID",
    message="credentials missing",
    suggestions=("set the provider's api key",),
)
_NO_KEY: Final = {
    "No API key was provided": "google-gemini",
    "Missing key inputs argument": "google-gemini",
    "Could not resolve authentication method": "anthropic",
}
_DRIVERS: Final = ("sqlite3", "psycopg", "psycopg2", "pymysql", "redis", "paramiko")
_SYSTEM: Rules = {
    **{
        (package, "OperationalError"): _in_words
        for package in ("sqlite3", "psycopg", "psycopg2", "pymysql")
    },
    **{("redis", name): _in_words for name in ("ConnectionError", "TimeoutError")},
    ("paramiko", "SSHException"): _in_words,
    ("builtins", "OSError"): _by_errno(),
    ("builtins", "ConnectionError"): _by_errno(_CLOSED),
    ("builtins", "ConnectionRefusedError"): _by_errno(_REFUSED),
    ("builtins", "ConnectionResetError"): _by_errno(_RESET),
    ("builtins", "ConnectionAbortedError"): _by_errno(_RESET),
    ("builtins", "BrokenPipeError"): _by_errno(_RESET),
    ("builtins", "TimeoutError"): _by_errno(_TIMEOUT),
    ("builtins", "FileNotFoundError"): _by_errno(_SETTING),
    ("builtins", "PermissionError"): _by_errno(_SETTING),
    ("builtins", "NotADirectoryError"): _by_errno(_SETTING),
    ("builtins", "IsADirectoryError"): _by_errno(_SETTING),
    ("builtins", "BlockingIOError"): _by_errno(_EXHAUSTED),
    ("builtins", "InterruptedError"): _by_errno(_EXHAUSTED),
    ("builtins", "EOFError"): _CLOSED,
    ("builtins", "UnicodeError"): _host_name,
    **dict.fromkeys(
        (("pydantic_core", "ValidationError"), ("jsonschema", "ValidationError")), _INVALID_VALUES
    ),
    ("asyncio", "TimeoutError"): _TIMEOUT,
    ("concurrent", "TimeoutError"): _TIMEOUT,
    ("builtins", "MemoryError"): _MEMORY,
    ("builtins", "ValueError"): _no_key,
    ("builtins", "TypeError"): _no_key,
    ("socket", "gaierror"): _getaddrinfo,
    ("socket", "herror"): _DNS,
    ("anyio", "ClosedResourceError"): _CLOSED,
    ("anyio", "BrokenResourceError"): _CLOSED,
    ("anyio", "EndOfStream"): _CLOSED,
}


# ---- TLS --------------------------------------------------------------------------------------------


def _refusal(reason: str, message: str, action: str, suggestion: str) -> tuple[str, Finding]:
    # The client's own check precedes the request. The server's verdict on our certificate may come after it (TLS 1.3).
    is_ours = reason not in ("CLIENT_CERTIFICATE", "PROTOCOL")
    return reason, Finding(
        code="CONN_TLS_HANDSHAKE_FAILED",
        message=f"tls handshake failed: {message}",
        retryable=False,
        proof="tls_failed" if is_ours else "",
        suggestions=(suggestion,),
        details={"reason": reason, "suggested_action": action},
    )


_REASONS: Final[Mapping[str, Finding]] = dict(
    [
        _refusal(
            "CERTIFICATE_EXPIRED",
            "certificate expired",
            "regenerate_certificates",
            "renew the server's certificate and restart the server",
        ),
        _refusal(
            "NOT_YET_VALID",
            "certificate not yet valid",
            "check_clock",
            "check the clocks of both ends, then the certificate's start date",
        ),
        _refusal(
            "SELF_SIGNED",
            "certificate is self-signed",
            "confirm_pinning_hash",
            "pin the certificate by its sha-256, or trust its issuer",
        ),
        _refusal(
            "UNTRUSTED_CHAIN",
            "certificate chain not trusted",
            "verify_certificate_chain",
            "let the server send its whole chain, or add the issuer to the trusted ones",
        ),
        _refusal(
            "HOSTNAME_MISMATCH",
            "certificate is for another host",
            "check_hostname",
            "connect by a name that the certificate lists",
        ),
        _refusal(
            "REVOKED",
            "certificate revoked",
            "regenerate_certificates",
            "replace the server's certificate",
        ),
        _refusal(
            "PIN_MISMATCH",
            "certificate does not match the pin",
            "confirm_pinning_hash",
            "compare the pin with the server's certificate through another channel before changing it",
        ),
        _refusal(
            "CLIENT_CERTIFICATE",
            "client certificate refused",
            "provide_client_certificate",
            "present a certificate that the server accepts",
        ),
        _refusal(
            "VERIFICATION_FAILED",
            "certificate verification failed",
            "verify_certificate_chain",
            "check the certificate and its chain",
        ),
        _refusal(
            "PROTOCOL",
            "no common tls protocol",
            "check_tls_versions",
            "check that the port speaks tls, and the versions of both ends",
        ),
    ]
)

# OpenSSL's X509_V_ERR numbers
_VERIFY_CODES: Mapping[int, str] = {
    9: "NOT_YET_VALID",
    10: "CERTIFICATE_EXPIRED",
    18: "SELF_SIGNED",
    19: "SELF_SIGNED",
    2: "UNTRUSTED_CHAIN",
    20: "UNTRUSTED_CHAIN",
    21: "UNTRUSTED_CHAIN",
    23: "REVOKED",
    27: "UNTRUSTED_CHAIN",
    62: "HOSTNAME_MISMATCH",
    64: "HOSTNAME_MISMATCH",
}
_CUT = Finding(code="CONN_RESET", message="connection lost during tls")
# The stream was damaged or cut in transit; a new connection starts with fresh keys.
_DAMAGED = frozenset(
    {
        "APPLICATION_DATA_AFTER_CLOSE_NOTIFY",
        "BAD_RECORD_MAC",
        "DECRYPTION_FAILED_OR_BAD_RECORD_MAC",
        "SSLV3_ALERT_BAD_RECORD_MAC",
        "UNEXPECTED_EOF_WHILE_READING",
    }
)


def tls_finding(reason: str, expiry: str | None = None, **details: Any) -> Finding:
    """Return the verdict for a reason.

    `expiry` is the end of the certificate's validity as ISO 8601, if known.
    """
    found = _REASONS.get(reason, _REASONS["VERIFICATION_FAILED"])
    fields = {**found.details, "reason": reason, **details}
    if expiry is not None:
        fields["expiry"] = expiry
    when = details.get("start") if reason == "NOT_YET_VALID" else expiry
    message = found.message + (f" ({when})" if when else "")
    proof = found.proof if reason in _REASONS else ""
    return found.evolve(message=message, proof=proof, details=fields)


def _verification(error: Any) -> Finding:
    named: object = getattr(error, "certificate_reason", None)
    number: object = getattr(error, "verify_code", None)
    reason = (
        _VERIFY_CODES.get(number, "VERIFICATION_FAILED")
        if isinstance(number, int)
        else "VERIFICATION_FAILED"
    )
    if isinstance(named, str) and named in _REASONS:
        reason = named
    expiry, start = _text(error, "certificate_expiry"), _text(error, "certificate_start")
    digest = _text(error, "certificate_sha256")
    shown = {"start": start, "sha256": digest}
    found = tls_finding(
        reason, expiry, **{name: text for name, text in shown.items() if text is not None}
    )
    if reason == "SELF_SIGNED" and digest is not None:
        advice = f"compare its sha-256 through another channel, then pin it: sha256:{digest}"
        return found.evolve(suggestions=(advice, "or trust its issuer"))
    return found


def _text(error: Any, name: str) -> str | None:
    value: object = getattr(error, name, None)
    return value if isinstance(value, str) else None


def _handshake(error: Any) -> Finding:
    reason: object = getattr(error, "reason", None)
    alert = reason if isinstance(reason, str) else ""
    if alert in _DAMAGED:
        return _CUT
    # CERTIFICATE_VERIFY_FAILED is our own check; ALERT … CERTIFICATE … and UNKNOWN_CA: the server refuses our certificate
    if alert == "CERTIFICATE_VERIFY_FAILED":
        return _verification(error)
    by_server = "ALERT" in alert and ("CERTIFICATE" in alert or "UNKNOWN_CA" in alert)
    return tls_finding("CLIENT_CERTIFICATE" if by_server else "PROTOCOL", tls_alert=alert)


_TLS: Rules = {
    ("ssl", "SSLCertVerificationError"): _verification,
    ("ssl", "CertificateError"): _verification,
    ("ssl", "SSLEOFError"): _CUT,
    ("ssl", "SSLZeroReturnError"): _CUT,
    ("ssl", "SSLSyscallError"): _CUT,
    ("ssl", "SSLError"): _handshake,
}


# ---- WebSocket --------------------------------------------------------------------------------------


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
    return upgrade_finding(response.status_code, response.headers, getattr(response, "body", None))


def _no_answer(error: BaseException) -> Finding:
    """Distinguish a handshake that was cut (repeat) from one with another answer (do not)."""
    cause = error.__cause__
    if isinstance(cause, EOFError):
        return _HANDSHAKE_CUT
    if isinstance(cause, ConnectionError):
        read = _SYSTEM["builtins", "ConnectionError"]
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
    return _BAD_HOST_NAME if error.encoding == "idna" else _NOT_UTF8


_WEBSOCKETS: Rules = {
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

ROWS: Final = Rows(
    {**_SYSTEM, **_TLS, **_WEBSOCKETS},
    wrappers={("resilient_bridge", "NotExecutedError"): "not_executed"},
)
