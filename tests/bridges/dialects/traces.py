"""What is seen of schedules over each dialect, and the golden file of their digests.

    python -m tests.bridges.dialects.traces show NAME SEED       # one run, as JSON
    python -m tests.bridges.dialects.traces write                # in a commit that changes nothing else

Seen are, with the virtual time: log lines, events, the numbers that were delivered, and in the end the verdicts with their reasons and
proofs, the gaps, and what came of each send. See tests/simulation/traces.py, which does this for whole runs of the seeds' own protocol.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import resilient_bridge as rb
from tests.bridges.dialects import schedules
from tests.bridges.dialects.cases import CASES
from tests.bridges.dialects.schedules import Case
from tests.simulation.traces import digest, lines_to, plain, reported


HASHES = Path(__file__).with_name("traces_hashes.txt")
SEEDS = range(16, 21)


def trace(case: Case, seed: int) -> list[Any]:
    """What is seen of one schedule, as JSON gives it back."""
    seen: list[Any] = []
    numbers_in, judge_sends = schedules.numbers_in, schedules._judge_sends

    def see(what: str, *facts: Any) -> None:
        seen.append([round(asyncio.get_running_loop().time(), 3), what, *map(plain, facts)])

    def numbers(raw: Any) -> Any:
        found = numbers_in(raw)
        see("delivered", list(found))
        return found

    def judged(case: Case, double: Any, receipts: Any, totals: Any) -> None:
        seen.append(["sends", [[number, receipt.state] for number, receipt in receipts]])
        judge_sends(case, double, receipts, totals)

    with (
        patch.object(schedules, "numbers_in", numbers),
        patch.object(schedules, "_judge_sends", judged),
        rb.listen(lambda event: see("event", type(event).__name__, reported(event))),
        lines_to(see),
    ):
        totals = schedules.run(case, seed, orders="fifo")
    counted = (totals.verdicts, totals.reasons, totals.proofs)
    seen += [sorted([str(name), count] for name, count in each.items()) for each in counted]
    seen.append([totals.delivered, totals.gaps, totals.strays, totals.problems])
    return json.loads(json.dumps(seen))


def digests(case: Case) -> list[str]:
    """A digest for each seed."""
    return [digest(trace(case, seed)) for seed in SEEDS]


def golden() -> dict[str, list[str]]:
    """The digests of each case, as the file has them."""
    rows = (line.split("\t") for line in HASHES.read_text().splitlines())
    return {name: digested.split() for name, digested in rows}


def main(words: list[str]) -> int:
    """One of the commands of this file's docstring."""
    match words:
        case ["show", name, seed]:
            case = next(case for case in CASES if case.name == name)
            sys.stdout.writelines(f"{json.dumps(line)}\n" for line in trace(case, int(seed)))
        case ["write"]:
            HASHES.write_text("".join(f"{case.name}\t{' '.join(digests(case))}\n" for case in CASES))  # fmt: skip
        case _:
            sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
