"""`python -m tests.simulation SEED [COUNT]`: repeat one run, or run a range of seeds."""

from __future__ import annotations

import sys
import time
from functools import partial

from .scenario import BrokenError, plan, run


say = partial(print, file=sys.stdout)  # what a command prints is its result


def main() -> int:
    """Run and report; 1 if an invariant broke."""
    first = int(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    started, broken, virtual = time.perf_counter(), 0, 0.0
    verdicts: dict[str, int] = {}
    reasons: dict[str, int] = {}
    if count == 1:
        say(plan(first))
    for seed in range(first, first + count):
        try:
            result = run(seed)
        except BrokenError as error:
            broken += 1
            say(f"seed {seed}: {str(error)[:600]}")
            continue
        virtual += result.virtual_seconds
        for name, n in result.verdicts.items():
            verdicts[name] = verdicts.get(name, 0) + n
        for name, n in result.reasons.items():
            reasons[name] = reasons.get(name, 0) + n
        if count == 1:
            say(result.totals, result.trace_hash)
    say(
        f"{count} runs, {broken} broken, {virtual / 3600:.2f} virtual h in {time.perf_counter() - started:.1f} s, {verdicts} {reasons}"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
