"""The interface between a relay and its clients.

Standard input and output is one front, HTTP is the other.

Rule: a front handles bytes, HTTP sessions and access; the relay handles ids, eras and outcomes.
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

        `request` is the key of the client's request in whose response stream the message belongs;
        None for no request. An answer belongs to its own request, and so does a message that the
        server sends while it works on that request.
        """

    def drop(self, request: Key) -> None:
        """End this request of the client without an answer, because the client cancelled it."""


class Relayed(Protocol):
    """The interface of a relay for its front: one server, and one client or several that share it.

    All methods are called in the event loop's thread.
    """

    def connect(self, client: Client) -> None:
        """Register a client session."""

    def receive(self, client: Client, message: Message) -> None:
        """Handle a message of a client. Never blocks and never raises: errors are answers."""

    def disconnect(self, client: Client) -> None:
        """Unregister a client session; its requests are cancelled."""

    def status(self) -> Mapping[str, Any]:
        """Return the state of the server as JSON data, without secrets.

        `status` is "ok", "degraded" or "down"; the other members are details.
        """
        ...

    def schema_of(self, tool: str) -> Any:
        """Return the input schema that the server last sent for a tool; None if it sent none."""

    async def close(self) -> None:
        """Close the connection to the server, in bounded time."""
