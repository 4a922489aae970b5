"""The servers of this package that have a dialect: what a number, a message and an effect look like there, and what can be recovered."""

from __future__ import annotations

import asyncio
import random
import re
import time
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import resilient_bridge as rb
from tests.bridges.servers import (
    agno,
    graphql_ws,
    jupyter,
    nostr,
    openhands,
    python_socketio,
    socketio,
    yjs,
)
from tests.bridges.servers.graphql_ws_kind import GraphqlWs
from tests.bridges.servers.judging import Heard
from tests.bridges.servers.kind import PATIENCE, Kind
from tests.bridges.servers.nostr_dialect import nostr as nostr_dialect
from tests.bridges.servers.wire import until
from tests.bridges.servers.yjs_kind import Yjs


if TYPE_CHECKING:
    from tests.bridges.servers.runs import Run


class SocketIo(Kind):
    """RECOVERED if the server lives, had noticed the loss, and we had an event of this session: what `noticed` makes sure of."""

    name = server = "socketio"

    def dialect(self, rng: random.Random) -> rb.bridge.Dialect:
        """Half of the runs ask for an acknowledgement of each event."""
        return rb.dialects.socketio(acks=rng.random() < 0.5)

    def heard(self, message: rb.bridge.Message) -> Heard | None:
        """`tick` with a number."""
        if message.type != "tick":
            return None
        return Heard((message.payload["args"][0],), may_repeat=message.maybe_duplicate)

    async def send(self, bridge: rb.BridgeClient, number: int) -> Any:
        """`do` with a number, which goes into the ledger."""
        return await bridge.send("do", {"args": [self.base + number]})

    async def effects(self) -> list[int]:
        """Every `do` that was handled."""
        done = [value - self.base for value in await self.at.ledger()]
        return [number for number in done if 0 < number < 1_000]

    async def noticed(self) -> None:
        """No client is connected."""
        await until(self.at.connected, 0)


class PythonSocketIo(SocketIo):
    """UNKNOWN always: it has no recovery, and says nothing of what was missed."""

    name = server = "python_socketio"
    verdict = rb.bridge.Verdict.UNKNOWN

    def dialect(self, rng: random.Random) -> rb.bridge.Dialect:
        """The same wire without positions."""
        return rb.dialects.socketio(recovery=False, acks=rng.random() < 0.5)


class Jupyter(Kind):
    """UNKNOWN always: the server buffers only while it knows that nobody is connected, and says nothing of what it dropped.

    It also loses what is printed while a client connects, behind what it had buffered: such a number may be missing behind the gap.
    """

    name = server = "jupyter"
    starts_twice = True  # 404 until the kernel has been started anew
    verdict = rb.bridge.Verdict.UNKNOWN

    def __init__(self, server: Any, seed: int) -> None:
        """A session id of its own: the buffer of an earlier run is thrown away."""
        super().__init__(server, seed)
        self.session = uuid4().hex
        self.connected: datetime | None = None
        self.is_attached = False  # whether the server has asked the kernel for a sign of life
        self.doubtful: dict[
            int, int
        ] = {}  # numbers that were printed before that, and the first that may be missing with them
        self.printed: list[int] = []
        self.reached = 0  # the last number that arrived, and
        self.reached_before = 0  # that was so when the connection was lost

    def dialect(self, rng: random.Random) -> rb.bridge.Dialect:
        """Without resends: a kernel that was killed would run a repeat."""
        del rng
        return rb.dialects.jupyter(session=self.session)

    def url(self) -> str:
        """The channels of the kernel."""
        return self.at.address(self.session)

    def heard(self, message: rb.bridge.Message) -> Heard | None:
        """What the kernel prints: several numbers may come in one message."""
        is_idle = message.type == "status" and message.payload["execution_state"] == "idle"
        if is_idle and self.connected and message.timestamp and message.timestamp >= self.connected:
            self.is_attached = True
        if message.type != "stream":
            return None
        numbers = [int(line) for line in message.payload["text"].split()]
        mine = tuple(number for number in numbers if 0 < number - self.base < 1_000)
        self.reached = max((self.reached, *mine))
        return Heard(mine, may_repeat=message.maybe_duplicate)

    def noted(self, event: Any) -> None:
        """A connection is made, or lost."""
        if isinstance(event, rb.events.Connected):
            self.connected = event.at
        if isinstance(event, rb.events.Connected | rb.events.Disconnected):
            if self.is_attached:
                self.reached_before = self.reached
            self.is_attached = False

    async def ready(self, run: Run) -> None:
        """The server has asked the kernel; it does not ask one that is busy."""
        with suppress(TimeoutError):
            await run.until(lambda: self.is_attached, PATIENCE / 8)

    async def publish(self, number: int) -> bool:
        """Print it."""
        self.printed.append(number)
        if not self.is_attached:
            self.doubtful[number] = min(each for each in self.printed if each > self.reached_before)
        await self.at.publish(number)
        return True

    def since(self, number: int) -> int:
        """What is lost while the client connects is lost behind what was buffered, and the gap stands before that."""
        return self.doubtful.get(number, number)

    async def send(self, bridge: rb.BridgeClient, number: int) -> Any:
        """Run `do(number)`; confirmed when the kernel has begun with it."""
        return await bridge.send(
            "execute_request",
            {
                "code": f"do({self.base + number})",
                "silent": False,
                "store_history": False,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": False,
            },
        )

    async def effects(self) -> list[int]:
        """Every number that a kernel wrote down."""
        done = [value - self.base for value in await self.at.ledger()]
        return [number for number in done if 0 < number < 1_000]

    async def noticed(self) -> None:
        """The server counts no client."""
        await until(self.at.connections, 0)


class Nostr(Kind):
    """RECOVERED always: the relay has all on disk, and says where a replay ends. Two numbers share a second."""

    name = server = "nostr"
    settles_all = True

    def __init__(self, server: Any, seed: int) -> None:
        """A topic of its own, and the first second of the run."""
        super().__init__(server, seed)
        self.topic = f"run {seed}"
        self.second = int(time.time()) - 60

    def dialect(self, rng: random.Random) -> rb.bridge.Dialect:
        """The one of this test."""
        del rng
        return nostr_dialect(self.topic, since=self.second)

    async def publish(self, number: int) -> bool:
        """Later than all before it, or in the same second as one of them."""
        await self.at.publish(number, created_at=self.second + self.rank(number), topic=self.topic)
        return True

    def rank(self, number: int) -> int:
        """Its second."""
        return (number - self.base) // 2

    def heard(self, message: rb.bridge.Message) -> Heard | None:
        """The content of a note."""
        if message.type != "note":
            return None
        number = int(message.payload["content"])
        return (
            Heard((number,), may_repeat=message.maybe_duplicate)
            if 0 < number - self.base < 1_000
            else None
        )

    async def send(self, bridge: rb.BridgeClient, number: int) -> Any:
        """Store an event."""
        return await bridge.send("EVENT", {"content": f"mine {self.seed} {number}"})

    async def effects(self) -> list[int]:
        """Every event of ours that is stored."""
        return _mine(await self.at.ledger(), rf"mine {self.seed} (\d+)")

    def must_recover(self, event: Any) -> bool:
        """All but a connection that was lost before the first event."""
        return event.reason != "no_position"


class OpenHands(Kind):
    """RECOVERED always: the log is on disk, and survives a kill."""

    name = server = "openhands"
    token = openhands.KEY

    async def prepare(self) -> None:
        """A conversation of its own."""
        await self.at.new_conversation()

    def dialect(self, rng: random.Random) -> rb.bridge.Dialect:
        """The session socket's."""
        del rng
        return rb.dialects.openhands

    def heard(self, message: rb.bridge.Message) -> Heard | None:
        """The text of a message that was published, or any other event that has a position."""
        seq = message.raw.get("seq")
        numbers = _numbers(message)
        if not numbers and seq is None:
            return None
        return Heard(numbers, index=seq, may_repeat=message.maybe_duplicate)

    async def send(self, bridge: rb.BridgeClient, number: int) -> Any:
        """A message of the user's, which the agent answers."""
        text = f"mine {self.name} {self.seed} {number}"
        return await bridge.send({"role": "user", "content": [{"type": "text", "text": text}]})

    async def effects(self) -> list[int]:
        """Every message of ours that is stored."""
        return _mine(await self.at.ledger(), rf"mine {self.name} {self.seed} (\d+)")

    def must_recover(self, event: Any) -> bool:
        """All but a connection that was lost before the first position was known."""
        return event.reason != "no_position"


class OpenHandsLegacy(OpenHands):
    """RECOVERED always, as there: the event that we had comes again."""

    name = "openhands_legacy"

    def dialect(self, rng: random.Random) -> rb.bridge.Dialect:
        """The legacy socket's."""
        del rng
        return rb.dialects.openhands_legacy

    def url(self) -> str:
        """The legacy socket."""
        return self.at.legacy_url

    def heard(self, message: rb.bridge.Message) -> Heard | None:
        """The text of a message that was published."""
        numbers = _numbers(message)
        return Heard(numbers, may_repeat=message.maybe_duplicate) if numbers else None


class Agno(Kind):
    """RECOVERED while the process lives that runs the workflow; each run is a channel, and a run that was killed is a gap."""

    name = server = "agno"
    token = "t"

    def __init__(self, server: Any, seed: int) -> None:
        """No run yet."""
        super().__init__(server, seed)
        self.has_run = False  # whether a run is open of which the client knows
        self.runs: set[str] = set()
        self.last = 0  # the number that was published last
        self.ends: list[int] = []  # the last number before all open runs ended

    def dialect(self, rng: random.Random) -> rb.bridge.Dialect:
        """Of the one workflow."""
        del rng
        return rb.dialects.agno(workflow_id=agno.WORKFLOW, session_id="s")

    async def publish(self, number: int) -> bool:
        """To each open run, if there is one."""
        if await self.at.offer(number) == 0:
            return False
        self.last = number
        return True

    def heard(self, message: rb.bridge.Message) -> Heard | None:
        """Each event of a run has its index; a number is the progress of a step."""
        run, index = message.raw.get("run_id"), message.raw.get("event_index")
        if run is None:
            return None
        self.runs.add(run)
        numbers = (int(message.raw["content"]),) if message.type == "StepProgress" else ()
        return Heard(numbers, channel=run, index=index, may_repeat=message.maybe_duplicate)

    def log(self, published: list[int], first: int) -> list[int]:
        """Those that were published before the run ended which had this number; the very last is waited for in one run alone."""
        end = next((end for end in self.ends if end >= first), self.last - 1)
        return [number for number in published if number <= end]

    async def ready(self, run: Run) -> None:
        """Start a run, and wait until the client has heard of it; those that were open are ended."""
        while not self.has_run:
            while await self.at.opened():  # one that was queued may begin now
                await self.at.finish()
                await asyncio.sleep(0.02)
            self.ends.append(self.last)
            known, losses = set(self.runs), run.seen.losses
            await run.send()
            await run.until(lambda: self.runs - known or run.seen.losses > losses)  # noqa: B023
            await run.bridge.wait_ready(PATIENCE)
            self.has_run = bool(self.runs - known)

    def restarted(self) -> None:
        """No run survives."""
        self.has_run = False
        self.ends.append(self.last)

    def must_recover(self, event: Any) -> bool:
        """Whatever is known of runs of this process."""
        return self.has_run and event.reason != "no_position"

    async def send(self, bridge: rb.BridgeClient, number: int) -> Any:
        """Start a run, which counts at once."""
        action = {"action": "start-workflow", "workflow_id": agno.WORKFLOW, "session_id": "s"}
        return await bridge.send({**action, "message": f"mine {self.seed} {number}"})

    async def effects(self) -> list[int]:
        """Every run that was started."""
        return _mine(await self.at.ledger(), rf"mine {self.seed} (\d+)")


def _numbers(message: rb.bridge.Message) -> tuple[int, ...]:
    """The number of a message that was published."""
    body = message.payload
    if message.type != "MessageEvent" or body.get("source") != "user":
        return ()
    text = body["llm_message"]["content"][0]["text"]
    return (
        (int(text.removeprefix(openhands.PUBLISHED)),)
        if text.startswith(openhands.PUBLISHED)
        else ()
    )


def _mine(texts: list[str], pattern: str) -> list[int]:
    """The numbers in texts of this form."""
    return [int(found[1]) for found in map(re.compile(pattern).fullmatch, texts) if found]


KINDS: dict[str, type[Kind]] = {
    kind.name: kind
    for kind in (
        SocketIo,
        PythonSocketIo,
        GraphqlWs,
        Yjs,
        Agno,
        Jupyter,
        Nostr,
        OpenHands,
        OpenHandsLegacy,
    )
}
SERVERS: dict[str, Any] = {
    "socketio": socketio.running,
    "python_socketio": python_socketio.running,
    "graphql_ws": graphql_ws.running,
    "yjs": yjs.running,
    "agno": lambda folder: agno.running(folder, token=Agno.token),
    "jupyter": jupyter.running,
    "nostr": nostr.running,
    "openhands": openhands.running,
}
