"""The account of a spend budget: whatever happens in whatever order, no call is let in beyond a hard limit, and all is counted."""

from __future__ import annotations

import decimal
import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from resilient_bridge.agent import SpendState
from resilient_bridge.failure import ConfigError
from tests.internals.agent import SpendAccount, amount_of


def account(limit="10", mode="hard", warn_at="0.8") -> SpendAccount:
    return SpendAccount(Decimal(limit), mode=mode, warn_at=Decimal(warn_at))


def emitted(of: SpendAccount) -> list[str]:
    return [state for state, _, _ in of.take_changes().events]


def ask(of: SpendAccount, estimate="0"):
    return of.join(Decimal(estimate), lambda: None)


@pytest.mark.requirement("V11")
def test_a_budget_goes_the_way_of_the_diagram():
    """Running, warning at 80 %, paused at 100 %, running again when more is approved, and cancelled for good."""
    budget = account()
    assert (budget.status.state, emitted(budget)) == (SpendState.RUNNING, [])
    budget.spend(Decimal("7.99"))
    assert (budget.status.state, emitted(budget)) == (SpendState.RUNNING, [])
    budget.spend(Decimal("0.01"))
    assert (budget.status.state, emitted(budget)) == (SpendState.WARNING, ["warning"])
    budget.spend(Decimal(2))
    assert (budget.status.state, emitted(budget)) == (SpendState.PAUSED, ["paused"])
    budget.approve(Decimal(20))
    assert (budget.status.state, emitted(budget)) == (SpendState.RUNNING, ["approved"])
    budget.cancel()
    assert (budget.status.state, emitted(budget)) == (SpendState.CANCELLED, ["cancelled"])
    budget.approve(Decimal(30))
    assert (budget.status.state, ask(budget).standing) == (SpendState.CANCELLED, "refused")


@pytest.mark.requirement("V11")
def test_a_soft_budget_goes_on_beyond_its_limit_and_says_by_how_much():
    """It warns once, never pauses, lets everybody in, and its status has the overage."""
    budget = account(mode="soft")
    budget.spend(Decimal(25))
    assert ask(budget, "100").standing == "admitted"
    assert emitted(budget) == ["warning"]
    status = budget.status
    assert (status.state, status.share) == (SpendState.WARNING, 2.5)
    assert (status.spent, status.reserved, status.remaining) == (25, 100, -115)


def test_each_crossing_is_emitted_once():
    """Spending more beyond a threshold tells nothing; leaving it by an approval and crossing it again does."""
    budget = account()
    for _ in range(5):
        budget.spend(Decimal("1.9"))
    assert emitted(budget) == ["warning"]
    budget.approve(Decimal("11.5"))  # 9.5 of 11.5 is above 80 % still
    assert emitted(budget) == ["approved"]
    budget.approve(Decimal(100))
    budget.spend(Decimal(71))
    assert emitted(budget) == ["approved", "warning"]


def test_an_approval_that_does_not_suffice_asks_again():
    """Whoever approves one more when three are missing is told that it is still paused."""
    budget = account()
    budget.spend(Decimal(13))
    assert emitted(budget) == ["warning", "paused"]
    budget.approve(Decimal(11))
    assert emitted(budget) == ["approved", "paused"]


def test_what_runs_counts_its_estimate():
    """Of a hundred that ask at once for 1 each, ten are let in; when one ends, the room that it did not need goes to the next."""
    budget = account()
    charges = [ask(budget, "1") for _ in range(100)]
    assert [charge.standing for charge in charges] == ["admitted"] * 10 + ["waiting"] * 90
    assert (budget.status.reserved, budget.status.state) == (10, SpendState.RUNNING)
    budget.spend(Decimal("0.5"), charges[0])
    budget.end(charges[0], has_run=True)
    assert (budget.status.spent, budget.status.reserved) == (Decimal("0.5"), 9)
    assert charges[10].standing == "waiting"  # half a place is none
    budget.spend(Decimal("0.25"), charges[1])
    budget.spend(Decimal("0.25"), charges[1])
    assert budget.status.reserved == Decimal("8.5")
    budget.end(charges[1], has_run=True)
    assert charges[10].standing == "admitted"
    assert budget.take_changes().woken == [charges[10]]


def test_no_call_overtakes():
    """A small call waits behind a large one that does not fit; it is let in when that one leaves."""
    budget = account()
    budget.spend(Decimal(7))
    large, small = ask(budget, "5"), ask(budget, "1")
    assert (large.standing, small.standing) == ("waiting", "waiting")
    assert emitted(budget) == ["paused"]  # 7 + 5 is above 10, and only an approval helps
    budget.end(large, has_run=False)
    assert (small.standing, budget.status.state) == ("admitted", SpendState.RUNNING)


def test_approving_lets_in_who_waits_in_their_order():
    """As many of them as fit, first come, first served."""
    budget = account()
    budget.spend(Decimal(10))
    charges = [ask(budget, "2") for _ in range(3)]
    budget.approve(Decimal(14))
    assert [charge.standing for charge in charges] == ["admitted", "admitted", "waiting"]
    assert budget.take_changes().woken == charges[:2]


def test_cancelling_refuses_who_waits_and_lets_the_rest_end():
    """Those in line are refused and woken; what runs is counted when it ends."""
    budget = account()
    running, waiting = ask(budget, "9"), ask(budget, "9")
    budget.cancel()
    budget.cancel()
    changes = budget.take_changes()
    assert (waiting.standing, changes.woken) == ("refused", [waiting])
    assert [state for state, _, _ in changes.events] == ["cancelled"]
    budget.end(running, has_run=True)
    assert (budget.status.spent, budget.status.reserved) == (9, 0)


@pytest.mark.parametrize(
    ("has_run", "spoke", "counted"),
    [
        (True, None, "2"),
        (False, None, "0"),
        (True, "0.5", "0.5"),
        (True, "0", "0"),
        (False, "3", "3"),
    ],
)
def test_what_an_ended_call_has_cost(has_run, spoke, counted):
    """What it has reported; if that is nothing, its estimate if it can have run."""
    budget = account()
    charge = ask(budget, "2")
    if spoke is not None:
        budget.spend(Decimal(spoke), charge)
    budget.end(charge, has_run=has_run)
    assert (budget.status.spent, budget.status.reserved) == (Decimal(counted), 0)


def test_what_is_saved_is_restored_and_reservations_are_spent():
    """Spent, approved and cancelled go on; a call that was running counts its estimate, and crosses what it crosses."""
    before = account()
    before.spend(Decimal("12.25"))
    before.approve(Decimal(20))
    ask(before, "4")
    saved = json.loads(json.dumps(before.saved()))
    SpendAccount.check(saved)
    after = account("11")  # the program has another limit by now
    after.restore(saved)
    assert (after.status.spent, after.status.limit, after.status.reserved) == (
        Decimal("16.25"),
        21,
        0,
    )
    assert emitted(after) == []
    poorer = account("10")
    poorer.restore({**saved, "approved": "6"})  # 12.25 of 16 was no warning, 16.25 is
    assert emitted(poorer) == ["warning", "paused"]
    before.cancel()
    again = account()
    again.restore(before.saved())
    assert again.status.state is SpendState.CANCELLED


@pytest.mark.parametrize(
    "damage",
    [
        {"spent": 5},
        {"spent": "-1"},
        {"reserved": "NaN"},
        {"approved": "much"},
        {"cancelled": "no"},
        {"known": 1},
    ],
)
def test_what_cannot_have_been_saved_is_refused(damage):
    """A number that is no amount, or an answer that is neither yes nor no."""
    with pytest.raises((TypeError, ConfigError)):
        SpendAccount.check({**account().saved(), **damage})


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (1, "1"),
        ("0.10", "0.10"),
        (0.1, "0.1"),
        (Decimal("2.5"), "2.5"),
        (1e-7, "1E-7"),
        ("-0", "0"),
        (0, "0"),
    ],
)
def test_an_amount_is_exact(value, amount):
    """A float is what it prints as."""
    assert str(amount_of("x", value)) == amount


@pytest.mark.parametrize(
    "value",
    [
        "-0.01",
        float("nan"),
        float("inf"),
        "NaN",
        "sNaN",
        "-Infinity",
        "ten",
        "",
        True,
        None,
        b"1",
        [],
        -1,
        10**16,
        10**400,
    ],
)
def test_what_is_no_amount_is_refused(value):
    """Negative, not finite, not a number, or so much that the unit must be wrong."""
    with pytest.raises(ConfigError, match=r"^.*x: wanted an amount"):
        amount_of("x", value)


def test_amounts_are_exact_whatever_precision_the_program_has():
    """A million times a tenth of a cent, beside a fortune, with a context of three digits; finer than 10^-30 is rounded up."""
    with decimal.localcontext() as context:
        context.prec = 3
        budget = account("999999999999999")
        budget.spend(Decimal(123456789012345))
        for _ in range(1000):
            budget.spend(amount_of("x", "0.000001"))
        assert str(budget.spent) == "123456789012345.001000"
        assert amount_of("x", "1e-999999") == Decimal("1e-30")


AMOUNTS = st.integers(0, 400).map(lambda cents: Decimal(cents).scaleb(-2))


class Interleavings(RuleBasedStateMachine):
    """Calls come, cost, end and go; people approve and cancel. The model keeps nothing but sums."""

    @initialize(limit=st.integers(1, 10), mode=st.sampled_from(["hard", "soft"]))
    def begin(self, limit, mode):
        self.budget = account(str(limit), mode)
        self.waiting, self.running = [], []
        self.counted = Decimal(0)  # all that was reported or estimated
        self.excess = Decimal(0)  # what was spent beyond estimates, or elsewhere
        self.is_cancelled = False
        self.above = (False, False)  # of the thresholds, as last seen
        self.follow()

    def follow(self):
        """Take what has changed, and compare it with what can have."""
        changes = self.budget.take_changes()
        for charge in changes.woken:
            self.waiting.remove(charge)
            if charge.standing == "admitted":
                assert not self.is_cancelled
                self.running.append(charge)
            else:
                assert self.is_cancelled
        warned = sum(state == "warning" for state, _, _ in changes.events)
        paused = sum(state == "paused" for state, _, _ in changes.events)
        was_warning, was_paused = self.above
        is_warning = self.budget.spent * 5 >= self.budget.limit * 4
        is_paused = self.budget.status.state is SpendState.PAUSED
        approved = any(state == "approved" for state, _, _ in changes.events)
        assert warned == (is_warning and not was_warning)
        assert paused == (is_paused and (approved or not was_paused))
        self.above = (is_warning, is_paused)

    @rule(estimate=AMOUNTS)
    def ask(self, estimate):
        line = list(self.waiting)
        charge = self.budget.join(estimate, lambda: None)
        if charge.standing == "admitted":
            assert not line
            assert not self.is_cancelled
            self.running.append(charge)
        elif charge.standing == "waiting":
            self.waiting.append(charge)
        else:
            assert self.is_cancelled
        self.follow()

    @precondition(lambda self: self.running)
    @rule(data=st.data(), cost=AMOUNTS)
    def cost(self, data, cost):
        charge = data.draw(st.sampled_from(self.running))
        self.excess += max(cost - charge.open, 0)
        self.counted += cost
        self.budget.spend(cost, charge)
        self.follow()

    @precondition(lambda self: self.running)
    @rule(data=st.data(), has_run=st.booleans())
    def end(self, data, has_run):
        charge = data.draw(st.sampled_from(self.running))
        self.running.remove(charge)
        if charge.reported is None and has_run:
            self.counted += charge.estimate
        self.budget.end(charge, has_run=has_run)
        self.follow()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave(self, data):
        charge = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(charge)
        self.budget.end(charge, has_run=False)
        self.follow()

    @rule(cost=AMOUNTS)
    def spend_elsewhere(self, cost):
        self.excess += cost
        self.counted += cost
        self.budget.spend(cost)
        self.follow()

    @rule(more=st.integers(-2, 8))
    def approve(self, more):
        before = self.budget.limit
        self.budget.approve(before + more)
        assert self.budget.limit == before + max(more, 0)
        self.follow()

    @rule()
    def cancel(self):
        self.is_cancelled = True
        self.budget.cancel()
        self.follow()
        assert not self.waiting

    @invariant()
    def all_is_counted(self):
        if hasattr(self, "budget"):
            assert self.budget.spent == self.counted
            assert self.budget.reserved == sum(charge.open for charge in self.running)

    @invariant()
    def no_call_is_let_in_beyond_a_hard_limit(self):
        if hasattr(self, "budget") and self.budget.mode == "hard":
            assert self.budget.spent + self.budget.reserved <= self.budget.limit + self.excess

    @invariant()
    def no_call_waits_for_nothing(self):
        if hasattr(self, "budget") and self.waiting:
            used = self.budget.spent + self.budget.reserved
            first = self.waiting[0]
            assert used >= self.budget.limit or used + first.estimate > self.budget.limit

    @invariant()
    def what_is_saved_counts_what_runs(self):
        if hasattr(self, "budget"):
            again = account(str(self.budget._own_limit), self.budget.mode)
            again.restore(self.budget.saved())
            assert again.spent == self.budget.spent + self.budget.reserved
            assert (again.limit, again.is_cancelled) == (self.budget.limit, self.is_cancelled)


Interleavings.TestCase.settings = settings(max_examples=100, stateful_step_count=30)


@pytest.mark.requirement("V11")
class TestInterleavings(Interleavings.TestCase):
    """Any interleaving keeps the invariants: nobody is let in beyond a hard limit or after a cancellation, warnings come once."""


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=60))
def test_calls_that_keep_their_estimates_never_pass_a_hard_limit(calls):
    """Whatever they ask for, all at once: what is spent in the end is at most the limit."""
    budget = account()
    charges = [(ask(budget, str(estimate)), min(cost, estimate)) for estimate, cost in calls]
    while running := [one for one in charges if one[0].standing == "admitted"]:
        for charge, cost in running:
            budget.spend(cost, charge)
            budget.end(charge, has_run=True)
            assert budget.spent + budget.reserved <= 10
