"""What a `BridgeClient` is configured with and returns: its policy, receipts, messages, gaps and states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_names import lazily


if TYPE_CHECKING:
    from .client.greeting import Greeting as Greeting
    from .client.health import Health as Health
    from .client.receipt import Receipt as Receipt
    from .presets.bridge_policy import BridgePolicy as BridgePolicy
    from .protocol.messages import Gap as Gap
    from .protocol.messages import Message as Message
    from .protocol.policies.dialect import Dialect as Dialect
    from .protocol.policies.heartbeat import Heartbeat as Heartbeat
    from .protocol.policies.inbox import Inbox as Inbox
    from .protocol.policies.outbox import Outbox as Outbox
    from .protocol.policies.reconnect import Reconnect as Reconnect
    from .protocol.policies.replay import Replay as Replay
    from .telemetry.events import BridgeState as BridgeState
    from .telemetry.events import Verdict as Verdict

_NAMES = {
    ".client.greeting": "Greeting",
    ".client.health": "Health",
    ".client.receipt": "Receipt",
    ".presets.bridge_policy": "BridgePolicy",
    ".protocol.messages": "Gap Message",
    ".protocol.policies.dialect": "Dialect",
    ".protocol.policies.heartbeat": "Heartbeat",
    ".protocol.policies.inbox": "Inbox",
    ".protocol.policies.outbox": "Outbox",
    ".protocol.policies.reconnect": "Reconnect",
    ".protocol.policies.replay": "Replay",
    ".telemetry.events": "BridgeState Verdict",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
