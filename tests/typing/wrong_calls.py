"""What a type checker must catch about policies for calls: read by mypy and pyright, never run.

Rule: that of wrong.py. Every line is wrong in one way, and says so to both checkers.
"""

from __future__ import annotations

from collections.abc import Callable

import resilient_bridge as rb


web = rb.Policy(rb.Retry(), rb.Breaker())


@web
def create(title: str) -> int:
    """A sync function."""
    return len(title)


@web(idempotent=True)
async def search(query: str) -> list[str]:
    """An async function."""
    return [query]


class Weather:
    """A method, decorated."""

    @web
    def today(self, city: str) -> float:
        """A method."""
        return float(len(city))


# Layers: what is positional, what is not, the right units and parts.
rb.Retry(4)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.Retry(attempts="4")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Retry(attempt=4)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.Retry(backoff=[1, 2])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Retry(budget=0.2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Retry(rules={429: 6})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
rb.Retry(on=3.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Retry(on_result=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.RetryBudget(0.2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.RetryBudget(ratio="20 %")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Breaker(5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.Breaker(rate="most")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Breaker(window=0.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Breaker(open_for=b"30 s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Breaker.consecutive()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.Breaker.consecutive(5, 30)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.Breaker.consecutive(5, rate=0.5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.Timeout()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.Timeout(b"10 s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Timeout(10, True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.Timeout.escalating(b"2", b"5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Deadline(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Deadline(10, 20)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.Bulkhead(8, 4)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.Bulkhead(8.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.calls.Hedge(2, 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.calls.Hedge(to="eu")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.calls.Hedge(to=len)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.calls.Hedge(budget="5%")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.calls.Share()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.calls.Share("query")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.RateLimit(5, 1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.RateLimit(calls=5, pre=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rb.Fallback("cached")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Fallback(print, acknowledge=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# Policies.
rb.Policy([rb.Retry()])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Policy(rb.Backoff.constant(1))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rb.Policy(rb.Retry(), nam="web")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
web.name = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
web.replace(timeout=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
web.attempts(True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
web(idempotent="yes")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
web(idempotent=True, key="x")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
web("not a function")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


async def calls() -> None:
    """A decorated function takes its own arguments, and returns its own result."""
    create(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    create("x", "y")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    create(titel="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    _text: str = create("x")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    await create("x")  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    await search(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    _rows: list[int] = await search("x")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    len(search("x"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Weather().today(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Weather.today("x")  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]
    create.policy = rb.Retry()  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    create.policy.name = "x"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    create.polcy = web  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    create.explain("x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    create.__wrapped__(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    _other: rb.calls.Protected[Callable[[int], int]] = create  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    _plain: rb.calls.Protected[Callable[..., object]] = calls  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    web.call(create)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    web.call(create, 7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    _number: str = web.call(create, "x")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    await web.call(search, query=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    rb.capture(create, 7)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    print(rb.capture(search, "x").value)  # type: ignore[attr-defined]  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportAttributeAccessIssue]
    _outcome: rb.calls.Outcome[str] = rb.capture(create, "x")  # type: ignore[call-overload]  # pyright: ignore[reportAssignmentType]


def handles(
    attempt: rb.calls.Attempt, outcome: rb.calls.Outcome[int], circuit: rb.calls.Circuit
) -> None:
    """What is read, and not written."""
    rb.calls.circuit(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    if circuit.state == "half-open":  # type: ignore[comparison-overlap]  # pyright: ignore[reportUnnecessaryComparison]
        pass
    circuit.state = "open"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    attempt.remaining = 3.0  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    attempt.idempotency_key = "k"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    outcome.value = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    rb.calls.circuits()["x"] = circuit  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    print(rb.current_attempt().number)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]


async def tests() -> None:
    """What tests use."""
    with rb.testing.virtual_time(7):  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        pass
    with rb.testing.virtual_time() as time:
        time.advance("3 s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        time.now = 3.0  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    with rb.testing.inject():  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        pass
    with rb.testing.record() as seen:
        seen.append("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# Tools: what is called by name, and directly.
toolbox = rb.agent.Toolbox(timeouts={"bash": b"300"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]


@toolbox.tool
async def grep(pattern: str) -> list[str]:
    """A tool keeps its signature."""
    return [pattern]


async def tools() -> None:
    """Each line is wrong."""
    await grep(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await toolbox.call("grep", 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    toolbox.tool(timeout=b"3")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
