"""The clients and links that are open in this process, for what looks at all of them: health, metrics.

Rule: nothing is kept alive by being listed, and what has ended is listed no longer.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

from .events import BridgeState


if TYPE_CHECKING:

    class Link(Protocol):
        """A BridgeClient, or what stands behind `reconnecting`."""

        @property
        def state(self) -> BridgeState: ...
        def health(self) -> Any: ...


_open: Final[WeakKeyDictionary[Link, str]] = WeakKeyDictionary()
_lock: Final = Lock()


def opened(link: Link, name: str) -> None:
    """List a link, by its name, from now until it is CLOSED."""
    with _lock:
        _open[link] = name


def open_links() -> list[tuple[str, Link]]:
    """Return every link that was entered and is not CLOSED, with its name."""
    with _lock:
        listed = list(_open.items())
    return [(name, link) for link, name in listed if link.state is not BridgeState.CLOSED]
