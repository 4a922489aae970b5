"""A02: a call that returns its failure says why it stopped, as one that raises it does."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

import resilient_bridge as rb
from tests.calls.forms import everywhere


POST = httpx.Request("POST", "http://host")
DOWN = {"error": {"code": "SYS_UNAVAILABLE", "message": "down"}}
at_once = rb.Backoff.constant(0)


def answer(status: int) -> httpx.Response:
    """An answer of a server to a POST."""
    return httpx.Response(
        status, request=POST, headers={"retry-after": "600"} if status == 429 else {}
    )


@everywhere
@pytest.mark.parametrize(
    ("idempotent", "status", "stopped", "attempts"),
    [
        (False, 503, "not_idempotent", 1),
        (True, 503, "attempts", 3),
        (True, 429, "retry_after", 1),
        (True, 400, "not_retryable", 1),
    ],
)
def test_a02_an_answer_that_is_a_failure_says_why_it_was_not_repeated(
    form, idempotent, status, stopped, attempts
):
    """`outcome.failure.stopped` and its history are there for an answer, too."""
    with form.world():
        ask = rb.Policy(rb.Retry(attempts=3, backoff=at_once))(
            form.of(lambda: answer(status)), idempotent=idempotent
        )
        outcome = form.run(rb.capture, ask)
    assert (outcome.failure.stopped, outcome.attempts) == (stopped, attempts)
    assert len(outcome.failure.history) == attempts - 1
    report = json.loads(outcome.to_llm())
    assert report["recoverable"] is (outcome.failure.retryable and stopped != "not_idempotent")
    assert ("find out whether it did" in report["suggestion"]) is (stopped == "not_idempotent")


def test_a02_a_model_is_not_invited_to_repeat_a_post_that_was_answered_by_503():
    """Nothing allows the repeat, and the request may have had its effect."""
    client = httpx.Client(
        transport=rb.HTTPTransport(None, httpx.MockTransport(lambda _: answer(503)))
    )
    report = json.loads(rb.capture(client.post, "http://host").to_llm())
    assert (report["recoverable"], report["executed"]) == (False, "maybe")


@pytest.mark.parametrize(("idempotent", "invited"), [(True, True), (False, False), (None, False)])
def test_a02_nor_a_tool_that_returned_its_failure(idempotent, invited):
    """As a tool that raises: only `idempotent=True` allows it."""
    toolbox = rb.agent.Toolbox(rb.Policy(rb.Retry(attempts=2, backoff=at_once)))

    @toolbox.tool(idempotent=idempotent)
    async def order() -> dict[str, Any]:
        """Order it."""
        return DOWN

    report = json.loads(asyncio.run(toolbox.call("order", {})).to_llm())
    assert (report["recoverable"], report["executed"]) == (invited, "maybe")


def test_a02_who_is_asked_before_a_fallback_sees_why_the_call_stopped():
    """`acknowledge` on the page of Fallback asks for `stopped`."""
    seen: list[str | None] = []

    def agreed(failure: rb.Failure) -> bool:
        seen.append(failure.stopped)
        return True

    policy = rb.Policy(
        rb.Fallback(lambda: "cached", acknowledge=agreed), rb.Retry(attempts=2, backoff=at_once)
    )
    assert policy(lambda: answer(503), idempotent=True)() == "cached"
    assert seen == ["attempts"]


@everywhere
@pytest.mark.parametrize(
    "returned", [lambda: {"from": "the cache"}, lambda: answer(200), lambda: 5]
)
def test_a02_a_function_that_handled_the_failure_of_a_call_inside_has_worked(form, returned):
    """What `capture` says is about what was returned, and not about an answer that was left behind."""
    with form.world():
        ask = rb.Policy(rb.Retry(attempts=1))(lambda: answer(503), idempotent=True)

        def work() -> Any:
            assert ask().status_code == 503
            return returned()

        outcome = form.run(rb.capture, form.of(work))
        assert (outcome.ok, outcome.failure) == (True, None)
        outcome = form.run(
            rb.capture, form.of(ask)
        )  # returned as it is, through a function around it
        assert outcome.failure.code == "SYS_UNAVAILABLE"
