"""The HTTP client of one connection to an MCP server: URL, requests, and bodies of responses.

Rule: nothing is sent to another origin than that of the URL, and every body has a bound.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.request import getproxies, proxy_bypass

from ...failure import BridgeError, Executed, is_sensitive, redact, sends_secret
from ...transports.loopback import is_loopback
from ...transports.origin import checked_headers
from ...transports.references import UnreadableError, in_words
from ..arguments import learn_headers, plaintext_refused, secrets_in
from ..http.request_checks import origin_of
from .upstream import Loss, LostError
from .upstream_http_headers import EVENTS, SESSION, VERSION


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import httpx

    from ...protocol.server_sent import EventStreamParser, ServerSentEvent


_MOST_HOPS: Final = 5
_REFUSAL_BYTES: Final = 2**20
_REFUSAL_SECONDS: Final = 5.0
_NAME: Final = "resilient_bridge"
_FOLLOWED: Final = frozenset({307, 308})


class TooLongError(Exception):
    """A body with more bytes than allowed."""


class Sent:
    """How much of one request was sent.

    `is_started` is True once its first byte may have been sent; `is_whole` is set after its last.
    """

    def __init__(self) -> None:
        self.is_started = False
        self.hops = 0
        self.is_whole = asyncio.Event()

    async def trace(self, name: str, _: object) -> None:
        if "send_request_headers" in name:
            self.is_started = True
        elif "receive_response_headers" in name:
            self.is_whole.set()


class Wire:
    """One HTTP client for one URL, with the headers of its user and those of its session.

    `session` and `version` are those of the answer to `initialize`. `is_known`: whether the URL has
    accepted a message. A word `env:NAME` or `file:PATH` in a header is replaced by the secret.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        connect_timeout: float,
        allow_plaintext_credentials: bool,
    ) -> None:
        """Prepare the client.

        Raises a final LostError for a URL, headers, secrets or a proxy that cannot be used.
        """
        import ssl

        import httpx

        from .upstream_http_lanes import Lanes

        self.session = self.version = ""
        self.unreadable = ""  # why the secrets could not be read again after a 401
        self.is_known = False
        self._read = partial(
            _usable, url, headers, may_show_credentials=allow_plaintext_credentials
        )
        target, own = self._read()
        self.secrets = secrets_in(None, url, own)
        self.url = target.copy_with(username=None, password=None)
        proxy = proxy_to(target)
        is_plain = target.scheme == "http" and proxy is None
        # without certificates: to load them would take longer than the rest of the start
        verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else httpx.create_ssl_context()
        try:
            self._lanes = Lanes(verify, proxy)
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            raise LostError.final(
                f"the proxy of the environment cannot be used: {redact(str(error))}"
            ) from None
        self._headers = _headers(own)
        self._cookies = httpx.Cookies()
        self._timeout = {"connect": connect_timeout, "read": None, "write": None, "pool": None}

    def session_headers(self) -> dict[str, str]:
        pairs = ((SESSION, self.session), (VERSION, self.version))
        return {name: value for name, value in pairs if value}

    async def send(
        self, method: str, headers: Mapping[str, str], sent: Sent, content: bytes | None = None
    ) -> httpx.Response:
        """Send a request, follow redirects in the origin; return the response with its body unread.

        After a 401, which did not execute, it is sent once more if a secret has changed. Raises
        what httpx raises.
        """
        import httpx

        is_again = False
        while True:
            own = self._headers
            both = own.copy()
            both.update(headers)
            request = httpx.Request(
                method,
                self.url,
                headers=both,
                content=content,
                extensions={"trace": sent.trace, "timeout": self._timeout},
            )
            if self._cookies:
                self._cookies.set_cookie_header(request)
            response = await self._lanes.send(request)
            # a cookie may route later requests to the machine that has the session
            if "set-cookie" in response.headers:
                self._cookies.extract_cookies(response)
            if response.status_code == 401 and not is_again and self._has_newer_than(own):
                is_again = True
                await response.aclose()
                continue
            target = self._redirect(response, method)
            if target is None or sent.hops >= _MOST_HOPS:
                return response
            await response.aclose()
            sent.hops += 1
            self.url = target

    def _has_newer_than(self, sent: httpx.Headers) -> bool:
        """Return whether the headers are others than those that a request was sent with.

        Their secrets are read again, unless another request has done that meanwhile.
        """
        if self._headers is sent:
            self.unreadable = ""
            try:
                _, own = self._read()
            except LostError as error:  # the answer stays the refusal
                self.unreadable = error.loss.reason
                return False
            if (found := _headers(own)) != sent:
                self._headers = found
                learn_headers(self.secrets, own)
        return self._headers is not sent

    def _redirect(self, response: httpx.Response, method: str) -> httpx.URL | None:
        """Return the target of a redirect in the origin that keeps the method, else None."""
        location = response.headers.get("location", "")
        is_followed = response.status_code in _FOLLOWED or (
            method == "GET" and response.status_code in {301, 302, 303}
        )
        if not is_followed or not location:
            return None
        try:
            target = response.url.join(location).copy_with(
                username=None, password=None, fragment=None
            )
        except Exception:  # noqa: BLE001 -- whatever makes a location unreadable
            return None
        return target if origin_of(target) == origin_of(self.url) else None

    async def close(self) -> None:
        await self._lanes.close()


def _usable(
    url: str, headers: Mapping[str, str], *, may_show_credentials: bool
) -> tuple[httpx.URL, dict[str, str]]:
    """Return the URL, and the headers of every request.

    Raises LostError if they cannot be used, or if credentials would be sent unencrypted.
    """
    import httpx

    try:
        target = httpx.URL(url)
        own = dict(
            checked_headers({name: _with_secrets(name, text) for name, text in headers.items()})
        )
    except httpx.InvalidURL:
        raise LostError.final(
            "url: wanted one that begins with http:// or https://, got an unreadable one"
        ) from None
    except ValueError as error:
        raise LostError.final(str(error)) from None
    if target.scheme not in {"http", "https"} or not target.host:
        raise LostError.final(
            f"url: wanted http:// or https:// and a host, got {target.scheme[:20] or 'no scheme'}"
        )
    in_url = bool(target.userinfo) or sends_secret(target.query.decode("ascii", "replace"))
    has_credentials = in_url or any(is_sensitive(name) for name in own)
    is_seen = target.scheme == "http" and not is_loopback(target.host)
    if is_seen and has_credentials and not may_show_credentials:
        raise LostError.final(
            plaintext_refused("https", origin_of(target), "HTTPUpstream").failure.message
        )
    if target.userinfo:
        login = f"{target.username}:{target.password}".encode()
        own = {name: value for name, value in own.items() if name.lower() != "authorization"}
        own["authorization"] = f"Basic {base64.b64encode(login).decode()}"
    return target, own


def _headers(own: Mapping[str, str]) -> httpx.Headers:
    import httpx

    headers = httpx.Headers({"accept-encoding": "gzip, deflate", "user-agent": _NAME})
    headers.update(own)
    return headers


def _with_secrets(name: str, text: str) -> str:
    try:
        return in_words(text)
    except UnreadableError as error:
        # final for a server that was never there; later it is being rotated, and calls wait for it
        loss = Loss(
            reason=f"header {name}: {error}",
            executed=Executed.NO,
            is_away=not error.is_lasting,
            is_final=True,
        )
        raise LostError(loss) from None


def proxy_to(target: httpx.URL) -> str | None:
    """Return the proxy that the environment or the system names for a URL.

    None for loopback over http://.
    """
    if target.scheme == "http" and is_loopback(target.host):
        return None
    proxies = getproxies()
    named = proxies.get(target.scheme) or proxies.get("all")
    if named is None or proxy_bypass(target.netloc.decode("ascii")) or proxy_bypass(target.host):
        return None
    return named if "://" in named else f"http://{named}"


def is_event_stream(response: httpx.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return response.status_code == 200 and kind.partition(";")[0].strip().lower() == EVENTS


async def refusal_of(response: httpx.Response) -> bytes:
    """Return the body of a refusal, cut off after 1 MiB or 5 s."""
    body = bytearray()
    with suppress(Exception):
        async with asyncio.timeout(_REFUSAL_SECONDS):
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > _REFUSAL_BYTES:
                    break
    return bytes(body[:_REFUSAL_BYTES])


async def body_of(response: httpx.Response, limit: int) -> bytes:
    """Return a whole body. Raises TooLongError beyond the limit, and what httpx raises."""
    length = response.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise TooLongError
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > limit:
            raise TooLongError
    return bytes(body)


async def events_of(
    pieces: AsyncIterator[bytes], parser: EventStreamParser
) -> AsyncIterator[ServerSentEvent | None]:
    """Yield the events of a stream, and None after each received piece.

    Raises TooLongError beyond the parser's limit.
    """
    async for piece in pieces:
        parser.receive(piece)
        try:
            while (event := parser.next_event()) is not None:
                yield event
        except BridgeError:
            raise TooLongError from None
        yield None
