"""Real processes that share a limit through a real Redis, at a real server, aiohttp's: what it did and refused is counted at its end."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from tests.calls.test_shared_limits_real import Quota, opened, refused, results, worker
from tests.peers.processes import KILL
from tests.peers.running import until
from tests.redis_server import redis_server_fixture


pytestmark = [pytest.mark.real, pytest.mark.requirement("X14")]
server = redis_server_fixture()


async def test_four_processes_lose_no_call_and_are_refused_as_one_is(server):
    """Effects are counted at the server. That Redis makes the difference is in test_remote_limits, and below."""
    one = await refused(server.url, 1, 16, 6)
    with server.client() as client:
        client.flushall()
    four = await refused(server.url, 4, 4, 6)
    assert four <= 1.3 * one, (one, four)


async def test_a_process_that_is_killed_gives_its_permits_back(server):
    quota = Quota(9, seconds=0)
    quota.go.clear()
    async with opened(quota) as url, worker(url, server.url, 1, 1, start=1, name="dead") as dead:
        await until(lambda: quota.running == 1, "the only place is taken")
        async with worker(url, server.url, 1, 1, start=1, name="other") as other:
            waiting = asyncio.create_task(results(other))
            await asyncio.sleep(0.5)  # it has every chance to start, and must not
            assert list(quota.effects) == ["dead.0.0"]
            dead.send_signal(KILL)
            quota.go.set()
            assert await waiting == ["200"]
    assert list(quota.effects) == ["dead.0.0", "other.0.0"]


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
async def test_a_process_that_is_stopped_does_not_hold_up_the_others(server):
    """It was first in the queue; who does not look for a second is not waited for."""
    quota = Quota(9, seconds=0)
    quota.go.clear()
    state = server.url
    async with opened(quota) as url, worker(url, state, 1, 1, start=1, name="holder") as holder:
        await until(lambda: quota.running == 1, "the only place is taken")
        async with worker(url, state, 1, 1, start=1, name="stopped") as stopped:
            await asyncio.sleep(0.3)  # in the queue by now, and if it is not: the same is wanted
            stopped.send_signal(signal.SIGSTOP)
            async with worker(url, state, 1, 1, start=1, name="other") as other:
                quota.go.set()
                assert await results(other) == ["200"]
                assert await results(holder) == ["200"]
                stopped.send_signal(signal.SIGCONT)
                assert await results(stopped) == ["200"]
    assert list(quota.effects) == ["holder.0.0", "other.0.0", "stopped.0.0"]
