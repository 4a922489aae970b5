"""The events that the package emits, each a record in the past tense: `with rb.listen(fn):` receives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_names import lazily


if TYPE_CHECKING:
    from .telemetry.event import Event as Event
    from .telemetry.events import AcknowledgementLate as AcknowledgementLate
    from .telemetry.events import CallLeftBehind as CallLeftBehind
    from .telemetry.events import CircuitChanged as CircuitChanged
    from .telemetry.events import ClockJumped as ClockJumped
    from .telemetry.events import Closed as Closed
    from .telemetry.events import Connected as Connected
    from .telemetry.events import Disconnected as Disconnected
    from .telemetry.events import DuplicateConflict as DuplicateConflict
    from .telemetry.events import FeatureRefused as FeatureRefused
    from .telemetry.events import FellBack as FellBack
    from .telemetry.events import GaveUp as GaveUp
    from .telemetry.events import Joined as Joined
    from .telemetry.events import LateReply as LateReply
    from .telemetry.events import MessageRejected as MessageRejected
    from .telemetry.events import MessageResent as MessageResent
    from .telemetry.events import MessageUndelivered as MessageUndelivered
    from .telemetry.events import OutboundInDoubt as OutboundInDoubt
    from .telemetry.events import ReconnectScheduled as ReconnectScheduled
    from .telemetry.events import ReplayIgnored as ReplayIgnored
    from .telemetry.events import Resumed as Resumed
    from .telemetry.events import RetryRecovered as RetryRecovered
    from .telemetry.events import RetryScheduled as RetryScheduled
    from .telemetry.events import StateChanged as StateChanged
    from .telemetry.events import StateSetAside as StateSetAside
    from .telemetry.events import StoreChanged as StoreChanged
    from .telemetry.events import Suspended as Suspended
    from .telemetry.work_events import AlertChanged as AlertChanged
    from .telemetry.work_events import AlertLevel as AlertLevel
    from .telemetry.work_events import AlertRule as AlertRule
    from .telemetry.work_events import CallFinished as CallFinished
    from .telemetry.work_events import CallOutcome as CallOutcome
    from .telemetry.work_events import CallRejected as CallRejected
    from .telemetry.work_events import CommandAnswered as CommandAnswered
    from .telemetry.work_events import CommandSent as CommandSent
    from .telemetry.work_events import ContextCompacted as ContextCompacted
    from .telemetry.work_events import ContextNearlyFull as ContextNearlyFull
    from .telemetry.work_events import HookRejected as HookRejected
    from .telemetry.work_events import ModeChanged as ModeChanged
    from .telemetry.work_events import PhaseChanged as PhaseChanged
    from .telemetry.work_events import PollFailed as PollFailed
    from .telemetry.work_events import SpendChanged as SpendChanged
    from .telemetry.work_events import ToolFailed as ToolFailed
    from .telemetry.work_events import ToolPending as ToolPending
    from .telemetry.work_events import WorkflowChanged as WorkflowChanged

_NAMES = {
    ".telemetry.event": "Event",
    ".telemetry.events": (
        "AcknowledgementLate CallLeftBehind CircuitChanged ClockJumped Closed Connected Disconnected DuplicateConflict FeatureRefused FellBack GaveUp Joined LateReply MessageRejected MessageResent MessageUndelivered OutboundInDoubt ReconnectScheduled ReplayIgnored Resumed RetryRecovered RetryScheduled StateChanged StateSetAside StoreChanged Suspended"
    ),
    ".telemetry.work_events": (
        "AlertChanged AlertLevel AlertRule CallFinished CallOutcome CallRejected CommandAnswered CommandSent ContextCompacted ContextNearlyFull HookRejected ModeChanged PhaseChanged PollFailed SpendChanged ToolFailed ToolPending WorkflowChanged"
    ),
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
