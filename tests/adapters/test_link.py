"""The life of a link: entering, the first failure, factories of all sorts, and the end in every state."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, suppress

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import Failure
from tests.adapters.link_peers import Client, World, now, quick, virtual
from tests.peers.running import until


REFUSED = ConnectionRefusedError(111, "refused")


# -- entering ---------------------------------------------------------------------------------------------------------
@virtual
async def test_what_comes_out_looks_like_the_client():
    """It is an instance of the client's class, with its attributes and calls; leaving the link leaves the client."""
    world = World()
    link = rb.reconnecting(world.factory, quick())
    assert (link.state, repr(link)) == ("IDLE", "<Reconnecting IDLE in_flight=0 reconnects=0>")
    async with link as client:
        assert isinstance(client, Client)
        assert (client.name(), client.version, await client.work("a")) == ("client 1", 1, "a by 1")
        with pytest.raises(AttributeError):
            client.nothing  # noqa: B018
        assert (link.state, repr(link)) == (
            "READY",
            "<Reconnecting READY in_flight=0 reconnects=0>",
        )
        assert (world.entered, world.remaining) == (1, 0)
    assert (world.entered, world.remaining, link.state) == (1, 1, "CLOSED")


@virtual
async def test_offline_first_enters_after_one_attempt_and_goes_on():
    """The first attempt is refused: entering returns at once; a call made then waits, and is done when somebody listens."""
    world = World()
    world.refuses = REFUSED
    async with rb.reconnecting(
        world.factory, quick(backoff=rb.Backoff.constant(1, jitter="none"))
    ) as client:
        assert (now() < 0.1, len(world.made)) == (True, 1)
        call = asyncio.create_task(client.work("a"))
        await asyncio.sleep(2.5)
        world.refuses = None
        assert await call == "a by 4"
        assert client.name() == "client 4"
        assert 3 <= now() < 3.1


@virtual
async def test_a_first_attempt_that_hangs_is_over_after_connect_timeout():
    """Ten seconds by default, and the factory's client is not left behind."""
    world = World()
    world.hangs = True
    link = rb.reconnecting(world.factory, quick())
    async with link:
        assert 10 <= now() < 10.1
        assert link.health().failure.code == "CONN_TIMEOUT"
        assert str(link.health().failure) == "no connection within 10 s (TIMEOUT)"


@virtual
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError(2, "no such file", "server"), rb.ConfigError),
        (rb.errors.AuthError(Failure.of("AUTH_FORBIDDEN", "not you")), rb.errors.AuthError),
    ],
)
async def test_a_failure_that_no_attempt_can_mend_is_raised_at_once(error, expected):
    """The first one while entering, from its cause; wait_ready and whatever is done later raise it as well; one attempt was made."""
    world = World()
    world.refuses = error
    link = rb.reconnecting(world.factory, quick())
    seen = link.events()
    with pytest.raises(expected) as caught:
        async with link:
            pytest.fail("entered")
    assert caught.value.__cause__ in {error, error.__cause__}
    assert (link.state, len(world.made), link.health().ready) == ("FAILED", 1, False)
    with pytest.raises(expected):
        await link.wait_ready(1)
    await link.aclose()
    assert link.state == "FAILED"
    assert isinstance([event async for event in seen][-1], rb.events.GaveUp)


@virtual
async def test_a_fatal_loss_later_is_raised_by_calls():
    """What waits and what comes afterwards gets it, and the report says what it is, without a trace (S7)."""
    world = World()
    link = rb.reconnecting(world.factory, quick())
    async with link as client:
        world.refuses = PermissionError(13, "not executable")
        await world.lose(link)
        for _ in range(2):
            with pytest.raises(rb.ConfigError) as caught:
                await client.work("a")
        assert caught.value.__cause__ is world.refuses
        failure_ = caught.value.failure.to_dict()
        assert (failure_["category"], failure_["retryable"]) == ("CONFIG", False)
        assert failure_["message"]
        assert "Traceback" not in caught.value.failure.explain()


@virtual
async def test_first_connect_raise_fails_at_once():
    """`first_connect="raise"`: the first refusal is final."""
    world = World()
    world.refuses = REFUSED
    with pytest.raises(rb.BridgeError) as caught:
        async with rb.reconnecting(world.factory, quick(first_connect="raise")):
            pytest.fail("entered")
    assert caught.value.__cause__ is REFUSED
    assert len(world.made) == 1


@virtual
async def test_attempts_that_end_carry_their_history():
    """`on_exhausted="raise"`: after so many attempts it gives up, and says what all of them met."""
    world = World()
    world.refuses = REFUSED
    link = rb.reconnecting(world.factory, quick(attempts=3, on_exhausted="raise"))
    async with link as client:
        with pytest.raises(rb.BridgeError) as caught:
            await client.work("a")
    assert caught.value.failure.code == "CONN_RECONNECT_EXHAUSTED"
    assert (caught.value.failure.stopped, len(caught.value.failure.history)) == (
        "attempts",
        len(world.made),
    )


@virtual
async def test_it_is_entered_once():
    """A second entering, at the same time, later or after the end, is a mistake with a name; the first goes on."""
    world = World()
    link = rb.reconnecting(world.factory, quick())
    first = asyncio.create_task(link.__aenter__())
    await asyncio.sleep(0)
    with pytest.raises(rb.ConfigError, match="entered once"):
        await link.__aenter__()
    client = await first
    with pytest.raises(rb.ConfigError, match=r"entered once.* \(READY\)"):
        await link.__aenter__()
    assert await client.work("a") == "a by 1"
    await link.aclose()
    for over in (link, rb.reconnecting(world.factory, quick())):
        await over.aclose()
        with pytest.raises(rb.ConfigError, match=r"entered once.* \(CLOSED\)"):
            await over.__aenter__()


@virtual
async def test_entering_can_be_cancelled():
    """The link is closed then, and its attempt with it."""
    world = World()
    world.hangs = True
    link = rb.reconnecting(world.factory, quick())
    entering = asyncio.create_task(link.__aenter__())
    await asyncio.sleep(1)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert link.state == "CLOSED"


# -- factories --------------------------------------------------------------------------------------------------------
@virtual
async def test_a_factory_that_raises_is_a_failed_attempt():
    """Its error is the cause of the failure, with secrets masked, and the next attempt calls it again."""
    errors = [OSError("token=s3cret-canary"), RuntimeError("no address yet")]
    world = World()

    def factory():
        if errors:
            raise errors.pop(0)
        return world.factory()

    link = rb.reconnecting(factory, quick(backoff=rb.Backoff.constant(1, jitter="none")))
    async with link as client:
        failure = link.health().failure
        assert isinstance(failure.cause, OSError)
        assert "s3cret" not in failure.explain() + str(failure) + repr(link.health())
        assert await client.work("a") == "a by 1"
        assert 2 <= now() < 2.1


async def _client_of_a_coroutine() -> Client:
    return Client(World())


@virtual
@pytest.mark.parametrize("make", [lambda: 3, threading.Lock, _client_of_a_coroutine])
async def test_a_factory_that_makes_no_context_manager_is_a_mistake(make):
    """A value, a sync one, a coroutine: it is told at once, and no attempt is repeated."""
    calls = []

    def factory():
        calls.append(1)
        return make()

    with pytest.raises(rb.ConfigError, match=r"reconnecting\.factory: .*async context manager"):
        async with rb.reconnecting(factory, quick()):
            pytest.fail("entered")
    assert calls == [1]


@virtual
async def test_a_context_manager_made_by_a_function_will_do():
    """`@asynccontextmanager` functions are factories."""

    @asynccontextmanager
    async def made():
        yield Client(world)

    world = World()
    async with rb.reconnecting(made, quick()) as client:
        assert await client.work("a") == "a by 1"


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"factory": 3}, "factory"),
        ({"policy": 3}, "policy"),
        ({"idempotent": "call_tool"}, "idempotent"),
        ({"idempotent": 3}, "idempotent"),
        ({"patience": -1}, "patience"),
        ({"patience": "soon"}, "patience"),
        ({"max_bytes": {"query": 0}}, "max_bytes"),
        (
            {"max_bytes": 5},
            "max_bytes: wanted a mapping of argument names to bytes, or None, got 5",
        ),
        ({"max_bytes": 0}, "max_bytes"),
        ({"max_bytes": [("query", 5)]}, "max_bytes"),
    ],
)
def test_a_bad_argument_is_named(options, path):
    """ConfigError names it when the link is made, not when it is used."""
    with pytest.raises(rb.ConfigError, match=rf"reconnecting\.{path}"):
        rb.reconnecting(**{"factory": World().factory} | options)


@virtual
async def test_a_client_that_fails_while_it_is_exited_costs_nothing():
    """What its `__aexit__` raises does not hide the cause of the loss, and not the next connection."""
    world = World()

    async def leaving(client):
        raise RuntimeError("while leaving")

    world.leaving = leaving
    link = rb.reconnecting(world.factory, quick())
    async with link as client:
        await world.lose(link)
        assert await client.work("a") == "a by 2"
        assert repr(link.health().failure.cause) == "ConnectionResetError('gone')"
    assert world.remaining == 2


@virtual
async def test_a_client_that_hangs_while_it_is_exited_is_cancelled():
    """After five seconds; the next connection is made then, and closing the link is as bounded."""
    world = World()

    async def leaving(client):
        await asyncio.Event().wait()

    world.leaving = leaving
    link = rb.reconnecting(world.factory, quick())
    async with link as client:
        await world.lose(link)
        assert await client.work("a") == "a by 2"
        assert 5 <= now() < 5.1
    assert 10 <= now() < 10.2


@virtual
async def test_a_client_that_does_not_even_take_a_cancellation_is_abandoned():
    """Five seconds more, and the link is closed; here it ends by itself afterwards."""
    world = World()

    async def leaving(client):
        until_then = now() + 30
        while now() < until_then:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(until_then - now())

    world.leaving = leaving
    async with rb.reconnecting(world.factory, quick()):
        pass
    assert 10 <= now() < 10.1
    await asyncio.sleep(30)


# -- the end ----------------------------------------------------------------------------------------------------------
@virtual
@pytest.mark.parametrize("state", ["IDLE", "CONNECTING", "READY", "BACKOFF", "SUSPENDED"])
async def test_it_can_be_closed_in_every_state(state):
    """At once, twice and twice at the same time; later calls say that it is closed, and nothing is left (G5)."""
    world = World()
    link = rb.reconnecting(
        world.factory, quick(backoff=rb.Backoff.constant(60, jitter="none"), attempts=1)
    )
    seen = link.events()
    client = None
    if state == "CONNECTING":
        world.hangs = True
        entering = asyncio.create_task(link.__aenter__())
        await asyncio.sleep(1)
    elif state != "IDLE":
        client = await link.__aenter__()
    if state in {"BACKOFF", "SUSPENDED"}:
        world.refuses = REFUSED
        await world.lose(link)
        await asyncio.sleep(61 if state == "SUSPENDED" else 1)
    assert link.state == state
    started = now()
    await asyncio.gather(link.aclose(), link.aclose())
    await link.aclose()
    if state == "CONNECTING":
        client = await entering
    assert now() - started < 0.1
    assert (link.state, world.remaining, link.health().retry_in) == ("CLOSED", world.entered, None)
    assert isinstance([event async for event in seen][-1], rb.events.Closed)
    if client is not None:
        with pytest.raises(rb.errors.NotConnectedError, match="closed"):
            await client.work("late")


@virtual
@pytest.mark.requirement("V8")
async def test_closing_tells_the_calls_under_way():
    """One that was handed out: its outcome is unknown; one that waited for a connection did not run."""
    world = World()
    link = rb.reconnecting(world.factory, quick())
    client = await link.__aenter__()
    started = asyncio.create_task(client.wait("begun"))
    await until(lambda: world.ran["begun"])
    await link.aclose()
    with pytest.raises(rb.OutcomeUnknownError):
        await started
    world.refuses = REFUSED
    link = rb.reconnecting(world.factory, quick())
    client = await link.__aenter__()
    waiting = asyncio.create_task(client.wait("waiting"))
    await asyncio.sleep(1)
    await link.aclose()
    with pytest.raises(rb.errors.NotConnectedError) as caught:
        await waiting
    assert caught.value.failure.executed is rb.errors.Executed.NO
    assert dict(world.ran) == {"begun": 1}


@virtual
async def test_nothing_remains_after_a_hundred_reconnects():
    """Every client that was entered was left; the link still works, and leaves no task."""
    world = World()
    link = rb.reconnecting(world.factory, quick())
    async with link as client:
        tasks = len(asyncio.all_tasks())
        for number in range(2, 102):
            await world.lose(link)
            assert await client.work("a") == f"a by {number}"
        assert (link.health().reconnects, len(asyncio.all_tasks())) == (100, tasks)
    assert (world.entered, world.remaining) == (101, 101)
