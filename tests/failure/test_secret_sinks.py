"""SEC1: a text with a secret, sent to everything that shows or keeps a text; each sink is read as its reader reads it."""

from __future__ import annotations

import json
import logging

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox
from resilient_bridge.failure import Failure, error_for
from resilient_bridge.report import Incident, page
from resilient_bridge.telemetry import emit
from tests.exporters.otel_sdk import Telemetry
from tests.exporters.test_prometheus import Scraped
from tests.failure.corpora import ROUNDS, parts_of, texts
from tests.internals.adapters import message


def _sample():
    """Every tenth text of the rounds, but for those that are known to leak."""
    for number in ROUNDS:
        found = texts(f"secrets_{number}")
        yield from (one for one in found[::10] if one.source not in ROUNDS[number].leaking)


SAMPLE = list(_sample())


def _failure(text):
    return Failure.of(
        "SYS_INTERNAL_ERROR", text, details={"error": text, "items": [text, {"inner": text}]}
    )


def _fail(text):
    @rb.Policy(rb.Retry(attempts=2, backoff=rb.Backoff.constant(0)))(idempotent=True)
    def fails():
        raise error_for(_failure(text))

    with pytest.raises(rb.BridgeError):
        fails()


async def _log(text, folder, caplog):
    _fail(text)
    return caplog.text


async def _session_log(text, folder, caplog):
    with rb.stores.SessionLog(folder / "session.jsonl", max_bytes=10**8):
        _fail(text)
    return (folder / "session.jsonl").read_text("utf-8")


async def _page(text, folder, caplog):
    await _session_log(text, folder, caplog)
    incident = Incident()
    incident.source("session.jsonl")
    for line in (folder / "session.jsonl").read_bytes().splitlines(keepends=True):
        incident.take(line)
    incident.finish()
    return page(incident)


async def _workflow_file(text, folder, caplog):
    flow = rb.agent.Workflow(folder / "state.json", root=folder)

    @flow.phase
    def fails():
        raise RuntimeError(text)

    reports = [await flow.run(), await flow.run()]
    files = [path.read_text("utf-8") for path in folder.iterdir() if path.is_file()]
    assert len(files) >= 2  # the file and its backup
    return "\n".join(
        [*files, *(report.explain() + json.dumps(report.to_dict()) for report in reports)]
    )


async def _state_file(text, folder, caplog):
    state = rb.stores.StateFile(folder / "state.json", version=1)
    for _ in range(2):
        state.save(_failure(text).to_dict())
    return "\n".join(path.read_text("utf-8") for path in folder.iterdir() if path.is_file())


async def _tool_result(text, folder, caplog):
    tools = Toolbox()

    @tools.tool
    def fails() -> None:
        """Fail."""
        raise RuntimeError(text)

    outcome = await tools.call("fails", {})
    return outcome.to_llm() + repr(outcome)


async def _rpc_error(text, folder, caplog):
    fields = _failure(text).to_mcp()
    return message.error(1, fields["code"], fields["message"], fields.get("data")).text


async def _spans(text, folder, caplog):
    with Telemetry() as telemetry:
        _fail(text)
        emit(rb.events.GaveUp(name=text, failure=_failure(text)))
    return repr(
        [
            (
                one.name,
                dict(one.attributes),
                one.status.description,
                [(e.name, dict(e.attributes)) for e in one.events],
            )
            for one in telemetry.finished()
        ]
    )


async def _metrics(text, folder, caplog):
    with Scraped() as scraped:
        _fail(text)
        emit(rb.events.GaveUp(name=text, failure=_failure(text)))
    return str(scraped.families())


SINKS = {
    "log": _log,
    "session log": _session_log,
    "page of an incident": _page,
    "workflow's file, backup and report": _workflow_file,
    "state file and backup": _state_file,
    "tool result": _tool_result,
    "JSON-RPC error": _rpc_error,
    "spans": _spans,
    "metrics": _metrics,
}


@pytest.mark.parametrize("sink", SINKS)
async def test_sec1_no_sink_shows_a_secret(sink, tmp_path, caplog):
    """None of a sample of the rounds' texts comes out with six characters of its secret."""
    assert len(SAMPLE) >= 60
    caplog.set_level(logging.DEBUG, logger="resilient_bridge")
    own = tmp_path / "own"
    own.mkdir()
    own_words = await SINKS[sink]("nothing", own, caplog)
    leaking, is_used = [], False
    for number, one in enumerate(SAMPLE):
        folder = tmp_path / str(number)
        folder.mkdir()
        caplog.clear()
        shown = await SINKS[sink](one.text, folder, caplog)
        is_used = is_used or "[redacted]" in shown
        if parts_of(one._replace(outside=one.outside + own_words), shown):
            leaking.append(one.source)
    assert leaking == []
    assert is_used or sink == "metrics"
