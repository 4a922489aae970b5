"""Policies around existing clients: HTTP, SDKs, connections, child processes, event streams.

Rule: no adapter imports the library it adapts; it works on the object it gets. Each name loads when
it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .arguments import Call as Call
    from .http.aiohttp_middleware import HTTPMiddleware as HTTPMiddleware
    from .http.requests_adapter import HTTPAdapter as HTTPAdapter
    from .http.transport import HTTPTransport as HTTPTransport
    from .links.link_supervisor import LinkHealth as LinkHealth
    from .links.reconnecting import Reconnecting as Reconnecting
    from .links.reconnecting import reconnecting as reconnecting
    from .processes.peer import Peer as Peer
    from .processes.stdio import stdio as stdio
    from .sdk.clients import wrap as wrap
    from .sidecar.options import Sidecar as Sidecar
    from .sidecar.serving import run_sidecar as run_sidecar
    from .sidecar.serving import serve_sidecar as serve_sidecar
    from .sse import EventSource as EventSource

_NAMES = {
    "http.aiohttp_middleware": "HTTPMiddleware",
    "http.requests_adapter": "HTTPAdapter",
    "http.transport": "HTTPTransport",
    "arguments": "Call",
    "links.link_supervisor": "LinkHealth",
    "links.reconnecting": "Reconnecting reconnecting",
    "sdk.clients": "wrap",
    "sidecar.options": "Sidecar",
    "sidecar.serving": "run_sidecar serve_sidecar",
    "sse": "EventSource",
    "processes.stdio": "stdio",
    "processes.peer": "Peer",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
