"""Replacing a policy: as a value with `replace`, and on a decorated function with `f.policy = …`."""

from __future__ import annotations

import asyncio
import inspect
import pickle

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere


REFUSED = ConnectionRefusedError


def test_replace_replaces_the_layer_of_the_same_class():
    """The order and the other layers stay; the original policy is unchanged."""
    policy = rb.Policy(
        rb.Deadline(60), rb.Retry(attempts=4), rb.Breaker(), rb.Timeout(10), name="web"
    )
    other = policy.replace(rb.Timeout(5), rb.Retry(attempts=2))
    assert (
        repr(other) == "Policy(Deadline(60), Retry(attempts=2), Breaker(), Timeout(5), name='web')"
    )
    assert policy.layers[1].attempts == 4


@pytest.mark.parametrize(
    ("layer", "order"),
    [
        (rb.Deadline(60), "Deadline Retry Breaker"),
        (rb.Timeout(5), "Retry Breaker Timeout"),
        (rb.Bulkhead(5), "Retry Bulkhead Breaker"),
        (rb.RateLimit(5), "Retry RateLimit Breaker"),
        (rb.Fallback(print), "Fallback Retry Breaker"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_replace_adds_a_layer_where_it_usually_stands(layer, order):
    """A new layer gets its usual position, without a warning."""
    policy = rb.resilient.replace(layer)
    assert " ".join(type(each).__name__ for each in policy.layers) == order
    assert policy.explain().warnings == ()


def test_replace_keeps_the_key():
    """A layer without a key takes over the one it replaces; one with a key has its own."""
    policy = rb.Policy(rb.Breaker(key="github"), rb.Bulkhead(5, key="github"))
    assert policy.replace(rb.Breaker(window=10)).layers[0] == rb.Breaker(window=10, key="github")
    assert policy.replace(rb.Breaker(key="gitlab")).layers[0].key == "gitlab"
    assert policy.replace(rb.Bulkhead(9)).layers[1] == rb.Bulkhead(9, key="github")


@both
def test_replace_keeps_the_state_of_call(form):
    """`policy.call` of both policies: an open circuit is open for the new one, too."""
    policy = rb.Policy(rb.Breaker.consecutive(1, open_for=3600))
    with pytest.raises(REFUSED):
        form.run(policy(idempotent=True).call, form.of(Server(always=REFUSED).get))
    with pytest.raises(rb.CircuitOpenError):
        form.run(policy.replace(rb.Breaker.consecutive(9)).call, form.of(Server().get))


@everywhere
def test_equal_policies_share_nothing(form):
    """Two functions have their own circuits, with two equal policies or with one."""
    with form.world():
        policy = rb.Policy(rb.Breaker.consecutive(1))
        bad = policy(form.of(Server(always=REFUSED).get))
        others = [
            policy(form.of(Server().get)),
            rb.Policy(rb.Breaker.consecutive(1))(form.of(Server().get)),
        ]
        with pytest.raises(REFUSED):
            form.run(bad)
        assert [form.run(other) for other in others] == ["ok", "ok"]


@everywhere
def test_a_key_shares_on_purpose(form):
    """All policies with the same key share one circuit."""
    key = f"shared {form}"
    with form.world():
        bad = rb.Policy(rb.Breaker.consecutive(1, key=key))(form.of(Server(always=REFUSED).get))
        with pytest.raises(REFUSED):
            form.run(bad)
        other = rb.Policy(rb.Breaker.consecutive(1, key=key))(form.of(Server().get))
        with pytest.raises(rb.CircuitOpenError):
            form.run(other)
        assert rb.calls.circuit(key).state == rb.calls.circuit(other).state == "open"


@everywhere
def test_another_policy_at_run_time(form):
    """It applies from the next call on, and the function keeps its circuit, budget, bulkhead and rate limit."""
    server = Server(always=REFUSED)
    with form.world():
        get = rb.Policy(at_once(attempts=2), rb.Breaker(rate=1, window=100))(
            form.of(server.get), idempotent=True
        )
        with pytest.raises(REFUSED):
            form.run(get)
        get.policy = rb.Policy(at_once(attempts=5), rb.Breaker(rate=1, window=100))
        with pytest.raises(REFUSED):
            form.run(get)
        assert server.calls == 7
        assert "7/100 failed" in repr(rb.calls.circuit(get))
        assert get.policy.layers[0].attempts == 5


@everywhere
def test_used_tokens_stay_used(form):
    """A used-up rate limit stays used up under another policy with the same numbers."""
    with form.world():
        get = rb.Policy(rb.RateLimit(1, per=3600))(form.of(Server().get), idempotent=True)
        form.run(get)
        get.policy = rb.Policy(at_once(on=()), rb.RateLimit(1, per=3600))
        with pytest.raises(rb.errors.ThrottledError):
            form.run(get)

        server = Server(always=REFUSED)
        budget = rb.RetryBudget(ratio=0, floor=1)
        spend = rb.Policy(at_once(attempts=9, budget=budget))(form.of(server.get), idempotent=True)
        for _ in range(2):
            with pytest.raises(REFUSED):
                form.run(spend)
            spend.policy = rb.Policy(at_once(attempts=8, budget=budget))
        assert server.calls == 3


@both
@pytest.mark.parametrize("wrong", [rb.Retry(), None, "policy"])
def test_what_is_no_policy_is_refused(form, wrong):
    """The next call raises, and each further one while the wrong value is set."""
    get = rb.Policy(at_once())(form.of(Server().get), idempotent=True)
    get.policy = wrong
    for _ in range(2):
        with pytest.raises(rb.ConfigError, match="wanted a Policy"):
            form.run(get)
    get.policy = rb.Policy(at_once())
    assert form.run(get) == "ok"


def test_a_policy_that_does_not_fit_is_refused():
    """A Timeout for a sync function, set at run time."""
    get = rb.Policy(at_once())(Server().get, idempotent=True)
    get.policy = rb.Policy(rb.Timeout(5))
    with pytest.raises(rb.ConfigError, match="thread=True"):
        get()


def test_a_policy_is_a_value():
    """It is hashable and picklable, and its repr evaluates to an equal policy; its state is not part of it."""
    policy = rb.Policy(
        rb.Deadline(60), rb.Retry(attempts=4), rb.Breaker(), rb.Timeout(10), name="web"
    )
    same = rb.Policy(*policy.layers, name="web")
    assert policy == same
    assert hash(policy) == hash(same)
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert eval(repr(policy), vars(rb) | {name: getattr(rb, name) for name in rb.__all__}) == policy
    assert policy != rb.Policy(*policy.layers)
    with pytest.raises(AttributeError):
        policy.name = "other"
    asyncio.run(policy(idempotent=True).call(asyncio.sleep, 0))
    assert policy == same


def test_policies_within_policies_are_taken_apart():
    """A Policy among the layers is replaced by its layers."""
    assert rb.Policy(rb.Deadline(60), rb.resilient).layers == (
        rb.Deadline(60),
        *rb.resilient.layers,
    )


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "at least one layer"),
        ([rb.Retry(), rb.Retry()], "one Retry at most"),
        ([rb.Retry(), rb.Fallback(print)], "Fallback outside of Retry"),
        ([rb.Retry(), 5], "Retry, Breaker, Timeout"),
        ([rb.RetryBudget()], "Retry, Breaker, Timeout"),
        ([rb.Backoff.constant(1)], "Retry, Breaker, Timeout"),
        ([rb.Retry], "Retry, Breaker, Timeout"),
    ],
    ids=["none", "twice", "fallback inside", "number", "budget", "backoff", "class"],
)
def test_a_bad_composition_is_refused(layers, message):
    """ConfigError names the layer and what was wanted."""
    with pytest.raises(rb.ConfigError, match=message):
        rb.Policy(*layers)


@pytest.mark.parametrize("wrong", [1, "yes"])
def test_a_flag_is_a_flag(wrong):
    """`idempotent=` takes True or False, nothing that merely behaves like them."""
    with pytest.raises(rb.ConfigError, match="idempotent"):
        rb.Policy(at_once())(idempotent=wrong)
    with pytest.raises(rb.ConfigError, match="idempotent"):
        rb.Policy(at_once()).attempts(idempotent=wrong)


def test_new_numbers_for_a_shared_circuit_do_not_warn_their_owner():
    """A function that changes its own settings at run time causes no warning; another function with other settings does."""

    @rb.Policy(rb.Breaker(key="replacing a shared one"))
    def get():
        return "ok"

    get()
    get.policy = get.policy.replace(rb.Breaker(rate=0.5))
    assert get() == "ok"
    assert get.policy.layers[0].key == "replacing a shared one"
    with pytest.warns(UserWarning, match="the last one wins"):
        rb.Policy(rb.Breaker(rate=0.9, key="replacing a shared one"))(get.__wrapped__)


@both
def test_e15_a_decorated_function_has_the_attributes_of_its_type(form):
    """Each attribute of `Protected` exists at run time, and the function is still a function; tests/typing checks the types."""

    def ask(text):
        return text

    protected = rb.resilient(idempotent=True)(form.of(ask))
    for name in rb.calls.Protected.__annotations__:
        assert hasattr(protected, name), name
    assert inspect.isfunction(protected)
    assert protected.policy is rb.resilient
    assert protected.explain().max_calls == rb.resilient.explain().max_calls
    assert form.run(protected.__wrapped__, "x") == form.run(protected, "x") == "x"
