"""The tokens of a rate limit: a burst, then an even rate; unused tokens are returned."""

from __future__ import annotations

import contextlib
import pickle
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resilient_bridge import errors
from resilient_bridge.calls import RateLimit
from resilient_bridge.errors import ThrottledError
from tests.calls.circuit_driving import in_threads
from tests.internals.calls import RateState


def test_a_burst_then_evenly():
    """At 5 per second: five at once, then one every 0.2 s; a caller that may not wait gets `retry_after`."""
    state = RateState("api", RateLimit(5))
    assert [state.reserve(100.0, 0) for _ in range(5)] == [0] * 5
    with pytest.raises(ThrottledError) as caught:
        state.reserve(100.0, 0)
    assert caught.value.retry_after == pytest.approx(0.2)
    assert state.reserve(100.2, 0) == 0
    with pytest.raises(ThrottledError):
        state.reserve(100.3, 0)


def test_a_caller_that_may_wait_gets_its_wait():
    """Each reserved token is a fifth of a second after the previous one; a refusal takes none."""
    state = RateState("api", RateLimit(5))
    for _ in range(5):
        state.reserve(0.0, 0)
    assert [state.reserve(0.0, 1) for _ in range(5)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    for _ in range(3):
        with pytest.raises(ThrottledError) as caught:
            state.reserve(0.0, 1)
        assert caught.value.retry_after == pytest.approx(1.2)


def test_a_returned_token_goes_to_the_next_caller():
    """After `cancel` the next caller is served as if the token had never been taken."""
    state = RateState("api", RateLimit(1, per=10))
    state.reserve(0.0, 0)
    assert state.reserve(0.0, 60) == 10
    state.cancel()
    assert state.reserve(0.0, 60) == 10
    state.cancel()
    state.cancel()
    assert state.reserve(0.0, 0) == 0
    of_many = RateState("api", RateLimit(4))
    for _ in range(5):
        of_many.reserve(0.0, 1)
    of_many.cancel()
    assert of_many.reserve(0.0, 1) == 0.25


def started(state, waits):
    """When the calls start that have these turns, in the order of their turns."""
    queue, starts = sorted(waits), []
    while queue:
        at = queue.pop(0)
        if wait := state.start(at):
            queue = sorted([*queue, at + wait])
        else:
            starts.append(at)
    return starts


def test_calls_that_come_late_do_not_start_at_once():
    """The loop was blocked for four seconds: three calls start then, the others at the pace, in their order."""
    state = RateState("api", RateLimit(3))
    for _ in range(3):
        assert state.reserve(0.0, 0) == state.start(0.0) == 0
    for _ in range(12):
        state.reserve(0.0, 60)
    starts = started(state, [4.0] * 12)
    assert starts == pytest.approx([4, 4, 4, *(4 + n / 3 for n in range(1, 10))])
    assert state.reserve(4.0, 60) == pytest.approx(10 / 3)


def test_tokens_returned_between_others_start_no_more_calls_than_there_are_tokens():
    """Nine of twelve waiting calls leave and nine others come: their turns and the three that are left fall on the same instants."""
    state = RateState("api", RateLimit(3))
    for _ in range(3):
        assert state.reserve(0.0, 0) == state.start(0.0) == 0
    waits = [state.reserve(0.0, 60) for _ in range(12)]
    for _ in range(9):
        state.cancel()
    starts = started(state, [*waits[9:], *(state.reserve(0.0, 60) for _ in range(9))])
    for first, at in enumerate(starts):
        for last in range(first, len(starts)):
            assert last - first + 1 <= 3 + (starts[last] - at) * 3 + 1e-6
    assert len(starts) == 12
    assert starts[-1] < 5.5


def test_a_timer_that_is_late_by_a_moment_is_on_time():
    state = RateState("api", RateLimit(1))
    assert state.reserve(0.0, 0) == state.start(0.0) == 0
    assert state.reserve(0.0, 60) == 1
    assert state.start(1.0005) == 0
    assert state.reserve(1.001, 60) == pytest.approx(1, abs=0.002)
    assert state.start(2.0) == 0


def test_a_pause_fills_it_up_and_no_further():
    """After an hour the burst is five, not 18,000; tokens returned to a full bucket do not overfill it."""
    state = RateState("api", RateLimit(5))
    state.reserve(0.0, 0)
    state.cancel()
    state.cancel()
    assert [state.reserve(3600.0, 0) for _ in range(5)] == [0] * 5
    with pytest.raises(ThrottledError):
        state.reserve(3600.0, 0)


def test_fractions_do_not_add_up():
    """At a hundred per second, one call exactly every hundredth never waits, for a minute."""
    state = RateState("api", RateLimit(100))
    for _ in range(100):
        state.reserve(0.0, 0)
    assert all(state.reserve(n / 100, 0) == 0 for n in range(1, 6000))


def test_other_numbers_keep_the_share_that_is_used():
    """Half of the bucket is used before and after the change, with or without refusals."""
    state = RateState("api", RateLimit(4, per=4))
    for _ in range(2):
        state.reserve(0.0, 0)
    state.configure(RateLimit(8, per=80))
    assert [state.reserve(0.0, 0) for _ in range(4)] == [0] * 4
    with pytest.raises(ThrottledError) as caught:
        state.reserve(0.0, 0)
    assert caught.value.retry_after == pytest.approx(10)
    state.configure(RateLimit(8, per=8))
    for _ in range(2):
        with pytest.raises(ThrottledError) as caught:
            state.reserve(0.0, 0)
        assert caught.value.retry_after == pytest.approx(1)


def test_the_rejection_says_which_limit():
    """It never ran, is retryable, and has `retry_after`."""
    state = RateState("api", RateLimit(1, per=60))
    state.reserve(0.0, 0)
    with pytest.raises(ThrottledError) as caught:
        state.reserve(0.0, 0)
    failure = caught.value.failure
    assert (failure.code, failure.executed, failure.retryable) == ("SYS_THROTTLED", "no", True)
    assert str(failure) == "rate limit api of 1 in 60 s used up (TRANSPORT, retry in 60 s)"
    copied = pickle.loads(pickle.dumps(caught.value))
    assert type(copied) is errors.ThrottledError
    assert copied.failure == failure
    with pytest.raises(AttributeError):
        caught.value.nothing  # noqa: B018


@settings(max_examples=100)
@given(
    calls=st.integers(1, 4),
    per=st.sampled_from([0.5, 1.0, 8.0]),
    max_wait=st.sampled_from([0.0, 0.25, 4.0]),
    waits=st.lists(st.sampled_from([0.0, 0.0, 0.125, 0.5, 2.0, 16.0]), max_size=60),
)
def test_it_is_a_bucket_that_is_refilled(calls, per, max_wait, waits):
    """Compared with a plain token bucket: refilled over time, at most `calls`, and below zero for waiting callers."""
    state, now, tokens = RateState("x", RateLimit(calls, per=per)), 64.0, float(calls)
    starts = []
    for wait in waits:
        now += wait
        tokens = min(calls, tokens + wait * calls / per)
        expected = max(0.0, (1 - tokens) * per / calls)
        try:
            found = state.reserve(now, max_wait)
        except ThrottledError as error:
            assert expected > max_wait
            assert error.retry_after == pytest.approx(expected)
            continue
        assert found == pytest.approx(expected, abs=1e-6)
        tokens -= 1
        starts.append(now + found)
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            fit = calls + (starts[last] - starts[first]) * calls / per
            assert last - first + 1 <= fit + 1e-6


def test_threads_never_get_the_same_token_twice():
    """8 threads ask 200 times each for 1,000 tokens."""
    state, waits = RateState("x", RateLimit(1000, per=3600)), []

    def call():
        for _ in range(200):
            with contextlib.suppress(ThrottledError):
                waits.append(state.reserve(0.0, 0))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(call, 8)
    finally:
        sys.setswitchinterval(before)
    assert waits == [0] * 1000
