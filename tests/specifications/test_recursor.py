"""ReCursor's own words as input, where no other test has them: its codes, the bounds of its buffer, its tool error."""

from __future__ import annotations

import json

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import classify
from resilient_bridge.testing import Behaviour, virtual_time
from tests.rows import each_row


# the last column of "Error Categories" beside its prefix
CATEGORIES = """\
| Connection | CONN_ | Transport-level failures | CONN_WEBSOCKET_CLOSED |
| Authentication | AUTH_ | Token/identity failures | AUTH_TOKEN_EXPIRED |
| Protocol | PROTO_ | Message format violations | PROTO_INVALID_MESSAGE |
| Session | SESS_ | Session lifecycle errors | SESS_NOT_FOUND |
| Tool | TOOL_ | Tool execution failures | TOOL_EXECUTION_FAILED |
| Hook | HOOK_ | Hook event errors | HOOK_VALIDATION_FAILED |
| System | SYS_ | Internal server errors | SYS_INTERNAL_ERROR |
"""
TOOL_ERROR = """{ "type": "tool_error", "payload": { "tool_call_id": "tool-abc123", "tool": "bash",
  "code": "TOOL_EXECUTION_FAILED", "message": "Command exited with code 1",
  "details": { "exit_code": 1, "stderr": "error: file not found", "stdout": "", "execution_time_ms": 150 },
  "retryable": true, "max_retries": 3 }}"""


@pytest.mark.requirement("R1")
@each_row("line", CATEGORIES.splitlines())
def test_each_example_of_a_category_is_one_typed_record(line):
    """As the text of an error and as the code of a bridge's message: the code stays, and its prefix is the row's."""
    _, prefix, _, code = (cell.strip() for cell in line.strip("|").split("|"))
    message = {"type": "error", "payload": {"code": code, "message": "m"}}
    for failure in (classify(RuntimeError(code)), classify(message)):
        assert isinstance(failure, rb.Failure)
        assert failure.code == code
        assert failure.code.startswith(prefix)


@pytest.mark.requirement("R11")
def test_the_tool_error_of_the_specification_is_read():
    """Exit code, both streams, the tool and its call, and the server's word on repeats."""
    failure = classify(json.loads(TOOL_ERROR))
    assert (failure.code, failure.message) == (
        "TOOL_EXECUTION_FAILED",
        "Command exited with code 1",
    )
    assert failure.retryable  # the server's mark, though the table says "File not found: No"
    wanted = {
        "exit_code": 1,
        "stderr": "error: file not found",
        "stdout": "",
        "execution_time_ms": 150,
    }
    wanted |= {"tool": "bash", "tool_call_id": "tool-abc123", "max_retries": 3}
    assert {name: failure.details.get(name) for name in wanted} == wanted


@pytest.mark.requirement("R11")
async def test_what_is_sent_for_a_failed_command_is_that_tool_error():
    """The same fields, from a command that prints these words; its cause is in the table, so nothing is to be repeated."""
    toolbox = rb.agent.Toolbox()

    @toolbox.command
    def bash() -> list[str]:
        return ["sh", "-c", "echo error: file not found >&2; exit 1"]

    outcome = await toolbox.call("bash", {})
    printed, sent = json.loads(TOOL_ERROR), outcome.to_tool_error("tool-abc123")
    assert sent["payload"].keys() == printed["payload"].keys()
    assert sent["payload"]["details"].keys() == printed["payload"]["details"].keys()
    details = {**sent["payload"]["details"], "stderr": sent["payload"]["details"]["stderr"].strip()}
    assert details == {
        **printed["payload"]["details"],
        "execution_time_ms": details["execution_time_ms"],
    }
    assert (sent["payload"]["retryable"], sent["payload"]["max_retries"]) == (False, 0)


RETRYABLE = """\
| Network timeout | Yes | Exponential backoff |
| File not found | No | Fail immediately |
| Permission denied | No | Fail immediately |
| Rate limited | Yes | Backoff with jitter |
| Out of memory | Maybe | Retry once, then fail |
"""
CALLS = {"Yes": 4, "No": 1, "Maybe": 2}


@pytest.mark.requirement("R11")
@each_row("line", RETRYABLE.splitlines())
def test_each_line_of_the_table_of_causes(line):
    """The first cell as the text of an error: so many calls, and waits of 1, 2, 4 s at most, spread where it says jitter."""
    text, again, strategy = (cell.strip() for cell in line.strip("|").split("|"))

    @rb.presets.recursor.calls(idempotent=True)
    def ask() -> None:
        raise RuntimeError(text)

    with virtual_time() as time:
        outcome = rb.capture(ask)
    assert outcome.attempts == CALLS[again] == len(time.slept) + 1
    assert all(wait <= most for wait, most in zip(time.slept, (1, 2, 4), strict=False))
    assert (time.slept == [1, 2, 4][: len(time.slept)]) == ("jitter" not in strategy)


@pytest.mark.requirement("R14")
def test_the_bounds_of_the_buffer_are_the_printed_ones():
    """`maxSize` "100KB default" and `maxAge` "30 minutes": what the embedded bridge keeps."""
    size, age = "100KB default", "30 minutes"
    assert Behaviour().replay_bytes == int(size.partition("KB")[0]) * 1024
    assert Behaviour().replay_age == int(age.partition(" ")[0]) * 60
