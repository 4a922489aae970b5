"""What a user sees of protected calls is what the golden files say: `differential` draws the policies, the failures and the calls.

A scenario that differs: `python -m tests.calls.differential compare DIR SEED`, with a checkout of the commit before.

What it sees, of the 900 scenarios of the first 300 seeds: one attempt less 354, a full stop at the end of the note "gave up" 400, the
circuit asked before the pause after a 429 instead of behind it 28.
"""

from __future__ import annotations

import json

import pytest

from tests.calls import differential
from tests.rows import each_row
from tests.samples import some


GOLDEN = differential.golden_hashes()
SEEDS = some(differential.SEEDS, 150)
CHUNK = 25


def test_the_golden_files_have_every_seed():
    """And a digest for each form."""
    assert list(GOLDEN) == list(differential.SEEDS)
    assert {len(digests) for digests in GOLDEN.values()} == {len(differential.FORMS)}
    assert list(differential.golden_whole()) == [f"{n} {form}" for n, form in differential.SHOWN.items()]  # fmt: skip


@each_row("seed", differential.SHOWN)
def test_a_scenario_is_seen_as_before_line_by_line(seed):
    """These are kept in full, so that the first difference is shown."""
    form = differential.SHOWN[seed]
    seen = differential.projection(seed, form)
    golden = differential.golden_whole()[f"{seed} {form}"]
    assert [json.dumps(each) for each in seen] == [json.dumps(each) for each in golden]


@pytest.mark.parametrize("first", range(0, len(SEEDS), CHUNK))
def test_scenarios_are_seen_as_before(first):
    """In each form; RB_DAMAGE=all takes all seeds."""
    seeds = SEEDS[first : first + CHUNK]
    found = differential.hashes(seeds)
    differing = [
        f"{seed} {form}"
        for seed in seeds
        for form, now, before in zip(differential.FORMS, found[seed], GOLDEN[seed], strict=True)
        if now != before
    ]
    assert not differing, f"python -m tests.calls.differential show {differing[0]}; {differing}"
