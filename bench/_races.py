"""Programs with a race that asyncio's own order hides, for orders.py and tests/testing/test_races.py.

Each is a coroutine function that raises AssertionError in some orders of its tasks, and never in asyncio's own. `PROGRAMS` are small
ones; `MUTANTS` use this package with one line of it broken, and hold in every order with that line as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest.mock import patch

import resilient_bridge as rb
from resilient_bridge.calls.breaker.state import CircuitState
from resilient_bridge.calls.limits import guard, state
from resilient_bridge.calls.retry.coordination import RefreshLock


Program = Callable[[], Coroutine[Any, Any, None]]


async def hop(times: int = 1) -> None:
    """Wait for somebody else's answer, which takes no time."""
    for _ in range(times):
        await asyncio.create_task(_answer())


async def _answer() -> None:
    pass


# ---- small programs ---------------------------------------------------------------------------------------------


async def seat_sold_twice() -> None:
    """A check, an await, and the act."""
    free, sold = {"12A"}, []

    async def buy(name: str, later: int) -> None:
        await hop(later)
        if "12A" in free:
            await hop()
            free.discard("12A")
            sold.append(name)

    await asyncio.gather(buy("ann", 0), buy("bob", 2))
    assert len(sold) == 1, sold


async def update_lost() -> None:
    """A value is read, and written back after an await."""
    balance = 100

    async def add(amount: int, later: int) -> None:
        nonlocal balance
        await hop(later)
        read = balance
        await hop()
        balance = read + amount

    await asyncio.gather(add(10, 0), add(20, 2), add(30, 4))
    assert balance == 160, balance


async def connected_twice() -> None:
    """A connection is made when it is first needed: by two at once."""
    made: list[object] = []
    connection: object | None = None

    async def get() -> object:
        nonlocal connection
        if connection is None:
            await hop()
            made.append(connection := object())
        return connection

    async def use(later: int) -> None:
        await hop(later)
        await get()

    await asyncio.gather(use(0), use(3), use(6))
    assert len(made) == 1, made


async def read_before_set() -> None:
    """A worker reads what the task before it sets."""
    settings: dict[str, int] = {}

    async def load() -> None:
        settings["port"] = 80

    async def work() -> int:
        return settings.get("port", -1)

    _, port = await asyncio.gather(load(), work())
    assert port == 80, port


async def put_after_close() -> None:
    """The flag is checked before an await, and the queue is closed in between."""
    queue: list[int] = []
    is_closed, accepted, handled = False, [], []

    async def put(item: int) -> None:
        if is_closed:
            return
        await hop()
        queue.append(item)
        accepted.append(item)

    async def close() -> None:
        nonlocal is_closed
        await hop(2)
        is_closed = True
        handled.extend(queue)
        queue.clear()

    await asyncio.gather(put(1), put(2), close())
    assert handled == sorted(accepted), (handled, accepted)


async def wake_up_lost() -> None:
    """An event is cleared after its condition was checked: a set in between is lost."""
    event, items, taken = asyncio.Event(), [], []

    async def take() -> None:
        if not items:
            await hop()
            event.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), 5)
        taken.extend(items)
        assert event.is_set(), "waited in vain"

    async def put() -> None:
        await hop(2)
        items.append(1)
        event.set()

    await asyncio.gather(take(), put())


async def stale_value_cached() -> None:
    """A value is read, then changed, then the value that was read is put into the cache."""
    stored, cache = {"v": 1}, {}

    async def read() -> None:
        value = stored["v"]
        await hop()
        cache["v"] = value

    async def write() -> None:
        await hop(2)
        stored["v"] = 2
        cache.pop("v", None)

    await asyncio.gather(read(), write())
    assert cache.get("v", stored["v"]) == stored["v"], cache


async def batch_forgotten() -> None:
    """What came while a batch was sent is cleared with it."""
    items, sent = [], []

    async def flush() -> None:
        if items:
            sent.extend(items)
            await hop()
            items.clear()

    async def produce() -> None:
        for n in range(3):
            items.append(n)
            await hop(3)

    async def flushing() -> None:
        for _ in range(6):
            await flush()
            await hop(2)

    await asyncio.gather(produce(), flushing())
    await flush()
    assert sent == [0, 1, 2], sent


async def shutdown_misses_one() -> None:
    """A shutdown waits for the tasks that there are, and another one starts."""
    tasks: list[asyncio.Task[None]] = []
    done = []

    async def job(n: int) -> None:
        await hop()
        done.append(n)

    async def accept() -> None:
        for n in range(3):
            tasks.append(asyncio.create_task(job(n)))
            await hop()

    async def shut_down() -> None:
        await hop(5)
        await asyncio.gather(*tasks)
        assert sorted(done) == [0, 1, 2], done

    accepting = asyncio.create_task(accept())
    try:
        await shut_down()
    finally:
        await accepting
        await asyncio.gather(*tasks)


async def connection_lost_at_the_timeout() -> None:
    """A pool hands a connection to a waiter whose time is over in the same instant."""
    idle: list[str] = []
    waiters: list[asyncio.Future[str]] = []

    async def acquire() -> str:
        waiters.append(waiter := asyncio.get_running_loop().create_future())
        return await waiter

    def release(connection: str) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(connection)
                return
        idle.append(connection)

    async def hold() -> None:
        await asyncio.sleep(0.5)
        await asyncio.sleep(0.5)
        release("c1")

    async def want() -> None:
        try:
            async with asyncio.timeout_at(began + 1):
                release(await acquire())
        except TimeoutError:
            pass

    began = asyncio.get_running_loop().time()
    await asyncio.gather(want(), hold())
    assert idle == ["c1"] or any(not waiter.done() for waiter in waiters), "the connection is gone"


async def permit_lost_when_cancelled() -> None:
    """A task is cancelled between the permit and the `try` that gives it back."""
    semaphore = asyncio.Semaphore(1)

    async def work() -> None:
        await semaphore.acquire()
        await hop()
        try:
            await asyncio.sleep(1)
        finally:
            semaphore.release()

    task = asyncio.create_task(work())
    await hop(3)
    task.cancel()
    await asyncio.wait([task])
    assert not semaphore.locked(), "the permit is gone"


async def numbers_out_of_order() -> None:
    """A number is taken before an await, and sent after it."""
    last, sent = 0, []

    async def send(hops: int, later: int) -> None:
        nonlocal last
        await hop(later)
        last = number = last + 1
        await hop(hops)
        sent.append(number)

    await asyncio.gather(send(1, 0), send(1, 1), send(1, 2))
    assert sent == sorted(sent), sent


async def two_leaders() -> None:
    """Who finds no leader becomes one, after having announced it."""
    leaders: list[str] = []

    async def stand(name: str, later: int) -> None:
        await hop(later)
        if not leaders:
            await hop(2)
            leaders.append(name)

    await asyncio.gather(stand("a", 0), stand("b", 3), stand("c", 4))
    assert len(leaders) == 1, leaders


async def pong_at_the_deadline() -> None:
    """A deadline and the answer to it come in one instant: the answer is counted for a dead link."""
    state, counted = "open", []

    async def watch() -> None:
        nonlocal state
        await asyncio.sleep(5)
        await asyncio.sleep(5)
        if not counted:
            state = "dead"

    async def read() -> None:
        await asyncio.sleep(10)
        counted.append(state)

    await asyncio.gather(read(), watch())
    assert counted == ["open"], counted


async def two_locks() -> None:
    """Two tasks take two locks, each in its own order."""
    first, second = asyncio.Lock(), asyncio.Lock()

    async def both(one: asyncio.Lock, other: asyncio.Lock, later: int) -> None:
        await hop(later)
        async with one:
            await hop()
            async with other:
                await hop()

    pair = asyncio.gather(both(first, second, 0), both(second, first, 4))
    try:
        await asyncio.wait_for(pair, 60)
    except TimeoutError as error:
        raise AssertionError("deadlock") from error


async def half_written_pair() -> None:
    """Two values that belong together are written with an await in between, and read."""
    pair, seen = [0, 0], []

    async def write(n: int) -> None:
        pair[0] = n
        await hop()
        pair[1] = n

    async def read(later: int) -> None:
        await hop(later)
        seen.append(tuple(pair))

    await asyncio.gather(write(1), read(2), read(3), read(4))
    assert set(seen) <= {(0, 0), (1, 1)}, seen


PROGRAMS: tuple[Program, ...] = (
    seat_sold_twice,
    update_lost,
    connected_twice,
    read_before_set,
    put_after_close,
    wake_up_lost,
    stale_value_cached,
    batch_forgotten,
    shutdown_misses_one,
    connection_lost_at_the_timeout,
    permit_lost_when_cancelled,
    numbers_out_of_order,
    two_leaders,
    pong_at_the_deadline,
    two_locks,
    half_written_pair,
)


# ---- this package, with one line broken -------------------------------------------------------------------------


class Server:
    """What a bulkhead or a circuit protects: it counts who is inside."""

    def __init__(self) -> None:
        self.inside = self.most = self.calls = 0

    async def call(self, seconds: float = 0.0, hops: int = 1) -> None:
        self.calls += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await asyncio.sleep(seconds)
            await hop(hops)
        finally:
            self.inside -= 1


async def permit_held_by_the_cancelled() -> None:
    """A waiter is cancelled in the instant in which it was handed a permit."""
    server = Server()
    call = rb.Policy(rb.Bulkhead(1, queue=5, max_wait=60))(server.call)

    async def cancel() -> None:
        await asyncio.sleep(1)
        waiting.cancel()

    canceller = asyncio.create_task(cancel())
    holding = asyncio.create_task(call(1.0, 4))
    await asyncio.sleep(0.5)
    waiting = asyncio.create_task(call(1.0, 4))
    await asyncio.wait([canceller, holding, waiting])
    await _one_goes_through(call)


async def permit_held_by_the_impatient() -> None:
    """A waiter's patience ends in the instant in which it was handed a permit."""
    server = Server()
    call = rb.Policy(rb.Bulkhead(1, queue=5, max_wait=1))(server.call)

    async def wait() -> None:
        await asyncio.sleep(0)
        with suppress(rb.errors.RejectedError):
            await call(0.0)

    async def hold() -> None:
        await call(1.0, 2)

    await asyncio.gather(hold(), wait())
    await _one_goes_through(call)


async def _one_goes_through(call: Any) -> None:
    try:
        await call(0.0)
    except rb.errors.RejectedError as error:
        raise AssertionError("a permit is gone") from error


async def free_for_a_moment() -> None:
    """Between a release and the first waiter's step somebody else comes."""
    server = Server()
    call = rb.Policy(rb.Bulkhead(1, queue=5, max_wait=60))(server.call)

    async def come(later: int) -> None:
        await hop(later)
        await call(0.0)

    await asyncio.gather(*map(come, (0, 1, 4, 7, 10)))
    assert server.most == 1, server.most


async def probed_by_two() -> None:
    """A circuit whose open time is over lets one call through until that has ended."""
    server = Server()

    async def fail(hops: int) -> None:
        await server.call(0.0, hops)
        raise ConnectionRefusedError

    call = rb.Policy(rb.Breaker.consecutive(2, open_for=5))(fail)
    with rb.testing.virtual_time() as time:
        for _ in range(2):
            with suppress(ConnectionRefusedError):
                await call(1)
        time.advance(60)

        async def probe(later: int) -> None:
            await hop(later)
            with suppress(ConnectionRefusedError, rb.errors.RejectedError):
                await call(1)

        await asyncio.gather(probe(0), probe(2), probe(3))
    assert server.calls == 3, server.calls - 2


async def logged_in_twice() -> None:
    """Calls that find their token expired log in once for all."""
    logins, token = 0, 1

    class Expired(Exception):  # noqa: N818
        pass

    async def log_in() -> None:
        nonlocal logins, token
        logins += 1
        await asyncio.sleep(1)
        token = 2

    async def get(seconds: float) -> None:
        used = token
        await asyncio.sleep(seconds)
        if used == 1:
            raise Expired

    rules = {Expired: rb.Rule(attempts=2, before=log_in)}
    repeats = rb.Retry(attempts=3, rules=rules, backoff=rb.Backoff.constant(0))
    call = rb.Policy(repeats)(idempotent=True)(get)

    async def use(at: float, seconds: float) -> None:
        await asyncio.sleep(at)
        await call(seconds)

    await asyncio.gather(use(0, 0), use(0.5, 0.5))
    assert logins == 1, logins


def _leaves_with_permit(self: state.BulkheadState, ticket: state.Ticket) -> None:
    self._queue.pop(ticket, None)


def _settles_by_patience(self: Any) -> None:
    loop = asyncio.get_running_loop()
    if self._state.is_served(self._ticket) and loop.time() < self.until:
        self._attempt.slot = self._state
        return
    if not self._state.is_served(self._ticket):
        self._state.leave(self._ticket)
    raise self._state.rejection(self.patience)


def _begins_with_patience(self: Any, wake: Any) -> None:
    self._ticket = self._state.join(wake)
    self.until = asyncio.get_running_loop().time() + (self.patience or 0.0)


def _wakes_first(self: state.BulkheadState) -> None:
    """Hand nothing over: the waiter takes the permit when it runs."""
    if self._queue and self.running < self.settings.calls:
        ticket, _ = self._queue.popitem(last=False)
        ticket.is_served = True
        ticket.wake()


def _takes_when_woken(self: Any) -> None:
    self._state.running += 1
    self._attempt.slot = self._state


def _always_a_probe(self: CircuitState, now: float) -> int:
    self._probe -= 1
    self._leases[self._probe] = now + self.settings.lease
    return self._probe


QUEUE_SLOT: Any = vars(guard)["_QueueSlot"]


class _NoLock:
    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def acquire(self) -> bool:
        return True

    def release(self) -> None: ...


class _PatientSlot(QUEUE_SLOT):
    __slots__ = ("until",)

    begin, settle = _begins_with_patience, _settles_by_patience


Change = tuple[Any, str, Any]
MUTANTS: dict[Program, tuple[Change, ...]] = {
    permit_held_by_the_cancelled: ((state.BulkheadState, "leave", _leaves_with_permit),),
    permit_held_by_the_impatient: ((guard, "_QueueSlot", _PatientSlot),),
    free_for_a_moment: (
        (state.BulkheadState, "_hand_over", _wakes_first),
        (QUEUE_SLOT, "settle", _takes_when_woken),
    ),
    probed_by_two: ((CircuitState, "_lease", _always_a_probe),),
    logged_in_twice: ((RefreshLock, "of_loop", lambda _: _NoLock()),),
}


@contextmanager
def broken(program: Program) -> Iterator[None]:
    """Break the line that the program is about; nothing for a program of its own."""
    with ExitStack() as stack:
        for target, name, value in MUTANTS.get(program, ()):
            stack.enter_context(patch.object(target, name, value))
        yield
