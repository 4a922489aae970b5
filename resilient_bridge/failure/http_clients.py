"""Rules for HTTP clients: httpx, httpx2 and their cores; requests, urllib3 and aiohttp; and what wraps errors of others.

Rule: only below a wrapper is the chain followed, by `__cause__ or __context__`, suppressed or not,
because httpcore raises `from None` and leaves the certificate's error on `__context__` alone. A
timeout is not a wrapper: a CancelledError is below it. Whether connecting or reading failed shows
whether the server can have processed the request.

requests, urllib3 and aiohttp follow redirects (urllib3 and aiohttp retry, too) by themselves, so
their errors prove nothing about the whole call. A refused connection is a proof only in our own
adapters, where one entry is one request. A body is read only if it is already in memory.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard, TypeVar, cast

from .closes import close_finding
from .contents import body_of
from .dispatch import Reader, Rows, Rules, chain_of, own_words, wrong_setting
from .failure import Finding
from .redaction import text_of
from .statuses import answer_status, response_finding, status_finding, upgrade_finding
from .system import errno_of, tls_finding
from .texts import text_finding
from .vocabulary import Category, Executed, Kind


T = TypeVar("T")

_UNREACHED = Finding(code="CONN_UNREACHABLE", message="connection failed", proof="not_connected")
_TUNNEL = Finding(
    code="CONN_UNREACHABLE", message="proxy could not be used", proof="tunnel_refused"
)
_LOST = Finding(code="CONN_RESET")
_CONNECT_TIMEOUT = Finding(code="CONN_TIMEOUT", proof="connect_timeout")
_TIMEOUT = Finding(code="CONN_TIMEOUT", message="timed out")
_POOL = Finding(code="CONN_TIMEOUT", message="no free connection in time", proof="pool_timeout")
_BAD_ANSWER = Finding(
    code="PROTO_INVALID_FRAME",
    message="answer cannot be decoded",
    suggestions=("check the server, and the proxy in between",),
)
_REDIRECTS: Final = _BAD_ANSWER.evolve(
    code="PROTO_INVALID_MESSAGE", kind=Kind.PERMANENT, message="too many redirects"
)
_MISUSE = Finding(code="SYS_INTERNAL_ERROR", message="response used in the wrong state")
_PROXY_STATUS: Final = re.compile(r"([1345][0-9]{2})\b")


_BAD_REQUEST = Finding(code="SYS_CONFIG_INVALID", message="request not valid")
_H2_STATES: Final = re.compile(r"\b(Connection|Stream)(Inputs|State)\.[A-Z]")
_DEEPEST: Final = 10
_REFUSED_STREAM: Final = 7  # RFC 9113, 8.7: no processing has taken place


def _proxy(error: BaseException) -> Finding:
    """Return the verdict on a proxy's refusal of the tunnel.

    Only its text shows it: `407 Proxy Authentication Required`.
    """
    words = own_words(error, *_HTTP)
    match = _PROXY_STATUS.match(words)
    if (
        match is None
    ):  # SOCKS proxies give the reason in words; without a known one it is a wrong setting
        finding = text_finding(words)
        return _TUNNEL.evolve(retryable=finding is not None and finding.failure().retryable)
    found = status_finding(int(match[1]))
    return found.evolve(message=f"proxy: {found.summary}", proof=_TUNNEL.proof)


def _local_protocol(error: BaseException) -> Finding:
    """Tell a lost connection from a request that cannot be sent.

    httpcore raises this for input on a closed HTTP/2 connection, also after a GOAWAY in the middle
    of a response. h11 raises it for a body that is shorter or longer than declared, of which a part
    was sent. Neither proves that the call did not run.
    """
    of_h2 = (
        type(below).__module__.partition(".")[0] == "h2" for below in chain_of(error, _DEEPEST)
    )
    return _LOST if _H2_STATES.search(text_of(error)) or any(of_h2) else _BAD_REQUEST


def _remote_protocol(error: BaseException) -> Finding:
    """Return the verdict on an HTTP/2 stream error.

    REFUSED_STREAM proves that the server did not process the request.
    """
    for below in chain_of(error, _DEEPEST):
        event = below.args[0] if below.args else None
        if getattr(event, "error_code", None) == _REFUSED_STREAM and hasattr(event, "stream_id"):
            return _LOST.evolve(message="stream refused", proof="refused_stream")
    return _LOST


def _status(error: Any) -> Finding:
    return response_finding(error.response, error.response.status_code)


def _upgrade(error: Any) -> Finding:
    return upgrade_finding(error.response.status_code, error.response.headers)


def _disconnect(error: Any) -> Finding:
    reason = error.reason
    return close_finding(error.code, reason if isinstance(reason, str) else "", "peer")


_RULES: Mapping[str, Finding | Reader] = {
    "ConnectError": _UNREACHED,
    "NetworkError": _LOST,
    "RemoteProtocolError": _remote_protocol,
    "ProxyError": _proxy,
    "ConnectTimeout": _CONNECT_TIMEOUT,
    "PoolTimeout": _POOL,
    "TimeoutException": _TIMEOUT,
    "HTTPStatusError": _status,
    "LocalProtocolError": _local_protocol,
    "UnsupportedProtocol": wrong_setting("url without http:// or https://"),
    "InvalidURL": wrong_setting("url not valid"),
    "CookieConflict": wrong_setting("several cookies of one name"),
    "TooManyRedirects": _REDIRECTS,
    "DecodingError": _BAD_ANSWER,
    "SSEError": _BAD_ANSWER.evolve(message="answer is no event stream"),
    "StreamError": _MISUSE,
    "WebSocketUpgradeError": _upgrade,
    "WebSocketDisconnect": _disconnect,
    "WebSocketNetworkError": Finding(code="CONN_WEBSOCKET_CLOSED"),
}
_WRAPPING: Mapping[str, str] = {
    "ConnectError": "not_connected",
    "ProxyError": "tunnel_refused",
    "NetworkError": "",
    "RemoteProtocolError": "",
    "WebSocketNetworkError": "",
}
_HTTP: Final = ("httpx", "httpx2", "httpcore", "httpcore2")


def _each(names: Mapping[str, T]) -> Iterator[tuple[tuple[str, str], T]]:
    for package in _HTTP:
        for name, value in names.items():
            yield (package, name), value


_HTTPX: Rules = {
    **dict(_each(_RULES)),
    ("urllib", "HTTPError"): lambda error: status_finding(error.code, error.headers),
    ("urllib", "URLError"): _UNREACHED,
    ("http", "IncompleteRead"): _LOST,
    ("h11", "RemoteProtocolError"): _LOST,
    ("h11", "LocalProtocolError"): _local_protocol,
    ("http", "HTTPException"): _BAD_ANSWER.evolve(category=Category.PROTOCOL),
}
"""What each says by itself, or when nothing below it is known."""


# ---- requests, urllib3, aiohttp ---------------------------------------------------------------------


_FAILED: Final = Finding(code="CONN_UNREACHABLE", message="connection failed")
_TIMED_OUT: Final = Finding(
    code="CONN_TIMEOUT",
    message="timed out",
    suggestions=("allow more time, or ask for less at once",),
)
_LATE: Final = Finding(code="CONN_TIMEOUT")
_NO_JSON: Final = Finding(
    code="PROTO_INVALID_MESSAGE",
    message="answer is not what was asked for",
    suggestions=("read the answer as text: it may be an error page",),
)
_WRONG_STATE: Final = Finding(code="SYS_INTERNAL_ERROR", message="client used in the wrong state")


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
    return status_finding(status, headers, body).evolve(executed=Executed.MAYBE, proof="")


def _is_failure(status: object) -> TypeGuard[int]:
    return isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599


# ---- requests, urllib3 ---------------------------------------------------------------------------------------------


def _raised_status(error: Any) -> Finding | None:
    response = error.response
    return None if response is None else answer_status(response)


def _connection(error: BaseException) -> Finding:
    """The rule without a known error below (raised by hand, or unpickled): the text may help."""
    found = text_finding(own_words(error, "requests", "urllib3", "aiohttp"))
    return (
        _FAILED if found is None else found.evolve(category=None, executed=Executed.MAYBE, proof="")
    )


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


def _aiohttp_upgrade(error: Any) -> Finding:
    if error.status < 200:  # it was switched, and not as the client asked
        return Finding(code="PROTO_VIOLATION", message="websocket handshake not valid")
    return upgrade_finding(error.status, error.headers)


def _pin(error: Any) -> Finding:
    got = cast("object", error.got)
    return tls_finding("PIN_MISMATCH", sha256=got.hex() if isinstance(got, bytes) else str(got))


_REQUESTS: Mapping[str, Any] = {
    "HTTPError": _raised_status,
    "ConnectTimeout": _LATE,
    "Timeout": _TIMED_OUT,
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
    "InvalidProxyURL": wrong_setting("proxy url not valid"),
    "InvalidURL": wrong_setting("url not valid"),
    "MissingSchema": wrong_setting("url without http:// or https://"),
    "InvalidSchema": wrong_setting("url without http:// or https://"),
    "InvalidHeader": wrong_setting("header not valid"),
    "StreamConsumedError": _WRONG_STATE,
    "UnrewindableBodyError": _WRONG_STATE,
}
_URLLIB3: Mapping[str, Any] = {
    "ResponseError": _status_in_words,
    "NewConnectionError": _connection,
    "ConnectTimeoutError": _LATE,
    "EmptyPoolError": _TIMED_OUT.evolve(message="no free connection in time"),
    "FullPoolError": _TIMED_OUT.evolve(message="no free connection in time"),
    "TimeoutError": _TIMED_OUT,
    "ProtocolError": _LOST,
    "SSLError": _connection,
    "ProxyError": _connection,
    "DecodeError": _BAD_ANSWER,
    "LocationValueError": wrong_setting("url not valid"),
    "ClosedPoolError": _WRONG_STATE,
}
_AIOHTTP: Mapping[str, Any] = {
    "ClientHttpProxyError": _proxy_answer,
    "WSServerHandshakeError": _aiohttp_upgrade,
    "ContentTypeError": _NO_JSON,
    "TooManyRedirects": _REDIRECTS,
    "ClientResponseError": _answer_error,
    "ConnectionTimeoutError": _LATE,
    "ServerTimeoutError": _TIMED_OUT,
    "ServerFingerprintMismatch": _pin,
    "ServerDisconnectedError": _LOST,
    "ClientConnectorError": _connection,
    "ClientPayloadError": _LOST,
    "InvalidURL": wrong_setting("url not valid"),
    "NonHttpUrlClientError": wrong_setting("url without http:// or https://"),
}
_OTHERS: Rules = {
    **{("requests", name): rule for name, rule in _REQUESTS.items()},
    **{("urllib3", name): rule for name, rule in _URLLIB3.items()},
    **{("aiohttp", name): rule for name, rule in _AIOHTTP.items()},
    ("aiohttp", "ClientConnectionResetError"): _LOST,
    ("aiohttp", "ClientConnectionError"): _connection,
}
"""The verdict on each class alone, or if nothing below it is known."""

# ---- one request ---------------------------------------------------------------------------------------------------

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


ROWS: Final = Rows(
    {**_HTTPX, **_OTHERS},
    wrappers={
        **dict(_each(_WRAPPING)),
        ("urllib", "URLError"): None,
        ("requests", "ConnectionError"): "",
        ("requests", "RetryError"): "",
        ("requests", "ChunkedEncodingError"): "",
        ("urllib3", "MaxRetryError"): "",
        ("urllib3", "NewConnectionError"): "",
        ("urllib3", "ProtocolError"): "",
        ("urllib3", "SSLError"): "",
        ("urllib3", "ProxyError"): "",
        ("aiohttp", "ClientConnectorError"): "",
    },
    leaves=frozenset(
        {
            ("urllib", "HTTPError"),
            ("requests", "ConnectTimeout"),
            ("requests", "ReadTimeout"),
            ("urllib3", "ConnectTimeoutError"),
            ("aiohttp", "ServerFingerprintMismatch"),
        }
    ),
)
