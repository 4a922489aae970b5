"""Tools and policies: what is repeated and how often, whose circuit it is, which key a call has, and how tests reach in."""

from __future__ import annotations

import asyncio
import threading

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox
from tests.calls.forms import at_once, http_error


REFUSED = ConnectionRefusedError


@pytest.mark.requirement("R11")
@pytest.mark.parametrize(
    ("error", "calls", "repeats"),
    [
        (http_error(503), 4, 3),
        (FileNotFoundError(2, "no"), 1, 0),
        (PermissionError(13, "no"), 1, 0),
        (MemoryError(), 2, 1),
        (httpx.ReadTimeout(""), 4, 3),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_what_is_repeated_and_how_often(error, calls, repeats, is_async):
    """By ReCursor's table: what passes three times, out of memory once, not found and not permitted never."""
    toolbox = Toolbox(rb.presets.recursor)
    made = []

    def fail() -> None:
        made.append(1)
        raise error

    async def fail_async() -> None:
        fail()

    with rb.testing.virtual_time():
        toolbox.tool(fail_async if is_async else fail, name="fail", idempotent=True)
        outcome = await toolbox.call("fail", {})
    assert (len(made), outcome.attempts) == (calls, calls)
    payload = outcome.to_tool_error("t1")["payload"]
    assert (payload["retryable"], payload["max_retries"]) == (repeats > 0, repeats)


@pytest.mark.requirement("R11")
async def test_a_rate_limit_waits_with_jitter_and_other_failures_exactly():
    """ReCursor: 1, 2, 4 s after a failed call; after a rate limit anything up to that."""
    toolbox = Toolbox(rb.presets.recursor)

    async def fail(status: int) -> None:
        raise http_error(status)

    for name in ("busy", "limited"):
        toolbox.tool(fail, name=name, idempotent=True)
    with rb.testing.virtual_time(seed=1) as clock:
        await toolbox.call("busy", {"status": 503})
        exact, clock.slept = clock.slept, []
        await toolbox.call("limited", {"status": 429})
    assert exact == [1, 2, 4]
    assert len(clock.slept) == 3
    assert clock.slept != [1, 2, 4]
    assert all(wait <= most for wait, most in zip(clock.slept, [1, 2, 4], strict=True))


async def test_what_may_have_run_is_repeated_only_with_permission():
    """The same gate as for every call: a read timeout of a plain tool is told, and not repeated."""
    toolbox = Toolbox(rb.Policy(at_once()))
    made = []

    async def fail() -> None:
        made.append(1)
        raise httpx.ReadTimeout("")

    toolbox.tool(fail, name="plain")
    toolbox.tool(fail, name="again", idempotent=True)
    outcome = await toolbox.call("plain", {})
    assert (len(made), outcome.failure.stopped) == (1, "not_idempotent")
    await toolbox.call("again", {})
    assert len(made) == 1 + 4


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_key_of_a_call(is_async):
    """`idempotency_key=` is what the tool sees on every attempt; without one each call has its own, and nested calls theirs."""
    toolbox = Toolbox(rb.Policy(at_once()))
    keys, inner = [], []

    @rb.Policy(at_once())(idempotent=True)
    def nested() -> None:
        inner.append(rb.current_attempt().idempotency_key)

    def pay() -> None:
        keys.append(rb.current_attempt().idempotency_key)
        nested()
        if len(keys) < 3:
            raise REFUSED

    async def pay_async() -> None:
        pay()

    toolbox.tool(pay_async if is_async else pay, name="pay", idempotent=True)
    assert (await toolbox.call("pay", {}, idempotency_key="k1")).ok
    assert keys == ["k1"] * 3
    await toolbox.call("pay", {})
    await toolbox.call("pay", {})
    assert len(set(keys)) == 3
    assert not set(inner) & set(keys)


async def test_each_tool_has_its_circuit_however_it_is_called():
    """Failures of direct calls and of calls by name count together, and those of another tool not at all."""
    toolbox = Toolbox(rb.Policy(rb.Breaker.consecutive(2)))

    def fail() -> None:
        raise REFUSED

    one = toolbox.tool(fail, name="one")
    toolbox.tool(fail, name="two")
    with pytest.raises(REFUSED):
        one()
    await toolbox.call("one", {})
    outcome = await toolbox.call("one", {})
    assert (outcome.failure.code, outcome.attempts) == ("SYS_CIRCUIT_OPEN", 0)
    assert rb.calls.circuit(one).state == "open"
    assert (await toolbox.call("two", {})).failure.code == "CONN_REFUSED"


async def test_wrong_arguments_say_nothing_about_the_circuit():
    """What the model got wrong is not counted, and the tool is not called."""
    toolbox = Toolbox(rb.Policy(rb.Breaker.consecutive(1)))
    tool = toolbox.tool(lambda number=1: number, name="tool")
    for _ in range(3):
        assert not (await toolbox.call("tool", {"nmber": 1})).ok
    assert rb.calls.circuit(tool).state == "closed"


async def test_another_policy_at_run_time():
    """`tool.policy = …` holds for calls by name as well, async and sync."""
    toolbox = Toolbox(rb.Policy(at_once(attempts=1)))
    made = []

    def fail() -> None:
        made.append(1)
        raise REFUSED

    async def fail_async() -> None:
        fail()

    for function in (fail, fail_async):
        tool = toolbox.tool(function, idempotent=True)
        tool.policy = rb.Policy(at_once(attempts=3))
        made.clear()
        await toolbox.call(function.__name__, {})
        assert len(made) == 3


async def test_a_policy_of_nothing_but_a_limit():
    """One call, within the limit; a BridgePolicy of a tool lends its `calls`."""
    toolbox = Toolbox(rb.Policy(rb.Timeout(5)))
    made = []

    def fail() -> None:
        made.append(1)
        raise REFUSED

    toolbox.tool(fail, name="one")
    toolbox.tool(
        fail,
        name="two",
        policy=rb.bridge.BridgePolicy(calls=rb.Policy(at_once(attempts=2))),
        idempotent=True,
    )
    assert toolbox.tools["one"].timeout == 5
    outcome = await toolbox.call("one", {})
    assert (len(made), outcome.max_retries) == (1, 0)
    assert (await toolbox.call("two", {})).attempts == 2


async def test_tests_may_inject_failures_into_a_tool():
    """`rb.testing.inject` reaches calls by name, of a sync tool too; the tool itself is then not called."""
    toolbox = Toolbox(rb.Policy(at_once()))
    tools = [toolbox.tool(lambda: "ok", name="sync", idempotent=True)]

    @toolbox.tool(idempotent=True)
    async def later() -> str:
        return "ok"

    for tool, name in ((tools[0], "sync"), (later, "later")):
        with rb.testing.inject(tool, REFUSED, rb.testing.PASS) as faults:
            assert (await toolbox.call(name, {})).value == "ok"
        assert faults.calls == 2


def test_tools_work_in_a_simulation():
    """On a simulated loop, sync tools and the search for fixes included."""
    toolbox = Toolbox(rb.Policy(rb.Retry()))

    @toolbox.tool
    def read(path: str) -> str:
        raise FileNotFoundError(2, "no", path)

    @toolbox.tool(timeout=60)
    async def wait() -> str:
        await asyncio.sleep(3600)
        return "never"

    async def main(_server):
        return await toolbox.call("read", {"path": "/no/such"}), await toolbox.call("wait", "")

    read_outcome, wait_outcome = rb.testing.simulate(main)
    assert read_outcome.type == "not_found"
    assert (wait_outcome.failure.code, round(wait_outcome.seconds)) == ("TOOL_TIMEOUT", 60)


async def test_disabled_tools_are_plain_functions():
    """Inside of `rb.testing.disabled()` nothing is repeated."""
    toolbox = Toolbox(rb.Policy(at_once()))
    made = []

    @toolbox.tool
    def fail() -> str:
        made.append(threading.current_thread() is threading.main_thread())
        raise REFUSED

    with rb.testing.disabled():
        with pytest.raises(REFUSED):
            fail()
        assert not (await toolbox.call("fail", {})).ok
    assert made == [True, False]
