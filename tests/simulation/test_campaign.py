"""The campaign: thousands of seeded runs of the real client, and the proof that it would notice if the client were wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.samples import IS_ALL

from .scenario import BrokenError, Run, run
from .variants import VARIANTS


CHUNK = 250
FIRST = int(os.environ.get("SIMULATION_FIRST_SEED", "1"))
RUNS = int(os.environ.get("SIMULATION_RUNS", "2000" if IS_ALL else "500"))
QUICK = 100
SAME = 50
POWER = 600  # runs in which every known-bad variant must be caught


def _campaign(first: int, count: int) -> list[Run]:
    broken: list[str] = []
    runs: list[Run] = []
    for seed in range(first, first + count):
        try:
            runs.append(run(seed))
        except BrokenError as error:
            broken.append(f"seed {seed}: {error}")
    assert not broken, "\n".join([f"{len(broken)} of {count} runs are broken", *broken[:5]])
    return runs


@pytest.mark.sample
@pytest.mark.requirement("R17")
@pytest.mark.requirement("V8")
def test_quick_campaign():
    """Nothing is lost outside a gap, repeated, reordered or left behind in the first runs of the campaign."""
    runs = _campaign(1, QUICK)
    verdicts = sum((Counter(one.verdicts) for one in runs), Counter())
    assert min(verdicts[name] for name in ("RECOVERED", "GAP", "UNKNOWN")) > 10


#: Seeds that once broke, and why.
BROKEN_ONCE = {
    3610: "the clock went back behind the first message, and the bridge sorts its answer by time",
    2313: "a bridge without replay pushes what the dead process had in hand as if it were live",
    2338: "the same, with an id",
    4564: "an answer that is too large three times: the run gave the client too little time to ask for less",
    5226: "the bridge's published replay has nothing after a `since`, and all of it was not asked for twice",
    6735: "the clock went back, and a sorted answer held new messages without ids between those of an unproven one",
    7287: "a slow bridge without sessions pushed what was new before what it had queued",
}


@pytest.mark.parametrize("seed", BROKEN_ONCE, ids=str)
def test_a_seed_that_once_broke(seed):
    """It is run in every suite."""
    run(seed)


@pytest.mark.simulation
@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(FIRST, FIRST + RUNS, CHUNK))
def test_campaign(first):
    """0 lost outside a GAP or UNKNOWN, 0 duplicated, 0 reordered, 0 unexpected, 0 deadlocks, 0 leaks, and RECOVERED where it could be."""
    runs = _campaign(first, CHUNK)
    fired = sum((Counter(one.faults) for one in runs), Counter())
    assert len(fired) >= 12, fired


@pytest.mark.simulation
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", VARIANTS)
def test_a_known_bad_variant_is_caught(name):
    """The harness has teeth: a client that makes this mistake breaks an invariant within the campaign's runs."""
    with VARIANTS[name]():
        for seed in range(1, POWER + 1):
            try:
                run(seed)
            except BrokenError:
                return
    pytest.fail(f"{name} survived {POWER} runs")


@pytest.mark.simulation
@pytest.mark.timeout(240)
def test_the_same_seed_is_the_same_run():
    """Fifty runs leave the same trace twice in one process and in three processes with different hash seeds."""
    once = [run(seed).trace_hash for seed in range(1, SAME + 1)]
    assert once == [run(seed).trace_hash for seed in range(1, SAME + 1)]
    code = f"from tests.simulation.scenario import run\nprint(*[run(s).trace_hash for s in range(1, {SAME + 1})])"
    for hash_seed in ("0", "1", "424242"):
        answer = subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        assert answer.stdout.split() == once


def test_a_failing_seed_prints_the_command_that_repeats_it():
    """Whoever reads a red campaign can repeat one run with one command."""
    with VARIANTS["no_dedupe"]():
        for seed in range(1, 60):
            try:
                run(seed)
            except BrokenError as error:
                assert f"repeat: python -m tests.simulation {seed}" in str(error)
                return
    pytest.fail("no run broke")
