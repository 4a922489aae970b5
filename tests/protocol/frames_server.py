"""A server that speaks facts, in virtual time, and a client of it: for what the driver does around a session.

`served(main, **client)` runs `await main(server)`; `server.client(…)` is a BridgeClient whose gaps and messages go into one list.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from random import Random

import resilient_bridge as rb
from tests.bridges.doubles.base import Double
from tests.bridges.doubles.harness import serving_websockets
from tests.internals.telemetry import Resumed
from tests.internals.testing import Simulation
from tests.protocol.frames_rig import shown, spoken


class Server(Double):
    """Says `first` on each connection; `on_frame(connection, frame)` hears what the client says.

    `status` refuses each upgrade, `refusals` those whose path holds a word.
    """

    def __init__(self, rng):
        super().__init__(rng)
        self.first, self.status, self.on_frame, self.refusals = (), None, None, {}
        self.paths, self.heard, self.url = [], [], ""

    def refuse(self, path, headers):
        """The HTTP status of an upgrade that is refused."""
        self.paths.append(path)
        return next((status for word, status in self.refusals.items() if word in path), self.status)

    async def attend(self, connection):
        """Talk with one client."""
        for fact in self.first:
            connection.say(spoken(fact))
        async for frame in connection.frames():
            self.heard.append(json.loads(frame))
            if self.on_frame is not None:
                self.on_frame(connection, json.loads(frame))

    def say(self, *facts):
        """Each fact in a frame of its own, to everybody."""
        for fact in facts:
            for connection in self.connections:
                connection.say(spoken(fact))

    def drop(self):
        """All sockets are cut."""
        self.url.drop()

    @asynccontextmanager
    async def client(self, speaks, **options):
        """A client that is READY, and its reader."""
        async with Reader(self, speaks, **options) as reader:
            await reader.bridge.wait_ready(timeout=60)
            yield reader


class Reader:
    """A client and what it delivered, as `shown`. `verdicts`: of each reconnection, with its proof or reason."""

    def __init__(self, server, speaks, *, url=None, replay=None, **options):
        self.stream, self.verdicts, self.seen = [], [], []
        policy = rb.bridge.BridgePolicy().evolve(
            reconnect=rb.bridge.Reconnect(
                allow_plaintext_credentials=True,
                connect_timeout=5,
                backoff=rb.Backoff.constant(0.5),
            )
        )
        if replay is not None:
            policy = policy.evolve(replay=policy.replay.evolve(**replay))
        self.bridge = rb.BridgeClient(
            url or str(server.url), dialect=speaks, policy=policy, on_gap=lambda gap: self.stream.append(shown(gap)), **options
        )  # fmt: skip

    async def __aenter__(self):
        await self.bridge.__aenter__()
        events = self.bridge.events()
        self._tasks = [
            asyncio.ensure_future(self._read()),
            asyncio.ensure_future(self._note(events)),
        ]
        return self

    async def __aexit__(self, *error):
        self._tasks[0].cancel()
        await self.bridge.aclose(drain=0)
        await asyncio.wait(self._tasks)

    async def _read(self):
        async for message in self.bridge:
            self.stream.append(shown(message))

    async def _note(self, events):
        async for event in events:
            self.seen.append(event)
            if isinstance(event, Resumed):
                self.verdicts.append((str(event.verdict), event.proof or event.reason))

    async def verdict(self, count=1):
        """The last verdict, once there are so many."""
        while len(self.verdicts) < count:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        return self.verdicts[-1]


def served(main, seed=1):
    """Run `main(server)` in virtual time, for an hour of it at most; what it leaves behind is a failure."""

    @asynccontextmanager
    async def serve(**_):
        server = Server(Random(seed))
        async with serving_websockets(server) as server.url:
            yield server

    async def bounded(server):
        async with asyncio.timeout(3600):
            return await main(server)

    return Simulation(seed, server=serve).run(bounded)
