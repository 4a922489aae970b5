"""Presets: each number is its specification's."""

from __future__ import annotations

import pickle

import pytest

import resilient_bridge as rb
from resilient_bridge import Policy, presets
from resilient_bridge.bridge import BridgePolicy, Heartbeat, Outbox, Reconnect
from resilient_bridge.calls import Timeout
from resilient_bridge.failure import ConfigError, Failure
from resilient_bridge.values import most_specific


VALUES = {name: getattr(presets, name) for name in presets.__all__ if name != "BridgePolicy"}


@pytest.mark.requirement("R3")
def test_recursor_reconnects_by_its_table_and_then_raises():
    """1, 2, 5, 10, 30 s, five attempts, then a typed end; the session is kept 5 minutes."""
    reconnect = presets.recursor.reconnect
    assert reconnect.backoff.delays(5) == reconnect.backoff.sample(5, seed=1) == [1, 2, 5, 10, 30]
    assert (reconnect.attempts, reconnect.on_exhausted, reconnect.grace) == (5, "raise", 300)


@pytest.mark.requirement("R6")
def test_recursor_has_its_own_table_for_a_connect_timeout():
    """1, 2 (cached address), 5, then from 10 s doubling up to a minute; other failures keep the first table."""
    reconnect = presets.recursor.reconnect
    rule = most_specific(reconnect.rules, Failure.of("CONN_TIMEOUT"))
    assert rule is not None
    assert rule.backoff is not None
    assert rule.backoff.delays(7) == rule.backoff.sample(7, seed=1) == [1, 2, 5, 10, 20, 40, 60]
    assert reconnect.reuse_address_on == (2,)
    assert most_specific(reconnect.rules, Failure.of("CONN_WEBSOCKET_CLOSED")) is None


@pytest.mark.requirement("V7")
def test_openviber_doubles_and_then_tells_the_user():
    """1, 2, 4, 8, 16 s, five attempts, then disconnected mode."""
    reconnect = presets.openviber.reconnect
    assert reconnect.backoff.delays(5) == reconnect.backoff.sample(5, seed=1) == [1, 2, 4, 8, 16]
    assert (reconnect.attempts, reconnect.on_exhausted) == (5, "suspend")


@pytest.mark.requirement("V13")
def test_openviber_waits_thirty_seconds_for_a_heartbeat():
    """The heartbeat's timeout is 30 s."""
    assert presets.openviber.heartbeat.timeout == 30


def test_the_recommended_policy_is_the_default_one():
    """A policy without arguments is `presets.default`: spread-out waits, heartbeat 15 + 10, told and going on."""
    assert presets.default == BridgePolicy()
    assert presets.default.reconnect.backoff == Reconnect().backoff
    assert presets.default.reconnect.on_exhausted == "suspend"
    assert (presets.default.heartbeat.every, presets.default.heartbeat.timeout) == (15, 10)
    assert (presets.default.outbox.max_messages, presets.default.outbox.resend_within) == (
        1000,
        270,
    )


@pytest.mark.parametrize("name", VALUES)
def test_a_preset_is_a_value(name):
    """The repr evaluates to an equal policy, a pickle too; all of them differ."""
    preset = VALUES[name]
    scope = {part: getattr(module, part) for module in (rb, rb.bridge) for part in module.__all__}
    for copy in (eval(repr(preset), scope), pickle.loads(pickle.dumps(preset))):
        assert copy == preset
        assert hash(copy) == hash(preset)
    assert [other for other in VALUES.values() if other == preset] == [preset]


def test_the_tools_are_a_table_that_does_not_change():
    """Policies by name: equal by content, hashable, copied from what was given, checked entry by entry."""
    value = {"bash": Policy(Timeout(300, thread=True))}
    preset = BridgePolicy(tools=value)
    value.clear()
    assert dict(preset.tools) == {"bash": Policy(Timeout(300, thread=True))}
    assert hash(preset) == hash(BridgePolicy(tools={"bash": Policy(Timeout(300, thread=True))}))
    with pytest.raises(ConfigError, match=r"BridgePolicy\.tools\['bash'\]: wanted a Policy"):
        BridgePolicy(tools={"bash": Timeout(300)})
    with pytest.raises(ConfigError, match=r"BridgePolicy\.tools: wanted a mapping"):
        BridgePolicy(tools=["bash"])
    with pytest.raises(ConfigError, match=r"BridgePolicy\.tools: wanted names"):
        BridgePolicy(tools={"": Policy(Timeout(300))})


def test_repeatable_operations_are_names():
    """One text is no list of names."""
    assert BridgePolicy(idempotent=["a", "b"]).idempotent == ("a", "b")
    with pytest.raises(ConfigError, match=r"BridgePolicy\.idempotent"):
        BridgePolicy(idempotent=[1])


def test_evolve_replaces_parts_of_a_copy():
    """The part named is new, the others are kept, the original is untouched."""
    before = repr(presets.recursor)
    changed = presets.recursor.evolve(
        reconnect=Reconnect(on_exhausted="suspend"), outbox=Outbox(overflow="block")
    )
    assert changed.reconnect == Reconnect(on_exhausted="suspend")
    assert changed.outbox.overflow == "block"
    assert changed.dialect is presets.recursor.dialect
    assert repr(presets.recursor) == before


@pytest.mark.parametrize(
    "part", ["reconnect", "heartbeat", "outbox", "inbox", "replay", "dialect", "calls"]
)
def test_a_part_of_the_wrong_class_is_refused(part):
    """The ConfigError names the part, when made and when evolved."""
    wrong = Outbox() if part != "outbox" else Heartbeat()
    for make in (
        lambda: BridgePolicy(**{part: wrong}),
        lambda: presets.default.evolve(**{part: None}),
    ):
        with pytest.raises(ConfigError, match=rf"BridgePolicy\.{part}: wanted an? [A-Z]\w+, got"):
            make()


def test_a_policy_for_calls_stands_where_one_for_links_is_asked():
    """The link is the recommended one then; anything else is refused by name."""
    client = rb.BridgeClient("ws://127.0.0.1:1/", policy=rb.Policy(rb.Retry(attempts=2)))
    assert client.state is rb.bridge.BridgeState.IDLE
    with pytest.raises(rb.ConfigError, match=r"BridgeClient\.policy"):
        rb.BridgeClient("ws://127.0.0.1:1/", policy=rb.Retry())
