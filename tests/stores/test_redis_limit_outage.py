"""Limits in a Redis that is stopped, restarted, emptied, slow, or holds something else: calls go on, in bounded time."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import RedisState
from tests.calls.forms import both
from tests.calls.test_adaptive_limit import REFUSED
from tests.peers.running import until
from tests.redis_server import redis_server_fixture


pytestmark = [pytest.mark.real, pytest.mark.crash]
server = redis_server_fixture()
TIMEOUT = 0.25
SLACK = 0.75  # seconds that a busy machine may take on top


@pytest.fixture
def states(server):
    """Two states, as two processes have."""
    with (
        RedisState(server.url, timeout=TIMEOUT, retry_after=0.3) as one,
        RedisState(server.url, timeout=TIMEOUT, retry_after=0.3) as other,
    ):
        yield one, other
    assert [thread.name for thread in threading.enumerate() if "redis" in thread.name] == []


@pytest.fixture
def seen():
    with rb.testing.record() as events:
        yield events


def of_store(seen):
    return [event.state for event in seen if isinstance(event, rb.events.StoreChanged)]


def limited(state, key="quota", **how):
    return rb.Policy(rb.Retry(budget=None), rb.AdaptiveLimit(key=key, **how), state=state)


def one_at_once(states, quota):
    """A function of each process, under one limit that is one call at once."""
    return [limited(state, start=1, most=1)(quota.answer, idempotent=True) for state in states]


class Quota:
    """Takes so many calls at once, and refuses others; a call lasts until it may end. For any loop."""

    def __init__(self, most, seconds=0.02):
        self.most, self.seconds = most, seconds
        self.running = self.peak = self.refused = self.taken = 0
        self.go = threading.Event()
        self.go.set()

    async def answer(self):
        if self.running >= self.most:
            self.refused += 1
            return REFUSED
        self.running += 1
        self.peak = max(self.peak, self.running)
        self.taken += 1
        try:
            while not self.go.is_set():
                await asyncio.sleep(0.002)
            await asyncio.sleep(self.seconds)
        finally:
            self.running -= 1
        return "answer"


async def many(ask, number):
    return await asyncio.gather(*(ask() for _ in range(number)))


def rows(server):
    """What the processes have in Redis, of all limits."""
    with server.client() as client:
        return [
            value
            for key in client.scan_iter("*:limit:*")
            for name, value in client.hgetall(key).items()
            if name not in ("version", "numbers")
        ]


# ---- as it should be -------------------------------------------------------------------------------


@both
def test_both_forms_share_the_places(form, server, states):
    """One place for two processes: no two calls ever run at once."""
    running, peak = [], []

    def call():
        running.append(1)
        peak.append(len(running))
        time.sleep(0.005)
        running.pop()
        return "ok"

    asks = [limited(state, start=1, most=1)(form.of(call), idempotent=True) for state in states]
    threads = [
        threading.Thread(target=lambda ask=ask: [form.run(ask) for _ in range(10)])
        for ask in asks * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(peak) == 40
    assert set(peak) == {1}


async def test_who_was_never_refused_learns_of_the_limit_with_its_first_call(server, states):
    """Through Redis alone: the second process asks at its first call, and the server refuses it nothing."""
    quota = Quota(2, seconds=0.05)
    first, second = (limited(state)(quota.answer, idempotent=True) for state in states)
    await many(first, 6)
    assert quota.refused
    quota.refused, quota.most = 0, 9
    (limit,) = first.__binding__.operation.limits.by_key.values()
    limit.at_once = 1.0
    asked = asyncio.create_task(many(first, 2))
    await until(lambda: quota.running == 1, "one runs")
    await asyncio.gather(asked, many(second, 4))
    assert quota.refused == 0
    assert second.__binding__.operation.limits.by_key


async def test_two_keys_and_two_prefixes_do_not_mix(server, states):
    quota = Quota(9)
    quota.go.clear()
    with RedisState(server.url, prefix="other", timeout=TIMEOUT) as elsewhere:
        asks = [
            limited(state, key=key, start=1, most=1)(quota.answer, idempotent=True)
            for state, key in ((states[0], "a"), (states[1], "b"), (elsewhere, "a"))
        ]
        tasks = [asyncio.create_task(ask()) for ask in asks]
        await until(lambda: quota.running == 3, "each has a place of its own")
        quota.go.set()
        assert await asyncio.gather(*tasks) == ["answer"] * 3


async def test_what_is_in_redis_is_numbers_and_digests_and_expires(server, states):
    """No key, no url, no credential; and nothing is there for ever."""
    quota = Quota(1)
    policy = rb.Policy(
        rb.Retry(budget=None), rb.AdaptiveLimit(key=lambda secret: secret), state=states[0]
    )

    async def call(secret):
        return await quota.answer()

    ask = policy(call, idempotent=True, name="sk-name")
    await asyncio.gather(*(ask("sk-live-secret") for _ in range(4)))
    with server.client() as client:
        keys = client.keys()
        assert len(keys) == 2
        text = repr([(key, client.type(key)) for key in keys])
        for key in keys:
            assert 0 < client.pttl(key) <= 601_000
            text += repr(
                client.hgetall(key) if client.type(key) == "hash" else client.zrange(key, 0, -1)
            )
    assert "sk-" not in text


async def test_a_waiting_call_that_is_cancelled_leaves_nothing(server, states):
    quota = Quota(9)
    quota.go.clear()
    ask = limited(states[0], start=1, most=1)(quota.answer, idempotent=True)
    running = asyncio.create_task(ask())
    await until(lambda: quota.running == 1, "it runs")
    waiting = [asyncio.create_task(ask()) for _ in range(3)]
    await until(lambda: any(not row.endswith("inf") for row in rows(server)), "they wait")
    for task in (*waiting, running):
        task.cancel()
    await asyncio.gather(running, *waiting, return_exceptions=True)
    await until(lambda: rows(server) == [], "nothing of them is left")


async def test_closing_gives_back_what_this_process_has(server, states):
    quota = Quota(9)
    quota.go.clear()
    first, second = one_at_once(states, quota)
    running = asyncio.create_task(first())
    await until(lambda: quota.running == 1, "it runs")
    waiting = asyncio.create_task(second())
    await until(lambda: len(rows(server)) == 2, "the other waits")
    states[0].close()
    await until(lambda: quota.running == 2, "the other has the place")
    quota.go.set()
    assert await asyncio.gather(running, waiting) == ["answer"] * 2


async def test_who_waits_in_a_blocked_loop_is_not_waited_for(server, states):
    """It came first, but its loop does nothing: the place goes to a call of another process."""
    quota, is_free = Quota(9), threading.Event()
    first, second = one_at_once(states, quota)

    async def blocked():
        waiting = asyncio.create_task(first())
        await asyncio.sleep(0.3)
        is_free.wait(30)
        return await waiting

    quota.go.clear()
    holding = asyncio.create_task(second())
    await until(lambda: quota.running == 1, "one runs")
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(asyncio.run, blocked())
        await until(lambda: any(not row.endswith("inf") for row in rows(server)), "it waits")
        await asyncio.sleep(2)
        quota.go.set()
        try:
            assert await holding == "answer"
            await asyncio.sleep(0.5)  # time enough for the other process to take the place
            assert await asyncio.wait_for(second(), 5) == "answer"
        finally:
            is_free.set()
        assert await asyncio.wrap_future(other) == "answer"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_places_of_its_own(server, states):
    """What the parent's call holds is the parent's; the child's own call waits for it, and gets its place."""
    ask = limited(states[0], start=1, most=1)(lambda: "answer", idempotent=True)
    assert ask() == "answer"
    pid = os.fork()
    if not pid:
        is_right = ask() == "answer" and states[0]._exchange.is_up
        states[0].close()
        os._exit(0 if is_right else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert ask() == "answer"


# ---- as it should not be ---------------------------------------------------------------------------


async def test_stopped_and_started_again_no_call_is_lost_and_it_is_reported_once(
    server, states, seen
):
    quota = Quota(4)
    asks = [limited(state)(quota.answer, idempotent=True) for state in states]

    async def agent(ask, calls):
        return [await ask() for _ in range(calls)]

    agents = [asyncio.create_task(agent(ask, 40)) for ask in asks * 6]
    await until(lambda: quota.taken > 60, "they work")
    server.kill()
    await until(lambda: of_store(seen) == ["failed"] * 2, "both know")
    before = quota.taken
    await until(lambda: quota.taken > before + 60, "they go on alone")
    server.start()
    await until(lambda: sorted(of_store(seen)) == ["failed"] * 2 + ["working"] * 2, "and together")
    results = await asyncio.gather(*agents)
    assert {each for some in results for each in some} == {"answer"}
    assert quota.taken == 12 * 40
    assert len(of_store(seen)) == 4


async def test_emptied_it_has_the_limit_again(server, states):
    quota = Quota(9)
    quota.go.clear()
    first, second = one_at_once(states, quota)
    running = asyncio.create_task(first())
    await until(lambda: quota.running == 1, "it runs")
    with server.client() as client:
        client.flushall()
    await until(lambda: len(rows(server)) == 1, "it has again what runs")
    waiting = asyncio.create_task(second())
    await until(lambda: len(rows(server)) == 2, "the other waits")
    await asyncio.sleep(0.3)
    assert quota.running == 1
    quota.go.set()
    assert await asyncio.gather(running, waiting) == ["answer"] * 2
    assert quota.peak == 1


@pytest.mark.parametrize("how", ["stopped", "paused"])
async def test_a_redis_that_hangs_holds_up_a_call_for_its_timeout_and_no_loop(
    how, server, states, seen
):
    """SIGSTOP, and CLIENT PAUSE: the waiting call goes on after the timeout; other tasks go on meanwhile."""
    quota = Quota(9, seconds=0)
    ask = limited(states[0], start=2)(quota.answer, idempotent=True)
    await ask()
    if how == "stopped":
        server.pause()
    else:
        with server.client() as client:
            client.client_pause(5_000)
    longest, is_over = [0.0], False

    async def beat():
        while not is_over:
            began = time.monotonic()
            await asyncio.sleep(0.001)
            longest[0] = max(longest[0], time.monotonic() - began)

    beating = asyncio.create_task(beat())
    try:
        began = time.monotonic()
        assert await ask() == "answer"
        assert time.monotonic() - began < TIMEOUT + SLACK
        began = time.monotonic()
        for _ in range(20):
            assert await ask() == "answer"
        assert time.monotonic() - began < SLACK
    finally:
        is_over = True
        if how == "stopped":
            server.resume()
    await beating
    assert longest[0] < TIMEOUT  # nothing of it waited for Redis
    assert of_store(seen)[0] == "failed"
    await until(lambda: of_store(seen)[-1] == "working", "it answers again", seconds=20)


async def test_a_key_that_holds_something_else_stops_no_call(server, states, seen):
    quota = Quota(9, seconds=0)
    ask = limited(states[0], start=2)(quota.answer, idempotent=True)
    await ask()
    with server.client() as client:
        (key,) = client.scan_iter("*:limit:*")
        client.delete(key)
        client.set(key, "notes of somebody else")
        assert await many(ask, 10) == ["answer"] * 10
        await until(lambda: of_store(seen) == ["failed"], "reported once")
        assert await many(ask, 10) == ["answer"] * 10
        assert client.get(key) == "notes of somebody else"
        client.delete(key)
    await until(lambda: of_store(seen) == ["failed", "working"], "and when it works again")
    (event,) = [each for each in seen if isinstance(each, rb.events.StoreChanged)][:1]
    assert (event.degraded, event.failure.code) == (True, "SYS_STORE_UNAVAILABLE")


async def test_numbers_that_are_damaged_are_written_anew(server, states):
    quota = Quota(9, seconds=0)
    ask = limited(states[0], start=2)(quota.answer, idempotent=True)
    await ask()
    with server.client() as client:
        (key,) = client.scan_iter("*:limit:*")
        for number, damage in enumerate(("", "1.0 2.0", "no numbers", "nan " * 30)):
            client.hset(
                key, mapping={"numbers": damage, "version": f"{number + 1}", "x": "rubbish"}
            )
            assert await many(ask, 4) == ["answer"] * 4
            await until(lambda: len(client.hget(key, "numbers").split()) > 20, "whole again")


# ---- what is refused, and what is not shared -------------------------------------------------------


def test_a_limit_without_a_name_that_all_agree_on_is_refused(server, states):
    policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit(), state=states[0])
    with pytest.raises(rb.ConfigError, match="a name that all processes agree on"):
        policy(idempotent=True).call(lambda: "ok")
    limit = rb.AdaptiveLimit(key=lambda: object(), start=2)  # noqa: PLW0108 -- a new one each time
    policy = rb.Policy(rb.Retry(budget=None), limit, state=states[0])
    ask = policy(Quota(1).answer, idempotent=True)
    with pytest.raises(rb.ConfigError, match="all processes have to agree"):
        asyncio.run(ask())


def test_without_the_package_it_says_what_to_install(monkeypatch):
    """Where the policy is put around a function, as with a circuit, and in words."""
    monkeypatch.setitem(sys.modules, "redis", None)
    policy = limited(RedisState("redis://127.0.0.1:1"))
    with pytest.raises(rb.ConfigError, match="redis"):
        policy(lambda: "ok", idempotent=True)


def test_in_virtual_time_each_process_is_alone(server):
    """Nothing connects."""
    quota = Quota(2)
    with RedisState(server.url) as state:
        ask = limited(state)(quota.answer, idempotent=True)
        assert rb.testing.simulate(lambda _: many(ask, 8)) == ["answer"] * 8
        assert state._exchange._thread is None
        assert pickle.loads(pickle.dumps(state)) == state
    assert server.connections() == 0


def test_explain_says_what_is_shared(server, states):
    policy = rb.Policy(
        rb.Retry(budget=rb.RetryBudget(key="q")),
        rb.AdaptiveLimit(key="q"),
        rb.Breaker(key="q"),
        rb.Bulkhead(4),
        state=states[0],
    )
    line = next(each for each in policy.explain().lines if each.startswith("shared"))
    assert line == (
        f"shared through {states[0]!r}: the adaptive limit, the circuit and the retry budget; "
        "of this process alone: Bulkhead"
    )
