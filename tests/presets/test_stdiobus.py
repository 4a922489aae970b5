"""stdio Bus: what may be repeated, what never happens to an error, and backpressure on the client's side."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest

import resilient_bridge as rb
from resilient_bridge import presets
from resilient_bridge.presets import stdiobus
from resilient_bridge.testing import virtual_time

from .driving import drive


WITHOUT_ASKING = ["bridge_health", "agents_discover", "sessions_status", "sessions_close"]
ONLY_WHEN_MARKED = ["sessions_create", "sessions_prompt", "sessions_cancel", "tasks_delegate"]
PRESETS = {name: getattr(presets, name) for name in presets.__all__ if name != "BridgePolicy"}

MARKED = rb.Failure.from_mcp(
    {"code": -32000, "message": "overloaded", "data": {"type": "TRANSPORT", "retryable": True}}
)
UNMARKED = rb.Failure.from_mcp({"code": -32000, "message": "gone", "data": {"type": "TRANSPORT"}})
REFUSED = rb.Failure.from_mcp(
    {"code": -32002, "message": "bad", "data": {"type": "UPSTREAM", "retryable": False}}
)


def _error(failure: rb.Failure) -> Exception:
    return rb.BridgeError(failure)


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("name", WITHOUT_ASKING)
def test_these_may_be_repeated_without_asking(name):
    """A reset may have come after the call ran; these four do no harm twice."""
    may = name in stdiobus.idempotent
    assert drive(stdiobus.calls, ConnectionResetError, idempotent=may).calls == 2


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("name", ONLY_WHEN_MARKED)
def test_these_are_repeated_only_when_marked(name):
    """They are named as such, for who knows the operation: `rb.reconnecting` does, which its own tests show. A policy alone does not, and
    repeats none of them, marked or not.
    """
    assert name in stdiobus.idempotent_if_marked
    may = name in stdiobus.idempotent
    for error in (_error(MARKED), _error(UNMARKED), _error(REFUSED), ConnectionResetError):
        assert drive(stdiobus.calls, error, idempotent=may).calls == 1


@pytest.mark.requirement("S9")
@pytest.mark.parametrize("name", PRESETS)
def test_no_preset_retries_without_end(name):
    """Every call policy has a largest number of calls, and reaches it."""
    most = PRESETS[name].calls.explain().max_calls
    assert most < math.inf
    driven = drive(PRESETS[name].calls, *[ConnectionResetError] * 99)
    assert driven.calls <= most
    assert driven.outcome.failure is not None


@pytest.mark.requirement("S9")
@pytest.mark.parametrize("error", [ConnectionResetError("x"), KeyError("x"), TimeoutError("x")])
def test_an_error_is_not_wrapped_away(error):
    """What comes out is the caller's own object, whatever was done about it."""

    @stdiobus.calls(idempotent=True)
    def ask() -> None:
        raise error

    with virtual_time(), pytest.raises(type(error)) as caught:
        ask()
    assert caught.value is error


@pytest.mark.requirement("S9")
async def test_a_failure_that_is_returned_is_not_success():
    """An answer of a tool that stands for a failure is one to its caller, and to a model that reads it."""
    broken = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "agent failed"}}
    toolbox = rb.agent.Toolbox(stdiobus)
    toolbox.tool(lambda: broken, name="ask")
    outcome = await toolbox.call("ask", {})
    assert outcome.failure is not None
    assert '"ok": true' not in outcome.to_llm()


@pytest.mark.requirement("S9")
def test_a_warning_is_not_dropped():
    """A harmful order is told when the policy is made, and again by whoever asks."""
    with pytest.warns(UserWarning, match="Breaker outside of Retry"):
        policy = rb.Policy(rb.Breaker(), rb.Retry())
    assert len(policy.explain().warnings) == 1


@pytest.mark.requirement("S9")
def test_the_session_stays_with_the_failure():
    """A session that is named in an error is in the failure's details, and in what is told of it."""
    failure = rb.Failure.of(
        "SESS_NOT_FOUND", "Session not found: abc-123", details={"session_id": "abc-123"}
    )
    with virtual_time():
        outcome = rb.capture(stdiobus.calls(idempotent=True)(_raising(failure)))
    assert outcome.failure.details["session_id"] == "abc-123"
    assert "abc-123" in outcome.failure.explain()
    assert outcome.failure.session_valid is False


def _raising(failure: rb.Failure):
    def ask() -> None:
        raise _error(failure)

    return ask


@pytest.mark.requirement("S5")
def test_too_many_at_once_is_transport_and_retryable():
    """TRANSPORT and retryable, as "Concurrent request limit reached" is, and it never left."""
    policy = stdiobus.calls.replace(rb.Bulkhead(1))
    inside, go = threading.Event(), threading.Event()

    @policy(idempotent=True)
    def ask() -> str:
        inside.set()
        go.wait(30)
        return "answer"

    running = threading.Thread(target=ask)
    running.start()
    inside.wait(30)
    with virtual_time():
        failure = rb.capture(ask).failure
    go.set()
    running.join()
    assert (failure.category, failure.retryable) == (rb.Category.TRANSPORT, True)
    assert failure.executed is rb.errors.Executed.NO
    assert failure.to_mcp()["code"] == -32000
    assert rb.capture(ask).value == "answer"


@pytest.mark.requirement("S5")
def test_backpressure_is_waited_out():
    """A call that finds no place is repeated like any transient failure, until one is free."""
    places = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(1)), rb.Bulkhead(1))

    async def main() -> str:
        done = asyncio.Event()

        @places(idempotent=True)
        async def ask() -> str:
            await done.wait()
            return "answer"

        with virtual_time() as time:
            first = asyncio.create_task(ask())
            await asyncio.sleep(0)
            second = asyncio.create_task(ask())
            while not time.slept:
                await asyncio.sleep(0)
            done.set()
            await first
            return await second

    assert asyncio.run(main()) == "answer"
