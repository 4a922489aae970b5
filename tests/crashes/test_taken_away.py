"""D01 and D02: a store that is taken away while its client lives; what it accepted is counted at the far end.

Rule: a sample runs always; all fifty runs of each way with RB_DAMAGE=all (`nox -s damage`).
"""

from __future__ import annotations

import pytest

from tests.crashes.taken_away import (
    CASES,
    REDIS_CASES,
    Account,
    redis_run,
    sqlite_run,
    two_owners_run,
)
from tests.redis_server import redis_server_fixture
from tests.samples import IS_ALL


pytestmark = [pytest.mark.real, pytest.mark.crash, pytest.mark.timeout(60 + 540 * IS_ALL)]

RUNS = 50 if IS_ALL else 2

server = redis_server_fixture()


@pytest.mark.requirement("V9")
@pytest.mark.parametrize("way", CASES)
async def test_d01_files_that_are_taken_away(way):
    """Each accepted message arrives once, or its sender was told; 0 losses unsaid, 0 doubles."""
    for seed in range(RUNS):
        account = await sqlite_run(way, seed)
        assert account.wrong() == [], seed


async def test_d02_two_owners_after_the_lock_file_was_removed():
    """Each message is sent once: the older owner ends (SESS_SUPERSEDED), and sends nothing more."""
    for seed in range(RUNS):
        account = await two_owners_run(seed)
        assert account.wrong() == [], seed
        assert sum(account.received.values()) == len(account.accepted)


@pytest.mark.parametrize("way", REDIS_CASES)
async def test_d01_a_redis_whose_data_is_taken_away(server, way):
    """The same for a Redis: emptied, restarted empty, and each of its keys removed or replaced."""
    for seed in range(RUNS):
        account = await redis_run(server, way, seed)
        assert account.wrong() == [], seed


def test_the_judge_notices():
    """An accepted message that is nowhere, and one that came twice."""
    account = Account(accepted=[1, 2])
    account.received.update([2, 2])
    assert len(account.wrong()) == 2
