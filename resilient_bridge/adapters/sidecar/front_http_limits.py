"""The bounds of an HTTP front: sessions, bodies, queues and waits.

Rule: every queue and every wait that a client can cause has a number here.
"""

from __future__ import annotations

import attrs


_MIB = 1 << 20


@attrs.frozen(kw_only=True)
class HttpLimits:
    """The bounds of one HTTP front. Sizes are in bytes, times in seconds."""

    sessions: int = 1_000  # client sessions at a time; one more is answered 503
    idle_seconds: float = 1_800.0  # a session without any HTTP request for so long ends
    header_bytes: int = 64 << 10
    body_bytes: int = 64 * _MIB
    body_seconds: float = 60.0  # to receive the whole body of a request
    # messages queued for a slow client on one stream; one more ends it
    queue_bytes: int = 16 * _MIB
    # kept per session for `Last-Event-ID`, and for a stream that does not exist yet
    events: int = 1_000
    # the size of those that are kept; the newest is kept whatever its size
    event_bytes: int = 16 * _MIB
    keep_alive_seconds: float = 15.0  # between the comments on a silent stream
    retry_seconds: float = 1.0  # how long a client is asked to wait before it resumes a stream
    close_seconds: float = 5.0  # at the end: for requests under way, and once more for connections
