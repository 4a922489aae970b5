"""A circuit: what opens it, which probes it admits, and which outcomes count."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta

import pytest

from resilient_bridge.calls import Breaker
from resilient_bridge.failure import CircuitOpenError
from tests.calls.circuit_driving import Circuit, in_threads, opened, rejection


# ---- opening -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("G2")
def test_failures_in_a_row_open_it():
    """Five consecutive failures open it, with that reason; a success in between resets the count."""
    circuit = Circuit(Breaker.consecutive(5))
    circuit.fail(4)
    circuit.succeed()
    circuit.fail(4)
    assert circuit.state == "closed"
    circuit.fail()
    assert circuit.transitions == [("closed", "open", "consecutive_failures_5", 0.0)]


def test_a_share_of_the_last_calls_opens_it():
    """80 % of the last 50 calls: after 50 good ones it takes 40 failures."""
    circuit = Circuit(Breaker())
    circuit.succeed(50)
    circuit.fail(39)
    assert circuit.state == "closed"
    circuit.fail()
    assert circuit.reasons == ["failure_rate_40_of_50"]


def test_c07_ten_calls_are_enough():
    """C07: a new client's circuit opens at 80 % of the calls made so far, if they are ten: neither at 4 of 5 nor only at 40."""
    circuit = Circuit(Breaker())
    circuit.succeed(2)
    circuit.fail(7)
    assert circuit.state == "closed"
    circuit.fail()
    assert circuit.reasons == ["failure_rate_8_of_10"]


@pytest.mark.parametrize(("window", "needed"), [(4, 4), (9, 9), (10, 10), (50, 10)])
def test_c07_a_smaller_window_is_judged_when_it_is_full(window, needed):
    """C07: ten calls, or all of a window of fewer; a row is always all of it."""
    circuit = Circuit(Breaker(rate=0.5, window=window))
    circuit.fail(needed - 1)
    assert circuit.state == "closed"
    circuit.fail()
    assert circuit.state == "open"
    assert Breaker(rate=1, window=window) == Breaker.consecutive(
        window, open_for=Breaker().open_for
    )
    assert Breaker(rate=1, window=window).least == window


def test_outcomes_older_than_the_window_do_not_count():
    """39 failures, 50 successes, 39 failures: never 40 among the last 50."""
    circuit = Circuit(Breaker())
    circuit.succeed(50)
    circuit.fail(39)
    circuit.succeed(50)
    circuit.fail(39)
    assert circuit.state == "closed"
    assert circuit.counts(0.0) == (39, 50)


@pytest.mark.parametrize(
    ("rate", "window", "needed"), [(0.07, 100, 7), (0.07, 101, 8), (0.001, 10, 1), (0.8, 1, 1)]
)
def test_the_share_is_rounded_up_and_never_by_a_rounding_error(rate, window, needed):
    """7 % of 100 are 7, although 0.07 x 100 is a little more in binary; at least one failure is always needed."""
    circuit = Circuit(Breaker(rate=rate, window=window))
    circuit.succeed(window)
    circuit.fail(needed - 1)
    assert circuit.state == "closed"
    circuit.fail()
    assert circuit.state == "open"


def test_a_share_within_a_span_of_time_opens_it():
    """From 10 calls on, the failure rate within the time window decides; nine failures do not open it."""
    circuit = Circuit(Breaker(rate=0.5, window=timedelta(seconds=20)))
    circuit.fail(9, now=100)
    assert circuit.state == "closed"
    circuit.succeed(9, now=119)
    assert circuit.counts(119.0) == (9, 18)
    circuit.succeed(1, now=120)  # the nine failures have expired
    assert circuit.counts(120.0) == (0, 10)
    circuit.fail(9, now=121)
    assert circuit.state == "closed"
    circuit.fail(1, now=121)
    assert circuit.reasons == ["failure_rate_10_of_20"]


def test_a_span_of_time_lets_go_in_twenty_steps():
    """A window of 20 s expires second by second: an outcome at 101.0 counts until 120.99, and not at 121."""
    circuit = Circuit(Breaker(window=timedelta(seconds=20)))
    circuit.fail(now=100.99)
    circuit.fail(now=101.0)
    for now, failed in ((119.99, 2), (120.0, 1), (120.99, 1), (121.0, 0)):
        assert circuit.counts(now) == (failed, failed)


def test_a_long_pause_empties_a_span_of_time():
    """After a pause of many windows nothing is remembered; a time before the last one counts as the last."""
    circuit = Circuit(Breaker(rate=1, window=timedelta(seconds=20)))
    circuit.fail(9, now=5)
    assert circuit.counts(1e9) == (0, 0)
    circuit.fail(9, now=5)
    assert circuit.counts(1e9) == (9, 9)
    assert circuit.state == "closed"
    every_second = Circuit(Breaker(rate=1, window=timedelta(seconds=20)))
    for second in range(20):
        every_second.fail(second < 9, now=second)
        every_second.succeed(second >= 9, now=second)
    assert every_second.counts(19.0) == (9, 20)
    assert every_second.counts(1000.0) == (0, 0)


def test_a_critical_failure_opens_it_at_once():
    """One is enough (R2), closed or half-open."""
    circuit = Circuit(Breaker(open_for=10))
    circuit.fail(critical=True)
    circuit.fail(critical=True, now=10)
    assert circuit.reasons == ["critical", "reset_timeout_elapsed", "critical"]


def test_a_slow_call_is_a_failed_one():
    """At or over `slow_after`, a success and a cancelled call count as failures, with a reason for slow calls."""
    circuit = Circuit(Breaker.consecutive(3, slow_after=2))
    permit = circuit.admit(0.0)
    circuit.succeeded(permit, 0.0, 1.99)
    circuit.succeeded(permit, 0.0, 2.0)
    circuit.released(permit, 0.0, 1.99)
    circuit.released(permit, 0.0, 2.0)
    circuit.failed(permit, 0.0, 2.0)
    assert circuit.reasons == ["slow_consecutive_failures_3"]


def test_a_cancelled_call_counts_neither_way():
    """It neither resets the count of consecutive failures nor adds to it."""
    circuit = Circuit(Breaker.consecutive(2))
    circuit.fail()
    circuit.released(circuit.admit(0.0), 0.0, 1000.0)
    assert circuit.counts(0.0) == (1, 2)
    circuit.fail()
    assert circuit.state == "open"


# ---- half-open -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("G2")
def test_one_probe_closes_it():
    """After the open time one call may try; its success closes the circuit, and the window starts empty."""
    circuit = opened()
    assert rejection(circuit, 9.99).retry_after == pytest.approx(0.01)
    probe = circuit.admit(10.0)
    assert circuit.state == "half_open"
    circuit.succeeded(probe, 11.0, 1.0)
    assert circuit.transitions[1:] == [
        ("open", "half_open", "reset_timeout_elapsed", 10.0),
        ("half_open", "closed", "request_success", 11.0),
    ]
    assert circuit.counts(11.0) == (0, 3)
    assert circuit.tell_after > 0


@pytest.mark.requirement("G2")
def test_a_failed_probe_opens_it_again():
    """The count of consecutive failures goes on; a breaker by rate gives the reason `probe_failed`."""
    circuit = opened(Breaker.consecutive(5, open_for=10), times=5)
    circuit.fail(now=10)
    assert circuit.reasons == [
        "consecutive_failures_5",
        "reset_timeout_elapsed",
        "consecutive_failures_6",
    ]
    by_rate = opened(Breaker(rate=0.8, window=4, open_for=10), times=4)
    by_rate.fail(now=10)
    assert by_rate.reasons[-1] == "probe_failed"
    assert by_rate.counts(10.0) == (4, 4)


def test_a_success_between_failed_probes_ends_the_row():
    """The first of two probes succeeds, the second fails: it opens again, with one consecutive failure."""
    circuit = opened(Breaker.consecutive(3, open_for=10, probes=2))
    circuit.succeed(now=10)
    circuit.fail(now=10)
    assert circuit.reasons[-1] == "consecutive_failures_1"
    by_rate = opened(Breaker(rate=0.8, window=4, open_for=10, probes=2), times=4)
    by_rate.succeed(now=10)
    assert by_rate.counts(10.0) == (4, 4)


def test_every_half_open_phase_counts_its_own_probes():
    """A successful probe does not count in the next half-open period: two in one period are needed."""
    circuit = opened(Breaker.consecutive(3, open_for=10, probes=2))
    circuit.succeed(now=10)
    circuit.fail(now=10)
    circuit.succeed(now=20)
    assert circuit.state == "half_open"
    circuit.succeed(now=20)
    assert circuit.state == "closed"


@pytest.mark.parametrize("probes", [1, 3])
def test_of_a_hundred_callers_exactly_so_many_probe(probes):
    """Of 100 calls at the same instant N are admitted; the others get a `retry_after` of at most a second."""
    circuit = opened(Breaker.consecutive(3, open_for=10, probes=probes))
    admitted, hints = [], []
    for _ in range(100):
        try:
            admitted.append(circuit.admit(10.0))
        except CircuitOpenError as error:
            hints.append(error.retry_after)
    assert len(admitted) == probes
    assert set(hints) == {1.0}
    for probe in admitted[1:]:
        circuit.succeeded(probe, 10.5, 0.5)
    assert circuit.state == "half_open"
    circuit.succeeded(admitted[0], 10.5, 0.5)
    assert circuit.state == "closed"


@pytest.mark.parametrize("probes", [1, 3])
def test_of_a_hundred_threads_exactly_so_many_probe(probes):
    """The same with real threads that start together."""
    circuit = opened(Breaker.consecutive(3, open_for=10, probes=probes))
    start, admitted = threading.Barrier(100), []

    def call():
        start.wait()
        with suppress(CircuitOpenError):
            admitted.append(circuit.admit(10.0))

    in_threads(call, 100)
    assert len(admitted) == len(set(admitted)) == probes


def test_a_cancelled_probe_returns_its_permit():
    """A cancelled probe neither closes nor opens the circuit, and the next caller may probe."""
    circuit = opened()
    circuit.released(circuit.admit(10.0), 11.0, 1.0)
    assert circuit.state == "half_open"
    assert circuit.retry_after(11.0) is None
    circuit.succeeded(circuit.admit(11.0), 12.0, 1.0)
    assert circuit.state == "closed"


def test_a_lost_probe_does_not_wedge_it():
    """A probe that never ends loses its permit when its lease ends; until then `retry_after` says when that is, if it is soon."""
    circuit = opened(Breaker.consecutive(3, open_for=10, lease=5))
    lost = circuit.admit(10.0)
    assert rejection(circuit, 11.0).retry_after == 1.0
    assert rejection(circuit, 14.75).retry_after == 0.25
    circuit.succeeded(circuit.admit(15.0), 15.5, 0.5)
    assert circuit.state == "closed"
    circuit.failed(lost, 16.0, 6.0, critical=True)
    assert circuit.state == "closed"


@pytest.mark.parametrize("end", ["succeeded", "failed"])
def test_the_outcome_of_a_probe_without_a_lease_is_dropped(end):
    """The outcome of a probe past its lease is ignored, whether or not another probe has replaced it."""
    circuit = opened(Breaker.consecutive(3, open_for=10, lease=5))
    hung = circuit.admit(10.0)
    getattr(circuit, end)(hung, 15.0, 5.0)
    assert circuit.state == "half_open"
    circuit.admit(15.0)
    getattr(circuit, end)(hung, 15.0, 5.0)
    assert circuit.state == "half_open"


def test_a_probe_ends_once():
    """The same outcome reported twice counts once."""
    circuit = opened(Breaker.consecutive(3, open_for=10, probes=2))
    probe = circuit.admit(10.0)
    circuit.succeeded(probe, 10.0, 0.0)
    circuit.succeeded(probe, 10.0, 0.0)
    assert circuit.state == "half_open"


@pytest.mark.parametrize("end", ["succeeded", "failed"])
def test_an_outcome_of_an_older_era_is_dropped(end):
    """A call admitted while closed changes nothing later, whether the circuit is open, half-open or closed again."""
    circuit = Circuit(Breaker.consecutive(1, open_for=10))
    late = [circuit.admit(0.0) for _ in range(4)]
    circuit.fail()
    for now in (1.0, 10.0, 11.0, 12.0):
        if now == 10.0:
            probe = circuit.admit(now)
        if now == 12.0:
            circuit.succeeded(probe, now, 2.0)
        before = circuit.state
        getattr(circuit, end)(late.pop(), now, now)
        assert circuit.state == before
    assert circuit.state == "closed"
    assert circuit.tell_after > 0


def test_a_late_outcome_gives_no_additional_permit():
    """Older calls that end while it is half-open do not free permits for more probes."""
    circuit = Circuit(Breaker.consecutive(3, open_for=10))
    late = [circuit.admit(0.0) for _ in range(5)]
    circuit.fail(3)
    circuit.admit(10.0)
    for permit in late:
        circuit.released(permit, 10.0, 0.0)
        rejection(circuit, 10.0)


# ---- how many calls say enough, and how many decide ------------------------------------------------------------------


@pytest.mark.parametrize("least", [1, 2, 5, 8])
def test_e16_a_minimum_opens_it_with_little_traffic(least):
    """`minimum` calls are enough: then the rate is that of the calls made so far, and of the last `window` later on."""
    import random

    rng = random.Random(least)
    for _ in range(200):
        circuit, seen = Circuit(Breaker(rate=0.75, window=8, minimum=least)), []
        while circuit.state == "closed" and len(seen) < 40:
            failed = rng.random() < 0.6
            seen.append(failed)
            if failed:
                circuit.fail()
            elif circuit.tell_after < 0:
                circuit.succeed()
            last = seen[-8:]
            is_over = failed and len(last) >= least and sum(last) / len(last) >= 0.75
            assert (circuit.state == "open") == is_over, seen
            assert circuit.state == "open" or circuit.counts(0.0) == (sum(last), len(last))


def test_e16_a_minimum_of_a_window_of_time():
    """Three calls of the last minute, where ten were needed without it."""
    circuit = Circuit(Breaker(rate=1, window=timedelta(minutes=1), minimum=3))
    circuit.fail(2)
    assert circuit.state == "closed"
    circuit.fail()
    assert circuit.state == "open"


def test_e20_no_more_than_so_many_calls_decide_about_a_half_open_time():
    """A successful probe keeps its permit; one without an outcome returns it."""
    circuit = opened(Breaker.consecutive(3, open_for=10, probes=3))
    circuit.succeed(now=10)
    second, third = circuit.admit(10.0), circuit.admit(10.0)
    with pytest.raises(CircuitOpenError):
        circuit.admit(10.0)
    circuit.released(third, 10.0, 0.0)
    fourth = circuit.admit(10.0)
    with pytest.raises(CircuitOpenError):
        circuit.admit(10.0)
    circuit.succeeded(second, 10.0, 0.0)
    assert circuit.state == "half_open"
    circuit.succeeded(fourth, 10.0, 0.0)
    assert circuit.state == "closed"
