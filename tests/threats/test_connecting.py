"""Rows 18, 19, 23 and 27: ways never to get in. Every attempt ends, no schedule overflows, and no storm begins.

Rule: simulated network only; the names and roads of the world are the test's, and nothing leaves the process.
"""

from __future__ import annotations

import asyncio
import math
import random

import pytest

import resilient_bridge as rb
from tests.internals.telemetry import ReconnectScheduled, Suspended
from tests.internals.testing import HANG, NXDOMAIN
from tests.rows import each_row
from tests.samples import IS_ALL
from tests.threats.watching import Watch, push, simulated


DEADLINE = rb.presets.default.reconnect.connect_timeout
HOURS = 24 if IS_ALL else 6


def named(server):
    """The bridge's URL, by a name that the simulated world can look up (or not)."""
    return server.url.replace("127.0.0.1", "bridge.test")


async def fails_in_time(server, watch, code, *, slow=True):
    """Each of three attempts ends within the connect timeout, typed; after that the world is healed and it connects."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    await watch.until(lambda: len(watch.of(ReconnectScheduled)) >= 3, 120)
    assert watch.failures[:3] == [code] * 3
    spent = loop.time() - started
    assert spent <= 3 * DEADLINE + sum(watch.waits[:2]) + 0.5
    if slow:
        assert spent >= 3 * DEADLINE
    assert watch.client.state in {"BACKOFF", "CONNECTING"}
    network = loop.network
    network.names.clear()
    network.roads.clear()
    network.heal()
    await watch.ready()


# ---- row 18: nobody answers -------------------------------------------------------------------------------------


@simulated
async def test_row_18_syn_black_hole(server):
    """A SYN that nobody answers costs one connect timeout, not the two minutes of the operating system."""
    asyncio.get_running_loop().network.shut("blackhole", 1e6)
    async with Watch(server.url) as watch:
        await fails_in_time(server, watch, "CONN_TIMEOUT")


@simulated
async def test_row_18_dns_hang(server):
    """A look-up that never ends is inside the same deadline."""
    asyncio.get_running_loop().network.names["bridge.test"] = HANG
    async with Watch(named(server)) as watch:
        await fails_in_time(server, watch, "CONN_TIMEOUT")


@simulated
async def test_row_18_nxdomain(server):
    """A name that does not exist is CONN_DNS_FAILED at once, and tried again: names come back."""
    asyncio.get_running_loop().network.names["bridge.test"] = NXDOMAIN
    async with Watch(named(server)) as watch:
        await fails_in_time(server, watch, "CONN_DNS_FAILED", slow=False)
        assert "dns" in {event.reason for event in watch.of(ReconnectScheduled)}


@pytest.mark.parametrize("road", ["blackhole", "unreachable"])
@simulated
async def test_row_18_ipv6_black_hole(server, road):
    """An IPv6 address that leads nowhere costs a quarter of a second: the IPv4 one wins the race."""
    loop = asyncio.get_running_loop()
    loop.network.names["bridge.test"] = ("2001:db8::1", "2001:db8::2", "127.0.0.1")
    loop.network.roads |= {"2001:db8::1": road, "2001:db8::2": road}
    async with Watch(named(server)) as watch:
        await watch.ready()
        assert loop.time() < 1.0
        assert watch.of(ReconnectScheduled) == []


@simulated
async def test_row_18_all_roads_black_holes(server):
    """Every address of a name leads nowhere: one deadline for all of them together."""
    network = asyncio.get_running_loop().network
    network.names["bridge.test"] = ("2001:db8::1", "10.1.1.1", "10.1.1.2")
    network.roads |= dict.fromkeys(network.names["bridge.test"], "blackhole")
    async with Watch(named(server)) as watch:
        await fails_in_time(server, watch, "CONN_TIMEOUT")


@pytest.mark.parametrize("step", ["upgrade", "auth", "join", "pong"])
@simulated
async def test_row_18_silence_after_the_connect(server, step):
    """A server that accepts and then says nothing, at any step of the handshake: the deadline covers that, too."""
    ignored = {
        "upgrade": (),
        "auth": {"auth"},
        "join": {"session_join", "heartbeat_ping"},
        "pong": {"heartbeat_ping"},
    }
    server.behave(ignored=frozenset(ignored[step]))
    if step == "upgrade":
        server._listener.refuse(1e6, silently=True)
    async with Watch(server.url) as watch:
        await watch.until(lambda: len(watch.of(ReconnectScheduled)) >= 2, 120)
        assert set(watch.failures) <= {"CONN_TIMEOUT", "CONN_HEARTBEAT_TIMEOUT"}
        assert asyncio.get_running_loop().time() <= 2 * (DEADLINE + 1) + watch.waits[0]
        server._listener.refuse(0, silently=True)
        server.behave(ignored=frozenset())
        await watch.ready()


@pytest.mark.parametrize("what", ["url", "token", "headers"])
@simulated
async def test_row_18_a_callable_that_hangs(server, what):
    """Asking for the URL, the token or the headers is part of the attempt, and of its deadline."""
    hangs = [True]

    async def ask():
        if hangs[0]:
            await asyncio.sleep(math.inf)
        return {"url": server.url, "token": "t", "headers": {}}[what]

    options = {} if what == "url" else {what: ask}
    async with Watch(ask if what == "url" else server.url, **options) as watch:
        await watch.until(lambda: len(watch.of(ReconnectScheduled)) >= 2, 60)
        assert set(watch.failures) == {"CONN_TIMEOUT"}
        hangs[0] = False
        await watch.ready()


# ---- row 19: accepted, and closed at once -----------------------------------------------------------------------


@pytest.mark.parametrize("step", ["accept", "auth", "join"])
@pytest.mark.parametrize("code", [1000, 1001, 1005, 1006, 1011, 1012, 1013, 4999])
@simulated
async def test_row_19_accept_then_close(server, code, step):
    """Closed at once for ten minutes: at most 7 connects in the first minute and 4 in each later one, and then it heals."""
    server.behave(accept_then_close=code, close_at=step)
    async with Watch(server.url) as watch:
        await asyncio.sleep(600)
        times = [at - server.connect_times[0] for at in server.connect_times]
        per_minute = [
            sum(60 * minute <= at < 60 * (minute + 1) for at in times) for minute in range(10)
        ]
        if (code, step) != (
            1006,
            "accept",
        ):  # a reset before the upgrade is over is a refusal, not a connection
            assert per_minute[0] <= 7
            assert max(per_minute[1:]) <= 4
        assert min(per_minute) >= 1  # and it never gives up
        attempts = [event.attempt for event in watch.of(ReconnectScheduled)]
        assert attempts == [*range(1, len(attempts) + 1)]  # a connect resets nothing
        assert watch.of(Suspended)
        server.behave(accept_then_close=None)
        await watch.ready(120)


@simulated
async def test_row_19_ready_then_closed_at_once(server):
    """Even READY resets nothing by itself: a bridge that closes half a second after each join meets a growing schedule."""
    async with Watch(server.url) as watch:
        for _ in range(8):
            await watch.ready(300)
            await asyncio.sleep(0.5)
            await server.cut("close", code=1011)
            await watch.until(lambda: watch.client.state != "READY")
        assert [event.attempt for event in watch.of(ReconnectScheduled)] == [*range(1, 9)]
        times = server.connect_times
        assert sum(at < times[0] + 60 for at in times) <= 7
        await watch.ready(300)
        await asyncio.sleep(60)  # stable: READY for 30 s and one pong
        await server.cut("close", code=1011)
        await watch.until(lambda: watch.client.state != "READY")
        assert watch.of(ReconnectScheduled)[-1].attempt == 1


# ---- row 23: two of one session ---------------------------------------------------------------------------------


@simulated
async def test_row_23_two_clients_of_one_session(server):
    """The second to join has the session; the first is told, fails for good, refuses to send and never comes back."""
    async with Watch(server.url, session_id="shared") as old:
        await old.ready()
        await push(server, 1)
        await old.until(lambda: old.ids == [1])
        async with Watch(server.url, session_id="shared") as new:
            await new.ready()
            await old.until(lambda: old.client.state == "FAILED")
            connects = len(server.connect_times)
            for use in (
                old.client.send("note", {}),
                old.client.request("x_request", {}),
                old.client.wait_ready(1),
            ):
                with pytest.raises(rb.errors.SessionError) as caught:
                    await use
                assert caught.value.failure.code == "SESS_SUPERSEDED"
            await push(server, 2)
            receipt = await new.client.send("note", {"n": 5})
            assert await receipt.confirmed(10) == "applied"
            await asyncio.sleep(600)
            assert len(server.connect_times) == connects  # no duel
            assert old.ids == [1]
            assert 2 in new.ids
            assert isinstance(old.error, rb.errors.SessionError)
            assert [message["payload"]["n"] for message in server.received] == [5]


@simulated
async def test_row_23_a_race_of_many(server):
    """Ten clients of one session at once: one is READY in the end, nine are fenced, and only the one writes."""
    watches = [Watch(server.url, session_id="shared") for _ in range(10)]
    async with contextlib_stack(watches):
        await asyncio.sleep(300)
        states = [watch.client.state.value for watch in watches]
        assert sorted(states) == ["FAILED"] * 9 + ["READY"]
        assert len(server.connect_times) <= 20
        winner = watches[states.index("READY")]
        for number, watch in enumerate(watches):
            if watch is winner:
                receipt = await watch.client.send("note", {"n": number})
            else:
                with pytest.raises(rb.errors.SessionError):
                    await watch.client.send("note", {"n": number})
        assert await receipt.confirmed(10) == "applied"
        assert len(server.received) == 1


def contextlib_stack(watches):
    """All of them, entered and left together."""
    from contextlib import AsyncExitStack, asynccontextmanager

    @asynccontextmanager
    async def all_of_them():
        async with AsyncExitStack() as stack:
            for watch in watches:
                await stack.enter_async_context(watch)
            yield

    return all_of_them()


# ---- row 27: attempt 1,025, and a day of them -------------------------------------------------------------------

SCHEDULES = [
    rb.Backoff.exponential(1),
    rb.Backoff.exponential(1, jitter="none"),
    rb.Backoff.exponential(0.5, factor=10, cap=60, jitter="equal"),
    rb.Backoff.decorrelated(1),
    rb.Backoff.linear(1),
    rb.Backoff.constant(5),
    rb.Backoff.steps(1, 2, 5, 10, 30),
    rb.Backoff.steps(1, 2, 5, then=rb.Backoff.exponential(10, cap=60)),
]


@each_row("schedule", SCHEDULES, ids=repr)
def test_row_27_attempt_1025(schedule):
    """Attempts 1,023 to 1,025, 10,000 and 10^9 wait a finite time within the cap, and never less than nothing."""
    rng = random.Random(1)
    longest = max(schedule.delays(100))
    for attempt in (1, 2, 100, 1_023, 1_024, 1_025, 1_100, 10_000, 10**9):
        wait = schedule.next(attempt, longest, rng)
        assert math.isfinite(wait)
        assert 0 <= wait <= longest


@simulated
async def test_row_27_more_than_1025_attempts(server):
    """1,100 attempts of the real client on an exponential schedule: each waits the cap, and the last one connects."""
    policy = rb.presets.default.evolve(
        reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.exponential(1, cap=2, jitter="none"))
    )
    asyncio.get_running_loop().network.shut("refuse", 2_250)
    async with Watch(server.url, policy=policy) as watch:
        await watch.ready(2_300)
        attempts = watch.of(ReconnectScheduled)
        assert attempts[-1].attempt > 1_100
        assert {event.wait for event in attempts} == {1.0, 2.0}


@simulated
async def test_row_27_a_day_without_a_server(server):
    """Hours of refused connections with the default policy: every wait within 30 s, told once, and then READY."""
    asyncio.get_running_loop().network.shut("refuse", HOURS * 3_600)
    heard = []
    with rb.listen(heard.append):  # a listener, because thousands of lines in the log prove nothing
        await a_day(server)
    assert len(heard) > 10_000 / 24 * HOURS


async def a_day(server):
    """The day, and the morning after."""
    async with Watch(server.url) as watch:
        receipt = await watch.client.send("note", {"n": 1})
        await watch.ready(HOURS * 3_600 + 100)
        attempts = watch.of(ReconnectScheduled)
        assert len(attempts) > 2_000 / 24 * HOURS
        assert all(0 < event.wait <= 30 for event in attempts)
        assert len(watch.of(Suspended)) == 1
        assert await receipt.confirmed(10) == "applied"
