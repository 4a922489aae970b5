"""The events of links, calls and stores, and the two enums they carry.

Frozen, past-tense records, so that pure code can create them and tests can compare them. None
carries a payload, an argument or a secret; a session id, a message type and a key are allowed.
Public as `rb.events`, which also has those of the modules beside this one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs

from ..failure import WHY_STOPPED, Severity, redact, what_happened
from .event import ALWAYS, QUIET_WAIT, Event, with_failure


if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ..failure import Failure
    from .event import Counts

__all__ = [
    "AcknowledgementLate",
    "CallLeftBehind",
    "CircuitChanged",
    "ClockJumped",
    "Closed",
    "Connected",
    "Disconnected",
    "DuplicateConflict",
    "Event",
    "FeatureRefused",
    "FellBack",
    "GaveUp",
    "Joined",
    "LateReply",
    "LimitChanged",
    "MessageRejected",
    "MessageResent",
    "MessageUndelivered",
    "OutboundInDoubt",
    "ReconnectScheduled",
    "ReplayIgnored",
    "Resumed",
    "RetryRecovered",
    "RetryScheduled",
    "StateChanged",
    "StateSetAside",
    "StoreChanged",
    "Suspended",
]

_LOST = "connection lost"
_NOT_REACHED = frozenset({"connect_refused", "connect_failed", "dns"})
_NOT_CONNECTED = frozenset(
    {"timeout", "tls", "upgrade_rejected", "rejected", "auth_expired", "auth_rejected"}
)


class BridgeState(StrEnum):
    """The state of a bridge.

        async with rb.BridgeClient("wss://host/ws") as bridge:
            await bridge.wait_ready()
            print(bridge.state is rb.bridge.BridgeState.READY)      # True

    `READY` sends and receives; `FAILED` and `CLOSED` are final.
    """

    IDLE = "IDLE"
    CONNECTING = "CONNECTING"
    AUTHENTICATING = "AUTHENTICATING"
    JOINING = "JOINING"
    REPLAYING = "REPLAYING"
    FLUSHING = "FLUSHING"
    READY = "READY"
    BACKOFF = "BACKOFF"
    SUSPENDED = "SUSPENDED"
    FAILED = "FAILED"
    DRAINING = "DRAINING"
    CLOSING = "CLOSING"
    CLOSED = "CLOSED"


class Verdict(StrEnum):
    """How a resume ended: RECOVERED (nothing missed), GAP (something missed), or UNKNOWN.

        async def on_gap(gap: rb.bridge.Gap) -> None:
            if gap.verdict is rb.bridge.Verdict.UNKNOWN:
                ...      # something may be missing: read the state from its source

    The event `Resumed` has it, and the Gap that `on_gap` gets.
    """

    RECOVERED = "RECOVERED"
    GAP = "GAP"
    UNKNOWN = "UNKNOWN"


class StateChanged(Event):
    """The bridge went from `previous` to `state`, because of `reason`.

    Of a BridgeClient it also has the session, and how many messages are `queued` (never sent),
    `unconfirmed` (handed out and unanswered) and `unread` (accepted, not yet taken) at that time.
    """

    previous: BridgeState
    state: BridgeState
    reason: str
    session_id: str | None = None
    queued: int = 0
    unconfirmed: int = 0
    unread: int = 0

    __kind__ = "connection"


class Connected(Event):
    """The server accepted the connection and the credentials; joining the session follows."""

    session_id: str | None = None

    __kind__ = "connection"

    def __counts__(self, counts: Counts) -> None:
        counts.link().is_up = True
        counts.add("reconnect.attempts", 1, self.bridge, "connected")


class Disconnected(Event):
    """The connection is lost or closed; `failure` is None if we closed it."""

    reason: str
    failure: Failure | None = None
    session_id: str | None = None

    __kind__ = "connection"

    def __counts__(self, counts: Counts) -> None:
        link = counts.link()
        was_up, link.is_up = link.is_up, False
        if self.failure is None:
            return
        link.last = self.failure
        counts.failure(self.failure)
        if was_up:
            link.is_dropped = True
            link.down_since = link.down_since or self.at
            counts.add("session.drops", 1, self.bridge, self.failure.code)


class ReconnectScheduled(Event):
    """Connection attempt number `attempt` after a loss starts in `wait` seconds."""

    attempt: int
    wait: float
    reason: str
    failure: Failure | None = None
    session_id: str | None = None

    __kind__ = "connection"

    def __level__(self) -> str:
        # of a connection that is lost also the short wait; of an attempt that failed only the long one
        return "warning" if self.wait > QUIET_WAIT else "info" if self._began() == _LOST else ""

    def __text__(self) -> str:
        why = with_failure(self.reason, self.failure)
        return f"{self._began()}, attempt {self.attempt} in {self.wait:.3g} s: {why}"

    def _began(self) -> str:
        """Say of an attempt that failed that it did: no connection was lost by it."""
        reason, failure = self.reason.partition("(")[0], self.failure
        # an attempt that took too long has an error; a server that does not answer a join has none
        is_dial = reason == "timeout" and failure is not None and failure.cause is not None
        if reason in _NOT_REACHED or is_dial:
            return "not reached"
        return "not connected" if reason in _NOT_CONNECTED else _LOST

    def __counts__(self, counts: Counts) -> None:
        _count_attempt(self, counts)


class Joined(Event):
    """A session was joined for the first time in this store: there was nothing to resume."""

    session_id: str

    __kind__ = "connection"

    def __counts__(self, counts: Counts) -> None:
        counts.link().is_up = True


class Resumed(Event):
    """A join after a loss ended in `verdict`.

    `replayed` counts the missed messages delivered now; `since` and `until` are the limits of a
    GAP, where known. For a server with positions, `proof` is the evidence for RECOVERED: "stated",
    "window", "anchor", "contiguity", "session", "barrier", "backfill". `channels` has the verdicts
    of its channels; `verdict` is the worst of them. `replayed` then counts the events that came
    between the request and the verdict and were delivered with it, live ones included. Missed
    events that came after the verdict are not counted; if the verdict is reached at the anchor,
    that may be all of them, and `replayed` is 0.
    """

    session_id: str
    verdict: Verdict
    reason: str
    replayed: int = 0
    since: datetime | None = None
    until: datetime | None = None
    proof: str = ""
    channels: Mapping[str, Verdict] = attrs.Factory(dict[str, Verdict])

    __kind__ = "connection"

    def __counts__(self, counts: Counts) -> None:
        link, verdict = counts.link(), str(self.verdict)
        link.is_up = True
        if link.down_since is not None:
            seconds = max(0.0, (self.at - link.down_since).total_seconds())
            counts.add("reconnect.duration", seconds, self.bridge, verdict)
            link.down_since = None
        if verdict != "RECOVERED":
            counts.add("gaps", 1, self.bridge, verdict)


class AcknowledgementLate(Event):
    """The reader did not take a message before its server's acknowledgement deadline; the server
    may send it again.
    """

    type: str
    id: str


class Suspended(Event):
    """Disconnected mode: `attempts` failed or the outage outlasted the grace period; the schedule
    continues.
    """

    reason: str
    failure: Failure | None = None
    attempts: int = 0
    session_id: str | None = None

    __kind__ = "connection"

    def __level__(self) -> str:
        return "warning"

    def __text__(self) -> str:
        why = with_failure(self.reason, self.failure)
        return f"disconnected after {self.attempts} attempts, still trying: {why}"


class GaveUp(Event):
    """`name` stopped trying for good; `failure` says why, `seconds` how long a call took until
    then.
    """

    name: str
    failure: Failure
    seconds: float | None = None
    session_id: str | None = None

    __kind__ = "escalation"
    __notable__ = ALWAYS

    def __level__(self) -> str:
        failure = self.failure
        if failure.stopped == "not_retryable" and not failure.history:
            return "debug"
        return "critical" if failure.severity is Severity.FATAL else failure.severity.value

    def __text__(self) -> str:
        """Return the decision: a call's is that of its policy, a link's that of what was lost."""
        failure, stopped = self.failure, self.failure.stopped
        name = redact(self.name)  # by itself: the words around it must not change how it is read
        if stopped is None or self.seconds is None:
            return f"gave up on {name}: {failure}"
        attempts = len(failure.history) + 1
        why = "" if stopped == "attempts" else f", {WHY_STOPPED[stopped]}"
        # of a failure that could have passed, the last attempt has made a lasting one
        end = "; escalated to permanent" if stopped == "attempts" and failure.retryable else ""
        return (
            f"gave up on {name} after {attempts} attempt{'s' if attempts > 1 else ''} "
            f"in {self.seconds:.1f} s{why}: {what_happened(failure)}{end}"
        )

    def __counts__(self, counts: Counts) -> None:
        if self.seconds is None:  # of a link: a call that gave up is counted when it has ended
            _count_attempt(self, counts)


class RetryScheduled(Event):
    """Call number `attempt` of `name` starts in `wait` seconds.

    `failure` ended the call before; `permission` is why a repeat is safe. `attempts` is the number
    of the last call if all go on failing in this way; None if a tenacity `stop=` decides.
    """

    name: str
    attempt: int
    wait: float
    failure: Failure
    permission: str = ""
    attempts: int | None = None

    __kind__ = "escalation"

    def __level__(self) -> str:
        # As loud as RetryRecovered, so that no log shows a recovery without its retries.
        return "warning" if self.wait > QUIET_WAIT else "info"

    def __text__(self) -> str:
        of = "" if self.attempts is None else f" of {self.attempts}"
        return (
            f"retrying {redact(self.name)} in {self.wait:.3g} s (attempt {self.attempt}{of}): "
            f"{what_happened(self.failure)}"
        )

    def __counts__(self, counts: Counts) -> None:
        counts.add("retries", 1, self.name, self.failure.code)
        counts.failure(self.failure)

    def __note__(self) -> tuple[str, dict[str, Any]]:
        note = {"attempt": self.attempt, "wait": self.wait, "error.type": self.failure.code}
        return "retry", note


class RetryRecovered(Event):
    """Call number `attempt` of `name` succeeded after earlier attempts had failed."""

    name: str
    attempt: int

    def __level__(self) -> str:
        return "info"

    def __text__(self) -> str:
        retries = self.attempt - 1
        return f"{self.name} recovered after {retries} {'retry' if retries == 1 else 'retries'}"


class FellBack(Event):
    """`name` failed for good, and rung number `rung` of its ladder is called instead."""

    name: str
    rung: int
    failure: Failure

    __notable__ = ALWAYS

    def __level__(self) -> str:
        return "warning"

    def __text__(self) -> str:
        return f"{self.name} fell back to its way {self.rung}: {self.failure}"

    def __note__(self) -> tuple[str, dict[str, Any]]:
        return "fell_back", {"rung": self.rung, "error.type": self.failure.code}


class CallLeftBehind(Event):
    """A call of `name` is still running after its `seconds`, and is not waited for.

    `runs_in` is "thread" for a sync call that took too long, "task" for an async call that does not
    end although it was cancelled.
    """

    name: str
    seconds: float
    runs_in: Literal["thread", "task"]

    __words__: ClassVar = {"thread": "thread left behind", "task": "task left behind"}
    __state__ = "runs_in"
    __notable__ = ALWAYS

    def __level__(self) -> str:
        return "warning"

    def __text__(self) -> str:
        what = "a thread" if self.runs_in == "thread" else "a task that was cancelled"
        return f"{self.name}: {what} runs on after {self.seconds:.3g} s"


class CircuitChanged(Event):
    """The circuit `key` went to `state`: that of `rb.calls.circuit(key).state`.

    "open" and "isolated" (opened by hand): it rejects calls for `retry_after` seconds, or until it
    is reset; `failure` opened it. "half_open": it admits its probes, whose results decide. "closed"
    and "disabled" (switched off by hand): it admits every call again. `is_shadow`: of
    `Breaker(shadow=True)`, which rejects no call while it is open.
    """

    key: str
    state: Literal["closed", "open", "half_open", "isolated", "disabled"]
    reason: str
    retry_after: float | None = None
    failure: Failure | None = None
    is_shadow: bool = False

    __kind__ = "circuit"
    __state__ = "state"
    __words__: ClassVar = {
        "open": "circuit opened",
        "isolated": "circuit opened",
        "half_open": "circuit half opened",
        "closed": "circuit closed",
        "disabled": "circuit closed",
    }

    def __level__(self) -> str:
        return "warning" if self._effect == "open" else "info"

    def __text__(self) -> str:
        if self._effect == "half_open":
            return f"circuit {self.key} lets a probe through: {self.reason}"
        if self._effect == "closed":
            return f"circuit {self.key} closed: {self.reason}"
        after = "" if self.retry_after is None else f" for {self.retry_after:.3g} s"
        if self.is_shadow and self.state == "open":
            after += " as a shadow, which rejects no call"
        return f"circuit {self.key} opened{after}: {with_failure(self.reason, self.failure)}"

    def __counts__(self, counts: Counts) -> None:
        counts.add("circuit.transitions", 1, self.key, self._effect)

    @property
    def _effect(self) -> str:
        """What it means for calls: by hand it is open or closed as well."""
        return {"isolated": "open", "disabled": "closed"}.get(self.state, self.state)


class LimitChanged(Event):
    """The adaptive limit `key` changed, of the owner `owner` (a function, an origin, a client).

    "began": the server refused a call, and from now on `at_once` run, and `per_second` start (None:
    as many as may run). "lowered": it refused another one. "exhausted": it has refused everybody for
    30 s, so one call tries and the others fail at once. "recovered": it takes calls again.
    "forgotten": it has refused nothing for ten minutes, so nothing is limited any more; known with
    the next call. `failure` is the refusal, `waiting` how many calls wait, `refused` how many it has
    refused since it began, and `longest_wait` the seconds that a call here has waited at most, its
    refused attempts included.
    """

    key: str
    owner: str
    state: Literal["began", "lowered", "exhausted", "recovered", "forgotten"]
    at_once: float
    per_second: float | None = None
    waiting: int = 0
    refused: int = 0
    longest_wait: float = 0.0
    failure: Failure | None = None

    __kind__ = "limit"
    __state__ = "state"
    __words__: ClassVar = {
        "began": "limit began",
        "lowered": "limit lowered",
        "exhausted": "limit exhausted",
        "recovered": "limit recovered",
        "forgotten": "limit forgotten",
    }

    def __level__(self) -> str:
        return {"exhausted": "warning", "lowered": ""}.get(self.state, "info")

    def __text__(self) -> str:
        if self.state == "recovered":
            return f"limit {self.key} takes calls again"
        if self.state == "forgotten":
            return f"limit {self.key} is no more: nothing was refused for ten minutes"
        if self.state == "exhausted":
            text = f"limit {self.key} refuses every call: one tries, the others fail at once"
        else:
            text = f"limit {self.key}: {self.at_once:.3g} at once from now on"
        return with_failure(text, self.failure)

    def __counts__(self, counts: Counts) -> None:
        counts.add("limit.changes", 1, self.owner, self.state)


class Closed(Event):
    """The bridge is closed and will not reconnect."""

    reason: str

    __kind__ = "connection"


class MessageUndelivered(Event):
    """A message of ours ended without a confirmation, and is not sent again; `key` is its
    idempotency key, where it has one.

    `outcome` is "dropped": it left a full or expired queue and was never delivered; "quarantined":
    it ended its connection, with `failure`, and the others are sent; or "unknown": it was handed to
    the transport, and whether it arrived will stay unknown.
    """

    type: str
    key: str | None
    outcome: Literal["dropped", "quarantined", "unknown"]
    reason: str
    failure: Failure | None = None

    __state__ = "outcome"
    __words__: ClassVar = {
        "dropped": "message dropped",
        "quarantined": "message quarantined",
        "unknown": "delivery unknown",
    }

    def __level__(self) -> str:
        # after a loss there may be many: OutboundInDoubt is the warning
        return "debug" if self.outcome == "unknown" else ""

    def __text__(self) -> str:
        return f"{self.type} may or may not have arrived: {self.reason}; key {self.key}"

    def __counts__(self, counts: Counts) -> None:
        counts.add("messages.undelivered", 1, self.bridge, self.outcome)
        counts.failure(self.failure)


class OutboundInDoubt(Event):
    """Sends of a BridgeClient are in doubt, after a loss or at its end; one event for each loss.

    `unknown` of them ended with an unknown outcome: nothing shows that they left this machine, or
    their server can no longer confirm them. `reached` had left this machine before the loss, and
    may be unread: the last 64, or those of the last 30 s if these are more; their receipts say
    `written`. None of them is sent again. `unknown_keys` and `reached_keys` are the idempotency
    keys of the last 1,000 of each.
    """

    unknown: int
    reached: int
    unknown_keys: tuple[str, ...] = ()
    reached_keys: tuple[str, ...] = ()
    session_id: str | None = None

    def __level__(self) -> str:
        return "warning"

    def __text__(self) -> str:
        total = self.unknown + self.reached
        return (
            f"{total} send{'' if total == 1 else 's'} in doubt: the outcome of {self.unknown} is unknown, "
            f"{self.reached} left this machine and may be unread"
        )


class MessageResent(Event):
    """A message that may have arrived was sent again, under its id and key, for the `sends`-th
    time.
    """

    type: str
    key: str
    sends: int


class MessageRejected(Event):
    """A received frame is not a valid message; it was dropped and the connection kept."""

    failure: Failure

    __notable__ = ALWAYS

    def __counts__(self, counts: Counts) -> None:
        counts.failure(self.failure)


class LateReply(Event):
    """An answer came for a request that had already failed or been withdrawn."""

    type: str
    id: str | None


class FeatureRefused(Event):
    """The server does not know our message `type`; the client continues without it. Reported once.

    `feature` is its field in `Dialect`.
    """

    feature: str
    type: str
    failure: Failure

    __notable__ = ALWAYS


class ReplayIgnored(Event):
    """A replay answer came after the verdict; its `messages` were counted and dropped, never
    merged.
    """

    messages: int


class ClockJumped(Event):
    """The wall clock and the monotonic clock drifted apart by `seconds`: the machine slept, or its
    clock was set.
    """

    seconds: float

    __notable__ = ALWAYS


class DuplicateConflict(Event):
    """A message came twice under one type and id with different payloads; the first was delivered."""

    type: str
    id: str


class StoreChanged(Event):
    """A store has failed, or works again.

    `state` is "failed" when it could not be reached or written, because of `failure`; reported
    once, until it is "working". A failed store that is `degraded` continues in this process alone
    (circuits, budgets); otherwise writes are refused until it works again.
    """

    store: str
    state: Literal["failed", "working"]
    degraded: bool = False
    failure: Failure | None = None

    __state__ = "state"
    __words__: ClassVar = {"failed": "store failed", "working": "store recovered"}
    __notable__ = ALWAYS

    def __level__(self) -> str:
        return "warning" if self.state == "failed" else "info"

    def __text__(self) -> str:
        if self.state == "working":
            return f"{self.store} works again"
        how = "goes on in this process alone" if self.degraded else "keeps nothing"
        return f"{self.store} failed, {how}: {self.failure}"

    def __counts__(self, counts: Counts) -> None:
        counts.failure(self.failure)


class StateSetAside(Event):
    """Saved state was damaged, and was kept as `set_aside` beside the original.

    `source` says what is used instead (a backup with its time, or the parts that could be read),
    `lost` what is gone.
    """

    path: str
    set_aside: str
    source: str
    lost: str
    failure: Failure

    __notable__ = ALWAYS

    def __level__(self) -> str:
        return "warning"

    def __text__(self) -> str:
        where = f", kept as {self.set_aside}" if self.set_aside else ""
        return (
            f"state unusable{where}: {self.failure}; used instead: {self.source}; lost: {self.lost}"
        )

    def __counts__(self, counts: Counts) -> None:
        counts.failure(self.failure)


def _count_attempt(event: ReconnectScheduled | GaveUp, counts: Counts) -> None:
    """Count the attempt to connect that has failed, and its failure, if no other event has."""
    link, failure = counts.link(), event.failure
    was_dropped, link.is_dropped = link.is_dropped, False
    if not was_dropped:  # the first one after a loss reports the loss, not a failed attempt
        counts.add("reconnect.attempts", 1, event.bridge, "failed")
    if failure is not None and failure is not link.last:
        link.last = failure
        counts.failure(failure)
