"""Immutable policy values: what to do, as data. No state, no clock, no I/O; each name loads when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .backoff import Backoff
    from .breaker import Breaker
    from .bulkhead import Bulkhead
    from .deadline import Deadline
    from .dialect import Dialect
    from .fallback import Fallback
    from .heartbeat import Heartbeat
    from .inbox import Inbox
    from .layer import Layer
    from .outbox import Outbox
    from .rate_limit import RateLimit
    from .reconnect import Reconnect
    from .replay import Replay
    from .retry import Retry
    from .retry_budget import RetryBudget
    from .rule import Rule, Rules, most_specific
    from .timeout import Timeout
    from .what import matches, names_class

__all__ = [
    "Backoff",
    "Breaker",
    "Bulkhead",
    "Deadline",
    "Dialect",
    "Fallback",
    "Heartbeat",
    "Inbox",
    "Layer",
    "Outbox",
    "RateLimit",
    "Reconnect",
    "Replay",
    "Retry",
    "RetryBudget",
    "Rule",
    "Rules",
    "Timeout",
    "matches",
    "most_specific",
    "names_class",
]

_HOMES = {name: name.lower() for name in __all__} | {
    "RateLimit": "rate_limit",
    "RetryBudget": "retry_budget",
    "Rules": "rule",
    "matches": "what",
    "most_specific": "rule",
    "names_class": "what",
}


if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _HOMES)
