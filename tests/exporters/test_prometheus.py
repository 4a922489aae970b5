"""Metrics as a real prometheus_client registry shows them: what was counted is read back from the text that Prometheus scrapes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect

import resilient_bridge as rb
from resilient_bridge.failure import redact
from resilient_bridge.telemetry import emit
from resilient_bridge.testing import BridgeServer, record, simulate
from tests.internals.exporters import exporter
from tests.internals.telemetry import INSTRUMENTS


FAST = rb.Retry(attempts=3, backoff=rb.Backoff.constant(0))


class Scraped:
    """A registry, an exporter into it, and what a scrape shows."""

    def __init__(self, **options):
        self.registry = CollectorRegistry()
        self.exporter = rb.telemetry.prometheus.install(registry=self.registry, **options)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.exporter.close()

    def value(self, name, **labels):
        return self.registry.get_sample_value(name, labels)

    def families(self):
        return {
            one.name: one
            for one in text_string_to_metric_families(generate_latest(self.registry).decode())
        }


@pytest.fixture
def scraped():
    with Scraped() as found:
        yield found


def failing(times, error=ConnectionResetError):
    """A function that fails so often, and then returns 1."""
    failures = times

    def call():
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise error(104, "reset")
        return 1

    return call


@pytest.mark.requirement("X9")
def test_a_call_is_counted_and_timed_by_how_it_ended(scraped):
    """Well at once, well after a repeat, and not: three outcomes, each with its seconds; the attempts have their own histogram."""
    policy = rb.Policy(FAST, name="search")
    for times in (0, 0, 1, 3):
        rb.capture(policy(failing(times), idempotent=True, name="search"))
    count = "resilient_bridge_calls_total"
    assert scraped.value(count, policy="search", outcome="ok") == 2
    assert scraped.value(count, policy="search", outcome="ok_after_retry") == 1
    assert scraped.value(count, policy="search", outcome="failed") == 1
    timed = "resilient_bridge_call_duration_seconds_count"
    assert scraped.value(timed, policy="search", outcome="ok") == 2
    assert scraped.value("resilient_bridge_call_attempts_sum", policy="search") == 1 + 1 + 2 + 3
    assert scraped.value("resilient_bridge_retries_total", policy="search", code="CONN_RESET") == 3


@pytest.mark.requirement("R18")
def test_an_error_has_the_labels_of_the_specification(scraped):
    """category (the prefix), code, severity and source are labels; every failed attempt is one error, the last one included."""
    rb.capture(rb.Policy(FAST)(failing(3), idempotent=True))
    labels = {"category": "CONN_", "code": "CONN_RESET", "severity": "error", "source": "client"}
    assert scraped.value("resilient_bridge_errors_total", **labels) == 3


@pytest.mark.requirement("R18")
@pytest.mark.parametrize(
    ("failure", "source"),
    [
        (rb.Failure.of("HOOK_VALIDATION_FAILED"), "hook"),
        (rb.Failure.of("SYS_RATE_LIMITED"), "server"),
        (rb.Failure.of("AUTH_INVALID_TOKEN"), "server"),
        (rb.Failure.of("PROTO_INVALID_MESSAGE"), "server"),
        (rb.Failure.of("CONN_TIMEOUT"), "client"),
        (rb.Failure.of("SYS_CIRCUIT_OPEN"), "client"),
    ],
)
def test_the_source_is_client_server_or_hook(scraped, failure, source):
    """What the server answered, what a hook sent, and what was noticed here."""
    emit(rb.events.MessageRejected(failure=failure))
    (sample,) = [
        one
        for one in scraped.families()["resilient_bridge_errors"].samples
        if one.value == 1 and one.name.endswith("_total")
    ]
    assert sample.labels["source"] == source
    assert sample.labels["category"] == failure.code.split("_")[0] + "_"


@pytest.mark.requirement("R18")
def test_session_and_user_agent_are_an_exemplar(scraped):
    """They cost no series, and are there in OpenMetrics beside the count that moved last; a long id is cut to what is allowed."""
    failure = rb.Failure.of("SESS_CLOSED", details={"session_id": "s" * 500})
    emit(rb.events.GaveUp(name="bridge", failure=failure))
    (line,) = [one for one in open_metrics(scraped.registry).decode().splitlines() if "# {" in one]
    assert line.startswith('resilient_bridge_errors_total{category="SESS_",code="SESS_CLOSED"')
    assert f'session_id="{"s" * 79}…"' in line or f'session_id="{"s" * 80}"' in line
    assert f'user_agent="resilient-bridge/{rb.__version__}"' in line


@pytest.mark.requirement("R18")
def test_they_are_labels_if_somebody_asks():
    """Both, by the names of the specification."""
    with Scraped(labels=("user_agent", "session_id")) as scraped:
        emit(
            rb.events.GaveUp(
                name="bridge", failure=rb.Failure.of("SESS_CLOSED", details={"session_id": "s1"})
            )
        )
        (sample,) = [
            one
            for one in scraped.families()["resilient_bridge_errors"].samples
            if one.name.endswith("_total")
        ]
    assert set(sample.labels) == {
        "category",
        "code",
        "severity",
        "source",
        "session_id",
        "user_agent",
    }
    assert sample.labels["session_id"] == "s1"
    assert sample.labels["user_agent"] == f"resilient-bridge/{rb.__version__}"


@pytest.mark.requirement("R18", "X9")
@pytest.mark.parametrize("labels", [(), ("session_id",)])
def test_a_thousand_sessions_make_no_more_series_than_are_allowed(labels, caplog):
    """Without the label there is one series; with it a hundred and one, the last of them for all others, and no error is lost."""
    with Scraped(labels=labels, max_series=100) as scraped:
        for number in range(1_000):
            failure = rb.Failure.of("SESS_CLOSED", details={"session_id": f"s{number}"})
            emit(rb.events.GaveUp(name="bridge", failure=failure))
        samples = [
            one
            for one in scraped.families()["resilient_bridge_errors"].samples
            if one.name.endswith("_total")
        ]
    assert len(samples) == (101 if labels else 1)
    assert sum(one.value for one in samples) == 1_000
    warnings = [
        record for record in caplog.records if "errors has 100 series" in record.getMessage()
    ]
    assert len(warnings) == (1 if labels else 0)


def test_names_that_a_program_makes_are_bounded_too(scraped):
    """A policy for each of 1,200 users: a thousand series, and one for the others."""
    for number in range(1_200):
        emit(
            rb.events.CallFinished(
                name=f"user {number}", outcome="ok", attempts=1, seconds=0.1, waited=0, key="k"
            )
        )
    (calls,) = (one for one in scraped.registry.collect() if one.name == "resilient_bridge_calls")
    samples = [one for one in calls.samples if one.name.endswith("_total")]
    assert len(samples) == 1_001
    assert [one.value for one in samples if one.labels == {"policy": "other", "outcome": "ok"}] == [
        200
    ]


def test_a_name_that_gets_no_series_is_not_masked_for_one(monkeypatch):
    """Of what is counted as `other` nothing is shown, so nothing is looked at; no name stays none, and one of blanks is a name."""
    read = []
    monkeypatch.setattr(
        exporter, "redact", lambda text, **limit: read.append(text) or redact(text, **limit)
    )
    with Scraped(max_series=1) as scraped:
        for name in ("first", "second", "third", "  ", ""):
            emit(
                rb.events.CallFinished(
                    name=name, outcome="ok", attempts=1, seconds=0.1, waited=0, key="k"
                )
            )
        counted = {
            name: scraped.value("resilient_bridge_calls_total", policy=name, outcome="ok")
            for name in ("first", "other", "")
        }
    assert counted == {"first": 1, "other": 3, "": 1}
    assert set(read) == {"first", "ok", ""}


@pytest.mark.requirement("R2")
@pytest.mark.parametrize("severity", rb.errors.Severity)
def test_a_failure_is_counted_from_the_severity_warning_on(scraped, severity):
    """Info is only logged."""
    emit(
        rb.events.MessageRejected(failure=rb.Failure.of("PROTO_INVALID_MESSAGE", severity=severity))
    )
    counted = [
        one
        for one in scraped.families()["resilient_bridge_errors"].samples
        if one.name.endswith("_total")
    ]
    assert len(counted) == (0 if severity is rb.errors.Severity.INFO else 1)


@pytest.mark.requirement("X9")
def test_a_link_is_counted_from_its_loss_to_its_verdict():
    """Drops, attempts, how long it took, and the depth of the queues when scraped, by the client's name; simulated, with a real scrape."""

    async def main(server):
        with Scraped() as scraped:
            async with rb.BridgeClient(server.url, name="agent") as bridge:
                await bridge.wait_ready()
                assert scraped.value("resilient_bridge_bridge_ready", bridge="agent") == 1
                await server.push("tool_call", {})
                await anext(aiter(bridge))
                await server.cut("abort", seconds=20.0)
                while bridge.state is rb.bridge.BridgeState.READY:
                    await asyncio.sleep(0.1)
                await bridge.send("note", {"n": 1})
                await asyncio.sleep(5.0)
                assert scraped.value("resilient_bridge_outbox_messages", bridge="agent") == 1
                assert scraped.value("resilient_bridge_bridge_ready", bridge="agent") == 0
                await bridge.wait_ready(120)
            result = "resilient_bridge_reconnect_attempts_total"
            assert scraped.value(result, bridge="agent", result="connected") == 2
            assert scraped.value(result, bridge="agent", result="failed") >= 1
            drops = [
                one
                for one in scraped.families()["resilient_bridge_session_drops"].samples
                if one.name.endswith("_total")
            ]
            assert [(one.labels["bridge"], one.value) for one in drops] == [("agent", 1)]
            took = scraped.value(
                "resilient_bridge_reconnect_duration_seconds_sum",
                bridge="agent",
                verdict="RECOVERED",
            )
            assert took is not None
            assert took >= 20
            assert (
                scraped.value("resilient_bridge_bridge_ready", bridge="agent") is None
            )  # closed: it is gone

    simulate(main)


@pytest.mark.real
@pytest.mark.requirement("X9")
async def test_a_link_over_a_client_of_yours_is_counted_by_its_name(scraped):
    """`reconnecting` over a websocket of the library's own, cut once: one drop, two connections, and every event has the name."""
    async with BridgeServer() as server:
        policy = rb.presets.default.evolve(
            reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.05))
        )
        link = rb.reconnecting(lambda: connect(server.url), policy, name="search")
        with record() as seen:
            async with link:
                assert scraped.value("resilient_bridge_bridge_ready", bridge="search") == 1
                await server.cut("abort")
                async with asyncio.timeout(20):
                    while not any(isinstance(event, rb.events.Disconnected) for event in seen):
                        await asyncio.sleep(0.01)
                await link.wait_ready(20)
    connected = scraped.value(
        "resilient_bridge_reconnect_attempts_total", bridge="search", result="connected"
    )
    drops = scraped.families()["resilient_bridge_session_drops"].samples
    assert connected == 2
    assert "failed" not in str(
        scraped.families()["resilient_bridge_reconnect_attempts"].samples
    )  # a loss is no attempt
    assert [one.value for one in drops if one.name.endswith("_total")] == [1]
    assert {event.bridge for event in seen} == {"search"}


def test_a_circuit_is_in_one_state(scraped):
    """Read when scraped; its changes are counted as well."""
    policy = rb.Policy(rb.Breaker.consecutive(1, open_for=60, key="prices"))
    rb.capture(policy(failing(1)))
    states = {
        state: scraped.value("resilient_bridge_circuit_state", circuit="prices", state=state)
        for state in ("closed", "open", "half_open", "isolated", "disabled")
    }
    assert states == {"closed": 0, "open": 1, "half_open": 0, "isolated": 0, "disabled": 0}
    assert (
        scraped.value("resilient_bridge_circuit_transitions_total", circuit="prices", state="open")
        == 1
    )


def test_every_metric_of_the_table_is_there(scraped):
    """By the name that the table says, as a real parser reads it."""
    names = set(scraped.families())
    counted = {one.prometheus_name for one in INSTRUMENTS if one.sort != "gauge"}
    assert counted <= names
    assert "resilient_bridge_info" in names


def test_no_secret_becomes_a_label(scraped):
    """A name that holds one is masked."""
    emit(
        rb.events.CallFinished(
            name="GET https://user:hunter22@host/?api_key=sk-abcdefgh12345678",
            outcome="ok", attempts=1, seconds=0.1, waited=0, key="k",
        )
    )  # fmt: skip
    text = generate_latest(scraped.registry).decode()
    assert "hunter22" not in text
    assert "sk-abcdefgh12345678" not in text


def test_a_closed_exporter_counts_no_more_and_another_may_be_installed():
    """Its metrics are gone from the registry, and so is its listener."""
    with Scraped() as first:
        registry = first.registry
        with pytest.raises(rb.ConfigError, match=r"prometheus\.install\.registry"):
            rb.telemetry.prometheus.install(registry=registry)
    assert generate_latest(registry) == b""
    with rb.telemetry.prometheus.install(registry=registry):
        emit(rb.events.HookRejected(failure=rb.Failure.of("HOOK_VALIDATION_FAILED")))
        assert registry.get_sample_value("resilient_bridge_hook_rejections_total") == 1


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"labels": ("user",)}, "labels"),
        ({"labels": "session_id"}, "labels"),
        ({"max_series": 0}, "max_series"),
        ({"max_series": True}, "max_series"),
    ],
)
def test_an_option_that_cannot_be_meant_is_named(options, field):
    """And nothing is registered."""
    registry = CollectorRegistry()
    with pytest.raises(rb.ConfigError, match=rf"prometheus\.install\.{field}"):
        rb.telemetry.prometheus.install(registry=registry, **options)
    assert generate_latest(registry) == b""


@pytest.mark.requirement("X9")
@pytest.mark.parametrize(
    ("exporter", "package"), [("prometheus", "prometheus_client"), ("otel", "opentelemetry")]
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(exporter, package):
    """Importing the exporter works without it, and so does the package."""
    code = f"""
import sys
sys.modules[{package!r}] = None
import resilient_bridge as rb
try:
    rb.telemetry.{exporter}.install()
except rb.ConfigError as error:
    print(error)
"""
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert f"pip install 'resilient-bridge[{exporter}]'" in shown


def test_an_old_event_of_an_unknown_link_does_no_harm(scraped):
    """A verdict without a loss is no outage."""
    emit(
        rb.events.Resumed(
            at=datetime.now(UTC), session_id="s1", verdict=rb.bridge.Verdict.GAP, reason="truncated"
        )
    )
    assert scraped.value("resilient_bridge_gaps_total", bridge="", verdict="GAP") == 1
    assert (
        "resilient_bridge_reconnect_duration_seconds_count"
        not in generate_latest(scraped.registry).decode()
    )
