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
                everything = list(readings.readings(1_000))
                found = list(readings.readings(1_000, only))
        assert found == [one for one in everything if one[0] is only]
        assert found

    rb.circuit("circuit of the readings")
    simulate(main)
