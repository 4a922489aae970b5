"""What is read when somebody scrapes: all gauges at once, or one of them."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import resilient_bridge as rb
from resilient_bridge.telemetry import emit
from resilient_bridge.testing import simulate
from tests.internals.exporters import exporter
from tests.internals.telemetry import INSTRUMENTS


@pytest.mark.parametrize(
    "only", [one for one in INSTRUMENTS if one.sort == "gauge"], ids=lambda one: one.name
)
def test_what_a_gauge_reads_is_its_part_of_all_readings(only):
    """With a client that is ready, a circuit and an alert."""

    async def main(server):
        async with rb.BridgeClient(server.url, name="agent") as bridge:
            await bridge.wait_ready()
            with rb.telemetry.Alerts():
                emit(rb.events.GaveUp(name="bridge", failure=rb.Failure.of("PROTO_VIOLATION")))
                named = exporter.NamedCircuits(10_000, for_good=False)
                everything = list(exporter.readings(named))
                found = list(exporter.readings(named, only))
        assert found == [one for one in everything if one[0] is only]
        assert found

    with rb.calls.circuit("circuit of the readings"):  # used, so that there is one
        pass
    simulate(main)


class _State:
    def __init__(self, state):
        self.state = state


def test_circuits_beyond_the_bound_are_counted_by_their_states(monkeypatch):
    """Ten have a name, the open ones first; a circuit that is called `other` never shares a series with the rest."""
    found = {f"{n:02}": _State("half_open" if n == 50 else "closed") for n in range(60)} | {
        "other": _State("open")
    }
    monkeypatch.setattr(exporter, "circuits", lambda: found)
    read = list(exporter.NamedCircuits(50, for_good=False).readings())
    values = {labels: value for _, labels, value in read}
    assert len(values) == len(read) == 55
    assert values["50", "half_open"] == 1
    assert (values["other", "closed"], values["other", "open"], values["other", "half_open"]) == (
        50,
        1,
        0,
    )
    assert sum(values.values()) == 61


@pytest.mark.requirement("R18", "X9")
def test_opentelemetry_shows_every_circuit_however_many_there_were(monkeypatch, caplog):
    """Ten scrapes of 400 new circuits each, far beyond what the SDK keeps: 200 have a name for good, the others are summed by state."""
    reader = InMemoryMetricReader()
    meters, names = MeterProvider([reader]), set()
    with rb.telemetry.otel.install(meter_provider=meters, spans=False):
        for number in range(10):
            found = {f"circuit {number} {one}": _State("closed") for one in range(398)}
            found |= {"a": _State("open"), "z": _State("open")}
            monkeypatch.setattr(exporter, "circuits", lambda found=found: found)
            (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
            (points,) = (
                one.data.data_points
                for one in scope.metrics
                if one.name == "resilient_bridge.circuit.state"
            )
            last = {
                (one.attributes["circuit"], one.attributes["state"]): one.value for one in points
            }
            names |= {name for name, _ in last}
    meters.shutdown()
    assert len(names) == 201
    assert (last["a", "open"], last["z", "open"]) == (1, 1)
    assert (last["other", "open"], last["other", "closed"]) == (0, 398)
    assert (
        len([one for one in caplog.records if "circuit.state has 1000 series" in one.getMessage()])
        == 1
    )
