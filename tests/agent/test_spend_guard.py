"""Functions guarded by a spend budget: each call is let in by it, and charged what its result says."""

from __future__ import annotations

import inspect
from decimal import Decimal

import pytest

from resilient_bridge.agent import SpendBudget
from resilient_bridge.failure import ConfigError, SpendLimitError


async def test_a_guarded_function_stays_what_it_was():
    """Sync and async functions are charged what `cost` makes of their results; name and signature are kept."""
    budget = SpendBudget(10)

    async def ask(prompt: str, *, model: str = "m") -> dict[str, str]:
        """Ask."""
        return {"answer": prompt, "cost": "0.25"}

    def look(prompt: str) -> float:
        return 0.5

    asked = budget.guard(ask, cost=lambda answer: answer["cost"], estimate=1)
    looked = budget.guard(look, cost=lambda answer: answer)
    assert inspect.iscoroutinefunction(asked)
    assert (asked.__name__, inspect.signature(asked)) == ("ask", inspect.signature(ask))
    assert (await asked("hi"))["answer"] == "hi"
    assert looked("hi") == 0.5
    assert budget.status().spent == Decimal("0.75")
    refused = budget.guard(ask, cost=lambda answer: answer["cost"], estimate=10, timeout=0)
    with pytest.raises(SpendLimitError):
        await refused("hi")


async def test_what_cost_raises_comes_out_and_the_estimate_counts():
    """The call has run, even if its error looks as if it had not."""
    budget = SpendBudget(10)

    async def ask() -> None: ...

    def cost(_):
        raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        await budget.guard(ask, cost=cost, estimate=3)()
    assert budget.status().spent == 3


def test_what_cannot_be_guarded_is_refused():
    """Classes and streams have no one result; a sync function whose result has to be awaited has not run yet."""
    budget = SpendBudget(10)

    def stream():
        yield 1

    async def ask() -> int:
        return 1

    for wrong in (dict, stream, 5, staticmethod(ask)):
        with pytest.raises(ConfigError, match=r"SpendBudget\.guard\.function"):
            budget.guard(wrong, cost=lambda _: 1)
    with pytest.raises(ConfigError, match=r"SpendBudget\.guard\.cost"):
        budget.guard(ask, cost=1)
    with pytest.raises(ConfigError, match=r"SpendBudget\.call\.estimate"):
        budget.guard(ask, cost=lambda _: 1, estimate=-1)
    with pytest.raises(ConfigError, match="an async function"):
        budget.guard(lambda: ask(), cost=lambda _: 1)()  # noqa: PLW0108 -- a lambda is what it is about
