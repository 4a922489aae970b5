"""Exceptions that hide the one that matters: HTTP clients' transport errors.

Rule: below a wrapper, and only there, the chain is followed by `__cause__ or __context__`, suppressed or not, because
httpcore raises `from None` (facts: the certificate's error is only on `__context__`). A timeout is no wrapper: below
it lies a CancelledError.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import Executed
from .finding import Finding, Rules


_UNREACHED = Finding(code="CONN_UNREACHABLE", message="connection failed", executed=Executed.NO)
_LOST = Finding(code="CONN_RESET")
_CONNECT_TIMEOUT = Finding(code="CONN_TIMEOUT")
_TIMEOUT = Finding(code="CONN_TIMEOUT", message="timed out", executed=Executed.MAYBE)
_POOL = Finding(code="CONN_TIMEOUT", message="no free connection in time")

_HTTP = ("httpx", "httpx2", "httpcore", "httpcore2")
_WRAPPING = {
    "ConnectError": _UNREACHED,
    "NetworkError": _LOST,
    "RemoteProtocolError": _LOST,
    "ProxyError": _UNREACHED,
}
_PLAIN = {
    "ConnectTimeout": _CONNECT_TIMEOUT,
    "PoolTimeout": _POOL,
    "TimeoutException": _TIMEOUT,
}


def _each(names: dict[str, Finding]) -> Iterator[tuple[tuple[str, str], Finding]]:
    for package in _HTTP:
        for name, finding in names.items():
            yield (package, name), finding


WRAPPERS: frozenset[tuple[str, str]] = frozenset(
    {
        *(key for key, _ in _each(_WRAPPING)),
        ("openai", "APIConnectionError"),
        ("anthropic", "APIConnectionError"),
    }
)
"""Classes below which the root cause is searched, with their subclasses."""

RULES: Rules = dict([*_each(_WRAPPING), *_each(_PLAIN)])
"""What a wrapper means when nothing below it is known."""
