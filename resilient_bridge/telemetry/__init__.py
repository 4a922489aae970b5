"""What the package tells about itself: event records, the hub that hands them out, and the default log.

Each part loads when it is first asked for: event records are pure, the hub holds a lock.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from . import events as events
    from .hub import emit as emit
    from .hub import has_listeners as has_listeners
    from .hub import listen as listen

__all__ = ["emit", "events", "has_listeners", "listen"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = (
        import_module(".events", __name__)
        if name == "events"
        else getattr(import_module(".hub", __name__), name)
    )
    globals()[name] = value
    return value
