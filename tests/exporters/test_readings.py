"""What is read when somebody scrapes: all gauges at once, or one of them."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import resilient_bridge as rb
from resilient_bridge.telemetry import emit
from resilient_bridge.testing import simulate
from tests.internals.exporters import exporter
from tests.internals.telemetry import CIRCUIT_STATE, INSTRUMENTS, LIMIT_WAITING


@pytest.mark.parametrize(
    "only", [one for one in INSTRUMENTS if one.sort == "gauge"], ids=lambda one: one.name
)
def test_what_a_gauge_reads_is_its_part_of_all_readings(only):
    """With a client that is ready, a circuit, a limit and an alert."""

    async def main(server):
        limited = rb.Policy(rb.AdaptiveLimit(start=1))(asyncio.sleep, idempotent=True)
        await limited(0)
        async with rb.BridgeClient(server.url, name="agent") as bridge:
            await bridge.wait_ready()
            with rb.telemetry.Alerts():
                emit(rb.events.GaveUp(name="bridge", failure=rb.Failure.of("PROTO_VIOLATION")))
                gauges = exporter.Gauges(10_000, for_good=False)
                everything = list(gauges.readings())
                found = list(gauges.readings(only))
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
    read = list(exporter.Gauges(50, for_good=False).readings(CIRCUIT_STATE))
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


# ---- calls that wait for a limit -----------------------------------------------------------------


def waiting(functions, read):
    """Return what `read` returns while four calls of each function are under way; one of each key runs."""

    async def main(_):
        gate = asyncio.Event()
        calls = [
            asyncio.create_task(function(gate, tenant))
            for function in functions
            for tenant in "aabb"
        ]
        await asyncio.sleep(0.1)
        found = read()
        gate.set()
        await asyncio.gather(*calls)
        assert {value for *_, value in read()} <= {0}
        return found

    return simulate(main)


def limited(*keys, **options):
    """A function for each key; its policy has a limit of one call at once, and what it is called is the key."""

    async def hold(gate, tenant):
        await gate.wait()

    policy = rb.Policy(rb.AdaptiveLimit(start=1, **options))
    return [policy(hold, idempotent=True, name=key) for key in keys]


def test_the_calls_that_wait_for_a_limit_are_counted_by_owner():
    """Not by the key, which may be a tenant's or a route's: two keys of one owner are one series."""
    functions = [*limited("alone"), *limited("by tenant", key=lambda gate, tenant: tenant)]
    gauges = exporter.Gauges(1_000, for_good=False)
    found = waiting(functions, lambda: list(gauges.readings(LIMIT_WAITING)))
    assert found == [(LIMIT_WAITING, ("alone",), 3), (LIMIT_WAITING, ("by tenant",), 2)]


def test_owners_of_one_label_are_one_series_and_no_secret_is_in_it():
    """A scrape with the same series twice would be refused as a whole."""
    functions = limited("https://u:hunter22@host/a", "https://u:hunter33@host/a")
    gauges = exporter.Gauges(1_000, for_good=False)
    found = waiting(functions, lambda: list(gauges.readings(LIMIT_WAITING)))
    ((_, (label,), value),) = found
    assert value == 6
    assert "hunter" not in label


@pytest.mark.requirement("X9")
def test_owners_beyond_the_bound_are_counted_together(caplog):
    """In two scrapes, of which the second has other owners: who was seen first keeps the name for good."""
    gauges = exporter.Gauges(2, for_good=True)
    read = partial(gauges.readings, LIMIT_WAITING)
    first = waiting(limited("b", "c", "d", "other"), lambda: list(read()))
    assert [one[1:] for one in first] == [(("b",), 3), (("c",), 3), (("other",), 6)]
    then = waiting(limited("a", "c"), lambda: list(read()))
    assert [one[1:] for one in then] == [(("other",), 3), (("c",), 3)]
    lines = [one for one in caplog.records if "limit.waiting has 2 series" in one.getMessage()]
    assert len(lines) == 1
