"""HTTP clients beside httpx: requests, urllib3 and aiohttp.

Rule: their exceptions alone say little; the system's own error is below them, as below httpx's
wrappers. All three follow redirects (and urllib3 and aiohttp retry) by themselves, so their errors
prove nothing about the whole call. A refused connection is a proof only in our own adapters, where
one entry is one request. A body is read only if it is already in memory.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, TypeGuard, cast

from .errnos import errno_of
from .finding import Finding, Rules, chain_of, own_words, wrong_setting
from .redaction import text_of
from .statuses import hidden_finding, status_finding
from .taxonomy import Executed, Kind
from .texts import text_finding
from .tls_errors import tls_finding


_MAYBE: Final = Executed.MAYBE

_UNREACHED: Final = Finding(code="CONN_UNREACHABLE", message="connection failed", executed=_MAYBE)
_LOST: Final = Finding(code="CONN_RESET", executed=_MAYBE)
_TIMEOUT: Final = Finding(
    code="CONN_TIMEOUT",
    message="timed out",
    executed=_MAYBE,
    suggestions=("allow more time, or ask for less at once",),
)
_CONNECT_TIMEOUT: Final = Finding(code="CONN_TIMEOUT", executed=_MAYBE)
_BAD_ANSWER: Final = Finding(
    code="PROTO_INVALID_FRAME",
    message="answer cannot be decoded",
    executed=_MAYBE,
    suggestions=("check the server, and the proxy in between",),
)
_NO_JSON: Final = Finding(
    code="PROTO_INVALID_MESSAGE",
    message="answer is not what was asked for",
    executed=_MAYBE,
    suggestions=("read the answer as text: it may be an error page",),
)
_REDIRECTS: Final = _BAD_ANSWER.evolve(
    code="PROTO_INVALID_MESSAGE", kind=Kind.PERMANENT, message="too many redirects"
)
_MISUSE: Final = Finding(code="SYS_INTERNAL_ERROR", message="client used in the wrong state")


def answer_status(answer: Any) -> Finding | None:
    """Return the verdict on a response, None for a success; its body counts if it has been read.

    A success whose body is nothing but an error is none.
    """
    status = getattr(answer, "status_code", None)  # urllib3 and aiohttp name it `status`
    status = answer.status if status is None else status
    if not isinstance(status, int) or isinstance(status, bool):
        return None
    body = body_of(answer)
    if status < 400:
        return None if body is None else hidden_finding(body, answer.headers)
    finding = status_finding(status, answer.headers, body)
    return finding.evolve(proof="") if getattr(answer, "history", None) else finding


def body_of(answer: Any) -> bytes | None:
    """Return a body that is in memory already; requests' `content` would read the network."""
    held: dict[str, Any] = getattr(answer, "__dict__", {})
    body: object = held.get("_content", held.get("_body", held.get("body")))
    return body if isinstance(body, bytes) else None


def carried_finding(error: Any) -> Finding | None:
    """Return the verdict on an error of any SDK that carries an HTTP answer, None for any other.

    Such an SDK may repeat by itself, so nothing proves that the call did not run.
    """
    response: Any = getattr(error, "response", None)
    status = getattr(response, "status_code", getattr(response, "status", None))
    headers: object = getattr(response, "headers", None)
    body: object = None if response is None else body_of(response)
    if not _is_failure(status) or not callable(getattr(headers, "get", None)):
        status, headers = getattr(error, "status_code", None), getattr(error, "headers", None)
        own: object = getattr(error, "body", None) or getattr(error, "error", None)
        body = cast("object", own) if isinstance(own, (str, bytes, Mapping, list)) else None
        if not _is_failure(status) or (
            body is None and not callable(getattr(headers, "get", None))
        ):
            return None
    return status_finding(status, headers, body).evolve(executed=_MAYBE, proof="")


def _is_failure(status: object) -> TypeGuard[int]:
    return isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599


# ---- requests, urllib3 ---------------------------------------------------------------------------------------------


def _raised_status(error: Any) -> Finding | None:
    response = error.response
    return None if response is None else answer_status(response)


def _connection(error: BaseException) -> Finding:
    """The rule without a known error below (raised by hand, or unpickled): the text may help."""
    found = text_finding(own_words(error, "requests", "urllib3", "aiohttp"))
    return _UNREACHED if found is None else found.evolve(category=None, executed=_MAYBE, proof="")


def _status_in_words(error: BaseException) -> Finding | None:
    """The rule for urllib3's retries that ended with a status: `too many 503 error responses`."""
    words = own_words(error, "urllib3").split()
    return (
        text_finding(f"status code {words[2]}")
        if words[:2] == ["too", "many"] and len(words) > 2
        else None
    )


# ---- aiohttp -------------------------------------------------------------------------------------------------------


def _answer_error(error: Any) -> Finding:
    """The rule for ClientResponseError: a raised status, or an answer that is no HTTP (its 400)."""
    status = error.status
    if str(type(error.__cause__).__module__).startswith("aiohttp.") or not isinstance(status, int):
        return _BAD_ANSWER
    if status < 400:
        return _NO_JSON
    finding = status_finding(status, error.headers)
    return finding.evolve(proof="") if error.history else finding


def _proxy_answer(error: Any) -> Finding:
    found = status_finding(error.status, error.headers)
    return found.evolve(message=f"proxy: {found.summary}", proof="")


def _upgrade(error: Any) -> Finding:
    if error.status < 400:
        return Finding(
            code="PROTO_VIOLATION", message="websocket handshake not valid", executed=_MAYBE
        )
    return status_finding(error.status, error.headers, upgrade=True)


def _pin(error: Any) -> Finding:
    got = cast("object", error.got)
    return tls_finding("PIN_MISMATCH", sha256=got.hex() if isinstance(got, bytes) else str(got))


_REQUESTS: Mapping[str, Any] = {
    "HTTPError": _raised_status,
    "ConnectTimeout": _CONNECT_TIMEOUT,
    "Timeout": _TIMEOUT,
    "ConnectionError": _connection,
    "RetryError": _connection,
    "ChunkedEncodingError": _LOST,
    "ContentDecodingError": _BAD_ANSWER,
    "JSONDecodeError": _NO_JSON,
    "InvalidJSONError": Finding(
        code="SYS_INTERNAL_ERROR",
        message="data cannot be sent as json",
        suggestions=("correct the values it names",),
    ),
    "TooManyRedirects": _REDIRECTS,
    "InvalidProxyURL": wrong_setting("proxy url not valid", _MAYBE),
    "InvalidURL": wrong_setting("url not valid", _MAYBE),
    "MissingSchema": wrong_setting("url without http:// or https://", _MAYBE),
    "InvalidSchema": wrong_setting("url without http:// or https://", _MAYBE),
    "InvalidHeader": wrong_setting("header not valid", _MAYBE),
    "StreamConsumedError": _MISUSE,
    "UnrewindableBodyError": _MISUSE,
}
_URLLIB3: Mapping[str, Any] = {
    "ResponseError": _status_in_words,
    "NewConnectionError": _connection,
    "ConnectTimeoutError": _CONNECT_TIMEOUT,
    "EmptyPoolError": _TIMEOUT.evolve(message="no free connection in time"),
    "FullPoolError": _TIMEOUT.evolve(message="no free connection in time"),
    "TimeoutError": _TIMEOUT,
    "ProtocolError": _LOST,
    "SSLError": _connection,
    "ProxyError": _connection,
    "DecodeError": _BAD_ANSWER,
    "LocationValueError": wrong_setting("url not valid", _MAYBE),
    "ClosedPoolError": _MISUSE,
}
_AIOHTTP: Mapping[str, Any] = {
    "ClientHttpProxyError": _proxy_answer,
    "WSServerHandshakeError": _upgrade,
    "ContentTypeError": _NO_JSON,
    "TooManyRedirects": _REDIRECTS,
    "ClientResponseError": _answer_error,
    "ConnectionTimeoutError": _CONNECT_TIMEOUT,
    "ServerTimeoutError": _TIMEOUT,
    "ServerFingerprintMismatch": _pin,
    "ServerDisconnectedError": _LOST,
    "ClientConnectorError": _connection,
    "ClientPayloadError": _LOST,
    "InvalidURL": wrong_setting("url not valid", _MAYBE),
    "NonHttpUrlClientError": wrong_setting("url without http:// or https://", _MAYBE),
}
RULES: Rules = {
    **{("requests", name): rule for name, rule in _REQUESTS.items()},
    **{("urllib3", name): rule for name, rule in _URLLIB3.items()},
    **{("aiohttp", name): rule for name, rule in _AIOHTTP.items()},
    ("aiohttp", "ClientConnectionResetError"): _LOST,
    ("aiohttp", "ClientConnectionError"): _connection,
}
"""The verdict on each class alone, or if nothing below it is known."""

WRAPPERS: Mapping[tuple[str, str], str | None] = {
    ("requests", "ConnectionError"): "",
    ("requests", "RetryError"): "",
    ("requests", "ChunkedEncodingError"): "",
    ("urllib3", "MaxRetryError"): "",
    ("urllib3", "NewConnectionError"): "",
    ("urllib3", "ProtocolError"): "",
    ("urllib3", "SSLError"): "",
    ("urllib3", "ProxyError"): "",
    ("aiohttp", "ClientConnectorError"): "",
}
"""Classes below which the root cause is searched: they themselves prove nothing about the call."""

LEAVES: Final = frozenset(
    {
        ("requests", "ConnectTimeout"),
        ("requests", "ReadTimeout"),
        ("urllib3", "ConnectTimeoutError"),
        ("aiohttp", "ServerFingerprintMismatch"),
    }
)
"""Subclasses of wrappers that hide no other error."""


# ---- one request ---------------------------------------------------------------------------------------------------

ONE_REQUEST: Final = "__rb_one_request__"
"""The attribute by which our adapters mark an error as that of one request."""
_DEEP: Final = 8  # errors below each other
_CONNECTING: Final = frozenset(
    {("urllib3", "NewConnectionError"), ("aiohttp", "ClientConnectorError")}
)
_TOO_LATE: Final = frozenset(
    {("requests", "ConnectTimeout"), ("aiohttp", "ConnectionTimeoutError")}
)
_NOT_CONNECTED: Final = frozenset(
    getattr(errno, name)
    for name in (
        "ECONNREFUSED",
        "ENETUNREACH",
        "EHOSTUNREACH",
        "ENETDOWN",
        "EHOSTDOWN",
        "EADDRNOTAVAIL",
    )
    if hasattr(errno, name)
)


def allow_proof(error: BaseException) -> None:
    """Mark an error as that of one request of our adapter: it can prove that this did not run."""
    with suppress(Exception):  # a class may refuse attributes
        object.__setattr__(error, ONE_REQUEST, True)


def proof_of(error: BaseException, root: BaseException) -> str:
    """Return the row of the table of proofs for an error of one request, empty for none.

    `root` is the error below it.
    """
    try:
        chain = _classes_below(error, root)
        number = errno_of(root)
    except Exception:  # noqa: BLE001 (a class may hide what it has)
        return ""
    if ("socket", "gaierror") in chain:
        return "not_resolved"
    if ("ssl", "SSLCertVerificationError") in chain:
        return "tls_failed"
    if chain & _TOO_LATE:
        return "connect_timeout"
    if ("aiohttp", "ClientHttpProxyError") in chain or text_of(root).startswith(
        "Tunnel connection failed: "
    ):
        return "tunnel_refused"
    return "not_connected" if chain & _CONNECTING and number in _NOT_CONNECTED else ""


def _classes_below(error: BaseException, root: BaseException) -> set[tuple[str, str]]:
    return {
        (str(cls.__module__).partition(".")[0], cls.__name__)
        for below in (*chain_of(error, _DEEP), root)
        for cls in type(below).__mro__
    }
