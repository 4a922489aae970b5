"""What the metric exporters share: they listen until they are closed, their series are bounded, and
gauges are read on each scrape.

Rule: whatever names a program creates, an instrument has at most `most` series; further ones are
counted as `other`. Reading changes nothing. The exporter's own module creates its metrics.
"""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from .. import __version__
from ..calls import circuits
from ..calls.ports import calls_waiting
from ..failure import config_error, redact
from ..locks import new_rlock
from ..telemetry import listen, metrics
from ..telemetry.alerts import standing_alerts
from ..telemetry.hub import open_links, say
from ..telemetry.metrics import Instrument, Measures


if TYPE_CHECKING:
    from types import TracebackType

    from ..telemetry.event import Event
    from ..telemetry.metrics import Measurement


C = TypeVar("C")

USER_AGENT: Final = f"resilient-bridge/{__version__}"
Reading = tuple[Instrument, tuple[str, ...], float]

_STATES: Final = ("closed", "open", "half_open", "isolated", "disabled")
_DEPTHS: Final = (
    (metrics.OUTBOX, "queued"),
    (metrics.UNCONFIRMED, "unconfirmed"),
    (metrics.INBOX, "unread"),
)
_OF_LINKS: Final = (metrics.READY, *(instrument for instrument, _ in _DEPTHS))

OTHER: Final = "other"
ERROR_LABELS: Final = ("session_id", "user_agent")
"""Attributes of an error that are labels only on request."""
_LONGEST: Final = 100
_OPEN: Final = frozenset({"policy", "circuit", "limit", "bridge", *ERROR_LABELS})
"""Labels with values from the program; all other labels have a fixed list of values."""


# ---- bounded series -------------------------------------------------------------------------------


class Series(Generic[C]):
    """The children that `make(instrument, labels)` has created so far.

    An error also has the labels of `error_labels`.
    """

    def __init__(
        self,
        make: Callable[[Instrument, tuple[str, ...]], C],
        error_labels: tuple[str, ...],
        most: int,
    ) -> None:
        self._make = make
        self._error_labels = error_labels
        self._most = most
        self._children: dict[tuple[Instrument, tuple[str, ...]], C] = {}
        self._counts: dict[Instrument, int] = {}
        self._full: set[Instrument] = set()

    def child(self, found: Measurement) -> C:
        instrument, _, labels, session_id = found
        names = instrument.labels
        if self._error_labels and instrument is metrics.ERRORS:
            more = {"session_id": session_id or "", "user_agent": USER_AGENT}
            labels = (*labels, *(more[name] for name in self._error_labels))
            names = (*names, *self._error_labels)
        key = instrument, labels
        child = self._children.get(key)
        if child is not None:
            return child
        if self._counts.get(instrument, 0) >= self._most:
            return self._rest(instrument, labels, names)
        plain = tuple(redact(text, limit=_LONGEST) for text in labels)
        return self._add(instrument, labels, plain)

    def _rest(self, instrument: Instrument, labels: tuple[str, ...], names: tuple[str, ...]) -> C:
        if instrument not in self._full:
            self._full.add(instrument)
            text = (
                f"{instrument.name} has {self._most} series: whatever is new is counted as {OTHER}"
            )
            say("warning", text)
        folded = tuple(
            OTHER if name in _OPEN and text else redact(text, limit=_LONGEST)
            for name, text in zip(names, labels, strict=True)
        )
        return self._children.get((instrument, folded)) or self._add(instrument, folded, folded)

    def _add(self, instrument: Instrument, labels: tuple[str, ...], plain: tuple[str, ...]) -> C:
        child = self._children[instrument, labels] = self._make(instrument, plain)
        self._counts[instrument] = self._counts.get(instrument, 0) + 1
        return child


def checked_options(owner: str, labels: Iterable[str], max_series: object) -> tuple[str, ...]:
    """Return the additional labels of errors. Raises ConfigError for an unknown one."""
    names = tuple(labels)
    if not set(names) <= set(ERROR_LABELS):
        raise config_error(f"{owner}.labels", f"a tuple out of {', '.join(ERROR_LABELS)}", labels)
    if not isinstance(max_series, int) or isinstance(max_series, bool) or max_series < 1:
        raise config_error(f"{owner}.max_series", "a whole number of at least 1", max_series)
    return tuple(name for name in ERROR_LABELS if name in names)


# ---- the base of the exporters --------------------------------------------------------------------


class Exporter(ABC, Generic[C]):
    """A listener with series of `C`: made, then started, then closed."""

    def __init__(self, labels: tuple[str, ...], most: int) -> None:
        self._labels = labels
        self._most = most
        self._lock = new_rlock()  # reentrant: a log handler may make a protected call
        self._measures = Measures()
        self._series: Series[C] = Series(self._child, labels, most)
        self._is_open = False

    def _start(self) -> None:
        self._is_open = True
        self._listening = listen(self._hear)
        self._listening.__enter__()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'open' if self._is_open else 'closed'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop counting. May be called again."""
        if self._is_open:
            self._is_open = False
            self._listening.__exit__(None, None, None)
            self._end()

    @abstractmethod
    def _child(self, instrument: Instrument, labels: tuple[str, ...]) -> C:
        """Return the child of an instrument for these labels."""

    @abstractmethod
    def _hear(self, event: Event) -> Any:
        """Count an event."""

    @abstractmethod
    def _end(self) -> None:
        """Release its resources after the last event."""


# ---- gauges ---------------------------------------------------------------------------------------


class Gauges:
    """The gauges of one exporter: read on each scrape, at most `most` series of names in each."""

    def __init__(self, most: int, *, for_good: bool) -> None:
        """With `for_good`, the names that were seen first keep their series for ever.

        It is for a client library that never forgets a series.
        """
        self._circuits = _Names(
            metrics.CIRCUIT_STATE, most, len(_STATES), "circuits", for_good=for_good
        )
        self._owners = _Names(metrics.LIMIT_WAITING, most, 1, "limits", for_good=for_good)

    def readings(self, only: Instrument | None = None) -> Iterator[Reading]:
        """Yield every gauge, or `only` that one; links and limits of one name are combined."""
        if only in (None, metrics.INFO):
            yield metrics.INFO, (__version__, platform.python_version(), USER_AGENT), 1
        if only in (None, metrics.CIRCUIT_STATE):
            yield from self._of_circuits()
        if only in (None, metrics.LIMIT_WAITING):
            yield from self._of_limits()
        if only in (None, metrics.ALERT_ACTIVE):
            for rule, level in standing_alerts():
                yield metrics.ALERT_ACTIVE, (rule, level), 1
        if only is None or only in _OF_LINKS:
            yield from _of_links(only)

    def _of_circuits(self) -> Iterator[Reading]:
        has_series = self._circuits.chooser()
        others: Counter[str] = Counter()
        for key, now in known_circuits():
            if has_series(key):
                for state in _STATES:
                    yield metrics.CIRCUIT_STATE, (key, state), float(state == now)
            else:
                others[now] += 1
        if others:
            for state in _STATES:
                yield metrics.CIRCUIT_STATE, (OTHER, state), float(others[state])

    def _of_limits(self) -> Iterator[Reading]:
        has_series = self._owners.chooser()
        sums: Counter[str] = Counter()
        for owner, waiting in calls_waiting().items():
            name = redact(owner, limit=_LONGEST)
            sums[name if has_series(name) else OTHER] += waiting
        for name, waiting in sums.items():
            yield metrics.LIMIT_WAITING, (name,), waiting


class _Names:
    """Chooses the names that have series of their own in a gauge: each takes `size` of them.

    The others share the series of `other`, and the log says so once.
    """

    def __init__(
        self, gauge: Instrument, most: int, size: int, what: str, *, for_good: bool
    ) -> None:
        self._gauge = gauge
        self._most = most
        self._size = size
        self._what = what
        self._for_good = for_good
        self._named: set[str] = set()
        self._is_full = False

    def chooser(self) -> Callable[[str], bool]:
        """Return what says in one scrape whether a name has series of its own."""
        named = self._named if self._for_good else set[str]()

        def has_series(name: str) -> bool:
            if name != OTHER and name not in named and (len(named) + 1) * self._size <= self._most:
                named.add(name)
            if name not in named:
                self._tell()
            return name in named

        return has_series

    def _tell(self) -> None:
        if not self._is_full:
            self._is_full = True
            each = "" if self._size == 1 else f", {self._size} for each name"
            text = f"{self._gauge.name} has {self._most} series{each}: the other {self._what} are counted as {OTHER}"
            say("warning", text)


def known_circuits(most: int | None = None) -> list[tuple[str, str]]:
    """Return key and state of at most `most` circuits: those not closed first, then by key."""
    states: list[tuple[str, str]] = [(key, circuit.state) for key, circuit in circuits().items()]
    return sorted(states, key=lambda one: (one[1] == "closed", one[0]))[:most]


def _of_links(only: Instrument | None) -> Iterator[Reading]:
    sums: dict[tuple[Instrument, str], float] = {}
    for name, link in open_links():
        health: Any = link.health()
        # Several links of one name are ready if all of them are.
        ready = (metrics.READY, name)
        sums[ready] = min(sums.get(ready, 1.0), float(health.ready))
        for instrument, field in _DEPTHS:
            if hasattr(health, field):
                sums[instrument, name] = sums.get((instrument, name), 0.0) + getattr(health, field)
    for (instrument, name), value in sums.items():
        if only in (None, instrument):
            yield instrument, (name,), value
