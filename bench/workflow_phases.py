"""P23: what a phase of a workflow costs, in flushes of files and in processor time.

    python bench/workflow_phases.py [ROUNDS]

A phase after the first is the difference between workflows of 50 and of 5 phases. Flushes are counted and not made, so the time is that of
the code: what a flush takes is the disk's, and is the same for everybody.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
import time
from contextlib import contextmanager

import resilient_bridge as rb


FEW, MANY = 5, 50
MOST_TIMES = 12.0  # what 50 phases may cost, in those of 5
MOST_FLUSHES = {
    "without a call": 5,
    "with a call that may be repeated": 6,
    "with a call that may not be repeated": 8,
}


@contextmanager
def counted():
    """The flushes of files, counted in a list of one number, and not made."""
    count, plain = [0], os.fsync

    def flush(_handle: int) -> None:
        count[0] += 1

    os.fsync = flush
    try:
        yield count
    finally:
        os.fsync = plain


def workflow(
    folder: str, phases: int, *, calls: bool, idempotent: bool = False
) -> rb.agent.Workflow:
    """A workflow whose phases do nothing, or call a tool that may not be repeated, or may be."""
    toolbox = rb.agent.Toolbox()

    @toolbox.tool(idempotent=idempotent)
    def order(item: str) -> str:
        return f"ordered {item}"

    flow = rb.agent.Workflow(f"{folder}/state.json", root=folder, tools=toolbox)

    async def body(phase: rb.agent.Phase) -> None:
        if calls:
            await phase.call("order", {"item": "book"})

    for number in range(phases):
        flow.phase(name=f"phase-{number}")(body)
    return flow


def run(phases: int, *, calls: bool, idempotent: bool = False) -> tuple[float, int]:
    """One run: processor time in seconds, and flushes."""
    with tempfile.TemporaryDirectory() as folder, counted() as flushes:
        flow = workflow(folder, phases, calls=calls, idempotent=idempotent)
        began = time.process_time()
        report = asyncio.run(flow.run())
        spent = time.process_time() - began
    assert report.is_completed, report.explain()
    return spent, flushes[0]


def main(rounds: int) -> None:
    """Print one table, with the goals and whether they hold."""
    logging.getLogger("resilient_bridge").disabled = True
    print(f"{'a phase':40}{'flushes':>9}{'goal':>6}{'first':>7}{'50 : 5':>9}{'goal':>6}")
    for name, most in MOST_FLUSHES.items():
        sort = {"calls": name.startswith("with a"), "idempotent": "may be" in name}
        run(FEW, **sort)
        few = [run(FEW, **sort) for _ in range(rounds)]
        many = [run(MANY, **sort) for _ in range(rounds)]
        first = run(1, **sort)[1]
        times = min(many)[0] / min(few)[0]
        flushes = (many[0][1] - few[0][1]) / (MANY - FEW)
        holds = "holds" if flushes <= most and times <= MOST_TIMES else "misses"
        print(f"{name:40}{flushes:9.1f}{most:6}{first:7}{times:9.1f}{MOST_TIMES:6.0f}  {holds}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 7)
