"""What runs a relay: a client that does not read holds back every server, also one that comes while it does not read."""

from __future__ import annotations

import asyncio

from resilient_bridge.adapters import Sidecar
from tests.internals.adapters import ChildUpstream, RunningRelay, message


class Client:
    """A client session that remembers what it got."""

    def __init__(self):
        self.got = []

    def deliver(self, received, request):
        self.got.append(received)

    def drop(self, request):
        pass


class Slow:
    """A connection that opens when a test says so."""

    def __init__(self, receiver):
        self.receiver, self.is_open, self.changes, self.sent = receiver, asyncio.Event(), [], []

    async def open(self):
        await self.is_open.wait()

    async def close(self):
        self.is_open.set()

    def send(self, received):
        self.sent.append(received)

    def set_reading(self, *, is_reading):
        self.changes.append(is_reading)


async def test_a_server_that_starts_while_the_client_does_not_read_is_not_read():
    """The order to read nothing came before it was there; it holds, until it is taken back."""
    made = []

    def make(receiver):
        made.append(Slow(receiver))
        return made[-1]

    relay, client = (
        RunningRelay(Sidecar(command=("server",)), make, lambda _record, _line: None),
        Client(),
    )
    relay.connect(client)
    relay.receive(
        client, message.request(1, "initialize", {"protocolVersion": "x", "capabilities": {}})
    )
    (server,) = made
    relay.set_reading(is_reading=False)
    server.changes.clear()
    server.is_open.set()
    async with asyncio.timeout(5):
        while not server.sent:
            await asyncio.sleep(0)
    assert server.changes == [False]
    relay.set_reading(is_reading=True)
    assert server.changes == [False, True]
    await relay.close()


async def test_a_child_that_does_not_run_yet_can_be_paused():
    """It raised AttributeError, which ended the session."""
    child = ChildUpstream(("server",), object())
    starting = asyncio.ensure_future(child.open())
    await asyncio.sleep(0)
    child.set_reading(is_reading=False)
    child.set_reading(is_reading=True)
    starting.cancel()
    await asyncio.wait([starting])
    await child.close()
