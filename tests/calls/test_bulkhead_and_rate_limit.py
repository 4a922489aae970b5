"""Waiting calls: the queue of a bulkhead and the pace of a rate limit, in tasks and in threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

import resilient_bridge as rb
from resilient_bridge.world import current_world
from tests.calls.forms import Server, at_once, both, everywhere, settle
from tests.internals.calls import BULKHEADS


class RefreshLock:
    """A function whose calls end when the test says so; `inside` lists the running calls."""

    def __init__(self):
        self.inside = []
        self.order = []
        self._ends = {}

    async def __call__(self, name):
        self._ends[name] = asyncio.get_running_loop().create_future()
        self.inside.append(name)
        self.order.append(name)
        try:
            return await self._ends[name]
        finally:
            self.inside.remove(name)

    async def end(self, name):
        self._ends[name].set_result(name)
        await settle()


async def started(get, *names):
    """Start a call for each name."""
    tasks = []
    for name in names:
        tasks.append(asyncio.create_task(get(name)))
        await settle()
    return tasks


async def test_so_many_at_once_and_so_many_in_line():
    """Two run, one waits, the next is rejected at once; the waiting call gets the next free permit."""
    gate = RefreshLock()
    get = rb.Policy(rb.Bulkhead(2, queue=1))(gate)
    a, b, c = await started(get, "a", "b", "c")
    assert gate.inside == ["a", "b"]
    with pytest.raises(rb.errors.BulkheadFullError) as rejected:
        await get("d")
    assert rejected.value.failure.retryable
    assert rejected.value.failure.executed is rb.errors.Executed.NO
    await gate.end("a")
    assert gate.inside == ["b", "c"]
    for name in "bc":
        await gate.end(name)
    assert await asyncio.gather(a, b, c) == ["a", "b", "c"]


async def test_first_come_first_served():
    """Ten waiting calls are admitted in order, and no later call overtakes them."""
    gate = RefreshLock()
    get = rb.Policy(rb.Bulkhead(1, queue=20))(gate)
    names = [str(number) for number in range(10)]
    tasks = await started(get, *names)
    for name in names:
        await gate.end(name)
        if name == "3":
            tasks += await started(get, "late")
    await gate.end("late")
    await asyncio.gather(*tasks)
    assert gate.order == [*names, "late"]


async def test_who_leaves_the_queue_makes_room_in_it():
    """A cancelled call frees its position in the queue for another."""
    gate = RefreshLock()
    get = rb.Policy(rb.Bulkhead(1, queue=1))(gate)
    (a,) = await started(get, "a")
    (b,) = await started(get, "b")
    b.cancel()
    await settle()
    (c,) = await started(get, "c")
    await gate.end("a")
    await gate.end("c")
    assert await asyncio.gather(a, c) == ["a", "c"]


@pytest.mark.parametrize(
    ("layers", "error"),
    [
        ([rb.Bulkhead(1, queue=5, max_wait=3)], rb.errors.BulkheadFullError),
        (
            [rb.Deadline(3), rb.Retry(), rb.Bulkhead(1, queue=5)],
            (rb.errors.BulkheadFullError, rb.DeadlineExceededError),
        ),
    ],
    ids=["max_wait", "deadline"],
)
async def test_patience_ends_in_the_time_of_the_policies(layers, error):
    """After `max_wait`, or at the deadline, a waiting call is rejected; the next one is not affected."""
    gate = RefreshLock()
    with rb.testing.virtual_time() as clock:
        key = f"patience {len(layers)}"
        shared = [*layers[:-1], rb.Bulkhead(1, queue=5, max_wait=layers[-1].max_wait, key=key)]
        (a,) = await started(
            rb.Policy(rb.Bulkhead(1, queue=5, max_wait=layers[-1].max_wait, key=key))(gate), "a"
        )
        (b,) = await started(rb.Policy(*shared)(gate, idempotent=True), "b")
        clock.advance(2.9)
        await settle()
        assert not b.done()
        clock.advance(0.2)
        await settle()
        assert b.done()
        with pytest.raises(error):
            await b
        await gate.end("a")
        assert await a == "a"
    assert gate.order == ["a"]


@pytest.mark.real
@both
def test_patience_ends_in_real_time(form):
    """After 20 ms in the queue, sync and async, it raises BulkheadFullError with the time waited."""
    hold = threading.Event()
    policy = rb.Policy(rb.Bulkhead(1, queue=1, max_wait=0.02))
    inside = threading.Event()

    def occupy():
        inside.set()
        hold.wait(10)

    holder = threading.Thread(target=policy.call, args=(occupy,))
    holder.start()
    inside.wait(10)
    with pytest.raises(rb.errors.BulkheadFullError, match=r"0\.02 s"):
        form.run(policy(idempotent=True).call, form.of(Server().get))
    hold.set()
    holder.join()
    assert form.run(policy(idempotent=True).call, form.of(Server().get)) == "ok"


def test_threads_share_the_places():
    """20 threads, 3 permits: never four at once, and every thread is served."""
    at_work, most, lock, done = 0, 0, threading.Lock(), []

    @rb.Policy(rb.Bulkhead(3, queue=20))
    def work():
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        with lock:
            at_work -= 1
        done.append(1)

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(done) == 20
    assert most <= 3


@both
def test_a_pace(form):
    """Five at once, then one each fifth of a second; a call that may wait long enough waits, as `slept` shows."""
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.RateLimit(5, per=1, max_wait=10))(form.of(Server().get))
        for _ in range(8):
            form.run(get)
    assert clock.slept == pytest.approx([0.2, 0.2, 0.2])


@everywhere
def test_a_caller_that_may_not_wait_gets_retry_after(form):
    """It raises ThrottledError with the seconds until the next token, and takes none."""
    with form.world() as clock:
        get = rb.Policy(rb.RateLimit(1, per=60))(form.of(Server().get))
        form.run(get)
        for _ in range(3):
            with pytest.raises(rb.errors.ThrottledError) as rejected:
                form.run(get)
            assert 59 < rejected.value.retry_after <= 60
        if form.is_virtual:
            clock.advance(60)
            assert form.run(get) == "ok"


@both
def test_a_turn_after_the_deadline_is_refused_at_once(form):
    """With 5 s to the deadline and the next token in 60 s there is no wait."""
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Deadline(5), rb.RateLimit(1, per=60, max_wait=3600))(
            form.of(Server().get)
        )
        form.run(get)
        with pytest.raises(rb.errors.ThrottledError):
            form.run(get)
    assert clock.slept == []


@both
def test_a_throttled_attempt_is_repeated_after_its_time(form):
    """A Retry around the rate limit waits for its `retry_after`, like a server's."""
    server = Server()
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(1)), rb.RateLimit(1, per=60))(
            form.of(server.get), idempotent=True
        )
        assert [form.run(get), form.run(get)] == ["ok", "ok"]
    assert clock.slept == [60]


@everywhere
def test_a_circuit_does_not_hear_of_them(form):
    """Neither a full bulkhead nor a used-up rate limit counts as a failure of the server."""
    with form.world():
        policy = rb.Policy(at_once(on=()), rb.Breaker.consecutive(1), rb.RateLimit(1, per=3600))
        get = policy(form.of(Server().get), idempotent=True)
        form.run(get)
        for _ in range(3):
            with pytest.raises(rb.errors.ThrottledError):
                form.run(get)
        assert rb.calls.circuit(get).state == "closed"


def test_a_call_that_would_queue_without_an_event_loop_says_so():
    """The ConfigError names the layer, and the place in the queue is given back."""

    @rb.Policy(rb.Bulkhead(1, queue=1, key="no loop"))
    async def read() -> str:
        return "read"

    state = BULKHEADS.get("no loop", rb.Bulkhead(1, queue=1, key="no loop"), warn=False)
    assert state.try_acquire()
    with pytest.raises(rb.ConfigError, match=r"Bulkhead.*no running event loop"):
        read().send(None)
    assert (state.running, state.waiting) == (1, 0)
    state.release()


async def test_max_wait_alone_lets_calls_wait():
    """`Bulkhead(4, max_wait=600)` has a queue: of 320 calls none is lost, and four run at once."""
    running, most = 0, 0

    @rb.Policy(rb.Bulkhead(4, max_wait=600))
    async def work():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await current_world().asleep(2)
        running -= 1

    with rb.testing.virtual_time() as clock:
        await asyncio.gather(*(work() for _ in range(320)))
        assert (most, clock.elapsed) == (4, 160)


def test_what_a_call_waits_for_follows_from_the_fields():
    """Without `max_wait` and `queue` no call waits."""
    layers = [rb.Bulkhead(4), rb.Bulkhead(4, max_wait=0), rb.Bulkhead(4, max_wait=9)]
    assert [layer.most_waiting for layer in layers] == [0, 0, float("inf")]
    assert [layer.worst_wait for layer in layers] == [0, 0, 9]
    assert (
        rb.Bulkhead(4, queue=2).most_waiting
        == rb.Bulkhead(4, queue=2, max_wait=9).most_waiting
        == 2
    )
    assert layers[2].summary() == "4 at once, others wait up to 9 s"
