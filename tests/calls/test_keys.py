"""A key that is a function of the call's arguments: one state for each value, bounded, and nothing for the others."""

from __future__ import annotations

import asyncio
import gc

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge import events
from resilient_bridge.calls import Breaker, Bulkhead, RateLimit, RetryBudget
from tests.internals.calls import registry


def host(name, *_, **__):
    """Return what the state is selected by."""
    return name


AT_ONCE = rb.Backoff.constant(0)
DOWN = Breaker.consecutive(2, open_for=30, key=host)


def fails_for(*down):
    """Return a function that is refused by these hosts, and the hosts that it was called with."""
    asked = []

    def fetch(name, path="/"):
        asked.append(name)
        if name in down:
            raise ConnectionRefusedError
        return path

    return fetch, asked


@pytest.mark.requirement("X18")
def test_one_host_that_is_down_costs_the_others_nothing():
    function, asked = fails_for("a")
    fetch = rb.Policy(DOWN)(function)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            fetch("a")
    with pytest.raises(rb.errors.CircuitOpenError):
        fetch("a")
    assert [fetch("b", path=str(number)) for number in range(3)] == ["0", "1", "2"]
    assert asked == ["a", "a", "b", "b", "b"]


async def test_it_selects_for_every_kind_of_call():
    """Async, streams of both kinds, `policy.call`; each kind of function has its own circuits."""
    policy = rb.Policy(DOWN)

    async def work(name):
        if name == "a":
            raise ConnectionRefusedError
        return name

    def items(name):
        if name == "a":
            raise ConnectionRefusedError
        got = yield name
        return got

    async def async_items(name):
        if name == "a":
            raise ConnectionRefusedError
        yield name

    async def listed(name):
        return [item async for item in policy_async(name)]

    worked, streamed, policy_async = policy(work), policy(items), policy(async_items)
    assert await worked("b") == "b"
    assert list(streamed("b")) == ["b"]
    assert await listed("b") == ["b"]
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            await worked("a")
        with pytest.raises(ConnectionRefusedError):
            list(streamed("a"))
        with pytest.raises(ConnectionRefusedError):
            await listed("a")
        with pytest.raises(ConnectionRefusedError):
            policy.call(fails_for("a")[0], "a")
    for call in (worked, listed):
        with pytest.raises(rb.errors.CircuitOpenError):
            await call("a")
        assert await call("b") in ("b", ["b"])
    for sync in (lambda name: list(streamed(name)), lambda name: policy.call(len, name)):
        with pytest.raises(rb.errors.CircuitOpenError):
            sync("a")
        assert sync("b") in (["b"], 1)


def test_layers_without_a_key_function_are_one_for_all_values():
    function, _ = fails_for()
    fetch = rb.Policy(RateLimit(2, per=60), Breaker(key=host))(function)
    with rb.testing.virtual_time():
        fetch("a")
        fetch("b")
        with pytest.raises(rb.errors.ThrottledError):
            fetch("c")


def test_each_limit_and_each_budget_is_one_per_value():
    with rb.testing.virtual_time():
        function, asked = fails_for("a", "b")
        rated = rb.Policy(RateLimit(1, per=60, key=host))(fails_for()[0])
        rated("a")
        rated("b")
        with pytest.raises(rb.errors.ThrottledError):
            rated("a")
        budget = RetryBudget(ratio=0, floor=1, key=host)
        retry = rb.Retry(attempts=3, backoff=AT_ONCE, budget=budget)
        fetch = rb.Policy(retry)(function, idempotent=True)
        for name in ("a", "b"):
            with pytest.raises(ConnectionRefusedError) as caught:
                fetch(name)
            assert "budget" in str(caught.value.__notes__)
        assert asked == ["a", "a", "b", "b"]


def test_an_adaptive_limit_beside_a_key_function_is_the_owners():
    """It has keys of its own: a value of another layer's key does not divide it."""
    policy = rb.Policy(rb.AdaptiveLimit(), Breaker(key=host))
    fetch = policy(fails_for()[0], idempotent=True)
    operations = [fetch.__binding__.operation.by_key.of((name,), {}).operation for name in "ab"]
    assert operations[0].circuit is not operations[1].circuit
    assert operations[0].limits is operations[1].limits is fetch.__binding__.operation.limits


async def test_the_key_of_an_adaptive_limit_is_asked_as_every_other():
    """Once a call, with the user's arguments, before anything is called; no secret is in its name."""
    token = "sk-ant-api03-AAAABBBBCCCCDDDDEEEEFFFF1234567890"
    asked, refused = [], iter([True])

    def tenant(name):
        asked.append(name)
        if name == "wrong":
            raise KeyError(name)
        return name

    async def ask(name):
        return httpx.Response(429 if next(refused, False) else 200)

    policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit(key=tenant))
    with rb.testing.virtual_time():
        permitted = policy(idempotent=True)
        assert (await permitted.call(ask, token)).status_code == 200
        assert asked == [token]
        names = list(rb.calls.adaptive_limits())
        assert len(names) == 1
        assert token not in names[0]
        with pytest.raises(KeyError) as caught:
            await permitted.call(ask, "wrong")
    assert caught.value.__notes__ == [
        "raised by the key of AdaptiveLimit, which gets the call's arguments: nothing was called"
    ]
    assert rb.classify(caught.value).executed is rb.errors.Executed.NO


async def test_a_bulkhead_that_is_full_for_one_lets_the_others_in():
    ended = asyncio.Event()

    @rb.Policy(Bulkhead(1, key=host))
    async def work(name, wait):
        if wait:
            await ended.wait()
        return name

    first = asyncio.ensure_future(work("a", wait=True))
    await asyncio.sleep(0)
    with pytest.raises(rb.errors.BulkheadFullError):
        await work("a", wait=False)
    assert await work("b", wait=False) == "b"
    ended.set()
    assert await first == "a"
    assert await work("a", wait=False) == "a"


def test_two_key_functions_select_separately():
    """A circuit by host and a limit by tenant: each value has its own, whatever the other is."""
    function, _ = fails_for("a")
    limit = RateLimit(3, per=60, key=lambda name, tenant: tenant)

    def called(name, tenant):
        return function(name)

    fetch = rb.Policy(limit, DOWN)(called)
    with rb.testing.virtual_time():
        for tenant in ("x", "y"):
            with pytest.raises(ConnectionRefusedError):
                fetch("a", tenant)
        with pytest.raises(rb.errors.CircuitOpenError):
            fetch("a", "z")
        fetch("b", "x")
        fetch("b", "x")
        with pytest.raises(rb.errors.ThrottledError):
            fetch("b", "x")
        fetch("b", "y")


# ---- shown ---------------------------------------------------------------------------------------


def test_the_circuits_of_values_are_listed_and_explained():
    function, _ = fails_for("a")
    fetch = rb.Policy(DOWN)(function, name="keys.fetch")
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            fetch("a")
    fetch("b")
    shown = {key: each.state for key, each in rb.calls.circuits().items() if "keys.fetch" in key}
    assert shown == {"keys.fetch[a]": "open", "keys.fetch[b]": "closed"}
    assert "one for each value of its key, 512 unused ones are kept" in str(fetch.explain())
    rb.calls.circuits()["keys.fetch[a]"].reset()
    with pytest.raises(ConnectionRefusedError):
        fetch("a")
    with pytest.raises(rb.ConfigError, match=r"circuits\(\)"):
        rb.calls.circuit(fetch)
    with pytest.raises(rb.ConfigError, match=r"circuits\(\)"):
        rb.calls.circuit(rb.Policy(DOWN))


def test_events_carry_the_value_and_no_secret():
    function, _ = fails_for("a", "sk-ant-api03-" + "x" * 40)
    fetch = rb.Policy(Breaker.consecutive(1, key=host))(function, name="keys.events")
    heard = []
    with rb.listen(heard.append):
        for name in ("a", "sk-ant-api03-" + "x" * 40):
            with pytest.raises(ConnectionRefusedError):
                fetch(name)
    first, second = [event.key for event in heard if isinstance(event, events.CircuitChanged)]
    assert first == "keys.events[a]"
    assert "xxxx" not in second
    assert "#" in second


# ---- what is wrong in a key function ---------------------------------------------------------------


def test_what_a_key_function_raises_is_reported_as_the_users():
    function, asked = fails_for()

    def wrong(_):
        raise LookupError("no such tenant")

    fetch = rb.Policy(rb.Retry(attempts=3, backoff=AT_ONCE), Breaker(key=wrong))(
        function, idempotent=True
    )
    with pytest.raises(LookupError) as caught:
        fetch("a")
    assert "raised by the key of Breaker" in caught.value.__notes__[0]
    assert "nothing was called" in caught.value.__notes__[0]
    assert rb.classify(caught.value).executed is rb.errors.Executed.NO
    assert asked == []


@pytest.mark.parametrize("value", [["a"], {}, set()], ids=repr)
def test_a_value_that_cannot_be_hashed_is_refused(value):
    function, asked = fails_for()
    fetch = rb.Policy(Breaker(key=lambda _: value))(function)
    with pytest.raises(rb.ConfigError, match="can be hashed"):
        fetch("a")
    assert asked == []


def test_a_key_function_that_is_async_is_refused():
    async def slow(_):
        return "a"

    for kind in (Breaker, rb.AdaptiveLimit):
        with pytest.raises(rb.ConfigError, match="not async"):
            kind(key=slow)
    fetch = rb.Policy(Breaker(key=lambda name: slow(name or "a")))(fails_for()[0])
    with pytest.raises(rb.ConfigError, match="not async"):
        fetch("a")


def test_a_block_has_no_arguments():
    with pytest.raises(rb.ConfigError, match="a block has no arguments"):
        list(rb.Policy(DOWN).attempts())


@pytest.mark.parametrize("layer", ["breaker", "bulkhead", "rate_limit", "adaptive_limit"])
def test_a_key_in_settings_is_a_name_or_a_function_of_names(layer):
    """A text that `names=` has as a function is that function, and is written back as it was."""
    first = {"bulkhead": {"calls": 4}, "rate_limit": {"calls": 4}}.get(layer, {})
    names = {"by_host": host, "Busy": OSError}
    for text, key in (("github", "github"), ("Busy", "Busy"), ("by_host", host)):
        table = {layer: {**first, "key": text}}
        policy = rb.load({"policies": {"x": table}}, names=names).policies["x"]
        assert policy.layers[0].key == key
        assert rb.settings.dump(policy, names=names)[layer]["key"] == text
    with pytest.raises(rb.ConfigError, match="a name that is not empty, a function of the call's"):
        rb.load({"policies": {"x": {layer: {**first, "key": 5}}}})


@pytest.mark.parametrize("layer", ["breaker", "adaptive_limit"])
def test_a_key_that_looks_like_a_number_comes_from_the_environment_as_a_text(layer):
    env = {f"RESILIENT_BRIDGE_POLICIES__X__{layer.upper()}__KEY": "00042"}
    assert rb.load(env=env).policies["x"].layers[0].key == "00042"


def test_disabled_policies_ask_no_key():
    fetch = rb.Policy(Breaker(key=lambda _: []))(fails_for()[0])
    with rb.testing.disabled():
        assert fetch("a") == "/"


# ---- bounded ---------------------------------------------------------------------------------------


@pytest.mark.requirement("X18")
def test_a_state_in_use_is_never_lost():
    """A permit that is held, an open circuit that is shown: found again after many other values."""
    entered, names = [], iter(range(10_000))

    @rb.Policy(Bulkhead(1, key=host))
    def work(name):
        if name == "held":
            for _ in range(registry.MOST_VALUES * 2):
                work(next(names))
            with pytest.raises(rb.errors.BulkheadFullError):
                work("held")
            entered.append(name)

    work("held")
    assert entered == ["held"]
    work("free")


def test_an_open_circuit_outlives_those_that_hold_nothing():
    function, _ = fails_for("down")
    fetch = rb.Policy(DOWN)(function)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            fetch("down")
    for number in range(registry.MOST_VALUES * 3):
        fetch(number)
    with pytest.raises(rb.errors.CircuitOpenError):
        fetch("down")


@pytest.mark.requirement("X18")
def test_values_without_number_need_bounded_memory():
    fetch = rb.Policy(Breaker(key=host), Bulkhead(2, key=host))(fails_for()[0], name="keys.many")
    for number in range(registry.MOST_VALUES * 4):
        fetch(number)
    gc.collect()
    alive = [key for key in rb.calls.circuits() if key.startswith("keys.many[")]
    assert len(alive) <= registry.MOST_VALUES * 2


def test_another_policy_keeps_the_states_of_the_values():
    function, _ = fails_for("a")
    fetch = rb.Policy(DOWN)(function)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            fetch("a")
    fetch.policy = rb.Policy(rb.Deadline(5), DOWN)
    with pytest.raises(rb.errors.CircuitOpenError):
        fetch("a")
    fetch.policy = rb.Policy(rb.Deadline(5))
    with pytest.raises(ConnectionRefusedError):
        fetch("a")
    fetch.policy = rb.Policy(DOWN)
    with pytest.raises(rb.errors.CircuitOpenError):
        fetch("a")


def test_a_limit_in_use_outlives_those_that_are_not():
    """A tenant that has used up its turns gets no new ones because others came in between."""
    fetch = rb.Policy(RateLimit(2, per=60, key=host))(fails_for()[0])
    with rb.testing.virtual_time() as time:
        fetch("heavy")
        fetch("heavy")
        for number in range(registry.MOST_VALUES - 10):
            fetch(number)
        time.advance(31)  # one of two turns has come back
        for number in range(200):
            fetch(f"later {number}")
        fetch("heavy")
        with pytest.raises(rb.errors.ThrottledError):
            fetch("heavy")
