"""The proxies behind `wrap`: a client and its parts, started streams, and prepared calls.

Rule: a proxy equals its object for `isinstance` and attribute access (wrapt's ObjectProxy); it adds
the policy, and nothing visible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from ...errors import BridgeError, stays_here
from .sdks import SDK, sdk_of
from .stream_proxies import AsyncItems, Items, Proxy, has


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from typing import NoReturn, Self


class Shared(Protocol):
    """What all proxies of one client share."""

    sdk: SDK | None

    def seen(self, path: str, value: Any, owner: Any) -> Any:
        """Return the proxy for an attribute of `owner`."""

    def protected(self, path: str, method: Any) -> Any:
        """Return the proxy of a method whose calls go through the policy."""

    def broken_off(self, protected: Any, error: Exception) -> None:
        """Note that a stream failed after its first item."""

    def add_base(self, error: BridgeError) -> None:
        """Make an error of ours one of the SDK's, too."""


class Wrapped(Proxy):
    """A client, or a part of one that has calls."""

    def __init__(self, value: Any, wrapping: Shared, path: str) -> None:
        super().__init__(value)
        self._self_wrapping = wrapping
        self._self_path = path

    def __getattr__(self, name: str) -> Any:
        value: Any = getattr(self.__wrapped__, name)
        path = self._self_path
        if name == "_client" and path and sdk_of(value) is self._self_wrapping.sdk:
            # how a step reaches other parts of the client
            return Wrapped(value, self._self_wrapping, "")
        if name.startswith("_"):
            return value
        return self._self_wrapping.seen(f"{path}.{name}" if path else name, value, self)

    @property
    def __binding__(self) -> Shared:
        return self._self_wrapping

    def __enter__(self) -> Self:
        self.__wrapped__.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        return self.__wrapped__.__exit__(*error)

    async def __aenter__(self) -> Self:
        await self.__wrapped__.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self.__wrapped__.__aexit__(*error)


def _class_of(proxy: Any) -> Any:
    return cast("Any", type(proxy.__wrapped__))


class Page(Wrapped):
    """A page of a list: fetching the next one is a call, also while iterating."""

    def __getattr__(self, name: str) -> Any:
        value: Any = getattr(self.__wrapped__, name)
        if name == "iter_pages":
            return value.__func__.__get__(self)
        is_call = name == "get_next_page" or (
            name == "next_page" and self.__wrapped__.config.get("page_token")
        )
        return self._self_wrapping.protected(f"{self._self_path}.{name}", value) if is_call else value

    # The methods of its class, with the proxy as `self`.

    def __iter__(self) -> Any:
        return _class_of(self).__iter__(self)

    def __next__(self) -> Any:
        return _class_of(self).__next__(self)

    def __aiter__(self) -> Any:
        return _class_of(self).__aiter__(self)

    def __anext__(self) -> Any:
        return _class_of(self).__anext__(self)


class AsyncEntry:
    """A context manager of an async client: entering or awaiting it is the call.

    `manager` is None for one that is created then.
    """

    def __init__(self, manager: Any, wrapping: Shared, protected: Any, again: tuple[Any, Any, Any]) -> None:
        self._manager = manager
        self._wrapping, self._protected, self._again = wrapping, protected, again
        self._is_fresh = manager is not None

    def __reduce_ex__(self, *_: object) -> NoReturn:
        stays_here(self)

    # read from the object, `__getattr__` would create its manager
    __copy__ = __deepcopy__ = __reduce_ex__

    def __getattr__(self, name: str) -> Any:
        if self._manager is None:
            self._make()
        return getattr(self._manager, name)

    def _make(self) -> None:
        method, args, kwargs = self._again
        self._manager = method(*args, **kwargs)
        self._is_fresh = True

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._begin(self._ask).__await__()

    async def _begin(self, step: Callable[[], Any]) -> Any:
        try:
            return await self._protected(step, (), {})
        except BridgeError as error:
            self._wrapping.add_base(error)
            raise

    async def _ask(self) -> Any:
        return await self._fresh()

    def _fresh(self) -> Any:
        """Return an unused manager: most can be used only once."""
        if not self._is_fresh:
            self._make()
        self._is_fresh = False
        return self._manager

    async def __aenter__(self) -> Any:
        entered = await self._begin(self._enter)
        if isinstance(entered, AsyncItems):
            entered.watched(partial(self._wrapping.broken_off, self._protected))
        return entered

    async def _enter(self) -> Any:
        entered = await self._fresh().__aenter__()
        return await AsyncItems.at_first_item(entered) if has(entered, "__anext__") else entered

    async def __aexit__(self, *error: object) -> Any:
        return await self._manager.__aexit__(*error)


class EntryPoint(Proxy):
    """A context manager of a blocking client: entering it is the call."""

    def __init__(self, manager: Any, wrapping: Shared, protected: Any, again: tuple[Any, Any, Any]) -> None:
        super().__init__(manager)
        self._self_wrapping, self._self_protected, self._self_again = wrapping, protected, again
        self._self_fresh = True

    def __enter__(self) -> Any:
        try:
            entered = self._self_protected(self._self_enter, (), {})
        except BridgeError as error:
            self._self_wrapping.add_base(error)
            raise
        if isinstance(entered, Items):
            entered.watched(partial(self._self_wrapping.broken_off, self._self_protected))
        return entered

    def _self_enter(self) -> Any:
        if not self._self_fresh:  # most can be entered once only
            method, args, kwargs = self._self_again
            self.__wrapped__ = method(*args, **kwargs)
        self._self_fresh = False
        entered = self.__wrapped__.__enter__()
        return Items.at_first_item(entered) if has(entered, "__next__") else entered

    def __exit__(self, *error: object) -> Any:
        return self.__wrapped__.__exit__(*error)


class ProxiedAnswer(Proxy):
    """An awaitable, or an object to iterate over after that, such as a list of pages.

    `seen` makes the proxy of the result.
    """

    def __init__(
        self,
        answer: Any,
        wrapping: Shared,
        protected: Any,
        again: tuple[Any, Any, Any],
        seen: Callable[[Any, Any, Any], Any],
    ) -> None:
        super().__init__(answer)
        self._self_seen = seen
        self._self_wrapping, self._self_protected, self._self_again = wrapping, protected, again
        self._self_fresh = True

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._self_answer().__await__()

    async def _self_answer(self) -> Any:
        try:
            result = await self._self_protected(self._self_ask, (), {})
        except BridgeError as error:
            self._self_wrapping.add_base(error)
            raise
        return self._self_seen(result, self._self_wrapping, self._self_protected)

    async def _self_ask(self) -> Any:
        if not self._self_fresh:
            method, args, kwargs = self._self_again
            self.__wrapped__ = method(*args, **kwargs)
        self._self_fresh = False
        return await self.__wrapped__

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in await self:
            yield item
