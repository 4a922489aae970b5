"""The failures of tools as a board and a model have them, and what is repeated because of them: rate limits, memory, validation."""

from __future__ import annotations

import errno
import json
import socket
from datetime import UTC, datetime

import httpx
import pytest

import resilient_bridge as rb


@pytest.mark.requirement("V16")
async def test_h11_the_report_of_a_tools_failure_needs_no_time_from_the_caller():
    """Type, message, recoverable, context with the tool, suggestion, and the time of now."""
    toolbox = rb.agent.Toolbox()

    @toolbox.tool(idempotent=True)
    async def fetch() -> None:
        raise ConnectionResetError(104, "reset")

    before = datetime.now(UTC)
    with rb.testing.virtual_time():
        outcome = await toolbox.call("fetch", {})
    report = outcome.failure.to_report()
    assert report["context"] == {"tool": "fetch", "attempt": rb.Retry().attempts}
    assert before <= datetime.fromisoformat(report["timestamp"]) <= datetime.now(UTC)
    refused = (await toolbox.call("fetc", {})).failure.to_report()
    assert refused["context"] == {"tool": "fetc"}


@pytest.mark.requirement("V6")
async def test_a_failure_of_validation_is_data_too():
    """The type for arguments that do not fit."""
    toolbox = rb.agent.Toolbox()
    toolbox.tool(lambda path: path, name="read")
    outcome = await toolbox.call("read", {"pth": "x"})
    assert json.loads(outcome.to_llm())["type"] == outcome.type == "validation"


@pytest.mark.requirement("R11")
@pytest.mark.parametrize("text", ["rate limit exceeded", "429 Too Many Requests"])
async def test_h07_a_rate_limited_command_is_reported_as_such_and_repeated_with_jitter(text):
    """ "rate_limit" for the model, and waits that are not the same for two clients."""
    toolbox = rb.agent.Toolbox(rb.presets.recursor)

    @toolbox.command(idempotent=True)
    def run() -> list[str]:
        return ["sh", "-c", f"echo '{text}' >&2; exit 1"]

    waits = []
    for seed in (1, 2):
        with rb.testing.virtual_time(seed=seed) as time:
            outcome = await toolbox.call("run", {})
        waits.append(time.slept)
    assert (outcome.type, outcome.exit_code) == ("rate_limit", 1)
    assert waits[0] != waits[1]
    assert all(wait not in (1, 2, 4) for wait in (*waits[0], *waits[1]))


@pytest.mark.requirement("R11")
@pytest.mark.parametrize("error", [OSError(errno.ENOMEM, "Cannot allocate memory"), MemoryError()])
async def test_h07_without_memory_it_is_tried_once_more(error):
    """Seed: "retry once, then fail"."""
    toolbox, calls = rb.agent.Toolbox(rb.presets.recursor), []

    @toolbox.tool(idempotent=True)
    async def run() -> None:
        calls.append(1)
        raise error

    with rb.testing.virtual_time():
        await toolbox.call("run", {})
    assert len(calls) == 2


def _answer(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://mail")
    return httpx.HTTPStatusError(
        "refused", request=request, response=httpx.Response(status, request=request)
    )


SECOND_STEPS = [
    ConnectionRefusedError(111, "mail server refused"),
    socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    httpx.ConnectError("connection refused"),
    httpx.LocalProtocolError(
        "Invalid input ConnectionInputs.RECV_DATA in state ConnectionState.CLOSED"
    ),
    _answer(429),
    _answer(401),
    RuntimeError("connect ECONNREFUSED 127.0.0.1:25"),
    RuntimeError("429 Too Many Requests"),
    RuntimeError("Unexpected token < in JSON"),
    RuntimeError("Operation incomplete"),
    RuntimeError("State mismatch"),
    rb.CircuitOpenError(
        rb.Failure.of("SYS_CIRCUIT_OPEN", "circuit open", executed=rb.errors.Executed.NO)
    ),
]


@pytest.mark.parametrize(
    ("error", "form"),
    [*((error, "async") for error in SECOND_STEPS), (SECOND_STEPS[0], "sync")],
    ids=str,
)
async def test_a01_a_tool_with_two_steps_runs_once_whatever_its_second_step_says(error, form):
    """The order is placed, then something is refused: that speaks of the last step, and the model is told that it may have run."""
    placed, toolbox = [], rb.agent.Toolbox()

    def order(item: str) -> str:
        placed.append(item)
        raise error

    async def later(item: str) -> str:
        return order(item)

    toolbox.tool(name="order", idempotent=False)(later if form == "async" else order)
    with rb.testing.virtual_time():
        outcome = await toolbox.call("order", {"item": "book"})
    assert (placed, outcome.failure.executed) == (["book"], rb.errors.Executed.MAYBE)
    assert json.loads(outcome.to_llm())["executed"] == "maybe"


@pytest.mark.parametrize(
    "text",
    ["connect ECONNREFUSED 127.0.0.1:25", "429 Too Many Requests", "Unexpected token <", "EBUSY"],
)
async def test_a01_a_command_with_two_steps_runs_once(tmp_path, text):
    """Its effect, then its error output."""
    toolbox, ledger = rb.agent.Toolbox(), tmp_path / "ledger"

    @toolbox.command
    def order() -> list[str]:
        return ["sh", "-c", f"printf x >> '{ledger}'; echo '{text}' >&2; exit 1"]

    with rb.testing.virtual_time():
        outcome = await toolbox.call("order", {})
    assert (ledger.read_text(), outcome.failure.executed is rb.errors.Executed.NO) == ("x", False)


async def test_a_tool_that_says_that_it_did_nothing_is_repeated():
    """`raise NotExecutedError from error`: executed no, also for a tool that must not run twice."""
    tries, toolbox = [], rb.agent.Toolbox()

    @toolbox.tool
    async def order(item: str) -> str:
        tries.append(item)
        if len(tries) < 3:
            raise rb.NotExecutedError from ConnectionRefusedError(111, "refused")
        return "placed"

    with rb.testing.virtual_time():
        assert (await toolbox.call("order", {"item": "book"})).value == "placed"
        toolbox.tool(name="never")(_never_runs)
        outcome = await toolbox.call("never", {})
    assert (outcome.failure.executed, outcome.attempts) == (
        rb.errors.Executed.NO,
        rb.Retry().attempts,
    )


async def _never_runs() -> None:
    raise rb.NotExecutedError from ConnectionRefusedError(111, "refused")
