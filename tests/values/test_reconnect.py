"""Reconnect: the defaults from the specifications and the simulations."""

from __future__ import annotations

import pytest

from resilient_bridge import Reconnect
from resilient_bridge.errors import ConfigError
from resilient_bridge.values import Backoff


def test_the_defaults():
    """Decorrelated 1 to 30 s; after five attempts and five minutes the user is informed, and it goes on."""
    policy = Reconnect()
    assert policy.backoff == Backoff.decorrelated(1, cap=30)
    assert (policy.attempts, policy.on_exhausted, policy.first_connect) == (5, "suspend", "retry")
    assert (policy.grace, policy.connect_timeout, policy.stable_after) == (300, 10, 30)
    assert (policy.connect_burst, policy.connects_per_minute) == (3, 4)
    assert (policy.rules, policy.reuse_address_on, policy.allow_plaintext_credentials) == ({}, (), False)


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
