"""The HTTP client of one connection to an MCP server: where requests go, what is seen of them, and how answers are read.

Rule: nothing is sent to another origin than that of the URL, and nothing is kept that has no bound.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ...errors import BridgeError, Executed, is_sensitive
from ...transports.loopback import is_loopback
from ...transports.origin import checked_headers
from ..arguments import plaintext_refused
from ..http.requests import origin_of
from ..sse.event_source_arguments import secrets_in
from .upstream import Loss, LostError
from .upstream_http_headers import EVENTS, SESSION, VERSION


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import httpx

    from ...protocol.server_sent import EventStreamParser, ServerSentEvent


_MOST_HOPS: Final = 5
_REFUSAL_BYTES: Final = 2**20
_REFUSAL_SECONDS: Final = 5.0
_IDLE_SECONDS: Final = (
    3.0  # an unused connection: below the 5 s after which Node and uvicorn close theirs, under a request
)
_GOODBYE: Final = 1.0
_FOLLOWED: Final = frozenset({307, 308})


class TooLongError(Exception):
    """A body has more bytes than are taken."""


class Sent:
    """What was seen of one request: `is_started` once its first byte may be on the wire, `is_whole` is set after its last."""

    def __init__(self) -> None:
        """Nothing was sent yet."""
        self.is_started = False
        self.hops = 0
        self.is_whole = asyncio.Event()

    async def trace(self, name: str, _: object) -> None:
        """Listen to the HTTP client, which names each step."""
        if "send_request_headers" in name:
            self.is_started = True
        elif "receive_response_headers" in name:
            self.is_whole.set()


class Wire:
    """One HTTP client for one URL, with the headers of its user and those of its session.

    `session` and `version` are those of the initialize answer, `is_known` says whether the URL has accepted a message.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        connect_timeout: float,
        allow_plaintext_credentials: bool,
    ) -> None:
        """Prepare the client. Raises LostError for a URL or headers that cannot work; the loss is final."""
        import httpx

        self.session = self.version = ""
        self.is_known = False
        try:
            target = httpx.URL(url)
            own = dict(checked_headers(headers))
        except httpx.InvalidURL:
            raise _refused(
                "url: wanted one that begins with http:// or https://, got an unreadable one"
            ) from None
        except ValueError as error:
            raise _refused(str(error)) from None
        if target.scheme not in {"http", "https"} or not target.host:
            raise _refused(
                f"url: wanted http:// or https:// and a host, got {target.scheme[:20] or 'no scheme'}"
            )
        has_credentials = bool(target.userinfo) or any(is_sensitive(name) for name in own)
        is_plain, is_here = target.scheme == "http", is_loopback(target.host)
        is_plain_here = is_plain and is_here
        if is_plain and has_credentials and not is_here and not allow_plaintext_credentials:
            raise _refused(plaintext_refused("https", origin_of(target), "HTTPUpstream").failure.message)
        login = httpx.BasicAuth(target.username, target.password) if target.userinfo else None
        self.url = target.copy_with(username=None, password=None)
        self.client = httpx.AsyncClient(
            headers=own,
            auth=login,
            timeout=httpx.Timeout(None, connect=connect_timeout),
            # HTTP/1.1 alone: httpx never resets a stream of HTTP/2, so a cancellation would not arrive, and one failure would be everybody's.
            http2=False,
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=20, keepalive_expiry=_IDLE_SECONDS
            ),
            verify=_empty_context() if is_plain_here else True,
            trust_env=not is_plain_here,  # no proxy reaches this machine's own loopback
        )
        self.secrets = secrets_in(self.client, url, own)

    def session_headers(self) -> dict[str, str]:
        """The headers of every message of a session but the first."""
        pairs = ((SESSION, self.session), (VERSION, self.version))
        return {name: value for name, value in pairs if value}

    async def send(
        self, method: str, headers: Mapping[str, str], sent: Sent, content: bytes | None = None
    ) -> httpx.Response:
        """Send a request, follow it inside the origin, and return its answer with the body unread. Raises what httpx raises."""
        while True:
            request = self.client.build_request(
                method, self.url, headers=headers, content=content, extensions={"trace": sent.trace}
            )
            response = await self.client.send(request, stream=True, follow_redirects=False)
            target = self._redirect(response, method)
            if target is None or sent.hops >= _MOST_HOPS:
                return response
            await response.aclose()
            sent.hops += 1
            self.url = target

    def _redirect(self, response: httpx.Response, method: str) -> httpx.URL | None:
        """Return where a redirect leads to that may be followed: inside the origin, with the method that it had."""
        location = response.headers.get("location", "")
        is_followed = response.status_code in _FOLLOWED or (
            method == "GET" and response.status_code in {301, 302, 303}
        )
        if not is_followed or not location:
            return None
        try:
            target = response.url.join(location).copy_with(username=None, password=None, fragment=None)
        except Exception:  # noqa: BLE001 -- whatever makes a location unreadable
            return None
        return target if origin_of(target) == origin_of(self.url) else None

    async def close(self) -> None:
        """Close every connection, within about a second."""
        with suppress(Exception):
            async with asyncio.timeout(_GOODBYE):
                await self.client.aclose()


def _refused(reason: str) -> LostError:
    return LostError(Loss(reason=reason, executed=Executed.NO, is_final=True))


def _empty_context() -> Any:
    """A TLS context for a client that needs none: loading the authorities would cost more than everything else at the start."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def is_event_stream(response: httpx.Response) -> bool:
    """Return whether an answer is a stream of events."""
    kind: str = response.headers.get("content-type", "")
    return response.status_code == 200 and kind.partition(";")[0].strip().lower() == EVENTS


async def refusal_of(response: httpx.Response) -> bytes:
    """Return the first of a body that is not awaited for its own sake; less if it does not come in time."""
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
    """Yield the events of a stream, and None after each piece of it. Raises TooLongError beyond the parser's limit."""
    async for piece in pieces:
        parser.receive(piece)
        try:
            while (event := parser.next_event()) is not None:
                yield event
        except BridgeError:
            raise TooLongError from None
        yield None
