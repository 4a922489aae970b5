"""What the package reports about itself: event records, the hub that delivers them, and the default
log.

Each name is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from ..exporters import otel as otel
    from ..exporters import prometheus as prometheus
    from ..exporters.health import health_app as health_app
    from .alerts import Alerts as Alerts
    from .debug import Debug as Debug
    from .hub import emit as emit
    from .hub import has_listeners as has_listeners
    from .hub import listen as listen

_NAMES = {
    "=.exporters.otel": "otel",
    "=.exporters.prometheus": "prometheus",
    ".exporters.health": "health_app",
    "alerts": "Alerts",
    "debug": "Debug",
}

# For other rooms, or listed at the top level.
_INSIDE = {
    "hub": "emit has_listeners listen",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES, _INSIDE)
