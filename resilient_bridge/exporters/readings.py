"""The gauges that are read on each scrape: the version, circuits, alerts, open clients and links.

Rule: reading changes nothing.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from .. import __version__
from ..calls import circuits
from ..telemetry import instruments as known
from ..telemetry.alerts import standing_alerts
from ..telemetry.hub import open_links, say
from ..telemetry.instruments import Instrument
from .series import OTHER


USER_AGENT: Final = f"resilient-bridge/{__version__}"
Reading = tuple[Instrument, tuple[str, ...], float]

_STATES: Final = ("closed", "open", "half_open", "isolated", "disabled")
_DEPTHS: Final = (
    (known.OUTBOX, "queued"),
    (known.UNCONFIRMED, "unconfirmed"),
    (known.INBOX, "unread"),
)
_OF_LINKS: Final = (known.READY, *(instrument for instrument, _ in _DEPTHS))


class NamedCircuits:
    """Chooses the circuits that have series of their own, at most `most` series in all.

    The others share the series of `other`, which count how many are in each state.
    """

    def __init__(self, most: int, *, for_good: bool) -> None:
        """With `for_good`, the circuits that were seen first keep their series for ever.

        It is for a client library that never forgets a series.
        """
        self._most = most
        self._for_good = for_good
        self._named: set[str] = set()
        self._is_full = False

    def readings(self) -> Iterator[Reading]:
        named = self._named if self._for_good else set[str]()
        others: Counter[str] = Counter()
        for key, now in known_circuits():
            if key != OTHER and (key in named or (len(named) + 1) * len(_STATES) <= self._most):
                named.add(key)
                for state in _STATES:
                    yield known.CIRCUIT_STATE, (key, state), float(state == now)
            else:
                others[now] += 1
        if others:
            self._tell()
            for state in _STATES:
                yield known.CIRCUIT_STATE, (OTHER, state), float(others[state])

    def _tell(self) -> None:
        if not self._is_full:
            self._is_full = True
            text = f"{known.CIRCUIT_STATE.name} has {self._most} series, {len(_STATES)} for each circuit: the other circuits are counted as {OTHER}"
            say("warning", text)


def known_circuits(most: int | None = None) -> list[tuple[str, str]]:
    """Return key and state of at most `most` circuits: those not closed first, then by key."""
    states: list[tuple[str, str]] = [(key, circuit.state) for key, circuit in circuits().items()]
    return sorted(states, key=lambda one: (one[1] == "closed", one[0]))[:most]


def readings(named: NamedCircuits, only: Instrument | None = None) -> Iterator[Reading]:
    """Yield every gauge, or `only` that one; links of one name are combined."""
    if only in (None, known.INFO):
        yield known.INFO, (__version__, platform.python_version(), USER_AGENT), 1
    if only in (None, known.CIRCUIT_STATE):
        yield from named.readings()
    if only in (None, known.ALERT_ACTIVE):
        for rule, level in standing_alerts():
            yield known.ALERT_ACTIVE, (rule, level), 1
    if only is None or only in _OF_LINKS:
        yield from _of_links(only)


def _of_links(only: Instrument | None) -> Iterator[Reading]:
    sums: dict[tuple[Instrument, str], float] = {}
    for name, link in open_links():
        health: Any = link.health()
        # Several links of one name are ready if all of them are.
        ready = (known.READY, name)
        sums[ready] = min(sums.get(ready, 1.0), float(health.ready))
        for instrument, field in _DEPTHS:
            if hasattr(health, field):
                sums[instrument, name] = sums.get((instrument, name), 0.0) + getattr(health, field)
    for (instrument, name), value in sums.items():
        if only in (None, instrument):
            yield instrument, (name,), value
