"""Metrics and traces for OpenTelemetry, by its API: `pip install 'resilient-bridge[otel]'`.

The application chooses the SDK and the destination. Rule: one span for each logical call, current
while its attempts run, so that spans of the wrapped client are its children. Attempts are events of
that span; a reconnect is a span of its own, because it outlives calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import __version__, events
from ..calls.ports import start_tracing, stop_tracing
from ..failure import config_error, redact
from ..failure.extras import how_to_install
from ..telemetry.metrics import DOWN_SECONDS, INSTRUMENTS, Instrument, Measurement
from .exporter import USER_AGENT, Exporter, Gauges, checked_options


if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


_OWNER: Final = "exporters.otel.install"
_SCOPE: Final = "resilient_bridge"
_USER_AGENT: Final = "user_agent.original"  # of the semantic conventions
_SPAN: Final[ContextVar[Any]] = ContextVar("resilient_bridge.span", default=None)
_NO_ERROR: Final = frozenset({"ok", "fell_back"})


def install(
    *,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
    metrics: bool = True,
    spans: bool = True,
    labels: Iterable[str] = (),
    max_series: int = 1_000,
) -> OTelExporter:
    """Count, time and trace everything from now on, with the process's own providers by default.

    Each call is a span, also one without an attempt; its events are `retry`, `rejected` and
    `fell_back`. A lost connection is a span `resilient_bridge.reconnect`, from the loss to the
    verdict. `spans=False` saves the cost of spans, `metrics=False` that of metrics. `labels` and
    `max_series` are those of `exporters.prometheus.install`. To stop, close the exporter, or use it
    as `with install():`.

    Raises ConfigError if opentelemetry-api is not installed, with the command that installs it; for
    unknown labels; and, with `spans`, while another exporter traces.
    """
    try:
        from opentelemetry import metrics as metrics_api
        from opentelemetry import trace
    except ImportError:
        raise config_error(_OWNER, how_to_install("opentelemetry"), "no such package") from None
    names = checked_options(_OWNER, labels, max_series)
    meter = metrics_api.get_meter(_SCOPE, __version__, meter_provider) if metrics else None
    tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider) if spans else None
    return OTelExporter(meter, tracer, names, max_series)


class OTelExporter(Exporter[dict[str, str]]):
    """Counts and traces until it is closed; `install` makes it.

    Its instruments stay with their provider.
    """

    def __init__(self, meter: Any, tracer: Any, labels: tuple[str, ...], most: int) -> None:
        super().__init__(labels, most)
        self._tracer = tracer
        self._meter = meter
        self._instruments: dict[Instrument, Any] = {}
        # The SDK never forgets a series, and names no new one after 2,000.
        self._gauges = Gauges(most, for_good=True)
        if tracer is not None:
            start_tracing(self._open)
        if meter is not None:
            self._make(meter)
        self._start()

    def _end(self) -> None:
        if self._tracer is not None:
            stop_tracing()

    # ---- metrics ----------------------------------------------------------------------------------------------------

    def _make(self, meter: Any) -> None:
        for one in INSTRUMENTS:
            if one.sort == "counter":
                self._instruments[one] = meter.create_counter(one.name, one.unit, one.text)
            elif one.sort == "histogram":
                self._instruments[one] = meter.create_histogram(
                    one.name, one.unit, one.text, explicit_bucket_boundaries_advisory=one.bounds
                )
            else:
                meter.create_observable_gauge(
                    one.name, [partial(self._observe, one)], one.unit, one.text
                )

    def _child(self, instrument: Instrument, labels: tuple[str, ...]) -> dict[str, str]:
        names = (*instrument.labels, *self._labels)
        return dict(zip(names, labels, strict=False))

    def _observe(self, instrument: Instrument, _options: Any) -> Iterable[Any]:
        from opentelemetry.metrics import Observation

        if not self._is_open:
            return []
        return [
            Observation(
                value,
                {
                    name: redact(text, limit=100)
                    for name, text in zip(one.labels, labels, strict=True)
                },
            )
            for one, labels, value in self._gauges.readings(instrument)
        ]

    def _count(self, found: Measurement) -> None:
        instrument, value, _, _ = found
        attributes = self._series.child(found)
        if instrument.sort == "histogram":
            self._instruments[instrument].record(value, attributes)
        else:
            self._instruments[instrument].add(value, attributes)

    # ---- events -----------------------------------------------------------------------------------------------------

    def _hear(self, event: events.Event) -> None:
        with self._lock:
            measured = self._measures.of(event)
            if self._meter is not None:
                for found in measured:
                    self._count(found)
        if self._tracer is not None:
            for found in measured:
                if found.instrument is DOWN_SECONDS:
                    self._reconnected(event, found.value)
            span = _SPAN.get()
            if span is not None:
                _note(span, event)

    def _reconnected(self, event: Any, seconds: float) -> None:
        """Record a finished span, from the loss to the verdict."""
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind

        attributes = {
            "resilient_bridge.bridge": event.bridge,
            "resilient_bridge.verdict": str(event.verdict),
            "resilient_bridge.reason": event.reason,
            "resilient_bridge.replayed": event.replayed,
            "session.id": redact(event.session_id, limit=100),
            _USER_AGENT: USER_AGENT,
        }
        span = self._tracer.start_span(
            "resilient_bridge.reconnect",
            Context(),
            SpanKind.CLIENT,
            attributes,
            start_time=_nanoseconds(event.at - timedelta(seconds=seconds)),
        )
        span.end(_nanoseconds(event.at))

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _open(self, name: str, key: str) -> _CallSpan:
        shown = redact(name, limit=100)
        attributes = {
            "resilient_bridge.policy": shown,
            "resilient_bridge.key": redact(key, limit=100),
        }
        return _CallSpan(self._tracer.start_span(shown, attributes=attributes))


class _CallSpan:
    """The span of one call: current for OpenTelemetry and for our events while the call runs."""

    __slots__ = ("_span",)

    def __init__(self, span: Any) -> None:
        self._span = span

    def enter(self) -> Any:
        """Make the span current; return the token that restores the previous one."""
        from opentelemetry import context, trace

        return context.attach(trace.set_span_in_context(self._span)), _SPAN.set(self._span)

    def leave(self, token: Any) -> None:
        from opentelemetry import context

        attached, ours = token
        context.detach(attached)
        _SPAN.reset(ours)

    def close(self) -> None:
        self._span.end()


def _note(span: Any, event: events.Event) -> None:
    """Record an event of a call on its span."""
    note = event.__note__()
    if note is not None:
        span.add_event(*note)
    if isinstance(event, events.CallFinished):
        _finish(span, event)


def _finish(span: Any, event: events.CallFinished) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("resilient_bridge.outcome", event.outcome)
    span.set_attribute("resilient_bridge.attempts", event.attempts)
    span.set_attribute("resilient_bridge.waited", event.waited)
    failure = event.failure
    if failure is not None:
        span.set_attribute("error.type", failure.code)
        span.set_attribute("resilient_bridge.severity", failure.severity.value)
        if isinstance(session := failure.details.get("session_id"), str):
            span.set_attribute("session.id", session)
        span.set_attribute(_USER_AGENT, USER_AGENT)
    if event.outcome not in _NO_ERROR:
        span.set_status(
            Status(
                StatusCode.ERROR, event.outcome if failure is None else redact(str(failure.message))
            )
        )


def _nanoseconds(moment: Any) -> int:
    return int(moment.timestamp() * 1_000_000_000)
