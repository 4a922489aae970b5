"""One outgoing message and its outcome.

Rule: an entry is settled once, and its state is final from then on.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from ..failure import Failure, config_error
from ..telemetry.event import Event
from ..telemetry.events import MessageUndelivered


if TYPE_CHECKING:
    from .clock import Now
    from .facts import Frame
    from .messages import Message


_KEY_LENGTH: Final = 256
NO_PINGS: Final = "this connection has no pings, so nothing shows whether it left this machine"


class EntryState(StrEnum):
    """QUEUED -> WRITTEN -> one of the others.

    WRITTEN is final where the dialect can confirm nothing: it left this machine.
    """

    QUEUED = "queued"
    WRITTEN = "written"
    CONFIRMED = "confirmed"
    EXPIRED = "expired"
    DROPPED = "dropped"
    WITHDRAWN = "withdrawn"
    DEAD = "dead"
    UNKNOWN = "unknown"


@attrs.define(eq=False, repr=False, weakref_slot=False)  # slots: there is one for each send (P11)
class Entry:
    """A send or a request.

    `waiters` belongs to the driver: what it wakes when the entry is settled.
    """

    seq: int
    id: str
    key: str
    type: str
    frame: Frame
    expires: Now | None = None
    coalesce: str | None = None
    volatile: bool = False
    is_request: bool = False
    idempotent: bool = False
    timeout: float = 0.0  # seconds within which a request must be answered
    state: EntryState = EntryState.QUEUED
    is_settled: bool = False
    generation: int = 0
    sends: int = 0
    written_at: Now | None = None
    deaths: int = 0
    is_poison: bool = False
    holds_room: bool = True  # of the outbox: until it is written where nothing can confirm it
    confirmation: Literal["applied", "read"] | None = None
    reason: str = ""
    failure: Failure | None = None
    refusals: tuple[Failure, ...] = ()  # what the server refused meanwhile without naming a message
    answer: Message | None = None
    waiters: Any = None
    size: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        frame = self.frame
        self.size = (
            len(frame.encode()) if isinstance(frame, str) and not frame.isascii() else len(frame)
        )

    def __repr__(self) -> str:
        """Type, key and state; never the payload."""
        return f"<Entry {self.seq} {self.type} {self.state} key={self.key}>"

    def write(self, now: Now, generation: int) -> None:
        """The entry was handed out on connection `generation`; the first time starts its age."""
        self.state = EntryState.WRITTEN
        self.sends += 1
        self.generation = generation
        if self.written_at is None:
            self.written_at = now

    def is_expired(self, now: Now) -> bool:
        """Return whether its ttl has ended, by either clock."""
        return self.expires is not None and (
            now.mono >= self.expires.mono or now.wall >= self.expires.wall
        )

    def age(self, now: Now) -> float:
        """Seconds since it was first handed out; 0 if it never was."""
        return 0.0 if self.written_at is None else now.since(self.written_at)

    def settle(
        self,
        state: EntryState,
        *,
        confirmation: Any = None,
        reason: str = "",
        failure: Failure | None = None,
        answer: Message | None = None,
    ) -> None:
        self.state = state
        self.is_settled = True
        self.confirmation = confirmation
        self.reason = reason
        self.failure = failure
        self.answer = answer


def check_key(key: object) -> None:
    """Raise ConfigError unless `key` can be sent: 1 to 256 characters that UTF-8 can encode."""
    try:
        if isinstance(key, str) and 0 < len(key) <= _KEY_LENGTH and key.encode():
            return
    except UnicodeEncodeError:
        pass
    raise config_error(
        "send.idempotency_key",
        f"1 to {_KEY_LENGTH} characters without lone surrogates",
        ascii(key)[:80],
    )


def outcome_event(entry: Entry, now: Now) -> Event | None:
    """Return the event of a send that ended undelivered or with an unknown outcome; None for all
    others.

    On a connection without pings every send ends so: they are reported together, at its loss.
    """
    outcome = _OUTCOMES.get(entry.state)
    if entry.is_request or outcome is None or entry.reason == NO_PINGS:
        return None
    return MessageUndelivered(
        at=now.at, type=entry.type, key=entry.key, outcome=outcome, reason=entry.reason
    )


_OUTCOMES: Final[dict[EntryState, Literal["dropped", "unknown"]]] = {
    EntryState.DROPPED: "dropped",
    EntryState.EXPIRED: "dropped",
    EntryState.UNKNOWN: "unknown",
}
