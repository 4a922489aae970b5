"""Tools, models and values that mean no good, called by name: the loop goes on, and what it is told is true."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import json
import sys
import threading
import time
import weakref

import attrs
import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox
from tests.calls.forms import at_once, settle
from tests.internals.agent import bounded, tool_calls
from tests.internals.agent import suggest as suggestions
from tests.internals.calls import LIMIT


def once(**options):
    """A toolbox that repeats nothing."""
    return Toolbox(rb.Policy(at_once(attempts=1)), **options)


# ---- whose cancellation it is ---------------------------------------------------------------------------------------
def raises(error):
    """A sync tool that raises."""

    def tool() -> None:
        raise error

    return tool


def raises_async(error):
    """An async one."""

    async def tool() -> None:
        raise error

    return tool


def raises_async_new(kind):
    """One that raises a new error with each call."""

    async def tool() -> None:
        raise kind

    return tool


@pytest.mark.requirement("V6")
@pytest.mark.parametrize("make", [raises, raises_async])
@pytest.mark.parametrize("kind", [asyncio.CancelledError, concurrent.futures.CancelledError])
async def test_a_tool_that_is_cancelled_from_inside_has_failed(make, kind):
    """Nobody has cancelled the caller, so it does not end: the outcome says what happened, and holds the error."""
    toolbox = once()
    toolbox.tool(make(kind()), name="wait")
    outcome = await toolbox.call("wait", {})
    assert (outcome.failure.code, outcome.attempts) == ("TOOL_EXECUTION_FAILED", 1)
    assert outcome.failure.executed is rb.errors.Executed.MAYBE
    assert isinstance(outcome.error.__cause__, kind)
    assert asyncio.current_task().cancelling() == 0


async def test_a_tool_that_raises_a_cancellation_of_its_caller_is_no_failure():
    """Cancelled while its tool waits, the call ends cancelled, also where the tool turns that into one of another class."""
    toolbox = once()

    @toolbox.tool
    async def wait() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise concurrent.futures.CancelledError from None

    call = asyncio.create_task(toolbox.call("wait", {}))
    await settle()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert call.cancelled()


async def test_a_cancellation_from_inside_leaves_no_cycle():
    """The error goes when its outcome goes: without a collection of garbage."""
    toolbox = once()
    toolbox.tool(raises_async_new(asyncio.CancelledError), name="wait")
    gc.collect()
    gc.disable()
    try:
        outcome = await toolbox.call("wait", {})
        seen = weakref.ref(outcome.error)
        del outcome
        assert seen() is None
    finally:
        gc.enable()


async def test_a_direct_call_raises_a_cancellation_as_it_is():
    """The tool stays the function it was."""
    tool = once().tool(raises_async(asyncio.CancelledError("mine")))
    with pytest.raises(asyncio.CancelledError, match="mine"):
        await tool()


async def test_a_cancellation_that_comes_with_the_fixes_is_not_lost(monkeypatch):
    """Cancelled in the very moment in which the search for fixes ends, the call is cancelled."""
    toolbox = once()
    toolbox.tool(raises(ValueError("no")), name="fail")
    loop = asyncio.get_running_loop()
    asked = threading.Event()

    def cancel() -> None:
        asked.set()
        time.sleep(0.05)  # the result has to be in the hands of the loop before the cancellation is
        call.cancel()

    def suggest(*_args, **_options):
        loop.call_soon_threadsafe(cancel)
        asked.wait(5)
        return ("try again",)

    monkeypatch.setattr(suggestions, "suggest", suggest)
    call = asyncio.create_task(toolbox.call("fail", {}))
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_search_that_hangs_is_not_waited_for(monkeypatch):
    """The failure comes without what it would have found, and nothing of it is left in the loop."""
    monkeypatch.setattr(tool_calls, "_SUGGEST_SECONDS", 0.05)
    release, complaints = threading.Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    monkeypatch.setattr(
        suggestions, "suggest", lambda *_args, **_options: release.wait(5) and 1 / 0
    )
    toolbox = once()
    toolbox.tool(raises(ValueError("no")), name="fail")
    outcome = await toolbox.call("fail", {})
    release.set()
    await asyncio.sleep(0.05)
    assert outcome.failure.suggestions
    assert complaints == []


@pytest.mark.parametrize("is_async", [True, False])
def test_a_call_that_is_thrown_away_with_its_loop_is_quiet(is_async, monkeypatch):
    """Nothing is complained about that we could have prevented, and nothing of the loop is kept."""
    toolbox, unheard, release = once(), [], threading.Event()

    async def wait() -> None:
        await asyncio.sleep(60)

    toolbox.tool(wait if is_async else lambda: release.wait(5), name="wait")
    monkeypatch.setattr(sys, "unraisablehook", unheard.append)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # asyncio itself says that a task was destroyed
    call = loop.create_task(toolbox.call("wait", {}))
    loop.run_until_complete(asyncio.sleep(0.05))
    loop.close()
    release.set()  # the thread holds the call until it ends
    for thread in threading.enumerate():
        if thread.name == "resilient_bridge tool":
            thread.join(5)
    del call
    gc.collect()
    assert [str(each.exc_value) for each in unheard] == []
    assert not [task for task in bounded._abandoned if task.get_loop() is loop]


def test_what_a_closed_loop_leaves_behind_is_forgotten():
    """A tool that ignored its cancellation until its loop was closed is not kept for ever: the next that is left replaces it."""
    toolbox = once()

    @toolbox.tool(timeout=0.01)
    async def stubborn() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    async def late() -> rb.calls.Outcome[object]:
        with rb.testing.virtual_time() as clock:
            call = asyncio.create_task(toolbox.call("stubborn", {}))
            for seconds in (0.01, bounded.GRACE):
                await settle()
                clock.advance(seconds)
            return await call

    loops = []
    for _ in range(2):
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)
        assert loop.run_until_complete(late()).failure.code == "TOOL_TIMEOUT"
        loop.close()
        loops.append(loop)
    assert not [task for task in bounded._abandoned if task.get_loop() is loops[0]]
    bounded._abandoned.clear()


# ---- what a model may do to the loop --------------------------------------------------------------------------------
@pytest.mark.requirement("V6")
async def test_a_hundred_thousand_unknown_arguments_do_not_hold_the_loop(monkeypatch):
    """What is not told is not looked up: names that are near are searched for a few of them."""
    toolbox, looked = once(), []

    @toolbox.tool
    def read(path: str, *, encoding: str = "utf-8") -> None: ...

    find = toolbox._entries["read"].parameters.__class__._no_such
    monkeypatch.setattr(
        "resilient_bridge.agent.tools.tool_arguments.Parameters._no_such",
        lambda self, name: looked.append(name) or find(self, name),
    )
    outcome = await toolbox.call(
        "read", json.dumps({f"path_{number}": 1 for number in range(100_000)})
    )
    assert outcome.failure.code == "TOOL_ARGUMENTS_INVALID"
    assert "did you mean path?" in outcome.message
    assert len(looked) < 30
    assert len(outcome.to_llm()) < 5_000


async def test_disabled_a_tool_has_no_limit():
    """Inside of `rb.testing.disabled()` a sync tool called by name is bounded no more than an async one."""
    toolbox = once()

    @toolbox.tool(timeout=0.01)
    def block() -> str:
        time.sleep(0.1)
        return "done"

    @toolbox.tool(timeout=0.01)
    async def wait() -> str:
        await asyncio.sleep(0.1)
        return "done"

    with rb.testing.disabled():
        assert [(await toolbox.call(name, {})).value for name in ("block", "wait")] == [
            "done",
            "done",
        ]


@pytest.mark.requirement("R11")
async def test_what_is_never_repeated_has_no_repeats():
    """A tool without permission that was late: `max_retries` is 0, because the policy repeats such a failure never."""
    toolbox = Toolbox(rb.Policy(at_once(attempts=4)))

    async def late() -> None:
        raise TimeoutError

    toolbox.tool(late, name="plain")
    toolbox.tool(late, name="again", idempotent=True)
    plain, again = await toolbox.call("plain", {}), await toolbox.call("again", {})
    assert (plain.attempts, plain.max_retries) == (1, 0)
    assert (again.attempts, again.max_retries) == (4, 3)
    assert plain.to_tool_error("t")["payload"]["max_retries"] == 0


# ---- what a model is shown ------------------------------------------------------------------------------------------
@attrs.frozen
class Report:
    """A value of somebody's that happens to have an exit code."""

    exit_code: int = 0
    files: tuple[str, ...] = ("a.txt",)


@pytest.mark.requirement("V6")
async def test_a_value_with_an_exit_code_is_no_command():
    """All of it is shown, not only what a command would have."""
    toolbox = once()
    toolbox.tool(lambda: Report(), name="report")  # noqa: PLW0108 -- a class is no tool
    outcome = await toolbox.call("report", {})
    assert (outcome.exit_code, outcome.stdout) == (None, "")
    assert "a.txt" in outcome.to_llm()


@pytest.mark.requirement("V6")
@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c", "\r\n"])
def test_a_line_is_one_line_to_every_reader(end):
    """Whatever `splitlines` takes for an end is escaped, in keys as well, and comes back as it was."""
    value = {f"a{end}b": [f"c{end}d"]}
    line = rb.capture(lambda: value).to_llm()
    assert len(line.splitlines()) == 1
    assert len(rb.capture(lambda: end * 100_000).to_llm()) < 2 * LIMIT
    assert json.loads(line)["result"] == value


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(("code", "reported"), [(2, 2), (0, 0), (None, 0), ("no such option", 1)])
async def test_a_tool_that_exits_ends_itself_alone(is_async, code, reported):
    """As argparse does: its exit code is data, and the agent goes on."""
    toolbox = rb.agent.Toolbox()

    def parse() -> None:
        raise SystemExit(code)

    async def parse_later() -> None:
        raise SystemExit(code)

    toolbox.tool(name="parse")(parse_later if is_async else parse)
    outcome = await toolbox.call("parse", {})
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.exit_code) == ("TOOL_EXECUTION_FAILED", reported)


async def test_arguments_of_megabytes_are_not_read():
    """Reading them would hold the loop for seconds."""
    toolbox = rb.agent.Toolbox()
    called = []
    toolbox.tool(name="keep")(called.append)
    outcome = await toolbox.call("keep", '{"object": "' + "x" * 4_000_000 + '"}')
    assert (outcome.type, called) == ("validation", [])
    assert "4,000,014 characters" in outcome.message
