"""What to do about an errno or a failed execution: advice that a person can follow.

Rule: the most likely advice comes first. It is general: no port, path or program of one
installation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .taxonomy import Executed


ERRNO_HINTS: Mapping[str, tuple[str, ...]] = {
    "ECONNREFUSED": (
        "check the port",
        "check that the server is running: `ps aux | grep <its name>`",
    ),
    "ECONNRESET": (
        "reconnect with a growing wait: the server may have crashed, or the network is unstable",
        "if it recurs, read the server's log",
    ),
    "ETIMEDOUT": (
        "repeat with a growing wait: the server hangs, the network is slow, or the operation blocks",
        "allow more time, or ask for less at once",
    ),
    "EADDRINUSE": (
        "wait for the server on that port, or use another port",
        "see who holds it: `lsof -i :<port>`; end a stale process, then repeat",
    ),
    "ENOENT": ("check the path's spelling and the working directory", "create what is missing"),
    "EACCES": ("check the permissions, or run as a user that has them",),
    "EPERM": ("check the permissions, or run as a user that has them",),
    "EISDIR": ("name a file in that directory",),
    "ENOTDIR": ("check the path: a part of it is no directory",),
    "EROFS": ("write to another file system: this one is read-only",),
    "ENOSPC": ("free space on the device",),
    "SPAWN": (
        "look for a stale process on its port: `lsof -ti :<port>`; end it, then start again",
        "start it on another port",
    ),
    "SLOW_START": (
        "go on as if it had started: it may only be slow",
        "read the daemon's log, or allow more time to start",
    ),
}
"""Ranked advice by errno, and for a daemon that does not start (SPAWN) or is slow to (SLOW_START)."""


def hints(name: str) -> tuple[str, ...]:
    """Return the advice for an errno's name; none if there is none."""
    return ERRNO_HINTS.get(name, ())


class Execution(NamedTuple):
    """The meaning of a peer's execution error: our code, what to do, and other known facts."""

    code: str
    suggestions: tuple[str, ...]
    executed: Executed | None = None
    details: Mapping[str, Any] = {}


EXECUTIONS: Mapping[str, Execution] = {
    "CSP_BLOCKED": Execution(
        "TOOL_EXECUTION_FAILED",
        (
            'repeat it with world: "isolated", for queries of the page alone',
            'world: "auto" falls back to that by itself',
        ),
        Executed.MAYBE,
        {"fallback": {"world": "isolated"}},
    ),
    "EXECUTION_TIMEOUT": Execution(
        "TOOL_TIMEOUT",
        (
            "raise its timeout_ms, or break it into smaller operations",
            "keep each operation under 2 s",
        ),
    ),
    "EXECUTION_ERROR": Execution(
        "TOOL_EXECUTION_FAILED",
        (
            "correct the script: try it in the browser's console first",
            "let it return plain data: no page elements, functions or symbols",
        ),
        Executed.YES,
    ),
}
"""The execution errors of script-running peers, by the code they send."""
