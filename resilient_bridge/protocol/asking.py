"""How much of a replay is requested: less after a connection that died of its answer, so that no
two die of the same cause.

A replay may be too large (a frame above the bound), or too slow (its whole answer takes longer than
a timeout). Rule: two connections never die of the same cause without a change in what is requested.
The first step is a later `since`; the next is no request (the join ends UNKNOWN, too_large); then,
if the server pushes the replay unasked, a new session; finally the client fails with an
explanation.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from ..failure import Failure


if TYPE_CHECKING:
    from .clock import Now
    from .policies.replay import Replay


_LATER: Final = 2.0  # seconds of overlap, where a larger answer does not fit
_FORGIVEN_AFTER: Final = 600.0  # seconds after which a little more is requested again
# close codes that say nothing about what was requested
_NEVER_FOR_IT: Final = frozenset({1000, 1001, 1012, 1013})


class Extent(IntEnum):
    """What a join requests."""

    ALL = 0  # from `since` minus the overlap, then without `since`
    LATER = 1  # from just before the last message
    NOTHING = 2
    NEW_SESSION = 3
    HOPELESS = 4


class Asking:
    """One client's memory of what the next join requests."""

    def __init__(self) -> None:
        self.extent = Extent.ALL
        self._since: Now | None = None
        self._cut_short = 0  # connections in a row that were lost in the middle of an answer

    def begin(self, now: Now) -> None:
        """A join starts. After a while without such a loss a little more is requested again."""
        if self.extent and self._since is not None and now.since(self._since) >= _FORGIVEN_AFTER:
            self.extent = (
                Extent(self.extent - 1) if self.extent <= Extent.NOTHING else Extent.NOTHING
            )
            self._since = now

    def overlap(self, policy: Replay) -> float:
        return policy.overlap if self.extent is Extent.ALL else min(policy.overlap, _LATER)

    def joined(self) -> None:
        self._cut_short = 0

    def lost(self, failure: Failure, now: Now, awaited: Awaited, *, is_joining: bool) -> Failure:
        """A connection ended. Returns its failure, or the one that ends the client."""
        if not self._is_its_death(failure, now, awaited, is_joining=is_joining):
            return failure
        self._since = now
        self._cut_short = 0
        last = Extent.HOPELESS if failure.code == "PROTO_MESSAGE_TOO_BIG" else Extent.NOTHING
        # If nothing is requested, the request cannot be reduced: a first join requests nothing.
        self.extent = (
            min(Extent(self.extent + 1), last)
            if awaited.is_open or self.extent >= Extent.NOTHING
            else Extent.NEW_SESSION
        )
        if self.extent is not Extent.HOPELESS:
            return failure
        return Failure.of(
            "SYS_CONFIG_INVALID",
            "what the server sends at each join is larger than Dialect.max_frame_bytes, whatever is asked for",
            cause=failure.cause,
            suggestions=(
                "raise Dialect.max_frame_bytes above what the server holds for a session",
            ),
        )

    def _is_its_death(
        self, failure: Failure, now: Now, awaited: Awaited, *, is_joining: bool
    ) -> bool:
        """Return whether this connection died of what was requested."""
        close, by = failure.details.get("close_code"), failure.details.get("close_by")
        if failure.code == "PROTO_MESSAGE_TOO_BIG" and by == "us":
            return awaited.is_open or is_joining
        if not awaited.is_open:
            return False
        if failure.details.get("reason") == "replay" or failure.code == "CONN_HEARTBEAT_TIMEOUT":
            return True
        if by == "peer":
            return close not in _NEVER_FOR_IT and isinstance(close, int) and close < 4000
        self._cut_short = self._cut_short + 1 if awaited.is_receiving(now) else 0
        return self._cut_short >= 2


class Awaited:
    """The requests of one connection that have no answer yet.

    `received`: when bytes of a data frame last arrived.
    """

    def __init__(self, policy: Replay) -> None:
        self._policy = policy
        self._open: set[str] = set()
        self._asked_at = 0.0
        self.received: Now | None = None

    def ask(self, identity: str, now: Now) -> None:
        self._open.add(identity)
        self._asked_at = now.mono

    def answer(self, identity: str | None) -> None:
        """An answer arrived; one without our id answers any request."""
        if identity in self._open:
            self._open.discard(identity)
        elif self._open:
            self._open.pop()

    def end(self) -> None:
        self._open.clear()

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def is_receiving(self, now: Now) -> bool:
        """Return whether a data frame is half received and still arriving."""
        return self.received is not None and now.mono - self.received.mono <= self._policy.timeout

    def until(self, since: float, now: Now) -> float:
        """Return until when (monotonic) to wait for what follows a frame that began at `since`, of
        which bytes have just arrived.
        """
        latest = max(since, self._asked_at) + self._policy.max_seconds
        return min(now.mono + self._policy.timeout, latest)
