"""What is read when somebody scrapes: all gauges at once, or one of them."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge.exporters import readings
from resilient_bridge.telemetry import emit
from resilient_bridge.telemetry.instruments import INSTRUMENTS
from resilient_bridge.testing import simulate


@pytest.mark.parametrize(
    "only", [one for one in INSTRUMENTS if one.sort == "gauge"], ids=lambda one: one.name
)
def test_what_a_gauge_reads_is_its_part_of_all_readings(only):
    """With a client that is ready, a circuit and an alert."""

    async def main(server):
        async with rb.BridgeClient(server.url, name="agent") as bridge:
            await bridge.wait_ready()
            with rb.Alerts():
                emit(rb.events.GaveUp(name="bridge", failure=rb.Failure.of("PROTO_VIOLATION")))
                named = readings.NamedCircuits(10_000, for_good=False)
                everything = list(readings.readings(named))
                found = list(readings.readings(named, only))
        assert found == [one for one in everything if one[0] is only]
        assert found

    rb.circuit("circuit of the readings")
    simulate(main)


class _State:
    def __init__(self, state):
        self.state = state


def test_circuits_beyond_the_bound_are_counted_by_their_states(monkeypatch):
    """Ten have a name, the open ones first; a circuit that is called `other` never shares a series with the rest."""
    found = {f"{n:02}": _State("half_open" if n == 50 else "closed") for n in range(60)} | {
        "other": _State("open")
    }
    monkeypatch.setattr(readings, "circuits", lambda: found)
    read = list(readings.NamedCircuits(50, for_good=False).readings())
    values = {labels: value for _, labels, value in read}
    assert len(values) == len(read) == 55
    assert values["50", "half_open"] == 1
    assert (values["other", "closed"], values["other", "open"], values["other", "half_open"]) == (50, 1, 0)
    assert sum(values.values()) == 61
