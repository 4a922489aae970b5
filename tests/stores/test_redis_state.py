"""Circuits and retry budgets that several processes share, with a real Redis and real second processes."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import time

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import RedisState
from tests.calls.forms import both
from tests.internals.calls import waited_for
from tests.internals.stores import circuit as redis_state_circuit
from tests.internals.telemetry import name_in_words
from tests.redis_server import redis_server_fixture
from tests.samples import some
from tests.stores.redis_worker import Down, Worker


pytestmark = pytest.mark.real
server = redis_server_fixture(scope="module")
PATIENT = {"timeout": 2}  # a busy machine is not what these tests are about
NOTICED = 1.0  # seconds: two looks at a circuit in use are 0.15 s apart; the rest is for other work on the machine
FAILED, REJECTED = "SYS_INTERNAL_ERROR", "SYS_CIRCUIT_OPEN"


@pytest.fixture
def state(server):
    """A state that leaves neither thread nor connection behind."""
    with RedisState(server.url, **PATIENT) as one:
        yield one
    assert [thread.name for thread in threading.enumerate() if "redis" in thread.name] == []
    until(lambda: server.connections() == 0)


def policy(state: RedisState, key: str, failures: int = 5, **how) -> rb.Policy:
    retry = rb.Retry(attempts=1, on=Down, budget=None)
    return rb.Policy(retry, rb.Breaker.consecutive(failures, key=key, **how), state=state)


def until(fact, patience: float = 5.0) -> float:
    """Wait until `fact()` is true; return how long that took."""
    began = time.monotonic()
    while not fact():
        assert time.monotonic() - began < patience, "never came true"
        time.sleep(0.005)
    return time.monotonic() - began


def code(outcome: rb.calls.Outcome) -> str:
    return "ok" if outcome.failure is None else outcome.failure.code


def down() -> None:
    raise Down


# ---- a circuit -----------------------------------------------------------------------------------------------------


@both
def test_failures_of_two_processes_open_one_circuit(form, server, state, key):
    """Three there, two here: the fifth in a row opens it for both, for 60 s, and here it is known at once."""
    with (
        Worker(url=server.url, key=key, open_for=60, options=PATIENT) as other,
        rb.testing.record() as seen,
    ):
        ask = policy(state, key, open_for=60)(form.of(down), idempotent=True)
        assert other.ask("fail", 3) == {FAILED: 3}
        until(lambda: row(server, key) == "3")
        assert [code(form.run(rb.capture, ask)) for _ in range(3)] == [FAILED, FAILED, REJECTED]
        (opened,) = [event for event in seen if name_in_words(event) == "circuit opened"]
        assert (opened.key, opened.reason) == (key, "consecutive_failures_5")
        assert 59 < opened.retry_after <= 60
        assert until(lambda: other.ask("call") == {REJECTED: 1}) < NOTICED


def row(server, key: str) -> str | None:
    """How many failures in a row Redis knows of."""
    with server.client() as client:
        return client.hget(f"{{resilient_bridge:circuit:{key}}}:1", "window")


def known_state(server, key: str) -> str | None:
    """The state of a circuit, as Redis knows it."""
    with server.client() as client:
        return client.hget(f"{{resilient_bridge:circuit:{key}}}:1", "state")


def earned(server, key: str) -> int:
    """How many calls Redis knows of that earn repeats."""
    with server.client() as client:
        found = client.hgetall(f"{{resilient_bridge:budget:{key}}}:1")
    return sum(int(count) for name, count in found.items() if name.startswith("c"))


def test_a_success_between_starts_the_row_over_for_all(server, state, key):
    """Four failures there, a success here, four failures there: never five in a row."""
    with Worker(url=server.url, key=key, options=PATIENT) as other:
        ask = policy(state, key)(lambda: "ok", idempotent=True)
        ask()
        assert other.ask("fail", 4) == {FAILED: 4}
        until(
            lambda: "4/5 failed" in repr(rb.calls.circuit(ask))
        )  # it is looked at: this process sees it, too
        ask()
        until(lambda: row(server, key) == "0")
        assert other.ask("fail", 4) == {FAILED: 4}
        assert other.ask("state") == "closed"


def test_a_worker_that_starts_in_an_outage_knows_it_at_its_first_call(server, state, key):
    """Its first call asks: it does not have to find out by itself."""
    with Worker(url=server.url, key=key, options=PATIENT) as other:
        assert other.ask("fail", 5) == {FAILED: 5}
        assert other.ask("call") == {REJECTED: 1}
    assert code(rb.capture(policy(state, key)(down, idempotent=True))) == REJECTED


def test_a_closed_circuit_costs_no_round_trip(server, state, key):
    """A thousand calls that succeed: Redis is asked once, and then looked at a few times a second."""
    ask = policy(state, key)(lambda: "ok", idempotent=True)
    ask()
    with server.client() as client:
        before = client.info("commandstats")["cmdstat_evalsha"]["calls"]
        began = time.monotonic()
        for _ in range(1_000):
            ask()
        looks = 2 + (time.monotonic() - began) / 0.15
        assert client.info("commandstats")["cmdstat_evalsha"]["calls"] - before <= looks


@pytest.mark.parametrize("turn", some(range(3), 1))
def test_exactly_one_probe_in_all_processes(server, key, turn):
    """Sixteen threads and sixteen tasks in two processes at once, when the circuit may be tried again: one of them is let in."""
    settings = {"url": server.url, "key": key, "open_for": 0.3, "options": PATIENT}
    with Worker(**settings) as one, Worker(**settings) as other:
        assert one.ask("fail", 5) == {FAILED: 5}
        assert until(lambda: other.ask("call") == {REJECTED: 1}) < NOTICED
        time.sleep(0.35)
        for worker in (one, other):
            worker.send("race", 8)
        for worker in (one, other):
            assert worker.answer() == "begun"
        until(lambda: one.ask("ended") + other.ask("ended") == 31)
        time.sleep(0.2)  # nobody slips in later, either
        assert one.ask("ended") + other.ask("ended") == 31
        ends = [one.ask("free"), other.ask("free")]
        assert sum(end.get("ok", 0) for end in ends) == 1
        assert sum(end.get(REJECTED, 0) for end in ends) == 31
        assert until(lambda: other.ask("call") == {"ok": 1}) < NOTICED


def test_a_probe_that_is_lost_makes_room_for_another(server, state, key):
    """Its process dies; when the lease ends, another one may try."""
    settings = {"url": server.url, "key": key, "open_for": 0.1, "lease": 1.5, "options": PATIENT}
    ask = policy(state, key, open_for=0.1, lease=1.5)(lambda: "ok", idempotent=True)
    with Worker(**settings) as other:
        assert other.ask("fail", 5) == {FAILED: 5}
        until(lambda: known_state(server, key) == "open")  # its time begins when Redis hears of it
        time.sleep(0.15)
        other.send("race", 1)
        assert other.answer() == "begun"
        until(lambda: other.ask("ended") == 1)  # of two, one is the probe
        outcome = rb.capture(ask)
        assert code(outcome) == REJECTED
        assert 0 < outcome.failure.retry_after <= 1.5
        other.kill()
    assert until(lambda: code(rb.capture(ask)) == "ok") < 1.5 + NOTICED


def test_a_permit_that_arrives_while_another_call_gives_up_is_not_lost(server, key):
    """The questions have just been dropped when the answer is delivered: the permit in it goes back, and need not expire."""

    def learn(view) -> None:
        views.append(view)
        if view.state == "half_open" and not gave_up:
            gave_up.append(view)
            state._exchange.late()

    def probe() -> int | None:
        answer = waited_for(line.ask())
        return None if answer is None else answer.probe

    views: list = []
    gave_up: list = []
    with RedisState(server.url, timeout=5, retry_after=0.1) as state:
        line = state.circuit(key, rb.Breaker.consecutive(1, open_for=0.02, lease=60), learn)
        assert probe() == 0
        line.tell(views[-1].era, 0, "failed", "CONN_RESET")
        until(lambda: views[-1].state == "open")
        time.sleep(0.05)
        assert probe() is None
        until(lambda: line.is_up)
        until(probe, patience=3)


def test_it_stays_open_longer_each_time(server, state, key):
    """The openings in a row are counted for all: the second one, by another process, lasts as long as the second does."""
    schedule = rb.Backoff.steps(0.2, 7)
    ask = policy(state, key, open_for=schedule)(down, idempotent=True)
    for _ in range(5):
        assert code(rb.capture(ask)) == FAILED
    until(lambda: rb.calls.circuit(ask).state == "open")
    assert (rb.calls.circuit(ask).retry_after or 0) <= 0.2
    time.sleep(0.25)
    with RedisState(server.url, **PATIENT) as second:
        other = policy(second, key, open_for=schedule)(down, idempotent=True)
        assert code(rb.capture(other)) == FAILED  # the probe
        until(lambda: rb.calls.circuit(other).state == "open")
        assert code(rb.capture(other)) == REJECTED
        assert 6 < rb.calls.circuit(other).retry_after <= 7


def test_a_critical_failure_opens_it_for_all_at_once(server, state, key):
    """One failure of critical severity, in one process (R2)."""
    with Worker(url=server.url, key=key, options=PATIENT) as other:
        assert other.ask("call") == {"ok": 1}
        error = ssl.SSLCertVerificationError(1, "self-signed certificate")
        assert rb.classify(error).severity is rb.errors.Severity.CRITICAL

        @policy(state, key)(idempotent=True)
        def ask() -> None:
            raise error

        rb.capture(ask)
        assert code(rb.capture(ask)) == REJECTED
        assert until(lambda: other.ask("call") == {REJECTED: 1}) < NOTICED


def test_a_hand_in_one_process_holds_in_all(server, state, key):
    """isolate() there rejects here; reset() here lets calls pass there."""
    with Worker(url=server.url, key=key, options=PATIENT) as other:
        ask = policy(state, key)(lambda: "ok", idempotent=True)
        assert other.ask("call") == {"ok": 1}
        other.ask("isolate")
        assert until(lambda: code(rb.capture(ask)) == REJECTED) < NOTICED
        assert rb.calls.circuit(ask).state == rb.calls.circuit(key).state == "isolated"
        rb.calls.circuit(ask).reset()
        assert ask() == "ok"
        assert until(lambda: other.ask("call") == {"ok": 1}) < NOTICED


def test_every_way_to_call_shares_the_circuit(state, key):
    """A function, a coroutine, generators, `call`, `attempts` in both forms, and the handle: five failures, one each."""
    guarded = policy(state, key)

    async def in_task() -> list[str]:
        async def coroutine() -> None:
            raise Down

        async def items():
            raise Down
            yield

        ends = [code(await rb.capture(guarded(coroutine, idempotent=True)))]
        with pytest.raises(Down):
            await anext(guarded(items, idempotent=True)())
        with pytest.raises(Down):
            async for attempt in guarded.attempts(idempotent=True):
                with attempt:
                    raise Down
        return ends

    assert asyncio.run(in_task()) == [FAILED]
    with pytest.raises(Down):
        guarded(idempotent=True).call(down)
    with pytest.raises(Down):
        for attempt in guarded.attempts(idempotent=True):
            with attempt:
                raise Down
    with pytest.raises(rb.CircuitOpenError):
        for attempt in guarded.attempts(idempotent=True):
            with attempt:
                pytest.fail("let in")
    assert code(asyncio.run(rb.capture(guarded(asyncio.sleep, idempotent=True), 0))) == REJECTED
    with pytest.raises(rb.CircuitOpenError), rb.calls.circuit(key):
        pytest.fail("let in")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_has_a_thread_of_its_own(server, state, key):
    """What the parent has connected stays the parent's; the child shares the circuit all the same, and opens it."""
    ask = policy(state, key, failures=2)(down, idempotent=True)
    rb.capture(ask)
    until(lambda: row(server, key) == "1")
    child = os.fork()
    if child == 0:
        code_of_child = 1
        try:
            ends = [code(rb.capture(ask)) for _ in range(2)]
            state.close()
            code_of_child = 0 if ends == [FAILED, REJECTED] else 2
        finally:
            os._exit(code_of_child)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert until(lambda: code(rb.capture(ask)) == REJECTED) < NOTICED


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_what_waits_at_a_fork_is_sent_once(server, state, key, monkeypatch):
    """A failure that has not been sent yet is the parent's to tell: one and the child's own are two."""
    monkeypatch.setattr(redis_state_circuit, "LINGER", 0.5)
    ask = policy(state, key)(down, idempotent=True)
    rb.capture(ask)
    child = os.fork()
    if child == 0:
        try:
            rb.capture(ask)
            state.close()  # tells what is waiting
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    until(lambda: row(server, key) == "2")
    time.sleep(0.7)
    assert row(server, key) == "2"


# ---- a budget ------------------------------------------------------------------------------------------------------


def test_the_floor_is_handed_out_once_in_all(server, key):
    """Ten repeats in ten seconds: two processes with twenty failing calls each make ten together, whoever asks first."""
    settings = {"url": server.url, "key": key, "floor": 10, "options": PATIENT}
    with Worker(**settings) as one, Worker(**settings) as other:
        one.send("repeat", 20)
        other.send("repeat", 20)
        assert one.answer()["repeats"] + other.answer()["repeats"] == 10
        assert one.ask("repeat", 5) == {"repeats": 0}


def test_calls_of_one_process_earn_repeats_for_another(server, state, key):
    """Ratio 0.5, no floor: ten good calls here pay for five repeats there."""
    budget = rb.RetryBudget(ratio=0.5, floor=0, key=key)
    good = rb.Policy(rb.Retry(budget=budget), state=state)(lambda: "ok", idempotent=True)
    for _ in range(10):
        good()
    until(lambda: earned(server, key) == 10)
    with Worker(url=server.url, key=key, ratio=0.5, floor=0, options=PATIENT) as other:
        assert other.ask("repeat", 1) == {"repeats": 1}
        repeats = other.ask("repeat", 9)["repeats"]
        assert repeats + 1 == 10  # its own ten calls earn five more
        assert other.ask("repeat", 1) == {"repeats": 0}


@both
def test_a_repeat_that_is_not_made_goes_back(form, state, key):
    """The budget is asked before the decision; where the deadline leaves no time for the wait, the repeat is free for others."""
    budget = rb.RetryBudget(ratio=0, floor=1, key=key)
    retry = rb.Retry(attempts=2, on=Down, backoff=rb.Backoff.constant(30), budget=budget)
    hasty = rb.Policy(rb.Deadline(5), retry, state=state)(form.of(down), idempotent=True)
    for _ in range(3):
        assert form.run(rb.capture, hasty).failure.stopped == "deadline"
    patient = rb.Policy(
        retry.__class__(attempts=2, on=Down, backoff=rb.Backoff.constant(0), budget=budget),
        state=state,
    )
    assert form.run(rb.capture, patient(form.of(down), idempotent=True)).attempts == 2
    assert form.run(rb.capture, patient(form.of(down), idempotent=True)).failure.stopped == "budget"


def test_blocks_ask_the_shared_budget(state, key):
    """In a thread where the block ends, in a task before the next turn: the last failure comes out of the loop."""
    budget = rb.RetryBudget(ratio=0, floor=2, key=key)
    guarded = rb.Policy(
        rb.Retry(attempts=9, on=Down, backoff=rb.Backoff.constant(0), budget=budget), state=state
    )
    answers: list[int] = []

    async def in_task() -> None:
        async for attempt in guarded.attempts(idempotent=True):
            with attempt:
                answers.append(attempt.number)
                raise Down

    with pytest.raises(Down) as caught:
        asyncio.run(in_task())
    assert (answers, rb.classify(caught.value).stopped) == ([1, 2, 3], "budget")
    with pytest.raises(Down) as caught:
        for attempt in guarded.attempts(idempotent=True):
            with attempt:
                raise Down
    assert rb.classify(caught.value).stopped == "budget"
