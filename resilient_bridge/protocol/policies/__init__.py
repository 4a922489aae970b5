"""How a link behaves, as immutable values: Reconnect, Heartbeat, Outbox, Inbox, Replay, Dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy_names import lazily


if TYPE_CHECKING:
    from .dialect import Dialect as Dialect
    from .heartbeat import Heartbeat as Heartbeat
    from .inbox import Inbox as Inbox
    from .outbox import Outbox as Outbox
    from .reconnect import Reconnect as Reconnect
    from .replay import Replay as Replay

_NAMES = {
    "dialect": "Dialect",
    "heartbeat": "Heartbeat",
    "inbox": "Inbox",
    "outbox": "Outbox",
    "reconnect": "Reconnect",
    "replay": "Replay",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
