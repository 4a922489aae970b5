"""Rules for HTTP clients (httpx, httpx2 and their cores).

Also for exceptions that wrap the one that matters.

Rule: only below a wrapper is the chain followed, by `__cause__ or __context__`, suppressed or not,
because httpcore raises `from None` and leaves the certificate's error on `__context__` alone. A
timeout is not a wrapper: a CancelledError is below it. Whether connecting or reading failed shows
whether the server can have processed the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from .closes import close_finding
from .finding import Finding, Reader, Rules, chain_of, own_words, wrong_setting
from .redaction import text_of
from .statuses import status_finding
from .taxonomy import Category, Kind
from .texts import text_finding


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
    return response_finding(error.response)


def response_finding(response: Any) -> Finding:
    """Return the verdict on a response without success, and on its body if that has been read."""
    body = response.body if hasattr(response, "body") else _content(response)
    return status_finding(response.status_code, response.headers, body)


def _content(response: Any) -> bytes | None:
    try:
        content = response.content
    except Exception:  # noqa: BLE001 (httpx raises while the body of a stream is unread)
        content = getattr(response, "extensions", {}).get(
            "rb.body"
        )  # the part that HTTPTransport has read
    return content if isinstance(content, bytes) else None


def _upgrade(error: Any) -> Finding:
    return status_finding(error.response.status_code, error.response.headers, upgrade=True)


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
    "TooManyRedirects": _BAD_ANSWER.evolve(
        code="PROTO_INVALID_MESSAGE", kind=Kind.PERMANENT, message="too many redirects"
    ),
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


WRAPPERS: Mapping[tuple[str, str], str | None] = {
    **dict(_each(_WRAPPING)),
    ("openai", "APIConnectionError"): None,
    ("anthropic", "APIConnectionError"): None,
    ("google", "ContinuationInterruptedError"): "",
    ("google", "TransportError"): "",
    ("resilient_bridge", "NotExecutedError"): "not_executed",
    ("urllib", "URLError"): None,
    ("litellm", "BaseLLMException"): None,  # litellm's own, around the client's error
}
"""Classes below which the root cause is searched, with their subclasses; and what their coming proves: the name of a row of `proofs.PROOFS`,
nothing (empty: it may have run), or what lies below (None)."""

LEAVES: Final = frozenset({("urllib", "HTTPError"), ("litellm", "Timeout")})
"""Subclasses of wrappers that hide nothing."""

SDK_WRAPPERS: Final = frozenset(
    {("openai", "APIConnectionError"), ("anthropic", "APIConnectionError")}
)
"""They wrap whatever a transport raised, a bug of it too: what lies below always has the word."""

RULES: Rules = {
    **dict(_each(_RULES)),
    ("urllib", "HTTPError"): lambda error: status_finding(error.code, error.headers),
    ("urllib", "URLError"): _UNREACHED,
    ("http", "IncompleteRead"): _LOST,
    ("h11", "RemoteProtocolError"): _LOST,
    ("h11", "LocalProtocolError"): _local_protocol,
    ("http", "HTTPException"): _BAD_ANSWER.evolve(category=Category.PROTOCOL),
}
"""What each says by itself, or when nothing below it is known."""
