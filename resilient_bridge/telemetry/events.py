"""Every event the package emits, and the two enums they carry.

Frozen, past-tense records, so that pure code can create them and tests can compare them. None
carries a payload, an argument or a secret; a session id, a message type and a key are allowed.
Public as `rb.events`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import attrs

from ..lazy_names import lazily
from .event import Event


if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ..errors import Failure
    from .alert_events import AlertCleared, AlertLevel, AlertRaised, AlertRule
    from .call_events import CallFinished, CallOutcome, CallRejected
    from .debug_events import CommandAnswered, CommandSent, PollFailed
    from .work_events import (
        ContextCompacted,
        ContextNearlyFull,
        Degraded,
        HookRejected,
        PhaseCompleted,
        PhaseSkipped,
        PhaseStarted,
        PhaseUndone,
        Restored,
        SpendApproved,
        SpendCancelled,
        SpendPaused,
        SpendWarned,
        TaskLeftBehind,
        ToolFailed,
        ToolPending,
        WorkflowAborted,
        WorkflowCompleted,
        WorkflowHalted,
        WorkflowStarted,
    )

__all__ = [
    "AcknowledgementLate", "AlertCleared", "AlertLevel", "AlertRaised", "AlertRule", "BridgeState",
    "CallFinished", "CallOutcome", "CallRejected", "CircuitClosed", "CircuitHalfOpened", "CircuitOpened",
    "ClockJumped", "Closed", "CommandAnswered", "CommandSent", "Connected", "ContextCompacted",
    "ContextNearlyFull", "Degraded", "DeliveryUnknown", "Disconnected", "DuplicateConflict", "Event",
    "FeatureRefused", "FellBack", "GaveUp", "HookRejected", "Joined", "LateReply", "MessageDropped",
    "MessageQuarantined", "MessageRejected", "MessageResent", "OutboundInDoubt", "PhaseCompleted", "PhaseSkipped",
    "PhaseStarted", "PhaseUndone", "PollFailed", "ReconnectScheduled", "ReplayIgnored", "Restored",
    "Resumed", "RetryRecovered", "RetryScheduled", "SpendApproved", "SpendCancelled", "SpendPaused",
    "SpendWarned", "StateChanged", "StateSetAside", "StoreFailed", "StoreRecovered", "Suspended",
    "TaskLeftBehind", "ThreadLeftBehind", "ToolFailed", "ToolPending", "Verdict", "WorkflowAborted",
    "WorkflowCompleted", "WorkflowHalted", "WorkflowStarted",
]  # fmt: skip


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


class Connected(Event):
    """The server accepted the connection and the credentials; joining the session follows."""

    session_id: str | None = None


class Disconnected(Event):
    """The connection is lost or closed; `failure` is None if we closed it."""

    reason: str
    failure: Failure | None = None
    session_id: str | None = None


class ReconnectScheduled(Event):
    """Connection attempt number `attempt` after a loss starts in `wait` seconds."""

    attempt: int
    wait: float
    reason: str
    failure: Failure | None = None
    session_id: str | None = None


class Joined(Event):
    """A session was joined for the first time in this store: there was nothing to resume."""

    session_id: str


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


class GaveUp(Event):
    """`name` stopped trying for good; `failure` says why, `seconds` how long a call took until
    then.
    """

    name: str
    failure: Failure
    seconds: float | None = None
    session_id: str | None = None


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


class RetryRecovered(Event):
    """Call number `attempt` of `name` succeeded after earlier attempts had failed."""

    name: str
    attempt: int


class FellBack(Event):
    """`name` failed for good, and rung number `rung` of its ladder is called instead."""

    name: str
    rung: int
    failure: Failure


class ThreadLeftBehind(Event):
    """A sync call of `name` exceeded its `seconds`; its thread is still running and is not waited
    for.
    """

    name: str
    seconds: float


class CircuitOpened(Event):
    """The circuit `key` rejects calls for `retry_after` seconds, or until it is reset; `failure`
    opened it.
    """

    key: str
    reason: str
    retry_after: float | None = None
    failure: Failure | None = None


class CircuitHalfOpened(Event):
    """The circuit `key` admits its probes; their results decide."""

    key: str
    reason: str


class CircuitClosed(Event):
    """The circuit `key` admits every call again."""

    key: str
    reason: str


class Closed(Event):
    """The bridge is closed and will not reconnect."""

    reason: str


class MessageDropped(Event):
    """A message left a full or expired queue without being delivered; `key` is its idempotency key,
    where it has one.
    """

    type: str
    key: str | None
    reason: str


class DeliveryUnknown(Event):
    """A message was handed to the transport, and its arrival will stay unknown; it is not sent
    again.

    `key` is its idempotency key.
    """

    type: str
    key: str
    reason: str


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


class MessageQuarantined(Event):
    """A message that ended its connection was quarantined; the others are sent."""

    type: str
    key: str | None
    reason: str
    failure: Failure | None = None


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


class DuplicateConflict(Event):
    """A message came twice under one type and id with different payloads; the first was delivered."""

    type: str
    id: str


class StoreFailed(Event):
    """A store could not be reached or written; reported once, until `StoreRecovered`.

    With `degraded` it continues in this process alone (circuits, budgets); otherwise writes are
    refused until the store works again.
    """

    store: str
    degraded: bool
    failure: Failure


class StoreRecovered(Event):
    """A store that had failed works again."""

    store: str


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


# These are imported on first use. A program that only retries or sends creates none of the events
# of `work_events`; the others are created only while a listener is registered.
_RARE = {
    ".alert_events": "AlertCleared AlertLevel AlertRaised AlertRule",
    ".call_events": "CallFinished CallOutcome CallRejected",
    ".debug_events": "CommandAnswered CommandSent PollFailed",
}

if not TYPE_CHECKING:
    _works = " ".join({*__all__} - {*globals()} - {*" ".join(_RARE.values()).split()})
    _, _, __getattr__ = lazily(__name__, {**_RARE, ".work_events": _works})
