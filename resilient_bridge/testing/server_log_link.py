"""The conversation of a bridge with a log: a greeting, answers to replay requests, pongs.

Rule: each frame is answered at once and in order. A connection gets live events from its first
moment, so that they may come before the answer to its request, and again in it.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request

from .server_link import AcceptedConnection, Tasks
from .server_listener import Refusal
from .server_log import Log
from .server_log_forms import ABSENT, Forms, decoded
from .server_wire import ENCODE, Stamps


class LogDoor:
    """The listener's view of a bridge with a log; `received` has all clients' frames, in order."""

    starting_for = 0.0
    max_frame_bytes = 1 << 20

    def __init__(self, forms: Forms, log: Log, stamps: Stamps, token: str | None) -> None:
        self.forms = forms
        self.log = log
        self.stamps = stamps
        self.token = token
        self.received: list[Any] = []

    def seconds(self) -> float:
        return self.stamps.seconds()

    def health(self) -> Mapping[str, Any]:
        return {"events": len(self.log)}

    def refusal(self, request: Request) -> Refusal | None:
        if self.token is None:
            return None
        brought = request.headers.get_all("Authorization")
        queried = parse_qs(request.path.partition("?")[2]).get("token", [])
        for value in (*brought, *(f"Bearer {each}" for each in queried)):
            if hmac.compare_digest(value.encode(), f"Bearer {self.token}".encode()):
                return None
        return Refusal(401, {"error": "unauthorized"})

    def accept(self, connection: ServerConnection, tasks: Tasks) -> LogLink:
        return LogLink(connection, self, tasks)


class LogLink(AcceptedConnection):
    """The conversation with one client."""

    def __init__(self, connection: ServerConnection, door: LogDoor, tasks: Tasks) -> None:
        super().__init__(connection, tasks)
        self._door = door

    def opened(self) -> None:
        """Send the greeting, and answer the request in the URL."""
        forms = self._door.forms
        greeting = forms.greeting(self._door.log.name)
        if greeting is not None:
            self.send(ENCODE(greeting))
        request = self.connection.request
        self._answer(forms.asked_in_url(request.path) if request is not None else ABSENT)

    def read(self, frame: str | bytes) -> None:
        forms, value = self._door.forms, decoded(frame)
        self._door.received.append(value)
        self._answer(forms.asked_in(value))
        if forms.pong is not None and forms.is_ping(value):
            self._notify(forms.pong)

    def _answer(self, asked: Any) -> None:
        if asked is ABSENT:
            return
        forms, log = self._door.forms, self._door.log
        texts, is_complete = log.after(asked)
        if not is_complete and forms.reset is not None:
            self._notify(forms.reset)
            texts = log.texts
        for text in texts:
            self.send(text)
        if forms.end is not None:
            self._notify(forms.end)

    def _notify(self, kind: str) -> None:
        self.send(ENCODE(self._door.forms.notice(kind)))
