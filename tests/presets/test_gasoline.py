"""Gasoline's timing constants, circuit and escalation, as in its specification, driven through the preset's own policies."""

from __future__ import annotations

import asyncio
import errno
import itertools
import re
import threading
from collections.abc import Callable

import pytest

import resilient_bridge as rb
from resilient_bridge.presets import gasoline
from resilient_bridge.testing import inject, record, virtual_time
from resilient_bridge.values import most_specific
from tests.internals.telemetry import name_in_words
from tests.rows import each_row

from .driving import drive, limits


# name in `gasoline.tools`, as the specification calls it, seconds
CONSTANTS = [
    ("query", "DefaultQueryTimeout 2s", 2),
    ("async_command", "AsyncCommandTimeout 30s", 30),
    ("startup", "Bridge startup timeout 4s", 4),
    ("health", "HTTP client timeout 500ms", 0.5),
    ("long_handler", "Long-running handler timeout 35s", 35),
]

# "Failure n: wait"; 6+ is 30 s
FAILURES = [(1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (6, 30), (7, 30), (20, 30)]

PROGRESSION = """\
Extension picks up (DefaultQueryTimeout: 2s)
MCP Client retries (escalate to 5s)
Escalate to 30s (AsyncCommandTimeout)
"""
RESET = ConnectionResetError


@pytest.mark.requirement("G1")
@pytest.mark.parametrize(
    ("tool", "constant", "seconds"), CONSTANTS, ids=[row[0] for row in CONSTANTS]
)
def test_a_timing_constant_bounds_its_operation(tool, constant, seconds):
    """A call that hangs fails exactly then."""
    assert gasoline.tools[tool] == rb.Policy(rb.Timeout(seconds, thread=True))
    assert limits(gasoline.tools[tool], [seconds])


@pytest.mark.requirement("G1")
def test_polling_waits_one_to_two_seconds():
    """Poll interval (base) 1-2s: after one second, then every two."""
    driven = drive(gasoline.tools["poll"], *[503] * 4)
    assert driven.slept == [1, 2, 2, 2]
    assert driven.outcome.value == "answer"


@pytest.mark.requirement("G2")
@each_row(("failure", "seconds"), FAILURES)
def test_the_backoff_schedule(failure, seconds):
    """0 ms, 1, 2, 4, 8 s, then 30 s, for calls and for the link."""
    (retry,) = (layer for layer in gasoline.calls.layers if isinstance(layer, rb.Retry))
    assert retry.backoff.delays(failure)[-1] == seconds
    assert retry.backoff == gasoline.reconnect.backoff


@pytest.mark.requirement("G2")
def test_the_first_waits_while_the_circuit_is_closed():
    """Four failures of one call wait 0, 1, 2 and 4 s, and the fifth attempt succeeds."""
    driven = drive(gasoline.calls, *[RESET] * 4)
    assert sum(driven.slept) == 7
    assert [
        event.wait for event in driven.events if isinstance(event, rb.events.RetryScheduled)
    ] == [
        0,
        1,
        2,
        4,
    ]


def _protected() -> tuple[Callable[[], None], rb.calls.Circuit]:
    """A function behind the preset's policy, and its circuit; a connection reset is not retried, so each failure is one call."""

    @gasoline.calls(idempotent=False)
    def ask() -> None:
        """Go as the script says."""

    return ask, rb.calls.circuit(ask)


@pytest.mark.requirement("G2")
def test_the_circuit_goes_round_and_states_its_reasons():
    """maxFailures 5, resetTimeout 30 s, a single probe: every transition of the specification, by its printed reason."""
    ask, circuit = _protected()
    with virtual_time() as time, record() as seen, inject(ask, *[RESET] * 6):
        for _ in range(4):
            rb.capture(ask)
        assert circuit.state == "closed"
        rb.capture(ask)
        assert (circuit.state, circuit.retry_after) == ("open", 30)
        time.advance(29.9)
        assert rb.capture(ask).failure.code == "SYS_CIRCUIT_OPEN"
        time.advance(0.2)
        assert rb.capture(ask).failure.code == "CONN_RESET"  # the probe
        assert (circuit.state, circuit.retry_after) == ("open", pytest.approx(30))
        time.advance(30)
        assert rb.capture(ask).failure is None
        assert circuit.state == "closed"
    assert [event.reason for event in seen if type(event).__name__.startswith("Circuit")] == [
        "consecutive_failures_5",
        "reset_timeout_elapsed",
        "consecutive_failures_6",
        "reset_timeout_elapsed",
        "request_success",
    ]


@pytest.mark.requirement("G2")
@pytest.mark.parametrize("state", ["open", "half_open", "isolated", "disabled"])
def test_a_manual_reset_closes_it_from_any_state(state):
    """Any state to closed: `manual_reset`."""
    ask, circuit = _protected()
    with virtual_time() as time, inject(ask, *[RESET] * 5), record() as seen:
        for _ in range(5):
            rb.capture(ask)
        if state == "isolated":
            circuit.isolate()
        elif state == "disabled":
            circuit.disable()
        elif state == "half_open":
            time.advance(30)
            circuit.__enter__()  # a probe that has not ended
        assert circuit.state == state
        circuit.reset()
        assert circuit.state == "closed"
        assert rb.capture(ask).failure is None
    assert seen[-1].reason == "manual_reset"


@pytest.mark.requirement("G2")
def test_half_open_lets_a_single_probe_through():
    """While the probe runs, every other call is rejected."""
    ask, circuit = _protected()
    with virtual_time() as time, inject(ask, *[RESET] * 5):
        for _ in range(5):
            rb.capture(ask)
        time.advance(30)
        with circuit:
            assert rb.capture(ask).failure.code == "SYS_CIRCUIT_OPEN"
        assert circuit.state == "closed"


@pytest.mark.requirement("G2")
def test_the_numbers_are_options():
    """The example of the specification: 3 failures, 10 s, backoff from 0.5 s to 10 s."""
    backoff = rb.Backoff.steps(0, then=rb.Backoff.exponential(0.5, cap=10, jitter="none"))
    policy = gasoline.calls.replace(
        rb.Breaker.consecutive(3, open_for=10), rb.Retry(attempts=9, backoff=backoff)
    )
    assert backoff.delays(8) == [0, 0.5, 1, 2, 4, 8, 10, 10]

    @policy(idempotent=False)
    def ask() -> None:
        """Go as the script says."""

    with virtual_time(), inject(ask, *[RESET] * 3):
        for _ in range(3):
            rb.capture(ask)
        assert rb.calls.circuit(ask).retry_after == 10


@pytest.mark.requirement("G8")
def test_a_refused_connection_is_not_repeated():
    """ECONNREFUSED: "Immediate, don't retry"; every other preset does."""
    assert drive(gasoline.calls, ConnectionRefusedError).calls == 1
    assert drive(rb.resilient, ConnectionRefusedError).calls == 2


ETIMEDOUT = [
    TimeoutError,
    RuntimeError("ETIMEDOUT"),
    RuntimeError("Request timeout"),
    OSError(errno.ETIMEDOUT, "x"),
]


@pytest.mark.requirement("G8")
@each_row("error", ETIMEDOUT)
def test_a09_a_timeout_is_not_repeated_immediately(error):
    """ETIMEDOUT: "Don't retry immediately (use circuit breaker)": 1, 2, 4, 8 s, for a call of its own and after other failures."""
    assert drive(rb.Policy(gasoline.calls.layers[0]), *[error] * 9).slept == [1, 2, 4, 8, 30]
    driven = drive(rb.Policy(gasoline.calls.layers[0]), RESET, error)
    assert (driven.slept[-1], driven.outcome.value) == (1, "answer")
    assert [
        event.wait for event in driven.events if isinstance(event, rb.events.RetryScheduled)
    ] == [0, 1]


@pytest.mark.requirement("G8")
async def test_a09_nor_is_a_tool_that_timed_out():
    """In a Toolbox an idempotent `query` of 2 s is tried again after 1, 2, 4, 8 and 30 s."""
    toolbox, began = rb.agent.Toolbox(gasoline), []
    with virtual_time() as time:

        @toolbox.tool(idempotent=True)
        async def query() -> None:
            began.append(sum(time.slept))
            await asyncio.get_running_loop().create_future()

        call = asyncio.create_task(toolbox.call("query", {}))
        for _ in range(200):
            for _ in range(20):
                await asyncio.sleep(0)
            if call.done():
                break
            time.advance(0.5)
        outcome = await call
    assert outcome.failure.code == "TOOL_TIMEOUT"
    assert [later - earlier for earlier, later in itertools.pairwise(began)] == [1, 2, 4, 8, 30]


@pytest.mark.requirement("G8")
@each_row("code", ["CONN_TIMEOUT", "CONN_HEARTBEAT_TIMEOUT"])
def test_a09_nor_does_the_link_dial_at_once(code):
    """After a timeout the first wait of a reconnect is a second, too."""
    rule = most_specific(gasoline.reconnect.rules, rb.Failure.of(code))
    assert rule.backoff.delays(6) == [1, 2, 4, 8, 30, 30]
    assert most_specific(gasoline.reconnect.rules, rb.Failure.of("CONN_RESET")) is None


@pytest.mark.requirement("G4")
def test_timeouts_escalate():
    """2 s, then 5 s, then 30 s; after the last one a timeout error."""
    assert [int(seconds) for seconds in re.findall(r"(\d+)s\b", PROGRESSION)] == [2, 5, 30]
    assert limits(
        gasoline.tools["execute_js"], [int(one) for one in re.findall(r"(\d+)s\b", PROGRESSION)]
    )


@pytest.mark.requirement("G4")
def test_the_last_timeout_reports_and_the_work_goes_on():
    """A sync operation runs on: the caller gets the error, an event reports the thread, and the thread ends."""
    go, ended = threading.Event(), threading.Event()

    @rb.Policy(rb.Timeout(0.01, thread=True))
    def audit() -> None:
        go.wait()
        ended.set()

    with record() as seen:
        failure = rb.capture(audit).failure
    assert (failure.code, failure.executed) == ("SYS_TIMEOUT", rb.errors.Executed.MAYBE)
    assert [name_in_words(event) for event in seen] == ["thread left behind"]
    go.set()
    assert ended.wait(30)


def test_h15_each_number_of_the_preset():
    """The numbers that other tests show only together: attempts of link, calls and polling, and the limit of a call."""
    assert (gasoline.reconnect.attempts, gasoline.reconnect.on_exhausted) == (6, "suspend")
    retry, breaker, timeout = gasoline.calls.layers
    assert (retry.attempts, retry.rules["CONN_REFUSED"].attempts, timeout) == (
        6,
        1,
        rb.Timeout(2, thread=True),
    )
    assert breaker == rb.Breaker.consecutive(5, open_for=30)
    assert drive(gasoline.tools["poll"], *[503] * 40).calls == 30
    assert drive(rb.Policy(retry), *[RESET] * 9).slept == [0, 1, 2, 4, 8]
    assert drive(gasoline.tools["execute_js"], *[RESET] * 9).calls == 3


# ---- in a Toolbox ----------------------------------------------------------------------------------------------------


async def _hangs(
    name: str, **options: object
) -> tuple[list[float], list[tuple[float, float]], rb.calls.Outcome[None]]:
    """Run a tool that never ends; return when it started, when it was reported pending, and its outcome."""
    began: list[float] = []
    toolbox = rb.agent.Toolbox(gasoline)

    with virtual_time() as time, record() as seen:

        async def hang() -> None:
            began.append(sum(time.slept))
            await asyncio.get_running_loop().create_future()

        toolbox.tool(name=name, **options)(hang)
        call = asyncio.create_task(toolbox.call(name, {}))
        for _ in range(100):
            for _ in range(20):
                await asyncio.sleep(0)
            if call.done():
                break
            time.advance(0.5)
        outcome = await call
    pending = [
        (event.seconds, event.timeout) for event in seen if isinstance(event, rb.events.ToolPending)
    ]
    return began, pending, outcome


@pytest.mark.requirement("G4")
@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("name", ["execute_js", "audit"])
async def test_h03_a_tool_that_escalates_runs_once_and_is_reported_pending(name, idempotent):
    """One execution is reported pending after 2 s and 5 s, and times out after 30 s; also for a tool that the preset does not name."""
    began, pending, outcome = await _hangs(name, idempotent=idempotent)
    assert (len(began), pending) == (1, [(2, 30), (5, 30)])
    assert (outcome.failure.code, outcome.failure.executed) == (
        "TOOL_TIMEOUT",
        rb.errors.Executed.MAYBE,
    )
    assert (outcome.seconds, outcome.attempts) == (30, 1)
    assert "what it has begun may go on" in outcome.message


@pytest.mark.requirement("G4")
@pytest.mark.parametrize("form", ["async", "sync"])
async def test_h03_a_script_of_20_seconds_ends_well(form):
    """It is neither cut off at 2 s nor run three times."""
    began, toolbox = [], rb.agent.Toolbox(gasoline)
    with virtual_time() as time, record() as seen:
        done = asyncio.Event()
        go = threading.Event()

        async def later() -> str:
            began.append(1)
            await done.wait()
            return "ended"

        def now() -> str:
            began.append(1)
            go.wait(20)
            return "ended"

        toolbox.tool(name="execute_js", idempotent=True)(later if form == "async" else now)
        assert toolbox.tools["execute_js"].timeout == 30
        call = asyncio.create_task(toolbox.call("execute_js", {}))
        for _ in range(20):
            for _ in range(10):
                await asyncio.sleep(0)
            time.advance(1)
        done.set()
        go.set()
        outcome = await call
    assert (outcome.value, began) == ("ended", [1])
    assert [type(event).__name__ for event in seen] == ["ToolPending", "ToolPending"]


@pytest.mark.requirement("G1")
async def test_h03_a_tool_named_query_still_fails_fast():
    """It fails after 2 s, and nothing is reported pending."""
    began, pending, outcome = await _hangs("query")
    assert (len(began), pending, outcome.seconds) == (1, [], 2)
