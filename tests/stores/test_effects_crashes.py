"""A process that asks for an effect, killed at every line of the gate, the ledger and the file: the effect never happens twice.

The caller asks again until it has an answer: at once, after 1 s and after 60 s, each time in a new process, with its arguments in another
order; and while the first process is alive and stopped, from a second one. `nox -s damage` runs every line, CI a sample.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tests.samples import IS_ALL, some


pytestmark = [pytest.mark.real, pytest.mark.crash, pytest.mark.timeout(3_000 if IS_ALL else 300)]

ROOT = Path(__file__).parents[2]
DOORS = ["policy", "policy_async", "toolbox", "phase", "sidecar"]
ARGUMENTS = [{"order": "A-7", "amount": 12}, {"amount": 12, "order": "A-7"}]
AGAIN = (0, 1, 60)  # seconds after the first call


@pytest.fixture(scope="module")
def lives():
    """Return what makes a life and tells what came of it."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.stores.effects_lives"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:

        def ask(**wanted):
            program.stdin.write(json.dumps(wanted) + "\n")
            program.stdin.flush()
            return json.loads(program.stdout.readline())

        yield ask
        program.stdin.close()


class Case:
    """One directory: the lives in it, and what the caller has got."""

    def __init__(self, root, lives, door, *, verifies):
        root.mkdir(mode=0o700)
        self.root, self._lives = root, lives
        self._door = {"door": door, "verifies": verifies, "root": str(root)}
        self.asked = 0

    def live(self, *, seconds=0, stop_at=0, stop="kill", **more):
        arguments = ARGUMENTS[self.asked % 2]
        self.asked += 1
        return self._lives(
            arguments=arguments,
            seconds=seconds,
            stop_at=stop_at,
            stop=stop,
            **self._door,
            **more,
        )

    def end(self, process):
        self._lives(end=process)

    @property
    def got(self):
        """What the caller has got, also from a life that was killed after it."""
        path = self.root / "got"
        return json.loads(path.read_text()) if path.exists() else {}

    @property
    def effects(self):
        path = self.root / "paid"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def ask_again(self):
        """Ask until there is an answer, or it is told that there is none to be had."""
        got = self.got
        for seconds in AGAIN:
            if "answer" in got or got.get("held") == "ran":
                break
            got = self.live(seconds=seconds)
            assert "error" not in got, got
        return got

    def judge(self, got, at):
        """The effect happened once at most; what is told of it is true; verify finds it out."""
        assert self.effects <= 1, (at, got, self.effects)
        if "answer" in got:
            assert (got["answer"], self.effects) == ("paid A-7 12", 1), at
        elif got["held"] == "ran":
            assert self.effects == 1, at
        if self._door["verifies"]:
            assert "answer" in got, (at, got)


def lines_of(tmp_path, lives, door):
    """Return how many lines a life without an end passes, and the answer that it gets."""
    case = Case(tmp_path / "whole", lives, door, verifies=False)
    whole = case.live()
    assert whole["answer"] == "paid A-7 12"
    assert case.effects == 1
    return range(1, whole["lines"] + 1)


@pytest.mark.requirement("X15")
@pytest.mark.parametrize("verifies", [True, False], ids=["verify", "none"])
@pytest.mark.parametrize("door", DOORS)
def test_no_effect_happens_twice_wherever_its_process_is_killed(door, verifies, lives, tmp_path):
    """Of one that asks for it, and then of the next one, which finds what the first has left."""
    kills, lines = 0, lines_of(tmp_path, lives, door)
    for at in some(lines[:: 6 if IS_ALL else 1], 3):
        case = Case(tmp_path / str(at), lives, door, verifies=verifies)
        kills += case.live(stop_at=at) == {"killed": 9}
        assert case.effects <= 1
        if not case.got:
            kills += case.live(stop_at=at * 7 % len(lines)) == {"killed": 9}
        case.judge(case.ask_again(), at)
    logging.getLogger(__name__).info("%s, verify %s: %s kills", door, verifies, kills)
    assert kills >= 3


@pytest.mark.requirement("X15")
@pytest.mark.parametrize("verifies", [True, False], ids=["verify", "none"])
@pytest.mark.parametrize("door", DOORS)
def test_a_second_process_makes_no_second_effect(door, verifies, lives, tmp_path):
    """The first is alive and stopped; then it goes on to its end, which is a kill."""
    for at in some(lines_of(tmp_path, lives, door)[:: 30 if IS_ALL else 1], 1):
        case = Case(tmp_path / str(at), lives, door, verifies=verifies)
        first = case.live(stop_at=at, stop="stop")
        second = case.live()
        assert case.effects <= 1, (at, second)
        if "answer" in second:
            assert case.effects == 1, at
        if "stopped" in first:
            case.end(first["stopped"])
        case.judge(case.ask_again(), at)
