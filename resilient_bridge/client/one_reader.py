"""One task at a time may read a stream; a second one is refused, and the first goes on.

Rule: an `async for` reads until its iterator is dropped, which is when its loop has ended.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..failure import config_error


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..failure import BridgeError

T = TypeVar("T")


def second_reader(path: str) -> BridgeError:
    """Return the error of a second reader."""
    wanted = "one reader at a time: one task that reads, and hands what it reads to others by an asyncio.Queue"
    return config_error(path, wanted, "a second one")


class Loop(Generic[T]):
    """The iterator of one `async for`, of the task that began it."""

    def __init__(self, following: Callable[[], Awaitable[T]]) -> None:
        self._following = following
        self.task: asyncio.Task[Any] | None = asyncio.current_task()

    def __aiter__(self) -> Loop[T]:
        return self

    async def __anext__(self) -> T:
        try:
            return await self._following()
        except Exception:
            self.task = None  # the loop ends
            raise


class OneReader:
    """Whose turn it is to read one stream. `path` is how its errors name it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._loop: weakref.ref[Loop[Any]] | None = None

    def begins(self, following: Callable[[], Awaitable[T]]) -> Loop[T]:
        """Return the iterator of a new `async for`. Raises ConfigError while another task reads."""
        self.check()
        loop = Loop(following)
        self._loop = weakref.ref(loop)
        return loop

    def check(self, *, is_waiting: bool = False) -> None:
        """Raise ConfigError if another task reads; `is_waiting`: one waits at this moment."""
        loop = None if self._loop is None else self._loop()
        task = None if loop is None else loop.task
        if is_waiting or (
            task is not None and task is not asyncio.current_task() and not task.done()
        ):
            raise second_reader(self._path)
