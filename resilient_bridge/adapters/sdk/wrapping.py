"""One wrapped client: its policy and state, which attributes are calls, and the proxies of its parts.

Rule: a call goes through the policy however it is reached; every other attribute is unchanged. For
`isinstance` and attribute access a proxy behaves as its object (wrapt's ObjectProxy); it adds only
the policy.
"""

from __future__ import annotations

import inspect
from functools import partial, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from ...calls.ports import (
    States,
    bind,
    form_of,
    keep_arguments,
    never_again,
    protected_for,
    stream_broke,
)
from ...failure import BridgeError, config_error, stays_here
from ..arguments import Call, check_bytes, named, permission
from ..limit_keys import key_of_call
from .sdks import copied, is_page, sdk_of
from .streams import AsyncItems, Items, Proxy, has, name_of


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Mapping
    from typing import NoReturn, Self

    from ...calls import Policy
    from ...failure import Reading
    from ..arguments import Idempotent
    from .sdks import SDK


_MOST: Final = 1_024  # kinds that are kept: classes made at run time must not pile up
_NO_CALLS: Final = frozenset({"close", "aclose", "get_history", "record_history"})
_STREAMS: Final = frozenset({"stream", "async_stream"})
# methods of a client itself, for URL paths that have no method
_REQUESTS: Final = frozenset({"get", "post", "put", "patch", "delete", "request"})


@attrs.define(eq=False, kw_only=True)
class Wrapping:
    """The shared parts of all proxies of one client: policy, state, and permitted repeats."""

    policy: Policy
    name: str
    sdk: SDK | None
    is_async: bool
    idempotent: Idempotent | None
    methods: Mapping[str, Policy | None]
    max_bytes: Mapping[str, int]
    allow_plaintext_credentials: bool
    reading: Reading
    states: States = attrs.field(init=False)
    counts_requests: bool = attrs.field(init=False, default=False)
    has_keys: bool = attrs.field(init=False)  # some layer has a key function
    _bound: dict[tuple[str, bool, bool | None, bool], Any] = attrs.field(
        init=False, factory=dict[Any, Any]
    )
    # What was found of an attribute or a result, by its path and its class or function: asked once.
    _kinds: dict[tuple[str, Any], str] = attrs.field(init=False, factory=dict[Any, str])

    def __attrs_post_init__(self) -> None:
        policies = [self.policy, *(own for own in self.methods.values() if own is not None)]
        self.has_keys = any(layer.key_function for policy in policies for layer in policy.layers)
        self.states = States(self.name, limited_by=None if self.sdk is None else key_of_call)
        if self.sdk is not None and (self.is_async or not self.sdk.async_part):
            self.bound("", is_async=self.is_async)  # an unusable policy raises here, not at a call

    def __circuit__(self) -> object | None:
        """Return the circuit in use, None where no layer has one."""
        return self.states.current

    # ---- kinds of attributes ---------------------------------------------------------------------

    def check(self, client: Any) -> None:
        """Raise ConfigError for a policy that cannot protect one of `methods`."""
        for path in self.methods:
            method = attrgetter(path)(client)
            if form_of(method) in _STREAMS:
                self.generating(path, method, idempotent=None)
            else:
                self.bound(path, is_async=self._is_async_at(path, method))

    def proxied(self, path: str, value: Any, owner: Any) -> Any:
        """Return the proxy of an attribute that is a call or has calls, else the attribute."""
        key = path, type(cast("object", value))
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._found(key, self._attribute_kind(path, value))
        match kind:
            case "part":
                return Wrapped(value, self, path)
            case "call":
                return self.protected(path, value)
            case "derived":
                return _returning(value, partial(wrapped, wrapping=self))
            case "made":
                part = path.rpartition(".")[0]
                return _returning(value, partial(Wrapped, wrapping=self, path=part))
            case "steps":
                # its `self` is the proxy, so each step is a separate call
                return value.__func__.__get__(owner)
            case _:
                return value

    def _attribute_kind(self, path: str, value: object) -> str:
        """Return what an attribute is; its path and its class alone decide."""
        if self.sdk is not None and path in self.sdk.derived:
            return "derived"
        if self.sdk is not None and path in self.sdk.makes:
            return "made"
        if self.sdk is not None and inspect.ismethod(value) and self.sdk.steps.fullmatch(path):
            return "steps"
        if self._is_call(path, value):
            return "call"
        return "part" if self._is_part(path, value) else "plain"

    def _found(self, key: tuple[str, Any], kind: str) -> str:
        if len(self._kinds) >= _MOST:
            self._kinds.clear()
        self._kinds[key] = kind
        return kind

    def _is_call(self, path: str, value: object) -> bool:
        if not callable(value) or isinstance(value, type) or path.rpartition(".")[2] in _NO_CALLS:
            return False
        if path in self.methods:
            return True
        if self.sdk is None or self.sdk.has_calls(value):
            return False
        return "." in path or path in _REQUESTS

    def _is_part(self, path: str, value: object) -> bool:
        if self.sdk is not None and self.sdk.has_calls(value):
            return True
        return any(name.startswith(f"{path}.") for name in self.methods)

    def protected(self, path: str, method: Any) -> Any:
        """Return the proxy of a method whose calls go through the policy."""
        # Of a class's method the kind is kept; a function may be made anew for each object.
        key = path, getattr(method, "__func__", None)
        kind = None if key[1] is None else self._kinds.get(key)
        if kind is None:
            kind = self._call_kind(path, method)
            if key[1] is not None:
                self._found(key, kind)
        match kind:
            case "awaiting":
                return self._awaiting(path, method)
            case "blocking":
                return self._blocking(path, method)
            case "entering":
                return self._entering(path, method)
            case "streaming":
                return self._streaming(path, method)
            case _:
                return self._beginning(path, method, is_prepared=kind == "prepared")

    def _call_kind(self, path: str, method: Any) -> str:
        """Return how a call of a method is made."""
        if self.sdk is None and form_of(method) in _STREAMS:
            return "streaming"
        is_prepared = self.sdk is not None and self.sdk.is_prepared(path, method)
        if not self._is_async_at(path, method):
            return "entering" if is_prepared else "blocking"
        if is_prepared:
            return "prepared"
        is_awaited = inspect.iscoroutinefunction(inspect.unwrap(method))
        return "awaiting" if is_awaited else "beginning"

    def _is_async_at(self, path: str, method: Any) -> bool:
        if self.is_async:
            return True
        if self.sdk is not None:
            return bool(self.sdk.async_part) and path.startswith(f"{self.sdk.async_part}.")
        inner = inspect.unwrap(method)
        return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)

    # ---- calls -----------------------------------------------------------------------------------

    def _permitted(
        self, path: str, method: Any, args: Any, kwargs: Any
    ) -> tuple[bool | None, bool]:
        """Check a call's arguments; return whether it may be repeated, and whether it never is.

        None as the first: only if it provably did not run.
        """
        sdk, owner = self.sdk, getattr(method, "__self__", None)
        arguments = named(method, args, kwargs) if args and (sdk or self.max_bytes) else kwargs
        try:
            if sdk is not None and sdk.options is not None:
                sdk.check_call(
                    arguments,
                    owner,
                    allow_plaintext_credentials=self.allow_plaintext_credentials,
                )
            if self.max_bytes:
                check_bytes(self.max_bytes, arguments)
            permitted = (
                self.idempotent
                if self.idempotent is None
                else permission(self.idempotent, Call(path, args, kwargs))
            )
            if sdk is None:
                return permitted, False
            if not permitted and sdk.runs_tools(path, arguments, owner):
                return None, True
            if permitted is None and sdk.may_repeat(path, arguments, owner):
                return True, False
        except BridgeError as error:
            self.add_base(error)
            raise
        return permitted, False

    def _ready(self, path: str, method: Any, args: Any, kwargs: Any, *, is_async: bool) -> Any:
        """Check the arguments of a call, and return the function that makes it."""
        idempotent, is_once = self._permitted(path, method, args, kwargs)
        bound = self._bound.get((path, is_async, idempotent, is_once)) or self.bound(
            path, is_async=is_async, idempotent=idempotent, is_once=is_once
        )
        if not self.has_keys:
            return bound
        return protected_for(bound, _MAKERS[is_async, is_once], args, kwargs)

    def _awaiting(self, path: str, method: Any) -> Any:
        """Return the proxy of a method that is an async function."""

        @wraps(method)  # by which the key of its adaptive limit is found
        async def begin(*args: Any, **kwargs: Any) -> Any:
            result = await method(*args, **kwargs)
            is_stream = hasattr(type(cast("object", result)), "__anext__") and not is_page(result)
            return await AsyncItems.at_first_item(result) if is_stream else result

        @wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            protected = self._ready(path, method, args, kwargs, is_async=True)
            result = await self.run_async(protected, begin, args, kwargs)
            return self._proxied_result(protected, path, result)

        return call

    def _blocking(self, path: str, method: Any) -> Any:
        """Return the proxy of a method that blocks."""

        @wraps(method)  # by which the key of its adaptive limit is found
        def begin(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            is_stream = has(result, "__next__") and not is_page(result)
            return Items.at_first_item(result) if is_stream else result

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            protected = self._ready(path, method, args, kwargs, is_async=False)
            result = self.run(protected, begin, args, kwargs)
            # the method only prepared the call, which `is_prepared` could not know
            if has(result, "__enter__") and not has(result, "__next__"):
                return EntryPoint(
                    Prepared(self, protected, partial(method, *args, **kwargs), result)
                )
            return self._proxied_result(protected, path, result)

        return call

    def _entering(self, path: str, method: Any) -> Any:
        """Return the proxy of a blocking client's method whose result is entered to make the call."""

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            protected = self._ready(path, method, args, kwargs, is_async=False)
            make = partial(method, *args, **kwargs)
            return EntryPoint(Prepared(self, protected, make, make()))

        return call

    def _beginning(self, path: str, method: Any, *, is_prepared: bool) -> Any:
        """Return the proxy of a method whose result is awaited or entered to make the call."""

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            protected = self._ready(path, method, args, kwargs, is_async=True)
            make = partial(method, *args, **kwargs)
            # created on entering: it may hold a coroutine, which a rejected call would never await
            if is_prepared:
                return AsyncEntry(Prepared(self, protected, make))
            result = make()
            if has(result, "__aenter__"):
                return AsyncEntry(Prepared(self, protected, make, result))
            if has(result, "__await__"):
                proxied = partial(self._proxied_result, protected, path)
                return ProxiedAnswer(Prepared(self, protected, make, result), proxied)
            if self.sdk is None:
                wanted = (
                    "what its client is, async: wrap an object of its own for methods that block"
                )
                raise config_error(f"wrap.methods[{path!r}]", wanted, result)
            return self._proxied_result(protected, path, result)

        return call

    def _streaming(self, path: str, method: Any) -> Any:
        """Return the proxy of a generator function of any object."""

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            idempotent, _ = self._permitted(path, method, args, kwargs)
            return self.generating(path, method, idempotent=idempotent)(*args, **kwargs)

        return call

    def _proxied_result(self, protected: Any, path: str, result: Any) -> Any:
        """Return the proxy of a started stream, a page, or a part of the client, else the result."""
        if isinstance(result, AsyncItems | Items):
            return result.watched(partial(self.broken_off, protected))
        key = f"{path}()", type(cast("object", result))
        kind = self._kinds.get(key)
        if kind is None:
            is_part = self._is_part(path, result)
            kind = self._found(key, "page" if is_page(result) else "part" if is_part else "plain")
        if kind == "plain":
            return result
        return (Page if kind == "page" else Wrapped)(result, self, path.rpartition(".")[0])

    # ---- the functions behind a policy -----------------------------------------------------------

    def bound(
        self, path: str, *, is_async: bool, idempotent: bool | None = None, is_once: bool = False
    ) -> Any:
        """Return the function that makes calls of this path, behind their policy."""
        key = path, is_async, idempotent, is_once
        if key not in self._bound:
            self._bound[key] = bind(
                self.methods.get(path) or self.policy,
                _MAKERS[is_async, is_once],
                idempotent=idempotent,
                proofs="request" if self.counts_requests else "none",
                allowed_by="wrap(…, idempotent=…)",
                name=f"{self.name}.{path}" if path else self.name,
                states=self.states,
                reading=self.reading,
            )
        return self._bound[key]

    def run(self, protected: Any, begin: Any, args: Any, kwargs: Any) -> Any:
        """Make a call, and add the SDK's base class to an error of ours."""
        try:
            return protected(begin, args, kwargs)
        except BridgeError as error:
            self.add_base(error)
            raise

    async def run_async(self, protected: Any, begin: Any, args: Any, kwargs: Any) -> Any:
        try:
            return await protected(begin, args, kwargs)
        except BridgeError as error:
            self.add_base(error)
            raise

    def add_base(self, error: BridgeError, *, request: object = None) -> None:
        if self.sdk is not None:
            self.sdk.add_base(error, request=request)

    def broken_off(self, protected: Any, error: Exception, request: object = None) -> None:
        """Report a stream that failed after its first item, which counts for the circuit."""
        stream_broke(protected, error)
        if isinstance(error, BridgeError):  # its Deadline, or an answer that was cut
            self.add_base(error, request=request)

    def generating(self, path: str, method: Any, *, idempotent: bool | None) -> Any:
        """Return a generator function behind its policy."""
        return bind(
            self.methods.get(path) or self.policy,
            method,
            idempotent=idempotent,
            allowed_by="wrap(…, idempotent=…)",
            name=f"{self.name}.{path}",
            states=self.states,
        )


async def _make_async(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    keep_arguments(method, args, kwargs)
    result = method(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


def _make(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    keep_arguments(method, args, kwargs)
    return method(*args, **kwargs)


async def _make_once_async(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    with never_again():
        return await _make_async(method, args, kwargs)


def _make_once(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with never_again():
        return _make(method, args, kwargs)


_MAKERS: Final[Mapping[tuple[bool, bool], Callable[..., Any]]] = {
    (False, False): _make,
    (False, True): _make_once,
    (True, False): _make_async,
    (True, True): _make_once_async,
}
"""The functions that make a call, by whether it is async, and whether it is never repeated."""


def _returning(method: Any, proxied: Callable[[Any], Any]) -> Any:
    """Return the proxy of a method that returns a client, or a part of one, without a request."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return proxied(method(*args, **kwargs))

    return call


def wrapped(client: Any, wrapping: Wrapping) -> Any:
    """Return the proxy of a client, with the client's own retries switched off."""
    if wrapping.sdk is not None:
        if not wrapping.allow_plaintext_credentials:
            try:
                wrapping.sdk.check_client(client)
            except BridgeError as error:
                wrapping.add_base(error)
                raise
        client = wrapping.sdk.without_retries(client)
        wrapping.counts_requests = wrapping.sdk.counts_requests(client)
    wrapping.check(client)
    return Wrapped(client, wrapping, "")


# ---- proxies -------------------------------------------------------------------------------------


class Wrapped(Proxy):
    """A client, or a part of one that has calls."""

    def __init__(self, value: Any, wrapping: Wrapping, path: str) -> None:
        super().__init__(value)
        self._self_wrapping = wrapping
        self._self_path = path

    def __getattr__(self, name: str) -> Any:
        value: Any = getattr(self.__wrapped__, name)
        path = self._self_path
        if name == "_client" and path and sdk_of(value) is self._self_wrapping.sdk:
            # a method in `steps` reaches other parts of the client by this
            return Wrapped(value, self._self_wrapping, "")
        if name.startswith("_"):
            return value
        return self._self_wrapping.proxied(f"{path}.{name}" if path else name, value, self)

    @property
    def __binding__(self) -> Wrapping:
        return self._self_wrapping

    def __copy__(self) -> Self:
        """A copy of the object, with this policy and its state."""
        return type(self)(copied(self.__wrapped__), self._self_wrapping, self._self_path)

    def __repr__(self) -> str:
        where = f" at .{self._self_path}" if self._self_path else ""
        return f"<wrapped {name_of(self.__wrapped__.__class__)}{where}, {self._self_wrapping.policy!r}>"

    def __enter__(self) -> Self:
        self.__wrapped__.__enter__()
        return self

    async def __aenter__(self) -> Self:
        await self.__wrapped__.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self.__wrapped__.__aexit__(*error)


def _of_class(name: str) -> Any:
    """Return a method that calls the wrapped object's class with the proxy as `self`."""

    def method(proxy: Any) -> Any:
        return getattr(cast("Any", type(proxy.__wrapped__)), name)(proxy)

    return method


class Page(Wrapped):
    """A page of a list. Fetching the next page is a protected call, also while iterating."""

    def __getattr__(self, name: str) -> Any:
        value: Any = getattr(self.__wrapped__, name)
        if name == "iter_pages":
            return value.__func__.__get__(self)
        is_call = name == "get_next_page" or (
            name == "next_page" and self.__wrapped__.config.get("page_token")
        )
        return (
            self._self_wrapping.protected(f"{self._self_path}.{name}", value) if is_call else value
        )

    __iter__ = _of_class("__iter__")
    __next__ = _of_class("__next__")
    __aiter__ = _of_class("__aiter__")
    __anext__ = _of_class("__anext__")


class Prepared:
    """A prepared call: entering or awaiting its object makes it.

    Most objects can be used only once.

    `made` is the object, None if it is created on first use.
    """

    def __init__(
        self, wrapping: Wrapping, protected: Any, make: Callable[[], Any], made: Any = None
    ) -> None:
        self._wrapping, self._protected, self.make = wrapping, protected, make
        self.made = made
        self._is_fresh = made is not None

    def shown(self) -> Any:
        """Return the object without using it."""
        if self.made is None:
            self.made, self._is_fresh = self.make(), True
        return self.made

    def fresh(self) -> Any:
        """Return an unused object, to be used now."""
        if not self._is_fresh:
            self.made = self.make()
        self._is_fresh = False
        return self.made

    def run(self, step: Callable[[], Any]) -> Any:
        return self._watched(self._wrapping.run(self._protected, step, (), {}))

    async def run_async(self, step: Callable[[], Any]) -> Any:
        return self._watched(await self._wrapping.run_async(self._protected, step, (), {}))

    def _watched(self, entered: Any) -> Any:
        if isinstance(entered, AsyncItems | Items):
            entered.watched(partial(self._wrapping.broken_off, self._protected))
        return entered


class AsyncEntry:
    """A context manager of an async client: entering or awaiting it is the call."""

    def __init__(self, call: Prepared) -> None:
        self._call = call

    def __reduce_ex__(self, *_: object) -> NoReturn:
        stays_here(self)

    # otherwise `copy` would call `__getattr__`, which creates the manager
    __copy__ = __deepcopy__ = __reduce_ex__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call.shown(), name)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._call.run_async(self._ask).__await__()

    async def _ask(self) -> Any:
        return await self._call.fresh()

    async def __aenter__(self) -> Any:
        return await self._call.run_async(self._enter)

    async def _enter(self) -> Any:
        entered = await self._call.fresh().__aenter__()
        return await AsyncItems.at_first_item(entered) if has(entered, "__anext__") else entered

    async def __aexit__(self, *error: object) -> Any:
        return await self._call.made.__aexit__(*error)


class EntryPoint(Proxy):
    """A context manager of a blocking client: entering it is the call."""

    def __init__(self, call: Prepared) -> None:
        super().__init__(call.made)
        self._self_call = call

    def __enter__(self) -> Any:
        return self._self_call.run(self._self_enter)

    def _self_enter(self) -> Any:
        self.__wrapped__ = self._self_call.fresh()
        entered = self.__wrapped__.__enter__()
        return Items.at_first_item(entered) if has(entered, "__next__") else entered


class ProxiedAnswer(Proxy):
    """An awaitable, or an object to iterate over after that, such as a list of pages.

    `proxied` returns the proxy of the awaited result.
    """

    def __init__(self, call: Prepared, proxied: Callable[[Any], Any]) -> None:
        super().__init__(call.made)
        self._self_call, self._self_proxied = call, proxied

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._self_answer().__await__()

    async def _self_answer(self) -> Any:
        return self._self_proxied(await self._self_call.run_async(self._self_ask))

    async def _self_ask(self) -> Any:
        self.__wrapped__ = self._self_call.fresh()
        return await self.__wrapped__

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in await self:
            yield item
