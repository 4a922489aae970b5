"""Real processes that share a limit through a file or a real Redis, at a real server, aiohttp's: what it did and refused is counted at its end."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.peers.processes import KILL
from tests.peers.running import until
from tests.redis_server import redis_server_fixture


pytestmark = [pytest.mark.real, pytest.mark.requirement("X14")]
server = redis_server_fixture()

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["file", "redis"])
def state(request, tmp_path):
    """Where the processes of a test share the limit, as `limits_worker` takes it."""
    return (
        request.getfixturevalue("server").url if request.param == "redis" else tmp_path / "limits"
    )


class Quota:
    """Takes so many calls at once, and refuses others; a call may last until it is let go."""

    def __init__(self, most: int, seconds: float = 0.05):
        self.most, self.seconds = most, seconds
        self.running = self.refused = 0
        self.effects = Counter()
        self.go = asyncio.Event()
        self.go.set()

    async def answer(self, request):
        order = await request.text()
        if self.running >= self.most:
            self.refused += 1
            return web.Response(status=429)
        self.running += 1
        try:
            self.effects[order] += 1
            await self.go.wait()
            await asyncio.sleep(self.seconds)
        finally:
            self.running -= 1
        return web.Response(text=order)


@asynccontextmanager
async def opened(quota):
    app = web.Application()
    app.add_routes([web.post("/", quota.answer)])
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        quota.go.set()
        await runner.cleanup()


@asynccontextmanager
async def worker(url, state, agents, calls, *, start=0, name):
    command = (
        "-m",
        "tests.calls.limits_worker",
        url,
        str(state),
        *map(str, (agents, calls, start)),
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, name, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def results(process):
    return (await process.stdout.read()).decode().splitlines()


async def refused(state, processes, agents, calls):
    """Let so many processes make their calls; return how many were refused."""
    quota = Quota(4)
    async with opened(quota) as url, AsyncExitStack() as stack:
        started = await asyncio.gather(*(
            stack.enter_async_context(worker(url, state, agents, calls, name=f"p{number}"))
            for number in range(processes)
        ))  # fmt: skip
        found = await asyncio.gather(*map(results, started))
    lines = [line for each in found for line in each]
    assert Counter(lines) == {"200": processes * agents * calls}, "no call is lost"
    assert set(quota.effects.values()) == {1}, "and none took effect twice"
    assert len(quota.effects) == processes * agents * calls
    return quota.refused


async def test_four_processes_lose_no_call_and_are_refused_as_one_is(tmp_path):
    """Effects are counted at the server. That the file makes the difference is in test_shared_limits, and below."""
    one = await refused(tmp_path / "one", 1, 16, 4)
    four = await refused(tmp_path / "four", 4, 4, 4)
    assert four <= 1.3 * one, (one, four)


async def test_four_processes_of_a_redis_are_refused_as_one_is(server):
    """That Redis makes the difference is in test_remote_limits, and below."""
    one = await refused(server.url, 1, 16, 6)
    with server.client() as client:
        client.flushall()
    four = await refused(server.url, 4, 4, 6)
    assert four <= 1.3 * one, (one, four)


async def test_a_process_that_is_killed_gives_its_permits_back(state):
    quota = Quota(9, seconds=0)
    quota.go.clear()
    async with opened(quota) as url, worker(url, state, 1, 1, start=1, name="dead") as dead:
        await until(lambda: quota.running == 1, "the only place is taken")
        async with worker(url, state, 1, 1, start=1, name="other") as other:
            waiting = asyncio.create_task(results(other))
            await asyncio.sleep(0.5)  # it has every chance to start, and must not
            assert list(quota.effects) == ["dead.0.0"]
            dead.send_signal(KILL)
            quota.go.set()
            assert await waiting == ["200"]
    assert list(quota.effects) == ["dead.0.0", "other.0.0"]


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
async def test_a_process_that_is_stopped_does_not_hold_up_the_others(state):
    """It was first in the queue; who does not look for a second is not waited for."""
    quota = Quota(9, seconds=0)
    quota.go.clear()
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
