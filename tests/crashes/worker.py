"""A client in a process that may die at any moment, and that prints each promise when it makes it.

`python -m tests.crashes.worker` imports everything once and then forks a child, a *life*, for each order it reads: a line of
JSON. A life prints lines as well, each with one `write`, so that a line is printed whole or not at all:

    a 7          send() of number 7 has returned          c 9 1     message 9 was consumed, flagged as redelivered
    k 7 applied  number 7 is confirmed                    p 5 6     what was pending after the start
    e Joined …   an event                                 idle      nothing is pending
    closing, closed 0                                     failed …  what the client raised

The fork server itself prints `up <pid>` and `over <signal or exit code>`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import select
import signal
import sys
from collections import deque
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import resilient_bridge as rb
from resilient_bridge import events
from resilient_bridge.stores import SQLiteStore
from tests.crashes import seams, variants


if TYPE_CHECKING:
    from collections.abc import Callable

WAITING = 300  # sends that may wait before the worker stops sending
REPORTED = (
    events.Joined, events.Resumed, events.Connected, events.MessageUndelivered, events.StateSetAside, events.StoreChanged,
    events.GaveUp, events.DuplicateConflict,
)  # fmt: skip


def policy(order: dict[str, Any]) -> rb.bridge.BridgePolicy:
    """Return a policy whose waits are fractions of a second, and whose outbox holds all sends of an outage."""
    return rb.bridge.BridgePolicy(
        reconnect=rb.bridge.Reconnect(
            backoff=rb.Backoff.constant(0.01),
            connect_timeout=order.get("patience", 1.0),
            stable_after=0,
            connect_burst=100,
            connects_per_minute=6000,
            attempts=None,
        ),
        heartbeat=rb.bridge.Heartbeat(every=0.5, timeout=0.5, probe_timeout=0.5),
        replay=rb.bridge.Replay(timeout=3),
        outbox=rb.bridge.Outbox(max_messages=2_000, overflow="block"),
    )


class Life:
    """One process, from its start to its death, or to a close after SIGTERM."""

    def __init__(self, order: dict[str, Any], say: Callable[[str], None]) -> None:
        self.order = order
        self.say = say
        self.rng = random.Random(order["seed"])
        self.unsure: deque[Any] = deque()
        self.more = asyncio.Event()
        self.stop = asyncio.Event()

    async def run(self) -> None:
        """Run the client until the end."""
        order = self.order
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stop.set)
        store: Any = order["store"]
        if order["durability"] != "process" or order.get("wait") is not None:
            store = SQLiteStore(store, durability=order["durability"], wait=order.get("wait"))
        with rb.listen(self._tell):
            client = rb.BridgeClient(
                order["url"], store=store, session_id=order.get("session"), policy=policy(order)
            )
            await client.__aenter__()
            remaining = client.pending()
            self.say(" ".join(["p", *(receipt.idempotency_key[1:] for receipt in remaining)]))
            self.unsure.extend(remaining)
            self.more.set()
            works = [self._consume(client), self._confirm(), self._send(client), self._idle(client)]
            tasks = [asyncio.create_task(self._working(work)) for work in works]
            await self.stop.wait()
            if order.get("receipts"):
                self._tell_receipts(client)
            self.say("closing")
            undelivered = await client.aclose(drain=order.get("drain", 0.3))
            self.say(f"closed {len(undelivered)}")
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _tell(self, event: Any) -> None:
        if isinstance(event, REPORTED):
            names = ("key", "verdict", "reason", "lost", "failure")
            parts = [
                str(getattr(event, name))
                for name in names
                if getattr(event, name, None) is not None
            ]
            state = [str(getattr(event, event.__state__))] if event.__state__ else []
            self.say(" ".join(["e", ".".join([type(event).__name__, *state]), *parts]))

    async def _working(self, work: Any) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 -- any error is reported
            if not self.stop.is_set():
                self.say(f"failed {type(error).__name__} {error}")

    async def _send(self, client: rb.BridgeClient) -> None:
        order, rng = self.order, self.rng
        n, last = order["first"], order.get("last", 1 << 60)
        width = order.get("width", 1)
        while n <= last and not self.stop.is_set():
            while n % 16 < width and len(client.pending()) > WAITING:
                await asyncio.sleep(0.005)
            batch = range(n, min(n + width, last + 1))
            await asyncio.gather(*(self._one(client, each) for each in batch))
            n += width
            if rng.random() < order.get("pauses", 0.5):
                await asyncio.sleep(rng.choice([0.0, 0.0005, 0.001, 0.005]))

    async def _one(self, client: rb.BridgeClient, n: int) -> None:
        payload = {"n": n, **self.order.get("more", {})}
        receipt = await client.send("note", payload, idempotency_key=f"m{n}")
        self.say(f"a {n}")
        self.unsure.append(receipt)
        self.more.set()

    async def _confirm(self) -> None:
        while True:
            while not self.unsure:
                self.more.clear()
                await self.more.wait()
            receipt = self.unsure.popleft()
            with suppress(rb.BridgeError):
                how = await receipt.confirmed()
                self.say(f"k {receipt.idempotency_key[1:]} {how}")

    async def _consume(self, client: rb.BridgeClient) -> None:
        rng, dawdles = self.rng, self.order.get("dawdles", 0.1)
        async for message in client:
            self.say(f"c {message.payload['n']} {int(message.redelivered)}")
            if rng.random() < dawdles:
                await asyncio.sleep(rng.choice([0.0, 0.002, 0.02]))

    async def _idle(self, client: rb.BridgeClient) -> None:
        if "last" in self.order:
            await client.wait_ready()
            while client.pending():
                await asyncio.sleep(0.005)
            self.say("idle")

    def _tell_receipts(self, client: rb.BridgeClient) -> None:
        """Print what this process knows of the last sends of all processes."""
        for n in range(max(1, self.order["first"] - 500), self.order["first"]):
            try:
                state = client.receipt(f"m{n}").state
            except rb.BridgeError:
                state = "forgotten"  # type: ignore[assignment]
            self.say(f"r {n} {state}")


# ---- the fork server -------------------------------------------------------------------------------------------------


def _tell_line(life: int, line: str) -> None:
    flat = line.replace("\n", " ")[:3000]  # short enough for one atomic write to a pipe
    os.write(1, f"{life} {flat}\n".encode("utf-8", "replace"))


def _be_born(order: dict[str, Any]) -> None:
    """Run in the child, with a session and process group of its own; only the imports are shared with the server."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    say = partial(_tell_line, order["life"])
    code = 1
    try:
        seams.arm(order.get("die"))
        variants.become(order.get("variant"))
        asyncio.run(Life(order, say).run())
        code = 0
    except Exception as error:  # noqa: BLE001 -- any error is reported
        failure = getattr(error, "failure", None)
        say(f"failed {failure.code if failure else type(error).__name__} {error}")
    finally:
        os._exit(code)


def serve() -> None:
    """Fork a life per order until the orders end; then end all of them."""
    awake, wake = os.pipe()
    for end in (awake, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for late in (
        "encodings.idna",
        "orjson",
        "websockets.asyncio.client",
        "resilient_bridge.stores.session_record",
        "resilient_bridge.transports.websocket",
    ):  # imports that each life would make
        with suppress(ImportError):
            import_module(late)
    gc.collect()
    gc.freeze()
    lives: dict[int, int] = {}  # pid -> life
    pids: dict[int, int] = {}
    rest = b""
    while True:
        ready, _, _ = select.select([0, awake], [], [])
        if awake in ready:
            with suppress(BlockingIOError):
                os.read(awake, 4096)
            _bury(lives, pids)
        if 0 in ready:
            data = os.read(0, 65_536)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                _obey(json.loads(line), lives, pids)
    for pid in lives:
        os.kill(pid, signal.SIGKILL)
    for pid in lives:
        os.waitpid(pid, 0)


def _obey(order: dict[str, Any], lives: dict[int, int], pids: dict[int, int]) -> None:
    life = order["life"]
    if "signal" in order:
        if life in pids:
            os.kill(pids[life], order["signal"])
        return
    pid = os.fork()
    if not pid:
        _be_born(order)
    lives[pid], pids[life] = life, pid
    _tell_line(life, f"up {pid}")


def _bury(lives: dict[int, int], pids: dict[int, int]) -> None:
    while lives:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        life = lives.pop(pid)
        del pids[life]
        _tell_line(life, f"over {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    del sys.argv[1:]
    serve()
