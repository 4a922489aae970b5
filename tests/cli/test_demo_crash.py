"""`resilient-bridge demo --crash`: the client's process is killed again and again on one store, and the ledger balances."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resilient_bridge.cli import demo_lives, main
from resilient_bridge.cli.demo_kills import KILL_TABLE, kill_plan


COMMAND = (sys.executable, "-m", "resilient_bridge", "demo", "--crash")


def clients(directory):
    """The processes whose store is below this directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            spoken = path.read_bytes()
        except OSError:
            continue
        if os.fsencode(directory) in spoken and b"demo_client" in spoken:
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


def read_until(child, word):
    for line in child.stderr:
        if word in line:
            return
    pytest.fail(f"no {word!r}")


# ---- the plan
def test_the_seed_decides_the_kills():
    """The same seed gives the same kills, each kind once before any comes twice, and the first finds a process at work."""
    plans = [kill_plan(8, 1.0, random.Random(seed)) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert all(sorted(plan[:4]) == sorted(plan[4:]) == sorted(KILL_TABLE) for plan in plans)
    assert all(kill_plan(1, 1.0, random.Random(seed))[0] != "starting" for seed in range(50))


def test_the_default_show_has_at_least_ten_kills():
    """As many as fit into the duration: 12 in the default 20 seconds, one at least."""
    assert len(kill_plan(0, 20.0, random.Random(0))) == 12
    assert len(kill_plan(0, 0.1, random.Random(0))) == 1


@pytest.mark.parametrize("argv", [["--crash", "0"], ["--crash", "x"], ["--crash", "--faults", "2"]])
def test_what_makes_no_sense_is_wrong_usage(argv, capsys):
    """No kill at all, something that is no number, and kills together with a plan of faults: exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(["demo", *argv])
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


# ---- runs
@pytest.mark.real
def test_the_ledger_balances_over_all_processes(tmp_path):
    """Four kinds of kills: 0 lost, 0 twice, 0 inversions, nothing unknown, the story is told, nothing is left behind."""
    child = started(tmp_path, "5", "--duration", "4", "--rate", "50", "--json", "--seed", "2")
    out, shown = child.communicate(timeout=100)
    totals = json.loads(out)
    assert (child.returncode, totals["broken"]) == (0, []), shown
    for name in ("lost", "duplicated", "reordered", "unexpected", "unknown", "not_delivered", "dead"):
        assert totals[name] == 0, name
    assert (totals["kills"], totals["processes"], totals["seed"]) == (5, 6, 2)
    assert set(totals["crashes"]) == set(KILL_TABLE)
    assert totals["sent"] == totals["applied"] == totals["confirmed"] > 20
    assert totals["pushed"] == totals["received"] - totals["repeated"] > 20
    assert totals["reconnects"] == sum(totals["verdicts"].values()) >= 3
    assert totals["resent"] >= 1
    assert out.count("\n") == 1
    words = [
        *KILL_TABLE,
        "KILL",
        "takes over from the store",
        "never sent",
        "RECOVERED",
        "sent again",
        "ledger",
    ]
    assert [word for word in words if word not in shown] == []
    assert list(tmp_path.iterdir()) == []
    assert clients(tmp_path) == []


@pytest.mark.real
def test_a_store_that_forgets_is_found_out(capsys, monkeypatch):
    """The store is deleted between two lives: what had been accepted and waited is lost, and the exit code is 1."""
    start = demo_lives.Lives.start

    async def forgetful(self, untold):
        for path in Path(self._target[1]).parent.iterdir():
            path.unlink()
        await start(self, untold)

    monkeypatch.setattr(demo_lives.Lives, "start", forgetful)
    seed = next(seed for seed in range(99) if kill_plan(1, 1.0, random.Random(seed)) == ["offline"])
    argv = ["demo", "--crash", "1", "--duration", "1.5", "--rate", "50", "--json", "--seed", str(seed)]
    assert main(argv) == 1
    captured = capsys.readouterr()
    totals = json.loads(captured.out)
    assert totals["lost"] >= 1
    assert any(line.startswith("forgotten: ") for line in totals["broken"])
    assert "BROKEN" in captured.err


@pytest.mark.real
def test_a_process_that_ends_by_itself_is_a_broken_promise(capsys, monkeypatch):
    """Nobody killed it, so it should live: the demo ends at once with 1 and says so."""
    monkeypatch.setattr(demo_lives, "_COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    assert main(["demo", "--crash", "--duration", "1"]) == 1
    assert "process 1 ended by itself" in capsys.readouterr().out


@pytest.mark.real
def test_an_interrupt_ends_it_early_with_the_ledger(tmp_path):
    """Ctrl-C stops the kills: the last process ends in order, the ledger is printed, no process and no file is left."""
    with started(tmp_path, "--duration", "60", "--json") as child:
        read_until(child, "READY")
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=30)
    assert child.returncode == 0
    assert json.loads(out)["lost"] == 0
    assert clients(tmp_path) == list(tmp_path.iterdir()) == []


@pytest.mark.real
def test_no_client_outlives_the_demo(tmp_path):
    """Even if the demo itself is killed: its client notices and ends."""
    with started(tmp_path, "--duration", "60", "--json") as child:
        read_until(child, "READY")
        child.kill()
        child.communicate(timeout=30)
    until = time.monotonic() + 10
    while clients(tmp_path) and time.monotonic() < until:
        time.sleep(0.05)
    assert clients(tmp_path) == []
