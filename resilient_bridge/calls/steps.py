"""The steps that a call waits for, each able to run in a thread or in a task."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..failure import config_error
from ..transports.event_loop import running_loop


if TYPE_CHECKING:
    from collections.abc import Callable

    from ..world import World


class Step(Protocol):
    """A step that the runner carries out by blocking or by suspending."""

    def block(self) -> Any:
        """Do it in this thread, and return its result."""

    async def suspend(self) -> Any:
        """Do it in this task, and return its result."""


class CallOnce:
    """A call of the function, or of a rung of the Fallback.

    A rung may be sync although the function is async.
    """

    __slots__ = ("args", "function", "kwargs")

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs

    def block(self) -> Any:
        """Call it.

        Raises ConfigError for a function that returns an awaitable, which would end outside of
        every layer.
        """
        return settled(self.function, self.function(*self.args, **self.kwargs))

    async def suspend(self) -> Any:
        """Call it, and await its result."""
        result = self.function(*self.args, **self.kwargs)
        return await result if isawaitable(result) else result


class Discard:
    """Close a returned value that will not be read, because another attempt follows."""

    __slots__ = ("answer",)

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def block(self) -> None:
        """Close it if it can be closed."""
        close = getattr(self.answer, "close", None)
        if callable(close):
            close()

    async def suspend(self) -> None:
        """Close it if it can be closed; aiohttp's responses are closed by a sync function."""
        close = getattr(self.answer, "aclose", None)
        if callable(close):
            await cast("Any", close())
        else:
            self.block()


def settled(function: Callable[..., Any], result: Any) -> Any:
    """Return the result of a sync function, or raise ConfigError if it is an awaitable."""
    if not hasattr(cast("Any", type(result)), "__await__"):
        return result
    if hasattr(result, "close"):
        result.close()  # otherwise Python warns that it was never awaited
    wanted = "an async function, or one that returns no awaitable"
    raise config_error(
        getattr(function, "__qualname__", repr(function)), wanted, type(result).__name__
    )


class Sleep:
    """The wait before the next attempt."""

    __slots__ = ("seconds", "world")

    def __init__(self, world: World, seconds: float) -> None:
        self.world = world
        self.seconds = seconds

    def block(self) -> None:
        """Block for that long."""
        self.world.sleep(self.seconds)

    async def suspend(self) -> None:
        """Suspend for that long."""
        if self.seconds > 0:
            running_loop("Retry")
        await self.world.asleep(self.seconds)
