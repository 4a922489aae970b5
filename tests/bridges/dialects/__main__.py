"""Print the table of dialects in docs/reference/evidence.md: `python -m tests.bridges.dialects [schedules of each]`."""

from __future__ import annotations

import logging
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.bridges.dialects.cases import CASES
from tests.bridges.dialects.schedules import Seen, run


FIRST = 10_000


def schedules(index: int, count: int) -> tuple[str, Seen, float]:
    """All schedules of one case: its name, what was seen, and the seconds."""
    logging.disable()
    begins, total = time.monotonic(), Seen()
    for seed in range(FIRST, FIRST + count):
        seen = run(CASES[index], seed)
        total.verdicts += seen.verdicts
        total.delivered += seen.delivered
        total.gaps += seen.gaps
        total.strays += seen.strays
        total.problems += seen.problems
    return CASES[index].name, total, time.monotonic() - begins


def main() -> None:
    """Two cases at a time."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    write = sys.stdout.write
    write(
        "| dialect | schedules | events | stray frames | RECOVERED | GAP | UNKNOWN | wrong | in |\n|---|---|---|---|---|---|---|---|---|\n"
    )
    with ProcessPoolExecutor(2) as pool:
        for name, seen, seconds in pool.map(schedules, range(len(CASES)), [count] * len(CASES)):
            verdicts = " | ".join(
                f"{seen.verdicts[name]:,}" for name in ("RECOVERED", "GAP", "UNKNOWN")
            )
            wrong = len(seen.problems)
            write(
                f"| {name} | {count:,} | {seen.delivered:,} | {seen.strays:,} | {verdicts} | {wrong} | {seconds:.0f} s |\n"
            )
            for problem in seen.problems[:3]:
                write(f"{problem}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
