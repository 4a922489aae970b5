"""Gets the running asyncio loop; without one, raises a typed error that names what runs instead and
what to use there.

Rule: it is called only where a wait is needed, so that a call that succeeds at once does not pay
for it.
"""

from __future__ import annotations

import sys
from asyncio import (
    _get_running_loop,  # pyright: ignore[reportPrivateUsage] -- as anyio does
    get_running_loop,
)
from typing import TYPE_CHECKING, Any, Final

from ..failure import config_error


if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from ..failure import BridgeError


running_or_none: Final = _get_running_loop
"""Returns the running asyncio loop, None without one: where a call of ours would be one too many."""


def running_loop(what: str) -> AbstractEventLoop:
    """Return the running asyncio loop; raise ConfigError, which names `what`, under trio or without
    a loop.
    """
    try:
        return get_running_loop()
    except RuntimeError:
        raise no_loop(what) from None


def no_loop(what: str) -> BridgeError:
    """Return the ConfigError for `what`, which needs asyncio and was called without it."""
    found = "a task of trio" if _is_trio() else "no running event loop"
    wanted = "asyncio (anyio: backend='asyncio'), or a sync function, which needs no event loop"
    return config_error(what, wanted, found)


def _is_trio() -> bool:
    trio: Any = sys.modules.get("trio")  # a program that runs trio has imported it
    if trio is None:
        return False
    try:
        trio.lowlevel.current_task()
    except (RuntimeError, AttributeError):  # AttributeError: trio is still being imported
        return False
    return True
