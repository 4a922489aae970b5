"""A circuit that several processes share, as one of them sees it: when it asks, what it tells, and what it does alone."""

from __future__ import annotations

import random

import pytest

import resilient_bridge as rb
from resilient_bridge.calls.breaker.shared_circuit import Permit, SharedCircuit
from resilient_bridge.calls.breaker.value import Breaker
from resilient_bridge.calls.shared.ports import CircuitAnswer
from resilient_bridge.errors import CircuitOpenError, Failure
from tests.calls.shared_driving import CLOSED, HALF_OPEN, OPEN, Asked, Line, Store, view


RESET = Failure.of("CONN_RESET")


def shared(breaker: Breaker | None = None, seen=CLOSED) -> tuple[SharedCircuit, Line, list[tuple[str, str]]]:
    """A circuit, the other end of its line, and the reasons it tells."""
    parts: list[tuple[str, str]] = []
    store = Store()
    circuit = SharedCircuit(
        "github",
        breaker or Breaker.consecutive(5, open_for=10),
        random.Random(0),
        lambda _, before, after, reason, now: parts.append((after, reason)),
        store,
    )
    line = store.circuits["github"]
    if seen is not None:
        line.learn(seen)
    return circuit, line, parts


def rejection(circuit: SharedCircuit, now: float = 0.0) -> CircuitOpenError:
    with pytest.raises(CircuitOpenError) as caught:
        circuit.try_admit(now)
    return caught.value


# ---- letting in ----------------------------------------------------------------------------------------------------


def test_a_closed_circuit_is_not_asked():
    """A call passes by the last view, with the era of that view for its permit; nothing goes over the line."""
    circuit, line, _ = shared()
    permit = circuit.try_admit(0.0)
    assert isinstance(permit, Permit)
    assert (permit.era, permit.probe) == (7, 0)
    assert line.asked == line.told == []
    assert line.uses == 1


def test_a_circuit_that_nobody_has_looked_at_is_asked():
    """Before the first view, and where views do not come by themselves any more, a call goes by what is true now."""
    circuit, line, _ = shared(seen=None)
    assert isinstance(circuit.try_admit(0.0), Asked)
    line.learn(view())
    line.is_watched = False
    assert isinstance(circuit.try_admit(0.0), Asked)


def test_one_that_our_own_failures_may_have_opened_is_asked():
    """Five failures open it: after four that no view knows of a call passes, after the fifth it asks."""
    circuit, line, _ = shared()
    line.unanswered = 4
    assert isinstance(circuit.try_admit(0.0), Permit)
    line.unanswered = 5
    assert isinstance(circuit.try_admit(0.0), Asked)


def test_an_open_circuit_rejects_without_a_question():
    """While its time runs, with the time left, the reason and the cause; after that the place of a probe is asked for."""
    circuit, _, told = shared(seen=OPEN._replace(because="CONN_RESET"))
    error = rejection(circuit, circuit._open_until - 12)
    assert error.failure.retry_after == 12.0
    assert error.failure.details["reason"] == "consecutive_failures_5"
    assert error.failure.details["because"] == "connection reset (TRANSPORT)"
    assert isinstance(circuit.try_admit(circuit._open_until), Asked)
    assert told == [("open", "consecutive_failures_5")]


def test_a_half_open_circuit_without_a_place_rejects_without_a_question():
    """The last view knows that all probes are out; one with a place is asked."""
    circuit, line, _ = shared(seen=HALF_OPEN._replace(free=0, hint=0.7))
    assert rejection(circuit).retry_after == 0.7
    assert circuit.retry_after(0.0) == 0.7
    line.learn(HALF_OPEN)
    assert isinstance(circuit.try_admit(0.0), Asked)


def test_an_isolated_circuit_rejects():
    """Whoever isolated it, and whatever the process."""
    circuit, _, _ = shared(seen=view("isolated", era=8, why="isolated", reason="isolated"))
    assert rejection(circuit).failure.details["reason"] == "isolated"


@pytest.mark.parametrize(
    ("answer", "permit"),
    [
        (CircuitAnswer(view(), 0), (7, 0)),
        (CircuitAnswer(view("disabled", era=8), 0), (8, 0)),
        (CircuitAnswer(HALF_OPEN, 3), (9, 3)),
    ],
    ids=["closed", "disabled", "a probe"],
)
def test_an_answer_lets_in(answer, permit):
    """Closed, disabled, or the place of a probe."""
    circuit, line, _ = shared(seen=None)
    line.answers.append(answer)
    found = circuit.admit(0.0)
    assert isinstance(found, Permit)
    assert (found.era, found.probe) == permit


@pytest.mark.parametrize(
    ("seen", "retry_after"),
    [(OPEN, 30.0), (HALF_OPEN._replace(free=0, hint=0.5), 0.5), (view("isolated", era=8), None)],
    ids=["open", "half-open", "isolated"],
)
def test_an_answer_rejects(seen, retry_after):
    """Open, half-open without a place, isolated: with the seconds of the answer."""
    circuit, line, _ = shared(seen=None)
    line.answers.append(CircuitAnswer(seen, 0))
    with pytest.raises(CircuitOpenError) as caught:
        circuit.admit(0.0)
    assert caught.value.retry_after == retry_after


def test_no_answer_in_time_means_alone():
    """The call waits for the patience of the store, says that it was late, and goes by this process's own circuit."""
    circuit, line, _ = shared(seen=None)
    assert type(circuit.admit(0.0)) is int
    assert line.asked[0].was_late


# ---- telling -------------------------------------------------------------------------------------------------------


def test_failures_are_told_with_era_and_code():
    """What counts, and how: failed, slow, critical."""
    circuit, line, told = shared(Breaker.consecutive(2, slow_after=5))
    permit = circuit.admit(0.0)
    circuit.failed(permit, 0.0, 0.0, because=RESET)
    circuit.failed(permit, 0.0, 6.0, because=RESET)
    circuit.failed(permit, 0.0, 0.0, critical=True)
    circuit.succeeded(permit, 0.0, 5.0)
    circuit.released(permit, 0.0, 5.0)
    assert line.told == [
        (7, 0, "failed", "CONN_RESET"),
        (7, 0, "slow", "CONN_RESET"),
        (7, 0, "critical", ""),
        (7, 0, "slow", ""),
        (7, 0, "slow", ""),
    ]
    assert told == []  # two in a row would have opened it: that is not decided here


def test_a_success_is_told_only_where_it_matters():
    """Not while no failure is in the shared window; but then, and as soon as a failure is on its way."""
    circuit, line, _ = shared()
    permit = circuit.admit(0.0)
    circuit.succeeded(permit, 0.0, 0.0)
    circuit.released(permit, 0.0, 0.0)
    assert line.told == []
    line.unanswered = 1
    circuit.succeeded(permit, 0.0, 0.0)
    line.unanswered = 0
    line.learn(view(is_quiet=False, failed=1))
    circuit.succeeded(permit, 0.0, 0.0)
    assert line.told == [(7, 0, "succeeded", "")] * 2


def test_every_ending_of_a_probe_is_told():
    """A success, a failure, and one that says nothing: the place is free again in all processes."""
    circuit, line, _ = shared(seen=None)
    for number in (1, 2, 3):
        line.answers.append(CircuitAnswer(HALF_OPEN, number))
    circuit.succeeded(circuit.admit(0.0), 0.0, 0.0)
    circuit.failed(circuit.admit(0.0), 0.0, 0.0, because=RESET)
    circuit.released(circuit.admit(0.0), 0.0, 0.0)
    assert line.told == [(9, 1, "succeeded", ""), (9, 2, "failed", "CONN_RESET"), (9, 3, "released", "")]


def test_a_disabled_circuit_is_told_nothing():
    """It counts nothing."""
    circuit, line, _ = shared(seen=view("disabled", era=8))
    circuit.failed(circuit.admit(0.0), 0.0, 0.0)
    assert line.told == []


def test_what_was_let_in_alone_is_not_told():
    """Its era is this process's own: when the line is up again, it says nothing to the others."""
    circuit, line, _ = shared()
    line.is_up = False
    permit = circuit.admit(0.0)
    line.is_up = True
    circuit.failed(permit, 0.0, 0.0)
    circuit.succeeded(permit, 0.0, 0.0)
    assert line.told == []


# ---- alone ---------------------------------------------------------------------------------------------------------


def test_alone_it_goes_on_from_what_it_has_noted():
    """Three failures while the line was up, two alone: five in a row open it, for this process."""
    circuit, line, told = shared()
    permit = circuit.admit(0.0)
    for _ in range(3):
        circuit.failed(permit, 0.0, 0.0)
    line.is_up = False
    circuit.failed(permit, 0.0, 0.0)
    assert circuit.state == "closed"
    circuit.failed(permit, 0.0, 0.0)
    assert told == [("open", "consecutive_failures_5")]
    assert len(line.told) == 3


def test_alone_a_success_ends_the_row_that_was_noted():
    """The window takes note of successes, too."""
    circuit, line, _ = shared(seen=view(is_quiet=False))
    permit = circuit.admit(0.0)
    for _ in range(4):
        circuit.failed(permit, 0.0, 0.0)
    circuit.succeeded(permit, 0.0, 0.0)
    line.is_up = False
    circuit.failed(permit, 0.0, 0.0)
    assert circuit.state == "closed"


def test_a_probe_that_ends_alone_decides_alone():
    """Its place was given by the store; when that is away, its success closes this process's own circuit."""
    circuit, line, told = shared(seen=OPEN)
    line.answers.append(CircuitAnswer(HALF_OPEN, 1))
    permit = circuit.admit(circuit._open_until)
    line.is_up = False
    circuit.succeeded(permit, 0.0, 0.0)
    assert told[-1] == ("closed", "request_success")


def test_an_open_circuit_stays_open_alone():
    """What all knew last still holds: the time left, and then one probe of this process."""
    circuit, line, _ = shared(seen=OPEN)
    line.is_up = False
    rejection(circuit, circuit._open_until - 1)
    assert circuit.try_admit(circuit._open_until) == -1


def test_back_again_the_shared_circuit_holds():
    """What this process decided alone is forgotten: the others may have no trouble."""
    circuit, line, told = shared()
    line.is_up = False
    for _ in range(5):
        circuit.failed(circuit.admit(0.0), 0.0, 0.0)
    assert circuit.state == "open"
    line.learn(view())
    line.is_up = True
    assert isinstance(circuit.try_admit(0.0), Permit)
    assert [state for state, _ in told] == ["open", "closed"]


def test_in_virtual_time_a_test_is_alone():
    """The store lives by its own clock: code under test needs none, and none hears of it."""
    circuit, line, _ = shared(seen=None)
    with rb.testing.virtual_time():
        circuit.failed(circuit.admit(0.0), 0.0, 0.0)
        circuit.isolate(0.0)
        circuit.reset(0.0)
    assert (line.asked, line.told, line.put_to) == ([], [], [])


# ---- views ---------------------------------------------------------------------------------------------------------


def test_a_view_is_told_as_what_happened():
    """Each change that a view brings is a transition, with its reason; the same view again is none."""
    _, line, told = shared()
    for seen in (OPEN, OPEN, HALF_OPEN, view(era=10, reason="request_success")):
        line.learn(seen)
    assert told == [
        ("open", "consecutive_failures_5"),
        ("half_open", "reset_timeout_elapsed"),
        ("closed", "request_success"),
    ]


def test_a_circuit_that_was_away_and_is_back_starts_anew():
    """Two views of a closed circuit in different eras: it was open in between, and what was noted before says nothing."""
    circuit, line, told = shared()
    permit = circuit.admit(0.0)
    for _ in range(4):
        circuit.failed(permit, 0.0, 0.0)
    line.learn(view(era=12))
    line.is_up = False
    circuit.failed(permit, 0.0, 0.0)  # of the old era
    circuit.failed(circuit.admit(0.0), 0.0, 0.0)
    assert (circuit.state, told) == ("closed", [])


def test_the_cause_is_this_processs_own_failure_where_it_met_it():
    """The store only knows the code; the process that met the failure says what it was."""
    circuit, line, _ = shared()
    own = Failure.of("CONN_RESET", "reset by 10.0.0.1", cause=ConnectionResetError())
    circuit.failed(circuit.admit(0.0), 0.0, 0.0, because=own)
    line.learn(OPEN._replace(because="CONN_RESET"))
    assert circuit.because is not None
    assert (circuit.because.message, circuit.because.cause) == ("reset by 10.0.0.1", None)
    line.learn(OPEN._replace(because="CONN_TIMEOUT", era=13))
    assert circuit.because.code == "CONN_TIMEOUT"
    line.learn(OPEN._replace(because="of another release", era=14))
    assert circuit.because is None


# ---- by hand -------------------------------------------------------------------------------------------------------


def test_a_hand_sets_it_for_all():
    """isolate, disable and reset go to the store, and their answer is waited for."""
    circuit, line, told = shared()
    line.answers = [
        CircuitAnswer(view("isolated", era=8, reason="isolated"), 0),
        CircuitAnswer(view("disabled", era=9, reason="disabled"), 0),
        CircuitAnswer(view(era=10, reason="manual_reset"), 0),
    ]
    circuit.isolate(0.0)
    circuit.disable(0.0)
    circuit.reset(0.0)
    assert line.put_to == ["isolated", "disabled", "closed"]
    assert [reason for _, reason in told] == ["isolated", "disabled", "manual_reset"]


def test_a_hand_sets_it_here_where_the_store_does_not_answer():
    """The store gets to know when it is back; this process obeys now."""
    circuit, line, _ = shared()
    circuit.isolate(0.0)
    line.is_up = False
    assert circuit.state == "isolated"


def test_other_numbers_go_to_the_store_as_well():
    """`configure` changes what is told from now on."""
    circuit, line, _ = shared()
    other = Breaker.consecutive(2)
    circuit.configure(other)
    assert line.configured == [other]
    assert circuit.settings == other


def test_counts_are_those_of_all():
    """As long as the line is up; alone, this process's own."""
    circuit, line, _ = shared(seen=view(failed=3))
    circuit.failed(circuit.admit(0.0), 0.0, 0.0)
    assert circuit.counts(0.0) == (3, 5)
    line.is_up = False
    assert circuit.counts(0.0) == (1, 5)
