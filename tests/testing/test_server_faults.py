"""The behaviour value: correct by default, with the seed's numbers."""

from __future__ import annotations

import json

import attrs
import pytest

from resilient_bridge.testing import Behaviour
from tests.internals.testing import GARBAGE


def test_the_defaults_are_the_seeds_numbers():
    """Grace 5 min, buffer 100 KB and 30 min, dedupe 5 min."""
    behaviour = Behaviour()
    assert (behaviour.grace, behaviour.replay_bytes, behaviour.replay_age) == (300, 102_400, 1800)
    assert behaviour.dedupe_window == 300


def test_it_is_a_value():
    """Equal, frozen, changed by copy, with a bad mode refused."""
    assert Behaviour() == Behaviour()
    assert attrs.evolve(Behaviour(), slow=1.0).slow == 1.0
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Behaviour().slow = 2.0
    with pytest.raises(ValueError, match="replay"):
        Behaviour(replay="sometimes")


def test_garbage_holds_what_python_would_let_through():
    """Duplicate keys, 1e400 and NaN are valid to `json`: a client must look harder."""
    for name in ("nan", "overflow", "duplicate_keys", "lone_surrogate", "null_payload"):
        assert json.loads(GARBAGE[name])["type"]
    assert GARBAGE["bom"].startswith("\ufeff")
