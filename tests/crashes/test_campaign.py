"""kill -9 at any moment, hundreds of times over one store: nothing accepted is lost, repeated, or out of order; and the proof that it would show."""

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
KILLS = {"steady": 40, "slow_reader": 10, "faults": 30, "machine": 20, "machine_faults": 15, "forgetful": 20}


@pytest.mark.requirement("V9")
@pytest.mark.requirement("V13")
@pytest.mark.timeout(60 + 120 * TIMES)
@pytest.mark.parametrize("name", KILLS)
async def test_a_client_that_is_killed_again_and_again_keeps_its_word(name, tmp_path):
    """What send() accepted is applied once, in order, under one id and key; what was pushed is consumed, and flagged if it was before."""
    kills = TIMES * KILLS[name]
    accounts = await Campaign(name, SEED, kills, tmp_path).run()
    totals = accounts.totals()
    assert totals["kills"] >= kills
    assert totals["accepted"] > 3 * kills


#: Each mistake, and the campaign in which it does harm.
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
    """The campaign has teeth: a client that makes this mistake breaks a promise within 90 kills."""
    for seed in range(2, CHUNKS + 2):
        directory = tmp_path / str(seed)
        directory.mkdir()
        try:
            await Campaign(HARMS[name], seed, CHUNK, directory, variant=name).run()
        except BrokenError:
            return
    pytest.fail(f"{name} survived {CHUNK * CHUNKS} kills")


def test_every_known_bad_variant_has_its_campaign():
    """No mistake is described and never made; two have tests of their own (test_every_step, test_in_hand)."""
    assert HARMS.keys() == VARIANTS.keys() - {"leavings_stay", "position_seldom_kept"}


async def test_a_broken_promise_is_told_with_the_command_that_repeats_it(tmp_path):
    """Whoever reads a red campaign can run it again with one command."""
    with pytest.raises(
        BrokenError, match=r"repeat: python -m tests\.crashes steady 1 15 outcomes_never_written"
    ):
        await Campaign("steady", 1, CHUNK, tmp_path, variant="outcomes_never_written").run()
