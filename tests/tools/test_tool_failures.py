"""The failures of tools as a board and a model have them, and what is repeated because of them: rate limits, memory, validation."""

from __future__ import annotations

import errno
import json
from datetime import UTC, datetime

import pytest

import resilient_bridge as rb


@pytest.mark.requirement("V16")
async def test_h11_the_report_of_a_tools_failure_needs_no_time_from_the_caller():
    """Type, message, recoverable, context with the tool, suggestion, and the time of now."""
    toolbox = rb.Toolbox()

    @toolbox.tool(idempotent=True)
    async def fetch() -> None:
        raise ConnectionResetError(104, "reset")

    before = datetime.now(UTC)
    with rb.testing.virtual_time():
        report = (await toolbox.call("fetch", {})).failure.to_report()
    assert report["context"] == {"tool": "fetch", "attempt": 4}
    assert before <= datetime.fromisoformat(report["timestamp"]) <= datetime.now(UTC)
    refused = (await toolbox.call("fetc", {})).failure.to_report()
    assert refused["context"] == {"tool": "fetc"}


@pytest.mark.requirement("V6")
async def test_a_failure_of_validation_is_data_too():
    """The type for arguments that do not fit."""
    toolbox = rb.Toolbox()
    toolbox.tool(lambda path: path, name="read")
    outcome = await toolbox.call("read", {"pth": "x"})
    assert json.loads(outcome.to_llm())["type"] == outcome.type == "validation"


@pytest.mark.requirement("R11")
@pytest.mark.parametrize("text", ["rate limit exceeded", "429 Too Many Requests"])
async def test_h07_a_rate_limited_command_is_told_as_such_and_repeated_with_jitter(text):
    """ "rate_limit" for the model, and waits that are not the same for two clients."""
    toolbox = rb.Toolbox(rb.presets.recursor)

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
    toolbox, calls = rb.Toolbox(rb.presets.recursor), []

    @toolbox.tool(idempotent=True)
    async def run() -> None:
        calls.append(1)
        raise error

    with rb.testing.virtual_time():
        await toolbox.call("run", {})
    assert len(calls) == 2
