"""The file of effects at its bounds: a full disk, ten thousand rows, and how often it waits for the disk."""

from __future__ import annotations

import gc
import logging
import re
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import Effects
from tests.samples import IS_ALL, some
from tests.stores.test_effects_crashes import DOORS, Case, lives


__all__ = ["lives"]

pytestmark = [pytest.mark.real, pytest.mark.crash, pytest.mark.timeout(1_800 if IS_ALL else 300)]
ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
import resilient_bridge as rb

effects = rb.stores.Effects(sys.argv[1])

@rb.resilient(idempotent=False, effects=effects, name="pay")
def pay(order):
    return order

for number in range(int(sys.argv[2])):
    pay(number)
"""


# a workflow's own file is full, too, and then it halts
@pytest.mark.parametrize("door", [door for door in DOORS if door != "phase"])
def test_a_full_disk_holds_the_effect(door, lives, tmp_path):
    """At whatever size the disk is full, the effect is held or it happens once; when there is room again, it is as after a kill."""
    for limit in some(range(1_024, 60_000, 1_024), 4):
        case = Case(tmp_path / str(limit), lives, door, verifies=True)
        first = case.live(limit=limit)
        if "held" in first:
            assert (first["held"], case.effects) == ("unreadable", 0), limit
        assert case.effects <= 1, (limit, first)
        case.judge(case.ask_again(), limit)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace counts what reaches the disk")
def test_a_call_waits_for_the_disk_twice(tmp_path):
    def flushes(calls):
        path = tmp_path / f"{calls}.db"
        ran = subprocess.run(
            [
                *("strace", "-f", "-c", "-e", "trace=fsync,fdatasync", sys.executable, "-c"),
                *(PROGRAM, str(path), str(calls)),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return sum(
            int(found) for found in re.findall(r"(\d+)(?:\s+\d+)?\s+fd?a?t?a?sync", ran.stderr)
        )

    assert flushes(60) - flushes(10) <= 2 * 50


def test_ten_thousand_effects_take_no_more_memory_than_a_thousand(tmp_path, caplog):
    """Their rows go with their answers; in doubt, each is a few hundred bytes, and the file refuses more than ten thousand."""
    many = 10_000 if IS_ALL else 300
    caplog.set_level(
        logging.CRITICAL, "resilient_bridge"
    )  # what pytest keeps of the log is not ours
    with Effects(tmp_path / "effects.db") as effects:

        @rb.Policy(rb.Retry(attempts=1))(idempotent=False, effects=effects, name="pay")
        def pay(order: int, *, is_lost: bool = False) -> int:
            if is_lost:
                raise ConnectionResetError
            return order

        for number in range(many // 10):
            pay(number)
        gc.collect()
        tracemalloc.start()
        for number in range(many):
            pay(number)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 200_000
        for number in range(many):
            with pytest.raises(ConnectionResetError):
                pay(number, is_lost=True)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 200_000 + 1_000 * many
        tracemalloc.stop()
        size = (tmp_path / "effects.db").stat().st_size
        assert size < 1_000_000 + 400 * many
        if IS_ALL:
            with pytest.raises(rb.errors.EffectHeldError, match=r"effects\.db is full"):
                pay(many)
