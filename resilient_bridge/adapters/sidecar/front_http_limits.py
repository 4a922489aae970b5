"""The bounds of an HTTP front: sessions, bodies, queues and waits.

Rule: every queue and every wait that a client can cause has a number here.
"""

from __future__ import annotations

import attrs


_MIB = 1 << 20


@attrs.frozen(kw_only=True)
class HttpLimits:
    """The bounds of one HTTP front. Times are in seconds, sizes in bytes.

    `queue_bytes` and `event_bytes` are compared with numbers of characters.
    """

    sessions: int = 1_000  # open client sessions; `initialize` beyond that is answered 503
    idle_seconds: float = 1_800.0  # a session without an HTTP request for so long ends
    header_bytes: int = 64 << 10
    body_bytes: int = 64 * _MIB
    body_seconds: float = 60.0  # to receive the whole body of a request
    # queued for a slow client on one stream; a message beyond that ends its session or request
    queue_bytes: int = 16 * _MIB
    # kept per session for `Last-Event-ID`, and queued per stream without a reader
    events: int = 1_000
    # the size of the kept events of a session; the newest is kept whatever its size
    event_bytes: int = 16 * _MIB
    keep_alive_seconds: float = 15.0  # between two SSE comments on a silent stream
    retry_seconds: float = 1.0  # `retry` for clients: the wait before they resume a stream
    close_seconds: float = 5.0  # at the end: for requests in progress, then for connections
