"""How a link behaves, as immutable values: Reconnect, Heartbeat, Outbox, Inbox, Replay, Dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy_names import lazily


if TYPE_CHECKING:
    from .dialect import Dialect as Dialect
    from .ends import End as End
    from .heartbeat import Heartbeat as Heartbeat
    from .inbox import Inbox as Inbox
    from .outbox import Outbox as Outbox
    from .positions import Positions as Positions
    from .reconnect import Reconnect as Reconnect
    from .replay import Replay as Replay

_NAMES = {
    "dialect": "Dialect",
    "ends": "End",
    "heartbeat": "Heartbeat",
    "inbox": "Inbox",
    "outbox": "Outbox",
    "positions": "Positions",
    "reconnect": "Reconnect",
    "replay": "Replay",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
