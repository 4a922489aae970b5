"""A real OpenTelemetry SDK that keeps what it was given in memory."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import resilient_bridge as rb


class Telemetry:
    """A tracer, a meter, and what they were given."""

    def __init__(self, **options):
        self.spans = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.meters = MeterProvider([self.reader])
        self.exporter = rb.telemetry.otel.install(
            tracer_provider=self.tracers, meter_provider=self.meters, **options
        )

    def finished(self, name=None):
        return [one for one in self.spans.get_finished_spans() if name in (None, one.name)]

    def points(self, name):
        data = self.reader.get_metrics_data()
        metrics = (
            []
            if data is None
            else [
                one
                for part in data.resource_metrics
                for scope in part.scope_metrics
                for one in scope.metrics
            ]
        )
        return [point for one in metrics if one.name == name for point in one.data.data_points]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.exporter.close()
        self.meters.shutdown()
        self.tracers.shutdown()


@pytest.fixture
def telemetry():
    with Telemetry() as found:
        yield found
