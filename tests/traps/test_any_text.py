"""Text from a peer, a model or a tool, at every entry point of the package: nothing raises because of it.

Rule: classification, redaction, suggestions, records, notes and events take any text of any length.
"""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import redact, redact_lines, redact_value
from resilient_bridge.testing import virtual_time
from tests.agent.workflow.flows import Flow
from tests.calls.forms import at_once
from tests.protocol.driving import Rig
from tests.threats.watching import Watch, push, simulated


WHITE = [
    " " * 8_193,
    "\n" * 8_193,
    "\u3000" * 20_000,
    " " * 8_192 + "x",
    "x" * 8_193,
    "\x1c" * 9_000,
]


@pytest.mark.parametrize("text", WHITE)
def test_d01_blank_text_of_any_length_is_only_text(text):
    """More white space than redaction reads is masked, classified, suggested for and shown like any other text."""
    assert len(redact(text)) <= 500
    redact_lines(text, limit=100)
    redact_value({text: [text, text.encode()]})
    failure = rb.classify(RuntimeError(text))
    assert failure.code
    assert rb.classify(text) is None or rb.classify(text).code
    failure.explain(), failure.to_llm(), failure.to_dict(), failure.to_mcp(), str(failure)
    rb.agent.suggest(RuntimeError(text))
    rb.Failure.of("CONN_RESET", text, details={"error": text}, suggestions=(text,)).explain()


@pytest.mark.parametrize("text", WHITE)
def test_d01_a_tool_that_fails_with_blanks_returns_an_outcome(text):
    """`Toolbox.call` returns a failed outcome; `capture` keeps the error that was raised."""
    toolbox = rb.agent.Toolbox(rb.Policy(at_once(attempts=1)))

    @toolbox.tool
    def blank() -> None:
        raise RuntimeError(text)

    outcome = asyncio.run(toolbox.call("blank", {}))
    assert type(outcome.error) is RuntimeError
    assert json.loads(outcome.to_llm())["code"]
    assert asyncio.run(toolbox.call(text, {text: text})).failure.code == "TOOL_NOT_FOUND"


def test_d01_a_passing_failure_with_blanks_is_repeated():
    """A blank text does not prevent retries."""
    calls = []

    @rb.Policy(rb.Retry(backoff=rb.Backoff.constant(1), attempts=3, on=(ConnectionError,)))(
        idempotent=True
    )
    def call() -> None:
        calls.append(1)
        raise ConnectionError(" " * 8_193)

    with virtual_time(), pytest.raises(ConnectionError):
        call()
    assert len(calls) == 3


@pytest.mark.parametrize("text", WHITE[:2])
async def test_d01_a_phase_that_fails_with_blanks_halts_its_workflow(text, tmp_path):
    """The workflow ends in its own typed halt, and the state file holds the failure."""
    flow = Flow(tmp_path).build()

    async def act(phase):
        raise RuntimeError(text)

    flow.acts["b"] = act
    report = await flow.flow.run()
    assert report.status == "halted"
    assert flow.value()["errors"]


def _errors(text):
    details = {"a": text, text: {"b": [text] * 3}}
    yield {"code": text, "message": "m"}
    yield {"code": "SYS_INTERNAL_ERROR", "message": text, "details": details}
    yield {
        "code": "PROTO_INVALID_MESSAGE",
        "violations": [{"field": text, "constraint": text, "received": text}],
    }
    yield {
        "code": text,
        "message": text,
        "request_type": text,
        "retryable": text,
        "retry_after": text,
    }


@pytest.mark.parametrize("text", WHITE[:4])
@simulated
async def test_d01_error_frames_of_blanks_leave_a_ready_client_ready(server, text):
    """Whatever field holds them: the frame is an event, and the next message arrives over the same connection."""
    async with Watch(server.url) as watch:
        await watch.ready()
        for payload in _errors(text):
            for type_ in ("error", "connection_error", text):
                frame = {"type": type_, "id": text, "timestamp": text, "payload": payload}
                if type_ != "connection_error":
                    await server.push_raw(json.dumps(frame))
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        assert watch.client.state == "READY"
        assert len(server.connect_times) == 1


@pytest.mark.parametrize("text", WHITE[:4])
@pytest.mark.parametrize("state", ["AUTHENTICATING", "JOINING", "REPLAYING"])
def test_d01_error_frames_of_blanks_during_the_join_are_classified(text, state):
    """The session core stays sound: it goes on, or ends the connection with a typed failure."""
    for payload in _errors(text):
        for type_ in ("error", "connection_error"):
            rig = Rig().up()
            rig.lose()
            rig.connect()
            if state == "JOINING":
                rig.authenticate()
            if state == "REPLAYING":
                rig.join()
            assert rig.state == state
            rig.hear(type_, payload, id=text)
            rig.idle(60.0)


async def test_g01_what_a_tool_printed_reaches_no_file_with_its_secrets(tmp_path):
    """Secrets in its error output and arguments are in no outcome, report, state file or backup."""
    flow = Flow(tmp_path).build()
    printed = "<password>CANARY-1</password> then\ncurl -u bob:CANARY-2 http://host/?jwt=CANARY-3"

    async def act(phase):
        raise subprocess.CalledProcessError(3, ["tool"], output=printed, stderr=printed)

    flow.acts["b"] = act
    report = await flow.flow.run()
    failure = rb.classify(
        subprocess.CalledProcessError(3, ["tool"], output=printed, stderr=printed)
    )
    shown = [
        report.explain(),
        repr(report),
        failure.to_llm(),
        failure.explain(),
        str(failure.to_dict()),
    ]
    shown += [
        path.read_text() for path in tmp_path.iterdir() if path.is_file() and path.suffix != ".txt"
    ]
    assert not [text for text in shown if "CANARY" in text]
