"""How a link behaves, as immutable values: Reconnect, Heartbeat, Outbox, Inbox, Replay, Dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy_names import lazily


if TYPE_CHECKING:
    from .dialect import Dialect
    from .heartbeat import Heartbeat
    from .inbox import Inbox
    from .outbox import Outbox
    from .reconnect import Reconnect
    from .replay import Replay

__all__ = ["Dialect", "Heartbeat", "Inbox", "Outbox", "Reconnect", "Replay"]

_HOMES = {name: name.lower() for name in __all__}


if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _HOMES)
