"""How a client reaches its bridge: its own WebSocket per attempt, or one that the user opens."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ..failure import BridgeError, Failure, config_error, is_sensitive
from ..transports.following import may_follow
from .arguments import check_bearer, check_headers, check_token, check_url_text, secrets_of
from .cancelled import is_ours
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
    from .signature import CertificatePin

    Address: TypeAlias = tuple[str, int]
    Resolved: TypeAlias = Callable[[Address], None]
    Dialed: TypeAlias = tuple[Transport, str | None]


class Dialer(Protocol):
    """Makes one transport, and the token to authenticate with. `secrets` records what was sent."""

    secrets: Secrets

    @property
    def target(self) -> str:
        """The URL of the last attempt, without user and query; "" if it is not known."""
        ...

    async def __call__(
        self,
        address: Address | None,
        resolved: Resolved,
        resume: Resume | None,
        *,
        is_doubtful: bool,
    ) -> Dialed:
        """Connect, to `address` if it is given, without DNS.

        Otherwise call `resolved` with the answer of DNS.

        Add `resume`'s fields. `is_doubtful`: something else than the server may have answered the
        last attempts, so no upgrade may show it a credential in clear text.
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
        pin: CertificatePin | None,
        ssl: SSLContext | None,
        reconnect: Reconnect,
        dialect: Dialect,
    ) -> None:
        self.secrets = Secrets()
        self.target = ""
        self._url, self._token, self._headers = url, token, headers
        self._pin, self._ssl = pin, ssl
        self._allows_plaintext = reconnect.allow_plaintext_credentials
        self._dialect = dialect

    async def __call__(
        self,
        address: Address | None,
        resolved: Resolved,
        resume: Resume | None,
        *,
        is_doubtful: bool,
    ) -> Dialed:
        """Make one attempt; everything is evaluated again."""
        from ..transports.websocket import open_websocket

        if resume is None or resume.url is None:
            url: str = await _ask("url", self._url, check_url_text)
            self.target = _without(url, query=lambda _: True)
        else:
            url = resume.url  # named by the server at `target`, which it has proved
        check = check_bearer if self._dialect.sends_bearer else check_token
        token: str | None = await _ask("token", self._token, check)
        headers: dict[str, str] = {
            **(await _ask("headers", self._headers, check_headers) or {}),
            **({} if resume is None else resume.headers),
        }
        # Of "Bearer X" only the X is the secret; a header that may go anywhere is none.
        own = [value for name, value in headers.items() if not may_follow(name)]
        bare = [value.rpartition(" ")[2] for value in own]
        self.secrets.learn(token, *own, *bare, *secrets_of(url))
        if resume is not None and resume.query:
            url = _with_query(url, resume.query)
        if self._dialect.sends_bearer and token is not None:
            headers["Authorization"] = f"Bearer {token}"
        dial = partial(
            open_websocket,
            ssl=self._ssl,
            pin=self._pin,
            address=address,
            max_frame_bytes=self._dialect.max_frame_bytes,
            subprotocols=self._dialect.subprotocols,
            allow_plaintext_credentials=self._allows_plaintext,
            resolved=resolved,
        )
        if is_doubtful:
            await _ask_in_clear(dial, url, headers)
        transport = await dial(url, headers=headers, has_credentials=token is not None)
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
        self.target = ""
        self._keeps_bytes = keeps_bytes
        self._factory, self._token = factory, token

    async def __call__(
        self,
        address: Address | None,
        resolved: Resolved,
        resume: Resume | None,
        *,
        is_doubtful: bool,
    ) -> Dialed:
        """Make one attempt; the address and the upgrade are the user's.

        Raises ConfigError if the dialect resumes by URL or headers.
        """
        del address, resolved, is_doubtful
        if resume is not None and (resume.url or resume.query or resume.headers):
            wanted = "BridgeClient(url), as this dialect asks in the URL or in headers for what was missed"
            raise config_error("BridgeClient.over", wanted, "a websocket that was opened elsewhere")
        from ..transports.websocket import WebSocketTransport

        token = await _ask("token", self._token, check_token)
        self.secrets.learn(token)
        entered: Any = self._factory()
        if not (hasattr(entered, "__aenter__") and hasattr(entered, "__aexit__")):
            if inspect.iscoroutine(entered):
                entered.close()
            wanted = (
                "a factory that returns an async context manager, such as websockets' connect(url)"
            )
            raise config_error("BridgeClient.over", wanted, type(entered).__name__)
        websocket = await entered.__aenter__()
        missing = [
            name
            for name in ("send", "recv", "close")
            if not callable(getattr(websocket, name, None))
        ]
        if missing:
            await entered.__aexit__(None, None, None)
            wanted = "a factory whose context manager enters a websocket, with send, recv and close"
            got = f"a {type(websocket).__name__} without {', '.join(missing)}"
            raise config_error("BridgeClient.over", wanted, got)
        transport = WebSocketTransport(websocket)
        transport.keeps_bytes = self._keeps_bytes
        return _Entered(transport, entered), token


class _Entered:
    """A wrapped connection and its context manager, which is left when the connection closes."""

    address = None

    def __init__(
        self, transport: WebSocketTransport, entered: AbstractAsyncContextManager[Any]
    ) -> None:
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


async def _ask_in_clear(
    dial: Callable[..., Awaitable[Transport]], url: str, headers: dict[str, str]
) -> None:
    """Dial once without credentials, if the upgrade would show some in clear text.

    Returns if a WebSocket server accepts that, or answers that it wants credentials (401). Raises
    the error of every other answer: no credential is sent after it.
    """
    bare = _without(url, query=is_sensitive)
    harmless = {name: value for name, value in headers.items() if may_follow(name)}
    if urlsplit(url).scheme.lower() != "ws" or (bare == url and harmless == headers):
        return
    from websockets.exceptions import InvalidStatus

    try:
        transport = await dial(bare, headers=harmless)
    except InvalidStatus as refused:
        if refused.response.status_code != 401:
            raise
    else:
        await transport.close()


def _without(url: str, query: Callable[[str], bool]) -> str:
    """Return a URL without user and password, and without the fields of the query that `query` names."""
    try:
        parts = urlsplit(url)
        fields = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return ""  # it cannot be dialled either
    remaining = [(name, value) for name, value in fields if not query(name)]
    if len(remaining) == len(fields) and "@" not in parts.netloc:
        return url
    netloc = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=netloc, query=urlencode(remaining)))


def _with_query(url: str, fields: Mapping[str, str | int]) -> str:
    """Return `url` with these fields in its query, in place of those with the same names."""
    parts = urlsplit(url)
    others = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if name not in fields
    ]
    return urlunsplit(
        parts._replace(query=urlencode([*others, *((name, str(v)) for name, v in fields.items())]))
    )


async def _ask(argument: str, source: Any, check: Callable[[str, object], None]) -> Any:
    """Return a value, or what a callable (plain or async) returns now, checked.

    Failing credentials are AUTH_REFRESH_FAILED. Raises ConfigError for a value of another type.
    """
    value = source
    if callable(source):
        try:
            value = source()
            if inspect.isawaitable(value):
                value = await value
        except BridgeError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_ours():
                raise
            text = f"asking for credentials raised {type(error).__name__}"
            raise BridgeError(Failure.of("AUTH_REFRESH_FAILED", text, cause=error)) from error
        argument = f"{argument}()"
    check(f"BridgeClient.{argument}", value)
    return value
