"""What the relay asks of a client's side, and what it offers there. Standard input and output is one front, HTTP is the other.

Rule: a front knows bytes, sessions of HTTP and who may come in; ids, eras and outcomes are the relay's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .message import Key, Message


class Client(Protocol):
    """One client session, as the relay sees it."""

    def deliver(self, message: Message, request: Key | None) -> None:
        """Bring a message to the client. Never blocks.

        `request` is the key of the client's own request in whose answer stream it belongs: that of the answer itself, and of what
        the server sends while it works on a request. None: it belongs to no request.
        """

    def drop(self, request: Key) -> None:
        """This request of the client ends without an answer, because the client cancelled it."""


class Relayed(Protocol):
    """A relay as a front sees it: one server, and one client, or several that share it. All in the loop's thread."""

    def connect(self, client: Client) -> None:
        """A client session began."""

    def receive(self, client: Client, message: Message) -> None:
        """A client sent a message. Never blocks and never raises; what is wrong with it is an answer."""

    def disconnect(self, client: Client) -> None:
        """A client session ended: what it asked is cancelled."""

    def status(self) -> Mapping[str, Any]:
        """Return how the server is: `status` ("ok", "degraded" or "down") and details, as JSON can hold them, without secrets."""
        ...

    async def close(self) -> None:
        """End the server's connection, in bounded time."""
