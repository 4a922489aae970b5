"""What the threat tests share: a client with everything it says written down, and tests that run in virtual time.

Rule: a test sees what a user sees (messages, gaps, events, receipts, errors); the inside is asked only for counters.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import asynccontextmanager
from typing import Any

import attrs

import resilient_bridge as rb
from resilient_bridge.bridge import BridgeState
from resilient_bridge.testing import BridgeServer, FaultProxy
from tests.internals.telemetry import (
    Connected,
    Disconnected,
    Joined,
    ReconnectScheduled,
    Resumed,
    StateChanged,
)
from tests.internals.testing import Simulation


def simulated(test=None, /, *, seed=0):
    """Turn `async def test(server, ...)` into a plain test in virtual time; a leak of any kind fails it, too."""

    def wrap(main):
        def run(**fixtures):
            async def program(server):
                await asyncio.sleep(
                    0.001
                )  # a run without a plan of faults heals its network at 0: begin after that
                await main(server, **fixtures)

            Simulation(seed).run(program)

        _, *others = inspect.signature(main).parameters.values()
        run.__name__, run.__doc__, run.__module__ = main.__name__, main.__doc__, main.__module__
        run.__signature__ = inspect.Signature(others)  # what is left is parametrised or a fixture
        run.pytestmark = getattr(main, "pytestmark", [])
        return run

    return wrap if test is None else wrap(test)


async def until(condition, within=30.0):
    """Wait until `condition()` is true, and return what it gave; AssertionError after `within` seconds."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while not (value := condition()):
        spent = loop.time() - started
        if spent > within:
            raise AssertionError(
                f"still not so after {within:g} s: {inspect.getsource(condition).strip()}"
            )
        await asyncio.sleep(max(0.01, spent / 50))  # closely at first, then 2 % late at most
    return value


class Watch:
    """A client whose every word is kept: `messages`, `gaps`, `stream` (both, in their order), `events`.

    `error` is what ended the reader. It may be entered without being read (`read=False`).
    """

    def __init__(self, url, /, *, read=True, **options):
        self.messages: list[rb.bridge.Message] = []
        self.gaps: list[rb.bridge.Gap] = []
        self.stream: list[Any] = []
        self.events: list[Any] = []
        self.error: BaseException | None = None
        self.client = self.make(url, on_gap=self._on_gap, **options)
        self._read = read

    def make(self, url, **options):
        """The client that is watched."""
        return rb.BridgeClient(url, **options)

    async def __aenter__(self):
        events = self.client.events()
        await self.client.__aenter__()
        self._tasks = [asyncio.create_task(self._follow(events))]
        if self._read:
            self._tasks.append(asyncio.create_task(self._consume()))
        return self

    async def __aexit__(self, *error):
        await self.client.__aexit__(*error)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def _follow(self, events):
        async for event in events:
            self.events.append(event)

    async def _consume(self):
        try:
            async for message in self.client:
                self.messages.append(message)
                self.stream.append(message)
        except rb.BridgeError as error:
            self.error = error

    def _on_gap(self, gap):
        self.gaps.append(gap)
        self.stream.append(gap)

    async def ready(self, within=60.0):
        """READY, and what was said on the way there written down."""
        await self.client.wait_ready(within)
        await asyncio.sleep(0)

    async def until(self, condition, within=30.0):
        """Wait until `condition()`; its value."""
        return await until(condition, within)

    # ---- what was seen
    def of(self, kind):
        """The events of one class."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def ids(self):
        """The `n` of every message that has one."""
        return [message.payload["n"] for message in self.messages if "n" in message.payload]

    @property
    def verdicts(self):
        """Verdict and reason of every resume."""
        return [(event.verdict.value, event.reason) for event in self.of(Resumed)]

    @property
    def losses(self):
        """The failure codes of the connections that were lost."""
        return [event.failure.code for event in self.of(Disconnected) if event.failure is not None]

    @property
    def failures(self):
        """The failure codes of every attempt that was followed by another."""
        return [
            event.failure.code for event in self.of(ReconnectScheduled) if event.failure is not None
        ]

    @property
    def waits(self):
        """The seconds before every attempt."""
        return [event.wait for event in self.of(ReconnectScheduled)]

    @property
    def states(self):
        """Every state that was entered."""
        return [event.state for event in self.of(StateChanged)]

    @property
    def joins(self):
        """How often a join ended."""
        return len(self.of(Joined)) + len(self.of(Resumed))

    @property
    def connects(self):
        """How often the other side accepted us."""
        return len(self.of(Connected))

    async def recovered(self, joins, within=90.0):
        """READY after so many joins in all."""
        await self.until(
            lambda: self.joins >= joins and self.client.state is BridgeState.READY, within
        )


async def push(server, *numbers, type="tool_call", **options):
    """Push messages that carry these numbers."""
    for number in numbers:
        await server.push(type, {"n": number}, **options)


def quick(**parts):
    """A policy for real sockets: everything takes a fraction of a second."""
    chosen = {
        "reconnect": rb.bridge.Reconnect(
            backoff=rb.Backoff.constant(0.02),
            connect_timeout=2,
            stable_after=0,
            connect_burst=100,
            connects_per_minute=6000,
            attempts=None,
        ),
        "heartbeat": rb.bridge.Heartbeat(every=0.3, timeout=0.5, probe_timeout=0.5),
        "replay": rb.bridge.Replay(timeout=2),
    }
    return rb.bridge.BridgePolicy(**{**chosen, **parts})


def port_of(url):
    """The port in a URL."""
    return int(url.rpartition(":")[2].partition("/")[0])


@asynccontextmanager
async def proxied(*, policy=None, **behaviour):
    """A bridge on real sockets, a proxy before it, a client that is READY through both."""
    async with (
        BridgeServer(**behaviour) as server,
        FaultProxy("127.0.0.1", port_of(server.url)) as proxy,
        Watch(proxy.url("/ws"), policy=policy or quick()) as watch,
    ):
        await watch.ready(5)
        yield server, proxy, watch


async def refuse_with(server, way, text):
    """From now on refuse with that text, in a connection_error or in the body of a 403."""
    if way == "body":
        bridge = server._listener._bridge
        refusal = bridge.refusal

        def with_body(request):
            refused = refusal(request)
            body = {"code": "AUTH_FORBIDDEN", "message": text, "suggestions": [text]}
            return refused and attrs.evolve(refused, body=body)

        bridge.refusal = with_body
        server.behave(reject_upgrade=403)
    else:
        memory = server._memory
        message = memory.message

        def spoiled(kind, payload, ident):
            if kind == "connection_error":
                payload = {**payload, "message": text}
            return message(kind, payload, ident)

        memory.message = spoiled
        server.token = "another"
    await server.cut("abort")
