"""Metrics for Prometheus, by its own client library: `pip install 'resilient-bridge[prometheus]'`.

Rule: events are counted when they happen, in a child that is bound once; gauges are read when they
are scraped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ..failure import config_error, redact
from ..failure.extras import how_to_install
from ..telemetry.metrics import ERRORS, INSTRUMENTS, Instrument, Measurement
from .exporter import USER_AGENT, Exporter, Gauges, checked_options


if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ..telemetry.event import Event


_OWNER: Final = "exporters.prometheus.install"
_EXEMPLAR: Final = 80  # characters of a session's id; OpenMetrics allows 128 for the whole


def install(
    *,
    registry: CollectorRegistry | None = None,
    labels: Iterable[str] = (),
    max_series: int = 1_000,
) -> PrometheusExporter:
    """Count and time everything from now on, in `registry` (default: that of prometheus_client).

    `labels` may name `session_id` and `user_agent`: then `resilient_bridge_errors_total` has them
    as labels. With the label `session_id` each session is a series; without it the id is an
    exemplar, which costs no series. A metric has at most `max_series` series; further names are
    counted as `other`, and the log says so once. Close the exporter, or use it as `with
    install():`, to remove the metrics.

    Raises ConfigError if prometheus_client is not installed, with the command that installs it; for
    unknown labels; and for a registry that has these metrics already.
    """
    try:
        import prometheus_client
    except ImportError:
        raise config_error(_OWNER, how_to_install("prometheus_client"), "no such package") from None
    names = checked_options(_OWNER, labels, max_series)
    return PrometheusExporter(registry or prometheus_client.REGISTRY, names, max_series)


class PrometheusExporter(Exporter[Any]):
    """Counts until it is closed, which unregisters its metrics; `install` makes it."""

    def __init__(self, registry: CollectorRegistry, labels: tuple[str, ...], most: int) -> None:
        super().__init__(labels, most)
        self._registry = registry
        self._metrics: dict[Instrument, Any] = {}
        self._gauges = Gauges(most, for_good=False)
        try:
            for instrument in INSTRUMENTS:
                if instrument.sort != "gauge":
                    self._metrics[instrument] = self._metric(instrument)
            registry.register(self)  # for the gauges
        except ValueError:
            self._unregister()
            raise config_error(
                f"{_OWNER}.registry",
                "one that has no metrics of resilient_bridge yet",
                "one that has",
            ) from None
        self._start()

    def _end(self) -> None:
        self._registry.unregister(self)
        self._unregister()

    def _unregister(self) -> None:
        for metric in self._metrics.values():
            self._registry.unregister(metric)
        self._metrics = {}

    def _metric(self, instrument: Instrument) -> Any:
        from prometheus_client import Counter, Histogram

        names = (*instrument.labels, *(self._labels if instrument is ERRORS else ()))
        if instrument.sort == "counter":
            return Counter(
                instrument.prometheus_name, instrument.text, names, registry=self._registry
            )
        return Histogram(
            instrument.prometheus_name,
            instrument.text,
            names,
            registry=self._registry,
            buckets=instrument.bounds,
        )

    def _child(self, instrument: Instrument, labels: tuple[str, ...]) -> Any:
        metric = self._metrics[instrument]
        return metric.labels(*labels) if labels else metric

    def _hear(self, event: Event) -> None:
        with self._lock:
            for found in self._measures.of(event):
                self._count(found)

    def _count(self, found: Measurement) -> None:
        instrument, value, _, session_id = found
        child = self._series.child(found)
        if instrument.sort == "histogram":
            child.observe(value)
        elif session_id:
            session = redact(session_id, limit=_EXEMPLAR)[:_EXEMPLAR]
            child.inc(value, {"session_id": session, "user_agent": USER_AGENT})
        else:
            child.inc(value)

    def describe(self) -> list[Any]:
        """Return no names: they are read when scraped. For prometheus_client."""
        return []

    def collect(self) -> list[Any]:
        """Return the current gauges. For prometheus_client."""
        from prometheus_client.core import GaugeMetricFamily

        families: dict[Instrument, Any] = {}
        for instrument, labels, value in self._gauges.readings():
            family = families.get(instrument)
            if family is None:
                family = families[instrument] = GaugeMetricFamily(
                    instrument.prometheus_name, instrument.text, labels=instrument.labels
                )
            family.add_metric([redact(text, limit=100) for text in labels], value)
        return list(families.values())
