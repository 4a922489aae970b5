"""The public names, each loaded when it is first asked for (PEP 562).

Rule: importing this package loads nothing else. A name is public if it stands in `__all__`, in `_HOMES` and in
docs/reference/api.md; a test keeps the three equal.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from . import presets as presets
    from . import testing as testing
    from .classification import classify as classify
    from .client import BridgeClient as BridgeClient
    from .client import Health as Health
    from .client import Receipt as Receipt
    from .errors import AttemptTimeoutError as AttemptTimeoutError
    from .errors import AuthError as AuthError
    from .errors import BridgeError as BridgeError
    from .errors import Category as Category
    from .errors import ConfigError as ConfigError
    from .errors import Executed as Executed
    from .errors import Failure as Failure
    from .errors import InboxFullError as InboxFullError
    from .errors import Kind as Kind
    from .errors import NotConnectedError as NotConnectedError
    from .errors import NotDeliveredError as NotDeliveredError
    from .errors import OutboxFullError as OutboxFullError
    from .errors import OutcomeUnknownError as OutcomeUnknownError
    from .errors import ProtocolError as ProtocolError
    from .errors import RejectedError as RejectedError
    from .errors import SessionError as SessionError
    from .errors import Severity as Severity
    from .policies import Backoff as Backoff
    from .policies import Dialect as Dialect
    from .policies import Heartbeat as Heartbeat
    from .policies import Inbox as Inbox
    from .policies import Outbox as Outbox
    from .policies import Reconnect as Reconnect
    from .policies import Replay as Replay
    from .policies import Rule as Rule
    from .presets import BridgePolicy as BridgePolicy
    from .protocol import Gap as Gap
    from .protocol import Message as Message
    from .telemetry import events as events
    from .telemetry import listen as listen
    from .telemetry.events import BridgeState as BridgeState
    from .telemetry.events import Verdict as Verdict

__version__ = "0.1.0"

__all__ = [
    "AttemptTimeoutError",
    "AuthError",
    "Backoff",
    "BridgeClient",
    "BridgeError",
    "BridgePolicy",
    "BridgeState",
    "Category",
    "ConfigError",
    "Dialect",
    "Executed",
    "Failure",
    "Gap",
    "Health",
    "Heartbeat",
    "Inbox",
    "InboxFullError",
    "Kind",
    "Message",
    "NotConnectedError",
    "NotDeliveredError",
    "Outbox",
    "OutboxFullError",
    "OutcomeUnknownError",
    "ProtocolError",
    "Receipt",
    "Reconnect",
    "RejectedError",
    "Replay",
    "Rule",
    "SessionError",
    "Severity",
    "Verdict",
    "classify",
    "events",
    "listen",
    "presets",
    "testing",
]

# Where each name lives: a room for a class or function, the module itself (a leading "=") for a namespace.
_HOMES = {
    "AttemptTimeoutError": "errors",
    "AuthError": "errors",
    "Backoff": "policies",
    "BridgeClient": "client",
    "BridgeError": "errors",
    "BridgePolicy": "presets",
    "BridgeState": "telemetry.events",
    "Category": "errors",
    "ConfigError": "errors",
    "Dialect": "policies",
    "Executed": "errors",
    "Failure": "errors",
    "Gap": "protocol",
    "Health": "client",
    "Heartbeat": "policies",
    "Inbox": "policies",
    "InboxFullError": "errors",
    "Kind": "errors",
    "Message": "protocol",
    "NotConnectedError": "errors",
    "NotDeliveredError": "errors",
    "Outbox": "policies",
    "OutboxFullError": "errors",
    "OutcomeUnknownError": "errors",
    "ProtocolError": "errors",
    "Receipt": "client",
    "Reconnect": "policies",
    "RejectedError": "errors",
    "Replay": "policies",
    "Rule": "policies",
    "SessionError": "errors",
    "Severity": "errors",
    "Verdict": "telemetry.events",
    "classify": "classification",
    "events": "=telemetry.events",
    "listen": "telemetry",
    "presets": "=presets",
    "testing": "=testing",
}


if not TYPE_CHECKING:  # a checker that saw it would believe every misspelt name

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        module = import_module(f".{home.removeprefix('=')}", __name__)
        value: object = module if home.startswith("=") else getattr(module, name)
        globals()[name] = value  # the next look-up costs what any global costs
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
