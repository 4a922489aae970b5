"""What is seen of a few schedules over each dialect is what the golden file says."""

from __future__ import annotations

import pytest

from tests.bridges.dialects import traces
from tests.bridges.dialects.cases import CASES


def test_the_golden_file_has_every_case():
    """With a digest for each seed."""
    golden = traces.golden()
    assert list(golden) == [case.name for case in CASES]
    assert {len(digests) for digests in golden.values()} == {len(traces.SEEDS)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_schedules_are_seen_as_before(case):
    """`python -m tests.bridges.dialects.traces show NAME SEED` here and on the commit before shows a difference."""
    before = dict(zip(traces.SEEDS, traces.golden()[case.name], strict=True))
    assert dict(zip(traces.SEEDS, traces.digests(case), strict=True)) == before
