"""A journey: one client, its reader, its listener and its books. Rule: it uses nothing a user does not have."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

import resilient_bridge as rb
from resilient_bridge.testing import BridgeServer, Ledger, simulate


E = TypeVar("E", bound=rb.events.Event)


def simulated(main: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """Make a test of `async def test(server, ...)`: it runs in virtual time and must leave nothing behind."""
    signature = inspect.signature(main)

    def test(**options: Any) -> Any:
        return simulate(lambda server: main(server, **options))

    test.__name__, test.__qualname__, test.__doc__ = main.__name__, main.__qualname__, main.__doc__
    test.__module__ = main.__module__
    test.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return test


class Applied(list[Any]):
    """The bridge's list of applied messages, booked with the life of the bridge that applied them."""

    def __init__(self, server: BridgeServer, ledger: Ledger) -> None:
        super().__init__()
        self._server, self._ledger = server, ledger

    def append(self, message: Any) -> None:
        """Book one."""
        super().append(message)
        if "n" in message["payload"]:
            self._ledger.applied(message["payload"]["n"], self._server.server_id)


class Journey:
    """`async with Journey(server, policy=...) as journey`: reads all messages, hears all events, keeps the books.

    `log` holds (virtual time, event), `messages` what the consumer got, `gaps` what `on_gap` was told.
    """

    def __init__(self, server: BridgeServer, *, reads: bool = True, **options: Any) -> None:
        self.server = server
        self.ledger = Ledger(lambda: server.server_id)
        self.log: list[tuple[float, rb.events.Event]] = []
        self.messages: list[rb.bridge.Message] = []
        self.gaps: list[rb.bridge.Gap] = []
        self.receipts: dict[int, rb.bridge.Receipt] = {}
        self.loop: Any = asyncio.get_running_loop()
        self.reader: asyncio.Task[None] | None = None
        self._reads = reads
        server._memory.received = Applied(server, self.ledger)
        url = options.pop("url", server.url)
        self.client = rb.BridgeClient(url, on_gap=self._gap, **options)

    async def __aenter__(self) -> Self:
        self._listening = rb.listen(self._saw)
        self._listening.__enter__()
        await self.client.__aenter__()
        if self._reads:
            self.reader = self.loop.create_task(self._read())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.client.aclose(drain=0)
        if self.reader is not None:
            await asyncio.wait([self.reader], timeout=1)
            self.reader.cancel()
        self._listening.__exit__(None, None, None)

    # ---- what the user does
    async def push(self, *serials: int, type: str = "tool_call") -> None:
        """Have the bridge push messages; `type="stream_chunk"` has no ids."""
        for n in serials:
            self.ledger.pushed(n)
            await self.server.push(type, {"n": n})

    async def send(self, *serials: int, size: int = 0, **options: Any) -> rb.bridge.Receipt:
        """Send messages, `size` bytes larger than they need be; returns the last receipt."""
        for n in serials:
            payload = {"n": n, "pad": "x" * size} if size else {"n": n}
            receipt = await self.client.send("tool_result", payload, **options)
            self.receipts[n] = receipt
            self.ledger.sent(n, receipt)
        return receipt

    async def ready(self, timeout: float = 120) -> None:
        """Wait for READY."""
        await self.client.wait_ready(timeout)

    async def rest(self, limit: float = 200) -> None:
        """Wait until READY, with every send settled and what is pushed now in the consumer's hands."""
        end = self.loop.time() + limit
        while True:
            assert self.loop.time() < end, f"not at rest after {limit} s: {self.client!r}"
            if self.client.state == "READY":
                message = None
                with contextlib.suppress(LookupError):
                    message = await self.server.push("mark", {})
                await asyncio.sleep(1.5)
                health = self.client.health()
                arrived = message is not None and any(m.id == message["id"] for m in self.messages)
                if arrived and not health.queued and not health.unconfirmed:
                    return
            await asyncio.sleep(0.5)

    # ---- what the user sees
    async def _read(self) -> None:
        async for message in self.client:
            self.messages.append(message)
            if "n" in message.payload:
                self.ledger.delivered(message)

    async def _gap(self, gap: rb.bridge.Gap) -> None:
        self.gaps.append(gap)
        self.ledger.marked()
        await asyncio.sleep(0)

    def _saw(self, event: rb.events.Event) -> None:
        self.log.append((self.loop.time(), event))
        self.ledger.saw(event)

    def seen(self) -> list[int]:
        """The serials in the order of delivery."""
        return [m.payload["n"] for m in self.messages if "n" in m.payload]

    def of(self, kind: type[E]) -> list[E]:
        """The events of one class."""
        return [event for _, event in self.log if isinstance(event, kind)]

    def verdicts(self) -> list[str]:
        """How each resume ended: `RECOVERED(anchor)`."""
        return [f"{event.verdict}({event.reason})" for event in self.of(rb.events.Resumed)]

    def losses(self) -> list[str]:
        """The reasons of all losses, in order."""
        return [event.reason for event in self.of(rb.events.Disconnected)]

    def waits(self) -> list[float]:
        """The scheduled waits, in seconds."""
        return [event.wait for event in self.of(rb.events.ReconnectScheduled)]

    def when(self, kind: type[rb.events.Event], state: str | None = None) -> float:
        """The virtual time of the last such event."""
        return next(
            at
            for at, event in reversed(self.log)
            if isinstance(event, kind) and (state is None or getattr(event, "state", None) == state)
        )

    def pings(self) -> int:
        """How many pings the bridge has read."""
        return sum(frame["type"] == "heartbeat_ping" for frame in self.server.frames)

    def states(self) -> list[str]:
        """The states passed, in order."""
        return [event.state.value for event in self.of(rb.events.StateChanged)]

    def check(self) -> None:
        """Nothing lost, repeated, reordered or untold."""
        assert self.ledger.judge().findings() == []
