"""A client that others wrote, as a process that makes its next call when a test says so.

Rule: what it was told is read from what it prints; the sidecar that it starts is its first child.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.adapters.sidecar import servers
from tests.adapters.sidecar.standing_in import outcome_in, tree_of


CLIENTS: dict[str, Callable[..., servers.Command]] = {
    "python-legacy": lambda *rest: servers.python_client("legacy", *rest),
    "python-modern": lambda *rest: servers.python_client("auto", *rest),
    "typescript": servers.typescript_client,
}


class Paced:
    """Its lines. `session` is the first: the server's name and tools."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Read the lines as they come."""
        self._process = process
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.session = self.line()

    @property
    def sidecar(self) -> int:
        """The process that it started as its server."""
        return tree_of(self._process.pid)[0]

    def begin(self) -> None:
        """Let it make its next call."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def line(self, seconds: float = 60) -> dict[str, Any]:
        """The next line that it prints; AssertionError if it has ended, queue.Empty if none comes."""
        line = self._lines.get(timeout=seconds)
        assert line is not None, "the client has ended"
        return line

    def call(self, seconds: float = 60) -> dict[str, Any]:
        """Let it make its next call, and return what it was told."""
        self.begin()
        return self.line(seconds)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)


@contextmanager
def paced(client: str, plan: dict[str, Any], *target: str) -> Iterator[Paced]:
    """A client that makes the calls of the plan one by one, of a command or of a URL; killed with what it started, if it stays."""
    pipe = subprocess.PIPE
    command = CLIENTS[client](json.dumps({"paced": True, **plan}), *target)
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, cwd=servers.ROOT
    ) as process:
        try:
            yield Paced(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()  # the sidecar sees the end of its input


def outcome_of_line(line: dict[str, Any]) -> str:
    """How a call ended by what the client prints of it; "error" is one that it raised."""
    return "error" if "error" in line else outcome_in(line["meta"], line["text"], line["isError"])
