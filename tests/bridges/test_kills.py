"""Servers of other authors that are killed while messages lie unread: nothing is lost outside of what the client reports.

Rule: a sample runs always, fifty kills of each server with `nox -s campaigns`; `python -m tests.bridges.kills` prints the rows of the page.
"""

from __future__ import annotations

import pytest

from tests.bridges.kills.far_end import NODE, SERVERS
from tests.bridges.kills.runs import Tally, run
from tests.internals.protocol import Doubt


pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

SAMPLE, ALL = 2, 50


def _skip_without_node(kind: str) -> None:
    if kind == "ws of npm" and NODE is None:
        pytest.skip("npm's ws is missing: run `npm ci` in tests/node")


async def _runs(kind: str, first: int, count: int) -> Tally:
    tally = Tally()
    for seed in range(first, first + count):
        tally += await run(kind, seed)
    return tally


@pytest.mark.requirement("X20")
@pytest.mark.sample
@pytest.mark.parametrize("kind", SERVERS)
async def test_l07_a_sample_of_kills(kind):
    """Two kills: what was lost is in one of the two groups, and one event and one warning say so."""
    _skip_without_node(kind)
    tally = await _runs(kind, 1_005, SAMPLE)
    assert tally.wrong == []
    assert tally.lost


@pytest.mark.campaign
@pytest.mark.parametrize("kind", SERVERS)
async def test_l07_fifty_kills(kind):
    """Fifty kills at random times, of servers that stop reading after 1 to 10,000 messages."""
    _skip_without_node(kind)
    tally = await _runs(kind, 2_000, ALL)
    assert tally.wrong == []
    assert tally.lost > 1_000


@pytest.mark.sample
async def test_the_judge_notices_a_loss_that_is_not_reported(monkeypatch):
    """A client that takes a pong for a proof that its messages were read: behind a proxy they are lost, and nobody says so."""
    monkeypatch.setattr(Doubt, "lost", lambda self, now: self.forget_shown())
    tally = await _runs("a proxy before websockets", 1_005, SAMPLE)
    assert any("lost, and not reported" in wrong for wrong in tally.wrong)
