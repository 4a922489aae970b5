"""What the tests of links share: a quick policy, and a client whose whole life is scripted by the test.

Rule: the client stands for a user's; it knows nothing of links, and it keeps a ledger of what it really did.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

from websockets.asyncio.server import serve

import resilient_bridge as rb
from tests.peers.running import until


def quick(*, calls: rb.Policy | None = None, **reconnect: Any) -> rb.bridge.BridgePolicy:
    """A policy that tries again at once, and as often as it takes."""
    reconnect.setdefault("backoff", rb.Backoff.constant(0.01, jitter="none"))
    return rb.bridge.BridgePolicy(
        reconnect=rb.bridge.Reconnect(
            connect_burst=10_000, connects_per_minute=600_000, **reconnect
        ),
        calls=calls
        or rb.Policy(
            rb.Retry(attempts=4, backoff=rb.Backoff.constant(0.01, jitter="none"), budget=None)
        ),
    )


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a loop of virtual time, which also fails it for a task that is left."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        rb.testing.simulate(lambda _: test(*args, **kwargs))

    return run


def now() -> float:
    """The time of this loop."""
    return asyncio.get_running_loop().time()


async def quiet() -> set[str]:
    """The names of the tasks that are left besides this one, when those that only have to end have done so."""
    for _ in range(20):
        await asyncio.sleep(0)
    return {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}}


@asynccontextmanager
async def served(attend: Any, **options: Any) -> AsyncIterator[tuple[str, list[object]]]:
    """A websockets server that counts its connections, and its address."""
    made: list[object] = []

    async def count(connection: Any) -> None:
        made.append(connection)
        await attend(connection)

    async with serve(count, "127.0.0.1", 0, **options) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", made


class World:
    """What the clients of one link live in: whether they can connect, what they did, and who is there."""

    def __init__(self, kind: type[Client] | None = None) -> None:
        """Name the class of its clients."""
        self.kind = kind or Client
        self.refuses: BaseException | None = None  # raised by every attempt to connect
        self.hangs = False  # an attempt never ends
        self.leaving: Any = None  # awaited with the client when it is left
        self.made: list[Client] = []
        self.entered = self.remaining = 0
        self.ran: Counter[str] = Counter()
        self.gate = asyncio.Event()  # what `wait` waits for

    def factory(self) -> Client:
        """Make the next client."""
        client = self.kind(self)
        self.made.append(client)
        return client

    async def lose(
        self, link: rb.links.Reconnecting[Any], error: BaseException | None = None
    ) -> None:
        """Kill the client of the moment, and wait until its link knows."""
        self.client.die(error or ConnectionResetError("gone"))
        await until(lambda: link.state != "READY")

    @property
    def client(self) -> Client:
        """The client of the moment."""
        return self.made[-1]


class Client:
    """A client: it can be entered once, its calls fail with `fault`, and it dies when told."""

    def __init__(self, world: World) -> None:
        """Belong to a world."""
        self.world = world
        self.fault: BaseException | None = None
        self.dead: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.close_exc: BaseException | None = None
        self.version = len(world.made) + 1
        self._secret = 1

    async def __aenter__(self) -> Any:
        """Connect."""
        await asyncio.sleep(0)
        if self.world.hangs:
            await asyncio.Event().wait()
        if self.world.refuses is not None:
            raise self.world.refuses
        self.world.entered += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        self.world.remaining += 1
        if self.world.leaving is not None:
            await self.world.leaving(self)

    async def wait_closed(self) -> None:
        """Wait until it is dead."""
        await asyncio.wait([self.dead])

    def die(self, error: BaseException) -> None:
        """Lose the connection."""
        self.close_exc = error
        if not self.dead.done():
            self.dead.set_result(error)

    def name(self) -> str:
        """No coroutine."""
        return f"client {self.version}"

    async def work(self, key: str) -> str:
        """Do it at once: the ledger has it, then fail if there is a fault."""
        if self.fault is not None:
            raise self.fault
        self.world.ran[key] += 1
        await asyncio.sleep(0)
        return f"{key} by {self.version}"

    async def wait(self, key: str) -> str:
        """Do it, and answer when the gate opens; fail with what killed the client, as clients do."""
        self.world.ran[key] += 1
        gate = asyncio.ensure_future(self.world.gate.wait())
        try:
            await asyncio.wait([gate, self.dead], return_when=asyncio.FIRST_COMPLETED)
        finally:
            gate.cancel()
        if self.dead.done():
            raise self.dead.result()
        return f"{key} by {self.version}"

    async def key_of(self, keys: list[str]) -> str:
        """Note the key of this call, and lose the first connection."""
        attempt = rb.current_attempt()
        assert attempt is not None
        keys.append(attempt.idempotency_key)
        if len(keys) < 2:
            self.die(ConnectionResetError("first"))
        await asyncio.sleep(0)
        return await self.wait("key")
