"""RedisState as a value: what it takes, how it prints, what it needs; and what a Policy does with its `state`."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import ConfigError
from resilient_bridge.stores import MemoryStore, RedisState
from tests.calls.shared_driving import Store
from tests.internals.calls import SharedState
from tests.internals.stores import without_secrets


URL = "redis://127.0.0.1:1/0"  # nobody listens there, and nothing here connects
SECRET = "redis://user:s3cret@127.0.0.1:1/0?password=s3cret2"


def refusal(call) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    return caught.value.failure.message


# ---- the value -----------------------------------------------------------------------------------------------------


def test_it_is_what_a_policy_asks_for():
    """A RedisState does what the port says."""
    assert isinstance(RedisState(URL), SharedState)


def test_equal_settings_are_equal_and_survive_a_pickle():
    """Equal and hashable by url, prefix, timeout and retry_after; a pickle and a copy are made of these."""
    one = RedisState(URL, prefix="shop", timeout=timedelta(seconds=0.5), retry_after=2)
    same = RedisState(URL, prefix="shop", timeout=0.5, retry_after=2)
    assert (one, hash(one)) == (same, hash(same))
    assert one != RedisState(URL, prefix="shop", timeout=0.5)
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one


def test_the_repr_is_the_constructors_call_without_what_is_secret():
    """No user, no password, no query; what differs from the defaults."""
    assert repr(RedisState(URL)) == "RedisState('redis://127.0.0.1:1/0')"
    state = RedisState(SECRET, prefix="shop", timeout=0.5, retry_after=2)
    assert (
        repr(state)
        == "RedisState('redis://127.0.0.1:1/0', prefix='shop', timeout=0.5, retry_after=2)"
    )
    assert repr(RedisState("unix:///run/redis.sock")) == "RedisState('unix:///run/redis.sock')"
    assert repr(RedisState("rediss://[::1]:6380/1")) == "RedisState('rediss://[::1]:6380/1')"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: RedisState(5),
            "RedisState.url: wanted redis://host:6379/0, rediss:// or unix://, got 'int'",
        ),
        (
            lambda: RedisState("localhost:6379"),
            "RedisState.url: wanted redis://host:6379/0, rediss:// or unix://, got 'no url'",
        ),
        (
            lambda: RedisState("http://user:s3cret@host"),
            "RedisState.url: wanted redis://host:6379/0, rediss:// or unix://, got 'http...'",
        ),
        (
            lambda: RedisState("redis://user:s3cret@host:many"),
            "RedisState.url: wanted redis://host:6379/0, rediss:// or unix://, got 'redis...'",
        ),
        (
            lambda: RedisState(URL, prefix="a{b}"),
            "RedisState.prefix: wanted a name that is not empty, without braces, got 'a{b}'",
        ),
        (
            lambda: RedisState(URL, timeout=0),
            "RedisState.timeout: wanted seconds above 0 to 3600, got 0.0",
        ),
        (
            lambda: RedisState(URL, retry_after=-1),
            "RedisState.retry_after: wanted seconds above 0 to 3600, got -1.0",
        ),
    ],
)
def test_bad_settings_are_refused_by_name(call, message):
    """At the constructor, with what was wanted; of a url never more than its scheme."""
    assert refusal(call).partition("; write ")[0] == message


def test_options_that_the_client_does_not_know_are_refused_where_they_are_used_first():
    """A mistake in the url is found when a policy is put around a function, not at the first call, and shows no password."""
    policy = rb.Policy(rb.Breaker(key="x"), state=RedisState(f"{SECRET}&db=many"))
    message = refusal(lambda: policy(print))
    assert message.startswith("RedisState.url: wanted options that the package redis knows")
    assert "s3cret" not in message


def test_what_an_error_says_is_shown_without_secrets():
    """Whatever text comes from the client or the server: as it stands in the url, and decoded."""
    reports = without_secrets(
        "redis://u:p%40ss@host/0?password=other", "AUTH p%40ss, p@ss and other failed"
    )
    assert reports == "AUTH [redacted], [redacted] and [redacted] failed"


def test_a_missing_package_is_named(monkeypatch):
    """Without the package redis: the command that installs it, where the policy is put around a function."""
    monkeypatch.setitem(sys.modules, "redis", None)
    message = refusal(lambda: rb.Policy(rb.Breaker(), state=RedisState(URL))(print))
    assert message == (
        "Policy.state: wanted the package redis: pip install 'resilient-bridge[redis]', got 'no such package'"
    )


def test_nothing_is_loaded_or_started_before_it_is_used():
    """Neither the import of the module, nor a policy with a state loads redis; a decorated function starts no thread."""
    code = (
        "import sys, threading, resilient_bridge as rb\n"
        "from resilient_bridge.stores import RedisState\n"
        f"policy = rb.Policy(rb.Retry(), rb.Breaker(), state=RedisState({URL!r}))\n"
        "repr(policy), policy.explain(), hash(policy)\n"
        "print('redis' in sys.modules)\n"
        "policy(idempotent=True)(print)\n"
        "print('redis' in sys.modules, threading.active_count())"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True", "1"]


# ---- Policy.state --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [URL, RedisState, MemoryStore(), object()],
    ids=["url", "redis state", "memory store", "object"],
)
def test_what_cannot_share_is_refused(state):
    """A url, a class, a store of messages."""
    message = refusal(lambda: rb.Policy(rb.Breaker(), state=state))
    assert message.startswith(
        "Policy.state: wanted a RedisState, a MachineState, or None for the state of this process"
    )


def test_a_policy_with_a_state_is_a_value():
    """Equal by its state, too; printed, hashed, pickled and copied with it."""
    policy = rb.Policy(rb.Breaker(), name="x", state=RedisState(URL))
    assert policy != rb.Policy(rb.Breaker(), name="x")
    assert policy == rb.Policy(rb.Breaker(), name="x", state=RedisState(URL))
    assert repr(policy) == f"Policy(Breaker(), name='x', state=RedisState({URL!r}))"
    assert pickle.loads(pickle.dumps(policy)) == copy.deepcopy(policy) == policy
    assert hash(copy.copy(policy)) == hash(policy)


def test_replace_carries_the_state():
    """Another layer, the same sharing."""
    state = RedisState(URL)
    assert rb.Policy(rb.Breaker(), state=state).replace(rb.Retry()).state is state


def test_the_state_of_a_policy_among_the_layers_is_taken_over():
    """What is taken apart keeps what it shares; two that disagree are refused, unless somebody says which."""
    one, other = RedisState(URL), RedisState(URL, prefix="other")
    breaker, retry = rb.Policy(rb.Breaker(), state=one), rb.Policy(rb.Retry(), state=other)
    assert rb.Policy(rb.Timeout(1), breaker).state is one
    assert refusal(lambda: rb.Policy(retry, breaker)).startswith(
        "Policy.state: wanted one state for all layers"
    )
    assert rb.Policy(retry, breaker, state=other).state is other


def test_explain_says_what_is_shared_and_what_is_not():
    """Circuit and budget; Bulkhead and RateLimit stay with each process."""
    state = RedisState(URL)
    policy = rb.Policy(rb.Retry(), rb.Bulkhead(1), rb.RateLimit(1), rb.Breaker(), state=state)
    assert policy.explain().lines[-1] == (
        f"shared through {state!r}: the circuit and the retry budget; of this process alone: Bulkhead, RateLimit"
    )
    assert rb.Policy(rb.Timeout(1), state=state).explain().lines[-1].endswith(": nothing")
    assert "shared" not in str(rb.Policy(rb.Retry()).explain())


# ---- names ---------------------------------------------------------------------------------------------------------


class Api:
    def get(self) -> str:
        return "ok"


def test_a_shared_circuit_has_a_name_that_processes_agree_on():
    """The key; else the name given at the decorator, else the function's qualified name, whatever the policy is called."""
    store = Store()
    policy = rb.Policy(rb.Retry(), rb.Breaker(), name="web", state=store)
    policy(idempotent=True)(Api.get)
    policy(name="fetch", idempotent=True)(Api.get)
    rb.Policy(rb.Breaker(key="github"), state=store)(Api.get)
    own = f"{Api.__module__}.Api.get"
    assert list(store.circuits) == [own, "fetch", "github"]
    assert list(store.budgets) == [own, "fetch"]


def test_call_and_attempts_share_under_the_policys_name():
    """Equal policies of two processes meet there."""
    store = Store()
    policy = rb.Policy(rb.Retry(), rb.Breaker(), name="web", state=store)
    with rb.testing.virtual_time():
        policy(idempotent=True).call(lambda: None)
        for attempt in policy(idempotent=True).attempts():
            with attempt:
                pass
    assert (list(store.circuits), list(store.budgets)) == (["web"], ["web"])


@pytest.mark.parametrize(
    ("layer", "call", "field", "sort"),
    [
        (rb.Breaker(), lambda policy: policy.call(print), "Breaker.key", "circuit"),
        (rb.Breaker(), lambda policy: list(policy.attempts()), "Breaker.key", "circuit"),
        (
            rb.Retry(),
            lambda policy: policy(idempotent=True).call(print),
            "RetryBudget.key",
            "retry budget",
        ),
        (rb.Breaker(), lambda policy: policy(lambda: None), "Breaker.key", "circuit"),
    ],
    ids=["call", "attempts", "budget", "lambda"],
)
def test_without_a_name_a_key_is_asked_for(layer, call, field, sort):
    """Where processes could only agree by accident."""
    policy = rb.Policy(layer, state=Store())
    message = refusal(lambda: call(policy))
    assert (
        message.partition("; write ")[0]
        == f"{field}: wanted a key: a shared {sort} needs a name that all processes agree on, got None"
    )


def test_one_name_and_state_is_one_circuit_in_a_process():
    """Functions that say the same key share it, and with it one line to the store; another state is another circuit."""
    store, other = Store(), Store()
    policy = rb.Policy(rb.Breaker(key="shared"), state=store)
    one, two = policy(Api.get), policy(lambda: None)
    assert one.__binding__.states.current is two.__binding__.states.current
    third = rb.Policy(rb.Breaker(key="shared"), state=other)(Api.get)
    assert third.__binding__.states.current is not one.__binding__.states.current


def test_other_numbers_under_one_name_warn():
    """The last ones win, as within a process."""
    store = Store()
    first = rb.Policy(rb.Breaker(key="shared"), state=store)(Api.get)
    with pytest.warns(UserWarning, match="shared circuit 'shared' was Breaker"):
        rb.Policy(rb.Breaker(key="shared", probes=2), state=store)(Api.get)
    assert first.__binding__.states.current.settings.probes == 2


def test_the_handle_of_a_key_finds_the_shared_circuit():
    """`circuit(key)` and `circuits()` show it, for as long as a policy uses it here; a plain one of this name is another."""
    store = Store()
    guarded = rb.Policy(rb.Breaker(key="both"), state=store)(Api.get)
    assert rb.calls.circuit("both")._find() is guarded.__binding__.states.current
    assert rb.calls.circuits()["both"]._find() is guarded.__binding__.states.current
    plain = rb.Policy(rb.Breaker(key="both"))(Api.get)
    assert plain.__binding__.states.current is not guarded.__binding__.states.current
    del guarded
    assert rb.calls.circuit("both")._find() is plain.__binding__.states.current


def test_a_policy_that_replaces_it_goes_over_to_the_shared_state():
    """`f.policy = …` with a state shares from the next call on; back again it finds its own circuit as it was."""
    store = Store()
    plain = rb.Policy(rb.Breaker())
    get = plain(Api.get)
    own = get.__binding__.states.current
    get.policy = rb.Policy(rb.Breaker(), state=store)
    with rb.testing.virtual_time():
        get(Api())
        assert list(store.circuits) == [f"{Api.__module__}.Api.get"]
        get.policy = plain
        get(Api())
    assert get.__binding__.states.current is own


def test_no_thread_was_started_here():
    """All of the above is decided without Redis."""
    assert [thread.name for thread in threading.enumerate() if "redis" in thread.name] == []
