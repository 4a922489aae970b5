"""The errno and its name of an operating system error, the same on every system; and what to do about it.

Windows has its own numbers beside the errnos. Its default event loop raises them, and Python
reports every one that it does not know as EINVAL: a refused connection then looks like a wrong
setting. Rule: no other module reads `OSError.errno` of an error that may come from a socket. The
most likely advice comes first; it names no port, path or program of one installation.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final


_WINDOWS: Final[Mapping[int, int]] = {
    32: errno.EBUSY,  # ERROR_SHARING_VIOLATION: another process has the file open
    33: errno.EBUSY,  # ERROR_LOCK_VIOLATION
    64: errno.ECONNRESET,  # ERROR_NETNAME_DELETED
    121: errno.ETIMEDOUT,  # ERROR_SEM_TIMEOUT
    233: errno.EPIPE,  # ERROR_PIPE_NOT_CONNECTED
    995: errno.ECONNABORTED,  # ERROR_OPERATION_ABORTED
    1225: errno.ECONNREFUSED,  # ERROR_CONNECTION_REFUSED
    1229: errno.ENOTCONN,  # ERROR_CONNECTION_INVALID
    1231: errno.ENETUNREACH,  # ERROR_NETWORK_UNREACHABLE
    1232: errno.EHOSTUNREACH,  # ERROR_HOST_UNREACHABLE
    1234: errno.ECONNREFUSED,  # ERROR_PORT_UNREACHABLE
    1236: errno.ECONNABORTED,  # ERROR_CONNECTION_ABORTED
    1450: errno.ENOBUFS,  # ERROR_NO_SYSTEM_RESOURCES
    1460: errno.ETIMEDOUT,  # ERROR_TIMEOUT
}


def errno_of(error: BaseException) -> int | None:
    """Return the errno of an error, converted from a Windows number if needed, or None."""
    winerror: object = getattr(error, "winerror", None)
    number: object = _WINDOWS.get(winerror) if isinstance(winerror, int) else None
    if number is None:
        number = getattr(error, "errno", None)
    return number if isinstance(number, int) else None


def errno_of_windows(number: int) -> int:
    """Return the errno for a Windows number.

    The sockets' numbers (10061) and those that mean no network are unchanged.
    """
    return _WINDOWS.get(number, number)


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
