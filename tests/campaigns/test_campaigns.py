"""Thousands of faulted calls of every kind: none ran more often than was permitted, and no caller was told what is not so.

Rule: a sample runs always, all of it with `nox -s campaigns`; `python -m tests.campaigns` prints docs/reference/evidence.md.
"""

from __future__ import annotations

import pytest

from tests.campaigns.far_end import Tally
from tests.campaigns.kinds import KINDS, http11
from tests.peers.nginx import PROGRAM


pytestmark = [pytest.mark.real, pytest.mark.sample, pytest.mark.timeout(600)]

SAMPLE, ALL, FAULTED = 100, 1_000, 5_000


def _skip_without_nginx(kind: str) -> None:
    if kind == "HTTP/2" and PROGRAM is None:
        pytest.skip("nginx is missing: apt-get install nginx-light")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_sample_of_a_bad_day(kind):
    """One seed."""
    _skip_without_nginx(kind)
    tally = await KINDS[kind](1, SAMPLE)
    assert tally.wrong == []
    assert tally.faulted >= SAMPLE / 5


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
async def test_five_thousand_faulted_calls(kind):
    """Seed after seed, until so many calls met a fault."""
    _skip_without_nginx(kind)
    tally, seed = Tally(), 100
    while tally.faulted < FAULTED:
        tally = tally + await KINDS[kind](seed, ALL)
        seed += 1
        assert tally.wrong == []


async def test_the_judge_notices_what_runs_twice(monkeypatch):
    """The same calls, by a client to whom all methods are safe to repeat."""
    monkeypatch.setattr("tests.campaigns.kinds.FORMS", {"PUT": False, "GET": True})
    tally = await http11(2, SAMPLE)
    assert any("without permission" in wrong for wrong in tally.wrong)
