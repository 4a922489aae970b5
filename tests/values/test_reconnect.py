"""Reconnect: the defaults from the specifications and the simulations."""

from __future__ import annotations

import pytest

from bench.reconnect_storms import CHOOSING, GOALS, JUDGING, SMALL, measured
from resilient_bridge.bridge import Reconnect
from resilient_bridge.failure import ConfigError
from resilient_bridge.values import Backoff


def test_the_defaults():
    """Half a second and a second at most, then decorrelated from 1 to 30 s; after five attempts and five minutes the user is informed, and it goes on."""
    policy = Reconnect()
    assert policy.backoff == Backoff.steps(0.5, 1, jitter="full", then=Backoff.decorrelated(1))
    assert (policy.attempts, policy.on_exhausted, policy.first_connect) == (5, "suspend", "retry")
    assert (policy.grace, policy.connect_timeout, policy.stable_after) == (300, 10, 30)
    assert (policy.connect_burst, policy.connects_per_minute) == (3, 4)
    assert (policy.rules, policy.reuse_address_on, policy.allow_plaintext_credentials) == (
        {},
        (),
        False,
    )


@pytest.fixture(scope="module")
def played():
    """What the default comes to in a small crowd."""
    return dict(measured(JUDGING[:1], SMALL))


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.what)
def test_c05_l12_the_default_meets_its_goals(goal, played):
    """C05, L12: clients of a long outage are spread as before, and a server that was restarted is found at once."""
    assert played[goal] <= goal.bound


def test_the_schedule_is_judged_on_seeds_that_did_not_choose_it():
    """C05: what was tuned on a seed says nothing about another."""
    assert not set(CHOOSING) & set(JUDGING)


def test_a_list_of_attempts_is_stored_as_a_tuple():
    """A value written as a list stays hashable."""
    assert Reconnect(reuse_address_on=[2]) == Reconnect(reuse_address_on=(2,))
    assert hash(Reconnect(reuse_address_on=[2]))


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ((0,), "Reconnect.reuse_address_on[0]"),
        ((2, True), "Reconnect.reuse_address_on[1]"),
        ((2, "3"), "Reconnect.reuse_address_on[1]"),
        (2, "Reconnect.reuse_address_on"),
        ("2", "Reconnect.reuse_address_on"),
        ({2}, "Reconnect.reuse_address_on"),
    ],
)
def test_what_is_no_attempt_number_is_refused(value, field):
    """The ConfigError names the item."""
    with pytest.raises(ConfigError) as caught:
        Reconnect(reuse_address_on=value)
    assert caught.value.failure.details["violations"][0]["field"] == field
