"""Row 29: cancellation at every await of user code, and Ctrl-C. The cancellation is raised, and the state stays valid.

Rule: the n-th suspension of the user's task is cancelled, for every n; the simulation fails a run that leaks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

import resilient_bridge as rb
from tests.internals.testing import Simulation


class CancelledAt:
    """Awaits a coroutine, and cancels its task at its n-th suspension; `reached` says whether there were that many."""

    def __init__(self, coroutine, n):
        self._coroutine = coroutine
        self._remaining = n
        self.reached = False

    def __await__(self):
        inner = self._coroutine.__await__()
        value, error = None, None
        while True:
            try:
                future = inner.throw(error) if error is not None else inner.send(value)
            except StopIteration as end:
                return end.value
            self._remaining -= 1
            if self._remaining == 0:
                self.reached = True
                asyncio.current_task().cancel()
            value, error = None, None
            try:
                value = yield future
            except BaseException as thrown:  # noqa: BLE001 -- whatever the loop throws in belongs inside
                error = thrown


async def connect_and_leave(server, client, note):
    """Open, wait, leave."""
    async with client:
        await client.wait_ready(10)


async def send_and_confirm(server, client, note):
    """Three sends, each confirmed."""
    async with client:
        for n in range(3):
            note.append(await client.send("note", {"n": n}))
            await note[-1].confirmed(10)


async def ask(server, client, note):
    """Two requests, one that may be repeated."""
    async with client:
        await client.request("git_status_request", {"n": 1}, timeout=10)
        await client.request("git_status_request", {"n": 2}, timeout=10, idempotent=True)


async def read(server, client, note):
    """Read five messages across a loss."""
    async with client:
        await client.wait_ready(10)
        for n in range(5):
            await server.push("tool_call", {"n": n})
        seen = 0
        async for _ in client:
            seen += 1
            if seen == 3:
                await server.cut("abort", seconds=2)
            if seen == 5:
                break


async def through_a_loss(server, client, note):
    """Send before, during and after an outage."""
    async with client:
        await client.wait_ready(10)
        note.append(await client.send("note", {"n": 0}))
        await server.cut("abort", seconds=2)
        note.append(await client.send("note", {"n": 1}))
        await note[-1].confirmed(60)


async def close_while_down(server, client, note):
    """Leave while the link is down and something is queued."""
    async with client:
        await client.wait_ready(10)
        await server.cut("abort", seconds=60)
        note.append(await client.send("note", {"n": 0}))
        await client.aclose(drain=3)


async def close_with_much_to_send(server, client, note):
    """Close, with a drain, right after a burst."""
    async with client:
        await client.wait_ready(10)
        for n in range(200):
            note.append(await client.send("note", {"n": n}))
        await client.aclose(drain=5)


async def full_outbox(server, client, note):
    """Wait for room in a full outbox."""
    async with client:
        for n in range(4):
            note.append(await client.send("note", {"n": n}))
        await note[-1].confirmed(10)


JOURNEYS = [
    connect_and_leave, send_and_confirm, ask, read, through_a_loss, close_while_down, close_with_much_to_send,
    full_outbox,
]  # fmt: skip
POLICIES = {
    full_outbox: rb.presets.default.evolve(
        outbox=rb.bridge.Outbox(max_messages=1, overflow="block")
    )
}


def cancelled_at(journey, n):
    """Run the journey with its n-th suspension cancelled; return whether it had that many."""

    async def main(server):
        client = rb.BridgeClient(server.url, policy=POLICIES.get(journey, rb.presets.default))
        receipts = []
        steps = CancelledAt(journey(server, client, receipts), n)
        events = client.events()

        async def follow():
            return [event async for event in events]

        listener = asyncio.create_task(follow())

        async def user():
            await steps

        task = asyncio.create_task(user())
        await asyncio.wait([task])
        if steps.reached:
            assert task.cancelled(), f"the cancel at suspension {n} was swallowed: {task!r}"
        else:
            task.result()
        # however it ended, the client owns no resources and has reported everything
        await asyncio.sleep(2)
        assert client.state in {"CLOSED", "IDLE"}
        assert listener.done() == (client.state == "CLOSED")
        listener.cancel()
        for receipt in receipts:
            assert receipt.state in {
                "confirmed",
                "dropped",
                "withdrawn",
                "expired",
                "unknown",
                "written",
            }
            with suppress(rb.BridgeError):
                await receipt.confirmed(1)
        if client.state == "CLOSED":
            with pytest.raises(rb.errors.NotConnectedError):
                await client.send("note", {})
        applied = [message["payload"]["n"] for message in server.received]
        assert applied == sorted(set(applied)), "applied twice, or out of order"
        return steps.reached

    return Simulation(n).run(main)


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.__name__)
def test_row_29_cancellation_at_every_await(journey):
    """Cancelled at each suspension, `async with` and `aclose` included: it is raised, nothing leaks, all receipts are final."""
    n = 1
    while cancelled_at(journey, n):
        n += 1
    assert n > 3


def test_row_29_cancelled_again_while_closing():
    """After a second and a third cancellation during the first there is no task, no link, and a CLOSED client."""

    async def main(server):
        client = rb.BridgeClient(server.url)

        async def user():
            async with client:
                await client.wait_ready(10)
                for n in range(50):
                    await client.send("note", {"n": n})
                await asyncio.sleep(1_000)

        task = asyncio.create_task(user())
        await asyncio.sleep(1)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([task], timeout=30)
        assert task.cancelled()
        await asyncio.sleep(2)
        assert client.state == "CLOSED"

    for seed in range(5):
        Simulation(seed).run(main)


@pytest.mark.parametrize("moment", ["aclose", "confirmed", "request", "wait_ready", "iteration"])
def test_row_29_a_timeout_of_the_users_own(moment):
    """`asyncio.timeout` around any operation raises TimeoutError on time, and the client goes on."""

    async def main(server):
        loop = asyncio.get_running_loop()
        async with rb.BridgeClient(server.url) as client:
            await client.wait_ready(10)
            server.behave(acks="none", never_pong=True, ignored=frozenset({"slow_request"}))
            receipt = await client.send("note", {"n": 1})
            if moment == "wait_ready":
                await server.cut("abort", seconds=20)
                await asyncio.sleep(0.1)
            use = {
                "aclose": lambda: client.aclose(drain=30),
                "confirmed": receipt.confirmed,
                "request": lambda: client.request("slow_request", {}),
                "wait_ready": client.wait_ready,
                "iteration": aiter(client).__anext__,
            }[moment]
            started = loop.time()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2):
                    await use()
            assert loop.time() - started < 3.5
            server.behave(acks="each", never_pong=False)
            if moment != "aclose":
                await client.wait_ready(60)
                assert await (await client.send("note", {"n": 2})).confirmed(60) in {
                    "applied",
                    "read",
                }

    Simulation(3).run(main)


def test_row_29_a_cancelled_send_is_never_delivered():
    """Of 24 sends cancelled while the outbox is full, none is applied later: a cancelled send was not accepted."""

    async def main(server):
        policy = rb.presets.default.evolve(
            outbox=rb.bridge.Outbox(max_messages=1, overflow="block")
        )
        async with rb.BridgeClient(server.url, policy=policy) as client:
            await client.wait_ready(10)
            await server.cut("abort", seconds=20)
            await asyncio.sleep(0.1)
            await client.send("note", {"n": 0})
            tasks = [asyncio.create_task(client.send("note", {"n": n})) for n in range(1, 25)]
            await asyncio.sleep(1)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert all(task.cancelled() for task in tasks)
            await client.wait_ready(60)
            await (await client.send("note", {"n": 99})).confirmed(10)
            assert [message["payload"]["n"] for message in server.received] == [0, 99]

    Simulation(1).run(main)


CTRL_C = """
import asyncio, sys
import resilient_bridge as rb
from resilient_bridge.testing import BridgeServer

async def main():
    async with BridgeServer() as server, rb.BridgeClient(server.url) as client:
        await client.wait_ready(10)
        receipt = await client.send("note", {"n": 1})
        await receipt.confirmed(10)
        print("ready", flush=True)
        try:
            async for message in client:
                pass
        finally:
            print("left", flush=True)
    print("never")

try:
    asyncio.run(main(), debug=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(130)
"""


@pytest.mark.real
def test_row_29_keyboard_interrupt():
    """After Ctrl-C a reading program ends at once and in order, without warnings about tasks or sockets."""
    environment = {**os.environ, "PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", CTRL_C],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=15)
    assert out == "left\ninterrupted\n"
    assert process.returncode == 130
    assert "Traceback" not in err, err
    assert "destroyed" not in err
    assert "never" not in err
