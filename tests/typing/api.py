"""The public names as a user types them: read by mypy and pyright, never run. Rule: every line would work as written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, assert_type

import tenacity

import resilient_bridge as rb


# Policies are values: built by keyword, compared, evolved.
backoff: rb.Backoff = rb.Backoff.steps(
    1, 2, 5, then=rb.Backoff.exponential(10, cap=60, jitter="none")
)
assert_type(backoff.delays(6), list[float])
assert_type(backoff.explain(), str)
delays = [
    rb.Backoff.constant(1),
    rb.Backoff.linear(timedelta(seconds=1)),
    rb.Backoff.decorrelated(1, cap=30),
]

policy: rb.bridge.BridgePolicy = rb.presets.recursor.evolve(
    reconnect=rb.bridge.Reconnect(
        backoff=backoff, rules={"CONN_TIMEOUT": rb.Rule(backoff=backoff)}, on_exhausted="suspend"
    ),
    heartbeat=rb.bridge.Heartbeat(every=15, timeout=timedelta(seconds=10)),
    outbox=rb.bridge.Outbox(max_messages=10, overflow="drop_oldest"),
    inbox=rb.bridge.Inbox(overflow="resync"),
    replay=rb.bridge.Replay(overlap=300),
    dialect=rb.bridge.Dialect(request_replay=None, codec="json"),
)


def failures(error: Exception) -> str:
    """One failure, three readers."""
    failure = rb.classify(error)
    assert_type(failure, rb.Failure)
    assert_type(failure.category, rb.Category)
    assert_type(failure.kind, rb.Kind)
    assert_type(failure.severity, rb.errors.Severity)
    assert_type(failure.executed, rb.errors.Executed)
    assert_type(failure.retry_after, float | None)
    assert_type(failure.to_dict(), dict[str, Any])
    return failure.explain() if failure.retryable else failure.to_llm()


def watch(event: rb.events.Event) -> None:
    """A listener gets any event and asks for its class."""
    assert_type(event.at, datetime)
    if isinstance(event, rb.events.Resumed):
        assert_type(event.verdict, rb.bridge.Verdict)
    elif isinstance(event, rb.events.StateChanged):
        assert_type(event.state, rb.bridge.BridgeState)


async def on_gap(gap: rb.bridge.Gap) -> None:
    """What could not be recovered, in its place in the stream."""
    assert_type(gap.verdict, rb.bridge.Verdict)
    assert_type(gap.since, datetime | None)


async def on_doubt(doubt: rb.events.OutboundInDoubt) -> None:
    """Called after a loss; a plain function is, too."""
    assert_type(doubt.unknown + doubt.reached, int)
    assert_type(doubt.unknown_keys, tuple[str, ...])


async def token() -> str:
    """Asked for at each attempt."""
    return "secret"


async def is_well() -> bool:
    """Asked again and again; a plain function does, too."""
    return True


async def bridge(url: str) -> None:
    """The client that stays connected."""
    with rb.listen(watch):
        async with rb.BridgeClient(
            url,
            token=token,
            headers={"x": "y"},
            policy=policy,
            on_gap=on_gap,
            on_doubt=on_doubt,
            health_check=is_well,
        ) as client:
            await client.wait_ready(timeout=timedelta(seconds=30))
            receipt = await client.send(
                "tool_result", {"content": "ok"}, idempotency_key="k", ttl=60
            )
            assert_type(receipt, rb.bridge.Receipt)
            answer = await client.request("git_status_request", {}, timeout=10, idempotent=True)
            assert_type(answer, rb.bridge.Message)
            how = await receipt.confirmed(timeout=30)
            assert_type(how, Literal["applied", "read"])
            assert_type(client.receipt(receipt.idempotency_key), rb.bridge.Receipt)
            assert_type(receipt.withdraw(), bool)
            async for message in client:
                assert_type(message, rb.bridge.Message)
                assert_type(message.redelivered or message.maybe_duplicate, bool)
                await client.send("echo", {"type": message.type, "how": how}, volatile=True)
                await client.send(b"frame")
            assert_type(client.state, rb.bridge.BridgeState)
            assert_type(client.health(), rb.bridge.Health)
            assert_type(client.health().failure, rb.Failure | None)
            async for event in client.events():
                assert_type(event, rb.events.Event)
            assert_type(await client.request("look", {}, timeout=None), rb.bridge.Message)
            assert_type(await client.aclose(drain=None), list[rb.bridge.Receipt])


def outcome(receipt: rb.bridge.Receipt) -> str:
    """A receipt's state is one of eight words, and a match knows when it has them all."""
    match receipt.state:
        case "queued" | "written":
            return "not known yet"
        case "confirmed":
            return "there"
        case "expired" | "dropped" | "withdrawn":
            return "never left"
        case "dead" | "unknown":
            return "who knows"


async def own(connect: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
    """A websocket that you open yourself; a plain function for gaps; other credentials."""
    gaps: list[rb.bridge.Gap] = []
    async with rb.BridgeClient.over(
        connect, on_gap=gaps.append, on_doubt=print, receive=False
    ) as client:
        assert_type(client, rb.BridgeClient)
    rb.BridgeClient(
        lambda: "wss://host/ws",
        token="secret",
        headers=lambda: {"x": "y"},
        pin=["sha256:" + 64 * "0"],
    )


@tenacity.retry(wait=rb.Backoff.exponential(1), stop=tenacity.stop_after_attempt(3))
def elsewhere() -> int:
    """A schedule goes where tenacity asks for a wait."""
    return 1


assert_type(elsewhere(), int)


async def tidy() -> str:
    """A program without a bridge."""
    return "done"


async def main(server: rb.testing.BridgeServer) -> int:
    """The same in virtual time."""
    await bridge(server.url)
    await server.cut("blackhole", seconds=3)
    server.behave(replay="exclusive", acks="none")
    assert_type(server.behaviour, rb.testing.Behaviour)
    return server.connections


assert_type(rb.testing.simulate(main, seed=7), int)
assert_type(rb.testing.simulate(main, seed=7, faults=rb.testing.Faults(seed=7, rate=0.2)), int)
assert_type(rb.testing.simulate(main, server=rb.testing.BridgeServer), int)
assert_type(rb.testing.simulate(main, orders="pct", patch_stdlib=True), int)
assert_type(rb.testing.simulate(tidy, server=None, orders="fifo"), str)
assert_type(rb.testing.simulate(tidy, server=None, seed=3, shrink=True), str)


async def numbered(server: rb.testing.LogBridge) -> int | str:
    """The same with a server of another kind."""
    await server.cut("fin")
    return await server.push({"n": 1})


assert_type(rb.testing.simulate(numbered, server=rb.testing.LogBridge), int | str)
assert_type(
    rb.testing.simulate(numbered, server=partial(rb.testing.LogBridge, field="seq"), seed=7),
    int | str,
)
crash: type[AssertionError] = rb.testing.SimulationError


async def real() -> rb.testing.Judgement:
    """The same over real sockets, and judged."""
    ledger = rb.testing.Ledger()
    async with (
        rb.testing.BridgeServer(token="secret") as server,
        rb.testing.FaultProxy("127.0.0.1", 1) as proxy,
    ):
        proxy.script(
            None,
            rb.testing.Fault.abort(after=10),
            [rb.testing.Fault.delay(1), rb.testing.Fault.fin()],
        )
        proxy.apply(rb.testing.Fault.black_hole("down", seconds=2))
        await bridge(proxy.url("/ws"))
        await server.push("claude_event", {"n": 1}, id=None)
    assert_type(ledger.judge().findings(), list[str])
    assert_type(ledger.totals(), dict[str, Any])
    return ledger.judge()


def errors() -> float | None:
    """What `except` looks like: by what happened, or by the standard library's own classes."""
    try:
        raise NotImplementedError
    except rb.errors.RejectedError as error:
        return error.retry_after
    except (
        rb.OutcomeUnknownError,
        rb.errors.SessionError,
        rb.errors.AuthError,
        rb.errors.ProtocolError,
    ) as error:
        assert_type(error.failure, rb.Failure)
    except (ValueError, TimeoutError, ConnectionError):
        pass
    return None


wrong_value: type[ValueError] = rb.ConfigError
late: type[TimeoutError] = rb.errors.AttemptTimeoutError
unreachable: type[ConnectionError] = rb.errors.NotConnectedError
unread: type[rb.OutcomeUnknownError] = rb.errors.InboxFullError
full: type[rb.errors.RejectedError] = rb.errors.OutboxFullError
dropped: type[rb.errors.RejectedError] = rb.errors.NotDeliveredError

# Settings: a whole document is a Config, and with a class it is a value of that class.
config = rb.load("resilience.toml", names={"Busy": OSError}, env=True)
assert_type(config, rb.settings.Config)
assert_type(rb.load({"attempts": 4}, rb.Retry), rb.Retry)
assert_type(config.bridge, rb.bridge.BridgePolicy)
assert_type(config.policies["search"], rb.Policy)
assert_type(config.toolbox, rb.agent.Toolbox)
assert_type(rb.Policy.from_config("resilience.toml", "search"), rb.Policy)
assert_type(rb.BridgeClient.from_config("resilience.toml", session_id="s1"), rb.BridgeClient)
assert_type(rb.Backoff.parse("linear(1)"), rb.Backoff)
assert_type(rb.settings.dump(policy), dict[str, Any])
assert_type([(change.path, change.before) for change in config.reload()], list[tuple[str, Any]])


@config.protect("search", idempotent=True)
def looked_up(query: str) -> int:
    return len(query)


assert_type(looked_up("x"), int)
assert_type(
    [problem.line for problem in rb.ConfigError(rb.classify(OSError())).problems], list[int | None]
)


# ---- effects --------------------------------------------------------------------------------------


def find_payment(call: rb.stores.DoubtfulCall) -> object:
    """Say what became of a call in doubt."""
    assert_type(call.name, str)
    assert_type(call.key, str | None)
    return rb.stores.Ran("paid") if call.arguments["order"] else rb.stores.NOT_RUN


with rb.stores.Effects("effects.db", verify={"pay": find_payment}, ignore=["trace_id"]) as effects:
    assert_type(effects, rb.stores.Effects)

    @rb.resilient(idempotent=False, effects=effects)
    def pay(order: str) -> int:
        """An effect."""
        return len(order)

    with effects.calling(key="A-7", again=True):
        assert_type(pay("A-7"), int)

rb.agent.Toolbox(effects=effects)
