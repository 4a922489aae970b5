"""Calls under seeded kills, their effects counted on disk: nothing runs twice, and what each call is told is true."""

from __future__ import annotations

import pytest

from tests.adapters.sidecar import servers
from tests.adapters.sidecar.struck import RUNS


pytestmark = [pytest.mark.real, pytest.mark.server, pytest.mark.requirement("X6")]
NEEDS = {
    "sqlite": ["python"],
    "git": ["python"],
    "filesystem": ["node", "servers"],
    "typescript": ["node"],
    "three": ["node"],
}


def _rows():
    for name in RUNS:
        needed = NEEDS.get(name.replace(",", " ").split()[0], [])
        yield pytest.param(
            name, marks=[servers.needs(*needed)], id=name.replace(", ", "-").replace(" ", "-")
        )


@pytest.mark.parametrize("name", list(_rows()))
def test_nothing_runs_twice_and_what_is_reported_is_true(name, tmp_path):
    """A sample of the campaign."""
    run, _, calls = RUNS[name]
    tally = run(tmp_path, 16, calls)
    assert tally.wrong == []
    assert tally.calls == calls
    assert tally.faults > 0
    assert tally.outcomes["answered"] > calls / 3


@pytest.mark.campaign
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", list(_rows()))
def test_nothing_runs_twice_in_thousands_of_calls(name, tmp_path):
    """The campaign: the same with more calls."""
    run, calls, _ = RUNS[name]
    tally = run(tmp_path, 16, calls)
    assert tally.wrong == []
    assert tally.calls == calls
    assert tally.faults >= calls / 8
