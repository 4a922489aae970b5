"""The public names, each loaded when it is first asked for (PEP 562).

Rule: importing this package loads nothing else. A name is public if it stands in `__all__`, in `_HOMES` and in
docs/reference/api.md; a test keeps the three equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_names import lazily


if TYPE_CHECKING:
    from . import presets as presets
    from . import testing as testing
    from .adapters import Call as Call
    from .adapters import Command as Command
    from .adapters import Commands as Commands
    from .adapters import CommandStatus as CommandStatus
    from .adapters import ConnectionStates as ConnectionStates
    from .adapters import ConnectionTracker as ConnectionTracker
    from .adapters import Daemon as Daemon
    from .adapters import DaemonAnswer as DaemonAnswer
    from .adapters import DaemonHealth as DaemonHealth
    from .adapters import EventSource as EventSource
    from .adapters import HTTPAdapter as HTTPAdapter
    from .adapters import HTTPMiddleware as HTTPMiddleware
    from .adapters import HTTPTransport as HTTPTransport
    from .adapters import LinkHealth as LinkHealth
    from .adapters import Peer as Peer
    from .adapters import Reconnecting as Reconnecting
    from .adapters import reconnecting as reconnecting
    from .adapters import stdio as stdio
    from .adapters import wrap as wrap
    from .calls import Attempt as Attempt
    from .calls import Breaker as Breaker
    from .calls import Bulkhead as Bulkhead
    from .calls import Circuit as Circuit
    from .calls import Deadline as Deadline
    from .calls import Explanation as Explanation
    from .calls import Fallback as Fallback
    from .calls import Outcome as Outcome
    from .calls import Policy as Policy
    from .calls import Protected as Protected
    from .calls import RateLimit as RateLimit
    from .calls import Retry as Retry
    from .calls import RetryBudget as RetryBudget
    from .calls import Timeout as Timeout
    from .calls import capture as capture
    from .calls import circuit as circuit
    from .calls import circuits as circuits
    from .calls import current_attempt as current_attempt
    from .calls import resilient as resilient
    from .classification import classify as classify
    from .client import BridgeClient as BridgeClient
    from .client import Health as Health
    from .client import Receipt as Receipt
    from .client.sessions import Sessions as Sessions
    from .errors import AttemptTimeoutError as AttemptTimeoutError
    from .errors import AuthError as AuthError
    from .errors import BridgeError as BridgeError
    from .errors import BulkheadFullError as BulkheadFullError
    from .errors import Category as Category
    from .errors import CircuitOpenError as CircuitOpenError
    from .errors import ConfigError as ConfigError
    from .errors import ContextOverflowError as ContextOverflowError
    from .errors import DeadlineExceededError as DeadlineExceededError
    from .errors import Executed as Executed
    from .errors import Failure as Failure
    from .errors import InboxFullError as InboxFullError
    from .errors import Kind as Kind
    from .errors import NotConnectedError as NotConnectedError
    from .errors import NotDeliveredError as NotDeliveredError
    from .errors import NotExecutedError as NotExecutedError
    from .errors import OutboxFullError as OutboxFullError
    from .errors import OutcomeUnknownError as OutcomeUnknownError
    from .errors import ProtocolError as ProtocolError
    from .errors import RejectedError as RejectedError
    from .errors import SessionError as SessionError
    from .errors import Severity as Severity
    from .errors import SpendLimitError as SpendLimitError
    from .errors import StoreError as StoreError
    from .errors import ThrottledError as ThrottledError
    from .presets import BridgePolicy as BridgePolicy
    from .protocol import Gap as Gap
    from .protocol import Message as Message
    from .protocol import ServerSentEvent as ServerSentEvent
    from .protocol.policies import Dialect as Dialect
    from .protocol.policies import Heartbeat as Heartbeat
    from .protocol.policies import Inbox as Inbox
    from .protocol.policies import Outbox as Outbox
    from .protocol.policies import Reconnect as Reconnect
    from .protocol.policies import Replay as Replay
    from .protocol.session_records import SessionCheckpoint as SessionCheckpoint
    from .protocol.session_records import SessionRecord as SessionRecord
    from .protocol.session_records import SessionState as SessionState
    from .stores import Loaded as Loaded
    from .stores import MemoryStore as MemoryStore
    from .stores import RedisState as RedisState
    from .stores import RedisStore as RedisStore
    from .stores import SessionLog as SessionLog
    from .stores import SQLiteStore as SQLiteStore
    from .stores import StateFile as StateFile
    from .telemetry import events as events
    from .telemetry import listen as listen
    from .telemetry.events import BridgeState as BridgeState
    from .telemetry.events import Verdict as Verdict
    from .tools import CommandResult as CommandResult
    from .tools import ContextGuard as ContextGuard
    from .tools import Degradation as Degradation
    from .tools import HookEvent as HookEvent
    from .tools import SpendBudget as SpendBudget
    from .tools import SpendState as SpendState
    from .tools import SpendStatus as SpendStatus
    from .tools import Tool as Tool
    from .tools import Toolbox as Toolbox
    from .tools import degradations as degradations
    from .tools import hook_answer as hook_answer
    from .tools import suggest as suggest
    from .values import Backoff as Backoff
    from .values import Rule as Rule
    from .workflow import Phase as Phase
    from .workflow import Workflow as Workflow
    from .workflow import WorkflowReport as WorkflowReport
    from .workflow import WorkflowStatus as WorkflowStatus

__version__ = "0.1.0"

__all__ = [
    "Attempt",
    "AttemptTimeoutError",
    "AuthError",
    "Backoff",
    "Breaker",
    "BridgeClient",
    "BridgeError",
    "BridgePolicy",
    "BridgeState",
    "Bulkhead",
    "BulkheadFullError",
    "Call",
    "Category",
    "Circuit",
    "CircuitOpenError",
    "Command",
    "CommandResult",
    "CommandStatus",
    "Commands",
    "ConfigError",
    "ConnectionStates",
    "ConnectionTracker",
    "ContextGuard",
    "ContextOverflowError",
    "Daemon",
    "DaemonAnswer",
    "DaemonHealth",
    "Deadline",
    "DeadlineExceededError",
    "Degradation",
    "Dialect",
    "EventSource",
    "Executed",
    "Explanation",
    "Failure",
    "Fallback",
    "Gap",
    "HTTPAdapter",
    "HTTPMiddleware",
    "HTTPTransport",
    "Health",
    "Heartbeat",
    "HookEvent",
    "Inbox",
    "InboxFullError",
    "Kind",
    "LinkHealth",
    "Loaded",
    "MemoryStore",
    "Message",
    "NotConnectedError",
    "NotDeliveredError",
    "NotExecutedError",
    "Outbox",
    "OutboxFullError",
    "Outcome",
    "OutcomeUnknownError",
    "Peer",
    "Phase",
    "Policy",
    "Protected",
    "ProtocolError",
    "RateLimit",
    "Receipt",
    "Reconnect",
    "Reconnecting",
    "RedisState",
    "RedisStore",
    "RejectedError",
    "Replay",
    "Retry",
    "RetryBudget",
    "Rule",
    "SQLiteStore",
    "ServerSentEvent",
    "SessionCheckpoint",
    "SessionError",
    "SessionLog",
    "SessionRecord",
    "SessionState",
    "Sessions",
    "Severity",
    "SpendBudget",
    "SpendLimitError",
    "SpendState",
    "SpendStatus",
    "StateFile",
    "StoreError",
    "ThrottledError",
    "Timeout",
    "Tool",
    "Toolbox",
    "Verdict",
    "Workflow",
    "WorkflowReport",
    "WorkflowStatus",
    "capture",
    "circuit",
    "circuits",
    "classify",
    "current_attempt",
    "degradations",
    "events",
    "hook_answer",
    "listen",
    "presets",
    "reconnecting",
    "resilient",
    "stdio",
    "suggest",
    "testing",
    "wrap",
]

# Where each name lives: a room for a class or function, the module itself (a leading "=") for a namespace.
_HOMES = {
    "Attempt": "calls",
    "AttemptTimeoutError": "errors",
    "AuthError": "errors",
    "Backoff": "values",
    "Breaker": "calls",
    "BridgeClient": "client",
    "BridgeError": "errors",
    "BridgePolicy": "presets",
    "BridgeState": "telemetry.events",
    "Bulkhead": "calls",
    "BulkheadFullError": "errors",
    "Call": "adapters",
    "Category": "errors",
    "Circuit": "calls",
    "CircuitOpenError": "errors",
    "Command": "adapters",
    "CommandResult": "tools",
    "CommandStatus": "adapters",
    "Commands": "adapters",
    "ConfigError": "errors",
    "ConnectionStates": "adapters",
    "ConnectionTracker": "adapters",
    "ContextGuard": "tools",
    "ContextOverflowError": "errors",
    "Daemon": "adapters",
    "DaemonAnswer": "adapters",
    "DaemonHealth": "adapters",
    "Deadline": "calls",
    "DeadlineExceededError": "errors",
    "Degradation": "tools",
    "Dialect": "protocol.policies",
    "EventSource": "adapters",
    "Executed": "errors",
    "Explanation": "calls",
    "Failure": "errors",
    "Fallback": "calls",
    "Gap": "protocol",
    "HTTPAdapter": "adapters",
    "HTTPMiddleware": "adapters",
    "HTTPTransport": "adapters",
    "Health": "client",
    "Heartbeat": "protocol.policies",
    "HookEvent": "tools",
    "Inbox": "protocol.policies",
    "InboxFullError": "errors",
    "Kind": "errors",
    "LinkHealth": "adapters",
    "Loaded": "stores",
    "MemoryStore": "stores",
    "Message": "protocol",
    "NotConnectedError": "errors",
    "NotDeliveredError": "errors",
    "NotExecutedError": "errors",
    "Outbox": "protocol.policies",
    "OutboxFullError": "errors",
    "Outcome": "calls",
    "OutcomeUnknownError": "errors",
    "Peer": "adapters",
    "Phase": "workflow",
    "Policy": "calls",
    "Protected": "calls",
    "ProtocolError": "errors",
    "RateLimit": "calls",
    "Receipt": "client",
    "Reconnect": "protocol.policies",
    "Reconnecting": "adapters",
    "RedisState": "stores",
    "RedisStore": "stores",
    "RejectedError": "errors",
    "Replay": "protocol.policies",
    "Retry": "calls",
    "RetryBudget": "calls",
    "Rule": "values",
    "SQLiteStore": "stores",
    "ServerSentEvent": "protocol",
    "SessionCheckpoint": "protocol.session_records",
    "SessionError": "errors",
    "SessionLog": "stores",
    "SessionRecord": "protocol.session_records",
    "SessionState": "protocol.session_records",
    "Sessions": "client.sessions",
    "Severity": "errors",
    "SpendBudget": "tools",
    "SpendLimitError": "errors",
    "SpendState": "tools",
    "SpendStatus": "tools",
    "StateFile": "stores",
    "StoreError": "errors",
    "ThrottledError": "errors",
    "Timeout": "calls",
    "Tool": "tools",
    "Toolbox": "tools",
    "Verdict": "telemetry.events",
    "Workflow": "workflow",
    "WorkflowReport": "workflow",
    "WorkflowStatus": "workflow",
    "capture": "calls",
    "circuit": "calls",
    "circuits": "calls",
    "classify": "classification",
    "current_attempt": "calls",
    "degradations": "tools",
    "events": "=telemetry.events",
    "hook_answer": "tools",
    "listen": "telemetry",
    "presets": "=presets",
    "reconnecting": "adapters",
    "resilient": "calls",
    "stdio": "adapters",
    "suggest": "tools",
    "testing": "=testing",
    "wrap": "adapters",
}


if not TYPE_CHECKING:  # a checker that saw it would believe every misspelt name
    __getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
