"""Waits as the specifications print them, really waited by a whole client; and how a schedule ends."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import attrs
import pytest

import resilient_bridge as rb

from .journey import Journey, simulated


RECONNECT_DELAYS = [1000, 2000, 5000, 10000, 30000]
MAX_RETRIES, BASE_DELAY = 5, 1
# ReCursor's CONN_TIMEOUT: attempt, delay, action
CONN_TIMEOUT = """\
| 1 | 1s | Immediate retry |
| 2 | 2s | Retry with cached IP |
| 3 | 5s | Retry with DNS refresh |
| 4+ | 10s | Retry with exponential backoff |
"""
# OpenViber's diagram of a reconnection
RECONNECTION = """\
Wait 1s → Retry
Wait 2s → Retry
Wait 4s → Retry
"""


def gaps_waited(journey: Journey, since: float) -> list[float]:
    """Seconds from each loss or failed attempt to the next attempt."""
    waits, down = [], None
    for at, event in journey.log:
        if at < since or not isinstance(event, rb.events.StateChanged):
            continue
        if event.state in {"BACKOFF", "SUSPENDED"} and event.previous not in {
            "BACKOFF",
            "SUSPENDED",
        }:
            down = at
        elif event.state == "CONNECTING" and down is not None:
            waits.append(round(at - down, 3))
    return waits


async def cut_for_good(journey: Journey) -> float:
    """READY, then refused for ever; returns the moment."""
    await journey.ready()
    await journey.push(1)
    await journey.send(1)
    await asyncio.sleep(1)
    start: float = journey.loop.time()
    await journey.server.cut("abort", seconds=100_000)
    return start


@pytest.mark.requirement("R3")
@simulated
async def test_recursor_waits_1_2_5_10_30_and_gives_up(server):
    """After a close exactly 1, 2, 5, 10, 30 s, then FAILED: typed, with its history, raised by every operation."""
    async with Journey(server, policy=rb.presets.recursor) as journey:
        client = journey.client
        start = await cut_for_good(journey)
        await asyncio.sleep(2)
        receipt = await journey.send(2)
        asked = asyncio.create_task(
            client.request("git_status_request", {}, timeout=1000, idempotent=True)
        )
        waiting = asyncio.create_task(client.wait_ready())
        await asyncio.sleep(100)
        assert (
            gaps_waited(journey, start) == [ms / 1000 for ms in RECONNECT_DELAYS] == journey.waits()
        )
        assert client.state == "FAILED"
        assert client.health().reason == "exhausted"
        failure = client.health().failure
        assert (failure.code, failure.stopped) == ("CONN_RECONNECT_EXHAUSTED", "attempts")
        assert [one.code for one in failure.history][-5:] == ["CONN_REFUSED"] * 5
        for operation in (
            client.wait_ready(),
            client.send("a", {}),
            client.request("a", {}),
            waiting,
            journey.reader,
        ):
            with pytest.raises(rb.BridgeError) as caught:
                await operation
            assert caught.value.failure.code == "CONN_RECONNECT_EXHAUSTED"
        with pytest.raises(rb.errors.NotConnectedError):
            await asked
        assert receipt.state == "dropped"
        with pytest.raises(rb.errors.NotDeliveredError):
            await receipt.confirmed()
        (gave_up,) = journey.of(rb.events.GaveUp)
        assert gave_up.failure is failure
        await client.aclose()
        assert client.state == "CLOSED"


@pytest.mark.requirement("R3")
@simulated
async def test_recursor_asks_for_what_was_missed_and_starts_the_schedule_over(server):
    """Back on the third attempt: what was pushed meanwhile is there; after a stable link the first wait is 1 s again."""
    async with Journey(server, policy=rb.presets.recursor) as journey:
        await journey.ready()
        await journey.push(1)
        await asyncio.sleep(40)
        await server.cut("abort", seconds=4)
        await journey.push(2)
        await asyncio.sleep(10)
        assert journey.waits() == [1, 2, 5]
        assert journey.seen() == [1, 2]
        assert journey.verdicts() == ["RECOVERED(anchor)"]
        await asyncio.sleep(30)
        await server.cut("abort")
        await asyncio.sleep(5)
        assert journey.waits() == [1, 2, 5, 1]


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("code", [1002, 1003, 1007, 1010, 4003, 4403, 4409])
@simulated
async def test_an_unrecoverable_close_fails_at_once(server, code):
    """No second attempt after a close that says it is no use; the error names the code."""
    async with Journey(server, policy=rb.presets.recursor) as journey:
        await journey.ready()
        await server.cut("close", code=code)
        await asyncio.sleep(100)
        assert journey.client.state == "FAILED"
        assert len(server.connect_times) == 1
        assert journey.client.health().failure.details["close_code"] == code
        with pytest.raises(rb.BridgeError):
            await journey.client.wait_ready()


@pytest.mark.requirement("R6")
@simulated
async def test_timeouts_follow_a_schedule_of_their_own(server):
    """After CONN_TIMEOUT: 1, 2 (cached address), 5 (fresh look-up), 10, 20, 40, 60, 60 s; the second attempt asks no DNS."""
    port = server.url.rpartition(":")[2]
    recursor = rb.presets.recursor
    policy = recursor.evolve(reconnect=attrs.evolve(recursor.reconnect, attempts=20))
    async with Journey(server, policy=policy, url=f"ws://bridge.example:{port}") as journey:
        await journey.ready()
        network = journey.loop.network
        first = len(network.lookups)
        network.shut("blackhole", 100_000)
        start = journey.loop.time()
        network.links[0].abort()
        await asyncio.sleep(400)
        assert (
            journey.waits()[:9]
            == [1, 2, 5, 10, 20, 40, 60, 60, 60]
            == gaps_waited(journey, start)[:9]
        )
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in CONN_TIMEOUT.splitlines()
        ]
        assert [float(delay.removesuffix("s")) for _, delay, _ in rows] == journey.waits()[:4]
        scheduled = journey.of(rb.events.ReconnectScheduled)[1:]  # the first one answers the reset
        assert {(event.reason, event.failure.code) for event in scheduled} == {
            ("timeout", "CONN_TIMEOUT")
        }
        asked = [at for at, _ in network.lookups[first:]]
        began = [
            at
            for at, event in journey.log
            if at > start and getattr(event, "state", None) == "CONNECTING"
        ]
        looked_up = [any(0 <= at - moment < 0.1 for at in asked) for moment in began[:4]]
        assert looked_up == ["cached IP" not in action for _, _, action in rows]
        tried = [
            at
            for at, event in journey.log
            if at > began[0] and getattr(event, "state", None) == "BACKOFF"
        ]
        assert {round(end - begin, 6) for begin, end in zip(began, tried, strict=False)} == {10.0}


@pytest.mark.requirement("R6")
@simulated
async def test_a_first_connect_that_times_out_follows_the_same_schedule(server):
    """Offline from the start: 1, 2, 5, 10 s, the second attempt without DNS, and READY as soon as somebody answers."""
    loop: Any = asyncio.get_running_loop()
    await asyncio.sleep(0.1)
    loop.network.shut("blackhole", 60)
    recursor = rb.presets.recursor
    policy = recursor.evolve(reconnect=attrs.evolve(recursor.reconnect, attempts=20))
    port = server.url.rpartition(":")[2]
    async with Journey(server, policy=policy, url=f"ws://bridge.example:{port}") as journey:
        await journey.send(1)
        await journey.ready()
        assert journey.waits() == [1, 2, 5, 10]
        began = [at for at, event in journey.log if getattr(event, "state", None) == "CONNECTING"]
        asked = [any(0 <= at - start < 0.1 for at, _ in loop.network.lookups) for start in began]
        assert asked == [True, True, False, True, True]
        await journey.rest()
    assert journey.receipts[1].state == "confirmed"


@pytest.mark.requirement("R17")
@simulated
async def test_five_tries_then_synchronise_then_flush(server):
    """1 s times the attempt's number, five times; on the way back the replay is asked for before anything queued is sent."""
    policy = rb.bridge.BridgePolicy(
        reconnect=rb.bridge.Reconnect(
            backoff=rb.Backoff.linear(BASE_DELAY, jitter="none"),
            attempts=MAX_RETRIES,
            on_exhausted="raise",
        )
    )
    server.behave(push_buffer=False)
    async with Journey(server, policy=policy) as journey:
        await journey.ready()
        await journey.push(1)
        await asyncio.sleep(1)
        stamp = server.pushed[-1]["timestamp"]
        before = len(server.frames)
        start = journey.loop.time()
        await server.cut("abort", seconds=14)
        await asyncio.sleep(0.1)
        await journey.send(1, 2, 3)
        await journey.push(2, 3)
        await journey.rest()
        assert gaps_waited(journey, start) == [
            BASE_DELAY * (attempt + 1) for attempt in range(MAX_RETRIES)
        ]
        kinds = [frame["type"] for frame in server.frames[before:]]
        assert (
            kinds.index("session_join") < kinds.index("request_replay") < kinds.index("tool_result")
        )
        (asked,) = [frame for frame in server.frames[before:] if frame["type"] == "request_replay"]
        assert asked["payload"]["since"] < stamp
        assert journey.seen() == [1, 2, 3]
        first = len(journey.waits())
        await asyncio.sleep(40)
        await server.cut("abort", seconds=1000)
        await asyncio.sleep(100)
        assert journey.waits()[first:] == [1, 2, 3, 4, 5]
        assert journey.client.health().failure.code == "CONN_RECONNECT_EXHAUSTED"
    journey.check()


@pytest.mark.requirement("V7")
@simulated
async def test_openviber_suspends_tells_and_goes_on(server):
    """1, 2, 4, 8, 16 s, then disconnected mode, told once; sends are still taken; the attempts go on and one succeeds."""
    async with Journey(server, policy=rb.presets.openviber) as journey:
        client = journey.client
        start = await cut_for_good(journey)
        await asyncio.sleep(60)
        assert gaps_waited(journey, start)[:5] == [1, 2, 4, 8, 16]
        assert gaps_waited(journey, start)[:3] == [
            int(one) for one in re.findall(r"Wait (\d+)s", RECONNECTION)
        ]
        assert client.state == "SUSPENDED"
        (suspended,) = journey.of(rb.events.Suspended)
        assert (suspended.attempts, suspended.reason) == (5, "connect_refused")
        assert journey.when(rb.events.Suspended) - start == pytest.approx(31, abs=0.5)
        await journey.send(2)
        await journey.push(2)
        await asyncio.sleep(100)
        assert set(gaps_waited(journey, start)[5:]) == {16}
        assert len(journey.of(rb.events.Suspended)) == 1
        with pytest.raises(rb.errors.AttemptTimeoutError):
            await client.wait_ready(1)
        journey.loop.network.heal()
        await journey.rest()
        assert journey.receipts[2].state == "confirmed"
        assert journey.seen() == [1, 2]
    journey.check()


@pytest.mark.requirement("V7")
@simulated
async def test_an_outage_that_outlasts_the_grace_suspends_however_few_the_attempts(server):
    """No attempt limit, waits of 200 s: when the bridge has forgotten the session (300 s) the user is told at that moment."""
    policy = rb.bridge.BridgePolicy(
        reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(200), attempts=None)
    )
    async with Journey(server, policy=policy) as journey:
        await cut_for_good(journey)
        start = journey.loop.time()
        await asyncio.sleep(350)
        assert journey.client.state == "SUSPENDED"
        assert journey.when(rb.events.Suspended) - start == pytest.approx(300, abs=0.1)
        (suspended,) = journey.of(rb.events.Suspended)
        assert suspended.reason == "grace_passed"


@pytest.mark.requirement("G2")
@pytest.mark.parametrize("first", ["connect", "reconnect"])
@simulated
async def test_gasoline_connects_after_0_1_2_4_8_30_30(server, first):
    """The printed delays on connecting, as waits: 0, 1, 2, 4, 8, then 30 s for ever."""
    policy = rb.bridge.BridgePolicy(
        reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.steps(0, 1, 2, 4, 8, 30))
    )
    loop: Any = asyncio.get_running_loop()
    await asyncio.sleep(0.1)
    if first == "connect":
        loop.network.shut("refuse", 100)
    async with Journey(server, policy=policy) as journey:
        if first == "reconnect":
            await cut_for_good(journey)
        await asyncio.sleep(99)
        assert journey.waits()[:7] == [0, 1, 2, 4, 8, 30, 30]
        assert gaps_waited(journey, 0.0)[:7] == [0, 1, 2, 4, 8, 30, 30]


@simulated
async def test_reconnect_now_cuts_a_wait_short(server):
    """The wait ends at once and counts as one; while connected the link is only asked, and stays."""
    async with Journey(server, policy=rb.presets.recursor) as journey:
        await journey.ready()
        journey.client.reconnect_now()
        await asyncio.sleep(1)
        await server.cut("abort", seconds=10)
        await asyncio.sleep(11)
        assert journey.client.state == "BACKOFF"
        journey.client.reconnect_now()
        await journey.ready(1)


@pytest.mark.parametrize(("hint", "least"), [("60", 60), ("2", 5), (None, 5)])
@simulated
async def test_a_servers_hint_is_a_lower_bound(server, hint, least):
    """429 on the upgrade: not before Retry-After, and never before 5 s where there is none or a shorter one."""
    policy = rb.bridge.BridgePolicy(reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(1)))
    server.behave(reject_upgrade=429, retry_after=hint)
    async with Journey(server, policy=policy) as journey:
        await asyncio.sleep(1)
        (event,) = journey.of(rb.events.ReconnectScheduled)
        assert event.wait >= (least if hint != "2" else 2)
        assert event.reason == "upgrade_rejected(429)"
        server.behave(reject_upgrade=None)
        await journey.ready()
        first, second = server.attempt_times
        assert second - first >= event.wait
