"""What a type checker must catch: read by mypy and pyright, never run.

Rule: every line is wrong in one way, and says so to both checkers. A comment that ignores nothing is an error in both, so
a mistake that is no longer caught fails here.
"""

from __future__ import annotations

import resilient_bridge as rb


# Policies: keywords, the words that exist, the right units and parts.
rb.bridge.Heartbeat(15)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.bridge.Heartbeat(every=b"15 s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.bridge.Heartbeat(evry=15)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.bridge.Outbox(overflow="drop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.bridge.Outbox(max_messages=1.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.bridge.Inbox(overflow="raise")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.bridge.Reconnect(on_exhausted="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.bridge.Reconnect(backoff=[1, 2, 5])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.bridge.Dialect(codec="msgpack")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.bridge.Replay(overlap=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Rule(backoff=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.bridge.BridgePolicy(heartbeat=rb.bridge.Outbox())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.presets.default.evolve(heartbeet=rb.bridge.Heartbeat())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.presets.default.evolve(outbox=rb.bridge.Inbox())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.presets.default.heartbeat = rb.bridge.Heartbeat()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]

# Schedules.
rb.Backoff.steps(b"1", b"2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Backoff.exponential(1, jitter="some")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Backoff.constant()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.Backoff.steps(1, then=[2])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Backoff.steps(1).sample(3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def not_a_gap(message: rb.bridge.Message) -> None:
    """A handler for something else."""


async def client(bridge: rb.BridgeClient, receipt: rb.bridge.Receipt) -> None:
    """The client: what is positional, what is not, and what comes back."""
    rb.BridgeClient()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    rb.BridgeClient("wss://x", "token")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    rb.BridgeClient("wss://x", token=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.BridgeClient("wss://x", policy=rb.bridge.Reconnect())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.BridgeClient("wss://x", store=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.BridgeClient("wss://x", on_doubt=not_a_gap)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.BridgeClient("wss://x", on_gap=not_a_gap)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await bridge.send("a")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await bridge.send("a", [1])  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await bridge.send(bytearray(b"a"))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await bridge.send(type="a", payload={})  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await bridge.send("a", {}, ttl=b"1 min")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await bridge.request("a", {}, idempotent="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    _late: rb.bridge.Message = await bridge.send("a", {})  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    bridge.state = rb.bridge.BridgeState.READY  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    if receipt.state == "sent":  # type: ignore[comparison-overlap]  # pyright: ignore[reportUnnecessaryComparison]
        pass
    if await receipt.confirmed() == "acked":  # type: ignore[comparison-overlap]  # pyright: ignore[reportUnnecessaryComparison]
        pass
    list(bridge)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


def records(event: rb.events.Event, failure: rb.Failure, gap: rb.bridge.Gap) -> None:
    """Records: the fields that they have, and nothing to write to."""
    print(event.verdict)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    failure.retryable = True  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    gap.verdict = rb.bridge.Verdict.GAP  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(event, rb.events.Resumed):
        _seconds: float = event.since  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    rb.listen(print, "again")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    rb.listen(lambda: None)  # type: ignore[misc, arg-type]  # pyright: ignore[reportArgumentType]


def not_async(server: rb.testing.BridgeServer) -> int:
    """A program that is not a coroutine."""
    return server.connections


async def numbered(server: rb.testing.LogBridge) -> int:
    """A program for a server of another kind."""
    return server.connections


async def tests(server: rb.testing.BridgeServer, proxy: rb.testing.FaultProxy) -> None:
    """What tests use."""
    rb.testing.simulate(not_async)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.testing.simulate(tests)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.testing.simulate(numbered)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.testing.simulate(tests, server=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    rb.testing.simulate(numbered, server=rb.testing.LogBridge, orders="lifo")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    rb.testing.simulate(numbered, server=rb.testing.BridgeServer)  # type: ignore[misc]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await server.cut("gently")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await server.push({"type": "a"})  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]
    rb.testing.Fault.black_hole("sideways")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.testing.Faults(rate="often")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.testing.Faults(script=(rb.testing.Fault.fin(),))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    proxy.apply("fin")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


print(rb.BridgeClinet)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]

# Effects: an object, and functions of a call.
rb.agent.Toolbox(effects="effects.db")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.resilient(idempotent=False, effects="effects.db")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
rb.stores.Effects(hold=b"10")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
