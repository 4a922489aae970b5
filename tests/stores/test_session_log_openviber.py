"""A session log in OpenViber's own form: its two sample lines, byte for byte, from events with the sample's times."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

import resilient_bridge as rb
from resilient_bridge.telemetry import emit
from tests.internals.stores import log_line, viber_line
from tests.reference import records
from tests.stores.test_session_lines import example_of


FAILED = (
    b'{"level":"error","ts":"2024-01-15T10:30:00Z","msg":"Tool execution failed","tool":"shell_command",'
    b'"error":"timeout","duration_ms":30000}\n'
)
RETRYING = (
    b'{"level":"warn","ts":"2024-01-15T10:30:01Z","msg":"Retrying LLM request","provider":"anthropic",'
    b'"attempt":2,"error":"rate_limit"}\n'
)


def events():
    """What those lines tell of."""
    timeout = rb.Failure.of("TOOL_TIMEOUT", details={"tool": "shell_command"})
    limited = rb.Failure.of("SYS_RATE_LIMITED", details={"provider_id": "anthropic"})
    return (
        rb.events.ToolFailed(
            at=datetime(2024, 1, 15, 10, 30, 0, 250_000, UTC),
            tool="shell_command", required=True, failure=timeout, seconds=30.0,
        ),
        rb.events.RetryScheduled(
            at=datetime(2024, 1, 15, 10, 30, 1, tzinfo=UTC), name="ask", attempt=2, wait=1.0, failure=limited
        ),
    )  # fmt: skip


@pytest.mark.requirement("V16")
def test_the_sample_lines_byte_for_byte():
    """Keys, their order, the words, the time to the second with a Z."""
    assert tuple(map(viber_line, events())) == (FAILED, RETRYING)


@pytest.mark.requirement("V14", "V16")
def test_a_session_log_writes_them(tmp_path):
    """Appended to a file of JSON lines; every other event has the same keys, and no more."""
    path = tmp_path / ".openviber/vibers/v1/sessions/s1.jsonl"
    path.parent.mkdir(parents=True, mode=0o700)
    with rb.stores.SessionLog(path, form="openviber"):
        for event in events():
            emit(event)
        rb.capture(rb.Policy(rb.Breaker.consecutive(1, open_for=5))(lambda: 1 / 0))
    first, second, *others = path.read_bytes().splitlines(keepends=True)
    assert (first, second) == (FAILED, RETRYING)
    assert others
    allowed = {"level", "ts", "msg", "tool", "provider", "attempt", "error", "duration_ms"}
    assert all(set(json.loads(line)) <= allowed for line in others)


@pytest.mark.parametrize("form", [log_line, viber_line])
@pytest.mark.parametrize(
    "at", ["2024-01-15", None, datetime.max.replace(tzinfo=timezone(-timedelta(hours=9)))]
)
def test_an_event_with_a_wrong_time_is_a_line_all_the_same(form, at):
    """It says what could not be read, as for every other event of somebody else's."""
    line = json.loads(
        form(
            rb.events.ToolFailed(
                at=at, tool="t", required=True, failure=rb.Failure.of("TOOL_TIMEOUT")
            )
        )
    )
    assert (line["level"], line["ts"], list(line)) == ("error", None, ["level", "ts", "msg"])
    assert line["msg"].startswith("an event that cannot be read: ")


@pytest.mark.parametrize("cls", records(), ids=lambda cls: cls.__name__)
def test_every_event_has_the_lines_of_the_structured_form(cls):
    """The same values as in the form `log`, apart from the time and OpenViber's two sentences."""
    event = example_of(cls)
    ours, theirs = json.loads(log_line(event)), json.loads(viber_line(event))
    assert theirs["ts"] == "2026-03-20T14:32:00Z"
    assert set(theirs) == set(ours) & {
        "level", "ts", "msg", "tool", "provider", "attempt", "error", "duration_ms",
    }  # fmt: skip
    changed = {"ts"} | ({"msg"} if cls is rb.events.ToolFailed else set())
    assert {name: value for name, value in theirs.items() if name not in changed} == {
        name: ours[name] for name in theirs if name not in changed
    }


async def test_t03_a_tool_that_fails_is_one_error(tmp_path):
    """What its policy says of the same call is no second one; a call inside of it, or beside it, stays an error."""
    tools, path = rb.agent.Toolbox(), tmp_path / "s1.jsonl"

    @rb.Policy(rb.Retry(attempts=2, backoff=rb.Backoff.constant(0)), name="ask")(idempotent=True)
    async def ask():
        raise ConnectionResetError

    @tools.tool(timeout=0.01)
    async def slow() -> None:
        """Wait."""
        await asyncio.sleep(60)

    @tools.tool
    async def asks() -> None:
        """Ask somebody."""
        await rb.capture(ask)

    def errors():
        lines = map(json.loads, path.read_text().splitlines())
        return [line["msg"].partition(":")[0] for line in lines if line["level"] == "error"]

    with rb.stores.SessionLog(path, form="openviber"):
        assert not (await tools.call("slow", {})).ok
        assert errors() == ["Tool execution failed"]
        await tools.call("asks", {})
        assert "Gave up" in errors()
