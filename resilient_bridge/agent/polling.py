"""Ask again and again until it is so: tenacity runs the loop.

Rule: an error does not pass through tenacity's loop. Its frames hold the state of the loop, which
would hold the error, so that both would stay until the garbage collector comes.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def poll_until(
    is_over: Callable[[], Awaitable[bool]],
    *,
    wait: Callable[[int], float],
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Call `is_over` until it returns True. Raises what `is_over` raises.

    `wait` gets the number of calls so far, and returns the seconds to sleep before the next one.
    """
    import tenacity  # here: an agent that polls nothing does not load it

    failed: Exception | None = None

    async def is_over_or_failed() -> bool:
        nonlocal failed
        try:
            return await is_over()
        except Exception as error:  # noqa: BLE001 -- raised below
            failed = error
            return True

    polls = tenacity.AsyncRetrying(
        sleep=sleep,
        wait=lambda state: wait(state.attempt_number),
        retry=tenacity.retry_if_result(operator.not_),
    )
    await polls(is_over_or_failed)
    try:
        if failed is not None:
            raise failed
    finally:
        failed = None  # an error must not be held by a frame that it holds
