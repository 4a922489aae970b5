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

Each part of this page states the day on which its figures were counted. tests/evidence.json keeps a sample of the lines of code that they were counted with. When
more than a quarter of those lines are gone, a test fails, and the campaign is run again.

In these campaigns faults are injected while calls are made, and effects are counted at the server. "Wrong" counts the calls that ran more often than
permitted, the calls that were reported as done and never ran, and, among those that may run once, the calls that were reported as not run and ran.
For a phase's report and for a redirected request under HTTPTransport the report is not judged, only how often the call ran. Over stdio a fault hits
the child process, so all eight calls of that round count as having met it. Over MCP on HTTP the faults are counted, but not which calls met them.
`python -m tests.campaigns` prints the table; `nox -s campaigns` makes the same calls, and every run of CI makes a sample of them (`nox -s simulation`).

| calls over | how | calls | that met a fault | faults | repeated, as permitted | wrong | in |
|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

{datetime.now(UTC):%Y-%m-%d}, Python {sys.version.split()[0]}, {with_what}, {nginx.strip().removeprefix("nginx version: ")}."""
    )
    return bool(wrong)


if __name__ == "__main__":
    number, *names = sys.argv[1:] or ["5000"]
    raise SystemExit(main(int(number), names or list(KINDS)))
