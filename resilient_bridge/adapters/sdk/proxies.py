"""The proxies behind `wrap`: a client and its parts, started streams, and prepared calls.

Rule: for `isinstance` and attribute access a proxy behaves as its object (wrapt's ObjectProxy); it
adds only the policy.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from ...failure import stays_here
from .sdks import SDK, copied, sdk_of
from .stream_proxies import AsyncItems, Items, Proxy, has


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from typing import NoReturn, Self

    from ...calls import Policy


class Shared(Protocol):
    """The part of a `Wrapping`, which all proxies of one client share, that they use."""

    sdk: SDK | None
    policy: Policy

    def seen(self, path: str, value: Any, owner: Any) -> Any: ...
    def protected(self, path: str, method: Any) -> Any: ...
    def broken_off(self, protected: Any, error: Exception, request: object = None) -> None: ...
    def run(self, protected: Any, begin: Any, args: Any, kwargs: Any) -> Any: ...
    async def run_async(self, protected: Any, begin: Any, args: Any, kwargs: Any) -> Any: ...


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
            # a method in `steps` reaches other parts of the client by this
            return Wrapped(value, self._self_wrapping, "")
        if name.startswith("_"):
            return value
        return self._self_wrapping.seen(f"{path}.{name}" if path else name, value, self)

    @property
    def __binding__(self) -> Shared:
        return self._self_wrapping

    def __copy__(self) -> Self:
        """A copy of the object, with this policy and its state."""
        return type(self)(copied(self.__wrapped__), self._self_wrapping, self._self_path)

    def __repr__(self) -> str:
        kind: type = self.__wrapped__.__class__
        where = f" at .{self._self_path}" if self._self_path else ""
        return f"<wrapped {kind.__module__.partition('.')[0]}.{kind.__name__}{where}, {self._self_wrapping.policy!r}>"

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
        self, wrapping: Shared, protected: Any, make: Callable[[], Any], made: Any = None
    ) -> None:
        self._wrapping, self._protected, self._make = wrapping, protected, make
        self.made = made
        self._is_fresh = made is not None

    def shown(self) -> Any:
        """Return the object without using it."""
        if self.made is None:
            self.made, self._is_fresh = self._make(), True
        return self.made

    def fresh(self) -> Any:
        """Return an unused object, to be used now."""
        if not self._is_fresh:
            self.made = self._make()
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

    `seen` returns the proxy of the awaited result.
    """

    def __init__(self, call: Prepared, seen: Callable[[Any], Any]) -> None:
        super().__init__(call.made)
        self._self_call, self._self_seen = call, seen

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._self_answer().__await__()

    async def _self_answer(self) -> Any:
        return self._self_seen(await self._self_call.run_async(self._self_ask))

    async def _self_ask(self) -> Any:
        self.__wrapped__ = self._self_call.fresh()
        return await self.__wrapped__

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in await self:
            yield item
