"""Resume against a model of the other side: thousands of joins, cut anywhere, on every kind of server.

`RESUME_SEED=n pytest tests/protocol/test_resume_model.py` plays one run again.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from resilient_bridge.bridge import Verdict
from tests.protocol.resume_world import World
from tests.samples import some


CHUNKS, SEEDS, RESUMES = 16, 90, 8
ONE = os.environ.get("RESUME_SEED")


def _play(seeds: range) -> tuple[list[str], Counter[str]]:
    wrong: list[str] = []
    verdicts: Counter[str] = Counter()
    for seed in seeds:
        world = World(seed)
        world.play(RESUMES)
        world.check()
        verdicts.update(event.verdict.value for event in world.verdicts)
        if world.wrong:
            wrong.append(f"RESUME_SEED={seed} {world.setting.kind}: {'; '.join(world.wrong)}")
    return wrong, verdicts


@pytest.mark.requirement("R17")
@pytest.mark.parametrize("chunk", some(range(1 if ONE else CHUNKS), 1))
def test_nothing_is_lost_repeated_or_reordered_without_a_word(chunk):
    """No duplicate without a flag, no reordering, every loss under a GAP or UNKNOWN, RECOVERED wherever it was possible."""
    start = int(ONE) if ONE else chunk * SEEDS
    wrong, verdicts = _play(range(start, start + (1 if ONE else SEEDS)))
    assert not wrong, "\n".join([f"{len(wrong)} runs", *wrong[:10]])
    if not ONE:
        assert sum(verdicts.values()) >= 10_000 / CHUNKS
        assert min(verdicts[verdict.value] for verdict in Verdict) > 50
