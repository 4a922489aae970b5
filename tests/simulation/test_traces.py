"""What is seen of whole runs of the bridge client on the simulated network is what the golden files say.

Of the mistakes in variants.py it sees in 100 runs: no_dedupe in 70, backoff_reset_on_connect in 35, resend_after_window in 39,
late_answer_merged in 33, always_unknown in 88, and watermark_before_consumer, which needs a crash at the right moment, in 2.
"""

from __future__ import annotations

import json

import pytest

from . import traces


CHUNK = 50


@pytest.mark.parametrize("seed", traces.SHOWN)
def test_a_run_is_seen_as_before_line_by_line(seed):
    """These are kept in full, so that the first difference is shown."""
    golden = traces.golden_whole()[seed]
    assert [json.dumps(each) for each in traces.trace(seed)] == [json.dumps(each) for each in golden]  # fmt: skip


def test_the_golden_files_have_every_seed():
    """The digests of all, and those in full agree with theirs."""
    digests, whole = traces.golden(), traces.golden_whole()
    assert list(digests) == list(traces.SEEDS)
    assert {seed: traces.digest(seen) for seed, seen in whole.items()} == {seed: digests[seed] for seed in traces.SHOWN}  # fmt: skip


@pytest.mark.simulation
@pytest.mark.parametrize("first", range(traces.SEEDS.start, traces.SEEDS.stop, CHUNK))
def test_runs_are_seen_as_before(first):
    """Their digests; `python -m tests.simulation.traces show SEED` on this commit and the one before shows a difference."""
    digests = traces.golden()
    seeds = range(first, first + CHUNK)
    assert [seed for seed in seeds if traces.digest(traces.trace(seed)) != digests[seed]] == []
