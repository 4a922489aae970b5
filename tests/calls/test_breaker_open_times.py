"""A circuit: how long it stays open, what a rejection says, manual changes, and what survives new settings."""

from __future__ import annotations

import copy
import pickle
import random
import sys
import traceback
from datetime import timedelta

import pytest

from resilient_bridge import failure as errors
from resilient_bridge.calls import Breaker
from resilient_bridge.failure import CircuitOpenError, Failure
from resilient_bridge.values import Backoff
from tests.calls.circuit_driving import Circuit, in_threads, opened, rejection
from tests.internals.calls import CircuitState


# ---- open time -----------------------------------------------------------------------------------------------------


def _waits(circuit: Circuit, openings: int) -> list[float]:
    now, waits = 0.0, []
    circuit.fail(3)
    for _ in range(openings):
        waits.append(circuit.retry_after(now))
        now += waits[-1]
        circuit.fail(now=now)
    return waits


def test_the_open_time_grows_until_it_closes():
    """1, 2, 4, 4 s while probes fail; after closing, and after a reset by hand, 1 s again."""
    open_for = Backoff.exponential(1, cap=4, jitter="none")
    circuit = Circuit(Breaker.consecutive(3, open_for=open_for))
    assert _waits(circuit, 4) == [1, 2, 4, 4]
    circuit.succeed(now=100)
    circuit.fail(3, now=100)
    assert circuit.retry_after(100.0) == 1
    circuit.fail(now=101)
    assert circuit.retry_after(101.0) == 2
    circuit.reset(101.0)
    circuit.fail(3, now=101)
    assert circuit.retry_after(101.0) == 1


def test_the_open_time_is_spread():
    """By default within 1/2..1, 1..2, 1.5..3 s, so that clients of the same server do not probe it together."""
    runs = []
    for seed in range(50):
        circuit = Circuit(Breaker(window=3), seed)
        runs.append(_waits(circuit, 4))
    for waits in runs:
        assert all(most / 2 <= wait <= most for wait, most in zip(waits, (1, 2, 3, 3), strict=True))
    assert len({waits[0] for waits in runs}) == 50


def test_a_decorrelated_open_time_grows_from_the_wait_before():
    """The schedule is given its own last wait."""
    waits = _waits(Circuit(Breaker.consecutive(3, open_for=Backoff.decorrelated(1, cap=1000))), 30)
    assert all(1 <= wait <= 3 * before for before, wait in zip([1.0, *waits], waits, strict=False))
    assert max(waits) > 3


# ---- the rejection -------------------------------------------------------------------------------------------------


def test_a_rejection_says_why_and_for_how_long():
    """The circuit, the reason, what opened it, and when to come back; it never ran."""
    circuit = Circuit(Breaker.consecutive(1, open_for=10))
    cause = ConnectionRefusedError("no")
    circuit.fail(because=Failure.of("CONN_REFUSED", cause=cause))
    error = rejection(circuit, 2.5)
    failure = error.failure
    assert (failure.code, failure.executed, failure.retryable) == ("SYS_CIRCUIT_OPEN", "no", True)
    assert failure.retry_after == error.retry_after == 7.5
    assert str(failure) == "circuit github open (TRANSPORT, consecutive_failures_1, retry in 7.5 s)"
    assert failure.details["circuit"] == "github"
    assert failure.details["because"].startswith("connection refused")
    assert circuit.because is not None
    assert circuit.because.cause is None, "the exception would keep its frames alive"


def test_a_rejection_is_the_public_class():
    """By isinstance, by name, through copy and pickle; it is not one of an SDK's own errors."""
    error = rejection(opened(), 0.0)
    error.add_note("seen")
    for same in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert isinstance(same, errors.CircuitOpenError)
        assert type(same).__name__ == "CircuitOpenError"
        assert same.failure == error.failure
        assert same.__notes__ == ["seen"]
    assert type(pickle.loads(pickle.dumps(error))) is errors.CircuitOpenError
    assert not isinstance(error, OSError)
    assert traceback.format_exception_only(error)[0].startswith(
        "resilient_bridge.failure.exceptions.CircuitOpenError: circuit"
    )
    with pytest.raises(AttributeError):
        error.nothing  # noqa: B018


def test_every_rejection_is_a_fresh_one():
    """A thousand rejections are a thousand exceptions, each with its own short traceback."""
    circuit = opened()
    found = [rejection(circuit, 0.0) for _ in range(1000)]
    assert len(set(map(id, found))) == 1000
    assert len({len(traceback.extract_tb(error.__traceback__)) for error in found}) == 1


# ---- by hand -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("G2")
def test_a_reset_closes_it():
    """From any state, with an empty window and the reason `manual_reset`."""
    circuit = Circuit(Breaker.consecutive(3, open_for=10))
    circuit.fail(3, because=Failure.of("CONN_RESET"))
    circuit.reset(1.0)
    assert circuit.transitions[-1] == ("open", "closed", "manual_reset", 1.0)
    assert circuit.counts(1.0) == (0, 3)
    assert (circuit.is_closed, circuit.tell_after > 0, circuit.because) == (True, True, None)


def test_a_reset_of_a_closed_circuit_forgets_without_a_transition():
    """The counts are cleared, calls under way do not count, and no transition is reported."""
    circuit = Circuit(Breaker.consecutive(2))
    old = circuit.admit(0.0)
    circuit.fail()
    circuit.reset(0.0)
    circuit.failed(old, 0.0, 0.0)
    assert circuit.counts(0.0) == (0, 2)
    assert circuit.tell_after > 0
    assert circuit.transitions == []


def test_an_isolated_circuit_lets_nothing_through():
    """Until a reset; the error says that waiting does not help."""
    circuit = Circuit(Breaker())
    circuit.isolate(0.0)
    circuit.isolate(0.0)
    error = rejection(circuit, 1e9)
    assert (error.retry_after, error.failure.retryable) == (None, False)
    assert "rb.calls.circuit('github').reset()" in str(error)
    assert circuit.reasons == ["isolated"]
    circuit.reset(1.0)
    circuit.succeed()
    was_open = opened()
    was_open.isolate(0.0)
    error = rejection(was_open, 0.0)
    assert (error.retry_after, error.failure.details["reason"]) == (None, "isolated")


@pytest.mark.parametrize("verb", ["reset", "isolate", "disable"])
def test_what_opened_it_is_forgotten_with_the_opening(verb):
    """The cause stays while half-open, and is cleared when the circuit is set by hand."""
    circuit = Circuit(Breaker.consecutive(1, open_for=10))
    circuit.fail(because=Failure.of("CONN_RESET"))
    circuit.admit(10.0)
    assert circuit.because == Failure.of("CONN_RESET")
    getattr(circuit, verb)(10.0)
    assert circuit.because is None


def test_a_disabled_circuit_lets_everything_through_and_counts_nothing():
    """It is closed, and no success need be reported, whatever fails."""
    circuit = opened()
    circuit.disable(1.0)
    assert (circuit.state, circuit.is_closed, circuit.tell_after > 0) == ("disabled", True, True)
    late = circuit.admit(1.0)
    circuit.fail(20, critical=True)
    assert circuit.state == "disabled"
    circuit.reset(2.0)
    circuit.failed(late, 2.0, 0.0, critical=True)
    assert circuit.state == "closed"
    assert circuit.reasons[1:] == ["disabled", "manual_reset"]


# ---- other numbers, the same circuit -------------------------------------------------------------------------------


def test_a_changed_breaker_keeps_an_open_circuit_open():
    """State, reason and the current open time stay; the next open time uses the new settings."""
    circuit = opened()
    circuit.configure(Breaker.consecutive(7, open_for=99, probes=2))
    assert circuit.retry_after(1.0) == 9
    assert circuit.admit(10.0) != circuit.admit(10.0)
    circuit.fail(now=200)
    assert circuit.retry_after(200.0) == 99
    assert len(circuit.transitions) == 3


def test_a_changed_window_of_calls_keeps_the_newest():
    """3 failures, then 3 successes: the last 4 hold one failure; a larger window does not bring back dropped outcomes."""
    circuit = Circuit(Breaker(window=6))
    circuit.fail(3)
    circuit.succeed(3)
    for size, counts in ((4, (1, 4)), (6, (1, 4)), (3, (0, 3)), (4, (0, 3))):
        circuit.configure(Breaker(window=size))
        assert circuit.counts(0.0) == counts
        assert (circuit.tell_after > 0) == (counts == (0, size))


def test_a_window_of_calls_becomes_a_row_and_back():
    """The consecutive failures are the last ones without a success; a window of calls starts with them."""
    circuit = Circuit(Breaker(window=50))
    circuit.fail(2)
    circuit.succeed(1)
    circuit.fail(3)
    circuit.configure(Breaker.consecutive(9))
    assert circuit.counts(0.0) == (3, 9)
    circuit.configure(Breaker(window=50))
    assert circuit.counts(0.0) == (3, 3)
    circuit.configure(Breaker.consecutive(4))
    circuit.fail()
    assert circuit.reasons == ["consecutive_failures_4"]


def test_a_changed_span_of_time_keeps_what_is_recent_enough():
    """From 20 s to 10 s: older outcomes are dropped; then to 40 s: they do not come back, the others stay."""
    circuit = Circuit(Breaker(window=timedelta(seconds=20)))
    circuit.fail(2, now=100.5)
    circuit.succeed(3, now=112.5)
    circuit.fail(1, now=118.5)
    for span in (10, 40):
        circuit.configure(Breaker(window=timedelta(seconds=span)))
        assert circuit.counts(118.5) == (1, 4)
    circuit.configure(Breaker(rate=0.5, window=timedelta(seconds=40)))
    circuit.fail(6, now=119.0)
    assert circuit.reasons == ["failure_rate_7_of_10"]


def test_a_longer_span_keeps_all_that_the_shorter_held():
    """20 s with one failure each: all of them count in a window of 40 s, and each expires in its time."""
    circuit = Circuit(Breaker(rate=1, window=timedelta(seconds=20)))
    for second in range(100, 120):
        circuit.fail(second < 109, now=second + 0.5)
        circuit.succeed(second >= 109, now=second + 0.5)
    circuit.configure(Breaker(rate=1, window=timedelta(seconds=40)))
    found = [circuit.counts(now)[1] for now in (119.5, 139.9, 140.0, 157.9, 158.0)]
    assert found == [20, 20, 18, 2, 0]


def test_between_calls_and_time_nothing_converts():
    """The window starts empty."""
    circuit = Circuit(Breaker(window=50))
    circuit.fail(5)
    circuit.configure(Breaker(window=timedelta(seconds=50)))
    assert circuit.counts(0.0) == (0, 0)
    assert circuit.tell_after < 0
    circuit.fail(5)
    circuit.configure(Breaker.consecutive(50))
    assert circuit.counts(0.0) == (0, 50)
    assert circuit.tell_after > 0


def test_other_numbers_count_at_once():
    """New `slow_after` and `probes` apply to the next outcome; the window stays."""
    circuit = Circuit(Breaker.consecutive(2))
    circuit.fail()
    circuit.configure(Breaker.consecutive(2, slow_after=1))
    circuit.succeeded(circuit.admit(0.0), 0.0, 1.0)
    assert circuit.reasons == ["slow_consecutive_failures_2"]


# ---- threads and listeners -----------------------------------------------------------------------------------------


def test_a_listener_may_use_the_circuit():
    """It is called outside the lock: it may read and even reset the circuit; that transition is reported after it."""
    parts = []

    def listen(circuit: CircuitState, previous: str, state: str, reason: str, now: float) -> None:
        if state == "open":
            circuit.reset(now)
            assert circuit.counts(now) == (0, 1)
        parts.append((previous, state, reason))

    circuit = CircuitState("x", Breaker.consecutive(1), random.Random(0), listen)
    circuit.failed(circuit.admit(0.0), 0.0, 0.0)
    assert parts == [
        ("closed", "open", "consecutive_failures_1"),
        ("open", "closed", "manual_reset"),
    ]


def test_a_failing_listener_does_not_silence_the_circuit():
    """Its error is raised, the state has changed all the same, and the next transition is reported."""
    parts = []

    def listen(*transition: object) -> None:
        parts.append(transition)
        if len(parts) == 1:
            raise ZeroDivisionError

    circuit = CircuitState("x", Breaker.consecutive(1), random.Random(0), listen)
    with pytest.raises(ZeroDivisionError):
        circuit.failed(circuit.admit(0.0), 0.0, 0.0)
    assert circuit.state == "open"
    circuit.reset(1.0)
    assert len(parts) == 2


@pytest.fixture
def often_switching():
    """Make the interpreter switch threads every few microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_no_outcome_is_lost_between_threads(often_switching):
    """8 threads count 400 failures each: 3,200, not one less, and the circuit opens exactly then."""
    circuit = Circuit(Breaker(rate=1, window=3200))

    def call():
        for _ in range(400):
            circuit.fail()

    in_threads(call, 8)
    assert circuit.transitions == [("closed", "open", "consecutive_failures_3200", 0.0)]


def test_threads_see_one_row_of_transitions(often_switching):
    """Whatever 8 threads do at once, each transition starts in the state where the one before ended, and none is lost."""
    circuit = Circuit(Breaker.consecutive(2, open_for=0, lease=1))
    clock = iter(range(10**9))

    def call():
        rng = random.Random(0)
        for _ in range(300):
            now = float(next(clock))
            try:
                permit = circuit.era if circuit.is_closed else circuit.admit(now)
            except CircuitOpenError:
                continue
            if rng.random() < 0.6:
                circuit.failed(permit, now, 0.0)
            elif circuit.tell_after < 0:
                circuit.succeeded(permit, now, 0.0)

    in_threads(call, 8)
    states = ["closed", *[state for _, state, _, _ in circuit.transitions]]
    assert [previous for previous, _, _, _ in circuit.transitions] == states[:-1]
    assert circuit.state == states[-1]
    assert circuit.era == len(circuit.transitions)
    assert len(circuit.transitions) > 50
