"""What holds for every policy value alike, and which values it refuses."""

from __future__ import annotations

import math
import pickle
from datetime import timedelta

import attrs
import pytest

import resilient_bridge as rb
from resilient_bridge.bridge import Dialect, Heartbeat, Inbox, Outbox, Reconnect, Replay
from resilient_bridge.failure import ConfigError
from resilient_bridge.values import Backoff, Rule
from tests.rows import each_row


NAMES = {
    kind.__name__: kind
    for kind in (Backoff, Dialect, Heartbeat, Inbox, Outbox, Reconnect, Replay, Rule)
}
VALUES = [
    Reconnect(),
    Reconnect(
        backoff=Backoff.steps(1, 2),
        rules={"CONN_TIMEOUT": Rule(attempts=3, backoff=Backoff.linear(1))},
        attempts=None,
        on_exhausted="raise",
        first_connect="raise",
        grace=0,
        connect_timeout=0.5,
        stable_after=1,
        connect_burst=1,
        connects_per_minute=0.5,
        reuse_address_on=(2, 3),
        allow_plaintext_credentials=True,
    ),
    Heartbeat(every=1, timeout=2, probe_timeout=0.1),
    Outbox(
        max_messages=1,
        max_bytes=2,
        overflow="coalesce",
        resend_within=0,
        on_unknown="resend",
        on_new_session="return",
    ),
    Inbox(max_messages=1, max_bytes=2, overflow="resync"),
    Replay(overlap=0, timeout=1, max_messages=1, max_bytes=2),
    Dialect(
        request_replay=None,
        replay=None,
        superseded=(),
        unreplayed=("x_",),
        codec="json",
        session_from_join=True,
    ),
]
BAD_SECONDS = [
    -1,
    float("nan"),
    float("inf"),
    1e10,
    10**400,
    True,
    "1",
    None,
    timedelta(seconds=-1),
]
BAD_COUNTS = [0, -1, 1.0, True, "1", None]
SECONDS = {
    Reconnect: ["grace", "connect_timeout", "stable_after"],
    Heartbeat: ["every", "timeout", "probe_timeout"],
    Outbox: ["resend_within"],
    Replay: ["overlap", "timeout"],
}
COUNTS = {
    Reconnect: ["connect_burst"],
    Outbox: ["max_messages", "max_bytes"],
    Inbox: ["max_messages", "max_bytes"],
    Replay: ["max_messages", "max_bytes"],
    Dialect: ["max_frame_bytes"],
}
WORDS = {
    Reconnect: ["on_exhausted", "first_connect"],
    Outbox: ["overflow", "on_unknown", "on_new_session"],
    Inbox: ["overflow"],
    Dialect: ["codec"],
}


def _cases(table, values):
    return [
        (kind, field, value)
        for kind, fields in table.items()
        for field in fields
        for value in values
    ]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_policy_is_a_value(value):
    """Equal copies by repr, pickle and evolve; equal ones hash alike."""
    for copy in (eval(repr(value), NAMES), pickle.loads(pickle.dumps(value)), attrs.evolve(value)):
        assert copy == value
        assert copy is not value
        assert hash(copy) == hash(value)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_policy_cannot_be_changed(value):
    """No field can be set, no attribute added, and none is positional."""
    field = attrs.fields(type(value))[0].name
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(value, field, None)
    with pytest.raises(TypeError):
        type(value)(getattr(value, field))


def test_a_default_policy_prints_as_its_bare_name():
    """The repr shows what differs from the defaults, and nothing else."""
    assert repr(Outbox()) == "Outbox()"
    assert repr(Heartbeat(every=20, timeout=2.5)) == "Heartbeat(every=20, timeout=2.5)"


@each_row(("kind", "field"), [(kind, field) for kind in SECONDS for field in SECONDS[kind]])
def test_a_timedelta_is_stored_as_seconds(kind, field):
    """A minute given either way is one float."""
    value = getattr(kind(**{field: timedelta(minutes=1)}), field)
    assert type(value) is float
    assert kind(**{field: 60}) == kind(**{field: timedelta(minutes=1)})


def _refused(kind, field, value):
    with pytest.raises(ConfigError) as caught:
        kind(**{field: value})
    assert caught.value.failure.details["violations"][0]["field"] == f"{kind.__name__}.{field}"


@each_row(("kind", "field", "value"), _cases(SECONDS, BAD_SECONDS))
def test_bad_seconds_are_refused_by_name(kind, field, value):
    """Negative, NaN, infinite, absurd, bool, text, None: a ConfigError that names the field."""
    _refused(kind, field, value)


@each_row(("kind", "field", "value"), _cases(COUNTS, BAD_COUNTS))
def test_bad_counts_are_refused_by_name(kind, field, value):
    """Zero, negative, a float, a bool, text, None: a ConfigError that names the field."""
    _refused(kind, field, value)


@each_row(("kind", "field", "value"), _cases(WORDS, ["", "none", None, 1, ["raise"]]))
def test_unknown_words_are_refused_by_name(kind, field, value):
    """A word that is no option: a ConfigError that names the field."""
    _refused(kind, field, value)


@each_row(
    ("kind", "field"),
    [
        (Heartbeat, "every"),
        (Heartbeat, "timeout"),
        (Heartbeat, "probe_timeout"),
        (Reconnect, "connect_timeout"),
        (Replay, "timeout"),
    ],
)
@each_row("value", [0, 3601, 15_000])
def test_a_timeout_in_milliseconds_is_refused(kind, field, value):
    """No peer is left unwatched for over an hour, nor given no time at all."""
    _refused(kind, field, value)


@each_row(
    ("kind", "field", "value"),
    [
        *_cases({Reconnect: ["attempts"]}, [0, -1, 5.0, True, "5"]),
        *_cases({Reconnect: ["connects_per_minute"]}, [0, -1, float("nan"), True, "4", None]),
        *_cases({Reconnect: ["backoff"]}, [5, None, [1, 2]]),
        *_cases(
            {Reconnect: ["allow_plaintext_credentials"], Dialect: ["session_from_join"]},
            [1, None, "no"],
        ),
    ],
)
def test_other_bad_values_are_refused_by_name(kind, field, value):
    """Whatever is no Backoff, no flag, no rate: a ConfigError that names the field."""
    _refused(kind, field, value)


def test_the_error_says_what_was_wanted_and_what_came():
    """One line that can be acted on."""
    with pytest.raises(
        ConfigError, match=r"Reconnect\.grace: wanted seconds from 0 to 1000000000, got -1"
    ):
        Reconnect(grace=-1)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_e29_every_value_evolves(value):
    """The named field changes, the rest stays; a name that is no field is a ConfigError that lists them."""
    for field in attrs.fields(type(value)):
        assert value.evolve(**{field.name: getattr(value, field.name)}) == value
    with pytest.raises(
        ConfigError, match=rf"{type(value).__name__}\.evolve: wanted a field: .* got 'nonsense'"
    ):
        value.evolve(nonsense=1)


def test_e29_a_preset_keeps_its_rules():
    """What the tutorial does: another schedule, and nothing else."""
    preset = rb.presets.recursor.reconnect
    changed = preset.evolve(attempts=8)
    assert (changed.attempts, changed.rules, changed.on_exhausted) == (
        8,
        preset.rules,
        preset.on_exhausted,
    )
    with pytest.raises(ConfigError, match=r"Reconnect\.attempts"):
        preset.evolve(attempts=0)
    policy = rb.Policy(rb.Retry(attempts=2), rb.Breaker.consecutive(3))
    assert policy.evolve(name="shop") == rb.Policy(*policy.layers, name="shop")
    assert rb.Breaker.consecutive(3).evolve(probes=2) == rb.Breaker.consecutive(3, probes=2)
    assert rb.Timeout(10).evolve(seconds=5) == rb.Timeout(5)
    with pytest.raises(ConfigError, match=r"Policy\.evolve"):
        policy.evolve(nmae="shop")
    with pytest.raises(ConfigError, match=r"BridgePolicy\.evolve"):
        rb.presets.recursor.evolve(recconect=preset)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda span, path: rb.stores.SQLiteStore(path, wait=span), "SQLiteStore.wait"),
        (lambda span, _: rb.stores.RedisStore("redis://localhost", lease=span), "RedisStore.lease"),
        (
            lambda span, _: rb.stores.RedisStore("redis://localhost", timeout=span),
            "RedisStore.timeout",
        ),
        (lambda span, _: rb.stores.RedisStore("redis://localhost", wait=span), "RedisStore.wait"),
        (lambda span, _: rb.telemetry.Alerts(window=span), "Alerts.window"),
        (lambda span, _: _own_frames(silence=span), "Dialect.silence"),
        (
            lambda span, _: _own_frames(acknowledges="taken", acknowledge_within=span),
            "Dialect.acknowledge_within",
        ),
    ],
    ids=["SQLiteStore.wait", "lease", "timeout", "RedisStore.wait", "window", "silence", "within"],
)
def test_l05_durations_outside_of_policies_take_a_timedelta_too(make, expected, tmp_path):
    """As docs/reference/api.md says of all seconds; a negative one, a bool and a text are refused by name."""
    make(timedelta(seconds=3), tmp_path / "a.db")
    for wrong in (timedelta(seconds=-3), True, "abc", math.nan, math.inf):
        with pytest.raises(rb.ConfigError, match=expected):
            make(wrong, tmp_path / "a.db")


def _own_frames(**options):
    return rb.bridge.Dialect.envelopes(decode=lambda _: (), encode=lambda _: None, **options)
