"""How much of a campaign is run: an evenly spread sample, the same in every run, or all of it with RB_DAMAGE=all (`nox -s damage`).

Rule: a sample names how many cases it takes, so that a longer file or log costs no more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any


IS_ALL = os.environ.get("RB_DAMAGE") == "all"


def some(cases: Iterable[Any], count: int) -> list[Any]:
    """All cases, or at most so many of them, evenly spread from the first to near the last."""
    cases = list(cases)
    step = 1 if IS_ALL else max(-(-len(cases) // count), 1)
    return cases[::step]
