"""The running loop of asyncio, or a typed error that says what runs instead and what works there.

Rule: it is called only where something must be waited for, so that a call that succeeds at once
pays nothing.
"""

from __future__ import annotations

import sys
from asyncio import get_running_loop
from typing import TYPE_CHECKING, Any

from ..errors import config_error


if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from ..errors import BridgeError


def running_loop(what: str) -> AbstractEventLoop:
    """Return the loop in which `what` waits. Raises ConfigError under trio, and where nothing runs."""
    try:
        return get_running_loop()
    except RuntimeError:
        raise no_loop(what) from None


def no_loop(what: str) -> BridgeError:
    """Return the error for something that needs asyncio and has been called without it."""
    found = "a task of trio" if _is_trio() else "no running event loop"
    wanted = "asyncio (anyio: backend='asyncio'), or a sync function, which needs no event loop"
    return config_error(what, wanted, found)


def _is_trio() -> bool:
    trio: Any = sys.modules.get("trio")  # a program that runs trio has imported it
    if trio is None:
        return False
    try:
        trio.lowlevel.current_task()
    except (RuntimeError, AttributeError):  # the second: it is still being imported
        return False
    return True
