"""When a server that ended is started again."""

from __future__ import annotations

import random

import pytest

from resilient_bridge import Backoff, Breaker
from resilient_bridge.adapters import Sidecar
from tests.internals.adapters import Loss, Restarts


LOSS = Loss(reason="exit code 1")


def restarts(**options):
    """Return the starts of one server, with a plain backoff of 1, 2, 4 … s unless told otherwise."""
    plain = {"backoff": Backoff.exponential(1, cap=30, jitter="none")}
    return Restarts(Sidecar(command=("s",), **(plain | options)), random.Random(1))


def fail(found, now):
    """Have a start come to nothing; return the seconds until the next."""
    found.begin(now)
    return found.ended(LOSS, now, has_worked=False) - now


def test_each_start_in_vain_waits_longer():
    """Each start in vain waits longer."""
    found = restarts()
    assert [fail(found, 100.0) for _ in range(4)] == [1, 2, 4, 8]
    assert found.attempts == 4


def test_the_first_restart_waits_not_at_all_by_default():
    """The first restart waits not at all by default."""
    found = Restarts(Sidecar(command=("s",)), random.Random(1))
    found.begin(0.0)
    found.worked(1.0)
    assert found.ended(LOSS, 5.0, has_worked=True) == 5.0


def test_a_session_that_worked_begins_anew():
    """A session that worked begins anew."""
    found = restarts()
    for _ in range(3):
        fail(found, 100.0)
    found.begin(100.0)
    found.worked(101.0)
    assert found.ended(LOSS, 102.0, has_worked=True) - 102 == 1
    assert fail(found, 103.0) == 2


def test_a_wait_that_the_server_wants_is_stored():
    """A wait that the server wants is kept."""
    found = restarts()
    found.begin(0.0)
    assert found.ended(Loss(reason="HTTP 503", retry_after=20), 0.0, has_worked=False) == 20


def test_failures_in_a_row_open_the_circuit_and_one_that_works_closes_it():
    """Failures in a row open the circuit and one that works closes it."""
    found = restarts(circuit=Breaker.consecutive(3, open_for=60))
    for number in range(3):
        assert found.open_for(0.0) is None, number
        wait = fail(found, 0.0)
    assert wait == 60
    assert found.open_for(10.0) == 50
    found.begin(60.0)  # half open: one start tells
    assert found.open_for(60.0) is None
    found.worked(61.0)
    assert found.open_for(61.0) is None
    assert fail(found, 62.0) == 1


def test_a_trial_that_fails_opens_it_again():
    """A trial that fails opens it again."""
    found = restarts(circuit=Breaker.consecutive(1, open_for=60))
    fail(found, 0.0)
    assert fail(found, 60.0) >= 60
    assert found.open_for(61.0)


@pytest.mark.parametrize("is_reported", [True, False])
def test_a_trial_that_stood_closes_it_whether_or_not_anybody_called(is_reported):
    """A trial that stood closes it whether or not anybody called."""
    found = restarts(circuit=Breaker.consecutive(1, open_for=60))
    fail(found, 0.0)
    found.begin(60.0)
    if is_reported:
        found.worked(61.0)
    found.ended(LOSS, 200.0, has_worked=True)
    assert found.open_for(200.0) is None
    found.begin(201.0)
    assert found.ended(LOSS, 201.0, has_worked=False) > 201, "and it counts again"
    assert found.open_for(201.0)


def test_a_start_out_of_turn_while_it_is_open_counts_for_nothing():
    """A start out of turn while it is open counts for nothing."""
    found = restarts(circuit=Breaker.consecutive(1, open_for=60))
    fail(found, 0.0)
    assert fail(found, 10.0) >= 50
    assert found.open_for(10.0) == 50


def test_a_request_that_is_made_again_waits_longer_each_time():
    """A request that is made again waits longer each time."""
    found = restarts()
    assert [found.pause(tries) for tries in (1, 2, 3)] == [1, 2, 4]
