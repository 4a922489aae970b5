"""A session log whose lines are those of a structured log, in the form that OpenViber prints (V16)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

import resilient_bridge as rb
from tests.internals.stores import log_line


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.requirement("V16")
async def test_h11_a_tools_failure_is_a_line_with_level_time_message_tool_error_and_duration(
    tmp_path,
):
    """{"level":"error","ts":…,"msg":…,"tool":…,"error":"timeout","duration_ms":…}"""
    toolbox = rb.agent.Toolbox(timeouts={"shell_command": 0.05})

    @toolbox.tool(name="shell_command")
    async def hang() -> None:
        import asyncio

        await asyncio.Event().wait()

    with rb.stores.SessionLog(tmp_path / "log.jsonl", form="log"):
        await toolbox.call("shell_command", {})
    line = next(one for one in read(tmp_path / "log.jsonl") if one["msg"].startswith("Tool failed"))
    assert (line["level"], line["tool"], line["error"], line["code"]) == (
        "error", "shell_command", "timeout", "TOOL_TIMEOUT",
    )  # fmt: skip
    assert line["duration_ms"] >= 50
    assert datetime.fromisoformat(line["ts"]).tzinfo is not None


@pytest.mark.requirement("V16")
def test_h11_a_repeat_is_a_warning_with_its_attempt(tmp_path):
    """{"level":"warn","ts":…,"msg":…,"attempt":2,"error":"rate_limit"}, and no secret in it."""
    failure = rb.Failure.of(
        "SYS_RATE_LIMITED",
        "no more for api_key=sk-abcdefgh12345678",
        details={"provider_id": "anthropic"},
    )
    event = rb.events.RetryScheduled(
        at=datetime.now(UTC), name="ask", attempt=2, wait=1.0, failure=failure
    )
    line = json.loads(log_line(event))
    assert (line["level"], line["attempt"], line["error"], line["provider"]) == (
        "warn",
        2,
        "rate_limit",
        "anthropic",
    )
    assert "sk-abcdefgh12345678" not in json.dumps(line)


def test_h11_a_form_that_there_is_none_of_is_refused(tmp_path):
    """Named, before anything is written."""
    with pytest.raises(rb.ConfigError, match=r"SessionLog\.form"):
        rb.stores.SessionLog(tmp_path / "log.jsonl", form="xml")
