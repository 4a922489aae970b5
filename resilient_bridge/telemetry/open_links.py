"""The clients and links that are open in this process, for health and metrics.

Rule: the list holds weak references only. A link is returned while its owner lives: not once it is
closed, not in a forked child, which has a copy of it, and not after its event loop was closed.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from ..locks import new_lock
from .events import BridgeState


if TYPE_CHECKING:

    class Link(Protocol):
        """A BridgeClient, or the supervisor behind `reconnecting`."""

        @property
        def state(self) -> BridgeState: ...
        def health(self) -> Any: ...


class _Entry(NamedTuple):
    """Where a link is open."""

    name: str
    pid: int
    loop: weakref.ref[asyncio.AbstractEventLoop]

    def is_alive(self) -> bool:
        loop = self.loop()
        return self.pid == os.getpid() and loop is not None and not loop.is_closed()


_open: Final[WeakKeyDictionary[Link, _Entry]] = WeakKeyDictionary()
_lock: Final = new_lock()


def opened(link: Link, name: str) -> None:
    """List a link, by its name, from now until it is CLOSED; call it in the link's event loop."""
    entry = _Entry(name, os.getpid(), weakref.ref(asyncio.get_running_loop()))
    with _lock:
        _open[link] = entry


def open_links() -> list[tuple[str, Link]]:
    """Return every link of this process that was entered and is not CLOSED, with its name."""
    with _lock:
        listed = list(_open.items())
    return [
        (entry.name, link)
        for link, entry in listed
        if entry.is_alive() and link.state is not BridgeState.CLOSED
    ]
