"""The interface between a relay and its clients.

Standard input and output is one front, HTTP is the other.

Rule: a front handles bytes, HTTP sessions and access; ids, eras and outcomes are the relay's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .message import Key, Message


class Client(Protocol):
    """One client session, as the relay sees it."""

    def deliver(self, message: Message, request: Key | None) -> None:
        """Send a message to the client. Never blocks.

        `request` is the key of the client's own request in whose answer stream it belongs: that of
        the answer itself, and of messages that the server sends while it works on the request.
        None: it belongs to no request.
        """

    def drop(self, request: Key) -> None:
        """End this request of the client without an answer, because the client cancelled it."""


class Relayed(Protocol):
    """A relay, as its front uses it: one server, and one client or several that share it.

    All in the loop's thread.
    """

    def connect(self, client: Client) -> None:
        """Register a client session."""

    def receive(self, client: Client, message: Message) -> None:
        """Handle a message of a client. Never blocks and never raises; an error is an answer."""

    def disconnect(self, client: Client) -> None:
        """Unregister a client session; its requests are cancelled."""

    def status(self) -> Mapping[str, Any]:
        """Return the state of the server: `status` ("ok", "degraded" or "down") and details as JSON data, without secrets."""
        ...

    def schema_of(self, tool: str) -> Any:
        """Return the schema of a tool's arguments that the server sent last; None without one."""

    async def close(self) -> None:
        """End the server's connection, in bounded time."""
