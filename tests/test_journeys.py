"""How far a call or a message walks through the package does not grow: bench/journeys.py counts, this table bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import journeys, workflow_phases


#: Calls of our named functions and modules entered, today. Lower them when a journey gets shorter.
CEILINGS = {
    "success, an int": (1, 1),
    "success, a dict": (1, 1),
    "fails once, retry alone": (43, 9),
    "fails once, with circuit and timeout": (63, 12),
    "wrapped SDK, 429 then 200": (130, 17),
    "HTTPTransport, 503 then 200": (96, 17),
    "send to ack": (112, 28),
    "socket to async for": (45, 14),
    "tools/call through the sidecar": (210, 20),
    "tools/call through the sidecar, HTTP": (264, 26),
    "toolbox.call": (68, 17),
    "a workflow phase with one call": (713, 47),
}
SPARE = 1.05


COUNT = """
import json
from bench import journeys
found = {name: journeys.counted(name) for name in journeys.JOURNEYS}
print(json.dumps({name: [one.flushes, one.modules] for name, one in found.items()}))
"""


@pytest.fixture(scope="module")
def counts():
    """Counted in a process of its own, where no other test has left a listener or a thread."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.real
@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or sys.implementation.name != "cpython",
    reason="counted on CPython 3.11",
)
@pytest.mark.parametrize("name", CEILINGS)
def test_a_journey_does_not_get_longer(name, counts):
    """At most 5 % above its ceiling, in calls and in modules."""
    flushes, modules = counts[name]
    most_calls, most_modules = CEILINGS[name]
    assert 0 < sum(modules.values()) <= most_calls * SPARE, modules
    assert len(modules) <= most_modules * SPARE, sorted(modules)
    if name == "a workflow phase with one call":
        assert flushes == workflow_phases.MOST_FLUSHES["with a call that may be repeated"]


@pytest.mark.parametrize(
    ("word", "code", "stream"), [("--help", 0, "out"), ("toolbox.cal", 2, "err")]
)
def test_the_names_of_the_journeys_are_listed(word, code, stream, capsys):
    """By --help, and to who writes another one."""
    with pytest.raises(SystemExit) as ended:
        journeys.asked([word])
    assert ended.value.code == code
    text = getattr(capsys.readouterr(), stream)
    assert all(name in text for name in journeys.JOURNEYS)


def test_every_journey_is_bounded():
    """And has a goal."""
    assert list(CEILINGS) == list(journeys.JOURNEYS) == list(journeys.GOALS)
