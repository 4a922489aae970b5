"""What each listener costs on a call that succeeds: the full policy of P1 with nobody listening is 1.

    python bench/listeners.py [rounds]

No goal but that of P1 (call_cost.py), which has nobody listening; the others have a price. The event alone is most of that of the cheap
ones, the client library of the metrics most of that of the others. A listener is there for the length of its batch, and gone after it.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path

import _bounds
from _measure import holds, interleave, per_call, rounds_asked, table
from _peers import ours_full
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry

import resilient_bridge as rb


BOUND, NO_LISTENER = "lower bound of P1", "nobody listens"


class Nowhere(SpanExporter):
    """Throws spans away, as a collector would take them."""

    def export(self, spans):  # noqa: ARG002 -- the interface of an exporter
        return SpanExportResult.SUCCESS

    def shutdown(self):
        pass


def listeners(directory: Path) -> dict:
    """What makes each listener, as a context manager."""
    registry, meters, tracers = (
        CollectorRegistry(),
        MeterProvider([InMemoryMetricReader()]),
        TracerProvider(),
    )
    tracers.add_span_processor(BatchSpanProcessor(Nowhere()))

    @contextmanager
    def installed(options):
        with rb.telemetry.otel.install(**options):
            yield

    return {
        NO_LISTENER: nullcontext,
        "rb.listen, a function that does nothing": lambda: rb.listen(lambda _event: None),
        "rb.testing.record": rb.testing.record,
        "rb.telemetry.Debug": rb.telemetry.Debug,
        "rb.telemetry.Alerts": rb.telemetry.Alerts,
        "rb.stores.SessionLog": lambda: rb.stores.SessionLog(directory / "log.jsonl"),
        "exporters.prometheus": lambda: rb.telemetry.prometheus.install(registry=registry),
        "exporters.otel, metrics, no SDK": lambda: installed({"spans": False}),
        "exporters.otel, metrics, SDK": lambda: installed(
            {"spans": False, "meter_provider": meters}
        ),
        "exporters.otel, spans, no SDK": lambda: installed({"metrics": False}),
        "exporters.otel, spans, SDK": lambda: installed(
            {"metrics": False, "tracer_provider": tracers}
        ),
    }


def listened(make, run):
    """A case that runs its batch with that listener."""

    async def case() -> float:
        with make():
            return await run()

    return case


async def target(number):
    """Succeed."""
    return number


async def main() -> None:
    """Measure, then print."""
    rounds = rounds_asked(101)
    with tempfile.TemporaryDirectory() as directory:
        made = listeners(Path(directory))
        cases = {
            name: listened(make, per_call(ours_full()(target, idempotent=True)))
            for name, make in made.items()
        }
        cases[BOUND] = per_call(_bounds.full(target))
        samples = await interleave(cases, rounds)
    rows = []
    for name in sorted(cases, key=samples.low):
        ratio = samples.ratio(name, BOUND)
        goal = [2.0, holds(ratio, 2.0)] if name == NO_LISTENER else ["", ""]
        rows.append(
            [name, samples.low(name), samples.low(name) - samples.low(NO_LISTENER), ratio, *goal]
        )
    head = ["listener", "ns a call, min", "more than nobody, ns", "x bound", "goal <=", ""]
    table(
        f"What a listener costs: {rounds} rounds",
        head,
        rows,
        ("prometheus-client", "opentelemetry-api", "opentelemetry-sdk"),
    )


if __name__ == "__main__":
    asyncio.run(main())
