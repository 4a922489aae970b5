"""Which connections an HTTP front keeps: those with the token, and a bounded number of strangers.

Rule: a connection is a stranger's until a request on it was admitted. A new stranger takes the
place of the oldest one, and never that of a client that was admitted. No I/O, no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol


if TYPE_CHECKING:
    from collections.abc import Callable

    from .front_http_limits import HttpLimits


class OpenConnection(Protocol):
    """A connection, as this book sees it."""

    @property
    def is_idle(self) -> bool:
        """Whether it has no request, so that closing it costs its client nothing but a new one."""
        ...

    def cut(self) -> None:
        """Close it at once; `Connections.closed` is called for it in a later turn of the loop."""


class Connections:
    """The open connections of one front. `on_refused` gets a reason, and words for people."""

    def __init__(self, limits: HttpLimits, on_refused: Callable[[str, str], None]) -> None:
        self.on_refused = on_refused
        self._limits = limits
        # in the order of their coming; a dict is a set that keeps it
        self._strangers: dict[OpenConnection, None] = {}
        self._admitted: dict[OpenConnection, None] = {}

    def arrived(self, connection: OpenConnection) -> None:
        """Add a new connection, a stranger's; cut the oldest strangers if there are too many."""
        self._strangers[connection] = None
        most = self._limits.strangers
        while len(self._strangers) > most:
            text = f"more than {most} connections without an admitted request: the oldest was cut"
            self.on_refused("strangers", text)
            self.make_room()

    def make_room(self) -> None:
        """Cut the connection of the oldest stranger, if there is one."""
        oldest = next(iter(self._strangers), None)
        if oldest is not None:
            del self._strangers[oldest]
            oldest.cut()

    def admit(self, connection: OpenConnection) -> bool:
        """Count a connection as that of a client; False if there are too many.

        The oldest idle connection of a client is closed for it.
        """
        if connection in self._admitted:
            return True
        most = self._limits.connections - self._limits.strangers
        if len(self._admitted) >= most:
            idle = next((other for other in self._admitted if other.is_idle), None)
            if idle is None:
                self.on_refused(
                    "connections", f"more than {most} connections of clients (--connections)"
                )
                return False
            del self._admitted[idle]
            idle.cut()
        self._strangers.pop(connection, None)
        self._admitted[connection] = None
        return True

    def closed(self, connection: OpenConnection) -> None:
        """Remove a connection that is closed; nothing happens if it is not here."""
        self._strangers.pop(connection, None)
        self._admitted.pop(connection, None)
