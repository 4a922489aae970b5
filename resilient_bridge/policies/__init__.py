"""Immutable policy values: what to do, as data. No state, no clock, no I/O; each name loads when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from .backoff import Backoff
    from .dialect import Dialect
    from .heartbeat import Heartbeat
    from .inbox import Inbox
    from .outbox import Outbox
    from .reconnect import Reconnect
    from .replay import Replay
    from .rule import Rule, most_specific

__all__ = [
    "Backoff",
    "Dialect",
    "Heartbeat",
    "Inbox",
    "Outbox",
    "Reconnect",
    "Replay",
    "Rule",
    "most_specific",
]

_MODULES = {name: name.lower() for name in __all__} | {"most_specific": "rule"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value
