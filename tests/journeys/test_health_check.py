"""A health check of the application's own: asked again and again, and never believed without a second opinion.

Rule: a bad answer sends a probe; only a link that does not answer it is dead.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

import resilient_bridge as rb

from .journey import Journey, simulated


SLOW = rb.presets.openviber  # heartbeat 15 + 30 s: what is noticed sooner was noticed by the probe
SOON = 1.5 + 0.25 + 0.1  # the probe's time, the last look, and the way of what was sent


class Check:
    """A health check whose answer can be set; an exception is raised, "hang" never returns. `times` is when it ran."""

    def __init__(self, answer: Any = True) -> None:
        self.answer = answer
        self.times: list[float] = []
        self.running = 0

    async def __call__(self) -> bool:
        assert not self.running, "two runs at once"
        self.running += 1
        try:
            self.times.append(asyncio.get_running_loop().time())
            if self.answer == "hang":
                await asyncio.sleep(math.inf)
            if isinstance(self.answer, BaseException):
                raise self.answer
            return bool(self.answer)
        finally:
            self.running -= 1


@pytest.mark.requirement("V13")
@simulated
async def test_a_failed_health_check_finds_a_dead_link(server):
    """The check says no and the probe stays unanswered: `health_check_failed`, and the work goes out again, applied once."""
    check = Check()
    async with Journey(server, policy=SLOW, health_check=check) as journey:
        await journey.ready()
        await asyncio.sleep(20)
        (link,) = journey.loop.network.links
        link.blackhole(math.inf, "down")
        await journey.send(1)
        await asyncio.sleep(0.1)
        check.answer = False
        died = journey.loop.time()
        await asyncio.sleep(15 + SOON)
        check.answer = True
        assert journey.losses() == ["health_check_failed"]
        assert journey.when(rb.events.Disconnected) - died <= 15 + SOON
        await journey.rest()
        first, second = [frame for frame in server.frames if frame["type"] == "tool_result"]
        assert first == second
        assert len(server.received) == 1
        assert journey.client.health().failed_checks == 1
        assert journey.client.health().check_errors == 0
    journey.check()


@pytest.mark.requirement("V13")
@pytest.mark.parametrize(
    ("answer", "errors"),
    [(False, 0), (None, 0), (ValueError("x"), 8), (TimeoutError(), 8), (asyncio.CancelledError(), 8), ("hang", 0)],
    ids=repr,
)  # fmt: skip
@simulated
async def test_a_bad_health_answer_alone_kills_no_link(server, answer, errors):
    """No, an exception, a stray cancellation, no answer at all: each is counted and costs a ping; the link stays."""
    check = Check(answer)
    async with Journey(server, health_check=check) as journey:
        await journey.ready()
        await asyncio.sleep(15 * 9 - 2)
        assert journey.losses() == []
        health = journey.client.health()
        assert (health.failed_checks, health.check_errors) == (8, errors)
        await journey.send(1)
        await journey.rest()
    journey.check()


@pytest.mark.parametrize("answer", [True, "hang"])
@simulated
async def test_the_check_runs_at_the_heartbeats_interval_and_never_twice_at_once(server, answer):
    """Every 15 s, however long a run takes; one that does not end is ended after the heartbeat's 10 s."""
    check = Check(answer)
    async with Journey(server, health_check=check) as journey:
        await journey.ready()
        await asyncio.sleep(100)
        gaps = [after - before for before, after in zip(check.times, check.times[1:], strict=False)]
        assert gaps == pytest.approx([15.0] * 5, abs=0.01)
        assert check.times[0] == pytest.approx(15.0, abs=0.01)
    assert check.running == 0


@simulated
async def test_a_run_longer_than_the_interval_is_awaited(server):
    """A timeout above the interval: the next run starts when this one has ended, and not before."""
    check = Check("hang")
    policy = rb.bridge.BridgePolicy(heartbeat=rb.bridge.Heartbeat(every=5, timeout=8))
    async with Journey(server, policy=policy, health_check=check) as journey:
        await journey.ready()
        await asyncio.sleep(40)
        gaps = [after - before for before, after in zip(check.times, check.times[1:], strict=False)]
        assert gaps == pytest.approx([8.0] * len(gaps), abs=0.01)
        assert len(gaps) >= 3


@simulated
async def test_the_check_rests_while_the_link_is_down(server):
    """Only a READY client has a link to doubt: nothing is asked through a minute's outage."""
    check = Check(False)
    async with Journey(server, health_check=check) as journey:
        await journey.ready()
        await asyncio.sleep(1)
        await server.cut("abort", seconds=60)
        await asyncio.sleep(59)
        assert check.times == []
        await journey.ready()
        await asyncio.sleep(16)
        assert check.times


@simulated
async def test_an_answer_about_a_link_that_has_gone_is_no_doubt_about_the_next(server):
    """The run began on the old connection: what it says is counted, and the new one is not asked."""
    check = Check("hang")
    async with Journey(server, policy=SLOW, health_check=check) as journey:
        await journey.ready()
        await asyncio.sleep(16)
        assert check.running
        await server.cut("abort")
        await journey.ready()
        await asyncio.sleep(5)
        check.answer = True
        while check.running:
            before = journey.pings()
            await asyncio.sleep(0.1)
        assert journey.client.health().failed_checks == 1
        await asyncio.sleep(1)
        assert journey.pings() == before


@simulated
async def test_a_check_need_not_be_async(server):
    """A plain function that answers from what the application already knows."""
    known = {"well": True}
    async with Journey(server, policy=SLOW, health_check=lambda: known["well"]) as journey:
        await journey.ready()
        await asyncio.sleep(20)
        assert journey.client.health().failed_checks == 0
        known["well"] = False
        for link in journey.loop.network.links:
            link.blackhole(math.inf)
        await asyncio.sleep(10 + SOON)
        assert journey.losses() == ["health_check_failed"]


@simulated
async def test_the_bridges_own_health_endpoint_can_be_asked(server):
    """As an application would: GET over HTTP; it knows of a bridge that hangs, and the link is judged by its own pong."""
    host, port = server.health_url.removeprefix("http://").removesuffix("/health").split(":")

    async def get() -> bool:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(b"GET /health HTTP/1.1\r\nHost: bridge\r\nConnection: close\r\n\r\n")
                return b" 200 " in await reader.readline()
            finally:
                writer.close()

    async with Journey(server, policy=SLOW, health_check=get) as journey:
        await journey.ready()
        await asyncio.sleep(20)
        assert journey.client.health().failed_checks == 0
        await server.cut("blackhole", seconds=60)
        await asyncio.sleep(10 + 2 + SOON)
        assert journey.losses() == ["health_check_failed"]
        await journey.rest()
    journey.check()


@pytest.mark.parametrize("stubborn", [False, True])
@simulated
async def test_a_check_that_hangs_does_not_hold_up_the_end(server, stubborn):
    """aclose() is bounded even if the check swallows its cancellation; one that does not is gone when it returns."""
    let_go = asyncio.Event()

    async def check() -> bool:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                if not stubborn:
                    raise
        return True

    client = rb.BridgeClient(server.url, policy=SLOW, health_check=check)
    async with client:
        await client.wait_ready()
        await asyncio.sleep(16)
        loop = asyncio.get_running_loop()
        start = loop.time()
        await client.aclose()
        assert loop.time() - start <= 2.2
        assert client.state == "CLOSED"
        remaining = [task for task in asyncio.all_tasks() if "resilient_bridge" in task.get_name()]
        assert len(remaining) == stubborn
        let_go.set()
        await asyncio.sleep(0.1)


@simulated
async def test_the_check_ends_with_a_client_that_has_failed(server):
    """FAILED is an end too: its task does not wait for somebody to close the client."""
    server.behave(accept_then_close=4409)
    client = rb.BridgeClient(server.url, health_check=Check())
    async with client:
        with pytest.raises(rb.BridgeError):
            await client.wait_ready(60)
        await asyncio.sleep(20)
        assert not [task for task in asyncio.all_tasks() if "health check" in task.get_name()]


@pytest.mark.parametrize("check", ["http://host/health", 5, True])
def test_a_check_that_cannot_be_called_is_refused(check):
    """ConfigError names the argument; also for `over`."""
    with pytest.raises(rb.ConfigError, match=r"BridgeClient\.health_check"):
        rb.BridgeClient("ws://127.0.0.1:1/ws", health_check=check)
    with pytest.raises(rb.ConfigError, match=r"BridgeClient\.health_check"):
        rb.BridgeClient.over(object, health_check=check)


def test_a_check_without_a_ping_is_refused():
    """Its answer is a hint; where the dialect has no ping there is nothing that could confirm it."""
    policy = rb.bridge.BridgePolicy(dialect=rb.bridge.Dialect(ping=None, pong=None))
    with pytest.raises(rb.ConfigError, match="a dialect with a ping"):
        rb.BridgeClient("ws://127.0.0.1:1/ws", policy=policy, health_check=Check())
