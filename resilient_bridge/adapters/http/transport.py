"""A policy under an HTTP client: one transport for httpx and httpx2, async and sync.

Rule: it adds only waits and repeats to its inner transport. The last response is returned
unchanged, no status is ever raised, and a body that can be read once is sent once.
"""

from __future__ import annotations

from collections import OrderedDict
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from ...calls import AdaptiveLimit, Retry
from ...calls.ports import (
    Hedge,
    States,
    bind,
    forbid_hedge,
    hear_quota,
    is_retried_around,
    keep_arguments,
    keep_permit,
    make_last,
    remaining,
    repeat_within,
    tell_cut,
)
from ...failure import (
    PLAIN,
    RESULTS,
    BridgeError,
    Reading,
    config_error,
    failure_of_result,
    stays_here,
)
from ...failure.teaching import taught
from ...locks import new_lock
from ...values.fields import check_flag, is_count
from ...world import current_world
from ..arguments import calls_of, check_http_options, check_sync, keyed
from ..limit_keys import key_of_request
from ..mcp_wire import CURRENT_WIRE, watch_answer, watch_request
from ..sdk_errors import add_base, package_of
from .bodies import READ_ONCE, bounded, hold_body, look_async, once, peek, peek_async, watch_body
from .own_transport import Options, own_transport
from .request_checks import (
    IDEMPOTENT_METHODS,
    OURS,
    OWN_KEY,
    SAFE_METHODS,
    USER_EXTENSIONS,
    bound_to,
    check_hop,
    check_inner,
    check_plaintext,
    check_policy,
    check_transport,
    disprove_hop,
    mark_redirect,
    note_domains,
    note_sent,
    origin_of,
)


if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext
    from types import TracebackType
    from typing import Self

    import httpx
    import httpx2

    from ...calls import Policy
    from ...failure import Failure
    from ...presets.bridge_policy import BridgePolicy
    from .bearer import Bearer, Token

    class _Bases(  # type: ignore[misc] # the two libraries differ in their Request classes
        httpx.AsyncBaseTransport,
        httpx.BaseTransport,
        httpx2.AsyncBaseTransport,
        httpx2.BaseTransport,
    ):
        """The transport base classes of the four kinds of client."""

else:
    _Bases = object  # at run time it has none of them, because neither library is imported


_MOST: Final = 512  # origins whose functions are kept; their circuits are kept elsewhere, by name
# seconds: a server remembers a key for 5 minutes (V9); less a margin, as Outbox.resend_within
_KEY_WINDOW: Final = 270.0
_OF_ONE_REQUEST: Final = 'request.extensions["rb.policy"]'
_METHODS: Final = {True: "handle_async_request", False: "handle_request"}
_ALLOWED_BY: Final = 'an Idempotency-Key header, or extensions={"rb.idempotent": True}'


def _add_library_base(error: BridgeError, request: Any) -> None:
    """Add the client library's base class to our error: `except httpx.HTTPError` catches it."""
    library = import_module(package_of(request))
    add_base(
        error, library.TimeoutException if isinstance(error, TimeoutError) else library.RequestError
    )
    cast("Any", error).request = request


def _cookie_lines(response: Any) -> list[str]:
    return response.headers.get_list("set-cookie")  # type: ignore[no-any-return]


class HTTPTransport(_Bases):
    """A transport that applies `policy` to every request of an HTTP client.

        import httpx

        with httpx.Client(transport=rb.HTTPTransport()) as client:
            ...

    For `Client` and `AsyncClient` of httpx and httpx2. The default `policy` is `rb.resilient`
    with an AdaptiveLimit: a refusal (429, 503, 529) costs a call time, and no attempt. Of a
    BridgePolicy its `calls` are used. `inner` is the transport below; without one it is what the
    library would have made, with the proxies of the environment (`HTTP_PROXY`, `NO_PROXY` …) and
    with `verify`, `cert`, `http2`, `proxy`, `limits` and `trust_env`, which mean what they mean for
    a client. Give them here: a transport cannot see those of its client. A circuit, budget,
    bulkhead or rate limit without a key belongs to the origin: `rb.calls.circuit("https://host")`
    is the handle.

    GET, HEAD, OPTIONS, TRACE, PUT and DELETE may be repeated, and for 270 s every request with an
    Idempotency-Key header of yours; any other only if it provably did not run, or, by convention,
    after a 429. A request with an effect (PUT and DELETE, too) gets such a header, the same on
    every repeat, but a generated key does not permit repeats; `idempotency_header=None` adds none.
    A body that is a stream is sent once. The last response is returned whatever its status;
    responses before it are closed. `Retry-After` and `x-should-retry` are obeyed.

    `token` is sent as `Authorization: Bearer …` with each request that has no such header: a text,
    `env:NAME`, `file:PATH`, or a callable (async for an AsyncClient). It is read for each attempt,
    and again after a 401: if it has changed, the request is sent once more. It follows no redirect
    to another origin.

    `request.extensions` override this for one request: `rb.policy` (a Policy, or None for none) and
    `rb.idempotent` (a bool). A redirect to another origin with credentials in its headers or a
    secret in its body, or from https to http, raises (CONN_REDIRECT_REFUSED), and so do credentials
    over http:// to another machine, in a header or in a parameter such as `token` (CONN_INSECURE),
    unless `allow_plaintext_credentials`. A response with more than `max_body` bytes, received or
    decoded, raises while it is read. Errors raised here are both a BridgeError and a RequestError
    of the client's library.
    """

    @taught
    def __init__(
        self,
        policy: Policy | BridgePolicy | None = None,
        inner: Any = None,
        *,
        token: Token | None = None,
        max_body: int | None = None,
        idempotency_header: str | None = "Idempotency-Key",
        allow_plaintext_credentials: bool = False,
        verify: SSLContext | str | bool = True,
        cert: Any = None,
        http2: bool = False,
        proxy: Any = None,
        limits: Any = None,
        trust_env: bool = True,
    ) -> None:
        """Create a transport for one client. ConfigError names a bad argument.

        An HTTPTransport as `inner` is one.
        """
        self._policy = calls_of(policy, f"{self._owner}.policy", of_one_request=True)
        if isinstance(inner, HTTPTransport):
            raise config_error(
                "HTTPTransport.inner", "a transport that does not retry already", inner
            )
        check_transport(inner, self._policy, self._owner)
        if max_body is not None and not is_count(max_body):
            raise config_error(
                "HTTPTransport.max_body", "a number of bytes of at least 1, or None", max_body
            )
        check_http_options(self._owner, idempotency_header, allow_plaintext_credentials)
        self._options = Options(
            verify=verify, cert=cert, http2=http2, proxy=proxy, limits=limits, trust_env=trust_env
        )
        self._options.check("HTTPTransport", inner)
        self._bearer: Bearer | None = None
        if token is not None:
            from .bearer import Bearer  # imported here: most transports have none

            self._bearer = Bearer(token, self._owner)
        self._inner: Any = inner
        # threads may send the first requests of a shared client at the same time
        self._making = new_lock()
        self._max_body = max_body
        self._key_header = idempotency_header
        self._allows_plaintext = allow_plaintext_credentials
        self._protected: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
        self._domains: OrderedDict[str, str] = OrderedDict()  # of cookies set for a whole domain
        self._repeats = any(
            isinstance(layer, Retry) and layer.attempts != 1 for layer in self._policy.layers
        )
        self._logged: set[str] = set()  # the classes of bodies that were cut that the log has named

    _owner = "HTTPTransport"  # as errors of its arguments name it

    # What differs between client libraries: see `views.Core`.
    _report_request: Callable[[Any], Any] = staticmethod(watch_request)
    _report_answer: Callable[[Any, Any, Any], Any] = staticmethod(watch_answer)
    _add_base: Callable[[BridgeError, Any], None] = staticmethod(_add_library_base)
    _cookie_lines: Callable[[Any], list[str]] = staticmethod(_cookie_lines)
    _watch: Callable[[Any], None] = staticmethod(once)
    _peek: Callable[[Any], Any] = staticmethod(peek)
    _peek_async: Callable[[Any], Any] = staticmethod(peek_async)
    _hold_body: Callable[[Any, Callable[[], None]], None] | None = staticmethod(hold_body)
    _watch_body: Callable[[Any, Callable[[Exception], None]], None] = staticmethod(watch_body)

    # ---- one request ------------------------------------------------------------------------------------------

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request, again if the policy allows it, and return the last response."""
        send = self._ready(request, is_async=True)
        if CURRENT_WIRE.get() is not None:  # a client of mcp sends through it
            await self._report_request(request)
        try:
            response = await send(request)
        except Exception as error:
            if isinstance(error, BridgeError):
                self._add_base(error, request)
            disprove_hop(error, request)
            raise
        finally:
            request.extensions.pop(OURS, None)
        returned = self._returned(request, response)
        if CURRENT_WIRE.get() is not None:
            await self._report_answer(request, returned, look_async)
        return returned

    def handle_request(self, request: Any) -> Any:
        """Send a request, again if the policy allows it, and return the last response."""
        send = self._ready(request, is_async=False)
        try:
            response = send(request)
        except Exception as error:
            if isinstance(error, BridgeError):
                self._add_base(error, request)
            disprove_hop(error, request)
            raise
        finally:
            request.extensions.pop(OURS, None)
        return self._returned(request, response)

    def _ready(self, request: Any, *, is_async: bool) -> Callable[..., Any]:
        """Check a request, prepare it, and return the function that sends it."""
        try:
            if not hasattr(self._inner, _METHODS[is_async]):
                check_inner(self._inner, is_async=is_async)
            check_hop(request, self._domains)
            if request.url.scheme == "http" and not self._allows_plaintext:
                check_plaintext(request, has_token=self._bearer is not None)
            if OURS in request.extensions:
                raise config_error(
                    "HTTPTransport.inner",
                    "a transport that does not retry already",
                    "an HTTPTransport below",
                )
            return self._protected_for(request, is_async=is_async)
        except BridgeError as error:
            self._add_base(error, request)
            disprove_hop(error, request)
            raise

    def _protected_for(self, request: Any, *, is_async: bool) -> Callable[..., Any]:
        """Return the function that sends a request under its policy, by origin and permission."""
        extensions, url = request.extensions, request.url
        for name in extensions:
            if (
                name.startswith("rb.") and name not in USER_EXTENSIONS
            ):  # no permission, and no word of it
                here = f'request.extensions["{name}"]'
                raise config_error(
                    here,
                    "rb.idempotent or rb.policy",
                    name,
                    write='extensions={"rb.idempotent": True}',
                )
        if self._inner is None:
            with self._making:
                if self._inner is None:
                    library = import_module(package_of(request))
                    self._inner = own_transport(library, self._options, is_async=is_async)
        policy = extensions.get("rb.policy", self._policy)
        if policy is None:
            below = self._below()
            return below.handle_async_request if is_async else below.handle_request  # type: ignore[no-any-return]
        if policy is not self._policy:
            policy = calls_of(policy, _OF_ONE_REQUEST)
        method = request.method
        # This also adds the header. PUT and DELETE get one, too: they may be repeated anyway, but
        # they have an effect (V9).
        has_key = method not in SAFE_METHODS and self._has_key(request)
        is_idempotent = extensions.get("rb.idempotent")
        if is_idempotent is not None:
            check_flag('request.extensions["rb.idempotent"]', is_idempotent)
        if is_idempotent is None and method in IDEMPOTENT_METHODS:
            is_idempotent = True
        by_key = has_key and is_idempotent is None
        self._watch(request)
        # The transport's own policy is looked up as None: hashing it would double the time of this.
        own = None if policy is self._policy else policy
        key = url.scheme, url.raw_host, url.port, is_idempotent, by_key, is_async, own
        send = self._protected.get(key)
        if send is None:
            send = self._bind(key, origin_of(url))
        else:
            try:  # noqa: SIM105 -- on every request
                self._protected.move_to_end(key)  # the least recently used is dropped
            except KeyError:  # another thread has just dropped it
                pass
        extensions[OURS] = True
        return send

    def _has_key(self, request: Any) -> bool:
        """Return whether the caller set an idempotency key on a request; if not, add one."""
        headers, extensions = request.headers, request.extensions
        name = self._key_header or "Idempotency-Key"
        key = headers.get(name)
        if key is not None:
            return bool(key) and key != extensions.get(OWN_KEY)
        if self._key_header is not None:
            headers[name] = extensions[OWN_KEY] = current_world().new_id()
        return False

    def _bind(self, key: tuple[Any, ...], origin: str) -> Callable[..., Any]:
        """Create and keep the function that sends under a policy, for one origin and permission."""
        *_, is_idempotent, by_key, is_async, policy = key
        if policy is None:
            policy = self._policy
        else:
            check_policy(policy, _OF_ONE_REQUEST)
        if len(self._protected) >= _MOST:
            self._protected.popitem(last=False)
        asks = any(
            isinstance(layer, Retry) and layer.on_result is not None for layer in policy.layers
        )
        sends = (_sending_async if is_async else _sending)(
            self._below(),
            is_limited=any(isinstance(layer, AdaptiveLimit) for layer in policy.layers),
            hold=self._hold_body,
            sound_as=_same if asks else _Sound,
            window=_KEY_WINDOW if by_key else None,
            look=self._peek_async if is_async else self._peek,
            races=any(isinstance(layer, Hedge) for layer in policy.layers),
        )
        send = self._protected[key] = bind(
            keyed(policy, origin),
            sends,
            idempotent=is_idempotent or (True if by_key else is_idempotent),
            proofs="request",
            allowed_by=_ALLOWED_BY,
            name=policy.name or origin,
            states=States(origin, shares_pause=True, limited_by=self._limit_key),
            reading=RESULTS if self._bearer is None else Reading(PLAIN, self._read),
        )
        return cast("Callable[..., Any]", send)

    def _limit_key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
        """Return the key of the adaptive limit of a request; one token is one credential."""
        credential, *rest = key_of_request(args, kwargs)
        if not credential and self._bearer is not None:
            credential = self._bearer.name
        return (credential, *rest)

    def _below(self) -> Any:
        """Return the transport that the policy's attempts go to."""
        return self._inner if self._bearer is None else self._bearer.over(self._inner)

    def _read(self, response: object) -> Failure | None:
        """Return the failure of a response, without a token that it echoes."""
        failure = failure_of_result(response)
        return failure and cast("Bearer", self._bearer).secrets.mask(failure)

    def _returned(self, request: Any, response: Any) -> Any:
        if type(response) is _Sound:
            response = response.response
        if "set-cookie" in response.headers:
            note_domains(self._cookie_lines(response), self._domains)
        if 300 <= response.status_code < 400:
            mark_redirect(request)
        if self._max_body is not None:
            bounded(response, self._max_body, request, _add_library_base)
        extensions = request.extensions
        # unless the request leaves the transport without a policy
        if self._repeats and extensions.get("rb.policy", extensions) is not None:
            may_repeat = extensions.get("rb.idempotent")
            if may_repeat is None:
                # A key of the user permits nothing here: their function may send another one.
                may_repeat = request.method in IDEMPOTENT_METHODS
            self._watch_body(response, self._tell_cut if may_repeat else self._tell_cut_in_doubt)
        return response

    def _tell_cut(self, error: Exception, *, may_repeat: bool = True) -> None:
        """Say why a request whose body was cut was not repeated, unless a policy around it decides."""
        if not isinstance(error, BridgeError) and not is_retried_around():
            tell_cut(self._logged, "HTTPTransport", error, may_repeat=may_repeat)

    def _tell_cut_in_doubt(self, error: Exception) -> None:
        self._tell_cut(error, may_repeat=False)

    # ---- closing and entering ---------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the inner transport."""
        check_inner(self._inner, is_async=True)
        if self._inner is not None:
            await self._inner.aclose()

    def close(self) -> None:
        """Close the inner transport."""
        check_inner(self._inner, is_async=False)
        if self._inner is not None:
            self._inner.close()

    async def __aenter__(self) -> Self:
        """Enter the inner transport, if there is one yet."""
        check_inner(self._inner, is_async=True)
        if self._inner is not None:
            await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Leave the inner transport."""
        if self._inner is not None:
            await self._inner.__aexit__(kind, error, trace)

    def __enter__(self) -> Self:
        """Enter the inner transport, if there is one yet."""
        check_inner(self._inner, is_async=False)
        check_sync(self._policy, "HTTPTransport.policy")
        if self._inner is not None:
            self._inner.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Leave the inner transport."""
        if self._inner is not None:
            self._inner.__exit__(kind, error, trace)

    __reduce__ = stays_here

    def __repr__(self) -> str:
        """Return the policy, and the class of the inner transport."""
        inner = "" if self._inner is None else f", inner={type(self._inner).__name__}"
        return f"HTTPTransport({self._policy!r}{inner})"


class _Sound:
    """A wrapper of a response below status 400, which the policy need not classify."""

    __slots__ = ("response",)

    def __init__(self, response: Any) -> None:
        self.response = response

    async def aclose(self) -> None:
        """Close the response of a request that lost its race."""
        await self.response.aclose()


def _may_race(request: Any) -> bool:
    """Return whether a request may run twice at once.

    One with an effect may not by its method or key: a server answers the second PUT, DELETE or use
    of a key that comes beside the first with a conflict. Nor may one whose body is read once.
    """
    if request.method not in SAFE_METHODS and not request.extensions.get("rb.idempotent"):
        return False
    return not hasattr(request.stream, "is_started")


def _same(response: Any) -> Any:
    return response


def _observe(response: Any, hold: Callable[[Any, Callable[[], None]], None] | None) -> None:
    """Have the adaptive limit read a response: what it says of a quota, and when its body ends."""
    is_refused = response.status_code >= 400
    hear_quota(response.headers, is_refused=is_refused)
    if hold is None or is_refused or response.is_closed:
        return
    release = keep_permit()
    if release is not None:
        hold(response, release)


def _sending(
    inner: Any,
    *,
    is_limited: bool,
    hold: Callable[[Any, Callable[[], None]], None] | None,
    sound_as: Callable[[Any], Any],
    window: float | None,
    look: Callable[[Any], Any],
    races: bool,  # noqa: ARG001 -- of tasks
) -> Callable[[Any], Any]:
    """Return the function that sends a request once.

    `is_limited`: its policy has an adaptive limit, which wants to know of it; then `hold` has the end
    of a body give the permit back. `sound_as` wraps a response below status 400, `look` reads the
    body of any other. `window`: the seconds for which the server remembers the key that permits
    repeats. `races`: the policy has a Hedge.
    """
    once_sent = inner.handle_request

    def send(request: Any, /) -> Any:
        if window is not None:
            repeat_within(window)
        note_sent(request)
        if is_limited:
            keep_arguments(request)
        try:
            response = once_sent(request)
        finally:
            if getattr(request.stream, "is_started", False):
                make_last(READ_ONCE)
        if is_limited:
            _observe(response, hold)
        if response.status_code < 400:
            return sound_as(response)
        look(response)
        return response

    def send_in_time(request: Any, /) -> Any:
        seconds = remaining()
        if seconds is None:
            return send(request)
        with bound_to(request, seconds):
            return send(request)

    return send_in_time


def _sending_async(
    inner: Any,
    *,
    is_limited: bool,
    hold: Callable[[Any, Callable[[], None]], None] | None,
    sound_as: Callable[[Any], Any],
    window: float | None,
    look: Callable[[Any], Any],
    races: bool,
) -> Callable[[Any], Any]:
    once_sent = inner.handle_async_request

    async def send(request: Any, /) -> Any:
        if races and not _may_race(request):
            forbid_hedge()
        if window is not None:
            repeat_within(window)
        note_sent(request)
        if is_limited:
            keep_arguments(request)
        try:
            response = await once_sent(request)
        finally:
            if getattr(request.stream, "is_started", False):
                make_last(READ_ONCE)
        if is_limited:
            _observe(response, hold)
        if response.status_code < 400:
            return sound_as(response)
        await look(response)
        return response

    return send
