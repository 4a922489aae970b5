"""How a client reaches its bridge: its own WebSocket per attempt, or one that the user opens."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ..errors import BridgeError, Failure, config_error
from ..transports.following import may_follow
from .arguments import secrets_of
from .secrets import Secrets


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from ssl import SSLContext

    from ..protocol.facts import Resume
    from ..protocol.policies.dialect import Dialect
    from ..protocol.policies.reconnect import Reconnect
    from ..transports.contract import Transport
    from ..transports.websocket import WebSocketTransport

    Address: TypeAlias = tuple[str, int]
    Resolved: TypeAlias = Callable[[Address], None]
    Dialed: TypeAlias = tuple[Transport, str | None]


class Dialer(Protocol):
    """Makes one transport, and the token to authenticate with. `secrets` records what was sent."""

    secrets: Secrets

    async def __call__(self, address: Address | None, resolved: Resolved, resume: Resume | None) -> Dialed:
        """Connect, to `address` if it is given, without DNS.

        Otherwise call `resolved` with the answer of DNS.

        Add `resume`'s fields.
        """
        ...


class URLDialer:
    """Dials a URL; URL, token and headers are evaluated on each attempt.

    Without an auth message the token is a header.
    """

    def __init__(
        self,
        url: Any,
        *,
        token: Any,
        headers: Any,
        pin: str | None,
        ssl: SSLContext | None,
        reconnect: Reconnect,
        dialect: Dialect,
    ) -> None:
        self.secrets = Secrets()
        self._url, self._token, self._headers = url, token, headers
        self._pin, self._ssl = pin, ssl
        self._allows_plaintext = reconnect.allow_plaintext_credentials
        self._dialect = dialect

    async def __call__(self, address: Address | None, resolved: Resolved, resume: Resume | None) -> Dialed:
        """Make one attempt; everything is evaluated again."""
        from ..transports.websocket import open_websocket

        url: str = await _ask(self._url) if resume is None or resume.url is None else resume.url
        token: str | None = await _ask(self._token)
        headers: dict[str, str] = {
            **(await _ask(self._headers) or {}),
            **({} if resume is None else resume.headers),
        }
        # Of "Bearer X" only the X is the secret; a header that may go anywhere is none.
        own = [value for name, value in headers.items() if not may_follow(name)]
        bare = [value.rpartition(" ")[2] for value in own]
        self.secrets.learn(token, *own, *bare, *secrets_of(url))
        if resume is not None and resume.query:
            url = _with_query(url, resume.query)
        if self._dialect.auth is None and self._dialect.login is None and token is not None:
            headers["Authorization"] = f"Bearer {token}"
        transport = await open_websocket(
            url,
            headers=headers,
            ssl=self._ssl,
            pin=self._pin,
            address=address,
            max_frame_bytes=self._dialect.max_frame_bytes,
            subprotocols=self._dialect.subprotocols,
            allow_plaintext_credentials=self._allows_plaintext,
            has_credentials=token is not None,
            resolved=resolved,
        )
        transport.keeps_bytes = self._dialect.decode is not None
        return transport, token


class FactoryDialer:
    """Enters the user's context manager on each attempt; it is left again when the connection ends."""

    def __init__(
        self,
        factory: Callable[[], AbstractAsyncContextManager[Any]],
        token: Any,
        *,
        keeps_bytes: bool = False,
    ) -> None:
        self.secrets = Secrets()
        self._keeps_bytes = keeps_bytes
        self._factory, self._token = factory, token

    async def __call__(self, address: Address | None, resolved: Resolved, resume: Resume | None) -> Dialed:
        """Make one attempt; the address is the user's.

        Raises ConfigError if the dialect resumes by URL or headers.
        """
        del address, resolved
        if resume is not None and (resume.url or resume.query or resume.headers):
            wanted = "BridgeClient(url), as this dialect asks in the URL or in headers for what was missed"
            raise config_error("BridgeClient.over", wanted, "a websocket that was opened elsewhere")
        from ..transports.websocket import WebSocketTransport

        token: str | None = await _ask(self._token)
        self.secrets.learn(token)
        entered = self._factory()
        websocket = await entered.__aenter__()
        transport = WebSocketTransport(websocket)
        transport.keeps_bytes = self._keeps_bytes
        return _Entered(transport, entered), token


class _Entered:
    """A wrapped connection and its context manager, which is left when the connection closes."""

    address = None

    def __init__(self, transport: WebSocketTransport, entered: AbstractAsyncContextManager[Any]) -> None:
        self._transport = transport
        self._entered: AbstractAsyncContextManager[Any] | None = entered
        self.send, self.send_now = transport.send, transport.send_now
        self.receive, self.receive_now = transport.receive, transport.receive_now
        self.abort = transport.abort

    @property
    def half_received(self) -> int | None:
        return self._transport.half_received

    async def ping(self) -> Awaitable[Any] | None:
        return await self._transport.ping()

    async def close(self, code: int = 1000) -> None:
        entered, self._entered = self._entered, None
        try:
            await self._transport.close(code)
        finally:
            if entered is not None:
                task = asyncio.ensure_future(entered.__aexit__(None, None, None))
                await asyncio.shield(task)


def _with_query(url: str, fields: Mapping[str, str | int]) -> str:
    """Return `url` with these fields in its query, in place of those with the same names."""
    parts = urlsplit(url)
    others = [
        (name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in fields
    ]
    return urlunsplit(
        parts._replace(query=urlencode([*others, *((name, str(v)) for name, v in fields.items())]))
    )


async def _ask(source: Any) -> Any:
    """Return a value, or what a callable (plain or async) returns now.

    Failing credentials are AUTH_REFRESH_FAILED.
    """
    if not callable(source):
        return source
    try:
        value = source()
        return await value if inspect.isawaitable(value) else value
    except BridgeError:
        raise
    except Exception as error:
        raise BridgeError(
            Failure.of(
                "AUTH_REFRESH_FAILED", f"asking for credentials raised {type(error).__name__}", cause=error
            )
        ) from error
