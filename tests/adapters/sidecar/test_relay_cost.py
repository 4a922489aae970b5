"""M09: what one more call costs a relay while others are under way, in lines of code that run."""

from __future__ import annotations

import sys

import pytest

from tests.adapters.sidecar.harness import ready


ROOM = "resilient_bridge/adapters/sidecar/"


def lines_of(what):
    """Return how many lines of the sidecar run during a function."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if ROOM not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        what()
    finally:
        sys.settrace(before)
    return count


def cost_beside(pending, **options):
    """Return the lines for one call and its answer, and the next timer, while so many other calls are under way."""
    harness, client = ready(**options)
    for number in range(pending):
        client.call(number, "order")

    def one():
        client.call("one", "order")
        harness.relay.next_timer()
        harness.reply(harness.asked.pop())
        harness.relay.next_timer()

    return lines_of(one)


@pytest.mark.parametrize("options", [{}, {"timeout": 60}, {"timeout": 60, "deadline": 90}], ids=str)
def test_a_call_costs_no_more_beside_a_thousand_others(options):
    """P22: at most 1.3 times as much as beside ten."""
    assert cost_beside(1_000, **options) <= 1.3 * cost_beside(10, **options)


def test_the_times_of_calls_that_have_ended_are_forgotten():
    """P22: of 2,000 calls with a long timeout, all answered, nothing is kept but what is under way."""
    harness, client = ready(timeout=600)
    for number in range(2_000):
        client.call(number, "order")
        harness.reply(harness.asked.pop())
        harness.sent.clear()
    assert len(harness.relay._state.due) < 200
    assert harness.relay.next_timer() is None
