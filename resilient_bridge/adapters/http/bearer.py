"""A token on each request of an HTTP client, read when the request is sent, and again after a 401.

Rule: a 401 did not execute, so the request is sent once more if the token has changed, within the
same attempt. If it has not changed, the 401 is the answer. A request with an Authorization header
of its own keeps it, and no token follows a redirect to another origin.
"""

from __future__ import annotations

import inspect
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

from ...client.secrets import Secrets
from ...failure import BridgeError, Failure, config_error, error_for
from ...transports.references import as_source
from .request_checks import is_at_home


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    Token: TypeAlias = str | Callable[[], str] | Callable[[], Awaitable[str]]
    """A token, or a function, sync or async, that is asked for it at each attempt."""


_NUMBERS: Final = count(1)
_HEADER: Final = "authorization"
_SENT: Final = (
    "resilient_bridge.token"  # the header's value that we have set, which redirects inherit
)


class Bearer:
    """The token of one transport: a text, `env:NAME`, `file:PATH`, or a callable that returns it.

    `secrets` has each value that was sent.
    """

    def __init__(self, token: Token, owner: str) -> None:
        """Check the token; ConfigError names `owner`, and shows no value."""
        self._path = f"{owner}.token"
        self._source: Any = as_source(token)
        self.secrets = Secrets()
        # in the place of the credential, whose value may change: that of its source does not
        self.name = f"token {next(_NUMBERS)}"
        if not callable(self._source):
            self._checked(self._source)

    def over(self, inner: Any) -> Any:
        """Return the transport `inner` with this token on its requests."""
        return _Bearing(self, inner)

    async def ask_async(self) -> str:
        """Return the value of the header as it is now."""
        token: Any = self._called()
        if inspect.isawaitable(token):
            try:
                token = await token
            except Exception as error:
                raise _failed(error) from error
        return self._checked(token)

    def ask(self) -> str:
        """Return the value of the header as it is now; ConfigError for an async callable."""
        token: Any = self._called()
        if inspect.isawaitable(token):
            if inspect.iscoroutine(token):
                token.close()
            raise config_error(self._path, "a sync callable, as the client is sync", "an async one")
        return self._checked(token)

    def _called(self) -> Any:
        if not callable(self._source):
            return self._source
        try:
            return cast("Any", self._source)()
        except Exception as error:
            raise _failed(error) from error

    def _checked(self, token: object) -> str:
        if not isinstance(token, str):
            hint = ": write .decode()" if isinstance(token, bytes) else ""
            raise config_error(self._path, f"a text{hint}", type(token).__name__)
        if not (token and token.isascii() and token.isprintable()):
            wanted = "a text of printable ASCII characters, as it goes into a header"
            raise config_error(self._path, wanted, f"one of {len(token)} characters that is not")
        self.secrets.learn(token)
        return f"Bearer {token}"


def _failed(error: Exception) -> BridgeError:
    if isinstance(error, BridgeError):
        return error
    text = f"asking for the token raised {type(error).__name__}"
    return error_for(Failure.of("AUTH_REFRESH_FAILED", text, cause=error))


class _Shown:
    """A header's value in a request's extensions, which may be printed."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value


class _Bearing:
    """A transport whose requests carry the token; each call here is one attempt."""

    def __init__(self, bearer: Bearer, inner: Any) -> None:
        self._bearer, self._inner = bearer, inner

    async def handle_async_request(self, request: Any) -> Any:
        if not _is_ours(request):
            return await self._inner.handle_async_request(request)
        sent = _put(request, await self._bearer.ask_async())
        response = await self._inner.handle_async_request(request)
        if not _may_be_sent_again(request, response):
            return response
        try:
            changed = await self._bearer.ask_async()
        except BaseException:
            await _closed(response)
            raise
        if changed == sent:
            return response
        await _closed(response)
        _put(request, changed)
        return await self._inner.handle_async_request(request)

    def handle_request(self, request: Any) -> Any:
        if not _is_ours(request):
            return self._inner.handle_request(request)
        sent = _put(request, self._bearer.ask())
        response = self._inner.handle_request(request)
        if not _may_be_sent_again(request, response):
            return response
        try:
            changed = self._bearer.ask()
        except BaseException:
            response.close()
            raise
        if changed == sent:
            return response
        response.close()
        _put(request, changed)
        return self._inner.handle_request(request)


async def _closed(response: Any) -> None:
    close = getattr(response, "aclose", None)
    if close is None:
        response.close()  # aiohttp's
    else:
        await close()


def _is_ours(request: Any) -> bool:
    """Return whether the token goes with a request; one of ours that must not is taken off."""
    own = request.headers.get(_HEADER)
    sent = request.extensions.get(_SENT)
    is_own = own is not None and not (isinstance(sent, _Shown) and sent.value == own)
    if is_own or is_at_home(request):
        return not is_own
    if own is not None:
        del request.headers[_HEADER]
    return False


def _put(request: Any, value: str) -> str:
    request.headers[_HEADER] = value
    request.extensions[_SENT] = _Shown(value)
    return value


def _may_be_sent_again(request: Any, response: Any) -> bool:
    return response.status_code == 401 and not getattr(request.stream, "is_started", False)
