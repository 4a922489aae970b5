"""What an errno is called, the same on every system, and what to do about it.

Rule: the most likely advice comes first; it names no port, path or program of one installation.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping


def errno_name(number: int) -> str:
    """Return the name of an errno (ECONNREFUSED), without Windows's WSA; empty if it has none."""
    return errno.errorcode.get(number, "").removeprefix("WSA")


# ---- advice that a person can follow ----------------------------------------------------------------


_ERRNO_HINTS: Mapping[str, tuple[str, ...]] = {
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
    return _ERRNO_HINTS.get(name, ())
