"""A policy under an `aiohttp.ClientSession`: a client middleware that works as HTTPTransport.

Rule: one call here is one request; redirects arrive as separate requests. aiohttp's own repeat of a
lost connection is off.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from contextlib import suppress
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

from ...calls import Retry
from ...calls.ports import Hedge
from ...failure import BridgeError, config_error, stays_here
from ...failure.extras import needed
from ...failure.record import allow_proof
from ...failure.teaching import taught
from ..sdk_errors import add_base
from .bodies import MOST_DECODED
from .request_checks import IDEMPOTENT_METHODS, OWN_KEY, SAFE_METHODS
from .views import Core, RequestView, URLView, says_more


if TYPE_CHECKING:
    import aiohttp
    from aiohttp import ClientHandlerType

    from ...calls import Policy
    from ...presets.bridge_policy import BridgePolicy
    from .bearer import Token


_KEY_HEADER: Final = "resilient_bridge.idempotency_header"
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_NEXT_HOP: ContextVar[tuple[str, dict[str, Any]] | None] = ContextVar("_NEXT_HOP", default=None)
"""The target of the last redirect in this context, and the extensions of its request.

aiohttp does not pass them to the next request.
"""


class HTTPMiddleware:
    """A client middleware that applies `policy` to every request of an `aiohttp.ClientSession`.

        import aiohttp

        async with aiohttp.ClientSession(middlewares=[rb.HTTPMiddleware()]) as session:
            ...

    Needs aiohttp 3.12 or later. It promises what HTTPTransport does, which says which requests are
    repeated, what is returned, to whom state belongs and where credentials do not go; `policy`,
    `token`, `idempotency_header` and `allow_plaintext_credentials` are those of HTTPTransport. Our
    errors are both a BridgeError and an `aiohttp.ClientError`.

    It may serve several sessions of one event loop. The session's total timeout holds for all
    attempts together; use `Timeout` in the policy for one attempt. Put it first: later middlewares
    run again with each repeat.
    """

    @taught
    def __init__(
        self,
        policy: Policy | BridgePolicy | None = None,
        *,
        token: Token | None = None,
        idempotency_header: str | None = "Idempotency-Key",
        allow_plaintext_credentials: bool = False,
    ) -> None:
        """Create a middleware. ConfigError names a bad argument."""
        self._core = Core(
            "HTTPMiddleware",
            policy,
            _SessionBelow(),
            _look,
            _add_library_base,
            token=token,
            idempotency_header=idempotency_header,
            allow_plaintext_credentials=allow_plaintext_credentials,
        )
        if any(isinstance(layer, Hedge) for layer in self._core.policy.layers):
            raise config_error(
                "HTTPMiddleware.policy",
                "no Hedge: aiohttp cannot send one request twice at once; put it around your function",
                policy,
                write="@rb.Policy(rb.calls.Hedge(after=2))(idempotent=True)",
            )
        self._key_header = idempotency_header
        self._repeats = any(isinstance(layer, Retry) for layer in self._core.policy.layers)
        self._abandoned: WeakKeyDictionary[asyncio.Task[Any], Exception] = WeakKeyDictionary()

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request, repeated as the policy allows, and return the last response."""
        task = asyncio.current_task()
        if task is not None and (error := self._abandoned.pop(task, None)) is not None:
            raise error  # aiohttp repeats a request after the policy gave it up
        comes_back = self._repeats and _switch_off(request)
        carried = _carried(request)
        url = request.url
        view = RequestView(
            request,
            URLView(url.scheme, url.raw_host or "", url.port, url.raw_query_string, url.raw_path),
            carried,
            stream=_SentBody(request),
            options={"handler": handler},
        )
        try:
            answer = await self._core.handle_async_request(view)
        except Exception as error:
            if (
                comes_back
                and task
                and not view.stream.is_started
                and _is_repeated_by_aiohttp(error)
            ):
                self._abandoned[task] = error
            raise
        carried[_KEY_HEADER] = self._key_header
        _NEXT_HOP.set((target, carried) if (target := _target(answer)) else None)
        return answer.native  # type: ignore[no-any-return]

    __reduce__ = stays_here

    def __repr__(self) -> str:
        """Return the policy."""
        return f"HTTPMiddleware({self._core!r})"


class _SessionBelow:
    """aiohttp's handler as the inner transport of the core: each call sends one request."""

    async def handle_async_request(self, view: RequestView) -> AnswerView:
        try:
            return AnswerView(await view.options["handler"](view.native))
        except Exception as error:
            allow_proof(error)
            raise


class AnswerView:
    """A response of aiohttp, which calls the status code `status`, with all its attributes.

    `body` is the part that was inspected, None if none was. `failure` knows the class by its name.
    """

    def __init__(self, native: Any) -> None:
        self.native = native
        self.status_code: int = native.status
        self.headers = native.headers
        self.body: bytes | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.native, name)

    def json(self) -> Any:
        """Return the inspected body of an error, decoded from JSON; None if none was inspected."""
        return json.loads(self.body or b"null")


def _add_library_base(error: BridgeError, _: object) -> None:
    add_base(error, needed("aiohttp", "aiohttp_middleware").ClientError)


class _SentBody:
    """The body of a request: `is_started` says whether aiohttp reports it as consumed."""

    def __init__(self, request: Any) -> None:
        self._request = request

    @property
    def is_started(self) -> bool:
        return bool(getattr(self._request.body, "consumed", False))


def _carried(request: Any) -> dict[str, Any]:
    """Return the extensions of the request whose redirect this one follows, else an empty dict.

    Its generated idempotency key is set again where the redirect has lost it.
    """
    before = _NEXT_HOP.get()
    _NEXT_HOP.set(None)
    if before is None or before[0] != str(request.url):
        return {}
    carried = before[1]
    name, key = carried.get(_KEY_HEADER), carried.get(OWN_KEY)
    if key and name not in request.headers and request.method not in SAFE_METHODS:
        request.headers[name] = key
    return carried


def _target(answer: AnswerView) -> str:
    """Return the URL that a redirect leads to, empty for any other response."""
    native = answer.native
    location = native.headers.get("Location") or native.headers.get("URI")
    if native.status not in _REDIRECTS or not location:
        return ""
    try:
        return str(native.url.join(type(native.url)(location)).with_fragment(None))
    except ValueError:  # aiohttp refuses it as well
        return ""


def _switch_off(request: Any) -> bool:
    """Switch off aiohttp's own repeat after a lost connection, for later requests of the session.

    Return whether aiohttp may still repeat this request.
    """
    session = getattr(request, "session", None)
    was_on = bool(getattr(session, "_retry_connection", False))
    if was_on:
        cast("Any", session)._retry_connection = False  # noqa: SLF001 -- it has no public switch
    return was_on and request.method in IDEMPOTENT_METHODS


def _is_repeated_by_aiohttp(error: Exception) -> bool:
    library = import_module("aiohttp")
    never = (library.ConnectionTimeoutError, library.ClientConnectorError)
    return isinstance(
        error, library.ClientOSError | library.ServerDisconnectedError
    ) and not isinstance(error, never)


async def _look(answer: AnswerView) -> None:
    """Read the body of an error that says more than its status, if it is known to be short.

    Then put it back for the reader.
    """
    native = answer.native
    if not says_more(answer):
        return
    body, is_whole = b"", False
    # not `native.read()`: what aiohttp decodes of these few bytes may be large
    with suppress(Exception):  # the status is valid; the body's reader gets the error
        while len(body) <= MOST_DECODED and not is_whole:
            part = await native.content.readany()
            body, is_whole = body + part, not part
    if is_whole:
        answer.body = body
    with warnings.catch_warnings():  # no await inside, so no other task runs meanwhile
        warnings.simplefilter("ignore", DeprecationWarning)
        native.content.unread_data(body)
