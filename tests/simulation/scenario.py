"""One seeded run of the real client over the real websockets library on a simulated network, and what it must show.

Everything a run does follows from its seed: the bridge's habits, the policy, the traffic, the faults, the order of tasks, whether
the client's process dies on the way. `run(seed)` raises `BrokenError` with the reasons; the message ends with the command that repeats it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

import resilient_bridge as rb
from resilient_bridge.stores import MemoryStore
from resilient_bridge.testing import Faults, Ledger
from tests.internals.telemetry import listener_failures
from tests.internals.testing import Simulation

from .others import excused, has_small_frames, others


if TYPE_CHECKING:
    from resilient_bridge.client import Receipt
    from resilient_bridge.testing import BridgeServer
    from tests.internals.telemetry import Event
    from tests.internals.testing import SimulatedLoop

CONVERGE: Final = (
    60.0  # virtual seconds after the last fault in which everything must have come to rest
)
#: An answer that is too large is asked for less, not at all, and in a new session: each after a connection that died of it, and a wait.
TOO_LARGE: Final = 3 * 30.0
CONNECTS_PER_MINUTE: Final = 7


class BrokenError(AssertionError):
    """An invariant does not hold."""


@attrs.define
class Run:
    """What happened in one run."""

    seed: int
    problems: list[str] = attrs.field(factory=list)
    verdicts: dict[str, int] = attrs.field(factory=lambda: {"RECOVERED": 0, "GAP": 0, "UNKNOWN": 0})
    reasons: dict[str, int] = attrs.field(factory=dict)
    faults: dict[str, int] = attrs.field(factory=dict)
    totals: dict[str, Any] = attrs.field(factory=dict)
    trace_hash: str = ""
    virtual_seconds: float = 0.0


@attrs.frozen
class Plan:
    """What the seed decided."""

    behaviour: dict[str, Any]
    faults: Faults
    policy: rb.bridge.BridgePolicy
    messages: int
    sends: int
    pace: float
    idless: float
    crashes: tuple[float, ...]
    storm: int | None
    clock_error: float  # how wrong the client's own clock is


def plan(seed: int) -> Plan:
    """Draw a run from its seed."""
    rng = random.Random(f"{seed}/scenario")
    behaviour: dict[str, Any] = {
        "replay": rng.choices(
            [
                "correct",
                "exclusive",
                "verbatim_seed",
                "silent_truncate",
                "none",
                "pushed_only",
                "unknown_type",
            ],
            [10, 3, 4, 1, 1, 1, 1],
        )[0],
        "replay_entries": rng.choice(["objects", "strings"]),
        "replay_ids": rng.random() < 0.6,
        "push_buffer": rng.random() < 0.6,
        "answer_twice": rng.random() < 0.15,
        "replay_delay": rng.choice([0.0, 0.0, 0.0, 0.3, 2.0]),
        "timestamps": rng.choice(["ms", "s", "s", "none"] if rng.random() < 0.2 else ["ms", "s"]),
        "acks": rng.choice(["each", "none"]),
        "buffer_acks": rng.random() < 0.2,
        "pong_twice": False,
        "ack_beyond": rng.random() < 0.1,
        "ack_foreign": rng.random() < 0.1,
        "duplicate_ids": "repeat" if rng.random() < 0.08 else "none",
        "no_session_memory": rng.random() < 0.03,
        "replay_bytes": rng.choice([100 * 1024, 100 * 1024, 2_000]),
        "slow": rng.choice([0.0, 0.0, 0.0, 0.05]),
    }
    # Two pongs for a ping prove nothing; without acks such a bridge confirms nothing, and the receipts say so.
    has_acks = behaviour["acks"] == "each" and not behaviour["no_session_memory"]
    behaviour["pong_twice"] = has_acks and rng.random() < 0.15
    storm = rng.choice([1000, 1001, 1011, 1012]) if rng.random() < 0.04 else None
    long_outage = rng.random() < 0.06
    if long_outage:
        behaviour |= {"grace": 3_600.0, "acks": "none", "pong_twice": False}
    until = rng.choice([20.0, 40.0, 60.0]) + (360.0 if long_outage else 0.0)
    faults = Faults(
        seed=seed, rate=0.01 if long_outage else rng.choice([0.05, 0.1, 0.2]), until=until
    )
    policy = rng.choice([rb.presets.default, rb.presets.openviber])
    # Garbage on the way up makes the bridge end the link with 1002, which is final by default, and rightly so.
    policy = policy.evolve(
        reconnect=attrs.evolve(policy.reconnect, rules={1002: rb.Rule(), 1007: rb.Rule()})
    )
    if rng.random() < 0.2:
        policy = policy.evolve(
            inbox=rb.bridge.Inbox(max_messages=5, overflow=rng.choice(["pause", "resync"]))
        )
    policy = others(seed, behaviour, policy)
    crashes = tuple(sorted(rng.uniform(2, until) for _ in range(rng.choice([0, 0, 0, 1, 2]))))
    return Plan(
        behaviour, faults, policy, rng.randint(15, 45), rng.randint(5, 25), until,
        # A bridge that sends everything twice can be seen through only where messages have ids.
        0.0 if behaviour["duplicate_ids"] != "none" else rng.choice([0.0, 0.5, 0.5, 0.95]), crashes, storm,
        rng.choice([0.0, 0.0, 45.0, -45.0, 86_400.0]),
    )  # fmt: skip


class Applied(list[Any]):
    """The bridge's list of applied messages, booked with the life of the bridge they were applied in."""

    def __init__(self, server: BridgeServer, ledger: Ledger) -> None:
        super().__init__()
        self._server = server
        self._ledger = ledger

    def append(self, message: Any) -> None:
        """Book one."""
        super().append(message)
        if "n" in message["payload"]:
            self._ledger.applied(message["payload"]["n"], self._server.server_id)


class Scenario:
    """One run; `Simulation.run(scenario.main)` drives it."""

    def __init__(self, seed: int) -> None:
        self.run = Run(seed)
        self.ledger = Ledger(lambda: self.server.server_id if self.server else None)
        self.plan = plan(seed)
        self.rng = random.Random(f"{seed}/traffic")
        self.store = MemoryStore()
        self.client: rb.BridgeClient | None = None
        self.receipts: list[tuple[int, Receipt]] = []
        self.requests: list[asyncio.Task[str]] = []
        self.last_seen: str = ""
        self.server: BridgeServer | None = None
        self.anchor: Any = None
        self.was_ready = self.held = False
        self.has_lost_answer = False  # a connection was lost before its answer came

    async def main(self, server: BridgeServer) -> None:
        """The program that is simulated."""
        plan_, loop = self.plan, cast("SimulatedLoop", asyncio.get_running_loop())
        loop.wall_offset = plan_.clock_error
        self.server = server
        server.behave(**plan_.behaviour)
        server._memory.received = Applied(server, self.ledger)
        with rb.listen(self._on_event):
            await self._start(server)
            traffic = asyncio.create_task(self._push(server))
            sends = asyncio.create_task(self._send())
            outage = asyncio.create_task(self._outage(server))
            for crash in plan_.crashes:
                await asyncio.sleep(max(0.0, crash - loop.time()))
                await self._crash()
                await self._start(server)
            await asyncio.sleep(max(0.0, plan_.faults.heals_at - loop.time()))
            await asyncio.gather(traffic, sends, outage)
            await self._rest(server)
            await self._finish(server)

    # ---- the client's life ------------------------------------------------------------------------------------

    async def _start(self, server: BridgeServer) -> None:
        client = rb.BridgeClient(
            server.url, policy=self.plan.policy, store=self.store, on_gap=self._on_gap
        )
        self.client = client
        await client.__aenter__()
        self.consumer = asyncio.create_task(self._consume(client))

    async def _crash(self) -> None:
        """The process dies: no goodbye, nothing settled; the store is what is left."""
        client = self.client
        assert client is not None
        assert client._task is not None
        self.consumer.cancel()
        client._task.cancel()
        client._driver.stop()
        await asyncio.wait([self.consumer, client._task])
        for request in self.requests:
            request.cancel()
        self.requests.clear()

    async def _consume(self, client: rb.BridgeClient) -> None:
        async for message in client:
            if message.type == "the_end":
                self.last_seen = str(message.payload["nonce"])
                continue
            if "n" in message.payload:
                self.ledger.delivered(message)
            if self.rng.random() < 0.3:
                await asyncio.sleep(self.rng.choice([0.0, 0.01, 1.0]))

    async def _on_gap(self, gap: rb.bridge.Gap) -> None:
        self.ledger.marked()
        if self.rng.random() < 0.5:
            await asyncio.sleep(self.rng.choice([0.0, 0.5]))

    # ---- traffic ----------------------------------------------------------------------------------------------

    async def _push(self, server: BridgeServer) -> None:
        while server.session is None and not server.behaviour.no_session_memory:
            await asyncio.sleep(0.5)
        while (
            server.behaviour.no_session_memory and not self.was_ready
        ):  # such a bridge keeps nothing for later
            await asyncio.sleep(0.5)
        gaps = self.plan.pace / self.plan.messages
        for n in range(1, self.plan.messages + 1):
            idless = self.rng.random() < self.plan.idless
            with contextlib.suppress(LookupError):
                self.ledger.pushed(n)
                await server.push("stream_chunk" if idless else "tool_call", {"n": n})
            await asyncio.sleep(self.rng.choice([0.0, 0.0, gaps, 2 * gaps]))

    async def _send(self) -> None:
        gaps = self.plan.pace / self.plan.sends
        for n in range(1, self.plan.sends + 1):
            client = self.client
            assert client is not None
            try:
                receipt = await client.send("tool_result", {"n": n})
            except rb.BridgeError:
                continue
            self.receipts.append((n, receipt))
            self.ledger.sent(n, receipt)
            if self.rng.random() < 0.2:
                self.requests.append(asyncio.create_task(self._request(client, n)))
            await asyncio.sleep(self.rng.choice([0.0, 0.0, gaps, 2 * gaps]))

    async def _request(self, client: rb.BridgeClient, n: int) -> str:
        try:
            answer = await client.request(
                "git_status_request", {"r": n}, timeout=20, idempotent=self.rng.random() < 0.5
            )
        except rb.BridgeError as error:
            return type(error).__name__
        return answer.type

    async def _outage(self, server: BridgeServer) -> None:
        """Long black hole, or a server that accepts and closes: the schedules that random faults do not reach."""
        if self.plan.pace > 300:
            await asyncio.sleep(8)
            await server.cut("blackhole", seconds=330)
        if self.plan.storm is not None:
            await asyncio.sleep(5)
            server.behave(accept_then_close=self.plan.storm)
            await server.cut("abort")
            await asyncio.sleep(70)
            server.behave(accept_then_close=None)

    # ---- the end ----------------------------------------------------------------------------------------------

    async def _rest(self, server: BridgeServer) -> None:
        """After the last fault: everything that was said arrives, or is known to be lost, within a minute."""
        client, loop = self.client, asyncio.get_running_loop()
        assert client is not None
        start, nonce = loop.time(), 0
        bound = CONVERGE + 30
        if has_small_frames(self.plan.policy):
            bound += TOO_LARGE
        marks: list[str] = []
        while loop.time() - start < bound:
            if client.state == "READY":
                nonce += 1
                mark = f"end-{nonce}"
                with contextlib.suppress(LookupError):
                    await server.push("the_end", {"nonce": mark})
                    marks.append(mark)
                await asyncio.sleep(2.0)
                settled = not client._session.outbound.outbox.count
                if settled and self.last_seen in marks:
                    break
            await asyncio.sleep(1.0)
        else:
            self.run.problems.append(
                f"not at rest {bound:g} s after the last fault: {client!r}, reason {client.health().reason}"
            )

    async def _finish(self, server: BridgeServer) -> None:
        client = self.client
        assert client is not None
        remaining = await client.aclose(drain=5)
        if remaining and not self.run.problems:
            self.run.problems.append(f"undelivered after a rest: {remaining}")
        await asyncio.wait([self.consumer], timeout=1)
        if self.consumer.done() and self.consumer.exception() is not None:
            self.run.problems.append(f"the reader ended with {self.consumer.exception()!r}")
        self.consumer.cancel()
        for request in self.requests:
            if not request.done():
                self.run.problems.append("a request never ended")
                request.cancel()
        if self.plan.storm is not None:
            self._check_storm(server.connect_times)
        self.run.totals = self.ledger.totals()
        # What a sorted answer holds besides what we know comes in its order: nobody can tell what the live one was.
        is_sorted = self.plan.behaviour.get("replay_order", "live") != "live"
        self.run.problems += [
            broken
            for broken in self.run.totals["broken"]
            if not (is_sorted and broken.startswith("reordered"))
        ]

    def _check_storm(self, times: list[float]) -> None:
        for start in times:
            count = sum(1 for t in times if start <= t < start + 60)
            allowed = CONNECTS_PER_MINUTE + 2 * len(self.plan.crashes) + 2
            if count > allowed:
                self.run.problems.append(f"{count} connections in one minute, {allowed} allowed")
                return

    # ---- honest and useful ------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        client, server = self.client, self.server
        if client is None or server is None:
            return
        self.ledger.saw(event)
        self.was_ready |= client.state == "READY"
        if isinstance(event, rb.events.StateChanged) and event.previous == "REPLAYING":
            self.has_lost_answer |= event.reason != "merged"
        if isinstance(event, rb.events.StateChanged) and event.state == "REPLAYING":
            self.anchor = client._session.inbound.watermark.anchor()[0]
            self.held = self._is_held()
        elif isinstance(event, rb.events.Resumed):
            self.run.verdicts[event.verdict.value] += 1
            self.run.reasons[event.reason] = self.run.reasons.get(event.reason, 0) + 1
            if (
                event.verdict != "RECOVERED"
                and event.reason
                not in {
                    "new_session",
                    "timeout",
                    *excused(
                        self.plan.behaviour,
                        self.plan.policy,
                        self.run.verdicts,
                        has_lost_answer=self.has_lost_answer,
                    ),
                }
                and self.held
                and self._is_held()
            ):
                self.run.problems.append(
                    f"{event.verdict}({event.reason}) although the bridge held everything from the anchor on"
                )

    def _is_held(self) -> bool:
        """Does the bridge hold our anchor, in an answer it will give within the time we wait?"""
        server, client = self.server, self.client
        assert server is not None
        assert client is not None
        behaviour = server.behaviour
        if (
            self.anchor is None
            or behaviour.no_session_memory
            or behaviour.replay in {"none", "unknown_type", "silent_truncate"}
        ):
            return False
        if behaviour.pong_twice and not behaviour.replay_ids:
            return False  # neither answers nor pongs can be told apart: UNKNOWN is all that can be said
        if behaviour.replay == "pushed_only" or behaviour.replay_delay or behaviour.slow:
            return False
        session = server._memory.sessions.get(client.session_id)
        if session is None or session.is_closed:
            return False
        texts = session.seed.since(None) if session.seed is not None else session.buffer.since(None)
        return any(f'"id":"{self.anchor.key[1]}"' in text for text in texts)


def run(seed: int) -> Run:
    """Run one seed; raises BrokenError with everything that does not hold."""
    scenario = Scenario(seed)
    raised = listener_failures()
    orders = "seeded" if seed % 4 else "pct"
    simulation = Simulation(seed, scenario.plan.faults, max_steps=2_000_000, orders=orders)
    try:
        simulation.run(scenario.main)
    except Exception as error:
        raise BrokenError(f"{type(error).__name__}: {error}{repeat(seed)}") from error
    result = scenario.run
    if listener_failures() != raised:
        result.problems.append("the scenario's own listener raised: see the log")
    result.trace_hash = simulation.trace_hash
    result.virtual_seconds = simulation.virtual_seconds
    result.faults = dict(simulation.faults_fired)
    if result.problems:
        raise BrokenError("; ".join(result.problems) + repeat(seed))
    return result


def repeat(seed: int) -> str:
    """The command that repeats a run."""
    return f"\n  repeat: python -m tests.simulation {seed}"
