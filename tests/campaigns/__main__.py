"""Print docs/reference/evidence.md: `python -m tests.campaigns [faulted calls of each kind [kinds]] > docs/reference/evidence.md`."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version

from tests.campaigns.far_end import Tally
from tests.campaigns.kinds import KINDS, Kind
from tests.peers.nginx import PROGRAM


PART = 1_000  # calls of one seed
LIBRARIES = ("httpx", "httpx2", "h2", "openai", "mcp", "websockets", "tenacity", "wrapt")


async def total(kind: Kind, faulted: int) -> Tally:
    """One seed after the other, until so many calls met a fault."""
    tally, seed = Tally(), 100
    while tally.faulted < faulted:
        tally = tally + await kind(seed, PART)
        seed += 1
    return tally


def main(faulted: int, kinds: list[str]) -> int:
    """Run them, each until so many calls met a fault; 1 if anything was wrong."""
    logging.disable(logging.CRITICAL)  # each fault is a warning
    rows, wrong = [], []
    for name in kinds:
        kind = KINDS[name]
        began = time.monotonic()
        tally = asyncio.run(total(kind, faulted))
        what = (kind.__doc__ or "").rstrip(".\n")
        rows.append(
            f"| {name} | {what} | {tally.calls:,} | {tally.faulted:,} | {tally.faults:,} | {tally.repeated:,} "
            f"| {len(tally.wrong)} | {time.monotonic() - began:.0f} s |"
        )
        wrong += tally.wrong
        print(rows[-1], *tally.wrong[:5], sep="\n", file=sys.stderr)
    nginx = subprocess.run([str(PROGRAM), "-v"], capture_output=True, text=True, check=False).stderr
    with_what = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    print(
        f"""# Evidence

How old they may be: each part below states the day its figures were counted on, and tests/evidence.json keeps a sample of the lines of code that they were counted
with. A test fails when more than a quarter of those lines are gone; then the campaign is run again.

Effects are counted at the far end while calls are struck by faults. "Wrong" counts the calls that ran more often than was permitted, were
told done and never ran, or, where they may run once, were told not to have run and ran. What a phase's report or a redirected request under
HTTPTransport tells is not judged, only how often it ran. Over stdio a fault strikes the child: all eight calls of that round are counted as
met by it. Over MCP on HTTP the faults are counted, and not which calls met them. Printed by `python -m tests.campaigns`; `nox -s campaigns`
makes the same calls, and every run of the tests a sample of them.

| calls over | how | calls | that met a fault | faults | repeated, as permitted | wrong | in |
|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

{datetime.now(UTC):%Y-%m-%d}, Python {sys.version.split()[0]}, {with_what}, {nginx.strip().removeprefix("nginx version: ")}."""
    )
    return bool(wrong)


if __name__ == "__main__":
    number, *names = sys.argv[1:] or ["5000"]
    raise SystemExit(main(int(number), names or list(KINDS)))
