"""The bounds of an HTTP front: connections, sessions, servers, heads, bodies, queues and waits.

Rule: every queue and every wait that a client can cause has a number here.
"""

from __future__ import annotations

import sys
from typing import Final

import attrs

from ...values.fields import Value, as_seconds, count, short_seconds


_MIB = 1 << 20
_STRANGERS: Final = 4  # of so many connections one may be a stranger's
_OPEN_FILES: Final = 2  # of so many files that this process may open one may be a connection


def _is_enough(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    from ...values.fields import path_of, refuse

    if value < 2:
        refuse(
            path_of(instance, attribute),
            "at least 2: one for those who have not shown the token",
            value,
        )


@attrs.frozen(kw_only=True)
class HttpLimits(Value):
    """The bounds of one HTTP front. Times are in seconds, sizes in bytes.

    `queue_bytes` and `event_bytes` are compared with numbers of characters.
    """

    # open connections; a quarter of them is for clients that have not shown the token yet
    connections: int = attrs.field(default=400, validator=[count, _is_enough])
    # to receive the head of a request; and how long a connection stays open without a request that
    # has the token
    head_seconds: float = attrs.field(default=10.0, converter=as_seconds, validator=short_seconds)
    # open client sessions; `initialize` beyond that is answered 503
    sessions: int = attrs.field(default=1_000, validator=count)
    # servers, each of which may be a process: one for each session, and one for all requests
    # without a session. Those that are being ended count
    servers: int = attrs.field(default=64, validator=count)
    idle_seconds: float = 1_800.0  # a session without an HTTP request for so long ends
    header_bytes: int = 64 << 10
    body_bytes: int = 64 * _MIB
    # to receive the whole body of a request
    body_seconds: float = attrs.field(default=60.0, converter=as_seconds, validator=short_seconds)
    # queued for a slow client on one stream; a message beyond that ends its session or request
    queue_bytes: int = 16 * _MIB
    # kept per session for `Last-Event-ID`, and queued per stream without a reader
    events: int = 1_000
    # the size of the kept events of a session; the newest is kept whatever its size
    event_bytes: int = 16 * _MIB
    keep_alive_seconds: float = 15.0  # between two SSE comments on a silent stream
    retry_seconds: float = 1.0  # `retry` for clients: the wait before they resume a stream
    close_seconds: float = 5.0  # at the end: for requests in progress, then for connections

    @property
    def strangers(self) -> int:
        """How many of the connections may be those of clients that have not shown the token."""
        return max(1, self.connections // _STRANGERS)


def within_open_files(limits: HttpLimits) -> HttpLimits:
    """Return the limits with no more connections than half of the files that we may open.

    The rest is for servers and their pipes.
    """
    if sys.platform == "win32":
        return limits
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return limits
    return limits.evolve(connections=min(limits.connections, max(2, files // _OPEN_FILES)))
