"""The session core: states, joins, replay, outbox, heartbeat.

Pure: no I/O, no clock, no randomness of its own.
"""

from __future__ import annotations

from .clock import Now
from .entries import Entry, EntryState
from .messages import Gap, Message
from .ports import Store
from .reconnection import Decision
from .server_sent import ServerSentEvent
from .session import Session
from .watermark import Key, Mark, Watermark


__all__ = [
    "Decision",
    "Entry",
    "EntryState",
    "Gap",
    "Key",
    "Mark",
    "Message",
    "Now",
    "ServerSentEvent",
    "Session",
    "Store",
    "Watermark",
]
