"""The session's state machine, as data. Everything that moves a session from one state to another is in this file.

A session lives in one state of `BridgeState`. It is moved by a *trigger*, never by assignment, and each move carries a
reason that the user can read. The path of a healthy link:

    IDLE -> CONNECTING -> AUTHENTICATING -> JOINING -> REPLAYING -> FLUSHING -> READY

CONNECTING covers DNS, TCP, TLS and the upgrade under one deadline. From AUTHENTICATING on, frames
flow; replayable ones are held aside until the join has ended in a verdict. FLUSHING sends what was
queued while the link was down; READY lasts until the link ends. A loss leads to BACKOFF, and from
there back to CONNECTING. SUSPENDED *is* BACKOFF, reported to the user as "disconnected": five
attempts failed, or the outage outlived the session's grace; the schedule continues.

Rule 1: a state is left only along an edge of TRANSITIONS; anything else is a defect here, not a
network condition.
Rule 2: EXPECTED says which control frames of the server are legal in which state; the rest is
PROTO_SEQUENCE_ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..telemetry.events import BridgeState as S


if TYPE_CHECKING:
    from collections.abc import Mapping


#: States in which a connection exists.
LINKED: Final = frozenset(
    {S.AUTHENTICATING, S.JOINING, S.REPLAYING, S.FLUSHING, S.READY, S.DRAINING}
)
#: States in which a ping is legal, and a dead link would be followed by another.
PROBED: Final = frozenset({S.JOINING, S.REPLAYING, S.FLUSHING, S.READY})
#: States in which the outbox and the request lane are drained to the wire.
SENDING: Final = frozenset({S.FLUSHING, S.READY, S.DRAINING})

_LIVE: Final = (S.CONNECTING, S.AUTHENTICATING, S.JOINING, S.REPLAYING, S.FLUSHING, S.READY)

#: (state, trigger) -> state
TRANSITIONS: Final[Mapping[tuple[S, str], S]] = {
    (S.IDLE, "open"): S.CONNECTING,
    (S.CONNECTING, "connected"): S.AUTHENTICATING,
    (S.AUTHENTICATING, "authenticated"): S.JOINING,
    (S.JOINING, "joined"): S.REPLAYING,
    (S.JOINING, "merged"): S.FLUSHING,
    (S.REPLAYING, "session_lost"): S.JOINING,
    (S.REPLAYING, "merged"): S.FLUSHING,
    (S.FLUSHING, "flushed"): S.READY,
    **{(state, "lost"): S.BACKOFF for state in _LIVE},
    **{(state, "suspended"): S.SUSPENDED for state in (*_LIVE, S.BACKOFF)},
    (S.BACKOFF, "retry"): S.CONNECTING,
    (S.SUSPENDED, "retry"): S.CONNECTING,
    **{
        (state, "fatal"): S.FAILED for state in (S.IDLE, *_LIVE, S.DRAINING, S.BACKOFF, S.SUSPENDED)
    },
    (S.FLUSHING, "drain"): S.DRAINING,
    (S.READY, "drain"): S.DRAINING,
    **{(state, "close"): S.CLOSING for state in S if state not in {S.CLOSING, S.CLOSED}},
    (S.CLOSING, "closed"): S.CLOSED,
}

_JOINED: Final = ("joined", "pong", "replay", "error", "auth_error", "ack")
#: State -> the dialect's names of the control frames that are legal in it (fields of Dialect).
EXPECTED: Final[Mapping[S, tuple[str, ...]]] = {
    **dict.fromkeys(LINKED, _JOINED),
    S.AUTHENTICATING: ("auth_ack", "auth_error", "error"),
}
