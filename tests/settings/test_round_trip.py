"""`load(dump(x)) == x`, and the same values from code, TOML, YAML, JSON and the environment, over all fields of all classes."""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import resilient_bridge as rb
from tests.internals.settings import KINDS as KNOWN
from tests.internals.values import Value

from .plain_files import sources
from .value_strategies import KINDS, NAMES, values


pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning"
)  # orders that do harm are values, too


def test_every_public_value_can_be_written():
    """Each value class among the public names, and those of dialects, is one of those that `dump` takes."""
    public = {getattr(rb, name) for name in rb.__all__}
    classes = {each for each in public if isinstance(each, type) and issubclass(each, Value)}
    assert classes - {rb.Layer} <= set(KNOWN.values())
    assert set(KNOWN.values()) == set(KINDS)


class Mine(rb.Layer):
    """A layer that no settings can say."""


def test_a_layer_of_ones_own_is_refused_by_its_path_and_shown_by_its_name():
    """A policy that a dict holds may have one."""
    policy = rb.Policy(rb.Retry(attempts=2), Mine())
    with pytest.raises(rb.ConfigError, match=r"Policy\.Mine: wanted a layer that settings can say"):
        rb.settings.dump(policy)
    lines = {line.path: line.value for line in rb.load({"policies": {"a": policy}}).explain()}
    assert lines["policies.a.Mine"] == "<Mine>"
    assert lines["policies.a.retry.attempts"] == 2


@pytest.mark.requirement("X8")
@settings(max_examples=100)
@given(st.sampled_from(KINDS).flatmap(values))
def test_what_is_dumped_is_loaded_as_an_equal_value(value):
    """Over every field of every class; functions and classes by the caller's names."""
    dumped = rb.settings.dump(value, names=NAMES)
    loaded = rb.load(dumped, names=NAMES)
    assert loaded == value
    assert repr(loaded) == repr(value)
    assert rb.settings.dump(loaded, names=NAMES) == dumped
    assert rb.load(dumped, type(value), names=NAMES) == value


@pytest.mark.requirement("X8")
@settings(max_examples=20)
@given(policy=values(rb.Policy), bridge=values(rb.bridge.BridgePolicy))
def test_the_same_policy_comes_from_every_source(policy, bridge):
    """Code, a dict, TOML, YAML, JSON and the environment: equal values."""
    link = {
        key: item for key, item in rb.settings.dump(bridge, names=NAMES).items() if key != "kind"
    }
    layers = dict.fromkeys(("retry", "breaker"), False)  # else those of the default policy stay
    link["calls"] = {**layers, "order": [], **link.get("calls", {"retry": {}, "breaker": {}})}
    data = {
        **link,
        "policies": {
            "search": {
                k: v for k, v in rb.settings.dump(policy, names=NAMES).items() if k != "kind"
            }
        },
    }
    if not data["calls"]["order"]:
        del data["calls"]["order"]
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (source, env) in sources(data, Path(folder)).items():
            config = rb.load(source, env=env, names=NAMES)
            assert config.policies["search"] == policy, name
            assert config.bridge == bridge, name


@pytest.mark.parametrize("name", [name for name in rb.presets.__all__ if name != "BridgePolicy"])
def test_every_preset_is_written_and_read(name):
    """The values of the specifications, as data, and by their name."""
    preset = getattr(rb.presets, name)
    assert rb.load(rb.settings.dump(preset)) == preset
    assert rb.load({"preset": name}).bridge == preset


def test_ready_dialects_are_written_by_name():
    """A dialect with functions is its name in `rb.dialects`."""
    assert rb.settings.dump(rb.bridge.BridgePolicy(dialect=rb.dialects.openhands)) == {
        "kind": "BridgePolicy",
        "dialect": "openhands",
    }
    family = "sequence(field='seq', ask='last_seq')"
    assert (
        rb.load({"dialect": family}).bridge.dialect.positions
        == rb.dialects.sequence(field="seq", ask="last_seq").positions
    )


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (rb.Retry(on_result=lambda answer: not answer), "Retry.on_result"),
        (rb.Policy(rb.Retry(on=lambda failure: True)), "Policy.retry.on[0]"),
        (rb.Rule(before=print), "Rule.before"),
        (rb.dialects.sequence(field="seq", ask="last"), "Dialect.decode"),
    ],
)
def test_what_settings_cannot_say_is_refused_with_its_path(value, path):
    """A function without a name is not left out in silence."""
    with pytest.raises(rb.ConfigError, match="settings can say") as caught:
        rb.settings.dump(value)
    assert caught.value.problems[0].path == path
