"""Model calls of the how-to page's agent loop: what is retried and when, when the other model is used, what fails at once."""

from __future__ import annotations

from decimal import Decimal

import anthropic
import httpx2
import openai
import pytest

import resilient_bridge as rb
from tests.agent.agent_loop import World, calling, claude, gpt, refused


@pytest.fixture(autouse=True)
def clock():
    """Use virtual time."""
    with rb.testing.virtual_time() as clock:
        yield clock


def names(recorded):
    """Return the class names of the events, without those of single attempts."""
    return [
        type(event).__name__
        for event in recorded
        if not isinstance(event, rb.events.RetryScheduled)
    ]


# ---- one provider, repeated -----------------------------------------------------------------------------------------
@pytest.mark.requirement("V2")
@pytest.mark.parametrize(
    ("headers", "wait"), [({"retry_after": "7"}, 7), ({"retry_after_ms": "90000"}, 90), ({}, 60)]
)
async def test_a_rate_limit_waits_for_its_header_or_sixty_seconds(clock, headers, wait):
    """A 429 waits for its Retry-After, in either form, or else 60 s; the second request is answered."""
    world = World(refused(429, **headers), gpt("hello"))
    assert await world.run("hi") == "hello"
    assert (clock.slept, world.edge.who, world.board.asked) == ([wait], ["gpt"] * 2, [])


@pytest.mark.requirement("V2")
async def test_a_local_provider_is_asked_again_at_once(clock):
    """With the preset's row for local providers there is no wait, whatever failed."""
    world = World(
        refused(503), httpx2.ConnectError, gpt("hello"), policy=rb.presets.openviber.tools["local"]
    )
    assert await world.run("hi") == "hello"
    assert (sum(clock.slept), world.edge.who) == (0, ["gpt"] * 3)


@pytest.mark.requirement("V2")
@pytest.mark.parametrize(
    "failing", [refused(500), refused(503), refused(529), httpx2.ReadError, httpx2.ReadTimeout]
)
async def test_what_passes_is_repeated(clock, failing):
    """After server errors and lost connections the same request is retried after 1 and 2 s, because a model call is idempotent."""
    world = World(failing, failing, gpt("hello"))
    assert await world.run("hi") == "hello"
    assert (clock.slept, world.edge.who, world.board.asked) == ([1, 2], ["gpt"] * 3, [])
    (_, first), *others = world.edge.asked
    assert [body for _, body in others] == [first] * 2


# ---- the other one --------------------------------------------------------------------------------------------------
@pytest.mark.requirement("V4")
async def test_after_repeated_failure_the_other_model_answers(clock):
    """After three requests the switch is confirmed and reported; the other provider gets the conversation and the tool results."""
    world = World(
        gpt(None, calling("read_file", {"path": "a"})),
        *[refused(500)] * 3,
        refused(529),
        claude("from claude"),
    )
    with rb.testing.record() as recorded:
        assert await world.run("hi") == "from claude"
    assert world.edge.who == ["gpt"] * 4 + ["claude"] * 2
    assert (clock.slept, world.ran) == ([1, 2, 1], ["a"])
    assert names(recorded) == ["GaveUp", "FellBack", "RetryRecovered"]
    assert [(each.code, each.stopped) for each in world.board.asked] == [
        ("SYS_UNAVAILABLE", "attempts")
    ]
    words = world.edge.asked[-1][1]
    assert words["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "call_1", "name": "read_file", "input": {"path": "a"}}
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "call_1",
                    "content": '{"ok": true, "result": "what is in a"}',
                }
            ],
        },
    ]
    assert [tool["name"] for tool in words["tools"]] == ["read_file", "look_at"]


@pytest.mark.requirement("V4")
async def test_a_switch_that_is_refused_is_none():
    """If the board refuses, the SDK's own error is raised, as the same object, and the other provider is not called."""
    world = World(*[refused(500)] * 3, claude("never"), board=False)
    with rb.testing.record() as recorded, pytest.raises(openai.InternalServerError) as raised:
        await world.run("hi")
    assert world.board.asked[0].cause is raised.value
    assert (world.edge.who, names(recorded)) == (["gpt"] * 3, ["GaveUp"])
    assert any("gave up after 3 calls" in note for note in raised.value.__notes__)


@pytest.mark.requirement("V4")
async def test_an_empty_account_is_asked_once_and_the_board_at_once(clock):
    """With 429 insufficient_quota there is no wait and no retry, and the board gets the exhausted quota."""
    world = World(refused(429, "quota"), claude("from claude"))
    assert await world.run("hi") == "from claude"
    assert (clock.slept, world.edge.who) == ([], ["gpt", "claude"])
    assert [each.details["reason"] for each in world.board.asked] == ["quota_exhausted"]


@pytest.mark.requirement("V4")
async def test_what_the_other_model_calls_runs_and_the_first_one_reads_on():
    """A round of the other model is part of the conversation: the first model then gets its call and its result."""
    world = World(
        refused(429, "quota"),
        claude("let me look", ("toolu_1", "read_file", {"path": "b"})),
        gpt("done"),
    )
    assert await world.run("hi") == "done"
    assert (world.edge.who, world.ran) == (["gpt", "claude", "gpt"], ["b"])
    *_, message, result = world.edge.asked[-1][1]["messages"]
    assert (message["content"], message["tool_calls"][0]["id"]) == (
        "let me look",
        result["tool_call_id"],
    )


@pytest.mark.requirement("V4")
async def test_when_both_fail_the_last_error_comes_out(clock):
    """After three requests each, the other SDK's own error is raised, with the first one as its context."""
    world = World(*[refused(500)] * 3, *[refused(529)] * 3)
    with pytest.raises(anthropic.OverloadedError) as raised:
        await world.run("hi")
    assert (world.edge.who, clock.slept) == (["gpt"] * 3 + ["claude"] * 3, [1, 2, 1, 2])
    chain, error = [], raised.value
    while error is not None:
        chain.append(type(error))
        error = error.__context__
    assert openai.InternalServerError in chain


async def test_a_circuit_that_is_open_asks_the_other_one_without_a_request():
    """With a breaker in the policy an open circuit sends no request to the first provider, but asks for the switch."""
    policy = rb.Policy(
        rb.Retry(attempts=2, backoff=rb.Backoff.constant(1)), rb.Breaker.consecutive(2, open_for=30)
    )
    call = ("toolu_1", "read_file", {"path": "b"})
    world = World(*[refused(500)] * 2, claude("", call), claude("done"), policy=policy)
    assert await world.run("hi") == "done"
    assert world.edge.who == ["gpt"] * 2 + ["claude"] * 2
    assert [each.code for each in world.board.asked] == ["SYS_UNAVAILABLE", "SYS_CIRCUIT_OPEN"]


# ---- what fails at once ---------------------------------------------------------------------------------------------
@pytest.mark.requirement("V3")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refused(401, "key"), openai.AuthenticationError),
        (refused(400), openai.BadRequestError),
        (refused(400, "policy"), openai.BadRequestError),
    ],
)
async def test_a_failure_that_no_other_model_can_avoid_is_raised_at_once(clock, answer, kind):
    """401, 400 and refused content: one request, no wait, no switch; the SDK's own error, and no key in any report of it."""
    world = World(answer)
    with rb.testing.record() as recorded, pytest.raises(kind) as raised:
        await world.run("hi")
    assert (clock.slept, world.edge.who, world.board.asked) == ([], ["gpt"], [])
    failure = rb.classify(raised.value)
    assert all(
        "sk-secret" not in text for text in (failure.explain(), failure.to_llm(), repr(recorded))
    )
    spent = (
        world.budget.status().spent
    )  # only a 401 proves that nothing ran; otherwise the estimate counts
    assert (
        spent == 0
        if kind is openai.AuthenticationError
        else Decimal("0.04") < spent < Decimal("0.041")
    )
