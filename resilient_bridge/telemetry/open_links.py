"""The clients and links that are open in this process, for health and metrics.

Rule: the list holds weak references only, and a closed link is not returned.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

from .events import BridgeState


if TYPE_CHECKING:

    class Link(Protocol):
        """A BridgeClient, or the supervisor behind `reconnecting`."""

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
