"""How BridgeServer answers its listener: rejected upgrades, the bounds of its behaviour, and a dialogue for each connection.

Rule: it reads the behaviour at the moment of the question, so that a test may change it at any time.
"""

from __future__ import annotations

from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request

from .server_link import Link, Tasks
from .server_listener import Refusal
from .server_session import BridgeMemory


class Door:
    """The memory of a bridge, as its listener sees it."""

    def __init__(self, memory: BridgeMemory) -> None:
        self._memory = memory

    @property
    def starting_for(self) -> float:
        """Seconds after a start in which no connection is taken."""
        return self._memory.behaviour.starting_for

    @property
    def max_frame_bytes(self) -> int:
        """Larger frames end the connection with 1009."""
        return self._memory.behaviour.max_frame_bytes

    def seconds(self) -> float:
        """The bridge's own wall clock."""
        return self._memory.stamps.seconds()

    def health(self) -> dict[str, Any]:
        """What /health says beside the status."""
        return {"sessions": len(self._memory.sessions)}

    def refusal(self, _request: Request) -> Refusal | None:
        """The rejection that the behaviour has, if any."""
        behaviour = self._memory.behaviour
        if behaviour.reject_upgrade is None:
            return None
        body: dict[str, Any] = {"error": "Rejected", "message": "upgrade rejected"}
        if behaviour.reject_code is not None:  # an error body as the seed prints it (R9)
            hints = ["Check session ID spelling", "Session may have expired"]
            body = {**body, "code": behaviour.reject_code, "suggestions": hints}
        return Refusal(behaviour.reject_upgrade, body, behaviour.retry_after)

    def accept(self, connection: ServerConnection, tasks: Tasks) -> Link:
        """A connection with its dialogue."""
        return Link(connection, self._memory, tasks)
