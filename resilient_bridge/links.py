"""Connections that are made again when they die: what `reconnecting` returns, child processes, server-sent events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_names import lazily


if TYPE_CHECKING:
    from .adapters.arguments import Call as Call
    from .adapters.links.link_supervisor import LinkHealth as LinkHealth
    from .adapters.links.reconnecting import Reconnecting as Reconnecting
    from .adapters.processes.peer import Peer as Peer
    from .adapters.processes.stdio import stdio as stdio
    from .adapters.sse import EventSource as EventSource
    from .protocol.server_sent import ServerSentEvent as ServerSentEvent

_NAMES = {
    ".adapters.arguments": "Call",
    ".adapters.links.link_supervisor": "LinkHealth",
    ".adapters.links.reconnecting": "Reconnecting",
    ".adapters.processes.stdio": "stdio",
    ".adapters.processes.peer": "Peer",
    ".adapters.sse": "EventSource",
    ".protocol.server_sent": "ServerSentEvent",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
