"""A stream that goes on in the task in which it began, for a reader in another task.

A stream of which a further request had the first item began in that request's task. Its generator
may have set a context variable, entered an `asyncio.timeout` or a task group: all of them have to be
left in the task and context in which they were entered. So that task makes each step that the
reader asks for, and ends with the stream.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from collections.abc import Callable


class StreamTask:
    """An async generator whose steps are made by `serve`, which its task awaits."""

    __slots__ = ("_items", "_loop", "_next", "_task")

    def __init__(self, items: Any, task: asyncio.Task[Any] | None) -> None:
        if task is None:
            message = "a stream that is raced needs a running task"
            raise RuntimeError(message)
        self._items = items
        self._task = task
        self._loop = task.get_loop()
        self._next: asyncio.Future[Any] = self._loop.create_future()

    async def serve(self) -> None:
        """Make the steps that the reader asks for, until the stream has ended or is closed."""
        try:
            is_open = True
            while is_open:
                step, args, answer = await self._next
                self._next = self._loop.create_future()
                is_open = await self._made(step, args, answer)
        finally:
            close = getattr(self._items, "aclose", None)
            if close is not None:
                await close()

    async def _made(
        self, step: Callable[..., Any], args: tuple[Any, ...], answer: asyncio.Future[Any]
    ) -> bool:
        """Make a step; return whether another one may follow."""
        try:
            item = await step(*args)
        except CancelledError:
            answer.cancel()
            raise
        except BaseException as error:  # noqa: BLE001 -- it is the reader's
            if not answer.done():
                answer.set_exception(error)
            return False
        if answer.done():
            return False  # the reader was cancelled: nobody is there to take the item
        answer.set_result(item)
        return True

    async def asend(self, value: Any) -> Any:
        """Return the next item."""
        return await self._asked(self._items.asend, value)

    async def athrow(self, error: BaseException) -> Any:
        """Raise an error in the generator; return the next item."""
        return await self._asked(self._items.athrow, error)

    async def aclose(self) -> None:
        """Close the generator; its task has ended then."""
        self._task.cancel()
        await self._ended()

    async def _asked(self, step: Callable[..., Any], *args: Any) -> Any:
        if self._task.done():
            return await step(*args)  # it has ended, and says so
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._next.set_result((step, args, answer))
        try:
            return await answer
        except CancelledError:
            # Of the reader: it is cancelled out of the step, as if it had made it.
            self._task.cancel()
            await self._ended()
            raise

    async def _ended(self) -> None:
        """Wait until the task has ended, which was cancelled; the reader's own cancellation waits, too."""
        cut: CancelledError | None = None
        while not self._task.done():
            try:
                await asyncio.wait([self._task])
            except CancelledError as error:
                cut = error
        try:
            if cut is not None:
                raise cut
        finally:
            cut = None
