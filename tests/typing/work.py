"""Tools, workflows and model calls as a user would write them, for mypy and pyright."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, assert_type

import resilient_bridge as rb


toolbox = rb.agent.Toolbox(rb.presets.recursor, timeouts={"bash": 300, "default": 20})


@toolbox.tool
def add(one: int, other: int = 1) -> int:
    """A sync tool."""
    return one + other


@toolbox.tool(idempotent=True, timeout=60, required=False)
async def grep(pattern: str) -> list[str]:
    """An async tool."""
    return [pattern]


@toolbox.command(timeout=300, cwd="/tmp")
def bash(script: str) -> list[str]:
    """A command."""
    return ["bash", "-c", script]


flow = rb.agent.Workflow("state.json", root=".", tools=toolbox, policy=rb.Policy(rb.Retry()))


@flow.phase
async def first(phase: rb.agent.Phase) -> None:
    """A phase."""
    phase.produced("a.txt")
    assert_type(await phase.committed(), str)
    await phase.checkpoint({"next": 1})
    assert_type(phase.restored, Any)
    assert_type(phase.run, int)


@flow.phase(artifacts=["b.txt"], checks=[lambda: True], required=False, idempotent=False)
def second() -> int:
    """A phase that blocks."""
    return 1


async def work() -> None:
    """What comes back."""
    assert_type(add(1), int)
    assert_type(await grep("x"), list[str])
    result = await bash("ls")
    assert_type(result, rb.agent.CommandResult)
    assert_type(result.stdout, str)
    outcome = await toolbox.call("grep", '{"pattern": "x"}', idempotency_key="k")
    assert_type(outcome, rb.calls.Outcome[Any])
    assert_type(outcome.ok, bool)
    assert_type(outcome.exit_code, int | None)
    assert_type(toolbox.tools, Mapping[str, rb.agent.Tool])
    assert_type(second(), int)
    await first(None)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    report = await flow.run()
    assert_type(report, rb.agent.WorkflowReport)
    assert_type(report.status, rb.agent.WorkflowStatus)
    assert_type(report.failure, rb.Failure | None)
    assert_type(await flow.skip("second", reason="why"), rb.agent.WorkflowReport)
    assert_type(flow.status().explain(), str)


async def model() -> None:
    """Money, context, modes."""
    budget = rb.agent.SpendBudget("10.00", mode="soft", warn_at=0.8)
    async with budget.call(estimate="0.02", timeout=5) as call:
        call.spend(Decimal("0.0173"))
    assert_type(budget.status().spent, Decimal)
    assert_type(await budget.guard(grep, cost=len)("x"), list[str])
    budget.approve(5)

    def count(messages: Sequence[str], tools: Sequence[object]) -> int:
        return sum(map(len, messages)) + len(tools)

    guard = rb.agent.ContextGuard(8_000, count=count)
    assert_type(await guard.fit(["hello"]), list[str])
    modes = rb.agent.Degradation("browse", "browser", "text")
    assert_type(modes.mode, str)
    assert_type(rb.agent.suggest(FileNotFoundError(2, "x", "y")), tuple[str, ...])
    event = rb.agent.HookEvent.parse(b"{}")
    assert_type(event.session_id, str)
    assert_type(rb.agent.hook_answer(b"{}"), dict[str, Any])
