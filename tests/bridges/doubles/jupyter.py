"""jupyter_server 2.21.1 with ipykernel 7.4.0: `/api/kernels/{id}/channels?session_id=`, JSON frames.

The server buffers only while it knows that no client is connected, and for the last session only. The binary
sub-protocol v1 is not spoken.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.bridges.doubles.base import Double
from tests.bridges.doubles.connection import Connection, decoded


class _Client(Connection):
    session = ""


class _Kernel:
    """A kernel process, and what the server knows of its clients."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.clients: dict[str, _Client] = {}  # by session id
        self.buffer: list[dict[str, Any]] = []
        self.buffering_for: str | None = None  # the last session, while no client is connected
        self.digests: dict[str, None] = {}
        self.parent: dict[str, Any] = {}  # the header of what runs, or ran last
        self.executions = 0


class Jupyter(Double):
    """The server and its kernels. A channel is a kernel; None is `kernel`, which runs from the first.

    `runs_for`: seconds between `execute_input` and `execute_reply`. `digests`: how many signatures a kernel remembers.
    `kernel_survives`: a restart of the server finds the kernel again; otherwise it answers 404 until `start_kernel`.
    `server_log`: what the server says to nobody else. `effects` are the requests that a kernel carried out.
    """

    connection_class = _Client

    def __init__(
        self,
        rng: random.Random,
        *,
        token: str | None = None,
        kernel: str = "k1",
        runs_for: float = 0.0,
        digests: int = 65_536,
        kernel_survives: bool = False,
        notices_after: float = 0.0,
    ) -> None:
        super().__init__(rng, notices_after=notices_after)
        self.token_wanted, self.kernel, self.runs_for = token, kernel, runs_for
        self.digests, self.kernel_survives = digests, kernel_survives
        self.server_log: list[str] = []
        self.kernels: dict[str, _Kernel] = {}
        self.start_kernel()

    def refuse(self, path: str, headers: Mapping[str, str]) -> int | None:
        """403 for a wrong token, 404 for a kernel that is not there."""
        parts = urlsplit(path)
        lower = {name.lower(): value for name, value in headers.items()}
        token = dict(parse_qsl(parts.query)).get("token") or lower.get(
            "authorization", ""
        ).removeprefix("token ")
        if self.token_wanted is not None and token != self.token_wanted:
            return 403
        return None if self._kernel_of(parts.path) else 404

    async def attend(self, connection: _Client) -> None:
        """Say what was buffered, then carry messages to the kernel; garbage closes the socket without a code."""
        kernel = self._kernel_of(connection.path)
        if kernel is None:
            return None
        connection.session = connection.query.get("session_id") or self.uuid()
        self._join(kernel, connection)
        async for frame in connection.frames():
            message = decoded(frame)
            if not isinstance(message, dict) or not isinstance(message.get("header"), dict):
                return connection.close(1005)
            self._hear(kernel, connection.session, message)
        return None

    async def publish(self, number: int, channel: str | None = None) -> None:
        """The code that runs prints the number. A kernel that is not there prints nothing."""
        self.record(number, channel)
        kernel = self.kernels.get(channel or self.kernel)
        if kernel is not None:
            content = {"name": "stdout", "text": f"{number}\n"}
            self._emit(
                kernel, "iopub", "stream", content, kernel.parent, metadata={"number": number}
            )

    def start_kernel(self, kernel: str | None = None) -> None:
        """Start a kernel, under an id that may have been used before."""
        self.kernels[kernel or self.kernel] = _Kernel(kernel or self.kernel)

    def forget(self) -> None:
        """The server had the clients and the buffers; its kernels die with it, unless they survive."""
        for kernel in self.kernels.values():
            kernel.clients, kernel.buffer, kernel.buffering_for = {}, [], None
        if not self.kernel_survives:
            self.kernels.clear()

    def gone(self, connection: _Client) -> None:
        """The last client of a kernel is away: from now on the server buffers."""
        for kernel in self.kernels.values():
            if kernel.clients.get(connection.session) is connection:
                del kernel.clients[connection.session]
                if not kernel.clients:
                    kernel.buffer, kernel.buffering_for = [], connection.session

    def _kernel_of(self, path: str) -> _Kernel | None:
        words = path.strip("/").split("/")
        fits = words[:2] == ["api", "kernels"] and words[3:] == ["channels"]
        return self.kernels.get(words[2]) if fits else None

    def _join(self, kernel: _Kernel, connection: _Client) -> None:
        earlier = kernel.clients.get(connection.session)
        kernel.clients[connection.session] = connection
        if earlier is not None:
            earlier.close(1005)
        elif kernel.buffering_for == connection.session:
            for message in kernel.buffer:
                connection.say(message)
        elif kernel.buffering_for is not None:
            discarded = (
                f"Discarding {len(kernel.buffer)} buffered messages for {kernel.buffering_for}"
            )
            self.server_log.append(discarded)
        kernel.buffer, kernel.buffering_for = [], None

    def _hear(self, kernel: _Kernel, session: str, message: dict[str, Any]) -> None:
        if self.kernels.get(kernel.name) is not kernel or self._is_repeated(kernel, message):
            return  # no answer at all
        kind = str(message["header"].get("msg_type", ""))
        if not kind.endswith("_request"):
            return
        self.effects.append(message)
        if kind == "shutdown_request":
            self._shut_down(kernel, session, message)
            return
        header = message["header"]
        self._emit(kernel, "iopub", "status", {"execution_state": "busy"}, header)
        if kind == "execute_request":
            kernel.parent, kernel.executions = header, kernel.executions + 1
            content = {"code": message["content"].get("code"), "execution_count": kernel.executions}
            self._emit(kernel, "iopub", "execute_input", content, header)
        if kind == "execute_request" and self.runs_for:
            self.later(self.runs_for, self._reply, kernel, session, message)
        else:
            self._reply(kernel, session, message)

    def _reply(self, kernel: _Kernel, session: str, message: dict[str, Any]) -> None:
        header, channel = message["header"], message.get("channel", "shell")
        kind = header["msg_type"].removesuffix("_request") + "_reply"
        content = {"status": "ok", "execution_count": kernel.executions}
        self._emit(kernel, channel, kind, content, header, reader=session)
        self._emit(kernel, "iopub", "status", {"execution_state": "idle"}, header)

    def _shut_down(self, kernel: _Kernel, session: str, message: dict[str, Any]) -> None:
        content = {"status": "ok", "restart": False}
        for channel, reader in (("iopub", None), (message.get("channel", "control"), session)):
            self._emit(kernel, channel, "shutdown_reply", content, message["header"], reader=reader)
        del self.kernels[kernel.name]  # and its sockets stay open

    def _is_repeated(self, kernel: _Kernel, message: dict[str, Any]) -> bool:
        """Whether the kernel has had the very same bytes ("Duplicate Signature")."""
        signed = [message.get(name) for name in ("header", "parent_header", "metadata", "content")]
        digest = hashlib.sha256(json.dumps(signed).encode()).hexdigest()
        if digest in kernel.digests:
            return True
        kernel.digests[digest] = None
        if len(kernel.digests) > self.digests:
            del kernel.digests[next(iter(kernel.digests))]
        return False

    def _emit(
        self,
        kernel: _Kernel,
        channel: str,
        kind: str,
        content: dict[str, Any],
        parent: dict[str, Any],
        *,
        reader: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Say a message of the kernel to all, or to the session that reads this answer."""
        header = {
            "msg_id": self.uuid(),
            "msg_type": kind,
            "username": "kernel",
            "date": self.stamp(),
        }
        message = {
            "header": {**header, "session": kernel.name, "version": "5.3"},
            "parent_header": parent,
            "metadata": metadata or {},
            "content": content,
            "buffers": [],
            "channel": channel,
        }
        if not kernel.clients:
            if kernel.buffering_for is not None and reader in {None, kernel.buffering_for}:
                kernel.buffer.append(message)
            return
        for session, client in kernel.clients.items():
            if reader in {None, session}:
                client.say(message)
