"""`resilient-bridge demo --crash`: the client's process is killed again and again on one store, and the ledger balances."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resilient_bridge.cli import main
from resilient_bridge.testing import BridgeServer, FaultProxy
from tests.internals.cli import KILLS, demo
from tests.peers.zygote import PYTHON
from tests.rows import each_row


COMMAND = (*PYTHON, "-m", "resilient_bridge", "demo", "--crash")


def clients(directory):
    """The processes whose store is below this directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            spoken = path.read_bytes()
        except OSError:
            continue
        if os.fsencode(directory) in spoken and b"--store" in spoken:
            found.append(int(path.parent.name))
    return found


def started(directory, *argv):
    return subprocess.Popen(
        [*COMMAND, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(directory)},
    )


def until_ready(child):
    """Wait for the head of the table, which is printed when the first process is READY."""
    assert any("what happened" in line for line in child.stderr)


# ---- the plan
def crashes(count, duration=1.0, seed=0):
    """A run that has not begun."""
    arguments = argparse.Namespace(
        faults=None, crash=count, mcp=False, duration=duration, seed=seed
    )
    return demo.Crashes(
        arguments, BridgeServer(), FaultProxy("127.0.0.1", 1), demo.Screen(io.StringIO())
    )


def test_the_seed_decides_the_kills():
    """The same seed gives the same kills, each kind once before any comes twice."""
    plans = [crashes(8, seed=seed).plan for seed in (1, 1, 3)]
    assert plans[0] == plans[1] != plans[2]
    assert all(sorted(plan[:3]) == sorted(plan[3:6]) == sorted(KILLS) for plan in plans)


def test_the_default_show_has_at_least_ten_kills():
    """As many as fit into the duration: 12 in the default 20 seconds, one at least."""
    assert len(crashes(0, 20.0).plan) == 12
    assert len(crashes(0, 0.1).plan) == 1


@pytest.mark.parametrize("argv", [["--crash", "0"], ["--crash", "x"], ["--crash", "--faults", "2"]])
def test_what_makes_no_sense_is_wrong_usage(argv, capsys):
    """No kill at all, something that is no number, and kills together with a plan of faults: exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(["demo", *argv])
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


# ---- what a process prints
async def heard(*lines):
    """The ledger of a run in which three messages were pushed and a process printed this."""
    run = crashes(1)
    run.is_ready = False
    for n in (1, 2, 3):
        run.ledger.pushed(n)
    output = asyncio.StreamReader()
    output.feed_data(b"".join(lines))
    output.feed_eof()
    await run._hear(output)
    return run.ledger.totals()


def printed(n, **flags):
    return (
        json.dumps({"type": "tool_call", "id": "i", "payload": {"n": n}} | flags).encode() + b"\n"
    )


@each_row(
    ("lines", "broken"),
    [
        ([printed(1), printed(2), printed(3)], []),
        ([printed(1), printed(2), printed(2, redelivered=True), printed(3)], []),
        ([printed(1), printed(2), printed(2), printed(3)], ["duplicated"]),
        ([printed(1), printed(3), printed(2)], ["reordered"]),
        ([printed(1), printed(3)], ["lost"]),
        ([printed(1), b"gap: GAP (truncated), since x, until y\n", printed(3)], []),
        ([printed(1), printed(2), printed(3)[:-5]], ["lost"]),
        ([printed(1), printed(2), printed(3), printed(4)], ["unexpected"]),
    ],
)
async def test_each_broken_promise_is_found(lines, broken):
    """Lost, late, or again without a flag breaks one; what a gap covers does not; what a kill cut off was not printed."""
    totals = await heard(*lines)
    assert [line.partition(":")[0] for line in totals["broken"]] == broken


async def test_a_rejoin_without_a_verdict_is_found():
    """The first join needs none; each later one has to have one."""
    first = (b"joined: s\n", b"state: FLUSHING (joined)\n", b"state: READY (flushed)\n")
    later = (b"state: FLUSHING (joined)\n", b"state: READY (flushed)\n")
    everything = [printed(n) for n in (1, 2, 3)]
    totals = await heard(*first, b"verdict: RECOVERED (anchor), 3 replayed\n", *later, *everything)
    assert (totals["broken"], totals["verdicts"]) == ([], {"RECOVERED": 1, "GAP": 0, "UNKNOWN": 0})
    assert [
        line.partition(":")[0] for line in (await heard(*first, *later, *everything))["broken"]
    ] == ["unjudged"]


# ---- runs
@pytest.mark.real
def test_the_ledger_balances_over_all_processes(tmp_path):
    """Three kinds of kills: 0 lost, 0 twice, 0 inversions, nothing unknown, a row for each kill, nothing is left behind."""
    child = started(tmp_path, "4", "--duration", "3", "--rate", "50", "--json", "--seed", "2")
    out, shown = child.communicate(timeout=100)
    totals = json.loads(out)
    assert (child.returncode, totals["broken"]) == (0, []), shown
    for name in (
        "lost",
        "duplicated",
        "reordered",
        "unexpected",
        "unknown",
        "not_delivered",
        "dead",
        "covered",
    ):
        assert totals[name] == 0, name
    assert (totals["kills"], totals["seed"]) == (4, 2)
    assert set(totals["crashes"]) == set(KILLS)
    assert totals["sent"] == totals["confirmed"] == totals["pushed"] > 20
    assert totals["reconnects"] == sum(totals["verdicts"].values()) == 4
    assert totals["resent"] >= 1
    assert out.count("\n") == 1
    assert [row["fault"] for row in totals["outages"]] == totals["crashes"]
    assert {(row["verdict"], row["missing"]) for row in totals["outages"]} == {("RECOVERED", 0)}
    words = [*(f"\n{what}" for what in KILLS.values()), "RECOVERED", "sent again", "\nkept: "]
    assert [word for word in words if word not in shown] == []
    assert list(tmp_path.iterdir()) == []
    assert clients(tmp_path) == []


@pytest.mark.real
def test_a_store_that_forgets_is_found_out(capsys, monkeypatch):
    """The store is deleted between two lives: what had been accepted and waited is lost, and the exit code is 1."""
    start = demo.Crashes._start

    async def forgetful(self):
        for path in Path(self.files[1]).parent.glob("bridge.db*"):
            path.unlink()
        await start(self)

    monkeypatch.setattr(demo.Crashes, "_start", forgetful)
    seed = next(seed for seed in range(99) if crashes(1, seed=seed).plan == ["offline"])
    argv = [
        "demo",
        "--crash",
        "1",
        "--duration",
        "1.5",
        "--rate",
        "50",
        "--json",
        "--seed",
        str(seed),
    ]
    assert main(argv) == 1
    captured = capsys.readouterr()
    totals = json.loads(captured.out)
    assert totals["lost"] >= 1
    assert any(line.startswith("unapplied: ") for line in totals["broken"])
    assert "BROKEN" in captured.err


@pytest.mark.real
def test_a_process_that_ends_by_itself_is_a_broken_promise(capsys, monkeypatch):
    """Nobody killed it, so it should live: the demo ends at once with 1 and says so."""
    monkeypatch.setattr(demo, "COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    assert main(["demo", "--crash", "--duration", "1"]) == 1
    assert (
        "ended early: a process that is READY expected, got exit code 3" in capsys.readouterr().out
    )


@pytest.mark.real
def test_what_the_last_process_does_not_confirm_is_a_broken_promise(capsys, monkeypatch):
    """Only its exit code 0 says that everything was confirmed; with another one nothing was."""
    code = "import sys; from resilient_bridge.cli import main; main(['pipe', *sys.argv[1:]]); sys.exit(3)"
    monkeypatch.setattr(demo, "COMMAND", (sys.executable, "-c", code))
    assert main(["demo", "--crash", "1", "--duration", "0.5", "--json"]) == 1
    totals = json.loads(capsys.readouterr().out)
    assert totals["confirmed"] == 0
    assert [line.partition(":")[0] for line in totals["broken"]] == ["untold"]


@pytest.mark.real
def test_an_interrupt_ends_it_early_with_the_ledger(tmp_path):
    """Ctrl-C stops the kills: the last process ends in order, the score is printed, no process and no file is left."""
    with started(tmp_path, "--duration", "60", "--json") as child:
        until_ready(child)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=30)
    assert child.returncode == 0
    assert json.loads(out)["lost"] == 0
    assert clients(tmp_path) == list(tmp_path.iterdir()) == []


@pytest.mark.real
def test_no_client_outlives_the_demo(tmp_path):
    """Even if the demo itself is killed: its client notices and ends."""
    with started(tmp_path, "--duration", "60", "--json") as child:
        until_ready(child)
        child.kill()
        child.communicate(timeout=30)
    until = time.monotonic() + 30  # it waits for its confirmations, for as long as --drain says
    while clients(tmp_path) and time.monotonic() < until:
        time.sleep(0.05)
    assert clients(tmp_path) == []
