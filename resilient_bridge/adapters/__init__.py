"""What people already have, made to survive: HTTP clients, SDK clients, connections that die, child processes, local daemons.

Rule: no adapter imports the library it adapts; it works on what it is given. Each name loads when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .aiohttp_middleware import HTTPMiddleware as HTTPMiddleware
    from .child_process import stdio as stdio
    from .clients import wrap as wrap
    from .command_answers import CommandStatus as CommandStatus
    from .commands import Command as Command
    from .commands import Commands as Commands
    from .connection_states import ConnectionStates as ConnectionStates
    from .connection_states import ConnectionTracker as ConnectionTracker
    from .daemon import Daemon as Daemon
    from .daemon import DaemonAnswer as DaemonAnswer
    from .daemon import DaemonHealth as DaemonHealth
    from .event_source import EventSource as EventSource
    from .http import HTTPTransport as HTTPTransport
    from .link_health import LinkHealth as LinkHealth
    from .peer import Peer as Peer
    from .reconnecting_link import Reconnecting as Reconnecting
    from .reconnecting_link import reconnecting as reconnecting
    from .repeats import Call as Call
    from .requests_adapter import HTTPAdapter as HTTPAdapter

__all__ = [
    "Call",
    "Command",
    "CommandStatus",
    "Commands",
    "ConnectionStates",
    "ConnectionTracker",
    "Daemon",
    "DaemonAnswer",
    "DaemonHealth",
    "EventSource",
    "HTTPAdapter",
    "HTTPMiddleware",
    "HTTPTransport",
    "LinkHealth",
    "Peer",
    "Reconnecting",
    "reconnecting",
    "stdio",
    "wrap",
]

_HOMES = {
    "Call": "repeats",
    "Command": "commands",
    "CommandStatus": "command_answers",
    "Commands": "commands",
    "ConnectionStates": "connection_states",
    "ConnectionTracker": "connection_states",
    "Daemon": "daemon",
    "DaemonAnswer": "daemon",
    "DaemonHealth": "daemon",
    "EventSource": "event_source",
    "HTTPAdapter": "requests_adapter",
    "HTTPMiddleware": "aiohttp_middleware",
    "HTTPTransport": "http",
    "LinkHealth": "link_health",
    "Peer": "peer",
    "Reconnecting": "reconnecting_link",
    "reconnecting": "reconnecting_link",
    "stdio": "child_process",
    "wrap": "clients",
}


if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _HOMES)
