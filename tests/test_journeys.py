"""How far a call or a message walks through the package does not grow: bench/journeys.py counts, this table bounds."""

from __future__ import annotations

import sys

import pytest

from bench import journeys


#: Calls of our named functions and modules entered, today. Lower them when a journey gets shorter.
CEILINGS = {
    "success, an int": (1, 1),
    "success, a dict": (1, 1),
    "fails once, retry alone": (80, 19),
    "fails once, with circuit and timeout": (106, 25),
    "wrapped SDK, 429 then 200": (271, 38),
    "HTTPTransport, 503 then 200": (171, 37),
    "send to ack": (113, 28),
    "socket to async for": (45, 14),
    "tools/call through the sidecar": (210, 22),
    "toolbox.call": (66, 17),
    "a workflow phase with one call": (2_082, 48),
}
FSYNCS = 26  # of a workflow with one phase
SPARE = 1.05


@pytest.mark.real
@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or sys.implementation.name != "cpython",
    reason="counted on CPython 3.11",
)
@pytest.mark.parametrize("name", CEILINGS)
def test_a_journey_does_not_get_longer(name):
    """At most 5 % above its ceiling, in calls and in modules."""
    found = journeys.counted(name)
    most_calls, most_modules = CEILINGS[name]
    assert 0 < found.calls <= most_calls * SPARE, found.modules
    assert len(found.modules) <= most_modules * SPARE, sorted(found.modules)
    if name == "a workflow phase with one call":
        assert found.flushes <= FSYNCS * SPARE


def test_every_journey_is_bounded():
    """And has a goal."""
    assert list(CEILINGS) == list(journeys.JOURNEYS) == list(journeys.GOALS)
