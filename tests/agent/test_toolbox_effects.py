"""A Toolbox with effects: a tool that may not run twice is not run again while it is in doubt."""

from __future__ import annotations

import asyncio
import threading

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox
from resilient_bridge.stores import NOT_RUN, Effects, Ran


HELD = "SYS_EFFECT_HELD"


@pytest.fixture
def heard():
    found: list[object] = []
    with rb.listen(found.append):
        yield found


@pytest.fixture
def effects(tmp_path):
    with Effects(tmp_path / "effects.db") as made:
        yield made


@pytest.mark.requirement("X15")
async def test_a_tool_that_timed_out_is_not_run_again(effects):
    """As a model calls it: by name, with its keys in another order, or as JSON text."""
    toolbox, paid = Toolbox(effects=effects, timeouts={"default": 0.05}), []

    @toolbox.tool
    async def pay(order: str, amount: int = 1) -> str:
        paid.append(order)
        await asyncio.sleep(60)
        return order

    first = await toolbox.call("pay", {"order": "A-7", "amount": 1})
    assert first.failure is not None
    assert first.failure.code == "TOOL_TIMEOUT"
    for arguments in ({"amount": 1, "order": "A-7"}, '{"order": "A-7"}'):
        again = await toolbox.call("pay", arguments)
        assert again.failure is not None
        assert again.failure.code == HELD
        assert again.failure.executed is rb.errors.Executed.MAYBE
        assert not again.recoverable
        assert "OUTCOME UNKNOWN" in again.failure.message
    assert paid == ["A-7"]
    with pytest.raises(rb.errors.EffectHeldError):
        await pay("A-7")
    second = await toolbox.call("pay", {"order": "A-7"}, again=True)
    assert second.failure is not None
    assert second.failure.code == "TOOL_TIMEOUT"
    assert paid == ["A-7", "A-7"]


async def test_a_late_answer_is_that_of_the_next_call(effects, heard):
    """The thread went on after the limit; its answer is handed out once, and the call is not made."""
    toolbox, paid, leave = (
        Toolbox(effects=effects, timeouts={"default": 0.05}),
        [],
        threading.Event(),
    )

    @toolbox.tool
    def pay(order: str) -> str:
        paid.append(order)
        leave.wait(30)
        return f"paid {order} as number {len(paid)}"

    assert (await toolbox.call("pay", {"order": "A-7"})).failure.code == "TOOL_TIMEOUT"
    running = await toolbox.call("pay", {"order": "A-7"})
    assert "it is still running" in running.failure.message
    leave.set()
    while (late := await toolbox.call("pay", {"order": "A-7"})).failure is not None:
        assert late.failure.code == HELD
        await asyncio.sleep(0.001)
    assert late.value == "paid A-7 as number 1"
    assert len(paid) == 1
    assert (await toolbox.call("pay", {"order": "A-7"})).value == "paid A-7 as number 2"
    assert "late_answer" in [one.how for one in heard if isinstance(one, rb.events.EffectResolved)]


async def test_a_tool_that_still_runs_is_not_verified():
    """What still runs may have its effect after verify has looked."""
    asked: list[object] = []
    leave = threading.Event()

    def find(call):
        asked.append(call)
        return NOT_RUN

    toolbox = Toolbox(effects=Effects(verify={"pay": find}), timeouts={"default": 0.05})
    paid = []

    @toolbox.tool
    def pay(order: str) -> str:
        paid.append(order)
        leave.wait(30)
        raise ConnectionResetError

    await toolbox.call("pay", {"order": "A-7"})
    assert (await toolbox.call("pay", {"order": "A-7"})).failure.code == HELD
    assert asked == []
    leave.set()
    while not asked:
        await toolbox.call("pay", {"order": "A-7"})
    assert paid == ["A-7", "A-7"]


async def test_verify_finds_the_answer_that_was_lost():
    toolbox = Toolbox(
        effects=Effects(verify={"pay": lambda call: Ran(f"found {call.arguments['order']}")})
    )
    paid = []

    @toolbox.tool
    async def pay(order: str) -> str:
        paid.append(order)
        raise ConnectionResetError

    assert (await toolbox.call("pay", {"order": "A-7"})).failure is not None
    assert (await toolbox.call("pay", {"order": "A-7"})).value == "found A-7"
    assert paid == ["A-7"]


async def test_tools_that_may_run_twice_and_ended_calls_are_not_held(effects):
    toolbox = Toolbox(effects=effects, idempotent={"read"})
    seen = []

    @toolbox.tool(policy=rb.Policy(rb.Retry(attempts=1)))
    async def read(path: str) -> str:
        seen.append(path)
        raise ConnectionResetError

    @toolbox.tool
    async def add(number: int) -> int:
        seen.append(number)
        return number

    @toolbox.command
    def fail() -> list[str]:
        seen.append("fail")
        return ["false"]

    for _ in range(2):
        assert (await toolbox.call("read", {"path": "x"})).failure.code == "CONN_RESET"
        assert (await toolbox.call("add", {"number": 1})).value == 1
        assert (await toolbox.call("fail", {})).failure.code == "TOOL_EXECUTION_FAILED"
    assert seen.count(1) == seen.count("fail") == seen.count("x") == 2


async def test_the_callers_key_is_that_of_the_effect(effects):
    """A call of a key that has ended is not made again; another key is another call."""
    toolbox, paid = Toolbox(effects=effects), []

    @toolbox.tool
    async def pay(order: str) -> str:
        paid.append((order, rb.current_attempt().idempotency_key))
        return order

    assert (await toolbox.call("pay", {"order": "A-7"}, idempotency_key="one")).value == "A-7"
    second = await toolbox.call("pay", {"order": "A-7 "}, idempotency_key="one")
    assert "ALREADY RAN" in second.failure.message
    assert second.failure.executed is rb.errors.Executed.YES
    assert (await toolbox.call("pay", {"order": "A-7"}, idempotency_key="two")).value == "A-7"
    assert paid == [("A-7", "one"), ("A-7", "two")]


async def test_wrong_arguments_leave_no_row(effects):
    toolbox = Toolbox(effects=effects)

    @toolbox.tool
    async def pay(order: str) -> str:
        return order

    for _ in range(2):
        wrong = await toolbox.call("pay", {"orders": "A-7"})
        assert wrong.failure.code == "TOOL_ARGUMENTS_INVALID"
    assert "0 calls" in repr(effects)


@pytest.mark.parametrize("wrong", ["effects.db", 5, Effects])
def test_effects_are_an_object(wrong):
    with pytest.raises(rb.ConfigError, match=r"Toolbox\.effects"):
        Toolbox(effects=wrong)
