"""A time limit that holds: for tools that listen, for tools that do not, and for tools that cannot."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
import weakref

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox
from tests.calls.forms import at_once, settle
from tests.internals.agent import bounded
from tests.internals.telemetry import name_in_words


def once(**options):
    """A toolbox that repeats nothing."""
    return Toolbox(rb.Policy(at_once(attempts=1)), **options)


@pytest.mark.requirement("R12")
@pytest.mark.requirement("V5")
async def test_a_tool_ends_at_its_limit():
    """30 s unless said otherwise, not a moment earlier; TOOL_TIMEOUT, and it may have run."""
    toolbox = once()

    @toolbox.tool
    async def hang() -> None:
        await asyncio.get_running_loop().create_future()

    with rb.testing.virtual_time() as clock:
        call = asyncio.create_task(toolbox.call("hang", {}))
        await settle()
        clock.advance(29.9)
        await settle()
        assert not call.done()
        clock.advance(0.1)
        outcome = await call
    failure = outcome.failure
    assert (failure.code, failure.executed, outcome.type) == (
        "TOOL_TIMEOUT",
        rb.errors.Executed.MAYBE,
        "timeout",
    )
    assert failure.message == "timed out after 30 s"
    assert (outcome.recoverable, outcome.seconds) == (True, 30)


@pytest.mark.requirement("R12")
@pytest.mark.real
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_direct_call_is_bounded_too(is_async):
    """It raises an AttemptTimeoutError, which is a TimeoutError, with the same code."""
    toolbox = once()
    released = threading.Event()

    @toolbox.tool(timeout=0.05)
    async def hang() -> None:
        await asyncio.get_running_loop().create_future()

    @toolbox.tool(timeout=0.05)
    def block() -> None:
        released.wait(20)

    began = time.monotonic()
    with pytest.raises(TimeoutError) as raised:
        await hang() if is_async else block()
    released.set()
    assert time.monotonic() - began < 5
    assert rb.classify(raised.value).code == "TOOL_TIMEOUT"
    assert type(raised.value) is rb.errors.AttemptTimeoutError


@pytest.mark.requirement("R12")
async def test_a_tool_that_ignores_cancellation_is_abandoned_and_reported():
    """A second after its limit the caller goes on; the tool is kept until it ends, and its error is nobody's."""
    toolbox = once()
    release = asyncio.Event()
    ignored, complaints = [], []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    @toolbox.tool(timeout=5)
    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                ignored.append(1)
        raise ZeroDivisionError

    with rb.testing.virtual_time() as clock, rb.testing.record() as reported:
        call = asyncio.create_task(toolbox.call("stubborn", {}))
        await settle()
        clock.advance(5)
        await settle()
        clock.advance(bounded.GRACE)
        outcome = await call
    assert (outcome.failure.code, len(ignored)) == ("TOOL_TIMEOUT", 1)
    remaining = [event for event in reported if isinstance(event, rb.events.CallLeftBehind)]
    assert [(event.name, event.seconds, event.runs_in) for event in remaining] == [
        ("stubborn", 5, "task")
    ]
    assert len(bounded._abandoned) == 1
    release.set()
    await settle()
    gc.collect()
    assert (bounded._abandoned, complaints) == (set(), [])


@pytest.mark.requirement("R12")
@pytest.mark.real
async def test_a_sync_tool_never_runs_on_the_loop():
    """The loop goes on while it works; at its limit it is left behind in its thread and reported."""
    toolbox = once()
    released = threading.Event()
    threads = []

    @toolbox.tool(timeout=0.1)
    def block() -> None:
        threads.append(threading.current_thread())
        released.wait(20)

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    with rb.testing.record() as reported:
        outcome = await toolbox.call("block", {})
    ticking.cancel()
    released.set()
    threads[0].join(5)
    assert (outcome.failure.code, outcome.failure.executed) == (
        "TOOL_TIMEOUT",
        rb.errors.Executed.MAYBE,
    )
    assert ticks > 3
    assert threads[0].daemon
    assert threads[0] is not threading.main_thread()
    remaining = [event for event in reported if isinstance(event, rb.events.CallLeftBehind)]
    assert [(event.name, event.seconds, event.runs_in) for event in remaining] == [
        ("block", 0.1, "thread")
    ]


async def test_cancelling_a_call_cancels_its_tool():
    """The tool has cleaned up before the cancellation comes out, and nothing is called a failure."""
    toolbox = once()
    done = []

    @toolbox.tool
    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            done.append("cleaned up")
            raise

    with rb.testing.record() as reported:
        call = asyncio.create_task(toolbox.call("work", {}))
        await settle()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert (done, reported) == (["cleaned up"], [])


@pytest.mark.real
async def test_cancelling_the_call_of_a_sync_tool_leaves_its_thread_behind():
    """The caller goes on at once; an event says what runs on."""
    toolbox = once()
    released = threading.Event()
    toolbox.tool(lambda: released.wait(20), name="block")
    with rb.testing.record() as reported:
        call = asyncio.create_task(toolbox.call("block", {}))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    released.set()
    assert [name_in_words(event) for event in reported] == ["thread left behind"]


async def test_a_caller_without_patience_leaves_the_tool_at_once():
    """Cancelled twice, the call does not wait for the tool to clean up; the tool is reported."""
    toolbox = once()
    release = asyncio.Event()

    @toolbox.tool
    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await release.wait()

    with rb.testing.record() as reported:
        call = asyncio.create_task(toolbox.call("work", {}))
        for _ in range(2):
            await settle()
            call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    release.set()
    await settle()
    assert [name_in_words(event) for event in reported] == ["task left behind"]


async def test_a_deadline_around_bounds_a_tool_that_ignores_it():
    """The policy's Deadline ends the call too, one grace later at most."""
    toolbox = Toolbox(rb.Policy(rb.Deadline(10), at_once()))
    release = asyncio.Event()

    @toolbox.tool(timeout=60)
    async def stubborn() -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    with rb.testing.virtual_time() as clock:
        call = asyncio.create_task(toolbox.call("stubborn", {}))
        for seconds in (10, bounded.GRACE):
            await settle()
            clock.advance(seconds)
        outcome = await call
    release.set()
    await settle()
    assert outcome.failure.code == "SYS_DEADLINE_EXCEEDED"


@pytest.mark.real
async def test_a_deadline_around_bounds_a_sync_tool_called_by_name():
    """The call ends with the deadline; the thread is left behind and reported."""
    toolbox = Toolbox(rb.Policy(rb.Deadline(0.05), at_once()))
    released = threading.Event()
    toolbox.tool(lambda: released.wait(20), name="block", timeout=60)
    with rb.testing.record() as reported:
        outcome = await toolbox.call("block", "")
    released.set()
    assert outcome.failure.code == "SYS_DEADLINE_EXCEEDED"
    assert "thread left behind" in map(name_in_words, reported)


@pytest.mark.real
def test_a_deadline_around_bounds_a_direct_sync_call():
    """With less time left than its limit, the thread is left when the deadline passes."""
    toolbox = Toolbox(rb.Policy(rb.Deadline(0.05), at_once()))
    released = threading.Event()
    block = toolbox.tool(lambda: released.wait(20), name="block", timeout=60)
    with pytest.raises(rb.DeadlineExceededError):
        block()
    released.set()


async def test_each_attempt_has_all_of_the_limit():
    """A late attempt is repeated if that is allowed, and an escalating limit grows."""
    toolbox = once()

    @toolbox.tool(
        idempotent=True, policy=rb.Policy(at_once(attempts=3), rb.Timeout.escalating(2, 5))
    )
    async def hang() -> None:
        await asyncio.get_running_loop().create_future()

    assert toolbox.tools["hang"].timeout == 5
    with rb.testing.virtual_time() as clock:
        call = asyncio.create_task(toolbox.call("hang", {}))
        for seconds in (2, 5, 5):
            await settle()
            clock.advance(seconds)
        outcome = await call
    assert (outcome.attempts, outcome.seconds) == (3, 12)
    assert [failure.code for failure in outcome.failure.history] == ["TOOL_TIMEOUT"] * 2
    assert outcome.failure.history[0].message == "timed out after 2 s"


async def test_what_a_tool_raises_after_its_limit_is_the_cause():
    """It is late all the same: the timeout is what happened, and the tool's last error is why."""
    toolbox = once()

    @toolbox.tool(timeout=1)
    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise ZeroDivisionError from None

    with rb.testing.virtual_time() as clock:
        call = asyncio.create_task(toolbox.call("work", {}))
        await settle()
        clock.advance(1)
        outcome = await call
    assert outcome.failure.code == "TOOL_TIMEOUT"
    assert isinstance(outcome.error.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("is_async", [True, False])
async def test_odd_errors_come_out_as_they_are(is_async):
    """StopIteration, which no future can hold, and the end of the program: by name that of the tool alone."""
    toolbox = once()

    def stop(how: str) -> None:
        raise {"exit": SystemExit(3), "stop": StopIteration("end")}[how]

    async def stop_async(how: str) -> None:
        stop(how)

    toolbox.tool(stop_async if is_async else stop, name="stop")
    for how, code in (("stop", None), ("exit", 3)):
        outcome = await toolbox.call("stop", {"how": how})
        assert (outcome.failure.code, outcome.exit_code) == ("TOOL_EXECUTION_FAILED", code)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_failed_call_leaves_no_cycle(is_async):
    """The error goes when its outcome goes: without a collection of garbage."""
    toolbox = Toolbox(rb.Policy(rb.Breaker()))

    class OddError(Exception):
        pass

    def fail() -> None:
        raise OddError

    async def fail_async() -> None:
        raise OddError

    toolbox.tool(fail_async if is_async else fail, name="fail")
    gc.collect()
    gc.disable()
    try:
        outcome = await toolbox.call("fail", {})
        error = weakref.ref(outcome.error)
        del outcome
        await settle()
        for _ in range(100):
            if error() is None:
                break
            await asyncio.sleep(0.01)  # the thread lets go of it
        assert error() is None
    finally:
        gc.enable()


async def test_context_variables_are_those_of_the_caller():
    """A tool sees them in a task and in a thread, and the deadline around the call as well."""
    toolbox = Toolbox(rb.Policy(rb.Deadline(60), at_once()))

    def rest() -> bool:
        return 50 < rb.current_attempt().remaining <= 60

    async def closed_async() -> bool:
        return rest()

    for tool in (rest, closed_async):
        toolbox.tool(tool)
        assert (await toolbox.call(tool.__name__, {})).value is True


# ---- the time that a caller gives ------------------------------------------------------------------------------------


async def _called(toolbox: Toolbox, name: str, **options: object) -> rb.calls.Outcome[object]:
    """Call a tool in virtual time until its call ends."""
    with rb.testing.virtual_time() as clock:
        call = asyncio.create_task(toolbox.call(name, {}, **options))
        for _ in range(200):
            await settle()
            if call.done():
                break
            clock.advance(0.25)
        return await call


@pytest.mark.requirement("R12")
@pytest.mark.parametrize(
    ("timeout_ms", "seconds"), [(5000, 5), (500, 0.5), (30000, 10), (None, 10)]
)
async def test_a05_a_caller_may_set_a_timeout_for_one_call(timeout_ms, seconds):
    """`timeout_ms` of a user (5000 by default in the browser) ends the call; it never lengthens the tool's own 10 s."""
    toolbox = once()

    @toolbox.tool(timeout=10)
    async def execute_js() -> None:
        await asyncio.get_running_loop().create_future()

    outcome = await _called(
        toolbox, "execute_js", timeout=None if timeout_ms is None else timeout_ms / 1000
    )
    failure = outcome.failure
    assert (failure.code, failure.executed, outcome.type) == (
        "TOOL_TIMEOUT",
        rb.errors.Executed.MAYBE,
        "timeout",
    )
    assert (failure.message, outcome.seconds, outcome.attempts) == (
        f"timed out after {seconds:g} s",
        seconds,
        1,
    )


async def test_a05_it_bounds_all_attempts_together():
    """The tool's limit is of one attempt; the caller's is of the call: repeats and waits end with it."""
    toolbox = Toolbox(rb.Policy(rb.Retry(attempts=9, backoff=rb.Backoff.constant(1), budget=None)))
    began = []

    @toolbox.tool(timeout=10, idempotent=True)
    async def fetch() -> None:
        began.append(1)
        raise TimeoutError("slow")

    outcome = await _called(toolbox, "fetch", timeout=3.5)
    assert (len(began), outcome.type) == (4, "timeout")
    assert outcome.seconds <= 3.5


async def test_a05_an_answer_in_time_is_the_answer():
    """Nothing else changes, in a thread neither; the next call has its own time."""
    toolbox = once()

    @toolbox.tool(timeout=10)
    async def now() -> int:
        return 1

    @toolbox.tool(timeout=10)
    def sync() -> int:
        return 2

    for timeout in (5, None):
        first, second = (
            await toolbox.call("now", {}, timeout=timeout),
            await toolbox.call("sync", {}, timeout=timeout),
        )
        assert (first.value, first.attempts, second.value, second.attempts) == (1, 1, 2, 1)


@pytest.mark.real
async def test_a05_a_sync_tool_is_abandoned_in_its_thread():
    """The caller returns in time, and an event reports the thread."""
    toolbox, released = once(), threading.Event()
    toolbox.tool(lambda: released.wait(20), name="block", timeout=60)
    with rb.testing.record() as seen:
        outcome = await toolbox.call("block", {}, timeout=0.05)
    released.set()
    assert outcome.failure.code == "TOOL_TIMEOUT"
    assert "thread left behind" in map(name_in_words, seen)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True])
async def test_a05_what_is_no_time_is_a_mistake_in_the_program(timeout):
    """ConfigError names the argument; the tool does not run."""
    toolbox = once()
    toolbox.tool(lambda: None, name="block")
    with pytest.raises(rb.ConfigError, match=r"Toolbox\.call\(timeout\)"):
        await toolbox.call("block", {}, timeout=timeout)
