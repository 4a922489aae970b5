"""What a bridge of agents reports when something is wrong, as its client sees it over stdio (stdiobus, both tables of scenarios)."""

from __future__ import annotations

import sys

import pytest

import resilient_bridge as rb
from tests.rows import each_row


pytestmark = pytest.mark.real

# A bridge that says of each method what the table says of that scenario, in the form of S2: code, message, and data.
BRIDGE = """
import json, os, sys
CODES = {"CONFIG": -32004, "AUTH": -32003, "UPSTREAM": -32002, "TRANSPORT": -32000, "TIMEOUT": -32001, "INTERNAL": -32603}
for line in sys.stdin:
    asked = json.loads(line)
    said = asked["params"]
    if asked["method"] == "die":
        os._exit(1)
    error = {"code": CODES[said["type"]], "message": said["message"], "data": {**said}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
"""

IN_PROCESS = [
    ("INTERNAL", "Executor not started", False, True),
    ("UPSTREAM", "Agent not found: nobody", False, True),
    ("UPSTREAM", "Session capacity reached", False, True),
    ("UPSTREAM", "Session not found: abc-123", False, False),
    ("UPSTREAM", "Agent helper failed", False, True),
    ("CONFIG", "No agents registered", False, True),
]
WORKERS = [
    ("TRANSPORT", "Failed to start StdioBus", False, True),
    ("UPSTREAM", "Worker w1 failed: prompt", False, True),
    ("TRANSPORT", "Worker w1 timed out", True, True),
    ("INTERNAL", "Executor not started", False, True),
    ("UPSTREAM", "Invalid worker response: missing sessionId", False, True),
    ("UPSTREAM", "Invalid worker response: malformed prompt result", False, True),
    ("TRANSPORT", "Server overloaded", True, True),
    ("UPSTREAM", "Prompt exceeds maximum size", False, True),
    ("UPSTREAM", "Metadata exceeds maximum size", False, True),
]


async def reported(kind: str, message: str, retryable: bool, session_valid: bool) -> rb.Failure:
    """What a client over a link to such a bridge gets to see."""
    fields = {
        "type": kind,
        "message": message,
        "retryable": retryable,
        "sessionValid": session_valid,
    }
    policy = rb.Policy(rb.Retry(attempts=1))
    link = rb.reconnecting(rb.links.stdio(sys.executable, "-c", BRIDGE), policy)
    async with link as peer:
        with pytest.raises(rb.BridgeError) as caught:
            await peer.request("say", fields)
        assert (
            link.health().reconnects == 0
        )  # an answer, even of a session that is lost, is no lost connection
    return rb.classify(caught.value)


def check(failure: rb.Failure, kind: str, message: str, retryable: bool) -> None:
    """Category, words, permission to repeat; and a report that reads well without a trace (S7)."""
    assert failure.category is rb.Category[kind]
    assert message in failure.message
    assert failure.retryable is retryable
    failure_ = failure.explain()
    assert message in failure_
    assert kind in failure_
    assert "Traceback" not in failure_


@pytest.mark.requirement("S3")
@pytest.mark.requirement("S7")
@pytest.mark.parametrize(("kind", "message", "retryable", "session_valid"), IN_PROCESS, ids=str)
async def test_the_in_process_scenarios(kind, message, retryable, session_valid):
    """Not started, unknown agent, full, unknown session, agent failed, no agents: each with its category."""
    failure = await reported(kind, message, retryable, session_valid)
    check(failure, kind, message, retryable)
    assert failure.session_valid is session_valid


@pytest.mark.requirement("S4")
@pytest.mark.requirement("S5")
@each_row(("kind", "message", "retryable", "session_valid"), WORKERS, ids=str)
async def test_the_worker_scenarios(kind, message, retryable, session_valid):
    """Start failed, request failed, timed out, malformed, overloaded, too large: an answer, so the link goes on."""
    check(await reported(kind, message, retryable, session_valid), kind, message, retryable)


@pytest.mark.requirement("S4")
async def test_what_is_marked_retryable_is_repeated_and_the_child_lives_on():
    """A worker that timed out is asked again, under the policy that takes the mark for permission; the answer comes from the same child."""
    bridge = """
import json, os, sys
n = 0
for line in sys.stdin:
    asked = json.loads(line)
    n += 1
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if n == 1:
        answer["error"] = {"code": -32000, "message": "Worker w1 timed out", "data": {"type": "TRANSPORT", "retryable": True}}
    else:
        answer["result"] = [n, os.getpid()]
    print(json.dumps(answer), flush=True)
"""
    policy = rb.presets.stdiobus.evolve(
        calls=rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0.01)))
    )
    link = rb.reconnecting(rb.links.stdio(sys.executable, "-c", bridge), policy)
    async with link as peer:
        calls, _ = await peer.request("sessions_prompt", {})
        assert calls == 2
        assert link.health().reconnects == 0


@pytest.mark.requirement("S11")
async def test_after_a_failure_health_tells_whether_the_bridge_is_ready():
    """Ready while there is a child; not ready, with the reason and the last failure, while there is none."""
    patient = rb.presets.default.evolve(
        reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(60))
    )
    link = rb.reconnecting(rb.links.stdio(sys.executable, "-c", BRIDGE), patient)
    async with link as peer:
        assert link.health().ready
        with pytest.raises(rb.OutcomeUnknownError):
            await peer.request("die", {})
        async for event in link.events():
            if isinstance(event, rb.events.ReconnectScheduled):
                break
        health = link.health()
        assert not health.ready
        assert health.failure is not None
        assert health.failure.details["exit_code"] == 1
        assert 50 < health.retry_in <= 60


@pytest.mark.requirement("G5")
@pytest.mark.parametrize("code", [126, 127])
@pytest.mark.parametrize("when", ["at once", "asked"])
async def test_what_cannot_be_run_is_not_started_again(code, when, tmp_path):
    """126 and 127 are a configuration: one start, FAILED, and what to do; also if it comes out only with the first request."""
    starts = tmp_path / "starts"
    wait = "read line; " if when == "asked" else ""
    child = rb.links.stdio("sh", "-c", f"echo >> {starts}; {wait}exit {code}")
    link = rb.reconnecting(
        child,
        rb.bridge.BridgePolicy(reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.01))),
        patience=5,
    )
    with pytest.raises(rb.BridgeError) as caught:
        async with link as peer:
            await peer.request("ping")
            await peer.request("ping")
    failure = rb.classify(caught.value)
    assert link.state in (rb.bridge.BridgeState.FAILED, rb.bridge.BridgeState.CLOSED)
    assert failure.details["exit_code"] == code
    assert link.health().reconnects == 0
    assert len(starts.read_text().splitlines()) == 1
