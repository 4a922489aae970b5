"""What is held longer than it should be, or told by another thread's doing: ladders and contexts."""

from __future__ import annotations

import gc
import weakref
from contextlib import contextmanager, suppress

import pytest

import resilient_bridge as rb


class OddError(Exception):
    """One that a reference can watch."""


@contextmanager
def uncollected():
    """Without a collection of garbage."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.requirement("V15")
@pytest.mark.parametrize("is_last", [False, True])
async def test_a_ladder_does_not_hold_the_errors_it_went_down_for(is_last):
    """They go at once, with the frames of the call: of a mode that gave way, and of the last one."""
    ladder, seen = rb.agent.Degradation("shop", "best", "worst", may_have_run=True), []

    async def fail() -> None:
        error = OddError("no")
        seen.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    with uncollected():
        with suppress(OddError):
            await ladder.call({"best": fail, "worst": fail if is_last else lambda: 5})
        assert [each() for each in seen] == [None] * (1 + is_last)
    assert ladder.mode == "worst"


@pytest.mark.requirement("V15")
def test_what_a_report_says_is_its_own_doing():
    """True for a step down also if a listener has reset the ladder before it is answered."""
    ladder = rb.agent.Degradation("shop", "best", "worst")
    with rb.listen(
        lambda event: (
            ladder.reset() if isinstance(event, rb.events.ModeChanged) and event.failure else None
        )
    ):
        assert ladder.report(OddError())
    assert ladder.mode == "best"


@pytest.mark.requirement("V12")
async def test_a_context_that_does_not_fit_does_not_hold_what_the_provider_answered():
    """The provider's error goes with the ContextOverflowError that was raised from it."""
    guard, seen = rb.agent.ContextGuard(100, count=lambda _messages, _tools: 10), []

    async def refuse(_messages: list[str]) -> None:
        error = rb.errors.ContextOverflowError(
            rb.Failure.of("SYS_CONTEXT_OVERFLOW", details={"reason": "context_length_exceeded"})
        )
        seen.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    with uncollected():
        with suppress(rb.errors.ContextOverflowError):
            await guard.call(refuse, [])
        assert [each() for each in seen] == [None]
