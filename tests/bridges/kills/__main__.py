"""Print the rows of docs/reference/evidence.md: `python -m tests.bridges.kills [runs of each server]`."""

from __future__ import annotations

import asyncio
import sys
import time

from tests.bridges.kills.far_end import SERVERS
from tests.bridges.kills.runs import Tally, run


def main(runs: int) -> int:
    """Run them; 1 if anything was wrong."""
    wrong = []
    for kind in SERVERS:
        began, tally = time.monotonic(), Tally()
        for seed in range(runs):
            tally += asyncio.run(run(kind, 1_000 + seed))
        wrong += tally.wrong
        print(
            f"| {kind} | {tally.runs} | {tally.sent:,} | {tally.read:,} | {tally.lost:,} | {tally.unknown:,} | {tally.reached:,} "
            f"| {tally.reported - tally.lost:,} | {len(tally.wrong)} | {time.monotonic() - began:.0f} s |",
            *tally.wrong[:5],
            sep="\n",
            flush=True,
        )
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50))
