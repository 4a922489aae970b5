"""A shared circuit in one process: when it asks the store, what it reports, and what it decides without the store."""

from __future__ import annotations

import random

import pytest

import resilient_bridge as rb
from resilient_bridge.calls import Breaker
from resilient_bridge.failure import CircuitOpenError, Failure
from tests.calls.shared_driving import CLOSED, HALF_OPEN, OPEN, Asked, Line, Store, view
from tests.internals.calls import CircuitAnswer, Permit, SharedCircuit


RESET = Failure.of("CONN_RESET")


def shared(
    breaker: Breaker | None = None, seen=CLOSED
) -> tuple[SharedCircuit, Line, list[tuple[str, str]]]:
    """A circuit, the store's end of its line, and the reasons that it reports."""
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
    """A call is admitted by the last view, with the era of that view in its permit; nothing is sent to the store."""
    circuit, line, _ = shared()
    permit = circuit.try_admit(0.0)
    assert isinstance(permit, Permit)
    assert (permit.era, permit.probe) == (7, 0)
    assert line.asked == line.reported == []
    assert line.uses == 1


def test_a_circuit_without_a_recent_view_is_asked():
    """Before the first view, and when no more views are pushed, a call asks for the current state."""
    circuit, line, _ = shared(seen=None)
    assert isinstance(circuit.try_admit(0.0), Asked)
    line.learn(view())
    line.is_watched = False
    assert isinstance(circuit.try_admit(0.0), Asked)


def test_one_that_our_own_failures_may_have_opened_is_asked():
    """Five failures open it: after four that no view includes a call is admitted, after the fifth it asks."""
    circuit, line, _ = shared()
    line.unanswered = 4
    assert isinstance(circuit.try_admit(0.0), Permit)
    line.unanswered = 5
    assert isinstance(circuit.try_admit(0.0), Asked)


def test_an_open_circuit_rejects_without_a_question():
    """During its open time it rejects with remaining time, reason and cause; after that it asks for a probe permit."""
    circuit, _, transitions = shared(seen=OPEN._replace(because="CONN_RESET"))
    error = rejection(circuit, circuit._open_until - 12)
    assert error.failure.retry_after == 12.0
    assert error.failure.details["reason"] == "consecutive_failures_5"
    assert error.failure.details["because"] == "connection reset (TRANSPORT)"
    assert isinstance(circuit.try_admit(circuit._open_until), Asked)
    assert transitions == [("open", "consecutive_failures_5")]


def test_a_half_open_circuit_without_a_free_probe_rejects_without_a_question():
    """It rejects while the last view has no free probe; with a free one the store is asked."""
    circuit, line, _ = shared(seen=HALF_OPEN._replace(free=0, hint=0.7))
    assert rejection(circuit).retry_after == 0.7
    assert circuit.retry_after(0.0) == 0.7
    line.learn(HALF_OPEN)
    assert isinstance(circuit.try_admit(0.0), Asked)


def test_an_isolated_circuit_rejects():
    """It rejects in every process, whichever process isolated it."""
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
    """An answer admits if it is closed, disabled, or grants a probe."""
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
    """An answer rejects if it is open, half-open without a free probe, or isolated: with the seconds of the answer."""
    circuit, line, _ = shared(seen=None)
    line.answers.append(CircuitAnswer(seen, 0))
    with pytest.raises(CircuitOpenError) as caught:
        circuit.admit(0.0)
    assert caught.value.retry_after == retry_after


def test_no_answer_in_time_means_alone():
    """The call waits for the store's patience, reports it late, and is decided by the local circuit."""
    circuit, line, _ = shared(seen=None)
    assert type(circuit.admit(0.0)) is int
    assert line.asked[0].was_late


# ---- telling -------------------------------------------------------------------------------------------------------


def test_failures_are_reported_with_era_and_code():
    """Outcomes that count are reported as failed, slow or critical."""
    circuit, line, transitions = shared(Breaker.consecutive(2, slow_after=5))
    permit = circuit.admit(0.0)
    circuit.failed(permit, 0.0, 0.0, because=RESET)
    circuit.failed(permit, 0.0, 6.0, because=RESET)
    circuit.failed(permit, 0.0, 0.0, critical=True)
    circuit.succeeded(permit, 0.0, 5.0)
    circuit.released(permit, 0.0, 5.0)
    assert line.reported == [
        (7, 0, "failed", "CONN_RESET"),
        (7, 0, "slow", "CONN_RESET"),
        (7, 0, "critical", ""),
        (7, 0, "slow", ""),
        (7, 0, "slow", ""),
    ]
    assert transitions == []  # two consecutive failures would open it, but the store decides that


def test_a_success_is_reported_only_if_it_changes_something():
    """A success is reported only if the shared window has a failure, or one is not yet answered."""
    circuit, line, _ = shared()
    permit = circuit.admit(0.0)
    circuit.succeeded(permit, 0.0, 0.0)
    circuit.released(permit, 0.0, 0.0)
    assert line.reported == []
    line.unanswered = 1
    circuit.succeeded(permit, 0.0, 0.0)
    line.unanswered = 0
    line.learn(view(is_quiet=False, failed=1))
    circuit.succeeded(permit, 0.0, 0.0)
    assert line.reported == [(7, 0, "succeeded", "")] * 2


def test_every_outcome_of_a_probe_is_reported():
    """A success, a failure and a release are reported, so that the permit is free again in all processes."""
    circuit, line, _ = shared(seen=None)
    for number in (1, 2, 3):
        line.answers.append(CircuitAnswer(HALF_OPEN, number))
    circuit.succeeded(circuit.admit(0.0), 0.0, 0.0)
    circuit.failed(circuit.admit(0.0), 0.0, 0.0, because=RESET)
    circuit.released(circuit.admit(0.0), 0.0, 0.0)
    assert line.reported == [
        (9, 1, "succeeded", ""),
        (9, 2, "failed", "CONN_RESET"),
        (9, 3, "released", ""),
    ]


def test_a_disabled_circuit_reports_nothing():
    """It counts nothing."""
    circuit, line, _ = shared(seen=view("disabled", era=8))
    circuit.failed(circuit.admit(0.0), 0.0, 0.0)
    assert line.reported == []


def test_a_call_admitted_locally_is_not_reported():
    """Its era is local, so its outcome is not reported when the line is up again."""
    circuit, line, _ = shared()
    line.is_up = False
    permit = circuit.admit(0.0)
    line.is_up = True
    circuit.failed(permit, 0.0, 0.0)
    circuit.succeeded(permit, 0.0, 0.0)
    assert line.reported == []


# ---- alone ---------------------------------------------------------------------------------------------------------


def test_alone_it_goes_on_from_what_it_has_noted():
    """Three failures while the line was up and two without it: five consecutive failures open the local circuit."""
    circuit, line, transitions = shared()
    permit = circuit.admit(0.0)
    for _ in range(3):
        circuit.failed(permit, 0.0, 0.0)
    line.is_up = False
    circuit.failed(permit, 0.0, 0.0)
    assert circuit.state == "closed"
    circuit.failed(permit, 0.0, 0.0)
    assert transitions == [("open", "consecutive_failures_5")]
    assert len(line.reported) == 3


def test_alone_a_success_ends_the_row_that_was_noted():
    """The local window records successes, too."""
    circuit, line, _ = shared(seen=view(is_quiet=False))
    permit = circuit.admit(0.0)
    for _ in range(4):
        circuit.failed(permit, 0.0, 0.0)
    circuit.succeeded(permit, 0.0, 0.0)
    line.is_up = False
    circuit.failed(permit, 0.0, 0.0)
    assert circuit.state == "closed"


def test_a_probe_that_ends_alone_decides_alone():
    """The store granted the probe; while the store is unreachable, its success closes the local circuit."""
    circuit, line, transitions = shared(seen=OPEN)
    line.answers.append(CircuitAnswer(HALF_OPEN, 1))
    permit = circuit.admit(circuit._open_until)
    line.is_up = False
    circuit.succeeded(permit, 0.0, 0.0)
    assert transitions[-1] == ("closed", "request_success")


def test_an_open_circuit_stays_open_alone():
    """The last shared state still applies: the remaining open time, and then one probe of this process."""
    circuit, line, _ = shared(seen=OPEN)
    line.is_up = False
    rejection(circuit, circuit._open_until - 1)
    assert circuit.try_admit(circuit._open_until) == -1


def test_back_again_the_shared_circuit_holds():
    """The store's state replaces what this process decided alone, because the other processes may have no failures."""
    circuit, line, transitions = shared()
    line.is_up = False
    for _ in range(5):
        circuit.failed(circuit.admit(0.0), 0.0, 0.0)
    assert circuit.state == "open"
    line.learn(view())
    line.is_up = True
    assert isinstance(circuit.try_admit(0.0), Permit)
    assert [state for state, _ in transitions] == ["open", "closed"]


def test_in_virtual_time_a_test_is_alone():
    """The store has a clock of its own: in virtual time it is neither asked nor informed."""
    circuit, line, _ = shared(seen=None)
    with rb.testing.virtual_time():
        circuit.failed(circuit.admit(0.0), 0.0, 0.0)
        circuit.isolate(0.0)
        circuit.reset(0.0)
    assert (line.asked, line.reported, line.put_to) == ([], [], [])


# ---- views ---------------------------------------------------------------------------------------------------------


def test_a_view_is_reported_as_a_transition():
    """Each change in a view is reported as a transition with its reason; the same view again is not."""
    _, line, transitions = shared()
    for seen in (OPEN, OPEN, HALF_OPEN, view(era=10, reason="request_success")):
        line.learn(seen)
    assert transitions == [
        ("open", "consecutive_failures_5"),
        ("half_open", "reset_timeout_elapsed"),
        ("closed", "request_success"),
    ]


def test_a_circuit_that_was_away_and_is_back_starts_anew():
    """Two views of a closed circuit in different eras: it was open in between, so earlier outcomes do not count."""
    circuit, line, transitions = shared()
    permit = circuit.admit(0.0)
    for _ in range(4):
        circuit.failed(permit, 0.0, 0.0)
    line.learn(view(era=12))
    line.is_up = False
    circuit.failed(permit, 0.0, 0.0)  # of the old era
    circuit.failed(circuit.admit(0.0), 0.0, 0.0)
    assert (circuit.state, transitions) == ("closed", [])


def test_the_cause_is_this_processs_own_failure_where_it_met_it():
    """The store knows only the code; the process that saw the failure has its details."""
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
    circuit, line, transitions = shared()
    line.answers = [
        CircuitAnswer(view("isolated", era=8, reason="isolated"), 0),
        CircuitAnswer(view("disabled", era=9, reason="disabled"), 0),
        CircuitAnswer(view(era=10, reason="manual_reset"), 0),
    ]
    circuit.isolate(0.0)
    circuit.disable(0.0)
    circuit.reset(0.0)
    assert line.put_to == ["isolated", "disabled", "closed"]
    assert [reason for _, reason in transitions] == ["isolated", "disabled", "manual_reset"]


def test_a_hand_sets_it_here_where_the_store_does_not_answer():
    """This process applies it now; the store gets it when it is back."""
    circuit, line, _ = shared()
    circuit.isolate(0.0)
    line.is_up = False
    assert circuit.state == "isolated"


def test_other_numbers_go_to_the_store_as_well():
    """`configure` changes the settings reported to the store from now on."""
    circuit, line, _ = shared()
    other = Breaker.consecutive(2)
    circuit.configure(other)
    assert line.configured == [other]
    assert circuit.settings == other


def test_counts_are_those_of_all():
    """The counts are shared while the line is up, and local otherwise."""
    circuit, line, _ = shared(seen=view(failed=3))
    circuit.failed(circuit.admit(0.0), 0.0, 0.0)
    assert circuit.counts(0.0) == (3, 5)
    line.is_up = False
    assert circuit.counts(0.0) == (1, 5)
