"""The public names, each loaded when it is first used (PEP 562).

Rule: importing this package loads nothing else. The top level has the names that a first week
needs; `agent`, `errors`, `events`, `presets`, `stores` and `testing` have the rest. A name is
public if it is in the table of its namespace and in docs/reference/api.md; a test keeps the two
equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_names import lazily


if TYPE_CHECKING:
    from . import adapters as adapters
    from . import agent as agent
    from . import calls as calls
    from . import client as client
    from . import errors as errors
    from . import exporters as exporters
    from . import presets as presets
    from . import protocol as protocol
    from . import settings as settings
    from . import stores as stores
    from . import testing as testing
    from .adapters import EventSource as EventSource
    from .adapters import HTTPAdapter as HTTPAdapter
    from .adapters import HTTPMiddleware as HTTPMiddleware
    from .adapters import HTTPTransport as HTTPTransport
    from .adapters import Peer as Peer
    from .adapters import Reconnecting as Reconnecting
    from .adapters import Sidecar as Sidecar
    from .adapters import reconnecting as reconnecting
    from .adapters import run_sidecar as run_sidecar
    from .adapters import serve_sidecar as serve_sidecar
    from .adapters import stdio as stdio
    from .adapters import wrap as wrap
    from .agent import Toolbox as Toolbox
    from .agent import Workflow as Workflow
    from .calls import Attempt as Attempt
    from .calls import Breaker as Breaker
    from .calls import Bulkhead as Bulkhead
    from .calls import Circuit as Circuit
    from .calls import Deadline as Deadline
    from .calls import Fallback as Fallback
    from .calls import Outcome as Outcome
    from .calls import Policy as Policy
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
    from .classification import named as named
    from .client import BridgeClient as BridgeClient
    from .client import Receipt as Receipt
    from .errors import AttemptTimeoutError as AttemptTimeoutError
    from .errors import BridgeError as BridgeError
    from .errors import Category as Category
    from .errors import CircuitOpenError as CircuitOpenError
    from .errors import ConfigError as ConfigError
    from .errors import DeadlineExceededError as DeadlineExceededError
    from .errors import Executed as Executed
    from .errors import Failure as Failure
    from .errors import Kind as Kind
    from .errors import NotConnectedError as NotConnectedError
    from .errors import NotExecutedError as NotExecutedError
    from .errors import OutcomeUnknownError as OutcomeUnknownError
    from .errors import RejectedError as RejectedError
    from .errors import Severity as Severity
    from .exporters import health_app as health_app
    from .presets import BridgePolicy as BridgePolicy
    from .protocol import Gap as Gap
    from .protocol import Message as Message
    from .protocol import dialects as dialects
    from .protocol.policies import Dialect as Dialect
    from .protocol.policies import Heartbeat as Heartbeat
    from .protocol.policies import Inbox as Inbox
    from .protocol.policies import Outbox as Outbox
    from .protocol.policies import Reconnect as Reconnect
    from .protocol.policies import Replay as Replay
    from .settings import Config as Config
    from .settings import dump as dump
    from .settings import load as load
    from .telemetry import Alerts as Alerts
    from .telemetry import Debug as Debug
    from .telemetry import events as events
    from .telemetry import listen as listen
    from .telemetry.events import BridgeState as BridgeState
    from .telemetry.events import Verdict as Verdict
    from .values import Backoff as Backoff
    from .values import Rule as Rule

__version__ = "0.1.0"

_NAMES = {
    "adapters": (
        "EventSource HTTPAdapter HTTPMiddleware HTTPTransport Peer Reconnecting reconnecting "
        "run_sidecar serve_sidecar Sidecar stdio wrap"
    ),
    "agent": "Toolbox Workflow",
    "=agent": "agent",
    "calls": (
        "Attempt Breaker Bulkhead capture Circuit circuit circuits current_attempt Deadline "
        "Fallback Outcome Policy RateLimit resilient Retry RetryBudget Timeout"
    ),
    "classification": "classify named",
    "client": "BridgeClient Receipt",
    "errors": (
        "AttemptTimeoutError BridgeError Category CircuitOpenError ConfigError "
        "DeadlineExceededError Executed Failure Kind NotConnectedError NotExecutedError "
        "OutcomeUnknownError RejectedError Severity"
    ),
    "=errors": "errors",
    "=exporters": "exporters",
    "exporters": "health_app",
    "presets": "BridgePolicy",
    "=presets": "presets",
    "protocol": "Gap Message",
    "=protocol.dialects": "dialects",
    "protocol.policies": "Dialect Heartbeat Inbox Outbox Reconnect Replay",
    "settings": "Config dump load",
    "=stores": "stores",
    "telemetry": "Alerts Debug listen",
    "telemetry.events": "BridgeState Verdict",
    "=telemetry.events": "events",
    "=testing": "testing",
    "values": "Backoff Rule",
}

# Rooms with types that only annotations name.
_INSIDE = {
    "=adapters": "adapters",
    "=calls": "calls",
    "=client": "client",
    "=protocol": "protocol",
    "=settings": "settings",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES, _INSIDE)
