"""Blocking work beside the loop, which is never left behind.

Rule: whoever ends us waits until it has ended, so that it is not repeated, and the file not given away, while it is still at work.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ParamSpec, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable


P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run it in a thread and return what it returns. It cannot be stopped: cancelling waits for its end, and is raised then."""

    def call() -> T:
        try:
            return function(*args, **kwargs)
        except StopIteration as error:  # no future can hold it: nobody would ever be told (Python 3.11)
            raise RuntimeError("a function raised StopIteration") from error

    work = asyncio.ensure_future(asyncio.to_thread(call))
    ended: BaseException | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            ended = error
    if ended is not None:
        work.exception()
        raise ended
    return work.result()
