"""Spans and metrics as a real OpenTelemetry SDK has them: read back from its own in-memory exporters."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

import resilient_bridge as rb
from resilient_bridge.exporters import otel
from resilient_bridge.telemetry import emit
from resilient_bridge.testing import simulate
from tests.exporters.otel_sdk import Telemetry, telemetry
from tests.internals.exporters import exporter


__all__ = ["telemetry"]  # a fixture
pytestmark = pytest.mark.requirement("X9")
FAST = rb.Retry(attempts=3, backoff=rb.Backoff.constant(0))


def flaky(times, inside=lambda: None):
    failures = times

    async def call():
        nonlocal failures
        inside()
        failures -= 1
        if failures >= 0:
            raise ConnectionResetError(104, "reset")
        return 1

    return call


async def test_a_call_is_one_span_and_its_repeats_are_events(telemetry):
    """Three attempts, one span; each repeat with its wait and the code of the failure before it."""
    await rb.Policy(FAST)(flaky(2), idempotent=True, name="search")()
    (span,) = telemetry.finished()
    assert span.name == "search"
    assert span.status.status_code is StatusCode.UNSET
    assert [(one.name, one.attributes["attempt"], one.attributes["error.type"]) for one in span.events] == [
        ("retry", 2, "CONN_RESET"), ("retry", 3, "CONN_RESET"),
    ]  # fmt: skip
    assert span.attributes["resilient_bridge.outcome"] == "ok"
    assert span.attributes["resilient_bridge.attempts"] == 3


async def test_a_failed_call_is_an_error_by_its_code(telemetry):
    """error.type is the code, the status says what went wrong."""
    with pytest.raises(ConnectionResetError):
        await rb.Policy(FAST)(flaky(9), idempotent=True)()
    (span,) = telemetry.finished()
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "CONN_RESET"
    assert span.attributes["resilient_bridge.outcome"] == "failed"


@pytest.mark.requirement("R18")
async def test_a_failed_call_says_whose_session_and_which_version(telemetry):
    """Both under the names of OpenTelemetry's conventions; a call that went well has neither."""

    @rb.Policy(FAST)(idempotent=True, name="closed")
    async def closed():
        raise rb.errors.SessionError(rb.Failure.of("SESS_CLOSED", details={"session_id": "s1"}))

    with pytest.raises(rb.errors.SessionError):
        await closed()
    await rb.Policy(FAST)(flaky(0), idempotent=True, name="good")()
    (failed,), (good,) = telemetry.finished("closed"), telemetry.finished("good")
    assert failed.attributes["session.id"] == "s1"
    assert failed.attributes["user_agent.original"] == f"resilient-bridge/{rb.__version__}"
    assert not {"session.id", "user_agent.original"} & set(good.attributes)


async def test_a_call_that_is_rejected_is_a_span_too(telemetry):
    """Nothing was called; the span says by whom it was rejected."""
    policy = rb.Policy(rb.Breaker.consecutive(1, open_for=60))
    call = policy(flaky(9), name="prices")
    for _ in range(2):
        with pytest.raises((ConnectionResetError, rb.CircuitOpenError)):
            await call()
    first, second = telemetry.finished("prices")
    assert first.attributes["resilient_bridge.outcome"] == "failed"
    assert second.attributes["resilient_bridge.outcome"] == "rejected"
    assert [one.name for one in second.events] == ["rejected"]


async def test_the_span_is_current_while_the_attempts_run(telemetry):
    """What the function itself traces stands beneath it, in every attempt, and nothing is current before and after."""
    tracer = telemetry.tracers.get_tracer("mine")

    def inside():
        with tracer.start_as_current_span("attempt"):
            pass

    await rb.Policy(FAST)(flaky(2, inside), idempotent=True, name="search")()
    (span,) = telemetry.finished("search")
    attempts = telemetry.finished("attempt")
    assert len(attempts) == 3
    assert {one.parent.span_id for one in attempts} == {span.context.span_id}
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_wrapped_client_carries_the_context_on(telemetry):
    """A real httpx client over our transport: its own span, made where it sends, has the call's as its parent, at each send."""
    tracer = telemetry.tracers.get_tracer("httpx")
    sent = []

    async def answer(_request):
        with tracer.start_as_current_span("GET"):
            sent.append(trace.get_current_span().get_span_context().trace_id)
        return httpx.Response(503 if len(sent) == 1 else 200)

    transport = rb.HTTPTransport(rb.Policy(FAST), httpx.MockTransport(answer))
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        assert (await client.get("http://127.0.0.1/")).status_code == 200
    (call,) = [one for one in telemetry.finished() if one.name != "GET"]
    assert {one.parent.span_id for one in telemetry.finished("GET")} == {call.context.span_id}
    assert len(sent) == 2


async def test_a_call_inside_a_call_is_its_child(telemetry):
    """As they are nested, so are their spans; calls side by side do not see each other."""
    inner = rb.Policy(FAST)(flaky(0), idempotent=True, name="inner")

    @rb.Policy(FAST)(idempotent=True, name="outer")
    async def outer():
        await asyncio.sleep(0)
        await inner()

    await asyncio.gather(outer(), outer(), outer())
    outers = {one.context.span_id for one in telemetry.finished("outer")}
    assert {one.parent.span_id for one in telemetry.finished("inner")} == outers
    assert len(outers) == 3


def test_a_sync_call_in_a_thread_of_its_time_limit_has_it_too(telemetry):
    """The context goes with the call into the thread."""
    seen = []

    @rb.Policy(rb.Timeout(5, thread=True))(name="work")
    def work():
        seen.append(
            (threading.current_thread().name, trace.get_current_span().get_span_context().span_id)
        )

    work()
    (span,) = telemetry.finished("work")
    assert seen[0][0] != threading.current_thread().name
    assert seen[0][1] == span.context.span_id


async def test_a_block_is_one_span(telemetry):
    """`async for attempt in policy.attempts()`: all turns of the loop, and what runs inside of them beneath it."""
    tracer, failures = telemetry.tracers.get_tracer("mine"), 2
    policy = rb.Policy(FAST, name="block")
    async for attempt in policy.attempts(idempotent=True):
        with attempt:
            with tracer.start_as_current_span("inside"):
                failures -= 1
            if failures >= 0:
                raise ConnectionResetError(104, "reset")
    (span,) = [one for one in telemetry.finished() if one.name != "inside"]
    assert span.attributes["resilient_bridge.attempts"] == 3
    assert {one.parent.span_id for one in telemetry.finished("inside")} == {span.context.span_id}
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_stream_is_a_span_until_its_last_item(telemetry):
    """It is current while the stream is begun, and does not leak into its reader."""

    @rb.Policy(FAST)(idempotent=True, name="stream")
    async def numbers():
        yield 1
        yield 2

    async for _ in numbers():
        assert not trace.get_current_span().get_span_context().is_valid
        assert telemetry.finished() == []
    (span,) = telemetry.finished("stream")
    assert span.attributes["resilient_bridge.outcome"] == "ok"


def test_a_sync_stream_too(telemetry):
    """The same for a generator."""

    @rb.Policy(FAST)(idempotent=True, name="stream")
    def numbers():
        yield 1
        yield 2

    assert list(numbers()) == [1, 2]
    (span,) = telemetry.finished("stream")
    assert span.attributes["resilient_bridge.attempts"] == 1


async def test_a_cancelled_call_ends_its_span(telemetry):
    """And leaves nothing current behind."""

    @rb.Policy(FAST)(idempotent=True, name="slow")
    async def slow():
        await asyncio.Event().wait()

    task = asyncio.create_task(slow())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (span,) = telemetry.finished("slow")
    assert span.attributes["resilient_bridge.outcome"] == "cancelled"


def test_metrics_have_their_names_units_and_labels(telemetry):
    """With dots, the unit apart, and no suffix; seconds in the bounds that the conventions advise."""
    rb.capture(rb.Policy(FAST)(lambda: 1, idempotent=True, name="search"))
    (point,) = telemetry.points("resilient_bridge.calls")
    assert dict(point.attributes) == {"policy": "search", "outcome": "ok"}
    assert point.value == 1
    (point,) = telemetry.points("resilient_bridge.call.duration")
    assert point.count == 1
    assert 0.005 in point.explicit_bounds
    (info,) = telemetry.points("resilient_bridge.info")
    assert info.attributes["version"] == rb.__version__


@pytest.mark.requirement("R18")
def test_a_thousand_sessions_are_bounded():
    """With the label asked for: as many series as are allowed, and one."""
    with Telemetry(spans=False, labels=("session_id",), max_series=50) as telemetry:
        for number in range(1_000):
            failure = rb.Failure.of("SESS_CLOSED", details={"session_id": f"s{number}"})
            emit(rb.events.GaveUp(name="bridge", failure=failure))
        points = telemetry.points("resilient_bridge.errors")
    assert len(points) == 51
    assert sum(point.value for point in points) == 1_000


def test_a_reconnect_is_a_span_of_its_own():
    """From the loss to the verdict, and nobody's child: it outlives calls."""

    async def main(server):
        with Telemetry() as telemetry:
            async with rb.BridgeClient(server.url, name="agent") as bridge:
                await bridge.wait_ready()
                await server.push("tool_call", {})
                await anext(aiter(bridge))
                await server.cut("abort", seconds=10.0)
                while bridge.state is rb.bridge.BridgeState.READY:
                    await asyncio.sleep(0.1)
                await bridge.wait_ready(120)
            (span,) = telemetry.finished("resilient_bridge.reconnect")
        assert span.parent is None
        assert span.attributes["resilient_bridge.bridge"] == "agent"
        assert span.attributes["resilient_bridge.verdict"] == "RECOVERED"
        assert span.attributes["user_agent.original"] == f"resilient-bridge/{rb.__version__}"
        assert (span.end_time - span.start_time) / 1e9 >= 10

    simulate(main)


async def test_without_spans_calls_take_their_short_way():
    """Metrics alone make no span, and nothing is current."""
    with Telemetry(spans=False) as telemetry:
        await rb.Policy(FAST)(flaky(0), idempotent=True)()
        assert telemetry.finished() == []
        assert len(telemetry.points("resilient_bridge.calls")) == 1


async def test_a_closed_exporter_is_silent_and_another_may_trace():
    """One tracer at a time; after the close no call has a span."""
    with Telemetry() as first:
        with pytest.raises(rb.ConfigError, match="one tracer in a process"):
            rb.telemetry.otel.install(tracer_provider=first.tracers)
        call = rb.Policy(FAST)(flaky(0), idempotent=True)
        await call()
        first.exporter.close()
        await call()
        assert len(first.finished()) == 1
        assert first.points("resilient_bridge.bridge.ready") == []
    with Telemetry() as second:
        await call()
        assert len(second.finished()) == 1


class _Broken:
    """A tracer that raises, at one of its steps."""

    def __init__(self, step):
        self.step = step

    def start_span(self, *_args, **_options):
        if self.step == "start":
            raise RuntimeError
        return self

    def __getattr__(self, name):
        raise RuntimeError(name)


def _raise(*_args):
    raise RuntimeError


@pytest.mark.parametrize("step", ["start", "enter", "leave", "later"])
async def test_a_tracer_that_raises_is_contained(step, telemetry, monkeypatch, caplog):
    """The call succeeds, nothing stays current, and the log says it."""
    if step in ("enter", "leave"):
        monkeypatch.setattr(otel._CallSpan, step, _raise)
    else:
        monkeypatch.setattr(telemetry.exporter, "_tracer", _Broken(step))
    assert await rb.Policy(FAST)(flaky(1), idempotent=True)() == 1
    if step == "leave":
        assert "raised" in caplog.text
        return  # a context that could not be left is the tracer's own
    assert not trace.get_current_span().get_span_context().is_valid
    assert "raised" in caplog.text


async def test_no_secret_becomes_an_attribute(telemetry):
    """Names, keys and messages are masked."""

    @rb.Policy(FAST, rb.Breaker(key="https://user:hunter22@host/"))(
        idempotent=True, name="GET https://user:hunter22@host/"
    )
    async def call():
        message = "token=sk-abcdefgh12345678"
        raise ConnectionResetError(104, message)

    with pytest.raises(ConnectionResetError):
        await call()
    (span,) = telemetry.finished()
    text = f"{span.name} {dict(span.attributes)} {span.status.description} {[dict(one.attributes) for one in span.events]}"
    assert "hunter22" not in text
    assert "sk-abcdefgh12345678" not in text


def test_a_gauge_reads_what_is_its_own(telemetry, monkeypatch):
    """A scrape lists the circuits once, for the one gauge that shows them, and the alerts once."""
    rb.capture(
        rb.Policy(rb.Breaker.consecutive(1, open_for=60, key="circuit of the gauges"))(lambda: 1)
    )
    ours = rb.calls.circuits()["circuit of the gauges"]
    monkeypatch.setattr(exporter, "circuits", lambda: {"circuit of the gauges": ours})
    calls = Counter()
    for name in ("known_circuits", "standing_alerts", "open_links"):
        read = getattr(exporter, name)
        monkeypatch.setattr(
            exporter, name, lambda *args, name=name, read=read: calls.update([name]) or read(*args)
        )
    of_ours = telemetry.points("resilient_bridge.circuit.state")
    assert {one.attributes["circuit"] for one in of_ours} == {"circuit of the gauges"}
    assert {one.attributes["state"]: one.value for one in of_ours}["closed"] == 1
    assert len(of_ours) == 5
    assert calls == {"known_circuits": 1, "standing_alerts": 1, "open_links": 4}
