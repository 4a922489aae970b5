"""The gauges that are read on each scrape: circuits, and open clients and links.

Rule: reading changes nothing.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Any, Final

from .. import __version__
from ..calls import circuits
from ..telemetry import instruments as known
from ..telemetry.alerts import standing_alerts
from ..telemetry.instruments import Instrument
from ..telemetry.open_links import open_links


USER_AGENT: Final = f"resilient-bridge/{__version__}"
Reading = tuple[Instrument, tuple[str, ...], float]

_STATES: Final = ("closed", "open", "half_open", "isolated", "disabled")
_DEPTHS: Final = ((known.OUTBOX, "queued"), (known.UNCONFIRMED, "unconfirmed"), (known.INBOX, "unread"))
_OF_LINKS: Final = (known.READY, *(instrument for instrument, _ in _DEPTHS))


def known_circuits(most: int) -> list[tuple[str, str]]:
    """Return the key and the state of at most so many circuits: those that are not closed first, then by key."""
    states: list[tuple[str, str]] = [(key, circuit.state) for key, circuit in circuits().items()]
    return sorted(states, key=lambda one: (one[1] == "closed", one[0]))[:most]


def readings(most: int, only: Instrument | None = None) -> Iterator[Reading]:
    """Yield every gauge, or `only` that one, summed over links of one name.

    Of circuits at most `most`.
    """
    if only in (None, known.INFO):
        yield known.INFO, (__version__, platform.python_version(), USER_AGENT), 1
    if only in (None, known.CIRCUIT_STATE):
        for key, now in known_circuits(most):
            for state in _STATES:
                yield known.CIRCUIT_STATE, (key, state), float(state == now)
    if only in (None, known.ALERT_ACTIVE):
        for rule, level in standing_alerts():
            yield known.ALERT_ACTIVE, (rule, level), 1
    if only is None or only in _OF_LINKS:
        yield from _of_links(only)


def _of_links(only: Instrument | None) -> Iterator[Reading]:
    sums: dict[tuple[Instrument, str], float] = {}
    for name, link in open_links():
        health: Any = link.health()
        # Of several with one name: ready if all are.
        ready = (known.READY, name)
        sums[ready] = min(sums.get(ready, 1.0), float(health.ready))
        for instrument, field in _DEPTHS:
            if hasattr(health, field):
                sums[instrument, name] = sums.get((instrument, name), 0.0) + getattr(health, field)
    for (instrument, name), value in sums.items():
        if only in (None, instrument):
            yield instrument, (name,), value
