"""Which calls of a link are repeated, what the others are told, and that each of them is told the truth about itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import resilient_bridge as rb
from tests.adapters.link_peers import Client, World, now, quick, virtual
from tests.peers.running import until
from tests.rows import each_row


REFUSED = ConnectionRefusedError(111, "refused")
GONE = ConnectionResetError("gone")
TENTH = rb.Backoff.constant(0.1, jitter="none")  # of a second, where a link is away for many


def client_of(package: str, **calls: Callable[..., Any]) -> type[Client]:
    """A client that says it is of this package, as far as it can be seen."""
    return type("Client", (Client,), {"__module__": f"{package}.client", **calls})


async def lose_in_mid_call(world: World, key: str, error: BaseException = GONE) -> None:
    """Wait until the call is in the ledger, and kill the client."""
    await until(lambda: world.ran[key])
    world.client.die(error)
    world.gate.set()


# -- under way when the client dies -----------------------------------------------------------------------------------
@virtual
@pytest.mark.requirement("V8")
async def test_a_call_that_may_have_run_is_not_repeated():
    """OutcomeUnknownError from the cause, which says that it may have run and is not to be repeated; the next call works."""
    world = World()
    async with rb.reconnecting(world.factory, quick()) as client:
        call = asyncio.create_task(client.wait("a"))
        await lose_in_mid_call(world, "a")
        with pytest.raises(rb.OutcomeUnknownError, match="outcome of wait unknown") as caught:
            await call
        assert caught.value.__cause__ is GONE
        failure = caught.value.failure
        assert (failure.code, failure.executed, failure.retryable) == (
            "SYS_OUTCOME_UNKNOWN",
            rb.errors.Executed.MAYBE,
            False,
        )
        assert await client.wait("b") == "b by 2"
    assert world.ran == {"a": 1, "b": 1}


@virtual
@pytest.mark.parametrize(
    ("names", "is_repeated"), [(["order"], True), (["call_tool", "other"], False)]
)
async def test_u02_a_name_of_idempotent_is_that_of_a_tool(names, is_repeated):
    """As in Toolbox, in the sidecar and in a policy: never of the method that all tools are called by."""
    world = World(client_of("mcp", call_tool=Client.wait))
    async with rb.reconnecting(world.factory, quick(), idempotent=names) as client:
        call = asyncio.create_task(client.call_tool("order"))
        await lose_in_mid_call(world, "order")
        if is_repeated:
            await call
        else:
            with pytest.raises(rb.OutcomeUnknownError):
                await call
    assert world.ran["order"] == 1 + is_repeated


@virtual
@pytest.mark.requirement("V9")
@pytest.mark.parametrize(
    ("idempotent", "is_repeated"),
    [
        (True, True),
        (False, False),
        (["wait"], True),
        (["work", "other"], False),
        (lambda call: call.method == "wait" and call.args == ("a",) and not call.kwargs, True),
        (lambda call: call.args == ("b",), False),
    ],
    ids=["all", "none", "by name", "other names", "by predicate", "predicate says no"],
)
async def test_idempotent_says_which_calls_may_run_twice(idempotent, is_repeated):
    """All, those of these names, or what a predicate says; a repeat runs on the next client, and once."""
    world = World()
    async with rb.reconnecting(world.factory, quick(), idempotent=idempotent) as client:
        call = asyncio.create_task(client.wait("a"))
        await lose_in_mid_call(world, "a")
        if is_repeated:
            assert await call == "a by 2"
        else:
            with pytest.raises(rb.OutcomeUnknownError):
                await call
    assert world.ran["a"] == 1 + is_repeated


@virtual
@pytest.mark.requirement("V9")
async def test_a_repeat_has_the_same_key():
    """`rb.current_attempt().idempotency_key` is that of the call, on every client that it reaches; the next call has another."""
    world, keys = World(), []
    async with rb.reconnecting(world.factory, quick(), idempotent=True) as client:
        world.gate.set()
        assert await client.key_of(keys) == "key by 2"
        await client.key_of(keys)
    assert keys[0] == keys[1] != keys[2]


@virtual
@each_row(
    ("package", "name", "is_repeated"),
    [
        ("mcp", "list_tools", True),
        ("mcp", "read_resource", True),
        ("mcp", "call_tool", False),
        ("websockets", "recv", True),
        ("websockets", "send", False),
        ("mine", "list_tools", False),
    ],
)
@each_row("is_offline", [False, True])
async def test_reads_by_protocol_may_always_run_twice(package, name, is_repeated, is_offline):
    """Those of mcp and websockets, by name, also if the call was made before there was a first client; nobody else's."""
    world = World(client_of(package, **{name: Client.wait}))
    world.refuses = REFUSED if is_offline else None
    async with rb.reconnecting(world.factory, quick()) as client:
        call = asyncio.create_task(getattr(client, name)("a"))
        await asyncio.sleep(0.1)
        world.refuses = None
        await lose_in_mid_call(world, "a")
        if is_repeated:
            assert (await call).startswith("a by")
        else:
            with pytest.raises(rb.OutcomeUnknownError):
                await call
    assert world.ran["a"] == 1 + is_repeated


@virtual
async def test_several_calls_each_get_their_own_truth():
    """One of them meets a refused connection, inside of it: that ends the client under all three, and none of them is told that it did
    not run; each is told what it was.
    """

    class Refusing(Client):
        async def refused(self, key: str) -> str:
            self.world.ran[key] += 1
            await asyncio.sleep(0)
            raise REFUSED

    world = World(Refusing)
    async with rb.reconnecting(world.factory, quick()) as client:
        calls = [asyncio.create_task(client.wait(key)) for key in "ab"]
        await until(lambda: len(world.ran) == 2)
        calls.append(asyncio.create_task(client.refused("c")))
        for call in calls:
            with pytest.raises(rb.OutcomeUnknownError) as caught:
                await call
            assert caught.value.__cause__ is REFUSED
            assert caught.value.failure.executed is rb.errors.Executed.MAYBE
    assert world.ran == {"a": 1, "b": 1, "c": 1}


@virtual
async def test_a_caller_who_cancels_cancels_one_call():
    """Only that one: the others go on, on the same client; and cancellation is never turned into anything else."""
    world = World()
    link = rb.reconnecting(world.factory, quick())
    async with link as client:
        calls = [asyncio.create_task(client.wait(key)) for key in "abc"]
        await until(lambda: len(world.ran) == 3)
        calls[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await calls[1]
        assert link.health().in_flight == 2
        world.gate.set()
        assert await asyncio.gather(calls[0], calls[2]) == ["a by 1", "c by 1"]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                world.gate.clear()
                await client.wait("d")
        assert link.health().in_flight == 0
        assert await client.work("e") == "e by 1"


@virtual
async def test_a_caller_who_cancels_while_away_cancels_a_wait():
    """The call is not made when the client returns."""
    world = World()
    link = rb.reconnecting(world.factory, quick())
    async with link as client:
        world.refuses = REFUSED
        await world.lose(link)
        call = asyncio.create_task(client.work("a"))
        await asyncio.sleep(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        world.refuses = None
        await link.wait_ready(5)
    assert not world.ran


@virtual
async def test_a_client_that_cancels_its_callers_is_lost():
    """Complaint 4: never a CancelledError for a caller who did not cancel; the error says what happened, within seconds."""

    class Cancelling(Client):
        async def broken(self, key: str) -> None:
            self.world.ran[key] += 1
            await asyncio.sleep(0)
            raise asyncio.CancelledError

    world = World(Cancelling)
    async with rb.reconnecting(world.factory, quick()) as client:
        with pytest.raises(rb.OutcomeUnknownError) as caught:
            await client.broken("a")
        assert (
            repr(caught.value.__cause__) == "ConnectionAbortedError('the client cancelled a call')"
        )
        assert now() < 2
        assert await client.work("b") == "b by 2"


@virtual
async def test_a_call_that_takes_no_cancellation_is_abandoned_after_five_seconds():
    """The caller is told then; whatever it does afterwards is nobody's."""

    class Stubborn(Client):
        async def stubborn(self, key: str) -> None:
            self.world.ran[key] += 1
            until_then = now() + 20
            while now() < until_then:
                try:
                    await asyncio.sleep(until_then - now())
                except asyncio.CancelledError:
                    continue

    world = World(Stubborn)
    async with rb.reconnecting(world.factory, quick()) as client:
        call = asyncio.create_task(client.stubborn("a"))
        await lose_in_mid_call(world, "a")
        with pytest.raises(rb.OutcomeUnknownError):
            await call
        assert 5 <= now() < 5.5
    await asyncio.sleep(20)


@virtual
async def test_a_call_that_kills_every_client_ends():
    """It may be what kills them: after three it fails, retry or not, and says what happened."""

    class Deadly(Client):
        async def deadly(self, key: str) -> str:
            self.die(ConnectionResetError(f"{self.version}"))
            return await self.wait(key)

    world = World(Deadly)
    async with rb.reconnecting(world.factory, quick(), idempotent=True) as client:
        with pytest.raises(rb.BridgeError, match="lost during deadly") as caught:
            await client.deadly("a")
        assert repr(caught.value.__cause__) == "ConnectionResetError('3')"
    assert world.ran == {"a": 3}


# -- away -------------------------------------------------------------------------------------------------------------
@virtual
async def test_a_call_made_while_away_waits():
    """It is done when the client is back, on that one, and once."""
    world = World()
    link = rb.reconnecting(world.factory, quick(backoff=TENTH))
    async with link as client:
        world.refuses = REFUSED
        await world.lose(link)
        calls = [asyncio.create_task(client.work(key)) for key in "abc"]
        await asyncio.sleep(20)
        assert client.name() == "client 1"  # what is no coroutine is still the last client's
        world.refuses = None
        assert {(await call)[:4] for call in calls} == {"a by", "b by", "c by"}
    assert world.ran == {"a": 1, "b": 1, "c": 1}


@virtual
@pytest.mark.parametrize(
    ("options", "seconds"), [({}, 30), ({"patience": 2.5}, 2.5), ({"patience": 0}, 0)]
)
async def test_patience_has_an_end(options, seconds):
    """After 30 s by default: NotConnectedError from the last attempt's cause; it did not run, and no Retry waits once more."""
    world = World()
    link = rb.reconnecting(world.factory, quick(backoff=TENTH), **options)
    async with link as client:
        world.refuses = REFUSED
        await world.lose(link)
        await asyncio.sleep(1)
        started = now()
        with pytest.raises(rb.errors.NotConnectedError, match="not connected") as caught:
            await client.work("a")
        assert seconds <= now() - started < seconds + 0.1
        assert caught.value.__cause__ is REFUSED
        assert caught.value.failure.executed is rb.errors.Executed.NO
    assert not world.ran


@virtual
async def test_l05_patience_none_is_no_limit():
    """A call waits for the next client, however long that takes; None is not 0."""
    world = World()
    link = rb.reconnecting(world.factory, quick(backoff=TENTH, attempts=None), patience=None)
    async with link as client:
        world.refuses = REFUSED
        await world.lose(link)
        call = asyncio.ensure_future(client.work("a"))
        await asyncio.sleep(300)
        assert not call.done()
        world.refuses = None
        assert (await call)[:4] == "a by"


@virtual
async def test_a_deadline_is_shorter_than_patience():
    """A policy's Deadline bounds the wait as it bounds the call."""
    world = World()
    link = rb.reconnecting(world.factory, quick(calls=rb.Policy(rb.Deadline(3))))
    async with link as client:
        world.refuses = REFUSED
        await world.lose(link)
        started = now()
        with pytest.raises(rb.DeadlineExceededError):
            await client.work("a")
        assert 3 <= now() - started < 3.1


# -- errors that are no loss ------------------------------------------------------------------------------------------
@virtual
async def test_an_error_of_the_call_is_the_callers():
    """The same object comes out, no connection is made, and a Retry repeats what the policy names, where that is permitted."""
    world = World()
    link = rb.reconnecting(world.factory, quick())
    async with link as client:
        world.client.fault = fault = ValueError("wrong key")
        with pytest.raises(ValueError, match="wrong key") as caught:
            await client.work("a")
        assert caught.value is fault
        assert (len(world.made), link.state) == (1, "READY")
    calls = rb.Policy(
        rb.Retry(attempts=3, on=KeyError, backoff=rb.Backoff.constant(0.1, jitter="none"))
    )
    async with rb.reconnecting(world.factory, quick(calls=calls), idempotent=True) as client:
        world.client.fault = KeyError("busy")
        call = asyncio.create_task(client.work("b"))
        await asyncio.sleep(0.15)
        world.client.fault = None
        assert await call == "b by 2"


@virtual
async def test_a_servers_own_32000_is_an_answer():
    """-32000 is anybody's code: only mcp's own words for a lost connection mean one."""
    from mcp.shared.exceptions import MCPError

    world = World(client_of("mcp"))
    link = rb.reconnecting(world.factory, quick())
    async with link as client:
        world.client.fault = MCPError(-32000, "backend busy")
        with pytest.raises(MCPError, match="backend busy"):
            await client.work("a")
        assert (len(world.made), link.state) == (1, "READY")
        world.client.fault = MCPError(-32000, "Connection closed")
        assert await client.work("a") == "a by 2"


@virtual
async def test_a_predicate_that_raises_stops_its_call_only():
    """Threat 48: its error is the caller's, nothing was called, and the link lives."""
    world = World()

    def broken(call: rb.links.Call) -> bool:
        raise LookupError(call.method)

    async with rb.reconnecting(world.factory, quick(), idempotent=broken) as client:
        with pytest.raises(LookupError, match="work"):
            await client.work("a")
    assert not world.ran


@virtual
@pytest.mark.requirement("V9")
async def test_a_predicate_that_must_be_awaited_permits_nothing():
    """A coroutine is true, and no permission: an async predicate is refused at once, one that only returns it at the call."""
    world = World()

    async def later(call: rb.links.Call) -> bool:
        return False

    class Asked:
        async def __call__(self, call: rb.links.Call) -> bool:
            return False

    for idempotent in (later, Asked()):
        with pytest.raises(rb.ConfigError, match=r"reconnecting\.idempotent"):
            rb.reconnecting(world.factory, quick(), idempotent=idempotent)

    def returns_it(call: rb.links.Call) -> Any:
        return later(call)

    async with rb.reconnecting(world.factory, quick(), idempotent=returns_it) as client:
        with pytest.raises(
            rb.ConfigError, match="idempotent: wanted True or False from the predicate for work"
        ):
            await client.work("a")
    async with rb.reconnecting(world.factory, quick(), idempotent=lambda call: 1) as client:
        with pytest.raises(rb.ConfigError, match="True or False"):
            await client.work("a")
    assert not world.ran


@virtual
async def test_an_argument_that_is_too_large_is_refused():
    """`max_bytes`: before anything is sent."""
    world = World()
    async with rb.reconnecting(world.factory, quick(), max_bytes={"key": 5}) as client:
        with pytest.raises(rb.errors.RejectedError, match="wanted at most 5 bytes, got 6"):
            await client.work(key="123456")
        assert await client.work(key="12345") == "12345 by 1"
    assert world.ran == {"12345": 1}


@virtual
@pytest.mark.parametrize("answers", [False, True])
async def test_k01_the_dicts_of_a_users_client_are_answers_only_with_answers(answers):
    """By default what a method returns is its success; with `answers=True` a dict in a form of MCP is repeated."""
    made = []

    class Rows(Client):
        async def row(self) -> dict[str, Any]:
            made.append(None)
            return {"isError": True, "content": [{"type": "text", "text": "timed out"}]}

    async with rb.reconnecting(
        World(Rows).factory, quick(), idempotent=True, answers=answers
    ) as client:
        assert (await client.row())["isError"]
    assert len(made) == (4 if answers else 1)
