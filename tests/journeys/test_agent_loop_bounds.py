"""Limits of the how-to page's agent loop: the length of the conversation, and the cost of the calls."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import httpx2
import openai
import pytest

import resilient_bridge as rb
from tests.agent.agent_loop import OFFERED, Edge, World, calling, claude, gpt, refused


LONG = "long ago " * 600  # some 1350 tokens, as the page counts


@pytest.fixture(autouse=True)
def clock():
    """Use virtual time."""
    with rb.testing.virtual_time() as clock:
        yield clock


def rounds(*names):
    """Return an answer for each name that asks for that file."""
    return [gpt(None, calling("read_file", {"path": name}, name)) for name in names]


def asked_for(messages):
    """Return the ids of the calls in a conversation, and those of the results."""
    calls = [call["id"] for each in messages for call in each.get("tool_calls", [])]
    return calls, [each["tool_call_id"] for each in messages if each["role"] == "tool"]


async def long_file(path):
    """Return a long file."""
    return f"{path}: {LONG}"


def kinds(recorded):
    """Return the class names of the events."""
    return [type(event).__name__ for event in recorded]


async def until(budget, state):
    """Let all tasks run until the budget is in that state, and a little longer."""
    for _ in range(1000):
        if budget.status().state is state:
            break
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert budget.status().state is state


# ---- the conversation -----------------------------------------------------------------------------------------------
@pytest.mark.requirement("V12")
async def test_a_long_conversation_is_compacted_before_it_is_sent():
    """The oldest rounds are dropped whole: no request is too long, the goal stays, and every result has its call."""
    world = World(*rounds(*"abcd"), gpt("done"), read_file=long_file, limit=8000)
    with rb.testing.record() as recorded:
        assert await world.run("the goal") == "done"
    count = world.page["count"]
    sent = [body["messages"] for _, body in world.edge.asked]
    assert all(count(messages, OFFERED) <= 4000 for messages in sent)
    assert {messages[1]["content"] for messages in sent} == {"the goal"}
    assert all(calls == results for calls, results in map(asked_for, sent))
    assert asked_for(sent[-1])[0] == ["call_c", "call_d"]
    assert kinds(recorded) == ["ContextCompacted"] * 2
    assert world.ran == list("abcd")  # dropped calls are not made again


@pytest.mark.requirement("V12")
async def test_a_round_is_dropped_whole_or_not_at_all():
    """With long arguments, or a long result beside a short one, the cut is always between rounds."""

    async def read(path):
        return LONG if path.startswith("long") else "short"

    for first in (
        [calling("read_file", {"path": LONG}, "a")],
        [calling("read_file", {"path": "long"}, "a"), calling("read_file", {"path": "b"}, "b")],
    ):
        latest = [calling("read_file", {"path": "long"}, each) for each in "cd"]
        world = World(
            gpt(None, *first), gpt(None, *latest), gpt("done"), read_file=read, limit=8000
        )
        assert await world.run("hi") == "done"
        *_, (_, body) = world.edge.asked
        assert asked_for(body["messages"]) == (["call_c", "call_d"], ["call_c", "call_d"])


@pytest.mark.requirement("V12")
async def test_what_the_provider_finds_too_long_is_compacted_once_more_and_stays_so(clock):
    """Its 400 does not fail the loop: one shorter request follows, the board is not asked, and the next round starts from it."""

    async def read(path):
        return LONG[:3600]  # three of these would fit, as the guard counts

    world = World(
        *rounds("a", "b"),
        refused(400, "too long"),
        *rounds("c"),
        gpt("done"),
        read_file=read,
        limit=8000,
    )
    assert await world.run("hi") == "done"
    calls = [asked_for(body["messages"])[0] for _, body in world.edge.asked]
    assert calls == [[], ["call_a"], ["call_a", "call_b"], ["call_b"], ["call_b", "call_c"]]
    assert (clock.slept, world.board.asked, world.ran) == ([], [], ["a", "b", "c"])


@pytest.mark.requirement("V12")
async def test_what_cannot_be_compacted_is_an_error_and_not_sent():
    """The last round alone is too long: the error has the specified form, and no further request is made."""

    async def huge(path):
        return LONG * 5

    world = World(*rounds("a"), read_file=huge, limit=8000)
    with pytest.raises(rb.errors.ContextOverflowError) as raised:
        await world.run("hi")
    details = raised.value.failure.details
    assert (details["type"], details["max_tokens"], details["suggestion"]) == (
        "context_overflow",
        4000,
        "start_new_session",
    )
    assert details["current_tokens"] > 4000
    assert (world.edge.who, world.board.asked) == (["gpt"], [])


@pytest.mark.requirement("V12")
async def test_tools_that_take_all_the_room_are_named():
    """Nothing is sent, and the suggestion is to offer fewer tools."""
    world = World(limit=4001)
    with pytest.raises(rb.errors.ContextOverflowError) as raised:
        await world.run("hi")
    assert raised.value.failure.details["suggestion"] == "reduce_tools"
    assert world.edge.who == []


@pytest.mark.requirement("V12")
async def test_a_provider_that_finds_it_too_long_twice_is_believed():
    """There are two requests and no third; our error has the provider's as its cause."""
    world = World(
        *rounds("a", "b"), *[refused(400, "too long")] * 2, read_file=long_file, limit=8000
    )
    with pytest.raises(rb.errors.ContextOverflowError) as raised:
        await world.run("hi")
    assert raised.value.failure.details["suggestion"] == "start_new_session"
    assert isinstance(raised.value.__cause__, openai.BadRequestError)
    assert world.edge.who == ["gpt"] * 4


@pytest.mark.requirement("V12")
async def test_the_other_model_too_may_find_it_too_long():
    """After a fallback its 400 causes a compaction all the same, and the switch is confirmed again."""
    world = World(
        *rounds("a", "b"),
        *(
            refused(429, "quota"),
            refused(400, "prompt too long"),
            refused(429, "quota"),
            claude("done"),
        ),
        read_file=long_file,
        limit=8000,
    )
    assert await world.run("hi") == "done"
    assert world.edge.who == ["gpt"] * 3 + ["claude", "gpt", "claude"]
    assert len(world.edge.asked[-1][1]["messages"]) < len(world.edge.asked[3][1]["messages"])


# ---- the money ------------------------------------------------------------------------------------------------------
def dear(name, written):
    """Return an answer that asks for a file, at 10 dollars for a million output tokens."""
    return gpt(None, calling("read_file", {"path": name}, name), usage=(0, written))


@pytest.mark.requirement("V11")
async def test_a_budget_warns_pauses_and_goes_on_when_approved():
    """At 80 % it warns; at 100 % the next call waits, without a request, until approved; the cost is exact."""
    world = World(dear("a", 50_000), dear("b", 30_000), dear("c", 20_000), gpt("done"), dollars=1)
    with rb.testing.record() as recorded:
        running = asyncio.create_task(world.run("hi"))
        await until(world.budget, rb.agent.SpendState.PAUSED)
        assert (len(world.edge.asked), world.ran) == (3, ["a", "b", "c"])
        assert [(each.state, each.spent) for each in recorded] == [
            ("warning", Decimal("0.8")),
            ("paused", Decimal(1)),
        ]
        world.budget.approve(1)
        assert await running == "done"
    assert world.budget.status().spent == Decimal("1.00225")
    assert world.budget.status().reserved == 0
    assert [each.state for each in recorded[2:]] == ["approved"]
    assert (len(world.edge.asked), world.board.asked) == (4, [])


@pytest.mark.requirement("V11")
async def test_a_budget_that_is_cancelled_ends_the_loop():
    """The waiting call is refused, with the sums; no request follows, and no other model is used, because no provider failed."""
    world = World(dear("a", 100_000), dollars=1)
    running = asyncio.create_task(world.run("hi"))
    await until(world.budget, rb.agent.SpendState.PAUSED)
    world.budget.cancel()
    with pytest.raises(rb.errors.SpendLimitError) as raised:
        await running
    assert raised.value.failure.details["reason"] == "cancelled"
    assert (world.edge.who, world.board.asked) == (["gpt"], [])


@pytest.mark.requirement("V11")
async def test_a_loop_that_is_cancelled_while_it_waits_leaves_nothing_behind():
    """The task ends, nothing is reserved, and an approval afterwards sends nothing."""
    world = World(dear("a", 100_000), dollars=1)
    running = asyncio.create_task(world.run("hi"))
    await until(world.budget, rb.agent.SpendState.PAUSED)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    world.budget.approve(1)
    await until(world.budget, rb.agent.SpendState.RUNNING)
    assert (world.edge.who, world.budget.status().reserved) == (["gpt"], 0)


@pytest.mark.requirement("V11")
async def test_two_loops_share_a_budget():
    """Both loops share a budget: while one has reserved it, the other waits, and then makes its request."""
    reserved = []

    def answer():
        reserved.append(world.budget.status().reserved)
        return gpt("hello")

    world = World(answer, answer, dollars="0.05")  # room for one answer of 4000 tokens at a time
    surroundings = {"budget": world.budget, "acknowledge": world.board}
    other = world.page["agent"](*world.edge.clients(), world.toolbox, OFFERED, **surroundings)
    assert await asyncio.gather(world.run("hi"), other("hi")) == ["hello"] * 2
    assert [round(each, 2) for each in reserved] == [Decimal("0.04")] * 2
    assert world.budget.status().spent == Decimal("0.0045")


@pytest.mark.requirement("V11")
async def test_what_is_known_not_to_have_run_costs_nothing():
    """A refused connection and an exhausted quota cost nothing; three failures in one call cost its estimate once, because they may have run."""
    for answers in ([httpx2.ConnectError] * 3, [refused(429, "quota")]):
        world = World(*answers, claude("done"))
        await world.run("hi")
        assert world.budget.status().spent == Decimal(
            "0.0045"
        )  # what claude reported, nothing else
    world = World(*[refused(500)] * 3, claude("done"))
    await world.run("hi")
    estimate = world.budget.status().spent - Decimal("0.0045")
    assert Decimal("0.04") < estimate < Decimal("0.041")


@pytest.mark.requirement("V11")
async def test_the_time_of_a_person_is_not_that_of_a_request(clock):
    """The deadline of the model's policy applies to its requests: an approval may come a day later."""
    policy = rb.Policy(rb.Deadline(60), rb.Retry(attempts=2))
    world = World(dear("a", 100_000), gpt("done"), dollars=1, policy=policy)
    running = asyncio.create_task(world.run("hi"))
    await until(world.budget, rb.agent.SpendState.PAUSED)
    clock.advance(86_400)
    world.budget.approve(1)
    assert await running == "done"


@pytest.mark.requirement("V11")
async def test_with_the_retry_around_it_every_attempt_is_counted(clock):
    """As the page says for users who pay for attempts that time out: a client without retries, and the Retry after the Fallback."""
    edge, budget = (
        Edge(httpx2.ReadTimeout, httpx2.ReadTimeout, gpt("hello")),
        rb.agent.SpendBudget(1),
    )
    client = rb.wrap(next(edge.clients()), rb.Policy(rb.Breaker()))

    @rb.Policy(rb.Fallback(lambda: "other"), rb.Retry(attempts=3, backoff=rb.Backoff.constant(1)))(
        idempotent=True
    )
    async def ask():
        async with budget.call("0.04") as call:
            answer = await client.chat.completions.create(model="m", messages=[])
            call.spend("0.01")
        return answer.choices[0].message.content

    assert await ask() == "hello"
    assert (edge.who, clock.slept, budget.status().spent) == (["gpt"] * 3, [1, 1], Decimal("0.09"))
