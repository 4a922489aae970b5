"""`wrap`: a client object whose calls go through a policy, and which else behaves unchanged.

Rule: a client of httpx or httpx2 itself is unchanged. Its copy has the same settings, cookies and
connections, and one HTTPTransport over each transport that the client has: its own, its proxies',
its mounts'.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ...calls import Policy
from ...failure import ANSWERS, RESULTS, config_error
from ...failure.teaching import taught
from ...values.fields import check_flag
from ..arguments import Idempotent, calls_of, checked_bytes, checked_idempotent
from ..http.transport import HTTPTransport
from .sdks import sdk_of
from .streams import Proxy, name_of


if TYPE_CHECKING:
    from typing import Self

    from ...presets.bridge_policy import BridgePolicy


Client = TypeVar("Client")
# An HTTP client takes the policy below its calls, because there one call is one request.
_INSTEAD: Final = {
    "requests.Session": "session.mount('https://', rb.HTTPAdapter())",
    "aiohttp.ClientSession": "aiohttp.ClientSession(middlewares=[rb.HTTPMiddleware()])",
}
_LIBRARIES: Final = frozenset({"httpx", "httpx2"})
_NAMES: Final = frozenset({"Client", "AsyncClient"})
# It has no public names for them; a release without these is refused.
_OWN, _BY_URL = "_transport", "_mounts"


@taught
def wrap(
    client: Client,
    policy: Policy | BridgePolicy | None = None,
    *,
    idempotent: Idempotent | None = None,
    methods: Mapping[str, Policy] | Collection[str] | None = None,
    max_bytes: Mapping[str, int] | None = None,
    allow_plaintext_credentials: bool = False,
    answers: bool = False,
) -> Client:
    """Return a proxy of `client` with `policy` around its calls, and its own retries switched off.

        client = rb.wrap(httpx.AsyncClient())      # or AsyncOpenAI(), Anthropic() ...
        shop = rb.wrap(Shop(), methods=["order", "price"], idempotent={"price"})
        print(shop.price("book"))      # 7

    It has the same static type, and passes the same `isinstance` checks. For the clients of openai,
    anthropic and google-genai, and for those of httpx and httpx2; for any other object `methods`
    names the methods, with a Policy each if it is a mapping. The default `policy` is the
    recommended one; that of an SDK or of an HTTP client has an AdaptiveLimit: a refusal (429, 503,
    529) costs a call time, and no attempt.

    A client of httpx or httpx2 gets an HTTPTransport over its own transport and over those of its
    proxies and mounts, with the client's own `verify=`, `http2=` and `limits=`. What is repeated is
    said there, circuits belong to origins, and `idempotent`, `max_bytes` and `answers` are not for
    it.

    Model calls and reads of the three SDKs may be repeated. Any other call, and a model call whose
    tools the provider runs without asking, is repeated only if it provably did not run, or
    `idempotent` allows it; errors of another object's method prove nothing about the whole method.
    A 429 proves nothing, and by convention permits the repeat of a request that this package sent.
    `idempotent=False` forbids that, and every other repeat. A call that runs tools inside of it, as
    google-genai's can, is repeated only if `idempotent` allows it.

    A derived client (`with_options(…)`) is wrapped, too. A stream is repeated up to its first item,
    which is fetched before the call returns or the context is entered. Each page of a list, and
    each step of a method that makes several calls, is a separate call. The SDK's own errors are
    raised unchanged; a rejection of ours is also that SDK's base error. `max_bytes={"prompt":
    100_000}` refuses a call whose argument of that name is larger, as text in UTF-8 or else as
    JSON: it was not sent. A key over http:// to another machine is refused (CONN_INSECURE), unless
    `allow_plaintext_credentials`. `.__wrapped__` is the client; `rb.calls.circuit(wrapped)` the handle of
    its circuit.

    What a call returns is its success, except a failure by its type: an HTTP response of 400 or
    more, a result of MCP with `is_error`. `answers=True` says that the object's methods return the
    decoded answers of a server: then a dict in a form of the specifications is a failure, too, such
    as `{"isError": true, …}` or `{"jsonrpc": "2.0", "error": {…}}`. It counts for the circuit, is
    repeated as any other failure, and is returned if it stays one.

    Raises ConfigError for an object that is none of these and has no `methods`, one of these that is
    wrapped already, a missing method, a Timeout without `thread=True` around a blocking client,
    google-genai's own `retry_options`, and for pickling the result. `copy.copy` of it is wrapped,
    too. A client of google-genai is itself configured to try once, and to use httpx2 where aiohttp
    is installed.
    """
    from .wrapping import Wrapping, wrapped

    check_flag("wrap.allow_plaintext_credentials", allow_plaintext_credentials)
    check_flag("wrap.answers", answers)
    sdk, kind = sdk_of(client), client.__class__  # not `type`: it may be wrapped already
    if issubclass(type(client), Proxy) and (methods is None or sdk is not None):
        wanted = "a client that is not wrapped already; rb.wrap(client.__wrapped__, …) gives it another policy"
        raise config_error("wrap.client", wanted, f"a wrapped {client.__class__.__name__}")
    if methods is None and is_http_client(client):
        for argument, value in (
            ("idempotent", idempotent),
            ("max_bytes", max_bytes),
            ("answers", answers or None),
        ):
            if value is not None:
                wanted = (
                    'none for an HTTP client; for one request: extensions={"rb.idempotent": True}'
                )
                raise config_error(f"wrap.{argument}", wanted, value)
        return cast(
            "Client",
            wrapped_http_client(
                client,
                calls_of(policy, "wrap.policy", of_one_request=True),
                allow_plaintext_credentials=allow_plaintext_credentials,
            ),
        )
    if methods is None and (
        isinstance(
            client, type | FunctionType | BuiltinFunctionType | MethodType | ModuleType | str
        )
        or client is None
    ):
        wanted = "an object with methods, such as a client of openai; a function is decorated"
        raise config_error("wrap.client", wanted, client)
    protecting = calls_of(policy, "wrap.policy", of_one_request=sdk is not None)
    if sdk is None and methods is None:
        write = f"rb.wrap({kind.__name__}(), methods=({_a_method(client)!r},))"
        raise config_error("wrap.methods", _without_methods(kind), methods, write=write)
    wrapping = Wrapping(
        policy=protecting,
        name=name_of(kind),
        sdk=sdk,
        is_async=hasattr(kind, "__aenter__"),
        idempotent=checked_idempotent(idempotent, "wrap.idempotent"),
        methods=_as_methods(client, methods),
        max_bytes=checked_bytes(max_bytes, "wrap.max_bytes"),
        allow_plaintext_credentials=allow_plaintext_credentials,
        reading=ANSWERS if answers else RESULTS,
    )
    return cast("Client", wrapped(client, wrapping))


def _a_method(client: object) -> str:
    """Return the name of a method of this object, for a line to write."""
    own = (
        name
        for name in vars(type(client))
        if not name.startswith("_") and callable(getattr(client, name, None))
    )
    return next(own, "search")


def _without_methods(kind: type) -> str:
    """Return what to pass instead, for the error about an object without `methods`."""
    wanted = f"the methods of {kind.__name__} to protect"
    for base in kind.__mro__:
        instead = _INSTEAD.get(name_of(base))
        if instead is not None:
            return f"{instead} instead of wrap, or {wanted}"
    return wanted


def _as_methods(client: object, methods: Any) -> dict[str, Policy | None]:
    if methods is None:
        return {}
    if isinstance(methods, str) or not isinstance(methods, Collection):
        raise config_error(
            "wrap.methods", "names of methods, or a mapping of names to policies", methods
        )
    by_name: dict[str, Policy | None] = {}
    for name in cast("Collection[str]", methods):
        policy = cast("Mapping[str, Any]", methods)[name] if isinstance(methods, Mapping) else None
        by_name[name] = None if policy is None else calls_of(policy, f"wrap.methods[{name!r}]")
        target: Any = client
        for part in name.split("."):
            target = getattr(target, part, None)
        if not callable(target):
            write = f"rb.wrap({client.__class__.__name__}(), methods=({_a_method(client)!r},))"
            raise config_error(
                "wrap.methods", f"methods of {client.__class__.__name__}", name, write=write
            )
    return by_name


# ---- clients of httpx and httpx2 -----------------------------------------------------------------


def is_http_client(client: object) -> bool:
    """Return whether an object is a Client or AsyncClient of httpx or httpx2, or of a subclass."""
    return any(
        base.__name__ in _NAMES and base.__module__.partition(".")[0] in _LIBRARIES
        for base in client.__class__.__mro__
    )


def wrapped_http_client(client: Any, policy: Policy, *, allow_plaintext_credentials: bool) -> Any:
    """Return the proxy of a copy of the client whose requests go through the policy.

    Raises ConfigError for one that has an HTTPTransport already.
    """
    own: Any = getattr(client, _OWN, None)
    by_url: dict[Any, Any] | None = getattr(client, _BY_URL, None)
    if (
        not (hasattr(own, "handle_request") or hasattr(own, "handle_async_request"))
        or by_url is None
    ):
        wanted = f"a release of {client.__class__.__module__.partition('.')[0]} whose transports can be found"
        raise config_error(
            "wrap.client", f"{wanted}; here: transport=rb.HTTPTransport()", "another one"
        )
    under: dict[int, HTTPTransport] = {}

    def protected(transport: Any) -> HTTPTransport:
        if isinstance(transport, HTTPTransport):
            raise config_error(
                "wrap.client", "a client without an HTTPTransport", "one with a policy already"
            )
        if id(transport) not in under:
            under[id(transport)] = HTTPTransport(
                policy, transport, allow_plaintext_credentials=allow_plaintext_credentials
            )
        return under[id(transport)]

    made: Any = copy.copy(client)
    mounts = {
        pattern: None if transport is None else protected(transport)
        for pattern, transport in by_url.items()
    }
    setattr(made, _OWN, protected(own))
    setattr(made, _BY_URL, mounts)
    return WrappedHTTPClient(made, policy)


class WrappedHTTPClient(Proxy):
    """The proxy of such a copy: it only says that it is one."""

    def __init__(self, client: Any, policy: Policy) -> None:
        super().__init__(client)
        self._self_policy = policy

    def __copy__(self) -> Self:
        return type(self)(copy.copy(self.__wrapped__), self._self_policy)

    def __repr__(self) -> str:
        return f"<wrapped {name_of(self.__wrapped__.__class__)}, {self._self_policy!r}>"
