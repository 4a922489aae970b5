"""Calls through the sidecar to servers that others wrote, which are killed or die by a seeded plan; effects are counted on disk.

    python -m tests.adapters.sidecar.struck          makes all of them (minutes), and prints the table of docs/reference/evidence.md

Rule: what a call was told is held against what is on disk. Answered: it is there once; not executed: it is not there; unknown: at most once.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from resilient_bridge.testing import Trap, TrapStrike
from tests.adapters.sidecar import servers
from tests.adapters.sidecar.paced_client import CLIENTS, outcome_of_line
from tests.adapters.sidecar.standing_in import (
    behind,
    kill_server,
    listening,
    outcome_of,
    stands_in_for,
    text_of,
)


PROMPT = 2.0  # seconds after the loss in which a call that was sent is told as unknown
EAGER = ("--circuit", "100/1")  # so many deaths are a server's nature here


@dataclass
class Tally:
    """What was called, what it met, what it was told, and what is wrong with that."""

    calls: int = 0
    faults: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0  # seconds from a loss to `OUTCOME UNKNOWN`
    wrong: list[str] = field(default_factory=list)

    def judge(self, marker: str, outcome: str, ran: int, text: str = "") -> None:
        """Hold what a write was told against how often it ran."""
        self.calls += 1
        self.outcomes[outcome] += 1
        allowed = {"answered": (1,), "unknown": (0, 1), "not_executed": (0,)}.get(outcome, ())
        if ran not in allowed:
            self.wrong.append(f"{marker}: {outcome}, ran {ran} times: {text[:200]}")

    def read(self, marker: str, outcome: str, text: str = "") -> None:
        """A read that may be repeated: it is answered, whatever happens."""
        self.calls += 1
        self.outcomes[outcome] += 1
        if outcome != "answered":
            self.wrong.append(f"{marker}: a read was told {outcome}: {text[:200]}")


# ---- servers that are killed -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Killed:
    """A server, a write whose effects can be counted, and a read that may be repeated."""

    command: Callable[[Path], servers.Command]
    write: Callable[[Path, str], tuple[str, dict[str, Any]]]
    read: Callable[[Path], tuple[str, dict[str, Any]]]
    effects: Callable[[Path], Iterable[str]]
    prepare: Callable[[Path], object] = lambda _: None
    options: tuple[str, ...] = ()


def _repository(folder: Path) -> None:
    git = ("git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)


def _branches(folder: Path) -> list[str]:
    git = ("git", "-C", str(folder), "branch", "--format=%(refname:short)")
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout.split()


def _rows(folder: Path) -> list[str]:
    with sqlite3.connect(folder / "a.db") as database:
        found = [row[0] for row in database.execute("SELECT marker FROM orders")]
    database.close()
    return found


def _table(folder: Path) -> None:
    with sqlite3.connect(folder / "a.db") as database:
        database.execute("CREATE TABLE orders (marker TEXT)")
    database.close()


KILLED = {
    "sqlite": Killed(
        lambda folder: servers.sqlite(folder / "a.db"),
        lambda _, marker: ("write_query", {"query": f"INSERT INTO orders VALUES ('{marker}')"}),
        lambda _: ("read_query", {"query": "SELECT count(*) FROM orders"}),
        _rows,
        _table,
        ("--idempotent", "read_query"),
    ),
    "filesystem": Killed(
        servers.filesystem,
        lambda folder, marker: ("write_file", {"path": str(folder / marker), "content": marker}),
        lambda folder: ("list_directory", {"path": str(folder)}),
        lambda folder: [path.name for path in folder.iterdir()],
    ),
    "git": Killed(
        servers.git,
        lambda folder, marker: (
            "git_create_branch",
            {"repo_path": str(folder), "branch_name": marker},
        ),
        lambda folder: ("git_status", {"repo_path": str(folder)}),
        _branches,
        _repository,
    ),
}


def killed(kind: str, folder: Path, seed: int, calls: int, *, rate: float = 1 / 3) -> Tally:
    """Call a server that is killed at a random moment of a third of the calls."""
    case, rng, tally = KILLED[kind], Random(seed), Tally()
    home = folder / kind
    home.mkdir()
    case.prepare(home)
    made: list[tuple[str, str, str]] = []
    with behind(case.command(home), *EAGER, *case.options) as client:
        client.request("tools/list", {})
        for number in range(calls):
            marker = f"m-{number}"
            is_read = rng.random() < 0.25
            name, arguments = case.read(home) if is_read else case.write(home, marker)
            strike_after = rng.uniform(0, 0.015) if rng.random() < rate else None
            outcome, text = _struck(client, name, arguments, strike_after, tally)
            if is_read:
                tally.read(marker, outcome, text)
            else:
                made.append((marker, outcome, text))
    ran = Counter(case.effects(home))
    for marker, outcome, text in made:
        tally.judge(marker, outcome, ran[marker], text)
    return tally


def _struck(
    client: Any, name: str, arguments: dict[str, Any], strike_after: float | None, tally: Tally
) -> tuple[str, str]:
    call = client.begin("tools/call", {"name": name, "arguments": arguments})
    lost_at = None
    if strike_after is not None:
        time.sleep(strike_after)
        is_under_way = not call.done()
        tally.faults += bool(kill_server(client.process.pid))
        lost_at = time.monotonic() if is_under_way else None
    answer = call.result(60)
    outcome = outcome_of(answer)
    if outcome == "unknown" and lost_at is not None:
        tally.slowest = max(tally.slowest, time.monotonic() - lost_at)
        if time.monotonic() - lost_at > PROMPT:
            tally.wrong.append(
                f"{arguments}: told as unknown {time.monotonic() - lost_at:.1f} s after the loss"
            )
    return outcome, text_of(answer)


# ---- a server that dies by a plan --------------------------------------------------------------------------------------
STDIO = ("before", "after", "middle", "answered", "exit0", "noise")
HTTP = ("before", "after", "middle", "answered", "noise", "forgotten", "cut", "reset")


def plan_of(seed: int, kinds: Sequence[str], length: int, rate: float = 0.35) -> list[str]:
    """What happens to each call; never three times in a row something, for a read is not sent a fourth time."""
    rng = Random(seed)
    plan: list[str] = []
    for _ in range(length):
        kind = rng.choice(kinds) if rng.random() < rate else "answer"
        plan.append(kind if len(plan) < 2 or "answer" in plan[-2:] else "answer")
    return plan


def _calls_of(label: str, calls: int) -> str:
    order = {"name": "order", "arguments": {"marker": label + "-{n}", "item": "tea"}, "times": 3}
    return json.dumps({"calls": [order, {"name": "list_orders"}] * (calls // 4)})


def _run_client(command: servers.Command) -> list[dict[str, Any]]:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, check=False, cwd=servers.ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()][1:]


def _judged(label: str, lines: list[dict[str, Any]], ran: Counter[str], tally: Tally) -> None:
    for line in lines:
        text = line.get("text") or str(line.get("error"))
        outcome = outcome_of_line(line)
        if line["name"] == "order":
            tally.judge(f"{label}-{line['n']}", outcome, ran[f"{label}-{line['n']}"], text)
        else:
            tally.read(f"{label}-{line['n']}", outcome, text)


def by_plan(client: str, wire: str, folder: Path, seed: int, calls: int) -> Tally:
    """Have a client of another's make calls of the trap, over stdio or at a URL, each with the sidecar over stdio in between."""
    kinds = STDIO if wire == "stdio" else HTTP
    if client == "python-modern":  # it has no session that a server could forget
        kinds = tuple(kind for kind in kinds if kind != "forgotten")
    trap = Trap(folder / f"{client}-{wire}.jsonl", plan=plan_of(seed, kinds, calls))
    plan, tally = _calls_of(client, calls), Tally()
    if wire == "stdio":
        lines = _run_client(CLIENTS[client](plan, *stands_in_for(trap.command, *EAGER)))
    else:
        with trap.http(away=0.05) as url:
            lines = _run_client(CLIENTS[client](plan, *stands_in_for(url, *EAGER, "--trust-hints")))
    return _sum_up(trap, {client: lines}, calls, tally)


def shared(folder: Path, seed: int, calls: int) -> Tally:
    """Have all clients at once make calls of one trap, behind `--http --shared`."""
    trap = Trap(folder / "shared.jsonl", plan=plan_of(seed, STDIO, calls))
    each = calls // len(CLIENTS) // 4 * 4
    with listening(trap.command, "--shared", *EAGER) as sidecar, ThreadPoolExecutor() as threads:
        url = sidecar.url
        done = threads.map(
            lambda name: _run_client(CLIENTS[name](_calls_of(name, each), url)), CLIENTS
        )
        lines = dict(zip(CLIENTS, done, strict=True))
    return _sum_up(trap, lines, each * len(CLIENTS), Tally())


def _sum_up(trap: Trap, lines: dict[str, list[dict[str, Any]]], calls: int, tally: Tally) -> Tally:
    ran = Counter(effect.marker for effect in trap.effects())
    for label, one in lines.items():
        _judged(label, one, ran, tally)
    if tally.calls != calls:
        tally.wrong.append(f"wanted {calls} outcomes, got {tally.calls}")
    strikes = trap.strikes()
    tally.faults = strikes.total() - strikes[TrapStrike.ANSWER]
    return tally


# ---- all of it ---------------------------------------------------------------------------------------------------------
Run = Callable[[Path, int, int], Tally]
RUNS: dict[
    str, tuple[Run, int, int]
] = {  # what is run, how many calls in the campaign, and in a sample
    "sqlite, killed": (lambda *rest: killed("sqlite", *rest), 640, 8),
    "filesystem, killed": (lambda *rest: killed("filesystem", *rest), 300, 10),
    "git, killed": (lambda *rest: killed("git", *rest), 100, 6),
    **{
        f"{client}, {wire}": (
            lambda *rest, client=client, wire=wire: by_plan(client, wire, *rest),
            220,
            16,
        )
        for client in CLIENTS
        for wire in ("stdio", "http")
    },
    "three clients, --shared": (shared, 240, 24),
}


def main() -> None:
    """Make all runs and print a table."""
    total = Counter[str]()
    sys.stdout.write(
        "| server, client | calls | faults | answered | OUTCOME UNKNOWN | NOT EXECUTED | wrong | in |\n|---|---|---|---|---|---|---|---|\n"
    )
    for name, (run, calls, _) in RUNS.items():
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            tally = run(Path(folder), 16, calls)
        counts = [tally.outcomes[outcome] for outcome in ("answered", "unknown", "not_executed")]
        numbers = [tally.calls, tally.faults, *counts, len(tally.wrong)]
        sys.stdout.write(
            f"| {name} | {' | '.join(map(str, numbers))} | {time.monotonic() - begin:.0f} s |\n"
        )
        sys.stdout.flush()
        for line in tally.wrong:
            sys.stderr.write(f"{name}: {line}\n")
        total += Counter(calls=tally.calls, faults=tally.faults)
    sys.stdout.write(f"\n{total['calls']} calls, {total['faults']} faults\n")


if __name__ == "__main__":
    main()
