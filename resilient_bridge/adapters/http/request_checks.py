"""Checks on HTTP requests: their origin, their credentials, their redirects and their timeouts."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ...calls import Share
from ...calls.ports import request_sent
from ...failure import (
    Executed,
    Failure,
    Record,
    attach,
    config_error,
    error_for,
    holds_secret,
    is_sensitive,
    record_of,
    sends_secret,
)
from ...transports.following import may_follow
from ...transports.loopback import is_loopback
from ..arguments import check_sync, plaintext_refused


if TYPE_CHECKING:
    from ...calls import Policy


# Extensions of a request that are ours: httpx gives them to the next one of a redirect. Those that
# begin with `rb.` are for users (`USER_EXTENSIONS`).
COUNTED: Final = "resilient_bridge.counted"
"""The extension that marks a request as counted in its attempts."""

OURS: Final = "resilient_bridge.transport"
"""The extension that marks a request while one of our transports has it."""

OWN_KEY: Final = "resilient_bridge.idempotency_key"
"""The extension with the generated key, which does not permit repeats; redirects inherit it."""

USER_EXTENSIONS: Final = frozenset({"rb.policy", "rb.idempotent"})
"""What a user may say of one request."""

IDEMPOTENT_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""The methods that RFC 9110 §9.2.2 calls idempotent: repeated, they act as one request does."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""The methods that RFC 9110 §9.2.1 calls safe: without effects, they need no idempotency key."""

# seconds; a socket with timeout 0 does not wait at all, and raises another error
_SHORTEST: Final = 0.001
_KNOWN: Final = 65_536  # bytes of a request's body that are searched for secrets
_HOP: Final = "resilient_bridge.redirected"
PORTS: Final = {"http": 80, "https": 443}


def origin_of(url: Any) -> str:
    """Return a URL's origin: scheme, host and, if not the default, port. It has no secret."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}" if url.port is None else f"{url.scheme}://{host}:{url.port}"


# ---- redirects and credentials ----------------------------------------------------------------------------------


_Origin: TypeAlias = tuple[str, str, int | None]


class _Hop(NamedTuple):
    """An origin that a redirect came from, and the cookies sent there.

    Extensions may be printed, so its repr shows no cookie.
    """

    origin: _Origin
    cookies: frozenset[str]

    def __repr__(self) -> str:
        scheme, host, port = self.origin
        return f"<redirected from {scheme}://{host}:{port}>"


def _origin(url: Any) -> _Origin:
    return url.scheme, url.host, url.port or PORTS.get(url.scheme)


def _is_same(one: _Origin, other: _Origin) -> bool:
    """Return whether two origins are equal, or one host over http and https on default ports."""
    usual = {("http", 80), ("https", 443)}
    return one == other or (
        one[1] == other[1] and {(one[0], one[2]), (other[0], other[2])} == usual
    )


def mark_redirect(request: Any) -> None:
    """Add the origin of a redirect to the request's extensions, which the client passes on."""
    before: tuple[_Hop, ...] = request.extensions.get(_HOP, ())
    here = _Hop(_origin(request.url), frozenset(_pairs(request.headers.get("cookie", ""))))
    request.extensions[_HOP] = (*before, here)


def check_hop(request: Any, domains: Mapping[str, str] = MappingProxyType({})) -> None:
    """Drop the headers that must not follow a redirect to another origin (threat 41).

    Another origin is another scheme, host or port, except for the change of one host from http to
    https on their default ports. A header that is not on the list of `may_follow` is dropped. A
    header with the name of a secret raises, and so does a body with a secret, which 307 and 308 would
    send again, and any redirect from https to http (CONN_REDIRECT_REFUSED).

    The client itself removes Authorization and a Cookie header, and adds the cookies that its jar
    has for the new host, among them each cookie without a domain. So a cookie that was sent to an
    earlier origin is dropped as well, unless it was also sent to this one, or `domains` says that a
    server set a cookie of this name for a domain that the new host is in.
    """
    # The hops stay in the extensions: a request that the user sends again is checked again.
    hops: tuple[_Hop, ...] = request.extensions.get(_HOP, ())
    if not hops:
        return
    url, headers = request.url, request.headers
    here = _origin(url)
    if hops[-1].origin[0] == "https" and url.scheme != "https":
        raise error_for(
            Failure.of("CONN_REDIRECT_REFUSED", f"redirect from https to {url.scheme} refused")
        )
    if not _is_same(hops[-1].origin, here):
        if _has_credentials(request, beside="cookie"):
            raise error_for(Failure.of("CONN_REDIRECT_REFUSED", details={"origin": origin_of(url)}))
        if holds_secret(_known_body(request)):
            message = "redirect to another origin refused: it would send a body with a secret there"
            raise error_for(
                Failure.of("CONN_REDIRECT_REFUSED", message, details={"origin": origin_of(url)})
            )
        for name in [name for name in headers if name != "cookie" and not may_follow(name)]:
            del headers[name]
    if "cookie" in headers:
        allowed = _allowed_cookies(headers["cookie"], hops, here, domains)
        del headers["cookie"]
        if allowed:
            headers["cookie"] = allowed


def _known_body(request: Any) -> bytes:
    """Return the beginning of a request's body, of any client; empty if it can be read only once.

    It is text, bytes, or parts of a form: httpx's stream, requests' body, aiohttp's payload.
    """
    native = getattr(request, "native", request)
    body = getattr(native, "body", None)
    value = getattr(body, "_value", None)  # of a payload of aiohttp
    stream = getattr(native, "stream", None) if body is None else body if value is None else value
    if isinstance(stream, str):
        return stream[:_KNOWN].encode("utf-8", "replace")
    if isinstance(stream, bytes | bytearray):
        return bytes(stream[:_KNOWN])
    found = bytearray()
    for part in _parts(stream):
        found += part
        if len(found) >= _KNOWN:
            break
    return bytes(found)


def _parts(stream: Any) -> Iterator[bytes]:
    if type(stream).__name__ in {
        "ByteStream",
        "MultipartStream",
    }:  # httpx's, which begin anew each time
        yield from iter(stream)
    elif type(stream).__name__ == "MultipartWriter":  # aiohttp's
        for payload, *_ in stream:
            value = getattr(payload, "_value", b"")
            lines = "".join(f"{name}: {text}\r\n" for name, text in payload.headers.items())
            yield f"--\r\n{lines}\r\n".encode()
            yield (
                value
                if isinstance(value, bytes)
                else str(value).encode()
                if isinstance(value, str)
                else b""
            )
            yield b"\r\n"


_MOST_REDIRECTS: Final = 20


async def followed(client: Any, entered: Any, response: Any) -> tuple[Any, Any]:
    """Follow the redirects of a response, for a client set not to follow them.

    Return the context manager that closes the last response, and that response. Each request
    passes `check_hop`; when that raises, the response before it is closed.
    """
    for _ in range(_MOST_REDIRECTS):
        request = getattr(response, "next_request", None)
        if request is None:
            break
        mark_redirect(response.request)
        request.extensions[_HOP] = response.request.extensions[_HOP]
        await entered.__aexit__(None, None, None)
        check_hop(request)
        # Without the client's `auth`, as in the clients' own redirects: the request already has the
        # credentials that are allowed.
        response = await client.send(request, stream=True, auth=None, follow_redirects=False)
        entered = aclosing(response)
    return entered, response


def is_at_home(request: Any) -> bool:
    """Return whether no redirect has led a request to another origin."""
    here = _origin(request.url)
    return all(_is_same(hop.origin, here) for hop in request.extensions.get(_HOP, ()))


def note_domains(lines: Iterable[str], domains: OrderedDict[str, str]) -> None:
    """Add the cookies that Set-Cookie lines set for a whole domain to `domains`, by name."""
    for line in lines:
        found = _DOMAIN.search(line)
        name = line.partition("=")[0].strip()
        if found is not None:
            domains[name] = found[1].lower()
            if len(domains) > _MOST_DOMAINS:
                domains.popitem(last=False)


_DOMAIN: Final = re.compile(r";\s{0,9}domain\s{0,9}=\s{0,9}\.?([\w.-]{1,255})", re.IGNORECASE)
_MOST_DOMAINS: Final = 512


def _pairs(cookies: str) -> list[str]:
    return [pair for part in cookies.split(";") if (pair := part.strip())]


def _allowed_cookies(
    cookies: str, hops: tuple[_Hop, ...], here: _Origin, domains: Mapping[str, str]
) -> str:
    own = frozenset[str]().union(*(hop.cookies for hop in hops if _is_same(hop.origin, here)))
    elsewhere = frozenset[str]().union(*(hop.cookies for hop in hops))

    def is_allowed(pair: str) -> bool:
        domain = domains.get(pair.partition("=")[0])
        return (
            pair not in elsewhere
            or pair in own
            or (domain is not None and f".{here[1]}".endswith(f".{domain}"))
        )

    return "; ".join(filter(is_allowed, _pairs(cookies)))


def check_plaintext(request: Any, *, has_token: bool = False) -> None:
    """Refuse credentials over http:// to another machine (threat 42), also those of a query.

    `has_token`: it will get a token.
    """
    if _is_loopback(request.url.host):
        return
    query: bytes = request.url.query
    if (
        has_token
        or _has_credentials(request)
        or (query and sends_secret(query.decode("ascii", "replace")))
    ):
        raise plaintext_refused("https", origin_of(request.url), "HTTPTransport")


def _has_credentials(request: Any, beside: str = "") -> bool:
    return any(_is_credential(name) and name != beside for name in request.headers)


# On every request, for the same few names and hosts.
_is_credential = lru_cache(maxsize=1_024)(is_sensitive)
_is_loopback = lru_cache(maxsize=1_024)(is_loopback)


# ---- timeouts, transports and counts -----------------------------------------------------------------------------


@contextmanager
def bound_to(request: Any, remaining: float) -> Generator[None, None, None]:
    """Limit the timeout of each phase of a request to `remaining` seconds.

    A thread cannot be interrupted, but its socket can time out. Afterwards the request has its own
    timeouts again, for a repeat or a redirect.
    """
    extensions = request.extensions
    timeouts: dict[str, float | None] | None = extensions.get("timeout")
    remaining, own = max(remaining, _SHORTEST), timeouts or {}
    phases = {name: own.get(name) for name in ("connect", "read", "write", "pool")}
    extensions["timeout"] = {
        name: remaining if seconds is None else min(seconds, remaining)
        for name, seconds in phases.items()
    }
    try:
        yield
    finally:
        if timeouts is None:
            del extensions["timeout"]
        else:
            extensions["timeout"] = timeouts


def check_policy(policy: Policy, path: str) -> None:
    """Raise ConfigError for a Share: a response is read by one caller, and cannot be copied."""
    for layer in policy.layers:
        if isinstance(layer, Share):
            raise config_error(
                path,
                "no Share: a response is read once; put it around your function",
                layer,
                write="@rb.Policy(rb.calls.Share(key=str), rb.Retry())(idempotent=True)",
            )


def check_transport(inner: Any, policy: Policy, owner: str) -> None:
    """Raise ConfigError for no transport, or a policy that cannot stand at this one."""
    check_policy(policy, f"{owner}.policy")
    if inner is None or hasattr(inner, "handle_async_request"):
        return
    if not hasattr(inner, "handle_request"):
        raise config_error(f"{owner}.inner", "a transport of httpx or httpx2, or None", inner)
    check_sync(policy, f"{owner}.policy")


def check_inner(inner: Any, *, is_async: bool) -> None:
    """Raise ConfigError for a sync transport in an AsyncClient, or an async one in a Client."""
    wanted = "handle_async_request" if is_async else "handle_request"
    if inner is None or hasattr(inner, wanted):
        return
    client, transport = ("an AsyncClient", "async") if is_async else ("a Client", "sync")
    message = f"{transport} transport for {client}, such as {'AsyncHTTPTransport' if is_async else 'HTTPTransport'}()"
    raise config_error("HTTPTransport.inner", f"{'an' if is_async else 'a'} {message}", inner)


def note_sent(request: Any) -> None:
    """Count a request in its attempts, unless the SDK client has counted it (see `sdks`)."""
    if request.extensions.pop(COUNTED, None) != id(request):
        request_sent()


def disprove_hop(error: Exception, request: Any) -> None:
    """Record Executed.MAYBE on the error of a redirected request: an earlier one was answered."""
    if _HOP in request.extensions:
        attach(error, (record_of(error) or Record())._replace(executed=Executed.MAYBE))
