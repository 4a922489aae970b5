"""What a Hedge is worth, in the scene of bench/hedging.py: real code, virtual time, its goals."""

from __future__ import annotations

import pytest

from bench.hedging import GOALS, judged, tails


@pytest.mark.simulation
@pytest.mark.requirement("X16")
def test_each_goal_is_met():
    rows = {client: tails(client, 3) for client in ("without", "Hedge()")}
    assert {goal: value for goal, value in judged(rows).items() if value > GOALS[goal]} == {}
