"""A circuit against a model of its contract: after any calls in any order both are in the same state."""

from __future__ import annotations

import random
from collections import deque
from datetime import timedelta
from itertools import takewhile
from math import floor

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from resilient_bridge.calls import Breaker
from resilient_bridge.failure import CircuitOpenError
from resilient_bridge.values import Backoff
from tests.internals.calls import CircuitState


WAITS = [2.0, 4.0, 8.0]  # binary fractions everywhere: sums are exact
OPEN_FOR = Backoff.steps(*WAITS)
BREAKERS = [
    Breaker.consecutive(3, open_for=OPEN_FOR, lease=4),
    Breaker.consecutive(2, open_for=OPEN_FOR, lease=4, probes=2, slow_after=1),
    Breaker(rate=0.5, window=6, open_for=OPEN_FOR, lease=4),
    Breaker(rate=0.8, window=15, open_for=OPEN_FOR, lease=4),
    Breaker(rate=0.6, window=4, open_for=OPEN_FOR, lease=4, probes=3, slow_after=1),
    Breaker(rate=0.5, window=timedelta(seconds=20), open_for=OPEN_FOR, lease=4),
    Breaker(rate=0.9, window=timedelta(seconds=5), open_for=OPEN_FOR, lease=4, slow_after=1),
]
INSTANT, SLOW = 0.25, 1.0


class Model:
    """The whole history as a list, in which a call is a dict; counts are computed when read."""

    def __init__(self, breaker):
        self.breaker, self.state, self.era, self.log = breaker, "closed", 0, []
        self.history: list[tuple[float, bool]] = []  # (when, failed) since it closed
        self.openings, self.until, self.live, self.passed, self.row = 0, 0.0, [], 0, 0

    def is_timed(self):
        return isinstance(self.breaker.window, timedelta)

    def in_a_row(self):
        return not self.is_timed() and self.breaker.rate == 1

    def trailing(self):
        return sum(1 for _ in takewhile(lambda outcome: outcome[1], reversed(self.history)))

    def counts(self, now):
        window = self.breaker.window
        if self.in_a_row():
            return min(self.row, window), window
        if not self.is_timed():
            return sum(failed for _, failed in self.history[-window:]), min(
                len(self.history), window
            )
        width = window.total_seconds() / 20
        in_window = [
            failed for when, failed in self.history if floor(when / width) > floor(now / width) - 20
        ]
        return sum(in_window), len(in_window)

    def is_over(self, now):
        failed, seen = self.counts(now)
        if self.in_a_row():
            return failed == seen
        enough = 10 if self.is_timed() else min(10, self.breaker.window)
        return seen >= enough and failed / seen >= self.breaker.rate

    def go(self, state, reason, now):
        self.log.append((self.state, state, reason, now))
        self.state, self.era, self.live, self.passed = state, self.era + 1, [], 0
        if state == "closed":
            self.history, self.openings, self.row = [], 0, 0

    def admit(self, now):
        if self.state == "open" and now >= self.until:
            self.go("half_open", "reset_timeout_elapsed", now)
        if self.state in ("open", "isolated"):
            return None
        call = {"era": self.era, "ends": None}
        if self.state == "half_open":
            self.live = [probe for probe in self.live if probe["ends"] > now]
            if len(self.live) >= max(1, self.breaker.probes - self.passed):
                return None
            call["ends"] = now + self.breaker.lease
            self.live.append(call)
        return call

    def end(self, call, how, seconds, now):
        slow = self.breaker.slow_after is not None and seconds >= self.breaker.slow_after
        if call["era"] != self.era or self.state not in ("closed", "half_open"):
            return
        if call["ends"] is not None:
            if call not in self.live:
                return
            self.live.remove(call)
            if call["ends"] <= now:
                return
        if how in ("failed", "critical") or slow:
            self.fail(how, "slow_" if slow else "", now)
        elif how == "succeeded":
            self.row = 0
            if self.state == "closed":
                self.history.append((now, False))
            else:
                self.passed += 1
                if self.passed >= self.breaker.probes:
                    self.go("closed", "request_success", now)

    def fail(self, how, prefix, now):
        self.row += 1
        if self.state == "closed":
            self.history.append((now, True))
            if not self.is_over(now) and how != "critical":
                return
        failed, seen = self.counts(now)
        if self.in_a_row():
            reason = f"consecutive_failures_{self.row}"
        else:
            reason = (
                "probe_failed" if self.state == "half_open" else f"failure_rate_{failed}_of_{seen}"
            )
        self.until = now + WAITS[min(self.openings, len(WAITS) - 1)]
        self.openings += 1
        self.go("open", "critical" if how == "critical" else prefix + reason, now)


class CircuitAgainstModel(RuleBasedStateMachine):
    """Every rule changes both; what a caller can see must be equal after each."""

    @initialize(breaker=st.sampled_from(BREAKERS))
    def choose(self, breaker):
        self.now, self.transitions, self.closed_at = 1000.0, [], 0.0
        self.model = Model(breaker)
        self.circuit = CircuitState(
            "x",
            breaker,
            random.Random(0),
            lambda _, *transition: self.transitions.append(transition),
        )
        self.calls = deque()

    @rule(eighths=st.sampled_from([0, 1, 2, 8, 16, 31, 32, 64, 200]))
    def wait(self, eighths):
        self.now += eighths / 8

    @rule(
        outcomes=st.lists(
            st.sampled_from(["succeeded", "succeeded", "failed", "released"]), max_size=4
        )
    )
    @precondition(lambda self: self.model.state == "open")
    def ripen(self, outcomes):
        """The open time passes, and some probes run, one after the other."""
        self.now = max(self.now, self.model.until)
        for how in outcomes:
            self.begin(hurry=True)
            if self.calls:
                self.end(how, INSTANT, newest=True, is_reported=False)

    @rule()
    @precondition(lambda self: self.model.state in ("isolated", "disabled"))
    def let_go(self):
        """Let the open time pass; without this rule most steps would change nothing."""
        self.by_hand("reset")

    @rule(hurry=st.booleans())
    def begin(self, hurry):
        """`hurry`: admit without the lock if `is_closed`, as the runner does."""
        call = self.model.admit(self.now)
        if hurry and self.circuit.is_closed:
            permit = self.circuit.era
        else:
            try:
                permit = self.circuit.admit(self.now)
            except CircuitOpenError:
                permit = None
        assert (permit is None) == (call is None)
        if call is not None:
            self.calls.append((permit, call))

    @rule(
        how=st.sampled_from(["succeeded", "succeeded", "failed", "failed", "critical", "released"]),
        seconds=st.sampled_from([INSTANT, INSTANT, SLOW]),
        newest=st.booleans(),
        is_reported=st.booleans(),
    )
    @precondition(lambda self: self.calls)
    def end(self, how, seconds, newest, is_reported):
        """`is_reported`: False skips a quick success on a calm circuit, as the runner does."""
        permit, call = self.calls.pop() if newest else self.calls.popleft()
        self.model.end(call, how, seconds, self.now)
        circuit = self.circuit
        if how == "succeeded":
            if is_reported or circuit.tell_after < 0 or seconds >= SLOW:
                circuit.succeeded(permit, self.now, seconds)
        elif how == "released":
            circuit.released(permit, self.now, seconds)
        else:
            circuit.failed(permit, self.now, seconds, critical=how == "critical")

    @rule(count=st.integers(1, 12), failed=st.booleans())
    def some(self, count, failed):
        """Several quick calls, one after the other."""
        for _ in range(count):
            self.begin(hurry=True)
            if self.calls:
                self.end(
                    "failed" if failed else "succeeded", INSTANT, newest=True, is_reported=False
                )

    @rule(verb=st.sampled_from(["reset", "isolate", "disable"]))
    def by_hand(self, verb):
        state, reason = {
            "reset": ("closed", "manual_reset"),
            "isolate": ("isolated", "isolated"),
            "disable": ("disabled", "disabled"),
        }[verb]
        if self.model.state != state:
            self.model.go(state, reason, self.now)
        elif state == "closed":
            self.model.go(state, reason, self.now)
            self.model.log.pop()
        getattr(self.circuit, verb)(self.now)

    @rule(breaker=st.sampled_from(BREAKERS))
    def configure(self, breaker):
        """A window of calls keeps its newest calls, a count of consecutive failures its number; a time window starts empty."""
        model = self.model
        if (breaker.window, breaker.rate) != (model.breaker.window, model.breaker.rate):
            was_timed, was_row = model.is_timed(), model.in_a_row()
            model.breaker, before = breaker, model.breaker
            if model.is_timed() and was_timed:
                return self.swap(before)  # buckets of another width: tested by itself
            if model.is_timed() or was_timed:
                model.history, model.row = [], 0
            elif was_row:
                model.history = [(self.now, True)] * model.row
            elif model.in_a_row():
                model.row = model.trailing()
            else:
                model.history = model.history[
                    -min(before.window, breaker.window) :
                ]  # older ones are forgotten
        model.breaker = breaker
        self.circuit.configure(breaker)
        return None

    def swap(self, before):
        self.model.breaker = before

    @invariant()
    def a_caller_sees_the_same(self):
        circuit, model = self.circuit, self.model
        assert circuit.state == model.state
        assert self.transitions == model.log
        assert circuit.is_closed == (model.state in ("closed", "disabled"))
        failed, seen = circuit.counts(self.now)
        if model.state == "closed":
            assert (failed, seen) == model.counts(self.now)
            assert (circuit.tell_after > 0) == (
                not model.is_timed()
                and failed == 0
                and (model.in_a_row() or seen == model.breaker.window)
            )
        else:
            assert (circuit.tell_after > 0) == (model.state == "disabled")
        assert circuit.retry_after(self.now) == self.hint()

    def hint(self):
        model = self.model
        if model.state == "open":
            return max(0.0, model.until - self.now)
        ends = [probe["ends"] - self.now for probe in model.live if probe["ends"] > self.now]
        full = model.state == "half_open" and len(ends) >= max(
            1, model.breaker.probes - model.passed
        )
        return min(*ends, 1.0) if full else None


CircuitAgainstModel.TestCase.settings = settings(
    max_examples=100, stateful_step_count=60, suppress_health_check=list(HealthCheck)
)
TestCircuitAgainstModel = pytest.mark.requirement("G2")(CircuitAgainstModel.TestCase)
