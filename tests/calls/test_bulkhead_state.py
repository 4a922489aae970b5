"""The permits of a bulkhead: never too many at once, first come first served, and none lost, whatever happens to waiters."""

from __future__ import annotations

import pickle
import random
import sys
import threading
import time
from collections import deque

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from resilient_bridge import errors
from resilient_bridge.calls import Bulkhead
from resilient_bridge.errors import BulkheadFullError
from tests.calls.circuit_driving import in_threads
from tests.internals.calls import BulkheadState


def _full(calls: int = 2, queue: int = 3) -> BulkheadState:
    state = BulkheadState("tools", Bulkhead(calls, queue=queue))
    while state.try_acquire():
        pass
    return state


def test_so_many_run_at_once():
    """Eight permits; the ninth caller gets none until one is returned."""
    state = BulkheadState("x", Bulkhead(8))
    assert [state.try_acquire() for _ in range(9)] == [True] * 8 + [False]
    state.release()
    assert [state.try_acquire() for _ in range(2)] == [True, False]


def test_who_waits_is_served_in_order():
    """Each returned permit goes to the first waiter, which is woken once; no caller overtakes."""
    state, woken = _full(), []
    tickets = [state.join(lambda n=n: woken.append(n)) for n in range(3)]
    for served in range(1, 4):
        assert not state.try_acquire()
        state.release()
        assert woken == list(range(served))
        assert [state.is_served(ticket) for ticket in tickets] == [n < served for n in range(3)]
    assert (state.running, state.waiting) == (2, 0)


def test_beyond_the_queue_a_call_is_rejected():
    """The queue is bounded; without a queue every caller without a permit is rejected."""
    state = _full(queue=1)
    state.join(lambda: None)
    with pytest.raises(BulkheadFullError):
        state.join(lambda: None)
    with pytest.raises(BulkheadFullError):
        _full(queue=0).join(lambda: None)


def test_a_permit_freed_before_queueing_is_taken():
    """A permit freed between the refusal and queueing is granted at once, even without a queue."""
    state, woken = _full(queue=0), []
    state.release()
    ticket = state.join(lambda: woken.append(1))
    assert state.is_served(ticket)
    assert woken == [1]
    assert state.running == 2


def test_who_stops_waiting_leaves_the_queue():
    """The next waiter moves up, and is not woken early."""
    state, woken = _full(), []
    first, second = (state.join(lambda n=n: woken.append(n)) for n in range(2))
    state.leave(first)
    state.leave(first)
    assert (state.waiting, state.running, woken) == (1, 2, [])
    state.release()
    assert woken == [1]
    assert state.is_served(second)


def test_a_permit_granted_to_a_cancelled_waiter_goes_to_the_next():
    """A waiter cancelled at the instant of its grant: the permit is not lost."""
    state, woken = _full(calls=1), []
    first, _ = (state.join(lambda n=n: woken.append(n)) for n in range(2))
    state.release()
    state.leave(first)
    assert woken == [0, 1]
    assert state.running == 1
    state.release()
    assert state.try_acquire()


def test_who_cannot_be_woken_is_passed_over():
    """A waiter whose event loop is closed: the permit goes to the next, and leaving later returns nothing twice."""
    state, woken = _full(calls=1), []
    gone = state.join(lambda: False)
    state.join(lambda: woken.append(1))
    state.release()
    assert woken == [1]
    state.leave(gone)
    assert state.running == 1
    state.release()
    assert state.running == 0


def test_other_numbers_let_in_who_waits():
    """More permits: the first waiters run. Fewer: running calls go on, and returned permits are not granted."""
    state, woken = _full(calls=2, queue=5), []
    for n in range(4):
        state.join(lambda n=n: woken.append(n))
    state.configure(Bulkhead(4, queue=5))
    assert woken == [0, 1]
    state.configure(Bulkhead(1, queue=5))
    for _ in range(3):
        state.release()
    assert woken == [0, 1]
    state.release()
    assert woken == [0, 1, 2]


def test_the_rejection_says_what_is_full():
    """It never ran and is retryable; the error names the bulkhead, how many run, and how long the call waited."""
    state = _full(calls=2)
    failure = state.rejection().failure
    assert (failure.code, failure.executed, failure.retryable) == ("SYS_BULKHEAD_FULL", "no", True)
    assert str(failure).startswith("bulkhead tools full: 2 calls run already (")
    assert "none ended within 1.5 s" in str(state.rejection(1.5))
    assert "1 call runs" in str(_full(calls=1).rejection())
    copied = pickle.loads(pickle.dumps(state.rejection()))
    assert type(copied) is errors.BulkheadFullError
    assert copied.failure == failure
    with pytest.raises(AttributeError):
        state.rejection().nothing  # noqa: B018


class BulkheadAgainstModel(RuleBasedStateMachine):
    """The model: a list of running calls and a list of waiters."""

    @initialize(calls=st.integers(1, 3), queue=st.integers(0, 3))
    def choose(self, calls, queue):
        self.state = BulkheadState("x", Bulkhead(calls, queue=queue))
        self.calls, self.queue = calls, queue
        self.running, self.waiting = 0, deque()
        self.woken, self.expected = [], []

    def serve(self):
        while self.waiting and self.running < self.calls:
            name, _ = self.waiting.popleft()
            self.running += 1
            self.expected.append(name)

    @rule()
    def come(self):
        if self.state.try_acquire():
            self.running += 1
            assert not self.waiting
            return
        name = object()
        try:
            ticket = self.state.join(lambda: self.woken.append(name))
        except BulkheadFullError:
            assert len(self.waiting) >= self.queue
            return
        assert len(self.waiting) < self.queue
        self.waiting.append((name, ticket))

    @rule()
    @precondition(lambda self: self.running)
    def end(self):
        self.state.release()
        self.running -= 1
        self.serve()

    @rule(index=st.integers(0, 2))
    @precondition(lambda self: self.waiting)
    def give_up(self, index):
        name, ticket = self.waiting[index % len(self.waiting)]
        self.state.leave(ticket)
        self.waiting.remove((name, ticket))

    @rule(calls=st.integers(1, 3), queue=st.integers(0, 3))
    def configure(self, calls, queue):
        self.calls, self.queue = calls, queue
        self.state.configure(Bulkhead(calls, queue=queue))
        self.serve()

    @invariant()
    def a_caller_sees_the_same(self):
        assert self.state.running == self.running
        assert self.state.waiting == len(self.waiting)
        assert self.woken == self.expected


BulkheadAgainstModel.TestCase.settings = settings(
    max_examples=80, stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
TestBulkheadAgainstModel = BulkheadAgainstModel.TestCase


def test_threads_never_exceed_it_and_lose_no_permit():
    """8 threads contend for 3 permits and give up at random: never more than 3 inside, and in the end all 3 are free."""
    state = BulkheadState("x", Bulkhead(3, queue=100))
    inside, most, lock = 0, 0, threading.Lock()

    def call():
        nonlocal inside, most
        rng = random.Random()
        for _ in range(150):
            if not state.try_acquire():
                woken = threading.Event()
                ticket = state.join(woken.set)
                if not woken.wait(rng.choice([0, 0, 5])) and not state.is_served(ticket):
                    state.leave(ticket)
                    continue
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0)
            with lock:
                inside -= 1
            state.release()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(call, 8)
    finally:
        sys.setswitchinterval(before)
    assert most == 3
    assert (state.running, state.waiting) == (0, 0)
