"""HTTP requests: where they go, whether they may be repeated, what they may not carry. For httpx and httpx2, by their common words."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from ..errors import Failure, error_for, is_sensitive
from ..transports.loopback import is_loopback
from .given import plaintext_refused


__all__ = [
    "IDEMPOTENT_METHODS",
    "SAFE_METHODS",
    "bound_to",
    "check_hop",
    "check_plaintext",
    "is_header_name",
    "mark_redirect",
    "origin_of",
    "package_of",
]

IDEMPOTENT_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""What RFC 9110 §9.2.2 calls idempotent: repeating it has the effect of doing it once."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""What RFC 9110 §9.2.1 calls safe: it asks for no effect, so it needs no idempotency key."""

_SHORTEST: Final = (
    0.001  # seconds; a socket that is given 0 does not wait at all, and says so in another error
)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110 §5.6.2
_HOP: Final = "rb.redirected"
_PORTS: Final = {"http": 80, "https": 443}


def package_of(request: Any) -> str:
    """Return the library a request belongs to: "httpx" or "httpx2"."""
    return type(request).__module__.partition(".")[0]


def origin_of(url: Any) -> str:
    """Return scheme, host and, if it is not the usual one, port: no path, no user, no secret."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}" if url.port is None else f"{url.scheme}://{host}:{url.port}"


def is_header_name(name: object) -> bool:
    """Return whether a header can have this name."""
    return isinstance(name, str) and _HEADER_NAME.fullmatch(name) is not None


# ---- what may not leave -----------------------------------------------------------------------------------------


def mark_redirect(request: Any) -> None:
    """Remember where a redirect comes from: the client carries the extensions of a request over to the next hop."""
    url = request.url
    request.extensions[_HOP] = url.scheme, url.host, url.port or _PORTS.get(url.scheme)


def check_hop(request: Any) -> None:
    """Refuse to follow a redirect to another origin with credentials, or from https to http (threat 41).

    The client itself takes away Authorization and Cookie; it knows no X-Api-Key.
    """
    came_from = request.extensions.get(_HOP)  # it stays: sent again by hand, the request is no better
    if came_from is None:
        return
    url = request.url
    scheme, host, port = came_from
    here = url.scheme, url.host, url.port or _PORTS.get(url.scheme)
    if here == came_from:
        return
    if scheme == "https" and url.scheme != "https":
        raise error_for(Failure.of("CONN_REDIRECT_REFUSED", f"redirect from https to {url.scheme} refused"))
    is_upgrade = (scheme, url.scheme, host, port, here[2]) == ("http", "https", url.host, 80, 443)
    if not is_upgrade and _has_credentials(
        request, beside="cookie"
    ):  # the client's jar knows where a cookie belongs
        raise error_for(Failure.of("CONN_REDIRECT_REFUSED", details={"origin": origin_of(url)}))


def check_plaintext(request: Any) -> None:
    """Refuse credentials over http:// to another machine (threat 42)."""
    if not _is_loopback(request.url.host) and _has_credentials(request):
        raise plaintext_refused("https", origin_of(request.url), "HTTPTransport")


def _has_credentials(request: Any, beside: str = "") -> bool:
    return any(_is_credential(name) and name != beside for name in request.headers)


# On every request, of the same few names and hosts.
@lru_cache(maxsize=1_024)
def _is_credential(header: str) -> bool:
    return is_sensitive(header)


_is_loopback = lru_cache(maxsize=1_024)(is_loopback)


# ---- what it may take --------------------------------------------------------------------------------------------


@contextmanager
def bound_to(request: Any, left: float) -> Generator[None, None, None]:
    """Let no phase of a request take more than the seconds left: a thread cannot be interrupted, but its socket can.

    Afterwards the request has its own timeouts again: it may be sent once more, or be carried over by a redirect.
    """
    extensions = request.extensions
    told: dict[str, float | None] | None = extensions.get("timeout")
    left, own = max(left, _SHORTEST), told or {}
    phases = {name: own.get(name) for name in ("connect", "read", "write", "pool")}
    extensions["timeout"] = {
        name: left if seconds is None else min(seconds, left) for name, seconds in phases.items()
    }
    try:
        yield
    finally:
        if told is None:
            del extensions["timeout"]
        else:
            extensions["timeout"] = told
