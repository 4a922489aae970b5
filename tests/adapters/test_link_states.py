"""How a link is while it lives: health, events, waiting, schedules, its circuit; and who may not touch it."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress

import pytest

import resilient_bridge as rb
from tests.adapters.link_peers import Client, World, now, quick, virtual
from tests.peers.running import until


REFUSED = ConnectionRefusedError(111, "refused")


# -- how it is --------------------------------------------------------------------------------------------------------
@virtual
@pytest.mark.requirement("S11")
async def test_health_says_how_it_is():
    """Ready with calls in flight; then away, why, since how many attempts, and for how long still."""
    world = World()
    link = rb.reconnecting(
        world.factory, quick(backoff=rb.Backoff.constant(20, jitter="none"), attempts=2)
    )
    assert link.health() == rb.links.LinkHealth(
        ready=False, state="IDLE", reason="user", attempt=0, reconnects=0, in_flight=0
    )
    async with link as client:
        call = asyncio.create_task(client.wait("a"))
        await until(lambda: world.ran["a"])
        health = link.health()
        assert (health.ready, health.in_flight, health.failure) == (True, 1, None)
        world.gate.set()
        await call
        world.refuses = REFUSED
        await world.lose(link)
        await asyncio.sleep(5)
        health = link.health()
        assert (health.ready, health.state, health.in_flight, health.attempt) == (
            False,
            "BACKOFF",
            0,
            1,
        )
        assert 14.5 < health.retry_in < 15.5
        assert health.failure.code == "CONN_RESET"
        await asyncio.sleep(40)
        assert (link.state, link.health().reason) == ("SUSPENDED", "connect_refused")
        assert repr(link) == "<Reconnecting SUSPENDED in_flight=0 reconnects=0>"
        world.refuses = None
        await link.wait_ready()
        assert (link.health().ready, link.health().reconnects) == (True, 1)


@virtual
async def test_events_tell_its_life_in_order():
    """Connected, lost and why, when it is tried again, connected, closed; whoever reads late misses nothing."""
    world = World()
    link = rb.reconnecting(world.factory, quick())
    seen = link.events()
    async with link as client:
        await world.lose(link)
        await client.work("a")
    parts = [event async for event in seen]
    names = [
        type(event).__name__ for event in parts if not isinstance(event, rb.events.StateChanged)
    ]
    assert names == ["Connected", "Disconnected", "ReconnectScheduled", "Connected", "Closed"]
    states = [event.state for event in parts if isinstance(event, rb.events.StateChanged)]
    assert states == ["CONNECTING", "READY", "BACKOFF", "CONNECTING", "READY", "CLOSED"]
    assert parts[3].reason == "connection_lost"


@virtual
async def test_wait_ready_waits_and_is_bounded():
    """It returns when there is a client; AttemptTimeoutError after its timeout; NotConnectedError once the link is closed."""
    world = World()
    world.refuses = REFUSED
    link = rb.reconnecting(world.factory, quick())
    async with link:
        with pytest.raises(rb.errors.AttemptTimeoutError, match="not ready after 2 s"):
            await link.wait_ready(2)
        assert 2 <= now() < 2.1
        waiting = asyncio.create_task(link.wait_ready())
        await asyncio.sleep(1)
        assert not waiting.done()
        world.refuses = None
        await waiting
    with pytest.raises(rb.errors.NotConnectedError):
        await link.wait_ready(1)


@virtual
async def test_reconnect_now_cuts_the_wait():
    """The next attempt is made at once; while there is nothing to cut, nothing happens."""
    world = World()
    link = rb.reconnecting(world.factory, quick(backoff=rb.Backoff.constant(60, jitter="none")))
    async with link as client:
        link.reconnect_now()
        await world.lose(link)
        await until(lambda: link.health().retry_in is not None)
        link.reconnect_now()
        link.reconnect_now()
        assert await client.work("a") == "a by 2"
        assert now() < 1


@virtual
async def test_attempts_start_over_only_after_a_stable_time():
    """A link that dies young goes on in its schedule (1, 2, 4 …); one that lasted `stable_after` begins again."""
    world = World()
    link = rb.reconnecting(
        world.factory,
        quick(backoff=rb.Backoff.exponential(1, cap=60, jitter="none"), stable_after=30),
    )
    waits = []
    async with link:
        for lasting in (1, 1, 29, 31, 1):
            await asyncio.sleep(lasting)
            await world.lose(link)
            await until(lambda: link.health().retry_in is not None)
            waits.append(round(link.health().retry_in))
            await link.wait_ready()
    assert waits == [1, 2, 4, 1, 2]


@virtual
@pytest.mark.requirement("R6")
async def test_a_timeout_has_its_own_schedule():
    """`rules={"CONN_TIMEOUT": …}`: 1 s, 2 s, 5 s, then from 10 s exponential, whatever the schedule for other losses is."""
    world = World()
    world.hangs = True
    steps = rb.Backoff.steps(1, 2, 5, then=rb.Backoff.exponential(10, cap=60, jitter="none"))
    link = rb.reconnecting(
        world.factory, quick(rules={"CONN_TIMEOUT": rb.Rule(backoff=steps)}, connect_timeout=3)
    )
    seen = link.events()
    async with link:
        await until(lambda: len(world.made) == 6, seconds=300)
    waits = [event.wait async for event in seen if isinstance(event, rb.events.ReconnectScheduled)]
    assert waits == [1, 2, 5, 10, 20]


@virtual
async def test_an_accept_and_close_storm_is_capped():
    """Three connections that die young, then four a minute: what `Reconnect` says about bridges holds for links."""
    world = World()
    policy = rb.bridge.BridgePolicy(
        reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.01, jitter="none"))
    )

    class Dying(Client):
        async def __aenter__(self):
            asyncio.get_running_loop().call_later(0.1, self.die, ConnectionResetError("not today"))
            return await super().__aenter__()

    world.kind = Dying
    async with rb.reconnecting(world.factory, policy):
        await asyncio.sleep(60)
        assert 4 <= world.entered <= 7


@virtual
async def test_its_circuit_is_its_own():
    """`rb.calls.circuit(link)` is the handle: an open circuit rejects calls of this link, and of no other with an equal policy."""
    world = World()
    calls = rb.Policy(rb.Breaker.consecutive(2, open_for=30))
    link, other = (rb.reconnecting(world.factory, quick(calls=calls)) for _ in range(2))
    async with link as client, other as another:
        assert rb.calls.circuit(link).state == "closed"
        world.made[0].fault = TimeoutError("slow")
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await client.work("a")
        assert (rb.calls.circuit(link).state, rb.calls.circuit(other).state) == ("open", "closed")
        with pytest.raises(rb.CircuitOpenError):
            await client.work("a")
        assert await another.work("b") == "b by 2"
        rb.calls.circuit(link).reset()
        world.made[0].fault = None
        assert await client.work("a") == "a by 1"
    without = rb.reconnecting(world.factory, quick(calls=rb.Policy(rb.Retry())))
    with pytest.raises(rb.ConfigError):
        rb.calls.circuit(without)


@virtual
@pytest.mark.requirement("G2")
async def test_l13_a_link_that_is_ready_again_closes_the_circuit_of_its_calls():
    """The server is back: calls go at once, not after the open time; a circuit that was isolated by hand stays so."""
    world = World()
    calls = rb.Policy(rb.Breaker.consecutive(2, open_for=30))
    link = rb.reconnecting(world.factory, quick(calls=calls))
    with rb.testing.record() as seen:
        async with link as client:
            world.made[0].fault = TimeoutError("slow")
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    await client.work("a")
            with pytest.raises(rb.CircuitOpenError):
                await client.work("a")
            await world.lose(link)
            await link.wait_ready(5)
            assert await client.work("b") == "b by 2"
            assert rb.calls.circuit(link).state == "closed"
            rb.calls.circuit(link).isolate()
            await world.lose(link)
            await link.wait_ready(5)
            assert rb.calls.circuit(link).state == "isolated"
    closed = [
        event.reason
        for event in seen
        if isinstance(event, rb.events.CircuitChanged) and event.state == "closed"
    ]
    assert closed == ["link_ready"]


@virtual
async def test_a_listener_that_raises_does_no_harm():
    """Threat 48: the link goes on."""
    world = World()

    def broken(event):
        raise RuntimeError("listener")

    with rb.listen(broken):
        link = rb.reconnecting(world.factory, quick())
        async with link as client:
            await world.lose(link)
            assert await client.work("a") == "a by 2"


# -- after a long pause -----------------------------------------------------------------------------------------------
NIGHT = 8 * 3600


@virtual
@pytest.mark.requirement("V13")
@pytest.mark.parametrize("outage", [0, 600])
async def test_used_again_after_a_night_it_has_a_new_client(outage):
    """Its peer was restarted while nobody used it, at once or after a while: the link has come back by itself, and stays quiet."""
    world = World()
    link = rb.reconnecting(world.factory, rb.presets.default)
    async with link as client:
        assert await client.work("evening") == "evening by 1"
        await asyncio.sleep(NIGHT / 2)
        world.refuses = REFUSED if outage else None
        await world.lose(link)
        await asyncio.sleep(outage)
        world.refuses = None
        await asyncio.sleep(NIGHT / 2)
        started, made = now(), len(world.made)
        assert await client.work("morning") == f"morning by {made}"
        assert (now() - started < 0.1, len(world.made), link.health().reconnects) == (True, made, 1)
    assert world.ran == {"evening": 1, "morning": 1}


@virtual
@pytest.mark.requirement("V13")
async def test_a_client_that_died_unseen_is_replaced_on_use():
    """It does not say that it is closed, as a session of MCP does not: the first use finds out, reconnects, and is done, as it may be."""

    class Unaware(Client):
        wait_closed = None

    world = World(Unaware)
    link = rb.reconnecting(world.factory, rb.presets.default, idempotent=["work"])
    async with link as client:
        assert await client.work("evening")
        for morning in range(1, 4):
            await asyncio.sleep(NIGHT)
            assert link.state == "READY"  # as far as anybody knows
            world.client.fault = REFUSED
            started = now()
            assert await client.work(f"morning {morning}")
            assert now() - started < 5
            assert link.health().reconnects == morning
    assert set(world.ran.values()) == {1}


@virtual
@pytest.mark.requirement("V13")
async def test_used_in_the_middle_of_a_long_outage_it_waits_for_the_end_of_it():
    """SUSPENDED since hours, its waits grown to their longest: a use waits through it, as patiently as it was told, and goes through."""
    world = World()
    link = rb.reconnecting(world.factory, rb.presets.default, patience=120)
    async with link as client:
        world.refuses = REFUSED
        await world.lose(link)
        await asyncio.sleep(NIGHT)
        assert link.state in {"SUSPENDED", "CONNECTING"}
        working = asyncio.create_task(client.work("morning"))
        await asyncio.sleep(1)
        world.refuses = None
        assert await working
    assert world.ran == {"morning": 1}


# -- who may not touch it ---------------------------------------------------------------------------------------------
async def test_another_loop_and_another_thread_are_refused():
    """Threat 32: a call, wait_ready, reconnect_now and iteration say where they belong, and nothing hangs."""
    world = World()
    link = rb.reconnecting(world.factory, quick())
    async with link as client:
        parts = []

        async def elsewhere():
            for use in (lambda: client.work("a"), link.wait_ready, lambda: anext(aiter(client))):
                try:
                    await use()
                except rb.ConfigError as error:
                    parts.append(str(error))

        def thread():
            asyncio.run(elsewhere())
            try:
                link.reconnect_now()
            except rb.ConfigError as error:
                parts.append(str(error))

        other = threading.Thread(target=thread)
        other.start()
        await asyncio.to_thread(other.join, 20)
        assert len(parts) == 4
        assert all("the event loop that entered it" in text for text in parts)
        assert await client.work("b") == "b by 1"
    assert dict(world.ran) == {"b": 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process")
async def test_a_forked_process_is_refused():
    """Threat 32: the child gets a ConfigError that says so; the parent's link works on."""
    world = World()
    async with rb.reconnecting(world.factory, quick()) as client:
        child = os.fork()
        if child == 0:
            status = 1
            with suppress(BaseException):
                client.work("child").send(None)
            try:
                client.work("child").send(None)
            except rb.ConfigError as error:
                status = 0 if "process" in str(error) else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert await client.work("parent") == "parent by 1"
