"""The shared parts of one wrapped client: its policy and state, and which attributes are calls.

Rule: a call goes through the policy however it is reached; every other attribute is unchanged.
"""

from __future__ import annotations

import inspect
from functools import partial, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import attrs

from ...calls.ports import States, bind, form_of, never_again, stream_broke
from ...failure import BridgeError, config_error
from ..arguments import Call, check_bytes, named, permission
from .proxies import AsyncEntry, EntryPoint, Page, Prepared, ProxiedAnswer, Wrapped
from .sdks import is_page
from .stream_proxies import AsyncItems, Items, has


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...calls import Policy
    from ...calls.ports import Reading
    from ..arguments import Idempotent
    from .sdks import SDK


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
    _bound: dict[tuple[str, bool, bool | None, bool], Any] = attrs.field(
        init=False, factory=dict[Any, Any]
    )

    def __attrs_post_init__(self) -> None:
        self.states = States(self.name)
        if self.sdk is not None and (self.is_async or not self.sdk.async_part):
            self.bound("", is_async=self.is_async)  # an unusable policy raises here, not at a call

    def __circuit__(self) -> object | None:
        """Return the circuit in use, None where no layer has one."""
        return self.states.current

    def repeats(
        self, call: Call, arguments: Mapping[str, Any], owner: object
    ) -> tuple[bool | None, bool]:
        """Return whether a call may be repeated, and whether it is never repeated.

        None as the first: only if it provably did not run.
        """
        permitted = permission(self.idempotent, call)
        if (
            not permitted
            and self.sdk is not None
            and self.sdk.runs_tools(call.method, arguments, owner)
        ):
            return None, True
        if (
            permitted is None
            and self.sdk is not None
            and self.sdk.may_repeat(call.method, arguments, owner)
        ):
            return True, False
        return permitted, False

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

    # ---- kinds of attributes ----------------------------------------------------------------------------------

    def check(self, client: Any) -> None:
        """Raise ConfigError for a policy that cannot protect one of `methods`."""
        for path in self.methods:
            method = attrgetter(path)(client)
            if form_of(method) in _STREAMS:
                self.generating(path, method, idempotent=None)
            else:
                self.bound(path, is_async=self._is_async_at(path, method))

    def seen(self, path: str, value: Any, owner: Any) -> Any:
        """Return the proxy of an attribute that is a call or has calls, else the attribute."""
        if self.sdk is not None and path in self.sdk.derived:
            return _returning(value, partial(wrapped, wrapping=self))
        if self.sdk is not None and path in self.sdk.makes:
            return _returning(value, partial(Wrapped, wrapping=self, path=path.rpartition(".")[0]))
        if self.sdk is not None and inspect.ismethod(value) and self.sdk.steps.fullmatch(path):
            # its `self` is the proxy, so each step is a separate call
            return value.__func__.__get__(owner)
        if self._is_call(path, value):
            return self.protected(path, value)
        if self.is_part(path, value):
            return Wrapped(value, self, path)
        return value

    def _is_call(self, path: str, value: object) -> bool:
        if not callable(value) or isinstance(value, type) or path.rpartition(".")[2] in _NO_CALLS:
            return False
        if path in self.methods:
            return True
        if self.sdk is None or self.sdk.has_calls(value):
            return False
        return "." in path or path in _REQUESTS

    def is_part(self, path: str, value: object) -> bool:
        if self.sdk is not None and self.sdk.has_calls(value):
            return True
        return any(name.startswith(f"{path}.") for name in self.methods)

    def protected(self, path: str, method: Any) -> Any:
        """Return the proxy of a method whose calls go through the policy."""
        if self.sdk is None and form_of(method) in _STREAMS:
            return _streaming(self, path, method)
        is_prepared = self.sdk is not None and self.sdk.is_prepared(path, method)
        if not self._is_async_at(path, method):
            return _entering(self, path, method) if is_prepared else _blocking(self, path, method)
        if is_prepared or not inspect.iscoroutinefunction(inspect.unwrap(method)):
            return _beginning(self, path, method, is_prepared=is_prepared)
        return _awaiting(self, path, method)

    def _is_async_at(self, path: str, method: Any) -> bool:
        if self.is_async:
            return True
        if self.sdk is not None:
            return bool(self.sdk.async_part) and path.startswith(f"{self.sdk.async_part}.")
        inner = inspect.unwrap(method)
        return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)

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


def _is_stream(value: object, name: str) -> bool:
    return has(value, name) and not is_page(value)


# ---- calls ----------------------------------------------------------------------------------------------------------


async def _make_async(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    result = method(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


def _make(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return method(*args, **kwargs)


async def _make_once_async(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    with never_again():
        return await _make_async(method, args, kwargs)


def _make_once(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with never_again():
        return method(*args, **kwargs)


_MAKERS: Final[Mapping[tuple[bool, bool], Callable[..., Any]]] = {
    (False, False): _make,
    (False, True): _make_once,
    (True, False): _make_async,
    (True, True): _make_once_async,
}
"""The functions that make a call, by whether it is async, and whether it is never repeated."""


def _checked(
    wrapping: Wrapping, path: str, method: Any, args: Any, kwargs: Any
) -> tuple[bool | None, bool]:
    """Check the arguments of a call, and return when it may be repeated: see `Wrapping.repeats`."""
    sdk, owner = wrapping.sdk, getattr(method, "__self__", None)
    arguments = named(method, args, kwargs) if sdk is not None or wrapping.max_bytes else kwargs
    try:
        if sdk is not None:
            allowed = wrapping.allow_plaintext_credentials
            sdk.check_call(arguments, owner, allow_plaintext_credentials=allowed)
        if wrapping.max_bytes:
            check_bytes(wrapping.max_bytes, arguments)
        return wrapping.repeats(Call(path, args, kwargs), arguments, owner)
    except BridgeError as error:
        wrapping.add_base(error)
        raise


def _ready(
    wrapping: Wrapping, path: str, method: Any, args: Any, kwargs: Any, *, is_async: bool
) -> Any:
    """Check the arguments of a call, and return the function that makes it."""
    idempotent, is_once = _checked(wrapping, path, method, args, kwargs)
    return wrapping.bound(path, is_async=is_async, idempotent=idempotent, is_once=is_once)


def _awaiting(wrapping: Wrapping, path: str, method: Any) -> Any:
    """Return the proxy of a method that is an async function."""

    async def begin(*args: Any, **kwargs: Any) -> Any:
        result = await method(*args, **kwargs)
        return await AsyncItems.at_first_item(result) if _is_stream(result, "__anext__") else result

    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        protected = _ready(wrapping, path, method, args, kwargs, is_async=True)
        result = await wrapping.run_async(protected, begin, args, kwargs)
        return _watched(result, wrapping, protected, path)

    return call


def _blocking(wrapping: Wrapping, path: str, method: Any) -> Any:
    """Return the proxy of a method that blocks."""

    def begin(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        return Items.at_first_item(result) if _is_stream(result, "__next__") else result

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        protected = _ready(wrapping, path, method, args, kwargs, is_async=False)
        result = wrapping.run(protected, begin, args, kwargs)
        # the method only prepared the call, which `is_prepared` could not know
        if has(result, "__enter__") and not has(result, "__next__"):
            return EntryPoint(
                Prepared(wrapping, protected, partial(method, *args, **kwargs), result)
            )
        return _watched(result, wrapping, protected, path)

    return call


def _entering(wrapping: Wrapping, path: str, method: Any) -> Any:
    """Return the proxy of a blocking client's method whose result is entered to make the call."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        protected = _ready(wrapping, path, method, args, kwargs, is_async=False)
        make = partial(method, *args, **kwargs)
        return EntryPoint(Prepared(wrapping, protected, make, make()))

    return call


def _beginning(wrapping: Wrapping, path: str, method: Any, *, is_prepared: bool) -> Any:
    """Return the proxy of a method whose result is awaited or entered to make the call."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        protected = _ready(wrapping, path, method, args, kwargs, is_async=True)
        make = partial(method, *args, **kwargs)
        # created on entering: it may hold a coroutine, which a rejected call would never await
        if is_prepared:
            return AsyncEntry(Prepared(wrapping, protected, make))
        result = make()
        if has(result, "__aenter__"):
            return AsyncEntry(Prepared(wrapping, protected, make, result))
        if has(result, "__await__"):
            seen = partial(_watched, wrapping=wrapping, protected=protected, path=path)
            return ProxiedAnswer(Prepared(wrapping, protected, make, result), seen)
        if wrapping.sdk is None:
            wanted = "what its client is, async: wrap an object of its own for methods that block"
            raise config_error(f"wrap.methods[{path!r}]", wanted, result)
        return _watched(result, wrapping, protected, path)

    return call


def _streaming(wrapping: Wrapping, path: str, method: Any) -> Any:
    """Return the proxy of a generator function of any object."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        idempotent, _ = _checked(wrapping, path, method, args, kwargs)
        return wrapping.generating(path, method, idempotent=idempotent)(*args, **kwargs)

    return call


def _watched(result: Any, wrapping: Wrapping, protected: Any, path: str) -> Any:
    if isinstance(result, AsyncItems | Items):
        return result.watched(partial(wrapping.broken_off, protected))
    owner = path.rpartition(".")[0]
    if is_page(result):
        return Page(result, wrapping, owner)
    return Wrapped(result, wrapping, owner) if wrapping.is_part(path, result) else result


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
