"""What a severity makes happen, and that docs/reference/severity.md says just that."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import resilient_bridge as rb
from resilient_bridge import failure as errors
from tests.adapters.link_peers import quick as quick_link
from tests.internals.protocol import LossAction, meaning
from tests.internals.telemetry import name_in_words
from tests.threats.raw_bridges import HandBridge
from tests.threats.watching import quick


CHILD = Path(__file__).parent / "adapters/child.py"
PAGE = Path(__file__).parents[1] / "docs/reference/severity.md"
ALARMING = (rb.errors.Severity.CRITICAL, rb.errors.Severity.FATAL)
pytestmark = pytest.mark.requirement("R2")


LEVELS = """\
info | Log only | None
warning | Log + metrics | Minimal (degraded performance)
error | Log + notify + retry | Moderate (temporary disruption)
critical | Log + alert + circuit break | High (service unavailable)
fatal | Log + terminate | Complete session loss
"""  # of the specification


def _row(severity: rb.errors.Severity) -> list[str]:
    """The cells of the page's row about a severity."""
    (row,) = [
        line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{severity}` |")
    ]
    return [cell.strip() for cell in row.strip("|").split("|")]


def _error(severity: rb.errors.Severity) -> rb.BridgeError:
    """A failure of this severity that repeating could help and that did not run."""
    failure = rb.Failure.of(
        "SYS_UNAVAILABLE", "down", severity=severity, executed=rb.errors.Executed.NO
    )
    return errors.error_for(failure)


@pytest.mark.parametrize("severity", rb.errors.Severity)
def test_a_give_up_is_logged_at_its_severity(severity, caplog):
    """The page's level is that of the line, for a call that was given up."""
    caplog.set_level(logging.DEBUG, "resilient_bridge")

    @rb.Policy(rb.Retry(attempts=1))(idempotent=True)
    def ask() -> None:
        raise _error(severity)

    assert rb.capture(ask).failure.severity is severity
    (record,) = caplog.records
    assert record.levelname.lower() == _row(severity)[1]


def test_an_error_that_no_policy_had_to_do_with_stays_below_a_warning(caplog):
    """A bug of the caller is theirs to log; one line at INFO says why it was not repeated."""
    caplog.set_level(logging.DEBUG, "resilient_bridge")
    rb.capture(rb.resilient(lambda: {}["missing"], idempotent=True))
    assert [record.getMessage() for record in caplog.records if record.levelname != "DEBUG"] == [
        next(record.getMessage() for record in caplog.records if record.levelname == "INFO")
    ]


@pytest.mark.parametrize("severity", rb.errors.Severity)
def test_what_is_counted_noticed_and_alerted(severity):
    """By the page: a metric from warning on, a notice from error on, an alert from critical on."""
    noticed = []
    registry = CollectorRegistry()

    @rb.Policy(rb.Retry(attempts=1))(idempotent=True)
    def ask() -> None:
        raise _error(severity)

    with (
        rb.telemetry.prometheus.install(registry=registry),
        rb.telemetry.Alerts(notify=noticed.append) as alerts,
    ):
        rb.capture(ask)
        alerted = alerts.active()
        counted = f'severity="{severity}"' in generate_latest(registry).decode()
    assert ("counted" if counted else "no") == _row(severity)[2]
    assert ("yes" if noticed else "no") == _row(severity)[3]
    assert ("at once" if alerted else "no") == _row(severity)[4]


@pytest.mark.parametrize("severity", rb.errors.Severity)
def test_critical_and_fatal_open_the_circuit_at_once(severity):
    """One such failure in a window of fifty is enough; any other is counted like all."""

    @rb.Policy(rb.Breaker())
    def ask() -> None:
        raise _error(severity)

    with rb.testing.record() as seen:
        rb.capture(ask)
    opened = [event.reason for event in seen if name_in_words(event) == "circuit opened"]
    assert opened == (["critical"] if severity in ALARMING else [])
    assert rb.calls.circuit(ask).state == ("open" if severity in ALARMING else "closed")
    assert _row(severity)[5] == ("opens at once" if severity in ALARMING else "as any failure")


def test_a_fatal_failure_ends_the_session():
    """Each code that is fatal means FAILED for a link; the page says so of fatal alone."""
    fatal = [code for code, row in errors.CODES.items() if row.severity is rb.errors.Severity.FATAL]
    assert fatal
    assert {meaning(rb.Failure.of(code), ()) for code in fatal} == {LossAction.FAIL}
    assert [severity for severity in rb.errors.Severity if _row(severity)[6] == "ends"] == [
        rb.errors.Severity.FATAL
    ]


@pytest.mark.parametrize("line", LEVELS.splitlines())
def test_each_level_does_what_its_row_says(line, caplog):
    """Every word of "Behavior": a line, a metric, a notice, an alert, an open circuit, a link that ends. Each level also does what the ones above it do."""
    level, behaviour, _ = line.split(" | ")
    severity = rb.errors.Severity(level)
    noticed, registry = [], CollectorRegistry()
    caplog.set_level(logging.DEBUG, "resilient_bridge")

    @rb.Policy(rb.Retry(attempts=1), rb.Breaker())(idempotent=True)
    def ask() -> None:
        raise _error(severity)

    with (
        rb.telemetry.prometheus.install(registry=registry),
        rb.telemetry.Alerts(notify=noticed.append) as alerts,
    ):
        rb.capture(ask)
        shown = {
            "Log": bool(caplog.records),
            "metrics": f'severity="{severity}"' in generate_latest(registry).decode(),
            "notify": bool(noticed),
            "alert": bool(alerts.active()),
            "circuit break": rb.calls.circuit(ask).state == "open",
        }
    fatal = [code for code, row in errors.CODES.items() if row.severity is severity]
    shown["terminate"] = (
        level == "fatal" and meaning(rb.Failure.of(fatal[0]), ()) is LossAction.FAIL
    )
    done = [word for word in behaviour.removesuffix(" only").split(" + ") if word != "retry"]
    assert all(shown[word] for word in done)
    if behaviour.endswith(" only"):
        assert [word for word, is_so in shown.items() if is_so] == ["Log"]


@pytest.mark.parametrize(
    "severity",
    [severity for severity in rb.errors.Severity if severity is not rb.errors.Severity.ERROR],
)
def test_the_page_lists_the_codes_of_each_severity(severity):
    """All of them, but for the usual one."""
    codes = sorted(code for code, row in errors.CODES.items() if row.severity is severity)
    assert re.findall(r"`(\w+)`", _row(severity)[7]) == codes


@pytest.mark.parametrize("severity", rb.errors.Severity)
def test_severity_decides_no_retry(severity):
    """The same failure is repeated, however bad it is."""
    calls = []

    @rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(0)))(idempotent=True)
    def ask() -> None:
        calls.append(1)
        raise _error(severity)

    rb.capture(ask)
    assert len(calls) == 3


# -- T04: fatal ends the session, whatever its code is -------------------------------------------------------------------


FATAL = {"code": "SYS_UPSTREAM_REJECTED", "message": "the workspace is gone", "severity": "fatal"}


def _says(**named):
    """A script of a bridge that sends this error once its client is READY."""

    async def script(_bridge, ws):
        await ws.send(json.dumps({"type": "error", "payload": {**FATAL, **named}}))

    return script


@pytest.mark.real
@pytest.mark.parametrize("dialect", [rb.dialects.recursor, rb.dialects.recursor_live])
async def test_t04_a_servers_fatal_error_ends_the_session(dialect):
    """By its severity and not by its code: FAILED, with what the server said; its reader gets the message first."""
    bridge = HandBridge(_says())
    async with bridge.listening():
        client = rb.BridgeClient(bridge.url, dialect=dialect, token="t", policy=quick())
        with pytest.raises(rb.BridgeError, match="the workspace is gone") as caught:
            async with client, asyncio.timeout(10):
                try:
                    async for message in client:
                        assert message.payload["message"] == FATAL["message"]
                finally:
                    assert client.health().state == "FAILED"
        assert caught.value.failure.severity is rb.errors.Severity.FATAL
        assert bridge.connects == 1


@pytest.mark.real
async def test_t04_any_other_severity_of_a_servers_error_is_a_message():
    """It is read as the server says, and the link goes on."""
    bridge = HandBridge(_says(severity="critical"))
    async with (
        bridge.listening(),
        asyncio.timeout(10),
        rb.BridgeClient(bridge.url, token="t", policy=quick()) as client,
    ):
        message = await anext(aiter(client))
        assert message.payload["severity"] == "critical"
        assert client.health().state == "READY"
    assert (
        rb.classify({"error": FATAL | {"severity": "critical"}}).severity
        is rb.errors.Severity.CRITICAL
    )
    assert rb.classify({"error": FATAL | {"severity": "CRIT"}}).severity is rb.errors.Severity.ERROR


@pytest.mark.real
async def test_t04_a_fatal_answer_to_a_call_ends_its_link():
    """The call gets the answer itself; the link does not try again."""
    answer = {
        "error": {
            "code": -32000,
            "message": "gone",
            "data": {"code": "SYS_INTERNAL_ERROR", "severity": "fatal"},
        }
    }
    link = rb.reconnecting(rb.links.stdio(sys.executable, "-I", "-S", str(CHILD)), quick_link())
    with pytest.raises(rb.BridgeError, match="gone"):
        async with link as peer, asyncio.timeout(20):
            with pytest.raises(rb.BridgeError, match="gone") as caught:
                await peer.request("answer", answer)
            assert caught.value.failure.severity is rb.errors.Severity.FATAL
            await peer.request("echo")
    assert link.health().state == "FAILED"


class _Returning:
    """A client whose calls return what the server says, and raise nothing."""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def ask(self, severity):
        return {"error": {**FATAL, "severity": severity}}


@pytest.mark.real
async def test_t04_a_fatal_answer_that_is_returned_ends_its_link_too():
    """The caller gets the answer as it is; only a fatal one ends the session."""
    link = rb.reconnecting(_Returning, quick_link(), answers=True)
    with pytest.raises(rb.BridgeError, match="the workspace is gone"):
        async with link as client, asyncio.timeout(20):
            for severity in ("critical", "error", "fatal"):
                assert (await client.ask(severity))["error"]["severity"] == severity
            await client.ask("info")
    assert link.health().state == "FAILED"


@pytest.mark.real
async def test_t04_what_a_client_returns_of_its_own_ends_nothing():
    """Without `answers=True` a mapping is a value."""
    async with rb.reconnecting(_Returning, quick_link()) as client, asyncio.timeout(20):
        for _ in range(2):
            assert (await client.ask("fatal"))["error"]["severity"] == "fatal"


GONE = {"code": "WORKSPACE_GONE", "message": "the workspace is gone", "severity": "fatal"}
SAYS_FATAL = {
    "a code that nobody lists": {"success": False, "error": GONE},
    "a report": {"type": "unknown", "message": "gone", "recoverable": False, "severity": "fatal"},
    "a report inside": {
        "success": False,
        "error": {"type": "timeout", "message": "gone", "recoverable": True, "severity": "fatal"},
    },
    "a tool of MCP": {"isError": True, "content": [], "structuredContent": {"error": GONE}},
    "a tool of MCP, as text": {
        "isError": True,
        "content": [{"type": "text", "text": json.dumps({"error": GONE})}],
    },
}


@pytest.mark.parametrize("answer", SAYS_FATAL.values(), ids=SAYS_FATAL)
async def test_t04_a_tools_answer_is_as_severe_as_its_error_says(answer):
    """In each form of a failure: the code need not be one of ours."""
    toolbox = rb.agent.Toolbox()

    @toolbox.tool
    async def work() -> dict[str, object]:
        """Work."""
        return answer

    assert (await toolbox.call("work", {})).failure.severity is rb.errors.Severity.FATAL


async def test_t04_a_severity_beside_the_error_is_data():
    """Such as the severest finding of a linter that failed."""
    found = rb.agent.Toolbox()

    @found.tool
    async def lint() -> dict[str, object]:
        """Lint."""
        return {
            "isError": True,
            "content": [],
            "structuredContent": {"findings": 3, "severity": "fatal"},
        }

    assert (await found.call("lint", {})).failure.severity is rb.errors.Severity.ERROR


def test_t04_a_fatal_error_is_fatal_on_the_other_side_of_json_rpc():
    """The severity that differs from that of its code goes with it; the table's own does not."""
    failure = rb.Failure.of("SYS_TIMEOUT", "gone", severity=rb.errors.Severity.FATAL)
    assert rb.Failure.from_mcp(failure.to_mcp()).severity is rb.errors.Severity.FATAL
    assert "severity" not in rb.Failure.of("SYS_TIMEOUT").to_mcp()["data"]


async def test_t04_a_fatal_failure_halts_a_workflow_at_an_optional_phase(tmp_path):
    """The next phase does not run; nor is an optional tool skipped."""
    ran, box = [], rb.agent.Toolbox()

    @box.tool(required=False, idempotent=True)
    def act() -> None:
        raise _error(rb.errors.Severity.FATAL)

    for optional in (True, False):
        ran.clear()
        flow = rb.agent.Workflow(tmp_path / f"{optional}.json", root=tmp_path, tools=box)

        @flow.phase(name="first", required=not optional)
        async def first(phase, optional=optional) -> None:
            ran.append("first")
            if optional:
                raise _error(rb.errors.Severity.FATAL)
            await phase.call("act")

        @flow.phase(name="second")
        def second() -> None:
            ran.append("second")

        with rb.testing.virtual_time():
            report = await flow.run()
        assert (report.status, report.current_phase) == ("halted", "first")
        assert set(ran) == {"first"}
