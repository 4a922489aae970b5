"""The events that the package emits, each a record in the past tense: `with rb.listen(fn):` receives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_names import lazily


if TYPE_CHECKING:
    from .telemetry.alert_events import AlertCleared as AlertCleared
    from .telemetry.alert_events import AlertLevel as AlertLevel
    from .telemetry.alert_events import AlertRaised as AlertRaised
    from .telemetry.alert_events import AlertRule as AlertRule
    from .telemetry.call_events import CallFinished as CallFinished
    from .telemetry.call_events import CallOutcome as CallOutcome
    from .telemetry.call_events import CallRejected as CallRejected
    from .telemetry.debug_events import CommandAnswered as CommandAnswered
    from .telemetry.debug_events import CommandSent as CommandSent
    from .telemetry.debug_events import PollFailed as PollFailed
    from .telemetry.event import Event as Event
    from .telemetry.events import AcknowledgementLate as AcknowledgementLate
    from .telemetry.events import CircuitClosed as CircuitClosed
    from .telemetry.events import CircuitHalfOpened as CircuitHalfOpened
    from .telemetry.events import CircuitOpened as CircuitOpened
    from .telemetry.events import ClockJumped as ClockJumped
    from .telemetry.events import Closed as Closed
    from .telemetry.events import Connected as Connected
    from .telemetry.events import DeliveryUnknown as DeliveryUnknown
    from .telemetry.events import Disconnected as Disconnected
    from .telemetry.events import DuplicateConflict as DuplicateConflict
    from .telemetry.events import FeatureRefused as FeatureRefused
    from .telemetry.events import FellBack as FellBack
    from .telemetry.events import GaveUp as GaveUp
    from .telemetry.events import Joined as Joined
    from .telemetry.events import LateReply as LateReply
    from .telemetry.events import MessageDropped as MessageDropped
    from .telemetry.events import MessageQuarantined as MessageQuarantined
    from .telemetry.events import MessageRejected as MessageRejected
    from .telemetry.events import MessageResent as MessageResent
    from .telemetry.events import OutboundInDoubt as OutboundInDoubt
    from .telemetry.events import ReconnectScheduled as ReconnectScheduled
    from .telemetry.events import ReplayIgnored as ReplayIgnored
    from .telemetry.events import Resumed as Resumed
    from .telemetry.events import RetryRecovered as RetryRecovered
    from .telemetry.events import RetryScheduled as RetryScheduled
    from .telemetry.events import StateChanged as StateChanged
    from .telemetry.events import StateSetAside as StateSetAside
    from .telemetry.events import StoreFailed as StoreFailed
    from .telemetry.events import StoreRecovered as StoreRecovered
    from .telemetry.events import Suspended as Suspended
    from .telemetry.events import ThreadLeftBehind as ThreadLeftBehind
    from .telemetry.work_events import ContextCompacted as ContextCompacted
    from .telemetry.work_events import ContextNearlyFull as ContextNearlyFull
    from .telemetry.work_events import Degraded as Degraded
    from .telemetry.work_events import HookRejected as HookRejected
    from .telemetry.work_events import PhaseCompleted as PhaseCompleted
    from .telemetry.work_events import PhaseSkipped as PhaseSkipped
    from .telemetry.work_events import PhaseStarted as PhaseStarted
    from .telemetry.work_events import PhaseUndone as PhaseUndone
    from .telemetry.work_events import Restored as Restored
    from .telemetry.work_events import SpendApproved as SpendApproved
    from .telemetry.work_events import SpendCancelled as SpendCancelled
    from .telemetry.work_events import SpendPaused as SpendPaused
    from .telemetry.work_events import SpendWarned as SpendWarned
    from .telemetry.work_events import TaskLeftBehind as TaskLeftBehind
    from .telemetry.work_events import ToolFailed as ToolFailed
    from .telemetry.work_events import ToolPending as ToolPending
    from .telemetry.work_events import WorkflowAborted as WorkflowAborted
    from .telemetry.work_events import WorkflowCompleted as WorkflowCompleted
    from .telemetry.work_events import WorkflowHalted as WorkflowHalted
    from .telemetry.work_events import WorkflowStarted as WorkflowStarted

_NAMES = {
    ".telemetry.alert_events": ("AlertCleared AlertLevel AlertRaised AlertRule"),
    ".telemetry.call_events": ("CallFinished CallOutcome CallRejected"),
    ".telemetry.debug_events": ("CommandAnswered CommandSent PollFailed"),
    ".telemetry.event": ("Event"),
    ".telemetry.events": (
        "AcknowledgementLate CircuitClosed CircuitHalfOpened CircuitOpened ClockJumped Closed Connected DeliveryUnknown Disconnected DuplicateConflict FeatureRefused FellBack GaveUp Joined LateReply MessageDropped MessageQuarantined MessageRejected MessageResent OutboundInDoubt ReconnectScheduled ReplayIgnored Resumed RetryRecovered RetryScheduled StateChanged StateSetAside StoreFailed StoreRecovered Suspended ThreadLeftBehind"
    ),
    ".telemetry.work_events": (
        "ContextCompacted ContextNearlyFull Degraded HookRejected PhaseCompleted PhaseSkipped PhaseStarted PhaseUndone Restored SpendApproved SpendCancelled SpendPaused SpendWarned TaskLeftBehind ToolFailed ToolPending WorkflowAborted WorkflowCompleted WorkflowHalted WorkflowStarted"
    ),
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
