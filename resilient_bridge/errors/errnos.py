"""The number of an error of the operating system, and its name: the same on every system.

Windows has numbers of its own beside the errnos. Its default event loop raises them, and Python calls every one that it does
not know EINVAL: a refused connection then looks like a wrong setting. Rule: no other module reads `OSError.errno` of an error that may
come from a socket.
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
    """Return the errno of an error, also where Windows has said it in its own numbers; None if it has none."""
    winerror: object = getattr(error, "winerror", None)
    number: object = _WINDOWS.get(winerror) if isinstance(winerror, int) else None
    if number is None:
        number = getattr(error, "errno", None)
    return number if isinstance(number, int) else None


def errno_of_windows(number: int) -> int:
    """Return the errno for a number that Windows has said; the sockets' (10061) and those that mean no network are unchanged."""
    return _WINDOWS.get(number, number)


def errno_name(number: int) -> str:
    """Return the name of an errno (ECONNREFUSED), which Windows begins with WSA; empty for a number without one."""
    return errno.errorcode.get(number, "").removeprefix("WSA")
