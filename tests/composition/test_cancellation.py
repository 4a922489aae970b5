"""A user's task is cancelled at every step of what it can wait for: it ends so, and the client stays whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from websockets.asyncio.client import connect

import resilient_bridge as rb
from tests.journeys.journey import Journey
from tests.samples import IS_ALL

from .stepping import BOUND, Blow, sweep


QUICK = rb.presets.default.evolve(
    reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.5), connect_burst=50)
)


def remaining() -> list[str]:
    """What the package still owns: tasks, and links whose client end is open."""
    loop: Any = asyncio.get_running_loop()
    tasks = [t.get_name() for t in asyncio.all_tasks() if "resilient_bridge" in t.get_name()]
    return tasks + [repr(link) for link in loop.network.links if not link.up.sender.is_gone]


async def slow_token() -> str:
    """A token that takes a moment."""
    await asyncio.sleep(0.01)
    return "t"


async def connecting(server: Any, blow: Blow) -> None:
    """The whole life of a client: token, connect, join, a send, the way out."""
    made: list[rb.BridgeClient] = []

    async def work() -> None:
        async with rb.BridgeClient(server.url, token=slow_token) as client:
            made.append(client)
            await client.wait_ready()
            await client.send("tool_result", {"n": 1})
            await asyncio.sleep(0.05)

    await blow.strike(work())
    assert remaining() == []
    assert all(client.state == "CLOSED" for client in made)


async def losing(server: Any, blow: Blow) -> None:
    """A client that loses its link, waits, resumes, and is left while it drains."""
    made: list[rb.BridgeClient] = []

    async def work() -> None:
        async with rb.BridgeClient(server.url, policy=QUICK) as client:
            made.append(client)
            await client.wait_ready()
            await server.push("tool_call", {})
            await asyncio.sleep(0.02)
            await server.cut("abort")
            await asyncio.sleep(0.02)
            receipt = await client.send("tool_result", {"n": 1})
            await client.wait_ready()
            await receipt.confirmed()

    await blow.strike(work())
    assert remaining() == []
    assert all(client.state == "CLOSED" for client in made)


async def over_a_factory(server: Any, blow: Blow) -> None:
    """Over a websocket of the user's own: whatever was entered is left again."""
    entered: list[str] = []

    class Own:
        async def __aenter__(self) -> Any:
            await asyncio.sleep(0.01)
            self.connection = await connect(server.url)
            entered.append("in")
            return self.connection

        async def __aexit__(self, *_: object) -> None:
            entered.append("out")
            await self.connection.close()

    async def work() -> None:
        async with rb.BridgeClient.over(Own, policy=QUICK) as client:
            await client.wait_ready()
            await server.cut("abort")
            await asyncio.sleep(0.02)
            await client.wait_ready()

    await blow.strike(work())
    await asyncio.sleep(0)
    assert remaining() == []
    assert entered in (["in", "out"][: len(entered)] * 1, ["in", "out"] * 2)


async def sending(server: Any, blow: Blow) -> None:
    """Sends that wait for room while the link goes and comes: what returned is told, what was cancelled never leaves."""
    policy = QUICK.evolve(outbox=rb.bridge.Outbox(max_messages=3, overflow="block"))
    async with Journey(server, policy=policy) as journey:
        await journey.ready()
        taken: list[int] = []

        async def work() -> None:
            for n in range(1, 16):
                await journey.send(n)
                taken.append(n)
                if n == 5:
                    await server.cut("abort")

        await blow.strike(work())
        await journey.rest()
        assert [m["payload"]["n"] for m in server.received if "n" in m["payload"]] == taken
        assert {receipt.state for receipt in journey.receipts.values()} <= {"confirmed"}
    journey.check()


async def requesting(server: Any, blow: Blow) -> None:
    """Requests: the cancelled one is withdrawn, and no loss brings it back."""
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        asked: list[int] = []

        async def work() -> None:
            for n in range(1, 8):
                asked.append(n)
                if n == 3:
                    await server.cut("abort")
                    await asyncio.sleep(0.02)
                answer = await journey.client.request(
                    "git_status_request", {"r": n}, idempotent=True
                )
                assert answer.payload["r"] == n

        await blow.strike(work())
        assert not journey.client._session.outbound.open_requests
        seen = len(server.frames)
        await server.cut("abort")
        await journey.rest()
        assert not [
            frame for frame in server.frames[seen:] if frame["type"] == "git_status_request"
        ]
        answer = await journey.client.request("git_status_request", {"r": 0})
        assert answer.payload["r"] == 0
    journey.check()


async def iterating(server: Any, blow: Blow) -> None:
    """A reader cancelled anywhere, a loss included: the next reader goes on behind the last message it was given."""
    seen: list[int] = []
    async with rb.BridgeClient(server.url, policy=QUICK) as client:
        await client.wait_ready()

        async def work(last: int) -> None:
            async for message in client:
                seen.append(message.payload["n"])
                if seen[-1] == last:
                    return

        async def push() -> None:
            for n in range(1, 11):
                await server.push("tool_call" if n % 2 else "stream_chunk", {"n": n})
                if n == 4:
                    await server.cut("abort")
                await asyncio.sleep(0.01)

        pushing = asyncio.create_task(push())
        await blow.strike(work(10))
        await pushing
        if not seen or seen[-1] != 10:
            async with asyncio.timeout(BOUND):
                await work(10)
    assert seen == list(range(1, 11))


async def telling_of_a_gap(server: Any, blow: Blow) -> None:
    """`on_gap` cancelled in its middle is told again, in its place; told once to the end, never again."""
    order: list[object] = []

    async def on_gap(gap: rb.bridge.Gap) -> None:
        await asyncio.sleep(0.01)
        await client.request("git_status_request", {})
        order.append(gap.reason)

    client = rb.BridgeClient(server.url, policy=QUICK, on_gap=on_gap)
    async with client:
        await client.wait_ready()

        async def work(last: int) -> None:
            async for message in client:
                order.append(message.payload["n"])
                if order[-1] == last:
                    return

        async def trouble() -> None:
            await server.push("tool_call", {"n": 1})
            await asyncio.sleep(0.02)
            server.expire_sessions()
            while client.state == "READY":
                await asyncio.sleep(0.001)
            await client.wait_ready()
            await server.push("tool_call", {"n": 2})

        troubling = asyncio.create_task(trouble())
        await blow.strike(work(2))
        await troubling
        if not order or order[-1] != 2:
            async with asyncio.timeout(BOUND):
                await work(2)
    assert order == [1, "new_session", 2]


async def waiting(server: Any, blow: Blow) -> None:
    """`wait_ready` through a connect, a refused attempt and a resume."""
    async with Journey(server, policy=QUICK) as journey:

        async def work() -> None:
            await journey.ready()
            await server.cut("abort", seconds=0.4)
            await asyncio.sleep(0.02)
            await journey.ready()

        await blow.strike(work())
        assert journey.client._driver._watchers == []
        await journey.send(1)
        await journey.push(1) if server.session else None
        await journey.rest()
    journey.check()


async def confirming(server: Any, blow: Blow) -> None:
    """`confirmed` changes nothing: the receipt ends as it would have, and another waiter is told."""
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()

        async def work() -> None:
            receipt = await journey.send(1)
            await receipt.confirmed(60)
            await server.cut("abort")
            await asyncio.sleep(0.02)
            receipt = await journey.send(2)
            await receipt.confirmed(60)

        await blow.strike(work())
        await journey.rest()
        for receipt in journey.receipts.values():
            assert await receipt.confirmed(1) in {"applied", "read"}
    journey.check()


async def following(server: Any, blow: Blow) -> None:
    """A reader of events is cancelled: the stream keeps what comes, and the next reader goes on."""
    heard: list[rb.events.Event] = []
    got: list[rb.events.Event] = []
    with rb.listen(heard.append):
        client = rb.BridgeClient(server.url, policy=QUICK)
        stream = client.events()

        async def work() -> None:
            async for event in stream:
                got.append(event)  # noqa: PERF401 -- what came before the cancellation has to stay

        async def life() -> None:
            async with client:
                await client.wait_ready()
                await server.cut("abort")
                await asyncio.sleep(0.02)
                await client.wait_ready()

        living = asyncio.create_task(life())
        await blow.strike(work())
        await living
        async with asyncio.timeout(BOUND):
            await work()
    assert got == heard


async def closed(client: rb.BridgeClient, blow: Blow, drain: float) -> None:
    """Close it in the cancelled task; if that never came to run, here."""
    began: list[bool] = []

    async def work() -> None:
        began.append(True)
        await client.aclose(drain=drain)

    await blow.strike(work())
    if not began:
        await client.aclose(drain=drain)


async def closing(server: Any, blow: Blow) -> None:
    """`aclose` while sends are unconfirmed: cancelled anywhere, the client is CLOSED and every receipt is told."""
    client = rb.BridgeClient(server.url, policy=QUICK)
    events = client.events()
    await client.__aenter__()
    await client.wait_ready()
    server.behave(slow=0.02)
    receipts = [await client.send("tool_result", {"n": n}) for n in range(5)]
    await closed(client, blow, 5)
    assert client.state == "CLOSED"
    assert client.state == "CLOSED"
    assert remaining() == []
    for receipt in receipts:
        assert receipt.state in {"confirmed", "unknown", "dropped"}
    async with asyncio.timeout(1):
        parts = [event async for event in events]
    assert isinstance(parts[-1], rb.events.Closed)
    assert await client.aclose() == []


async def closing_a_dead_link(server: Any, blow: Blow) -> None:
    """The same where the other side has gone silent and never answers the goodbye."""
    client = rb.BridgeClient(server.url, policy=QUICK)
    await client.__aenter__()
    await client.wait_ready()
    loop: Any = asyncio.get_running_loop()
    loop.network.links[0].vanish()
    receipt = await client.send("tool_result", {})
    await closed(client, blow, 0.5)
    assert client.state == "CLOSED"
    assert client.state == "CLOSED"
    assert remaining() == []
    assert receipt.state == "unknown"


#: scenario -> how many places it has at least: more than 500 in all
SCENARIOS = {
    connecting: 35, losing: 65, over_a_factory: 60, sending: 55, requesting: 70, iterating: 45, telling_of_a_gap: 75,
    waiting: 50, confirming: 40, following: 60, closing: 15, closing_a_dead_link: 12,
}  # fmt: skip
STEP = 1 if IS_ALL else 3  # of the places, in turns of the loop


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_cancellation_at_any_step_leaves_the_client_whole(scenario):
    """Cancelled before every third turn of the loop, or every one: CancelledError comes out, nothing leaks, nothing is lost, the client goes on."""
    assert sweep(scenario, step=STEP) >= SCENARIOS[scenario]


@pytest.mark.parametrize("again", [1, 2, 3])
@pytest.mark.parametrize(
    "scenario", [connecting, closing, closing_a_dead_link], ids=lambda s: s.__name__
)
def test_a_second_cancellation_during_the_close_leaves_nothing_either(scenario, again):
    """Cancelled, and cancelled again one to three turns later, while it closes because of the first."""
    assert sweep(scenario, again=again, step=STEP) > 4
