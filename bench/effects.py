"""X15: what became of an effect whose process was killed: with `Effects`, with a DBOS step, with a bare loop.

    python bench/effects.py [ROUNDS [PROGRAM ...]]      # programs: the names of _effects_lives.py

A job pays four orders at a far end, an HTTP server in another process that counts. Its process is killed with SIGKILL once in each
order, at one of four points: before the call, in the function before its effect, after the effect, after the call has returned; in each
round every order has every point once. After each kill the program is started again and asks for the whole job, until it ends. Then
what its caller knows of each order is compared with the far end. All programs pay the same orders and die at the same points.

Calls are timed in lives without a kill, without the time at the far end. Flushes are fsync and fdatasync, counted by strace as the
difference between jobs of 10 and of 30 orders. DBOS is used as its documentation says (a workflow whose ID is the job's, recovered by
`launch`), with its default database, SQLite, in an environment of its own, which the first run installs.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

from _effects_lives import POINTS
from _environments import python_with
from _measure import table


DBOS = "dbos==3.4.0"
ENVIRONMENT = Path.home() / ".cache/resilient-bridge-bench/dbos"
PROGRAM = Path(__file__).parent / "_effects_lives.py"
ROWS = {  # program: what the table calls it, and what the far end has to do for it
    "loop_after": ("a loop, a note after each call", "nothing"),
    "loop_before": ("a loop, a note before each call", "nothing"),
    "dbos": ("DBOS, a step", "nothing"),
    "dbos_keys": ("DBOS, a step that sends a key", "know keys"),
    "effects": ("`Effects`", "nothing"),
    "effects_verify": ("`Effects`, `verify=`", "answer `verify`"),
    "phases": ("a phase of a `Workflow`, `verify=`", "answer `verify`"),
}
OURS = ("effects", "effects_verify", "phases")
ORDERS = len(POINTS)
WORKERS = 4  # jobs at once: a life waits more than it works
FEW, MANY = 10, 30
MOST_LIVES = 5  # that are timed
MOST_FLUSHES = 2  # of a call through a policy
HEAD = [
    *("", "the far end has to", "kills", "ran twice", "never ran", 'of these "done"', "unknown"),
    *("verified", "flushes a call", "ms a call", "goals"),
]


class FarEnd:
    """An HTTP server that pays orders, and knows how often each was paid."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self.asked: set[str] = set()  # orders that verify functions asked about
        self._keys: set[str] = set()
        self._lock = threading.Lock()

    def answer(self, path: str, asked: dict) -> str | None:
        order = asked["order"]
        with self._lock:
            if path == "/find":
                self.asked.add(order)
                return f"paid {order}" if self.paid[order] else None
            if not asked["key"] or asked["key"] not in self._keys:
                self._keys.add(asked["key"])
                self.paid[order] += 1
            return f"paid {order}"

    @contextmanager
    def served(self):
        """Its URL."""
        far_end = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                body = json.dumps(far_end.answer(self.path, asked)).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()


class Lives:
    """Makes lives of one program, at one far end."""

    def __init__(self, root: Path, program: str, python: str, far_end: FarEnd, url: str) -> None:
        self.program, self.far_end = program, far_end
        self._root, self._python, self._url = root, python, url
        self._numbers = count()

    @contextmanager
    def process(self, *before: str):
        """A function that makes a life and returns its exit code."""
        command = [*before, self._python, str(PROGRAM), self.program]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **pipes) as started:

            def live(wanted: dict) -> int:
                started.stdin.write(json.dumps(wanted) + "\n")
                started.stdin.flush()
                return int(started.stdout.readline())

            yield live
            started.stdin.close()

    def job(self, orders: int) -> dict:
        """What a life is asked for; a job of its own."""
        name = f"{self.program}-{next(self._numbers)}"
        folder = self._root / name
        folder.mkdir(mode=0o700)
        wanted = {"job": name, "folder": str(folder), "url": self._url, "steps": orders}
        return wanted | {"kill": None}

    def whole(self, live, orders: int) -> list[float]:
        """What the calls of a life without a kill cost."""
        wanted = self.job(orders)
        return self.ended(live, wanted)["costs"]

    def ended(self, live, wanted: dict) -> dict:
        """What a life that is not killed has written."""
        if code := live(wanted):
            raise RuntimeError(f"{wanted['job']} ended with exit code {code}")
        return json.loads(Path(wanted["folder"], "life.json").read_text())


# ---- what is measured ----------------------------------------------------------------------------


def plans(rounds: int) -> list[list[str]]:
    """The points at which the orders of each job are killed: in a round each order has each point once."""
    rng, found = random.Random(1), []
    for _ in range(rounds):
        points = rng.sample(POINTS, ORDERS)
        found += [points[turn:] + points[:turn] for turn in range(ORDERS)]
    return found


def killed(lives: Lives, rounds: int) -> Counter[str]:
    """Kill jobs, and count what became of their orders."""

    def run(part: list[list[str]]) -> Counter[str]:
        counts: Counter[str] = Counter()
        with lives.process() as live:
            for points in part:
                wanted = lives.job(ORDERS)
                for kill in enumerate(points):
                    code = live(wanted | {"kill": kill})
                    if code != -9:
                        raise RuntimeError(f"{wanted['job']} was to die at {kill}: {code}")
                    counts["kills"] += 1
                known = lives.ended(live, wanted)["known"]
                for step, knows in enumerate(known):
                    ran = lives.far_end.paid[f"{wanted['job']}/{step}"]
                    counts["twice"] += ran > 1
                    counts["never"] += ran == 0
                    counts["false"] += ran == 0 and knows == "done"
                    counts["unknown"] += knows == "unknown"
        return counts

    found = plans(rounds)
    with ThreadPoolExecutor(WORKERS) as threads:
        counts = sum(threads.map(run, [found[n::WORKERS] for n in range(WORKERS)]), Counter())
    asked = [order for order in lives.far_end.asked if order.startswith(f"{lives.program}-")]
    counts["verified"] = len(asked)
    return counts


def flushes(lives: Lives) -> float | None:
    """How often a call waits for the disk; None without strace."""
    if shutil.which("strace") is None:
        return None
    counts = []
    with tempfile.NamedTemporaryFile("r") as file:
        for orders in (FEW, MANY):
            strace = ("strace", "-f", "-qq", "-c", "-e", "trace=fsync,fdatasync", "-o", file.name)
            with lives.process(*strace) as live:
                lives.whole(live, orders)
            lines = re.findall(
                r"(\d+)\s+f(?:data)?sync$", Path(file.name).read_text(), re.MULTILINE
            )
            counts.append(sum(map(int, lines)))
    return (counts[1] - counts[0]) / (MANY - FEW)


def milliseconds(programs: list[Lives], rounds: int) -> list[float]:
    """What a call of each costs: the median of the later calls of a life, in the best of some, which take turns."""
    with ExitStack() as stack:
        processes = [(lives, stack.enter_context(lives.process())) for lives in programs]
        medians = [
            [statistics.median(lives.whole(live, MANY)[FEW:]) for lives, live in processes]
            for _ in range(min(rounds, MOST_LIVES))
        ]
    return [1_000 * min(costs) for costs in zip(*medians, strict=True)]


def goals(program: str, counts: Counter[str], flushed: float | None) -> str:
    """What has to hold of ours; "" for others."""
    if program not in OURS:
        return ""
    misses = {
        "an effect twice": counts["twice"],
        '"done" that did not run': counts["false"],
        "unknown in spite of verify": counts["unknown"] if program != "effects" else 0,
        "flushes": program != "phases" and (flushed or 0) > MOST_FLUSHES,
    }
    return "; ".join(f"missed: {name}" for name, missed in misses.items() if missed) or "hold"


def row(lives: Lives, rounds: int, cost: float) -> list:
    """One row of the table."""
    counts, flushed = killed(lives, rounds), flushes(lives)
    numbers = [counts[name] for name in ("kills", "twice", "never", "false", "unknown", "verified")]
    each = "no strace" if flushed is None else f"{flushed:.1f}"
    return [*ROWS[lives.program], *numbers, each, cost, goals(lives.program, counts, flushed)]


def python_of(program: str) -> str | None:
    """The interpreter for a program; None if its library cannot be installed."""
    if not program.startswith("dbos"):
        return sys.executable
    try:
        return str(python_with(ENVIRONMENT, [DBOS]))
    except subprocess.CalledProcessError:
        return None


def main(rounds: int, programs: list[str]) -> None:
    """Print one table, with the goals and whether they hold."""
    pythons, far_end = {program: python_of(program) for program in programs}, FarEnd()
    with tempfile.TemporaryDirectory() as folder, far_end.served() as url:
        found = [
            Lives(Path(folder), program, python, far_end, url)
            for program, python in pythons.items()
            if python is not None
        ]
        costs = milliseconds(found, rounds)
        rows = [row(lives, rounds, cost) for lives, cost in zip(found, costs, strict=True)]
    for program, python in pythons.items():
        if python is None:
            rows.append([*ROWS[program], f"skipped: no {DBOS}", *[""] * (len(HEAD) - 3)])
    table(f"What became of an effect whose process was killed; {DBOS}", HEAD, rows, packages=())


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 16, sys.argv[2:] or list(ROWS))
