"""Redis killed, restarted, stopped, full, or holding something else: calls go on, in bounded time, and it is told once."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from itertools import pairwise

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import RedisState
from tests.calls.forms import both
from tests.redis_server import redis_server, redis_server_fixture


pytestmark = [pytest.mark.real, pytest.mark.crash]
server = redis_server_fixture()
TIMEOUT = 0.2
SLACK = 0.6  # seconds that a busy machine may take on top


@pytest.fixture
def state(server):
    """A state that tries again soon."""
    with RedisState(server.url, timeout=TIMEOUT, retry_after=0.3) as one:
        yield one
    assert [thread.name for thread in threading.enumerate() if "redis" in thread.name] == []


@pytest.fixture
def seen():
    """The events."""
    with rb.testing.record() as events:
        yield events


def of_store(seen) -> list[str]:
    return [event.state for event in seen if isinstance(event, rb.events.StoreChanged)]


def until(fact, patience: float = 8.0) -> None:
    ends = time.monotonic() + patience
    while not fact():
        assert time.monotonic() < ends, "never came true"
        time.sleep(0.005)


def guarded(state: RedisState, key: str, failures: int = 3, **how) -> rb.Policy:
    return rb.Policy(rb.Breaker.consecutive(failures, key=key, **how), state=state)


def refused() -> None:
    raise ConnectionRefusedError


def reset_by_peer() -> None:
    raise ConnectionResetError


def code(outcome: rb.calls.Outcome) -> str:
    return "ok" if outcome.failure is None else outcome.failure.code


def timed(call, *arguments) -> float:
    began = time.monotonic()
    call(*arguments)
    return time.monotonic() - began


# ---- away ----------------------------------------------------------------------------------------------------------


@both
def test_killed_in_mid_use_the_process_goes_on_alone(form, server, state, seen, key):
    """Calls succeed, a circuit opens by what this process sees, and the loss is told once."""
    guard = guarded(state, key)
    ok, fails = guard(form.of(lambda: "ok")), guard(form.of(reset_by_peer))
    assert form.run(ok) == "ok"
    assert form.run(rb.capture, fails).failure.code == "CONN_RESET"
    until(lambda: "1/3 failed" in repr(rb.calls.circuit(key)))
    server.kill()
    until(lambda: of_store(seen) == ["failed"])
    ends = [code(form.run(rb.capture, fails)) for _ in range(3)]
    assert ends == [
        "CONN_RESET",
        "CONN_RESET",
        "SYS_CIRCUIT_OPEN",
    ]  # it has not forgotten the first one
    time.sleep(0.7)  # some trials
    assert of_store(seen) == ["failed"]
    (failed,) = [event for event in seen if isinstance(event, rb.events.StoreChanged)]
    assert failed.degraded
    assert (failed.store, failed.failure.code) == (server.url, "SYS_STORE_UNAVAILABLE")


def test_back_again_empty_it_is_a_fresh_window(server, state, seen, key):
    """Told once that it works; the shared circuit is closed, as an empty Redis says, and counts from nothing."""
    guard = guarded(state, key, open_for=60)
    guard.call(lambda: "ok")
    server.kill()
    until(lambda: of_store(seen) == ["failed"])
    fails = guard(reset_by_peer)
    ends = [code(rb.capture(fails)) for _ in range(4)]
    assert ends[3] == "SYS_CIRCUIT_OPEN"
    server.start()
    until(lambda: of_store(seen) == ["failed", "working"])
    until(lambda: rb.calls.circuit(key).state == "closed" and state._exchange.is_up)
    assert [code(rb.capture(fails)) for _ in range(4)] == [*["CONN_RESET"] * 3, "SYS_CIRCUIT_OPEN"]
    assert of_store(seen) == ["failed", "working"]


def test_restarted_between_two_looks_is_no_outage(server, state, seen, key):
    """An idle circuit does not even notice that it talks to another server."""
    guard = guarded(state, key)
    guard.call(lambda: "ok")
    time.sleep(3.5)  # until nobody looks any more
    server.restart()
    assert guard.call(lambda: "ok") == "ok"
    assert of_store(seen) == []


@both
def test_a_server_that_hangs_costs_one_timeout(form, server, state, seen, key):
    """SIGSTOP while a question is due: the first call waits for the timeout, no further one waits at all."""
    guard = guarded(state, key)
    ok = guard(form.of(lambda: "ok"))
    server.pause()
    try:
        assert timed(form.run, ok) < TIMEOUT + SLACK
        until(lambda: of_store(seen) == ["failed"])  # by the call, or by the thread a moment later
        began = time.monotonic()
        for _ in range(50):
            assert form.run(ok) == "ok"
        assert time.monotonic() - began < SLACK
    finally:
        server.resume()
    until(lambda: of_store(seen) == ["failed", "working"])
    assert form.run(ok) == "ok"


def test_all_who_wait_are_let_go_together(server, state, seen, key):
    """Twenty threads and twenty tasks at the first call: they wait for the same timeout, and it is told once."""
    guard = guarded(state, key)
    ok = guard(lambda: "ok")
    waits: list[float] = []

    @guard
    async def task() -> str:
        return "ok"

    async def timed_task() -> str:
        began = time.monotonic()
        result = await task()
        waits.append(time.monotonic() - began)
        return result

    async def tasks() -> list[str]:
        return await asyncio.gather(*(timed_task() for _ in range(20)))

    server.pause()
    try:
        threads = [threading.Thread(target=lambda: waits.append(timed(ok))) for _ in range(20)]
        for thread in threads:
            thread.start()
        assert asyncio.run(tasks()) == ["ok"] * 20
        for thread in threads:
            thread.join()
        assert len(waits) == 40
        assert max(waits) < TIMEOUT + SLACK
        until(lambda: of_store(seen) == ["failed"])
    finally:
        server.resume()


def test_a_waiting_task_that_is_cancelled_leaves_at_once(server, key):
    """The wait for Redis ends with the task; the answer that comes later goes back."""

    async def main(state: RedisState) -> None:
        ask = rb.Policy(rb.Breaker(key=key), state=state)(asyncio.sleep)
        server.pause()
        try:
            asking = asyncio.create_task(ask(0))
            await asyncio.sleep(0.05)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        finally:
            server.resume()
        await ask(0)

    with RedisState(server.url, timeout=5) as state:
        assert timed(lambda: asyncio.run(main(state))) < 2


@both
def test_a_deadline_that_is_shorter_than_the_timeout_counts(form, server, key):
    """A call never waits longer than it may last, and says nothing about Redis by that."""
    with RedisState(server.url, timeout=30) as state, rb.testing.record() as seen:
        ask = rb.Policy(rb.Deadline(0.2), rb.Breaker(key=key), state=state)(form.of(lambda: "ok"))
        server.pause()
        try:
            assert timed(form.run, rb.capture, ask) < 0.2 + SLACK
        finally:
            server.resume()
        assert of_store(seen) == []


def test_a_budget_goes_on_alone(server, state, seen, key):
    """What all have used is remembered: with a floor of two and one used, this process may repeat once more alone."""
    budget = rb.RetryBudget(ratio=0, floor=2, key=key)
    retry = rb.Retry(attempts=2, backoff=rb.Backoff.constant(0), budget=budget)
    fails = rb.Policy(retry, state=state)(refused, idempotent=True)

    assert rb.capture(fails).attempts == 2
    server.kill()
    assert rb.capture(fails).attempts == 2
    assert rb.capture(fails).failure.stopped == "budget"
    until(lambda: of_store(seen) == ["failed"])


def test_what_a_hand_set_while_away_holds_when_it_is_back(server, state, seen, key):
    """isolate() works here at once, and for all as soon as Redis is there; what was counted in the meantime is dropped."""
    guard = guarded(state, key)
    guard.call(lambda: "ok")
    server.kill()
    until(lambda: of_store(seen) == ["failed"])
    rb.calls.circuit(key).isolate()
    assert code(rb.capture(guard(lambda: "ok"))) == "SYS_CIRCUIT_OPEN"
    server.start()
    until(lambda: "working" in of_store(seen))
    with RedisState(server.url, timeout=2) as second:
        assert code(rb.capture(guarded(second, key)(lambda: "ok"))) == "SYS_CIRCUIT_OPEN"


def test_what_a_hand_set_on_a_server_that_hangs_is_not_lost_with_it(server, state, seen, key):
    """isolate() was on its way when the server stopped, and the server dies of it: its successor is told."""
    guard = guarded(state, key)
    guard.call(lambda: "ok")
    server.pause()
    assert timed(rb.calls.circuit(key).isolate) < TIMEOUT + SLACK
    assert rb.calls.circuit(key).state == "isolated"
    server.restart()
    until(lambda: "working" in of_store(seen))
    with server.client() as client:
        assert client.hget(f"{{resilient_bridge:circuit:{key}}}:1", "state") == "isolated"


def test_the_permit_of_a_probe_that_came_too_late_is_not_lost(server, seen, key):
    """The asker has gone on alone when the place arrives: it goes back, and need not be waited for as long as its lease."""
    with RedisState(server.url, timeout=0.3, retry_after=0.1) as state:
        guard = guarded(state, key, failures=1, open_for=0.1)
        fails, ok = guard(reset_by_peer), guard(lambda: "ok")
        rb.capture(fails)
        until(lambda: rb.calls.circuit(key).state == "open")
        time.sleep(0.15)
        sent = state._exchange._sent

        def slow(commands, **how):
            replies = sent(commands, **how)
            if any(reply[14] for reply in replies):  # a place is on its way
                state._exchange._sent = sent
                until(lambda: of_store(seen) == ["failed"])
            return replies

        state._exchange._sent = slow
        assert code(rb.capture(fails)) == "CONN_RESET"  # a probe of this process alone
        until(lambda: of_store(seen) == ["failed", "working"])
        until(lambda: code(rb.capture(ok)) == "ok", patience=3)


def test_it_is_tried_again_ever_less_often(server, key):
    """After 0.1 s, 0.2 s, 0.4 s …: an outage of hours is not a connect ten times a second."""
    with RedisState(server.url, timeout=0.5, retry_after=0.1) as state:
        guard = guarded(state, key)
        guard.call(lambda: "ok")
        connects: list[float] = []
        connect = state._exchange.connect
        state._exchange.connect = lambda: connects.append(time.monotonic()) or connect()
        server.kill()
        until(lambda: len(connects) == 4)
        waits = [later - earlier for earlier, later in pairwise(connects)]
        assert [wait >= least for wait, least in zip(waits, (0.1, 0.2, 0.4), strict=True)] == [
            True
        ] * 3


# ---- in trouble ----------------------------------------------------------------------------------------------------


def test_a_key_of_another_type_is_an_outage(server, state, seen, key):
    """Somebody else's key under our name: the calls go on, and the event says what Redis said."""
    with server.client() as client:
        client.set(f"{{resilient_bridge:circuit:{key}}}:1", "a text")
    assert guarded(state, key).call(lambda: "ok") == "ok"
    until(lambda: of_store(seen))
    (failed,) = [event for event in seen if isinstance(event, rb.events.StoreChanged)]
    assert "WRONGTYPE" in failed.failure.message


def test_scripts_that_are_gone_are_loaded_again(server, state, seen, key):
    """SCRIPT FLUSH is no failure."""
    guard = guarded(state, key, failures=2)
    fails = guard(reset_by_peer)
    rb.capture(fails)
    with server.client() as client:
        client.script_flush()
    rb.capture(fails)
    assert code(rb.capture(fails)) == "SYS_CIRCUIT_OPEN"
    assert of_store(seen) == []


def test_a_full_server_is_away_until_it_has_room(seen, key):
    """Reads would work, so that a look says nothing: it is tried with a write, and not taken up and given up in turns."""
    with (
        redis_server("--maxmemory-policy", "noeviction") as server,
        server.client() as client,
        RedisState(server.url, timeout=1, retry_after=0.1) as state,
    ):
        client.config_set("maxmemory", 1)
        fails = guarded(state, key)(reset_by_peer)
        for _ in range(3):
            rb.capture(fails)
        until(lambda: of_store(seen) == ["failed"])
        time.sleep(0.5)
        assert of_store(seen) == ["failed"]
        client.config_set("maxmemory", 0)
        until(lambda: of_store(seen) == ["failed", "working"])


def test_a_wrong_password_is_an_outage_and_never_shown(seen, key, caplog):
    """Neither the right one nor the wrong one: not in the event, the failure, the log, nor the repr."""
    with redis_server("--requirepass", "right-5ecret") as server:
        url = server.url.replace("redis://", "redis://:wrong-5ecret@")
        with RedisState(url, timeout=1) as state, caplog.at_level(logging.DEBUG):
            policy = guarded(state, key)
            assert policy.call(lambda: "ok") == "ok"
            until(lambda: of_store(seen))
            shown = [
                repr(seen),
                str(seen[0].failure),
                repr(state),
                repr(policy),
                str(policy.explain()),
            ]
    assert of_store(seen) == ["failed"]
    assert "5ecret" not in " ".join([*shown, caplog.text])


def test_a_password_is_used(seen, key):
    """The right one opens the server."""
    with (
        redis_server("--requirepass", "right-5ecret") as server,
        RedisState(server.url.replace("redis://", "redis://:right-5ecret@"), timeout=2) as state,
    ):
        assert guarded(state, key).call(lambda: "ok") == "ok"
    assert of_store(seen) == []


# ---- the end -------------------------------------------------------------------------------------------------------


def test_closed_it_goes_on_alone_without_a_word(server, key, seen):
    """close() tells what is waiting and is no outage; calls after it find this process's own circuit."""
    with RedisState(server.url, timeout=2) as state:
        guard = guarded(state, key, failures=2)
        guard.call(lambda: "ok")
        fails = guard(reset_by_peer)
        rb.capture(fails)
        state.close()
        with server.client() as client:
            assert client.hget(f"{{resilient_bridge:circuit:{key}}}:1", "window") == "1"
        rb.capture(fails)
        assert code(rb.capture(fails)) == "SYS_CIRCUIT_OPEN"
    assert of_store(seen) == []


def test_a_state_that_no_one_holds_ends_by_itself(server, key):
    """Policy and state are gone: thread and connection go with them."""
    import gc

    guarded(RedisState(server.url, timeout=2), key).call(lambda: "ok")
    gc.collect()
    until(lambda: not [thread for thread in threading.enumerate() if "redis" in thread.name])
    until(lambda: server.connections() == 0)


def test_every_key_ends_by_itself(server, state, key):
    """Circuits and budgets have a time to live, and say whose they are."""
    policy = rb.Policy(
        rb.Retry(attempts=2, backoff=rb.Backoff.constant(0)), rb.Breaker(key=key), state=state
    )
    rb.capture(policy(reset_by_peer, idempotent=False))
    rb.capture(policy(refused, idempotent=True))
    state.close()
    with server.client() as client:
        keys = client.keys()
        assert len(keys) == 3  # the circuit, and a budget for each function
        assert all(client.pttl(key) > 0 for key in keys)
        assert all(key.startswith("{resilient_bridge:") for key in keys)
