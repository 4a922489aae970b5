"""Each script of this folder once, with one small round: it has to start and to end, whatever it measures. `nox -s benchmarks`, which CI runs.

    python bench/_small.py [NAME ...]

A goal that is missed on a busy machine is no failure here; a traceback is, and a script that prints nothing.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


HERE = Path(__file__).parent
OURS = "resilient-bridge"  # other relays would have to be installed
OUR_EFFECTS = ["loop_after", "effects", "effects_verify", "phases"]  # DBOS would have to be, too
ARGUMENTS = {  # of the comparison the rows that take seconds
    "comparison": [
        "--quick",
        "--rows",
        "first_wait,effects,again,success,repeat,hedge,share,hosts",
    ],
    "effects": ["1", *OUR_EFFECTS],
    "lines": ["--small"],
    "mcp_latency": ["1", OURS],
    "mcp_relays": ["--only", OURS, "--scenario", "features"],
    "quota": ["1", "16 agents, 4 at once", "healthy"],
    "reconnect_storms": ["1", "--small"],
    "request_storms": ["1", "--small"],
}
ABREAST = 2
FIRST = [
    "request_storms",
    "reconnect_storms",
    "half_open",
    "call_extremes",
    "mcp_latency",
]  # the longest, so that none is left alone
LONGEST = 300  # seconds for one script, on a busy machine


def problem_of(script: Path) -> str:
    """What is wrong with a script; "" if nothing is."""
    command = [sys.executable, script, *ARGUMENTS.get(script.stem, ["1"])]
    began = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return f"no end within {LONGEST} s"
    print(f"{script.stem}: {time.monotonic() - began:.1f} s", flush=True)
    failed = "Traceback" in done.stderr or "failed:" in done.stdout
    return done.stderr or done.stdout or "it printed nothing" if failed or not done.stdout else ""


def main(names: list[str]) -> int:
    """Run them, two at a time; the number of those that fail."""
    scripts = [path for path in sorted(HERE.glob("[a-z]*.py")) if not names or path.stem in names]
    scripts.sort(key=lambda path: path.stem not in FIRST)
    with ThreadPoolExecutor(ABREAST) as threads:
        found = dict(zip(scripts, threads.map(problem_of, scripts), strict=True))
    for script, problem in found.items():
        if problem:
            print(f"{script.name} fails:\n{problem}", file=sys.stderr)
    return sum(map(bool, found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
