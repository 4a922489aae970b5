"""What the proxies of one wrapped client share: its policy and state, which attributes are calls, and how each kind is made.

Rule: a call goes through the policy wherever it is reached from; everything else is left as it is.
"""

from __future__ import annotations

import inspect
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

from ..errors import BridgeError
from ..pipeline.protect import bind
from ..pipeline.states import States
from ..pipeline.streams import begin_held, broken_off
from .borrowed import lend
from .limits import check_bytes
from .proxies import Answer, AsyncEntry, AsyncItems, Entry, Items, Wrapped
from .repeats import Call


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..pipeline.breaker_state import CircuitState
    from ..pipeline.policy import Policy
    from .repeats import Idempotent
    from .sdks import SDK

__all__ = ["Wrapping", "wrapped"]

_NO_CALLS: Final = frozenset({"close", "aclose"})
_REQUESTS: Final = frozenset(
    {"get", "post", "put", "patch", "delete", "request"}
)  # of a client itself, for paths without a method


class Wrapping:
    """What all proxies of one client share: the policy, its state, and who may be repeated."""

    def __init__(
        self,
        policy: Policy,
        *,
        name: str,
        sdk: SDK | None,
        is_async: bool,
        idempotent: Idempotent,
        methods: Mapping[str, Policy | None],
        max_bytes: Mapping[str, int],
    ) -> None:
        self.policy = policy
        self.name = name
        self.sdk = sdk
        self.is_async = is_async
        self.idempotent = idempotent
        self.methods = methods
        self.max_bytes = max_bytes
        self.states = States(name)
        self._bound: dict[tuple[str, bool, bool], Any] = {}
        if is_async or sdk is None or not sdk.async_part:
            self.bound(
                "", is_async=is_async, is_idempotent=False
            )  # a policy that cannot be used is refused now, not at a call

    def circuit_state(self) -> CircuitState | None:
        """Return the circuit in use, None without a Breaker."""
        return self.states.current

    def allows(self, call: Call) -> bool:
        """Return whether a call may be repeated although it may have run."""
        if callable(self.idempotent):
            return bool(self.idempotent(call))
        if isinstance(self.idempotent, bool):
            return self.idempotent or (self.sdk is not None and self.sdk.is_model_call(call.method))
        return call.method in self.idempotent or (
            self.sdk is not None and self.sdk.is_model_call(call.method)
        )

    def bound(self, path: str, *, is_async: bool, is_idempotent: bool) -> Any:
        """Return the function that makes calls of this path, behind their policy."""
        key = path, is_async, is_idempotent
        if key not in self._bound:
            self._bound[key] = bind(
                self.methods.get(path) or self.policy,
                _make_async if is_async else _make,
                idempotent=is_idempotent,
                name=f"{self.name}.{path}" if path else self.name,
                states=self.states,
            )
        return self._bound[key]

    def lend(self, error: BridgeError) -> None:
        """Make an error of ours one of the SDK's, too."""
        if self.sdk is not None:
            lend(error, self.sdk.base_error())

    def broken_off(self, protected: Any, error: Exception) -> None:
        """A stream failed after its first item: the circuit hears of it."""
        plan = protected.__binding__.plan
        broken_off(plan, begin_held(plan), error)

    # ---- what an attribute is ---------------------------------------------------------------------------------

    def seen(self, path: str, value: Any) -> Any:
        """Return what stands for an attribute: a protected call, a part with calls below, or the attribute itself."""
        if self.sdk is not None and path in self.sdk.derived:
            return _deriving(value, self)
        if self._is_call(path, value):
            return self._protected(path, value)
        if self.is_part(path, value):
            return Wrapped(value, self, path)
        return value

    def _is_call(self, path: str, value: object) -> bool:
        if not callable(value) or isinstance(value, type) or path.rpartition(".")[2] in _NO_CALLS:
            return False
        if path in self.methods:
            return True
        return self.sdk is not None and not self.sdk.has_calls(value) and ("." in path or path in _REQUESTS)

    def is_part(self, path: str, value: object) -> bool:
        if self.sdk is not None and self.sdk.has_calls(value):
            return True
        return any(name.startswith(f"{path}.") for name in self.methods)

    def _protected(self, path: str, method: Any) -> Any:
        if not self._is_async_at(path):
            return _blocking(self, path, method)
        is_plain = (
            not inspect.iscoroutinefunction(inspect.unwrap(method)) or "with_streaming_response." in path
        )
        return _beginning(self, path, method) if is_plain else _awaiting(self, path, method)

    def _is_async_at(self, path: str) -> bool:
        if self.sdk is not None and self.sdk.async_part:
            return path.startswith(f"{self.sdk.async_part}.")
        return self.is_async


def _has(value: object, name: str) -> bool:
    """Whether a value is of a kind: asked of its class, as the language itself asks."""
    return hasattr(type(value), name)


# ---- calls ----------------------------------------------------------------------------------------------------------


async def _make_async(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = method(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


def _make(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return method(*args, **kwargs)


def _ready(wrapping: Wrapping, path: str, args: Any, kwargs: Any, *, is_async: bool) -> Any:
    """Check the arguments of a call, and return the function that makes it."""
    try:
        check_bytes(wrapping.max_bytes, kwargs)
    except BridgeError as error:
        wrapping.lend(error)
        raise
    return wrapping.bound(path, is_async=is_async, is_idempotent=wrapping.allows(Call(path, args, kwargs)))


def _awaiting(wrapping: Wrapping, path: str, method: Any) -> Any:
    """A method that is an async function."""

    async def begin(*args: Any, **kwargs: Any) -> Any:
        result = await method(*args, **kwargs)
        return await AsyncItems.begun(result) if _has(result, "__anext__") else result

    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        protected = _ready(wrapping, path, args, kwargs, is_async=True)
        try:
            result = await protected(begin, args, kwargs)
        except BridgeError as error:
            wrapping.lend(error)
            raise
        return _watched(result, wrapping, protected, path)

    return call


def _blocking(wrapping: Wrapping, path: str, method: Any) -> Any:
    """A method of a client that blocks."""

    def begin(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        return Items.begun(result) if _has(result, "__next__") else result

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        protected = _ready(wrapping, path, args, kwargs, is_async=False)
        try:
            result = protected(begin, args, kwargs)
        except BridgeError as error:
            wrapping.lend(error)
            raise
        if _has(result, "__enter__") and not _has(result, "__next__"):
            return Entry(result, wrapping, protected, (method, args, kwargs))
        return _watched(result, wrapping, protected, path)

    return call


def _beginning(wrapping: Wrapping, path: str, method: Any) -> Any:
    """A method of an async client that only prepares: what it returns is awaited or entered, and that is the call."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        protected = _ready(wrapping, path, args, kwargs, is_async=True)
        result = method(*args, **kwargs)
        if _has(result, "__aenter__"):
            return AsyncEntry(result, wrapping, protected, (method, args, kwargs))
        if _has(result, "__await__"):
            return Answer(result, wrapping, protected, (method, args, kwargs))
        return result

    return call


def _watched(result: Any, wrapping: Wrapping, protected: Any, path: str) -> Any:
    if isinstance(result, AsyncItems | Items):
        return result.watched(partial(wrapping.broken_off, protected))
    return Wrapped(result, wrapping, path.rpartition(".")[0]) if wrapping.is_part(path, result) else result


def _deriving(method: Any, wrapping: Wrapping) -> Any:
    """A method that returns another client of the same kind."""

    @wraps(method)
    def derive(*args: Any, **kwargs: Any) -> Any:
        return wrapped(method(*args, **kwargs), wrapping)

    return derive


def wrapped(client: Any, wrapping: Wrapping) -> Any:
    """Return the proxy of a client, its own retries switched off."""
    if wrapping.sdk is not None:
        client = wrapping.sdk.without_retries(client)
    return Wrapped(client, wrapping, "")
