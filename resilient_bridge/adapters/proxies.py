"""The proxies behind `wrap`: a client and its parts, streams that have begun, and calls that have not.

Rule: a proxy is what it stands for, to `isinstance` and to everybody who reads its attributes (wrapt's ObjectProxy); it adds
the policy, and nothing that can be seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import wrapt

from ..errors import BridgeError


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from typing import Self


__all__ = ["Answer", "AsyncEntry", "AsyncItems", "Entry", "Items", "Wrapped"]

_NOTHING = object()


class Shared(Protocol):
    """What all proxies of one client share."""

    def seen(self, path: str, value: Any) -> Any:
        """Return what stands for an attribute."""

    def lend(self, error: BridgeError) -> None:
        """Make an error of ours one of the SDK's, too."""


class Wrapped(wrapt.ObjectProxy[Any]):
    """A client, or a part of one that has calls."""

    def __init__(self, value: Any, wrapping: Shared, path: str) -> None:
        super().__init__(value)
        self._self_wrapping = wrapping
        self._self_path = path

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__wrapped__, name)
        if name.startswith("_"):
            return value
        path = self._self_path
        return self._self_wrapping.seen(f"{path}.{name}" if path else name, value)

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


class AsyncItems(wrapt.ObjectProxy[Any]):
    """A stream whose first item has come."""

    def __init__(self, stream: Any, first: Any) -> None:
        super().__init__(stream)
        self._self_first = first
        self._self_on_break: Callable[[Exception], None] | None = None

    def watched(self, on_break: Callable[[Exception], None]) -> Self:
        """Have a failure after the first item told to somebody."""
        self._self_on_break = on_break
        return self

    @classmethod
    async def begun(cls, stream: Any) -> Self:
        """Return the stream at its first item, or at its end."""
        try:
            return cls(stream, await anext(stream))
        except StopAsyncIteration:
            return cls(stream, _NOTHING)
        except BaseException:
            close = getattr(stream, "close", None) or getattr(stream, "aclose", None)
            if close is not None:
                await close()
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        first, self._self_first = self._self_first, _NOTHING
        if first is not _NOTHING:
            return first
        try:
            return await anext(self.__wrapped__)
        except StopAsyncIteration:
            raise
        except Exception as error:
            if self._self_on_break is not None:
                self._self_on_break(error)
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self.__wrapped__.__aexit__(*error)


class Items(wrapt.ObjectProxy[Any]):
    """A stream whose first item has come, for a client that blocks."""

    def __init__(self, stream: Any, first: Any) -> None:
        super().__init__(stream)
        self._self_first = first
        self._self_on_break: Callable[[Exception], None] | None = None

    def watched(self, on_break: Callable[[Exception], None]) -> Self:
        """Have a failure after the first item told to somebody."""
        self._self_on_break = on_break
        return self

    @classmethod
    def begun(cls, stream: Any) -> Self:
        """Return the stream at its first item, or at its end."""
        try:
            return cls(stream, next(stream))
        except StopIteration:
            return cls(stream, _NOTHING)
        except BaseException:
            close = getattr(stream, "close", None)
            if close is not None:
                close()
            raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        first, self._self_first = self._self_first, _NOTHING
        if first is not _NOTHING:
            return first
        try:
            return next(self.__wrapped__)
        except StopIteration:
            raise
        except Exception as error:
            if self._self_on_break is not None:
                self._self_on_break(error)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> Any:
        return self.__wrapped__.__exit__(*error)


class AsyncEntry(wrapt.ObjectProxy[Any]):
    """A context manager of an async client: entering it is the call."""

    def __init__(self, manager: Any, wrapping: Shared, protected: Any, again: tuple[Any, Any, Any]) -> None:
        super().__init__(manager)
        self._self_wrapping, self._self_protected, self._self_again = wrapping, protected, again
        self._self_fresh = True

    async def __aenter__(self) -> Any:
        try:
            return await self._self_protected(self._self_enter, (), {})
        except BridgeError as error:
            self._self_wrapping.lend(error)
            raise

    async def _self_enter(self) -> Any:
        if not self._self_fresh:  # most can be entered once only
            method, args, kwargs = self._self_again
            self.__wrapped__ = method(*args, **kwargs)
        self._self_fresh = False
        return await self.__wrapped__.__aenter__()

    async def __aexit__(self, *error: object) -> Any:
        return await self.__wrapped__.__aexit__(*error)


class Entry(wrapt.ObjectProxy[Any]):
    """A context manager of a client that blocks: entering it is the call."""

    def __init__(self, manager: Any, wrapping: Shared, protected: Any, again: tuple[Any, Any, Any]) -> None:
        super().__init__(manager)
        self._self_wrapping, self._self_protected, self._self_again = wrapping, protected, again
        self._self_fresh = True

    def __enter__(self) -> Any:
        try:
            return self._self_protected(self._self_enter, (), {})
        except BridgeError as error:
            self._self_wrapping.lend(error)
            raise

    def _self_enter(self) -> Any:
        if not self._self_fresh:  # most can be entered once only
            method, args, kwargs = self._self_again
            self.__wrapped__ = method(*args, **kwargs)
        self._self_fresh = False
        return self.__wrapped__.__enter__()

    def __exit__(self, *error: object) -> Any:
        return self.__wrapped__.__exit__(*error)


class Answer(wrapt.ObjectProxy[Any]):
    """Something to await, or to iterate over after that: a list of pages, for one."""

    def __init__(self, answer: Any, wrapping: Shared, protected: Any, again: tuple[Any, Any, Any]) -> None:
        super().__init__(answer)
        self._self_wrapping, self._self_protected, self._self_again = wrapping, protected, again
        self._self_fresh = True

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._self_answer().__await__()

    async def _self_answer(self) -> Any:
        try:
            return await self._self_protected(self._self_ask, (), {})
        except BridgeError as error:
            self._self_wrapping.lend(error)
            raise

    async def _self_ask(self) -> Any:
        if not self._self_fresh:
            method, args, kwargs = self._self_again
            self.__wrapped__ = method(*args, **kwargs)
        self._self_fresh = False
        return await self.__wrapped__

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in await self:
            yield item
