"""The lives of one client, as seen from outside: started, listened to, killed. Rule: nothing is waited for without a bound."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs


if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
PATIENCE = 10.0  # seconds until a life that does not do what it should is given up


@attrs.define(eq=False)
class Life:
    """What one process said, in its order; `over` is the signal (negative) or exit code it ended with."""

    number: int
    order: dict[str, Any]
    nursery: Nursery
    accepted: list[int] = attrs.field(factory=list)
    consumed: list[tuple[int, bool]] = attrs.field(factory=list)
    confirmed: dict[int, str] = attrs.field(factory=dict)
    pending: list[int] | None = None
    events: list[list[str]] = attrs.field(factory=list)
    receipts: dict[int, str] = attrs.field(factory=dict)
    failures: list[str] = attrs.field(factory=list)
    is_idle: bool = False
    is_closing: bool = False
    undelivered: int | None = None
    pid: int | None = None
    over: int | None = None
    _waiting: list[tuple[Callable[[], Any], asyncio.Future[None]]] = attrs.field(factory=list)

    def hear(self, line: str) -> None:
        """Book one line."""
        what, _, rest = line.partition(" ")
        if what == "a":
            self.accepted.append(int(rest))
        elif what == "c":
            n, flagged = rest.split()
            self.consumed.append((int(n), flagged == "1"))
        elif what == "k":
            n, how = rest.split()
            self.confirmed[int(n)] = how
        elif what == "r":
            n, state = rest.split()
            self.receipts[int(n)] = state
        elif what == "p":
            self.pending = [int(n) for n in rest.split()]
        elif what == "e":
            self.events.append(rest.split(" "))
        elif what == "failed":
            self.failures.append(rest)
        else:
            self._hear_of_life(what, rest)
        for condition, waiter in list(self._waiting):
            if not waiter.done() and (self.over is not None or condition()):
                waiter.set_result(None)

    def _hear_of_life(self, what: str, rest: str) -> None:
        if what == "idle":
            self.is_idle = True
        elif what == "closing":
            self.is_closing = True
        elif what == "closed":
            self.undelivered = int(rest)
        elif what == "up":
            self.pid = int(rest)
        elif what == "over":
            self.over = int(rest)
        else:
            raise AssertionError(f"not a word of a life: {what} {rest}")

    async def until(self, condition: Callable[[], Any], within: float = PATIENCE) -> bool:
        """Wait until `condition()` or the end of the life; False if neither came in time."""
        if self.over is not None or condition():
            return True
        waiter = asyncio.get_running_loop().create_future()
        entry = condition, waiter
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(within):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(entry)
        return True

    def kill(self) -> None:
        """SIGKILL."""
        self.nursery.signal(self, signal.SIGKILL)

    def ask_to_close(self) -> None:
        """SIGTERM: the worker closes its client and ends."""
        self.nursery.signal(self, signal.SIGTERM)

    async def end(self) -> int:
        """Wait for its end."""
        assert await self.until(lambda: False), f"{self.order} did not end"
        assert self.over is not None
        return self.over


class Nursery:
    """The fork server: a process that has imported everything, and its children."""

    def __init__(self) -> None:
        self.lives: list[Life] = []

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.crashes.worker", cwd=ROOT,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self._reader = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reader

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            number, _, rest = line.decode().rstrip("\n").partition(" ")
            self.lives[int(number)].hear(rest)
        for life in self.lives:
            if life.over is None:
                life.hear("over -9")

    def start(self, **order: Any) -> Life:
        """A new process with this order."""
        life = Life(
            len(self.lives), {"seed": 0, "durability": "process", "first": 1, **order}, self
        )
        self.lives.append(life)
        self._tell({**life.order, "life": life.number})
        return life

    def signal(self, life: Life, number: int) -> None:
        """Have the fork server send a signal; it knows who still lives."""
        self._tell({"life": life.number, "signal": number})

    def _tell(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
