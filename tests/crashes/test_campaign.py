"""kill -9 at any moment, hundreds of times with one store: nothing accepted is lost, repeated or reordered; known-bad variants are caught."""

from __future__ import annotations

import os

import pytest

from tests.crashes.accounts import BrokenError
from tests.crashes.campaign import Campaign
from tests.crashes.variants import VARIANTS
from tests.samples import IS_ALL


pytestmark = [pytest.mark.real, pytest.mark.crash]

TIMES = int(
    os.environ.get("CRASHES_TIMES", "4" if IS_ALL else "1")
)  # how many times the kills of a quick run
SEED = int(os.environ.get("CRASHES_SEED", "1"))
CHUNK = 15
CHUNKS = 6  # a known-bad variant must be caught within CHUNK * CHUNKS kills
KILLS = {
    "steady": 40,
    "slow_reader": 10,
    "faults": 30,
    "machine": 20,
    "machine_faults": 15,
    "forgetful": 20,
}


@pytest.mark.requirement("V9")
@pytest.mark.requirement("V13")
@pytest.mark.timeout(60 + 120 * TIMES)
@pytest.mark.parametrize("name", KILLS)
async def test_a_client_that_is_killed_again_and_again_keeps_its_word(name, tmp_path):
    """An accepted send is applied once, in order, with one id and key; a pushed message is consumed, and flagged if it was consumed before."""
    kills = TIMES * KILLS[name]
    accounts = await Campaign(name, SEED, kills, tmp_path).run()
    totals = accounts.totals()
    assert totals["kills"] >= kills
    assert totals["accepted"] > 3 * kills


#: Each mistake, and the campaign that catches it.
HARMS = {
    "mark_after_send": "forgetful",
    "accepted_before_written": "steady",
    "outcomes_never_written": "steady",
    "position_before_taken": "slow_reader",
    "pop_before_ack": "faults",
    "another_id_on_resend": "steady",
    "repeats_unflagged": "steady",
    "order_of_keys": "faults",
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", HARMS)
async def test_a_known_bad_variant_is_caught(name, tmp_path):
    """A client that makes this mistake breaks a promise within 90 kills."""
    for seed in range(2, CHUNKS + 2):
        directory = tmp_path / str(seed)
        directory.mkdir()
        try:
            await Campaign(HARMS[name], seed, CHUNK, directory, variant=name).run()
        except BrokenError:
            return
    pytest.fail(f"{name} survived {CHUNK * CHUNKS} kills")


def test_every_known_bad_variant_has_its_campaign():
    """Every variant is tested; one has a test of its own (test_in_hand)."""
    assert HARMS.keys() == VARIANTS.keys() - {"position_seldom_saved"}


async def test_a_broken_promise_is_reported_with_the_command_that_reproduces_it(tmp_path):
    """A failed campaign prints the command that runs it again."""
    with pytest.raises(
        BrokenError, match=r"repeat: python -m tests\.crashes steady 1 15 outcomes_never_written"
    ):
        await Campaign("steady", 1, CHUNK, tmp_path, variant="outcomes_never_written").run()
