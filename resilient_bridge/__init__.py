"""Calls that are repeated only when that is safe, and links that lose nothing without saying so.

    import resilient_bridge as rb
    @rb.resilient(idempotent=True)     # running it twice is harmless: repeat it when that can help
    def fetch(url: str) -> str: ...
    llm = rb.wrap(AsyncOpenAI())                               # an SDK: here the protocol decides
    link = rb.reconnecting(lambda: Client("https://h/mcp"))    # a client that is made again
    async with rb.BridgeClient("wss://host/ws") as bridge: ... # messages across every reconnect

Next: `help(rb.Policy)`, `help(rb.BridgeClient)`, `print(policy.explain())`; docs/by-task.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_names import lazily


if TYPE_CHECKING:
    from . import agent as agent
    from . import bridge as bridge
    from . import calls as calls
    from . import dialects as dialects
    from . import errors as errors
    from . import events as events
    from . import links as links
    from . import mcp as mcp
    from . import presets as presets
    from . import settings as settings
    from . import stores as stores
    from . import telemetry as telemetry
    from . import testing as testing
    from .adapters import HTTPAdapter as HTTPAdapter
    from .adapters import HTTPMiddleware as HTTPMiddleware
    from .adapters import HTTPTransport as HTTPTransport
    from .adapters import reconnecting as reconnecting
    from .adapters import wrap as wrap
    from .calls import AdaptiveLimit as AdaptiveLimit
    from .calls import Breaker as Breaker
    from .calls import Bulkhead as Bulkhead
    from .calls import Deadline as Deadline
    from .calls import Fallback as Fallback
    from .calls import Layer as Layer
    from .calls import Policy as Policy
    from .calls import RateLimit as RateLimit
    from .calls import Retry as Retry
    from .calls import RetryBudget as RetryBudget
    from .calls import Timeout as Timeout
    from .calls import capture as capture
    from .calls import current_attempt as current_attempt
    from .calls import resilient as resilient
    from .client import BridgeClient as BridgeClient
    from .failure import BridgeError as BridgeError
    from .failure import Category as Category
    from .failure import CircuitOpenError as CircuitOpenError
    from .failure import ConfigError as ConfigError
    from .failure import DeadlineExceededError as DeadlineExceededError
    from .failure import Failure as Failure
    from .failure import Kind as Kind
    from .failure import NotExecutedError as NotExecutedError
    from .failure import OutcomeUnknownError as OutcomeUnknownError
    from .failure import classify as classify
    from .failure import named as named
    from .settings import load as load
    from .telemetry import listen as listen
    from .values import Backoff as Backoff
    from .values import Rule as Rule

__version__ = "0.1.0"

# What a first week needs, by the room that has it; each loads when it is first used (PEP 562). The
# doors have the rest. Each name is listed in one place: here, or in the table of one door.
_NAMES = {
    "adapters": "HTTPAdapter HTTPMiddleware HTTPTransport reconnecting wrap",
    "calls": (
        "AdaptiveLimit Breaker Bulkhead capture current_attempt Deadline Fallback Layer Policy RateLimit "
        "resilient Retry RetryBudget Timeout"
    ),
    "client": "BridgeClient",
    "failure": (
        "BridgeError Category CircuitOpenError classify ConfigError DeadlineExceededError Failure Kind named NotExecutedError OutcomeUnknownError"
    ),
    "settings": "load",
    "telemetry": "listen",
    "values": "Backoff Rule",
    "=agent": "agent",
    "=bridge": "bridge",
    "=calls": "calls",
    "=dialects": "dialects",
    "=errors": "errors",
    "=events": "events",
    "=links": "links",
    "=mcp": "mcp",
    "=presets": "presets",
    "=settings": "settings",
    "=stores": "stores",
    "=telemetry": "telemetry",
    "=testing": "testing",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
