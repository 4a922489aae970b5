"""The same death at every step there is: before, inside and after each transaction, and at many bytes of the log."""

from __future__ import annotations

import pytest

from tests.crashes.accounts import BrokenError
from tests.crashes.lives import Nursery
from tests.crashes.script import Script
from tests.internals.stores import PAGE


pytestmark = [pytest.mark.real, pytest.mark.crash, pytest.mark.timeout(120)]

HEADER, FRAME = 32, 24 + PAGE  # of SQLite's log
ENOUGH = 60  # transactions: more than the script has


@pytest.fixture(scope="module")
async def nursery():
    """One fork server for all."""
    async with Nursery() as nursery:
        yield nursery


async def _sweep(nursery, directory, when, **options):
    """Die at step 1, 2, ... until the script ends before its death; returns how many deaths there were."""
    for at in range(1, ENOUGH):
        script = Script(nursery, directory / f"{when}-{at}.db", **options)
        lives = await script.run({"at": at, "when": when})
        if lives[0].over == 0:
            return at - 1
    pytest.fail(f"the script still died at transaction {ENOUGH - 1}")


@pytest.mark.requirement("V9")
@pytest.mark.requirement("V13")
@pytest.mark.parametrize("when", ["before", "inside", "after"])
async def test_a_death_at_any_transaction_leaves_the_right_accounts(nursery, tmp_path, when):
    """Killed before, inside or after its k-th transaction, for every k: the next life ends with everything applied once and read."""
    assert await _sweep(nursery, tmp_path, when) >= 8


@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_same_with_the_promise_machine(nursery, tmp_path, when):
    """Transactions in a thread change nothing about that."""
    assert await _sweep(nursery, tmp_path, when, durability="machine") >= 5


@pytest.mark.requirement("V9")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_server_that_has_forgotten_the_keys_applies_nothing_twice(nursery, tmp_path, when):
    """What may have been handed out before the death is reported as unknown, and not repeated to a server that would not know it."""
    assert await _sweep(nursery, tmp_path, when, forgets=True) >= 5


async def test_a_mark_that_comes_late_is_caught_at_some_step(nursery, tmp_path):
    """The sweep has teeth: a client that marks after it has sent repeats itself to a server without its keys."""
    with pytest.raises(BrokenError, match="applied twice"):
        await _sweep(nursery, tmp_path, "before", forgets=True, variant="mark_after_send")


def _torn(nursery, directory, frame, byte, **options):
    """Three deaths: at a byte of a page in the log, after the first transaction of the next life, and after the second of the third."""
    deaths = (
        {"bytes": HEADER + frame * FRAME + byte},
        {"at": 1, "when": "after"},
        {"at": 2, "when": "after"},
    )
    more = {"text": "x" * 12_000}  # four pages: most deaths are in the middle of a transaction
    return Script(nursery, directory / f"{frame}-{byte}.db", more=more, **options).run(*deaths)


@pytest.mark.parametrize("frame", range(12))
async def test_a_write_that_was_cut_off_is_no_damage(nursery, tmp_path, frame):
    """A death in the middle of a write, then one after a shorter write: the third life finds nothing damaged and nothing lost."""
    for byte in (24, 2_000):
        await _torn(nursery, tmp_path, frame, byte)
