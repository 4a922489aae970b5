"""`resilient-bridge demo` is the main job over real sockets: every fault, any seed, nothing lost, repeated or reordered."""

from __future__ import annotations

import argparse
import io
import json
import signal
import subprocess
from pathlib import Path

import pytest

from resilient_bridge.cli import main
from resilient_bridge.testing import BridgeServer, FaultProxy
from tests.internals.cli import FAULTS, demo
from tests.internals.testing import ledger
from tests.peers.zygote import PYTHON


ROOT = Path(__file__).parents[2]
COMMAND = (*PYTHON, "-m", "resilient_bridge", "demo")
KEYS = {
    "sent", "confirmed", "unknown", "not_delivered", "dead", "pushed", "received", "covered", "lost", "duplicated", "reordered",
    "unexpected", "reconnects", "verdicts", "broken", "resent", "kills", "crashes", "seed", "faults", "outages", "missing",
}  # fmt: skip
VERDICTS = {
    "cut": "RECOVERED", "half-open": "RECOVERED", "reset": "RECOVERED", "fin": "RECOVERED", "restart": "RECOVERED",
    "restart-lost": "GAP", "expire": "GAP", "truncate": "GAP", "broken-buffer": "UNKNOWN",
}  # fmt: skip


def _run(capsys, *argv):
    code = main(["demo", "--json", *argv])
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured


# ---- the plan
def _plan(faults, duration, seed):
    arguments = argparse.Namespace(
        faults=faults, crash=None, mcp=False, duration=duration, seed=seed
    )
    return demo.Demo(
        arguments, BridgeServer(), FaultProxy("127.0.0.1", 1), demo.Screen(io.StringIO())
    ).plan


def test_the_seed_decides_which_faults_come_when():
    """The same seed gives the same order, another seed another one, and each kind comes once before any comes twice."""
    plans = [_plan(20, 1.0, seed) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert sorted(plans[0][:9]) == sorted(plans[0][9:18]) == sorted(FAULTS)


def test_the_default_plan_holds_every_fault_once():
    """In the default 20 seconds each of the nine kinds comes once; a shorter run has as many as fit, at least one."""
    assert sorted(_plan(None, 20.0, 0)) == sorted(FAULTS)
    assert (len(_plan(None, 8.0, 0)), len(_plan(None, 0.1, 0)), len(_plan(0, 20.0, 0))) == (3, 1, 0)


def test_names_are_played_as_they_stand():
    """A list of names is the plan itself."""
    assert _plan(("fin", "cut", "fin"), 20.0, 0) == ["fin", "cut", "fin"]


# ---- runs
@pytest.mark.real
def test_every_fault_is_survived_and_shown_with_any_seed():
    """All nine faults, three seeds: 0 lost, 0 duplicated, 0 reordered; RECOVERED where the bridge still had everything, else a report."""
    options = ("--json", "--duration", "3", "--faults", "9", "--rate", "50")
    children = {
        seed: subprocess.Popen(
            [*COMMAND, *options, "--seed", str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2, 3)
    }
    for seed, child in children.items():
        out, shown = child.communicate(timeout=100)
        totals = json.loads(out)
        assert (child.returncode, totals["broken"]) == (0, []), shown
        assert (
            totals["lost"],
            totals["duplicated"],
            totals["reordered"],
            totals["unexpected"],
        ) == (
            0,
            0,
            0,
            0,
        )
        assert set(totals) == KEYS
        assert totals["seed"] == seed
        assert totals["reconnects"] == sum(totals["verdicts"].values()) >= 9
        assert totals["verdicts"]["RECOVERED"] >= 1
        assert totals["verdicts"]["GAP"] >= 3
        assert totals["sent"] == totals["confirmed"] + totals["unknown"] + totals["not_delivered"]
        assert out.count("\n") == 1
        rows = {one["fault"]: one for one in totals["outages"]}
        assert {fault: row["verdict"] for fault, row in rows.items()} == VERDICTS, shown
        assert (
            totals["missing"] == totals["covered"] == sum(row["missing"] for row in rows.values())
        )
        assert all(row["is_reported"] == (row["verdict"] != "RECOVERED") for row in rows.values())
        assert [what for what in FAULTS.values() if f"\n{what}" not in shown] == []


@pytest.mark.real
def test_a_broken_promise_ends_with_one(capsys, monkeypatch):
    """A ledger that finds a message lost makes the demo fail and say so: here the consumer loses one on purpose."""
    delivered = ledger.Ledger.delivered

    def forgetful(self, message):
        if message.payload["n"] != 5:
            delivered(self, message)

    monkeypatch.setattr(ledger.Ledger, "delivered", forgetful)
    code, totals, captured = _run(capsys, "--faults", "0", "--duration", "1", "--rate", "50")
    assert (code, totals["lost"]) == (1, 1)
    assert "BROKEN" in captured.err


@pytest.mark.real
def test_an_interrupt_ends_it_early_with_the_score():
    """Ctrl-C stops the faults; what is on its way still arrives, and the score is printed."""
    with subprocess.Popen(
        [*COMMAND, "--duration", "60", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stderr
        while b"what happened" not in child.stderr.readline():
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=30)
    assert child.returncode == 0
    assert json.loads(out)["lost"] == 0


@pytest.mark.real
@pytest.mark.parametrize(
    "argv", [["--duration", "60"], ["--duration", "60", "--crash", "2"], ["--mcp"]]
)
def test_d07_an_unread_demo_ends_quietly(argv):
    """`demo | head -2`: the play stops when its reader has gone, with the code of a broken pipe and without a traceback."""
    with subprocess.Popen(
        [*COMMAND, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True
    ) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == ""
