"""Reading the sources again: what changed is told, states stay, and a bad file changes nothing."""

from __future__ import annotations

import gc

import pytest

import resilient_bridge as rb


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "resilience.toml"
    path.write_text(FIRST)
    return path


FIRST = """\
[reconnect]
grace = "5m"
[policies.search]
breaker = { consecutive = 2 }
retry = { attempts = 1 }
"""
SECOND = FIRST.replace("attempts = 1", "attempts = 3").replace('"5m"', '"1m"')


def _fail() -> None:
    raise ConnectionResetError(104, "connection reset")


@pytest.mark.requirement("X8")
def test_a_reload_says_what_changed_and_keeps_the_circuits(path):
    """A circuit that is open stays open: that of a function of `protect`, and that of the policy itself."""
    config = rb.load(path)
    fail = config.protect("search", idempotent=True)(_fail)
    policy = config.policies["search"]
    for _ in range(2):
        rb.capture(fail)
        rb.capture(policy(idempotent=True).call, _fail)
    assert (rb.calls.circuit(fail).state, rb.calls.circuit(policy).state) == ("open", "open")
    path.write_text(SECOND)
    assert [str(change) for change in config.reload()] == [
        "policies.search.retry.attempts: 1 → 3",
        "reconnect.grace: None → 60.0",
    ]
    assert fail.policy is config.policies["search"]
    assert fail.policy.layers[0].attempts == 3
    assert (rb.calls.circuit(fail).state, rb.calls.circuit(config.policies["search"]).state) == (
        "open",
        "open",
    )
    assert config.bridge.reconnect.grace == 60
    assert config.reload() == ()


@pytest.mark.requirement("X8")
def test_a_bad_file_changes_nothing(path):
    """The settings in force stay, and every mistake is told; the next good file is taken."""
    config = rb.load(path)
    fail = config.protect("search", idempotent=True)(_fail)
    before = (config.bridge, dict(config.policies), fail.policy)
    for text in (SECOND.replace("3", "0"), "[", SECOND.replace("policies.search", "policies.find")):
        path.write_text(text)
        with pytest.raises(rb.ConfigError):
            config.reload()
        assert (config.bridge, dict(config.policies), fail.policy) == before
    path.unlink()
    with pytest.raises(rb.ConfigError, match="cannot be read"):
        config.reload()
    path.write_text(SECOND)
    assert len(config.reload()) == 2


def test_each_missing_policy_is_a_problem(path):
    """Every one that a function is decorated with, and once."""
    path.write_text(FIRST + "[policies.find]\nretry = {}\n")
    config = rb.load(path)
    functions = [
        config.protect(name, idempotent=True)(_fail) for name in ("search", "find", "search")
    ]
    path.write_text("")
    with pytest.raises(rb.ConfigError) as caught:
        config.reload()
    assert [problem.path for problem in caught.value.problems] == [
        "policies.search",
        "policies.find",
    ]
    assert len(functions) == 3


def test_a_function_that_is_gone_is_forgotten(path):
    """A Config keeps no function alive, and a policy without functions may go."""
    config = rb.load(path)
    fail = config.protect("search", idempotent=True)(_fail)
    del fail
    gc.collect()
    path.write_text("")
    assert [change.path for change in config.reload()] == ["policies.search.breaker.open_for", "policies.search.breaker.rate",
        "policies.search.breaker.window", "policies.search.retry.attempts"]  # fmt: skip
    assert config.policies == {}
