"""The events that the package emits, each a record in the past tense: `with rb.listen(fn):` receives them.

Rule: what the modules of the events list is what is listed here, so a new event is its class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_names import gathered


if TYPE_CHECKING:
    from .telemetry.events import *  # noqa: F403 -- the names that it lists
    from .telemetry.work_events import *  # noqa: F403 -- as above
else:
    __dir__, __getattr__ = gathered(__name__, ".telemetry.events", ".telemetry.work_events")
