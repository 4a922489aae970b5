"""Orders of tasks: what the seed decides, and what asyncio promises and no seed may break."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import secrets
import subprocess
import sys
import threading
import time
import uuid

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import simulate
from tests.internals.testing import EPOCH, SimOverrun, Simulation


SEARCHES = ["seeded", "pct"]
SEEDS = range(40)


def orders_of(main, orders="seeded", seeds=SEEDS):
    """What each seed gives."""
    return [simulate(main, server=None, seed=seed, orders=orders) for seed in seeds]


async def five():
    """The order in which five tasks take their first step."""
    seen = []

    async def one(number):
        seen.append(number)

    await asyncio.gather(*map(one, range(5)))
    return tuple(seen)


async def five_sleepers():
    """The order in which five tasks wake that sleep until one instant."""
    seen = []

    async def one(number):
        await asyncio.sleep(1)
        seen.append(number)

    await asyncio.gather(*map(one, range(5)))
    return tuple(seen)


async def five_waiters():
    """The order in which five tasks go on that wait for one event."""
    seen, event = [], asyncio.Event()

    async def one(number):
        await event.wait()
        seen.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(one(number))
        await asyncio.sleep(1)
        event.set()
    return tuple(seen)


# ---- what the seed decides


@pytest.mark.requirement("X19")
@pytest.mark.parametrize("orders", SEARCHES)
@pytest.mark.parametrize("main", [five, five_sleepers, five_waiters])
def test_forty_seeds_try_thirty_orders_of_five_tasks(main, orders):
    assert len(set(orders_of(main, orders))) >= 30


@pytest.mark.parametrize("main", [five, five_sleepers, five_waiters])
def test_fifo_is_the_order_of_asyncio(main):
    assert set(orders_of(main, "fifo")) == {(0, 1, 2, 3, 4)}
    assert asyncio.run(five()) == (0, 1, 2, 3, 4)


def test_seeded_is_the_default():
    assert [simulate(five, server=None, seed=seed) for seed in SEEDS] == orders_of(five, "seeded")


def test_virtual_time_alone_changes_no_order():
    async def main():
        with rb.testing.virtual_time(seed=3):
            return await five()

    assert asyncio.run(main()) == (0, 1, 2, 3, 4)


async def mixed():
    """A program with timers, yields, an executor, a queue and cancellation, and what it did."""
    seen, queue = [], asyncio.Queue(2)

    async def put(number):
        for n in range(3):
            await queue.put((number, n))
            await asyncio.sleep(random.choice([0, 0, 0.001]))

    async def take(number):
        while True:
            item = await queue.get()
            seen.append((number, item))
            if item[1]:
                await asyncio.to_thread(seen.append, ("thread", number))

    takers = [asyncio.create_task(take(n)) for n in range(3)]
    await asyncio.gather(*map(put, range(4)))
    await asyncio.sleep(1)
    for taker in takers:
        taker.cancel()
    await asyncio.wait(takers)
    return seen


@pytest.mark.requirement("X19")
@pytest.mark.parametrize("orders", [*SEARCHES, "fifo"])
def test_the_same_seed_is_the_same_run(orders):
    once = orders_of(mixed, orders)
    assert once == orders_of(mixed, orders)
    assert len({json.dumps(each) for each in once}) > 30


def test_the_same_seed_is_the_same_run_in_another_process():
    code = "from tests.testing.test_orders import *\nprint(json.dumps([orders_of(mixed, each) for each in SEARCHES]))"
    here = json.dumps([orders_of(mixed, each) for each in SEARCHES])
    for hash_seed in ("4242",):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        answer = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env
        )
        assert answer.stdout.strip() == here


def test_any_task_may_be_far_behind_the_others():
    """A task that is ready may stay so while another takes many steps: bounded by the instant alone."""

    async def main():
        steps, done = 0, []

        async def late():
            done.append(steps)

        async def busy():
            nonlocal steps
            for _ in range(6):
                future = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_soon(future.set_result, None)
                await future
                steps += 1

        await asyncio.gather(late(), busy())
        return done[0]

    assert set(orders_of(main, "seeded", range(400))) >= {0, 1, 2}
    assert set(orders_of(main, "pct")) >= {0, 6}


def test_a_timeout_and_an_answer_of_one_instant_come_in_either_order():
    async def main():
        async def answer():
            await asyncio.sleep(5)
            return "answer"

        try:
            return await asyncio.wait_for(answer(), 5)
        except TimeoutError:
            return "timeout"

    assert set(orders_of(main)) == {"answer", "timeout"}
    assert len(set(orders_of(main, "fifo"))) == 1


def test_tasks_that_wake_in_one_instant_go_on_side_by_side_or_one_by_one():
    async def main():
        seen = []

        async def one(name):
            await asyncio.sleep(1)
            seen.append(name)
            await asyncio.create_task(asyncio.sleep(0))
            seen.append(name)

        await asyncio.gather(one("a"), one("b"))
        return "".join(seen)

    assert set(orders_of(main)) >= {"aabb", "bbaa", "abab", "abba", "baba", "baab"}


def test_the_orders_draw_from_a_source_of_their_own():
    """The seed's faults, latencies and random numbers are the same in each order."""

    async def main():
        return random.random()

    drawn = {orders: orders_of(main, orders) for orders in [*SEARCHES, "fifo"]}
    assert drawn["seeded"] == drawn["pct"] == drawn["fifo"]


# ---- what no seed breaks


@pytest.mark.parametrize("orders", SEARCHES)
def test_callbacks_run_in_the_order_of_the_calls(orders):
    """`call_soon`, also between other tasks, and the callbacks of one future."""

    async def main():
        loop, seen = asyncio.get_running_loop(), []

        async def noise():
            for n in range(5):
                loop.call_soon(seen.append, next(numbers))
                await asyncio.sleep(0 if n % 2 else 0.1)

        numbers, future = itertools.count(), loop.create_future()
        noises = [asyncio.create_task(noise()) for _ in range(4)]
        for n in range(5):
            future.add_done_callback(lambda _, n=n: called.append(n))
        called = []
        await asyncio.sleep(0.1)
        future.set_result(None)
        await asyncio.gather(*noises)
        return seen, called

    for seen, called in orders_of(main, orders):
        assert seen == sorted(seen)
        assert called == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("orders", SEARCHES)
def test_a_callback_runs_before_the_step_that_became_ready_after_it(orders):
    """Whoever waits for a task sees what its done callback did: `tasks.discard`, for one."""

    async def main():
        async def one(n):
            await asyncio.sleep(n % 2)

        tasks = set()
        others = [asyncio.create_task(one(n)) for n in range(4)]
        for n in range(5):
            tasks.add(task := asyncio.create_task(one(n)))
            task.add_done_callback(tasks.discard)
            await task
            assert not tasks
        await asyncio.gather(*others)
        loop, seen = asyncio.get_running_loop(), []
        loop.call_soon(seen.append, "callback")

        async def step():
            seen.append("step")

        await asyncio.create_task(step())
        return seen

    assert set(map(tuple, orders_of(main, orders))) == {("callback", "step")}


@pytest.mark.parametrize("orders", SEARCHES)
def test_sleep_0_lets_the_others_go_first(orders):
    """Tasks that were made, woken or cancelled before, and callbacks: all have run."""

    async def main():
        loop, seen, event = asyncio.get_running_loop(), [], asyncio.Event()

        async def made():
            seen.append("made")

        async def woken():
            await event.wait()
            seen.append("woken")

        async def cancelled():
            try:
                await loop.create_future()
            finally:
                seen.append("cancelled")

        tasks = [asyncio.create_task(woken()), asyncio.create_task(cancelled())]
        await asyncio.sleep(0)
        event.set()
        tasks[1].cancel()
        tasks.append(asyncio.create_task(made()))
        loop.call_soon(seen.append, "callback")
        await asyncio.sleep(0)
        return sorted(seen)

    for seen in orders_of(main, orders):
        assert seen == ["callback", "cancelled", "made", "woken"]


@pytest.mark.parametrize("orders", SEARCHES)
def test_tasks_that_poll_starve_no_other(orders):
    """Tasks that yield in a loop until others, which yield as well, have changed something."""

    async def main():
        flags = [False] * 4

        async def poll(n):
            for _ in range(3):
                await asyncio.sleep(0)
            if n:
                while not flags[n - 1]:
                    await asyncio.sleep(0)
            flags[n] = True

        await asyncio.gather(*map(poll, reversed(range(4))))
        return flags

    for seed in SEEDS:
        assert Simulation(seed, server=None, orders=orders, max_steps=3_000).run(main) == [True] * 4


@pytest.mark.parametrize("orders", SEARCHES)
def test_callbacks_that_come_again_at_once_starve_no_task(orders):
    """As a packet does that nobody has read yet."""

    async def main():
        loop, is_read = asyncio.get_running_loop(), False

        def again():
            if not is_read:
                loop.call_at(loop.time(), again)
                loop.call_soon(int)

        async def read():
            nonlocal is_read
            for _ in range(20):
                await asyncio.sleep(0)
            is_read = True

        again()
        await asyncio.gather(*(read() for _ in range(3)))

    for seed in SEEDS:
        Simulation(seed, server=None, orders=orders, max_steps=5_000).run(main)


@pytest.mark.parametrize("orders", SEARCHES)
def test_timers_come_in_the_order_of_time_also_when_overdue(orders):
    async def main():
        loop, seen = asyncio.get_running_loop(), []
        for seconds in (3, 1, 2):
            loop.call_later(seconds, seen.append, seconds)
        await asyncio.sleep(0.5)
        loop.stall(10)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return seen

    assert set(map(tuple, orders_of(main, orders))) == {(1, 2, 3)}


@pytest.mark.parametrize("orders", SEARCHES)
def test_a_lock_stays_fair_and_streams_keep_their_bytes(orders):
    async def main():
        lock, seen = asyncio.Lock(), []

        async def one(number):
            async with lock:
                await asyncio.sleep(0.01)
                seen.append(number)

        async with lock:
            tasks = []
            for number in range(5):
                tasks.append(asyncio.create_task(one(number)))
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)

        async def echo(reader, writer):
            writer.write(await reader.read())
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for n in range(20):
            writer.write(bytes([n]) * 10)
            await asyncio.sleep(random.random() * 0.01)
        writer.write_eof()
        data = await reader.read()
        writer.close()
        server.close()
        return seen, data

    for seen, data in orders_of(main, orders, range(10)):
        assert seen == [0, 1, 2, 3, 4]
        assert data == b"".join(bytes([n]) * 10 for n in range(20))


# ---- the edges of a run


@pytest.mark.parametrize("orders", SEARCHES)
def test_a_run_that_spins_is_ended(orders):
    async def main():
        while True:
            await asyncio.sleep(0)

    with pytest.raises(SimOverrun, match="more than 500 steps"):
        Simulation(1, server=None, orders=orders, max_steps=500).run(main)


@pytest.mark.parametrize("orders", SEARCHES)
def test_a_deadlock_and_a_leak_are_reported(orders):
    async def stuck():
        await asyncio.get_running_loop().create_future()

    async def leaves():
        asyncio.create_task(asyncio.sleep(60), name="forgotten")  # noqa: RUF006 -- it is the leak

    with pytest.raises(rb.testing.SimulationError, match="deadlock"):
        simulate(stuck, server=None, orders=orders)
    with pytest.raises(rb.testing.SimulationError, match="leaked task: forgotten"):
        simulate(leaves, server=None, orders=orders)


@pytest.mark.parametrize("orders", [*SEARCHES, "fifo"])
def test_a_step_that_cannot_run_is_an_error_of_the_loop(orders):
    """One that nobody but asyncio should ask for, of a task that has ended."""

    async def main():
        task = asyncio.tasks._PyTask(five())
        await task
        asyncio.get_running_loop().call_soon(task._Task__step)
        await asyncio.sleep(1)

    with pytest.raises(rb.testing.SimulationError, match=r"error in the loop: .*already done"):
        simulate(main, server=None, orders=orders)


@pytest.mark.parametrize("orders", [*SEARCHES, "fifo"])
def test_a_method_of_your_own_called_as_those_of_tasks_can_be_cancelled(orders):
    """`call_soon(self.__step)` of a class of yours is no step of a task."""

    class Player:
        def __init__(self):
            self.steps = 0

        def __step(self):
            self.steps += 1

        def play(self):
            loop = asyncio.get_running_loop()
            loop.call_soon(self.__step)
            loop.call_soon(self.__step).cancel()
            timer = loop.call_later(1, self.__step)
            timer.cancel()
            return timer.cancelled(), timer.when(), isinstance(timer, asyncio.TimerHandle)

    async def main():
        player = Player()
        seen = player.play()
        await asyncio.sleep(2)
        return player.steps, *seen

    assert simulate(main, server=None, orders=orders) == (1, True, 1.0, True)


def test_a_failure_names_the_order():
    async def main():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as info:
        simulate(main, server=None, seed=7, orders="pct")
    assert "Simulation(seed=7, faults=None, orders='pct')" in "".join(info.value.__notes__)


@pytest.mark.parametrize("orders", ["random", "", None, ["seeded"]])
def test_another_word_is_refused(orders):
    with pytest.raises(rb.ConfigError, match="wanted one of seeded, pct, fifo"):
        simulate(five, orders=orders)


def test_faults_break_links_without_a_bridge():
    """`server=None`: no bridge, `main` takes no arguments; faults of the network still happen."""

    async def main():
        server = await asyncio.start_server(lambda *streams: None, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.sockets[0].getsockname()[1]
        )
        try:
            return await reader.read()
        except ConnectionResetError:
            return "reset"
        finally:
            writer.close()
            server.close()

    plan = rb.testing.Faults(script=(rb.testing.ScriptedFault("abort", at=3),))
    assert simulate(main, server=None, faults=plan) == "reset"


# ---- patch_stdlib


def reads():
    """What a program reads of the standard library's clocks and random bytes."""
    clocks = (time.time(), time.monotonic(), time.perf_counter(), time.time_ns(), time.monotonic_ns())  # fmt: skip
    return clocks, str(uuid.uuid4()), os.urandom(4), secrets.token_hex(4), random.SystemRandom().random(), random.random()  # fmt: skip


async def reading():
    """The reads at the start, after a minute, and after a blocking sleep."""
    first = reads()
    await asyncio.sleep(60)
    second = reads()
    time.sleep(5)
    return first, second, reads()


def test_the_standard_library_follows_the_seed_where_asked():
    once = simulate(reading, server=None, seed=1, patch_stdlib=True)
    assert once == simulate(reading, server=None, seed=1, patch_stdlib=True)
    first, second, third = (clocks for clocks, *_ in once)
    assert first == (EPOCH, 0.0, 0.0, int(EPOCH) * 10**9, 0)
    assert [b - a for a, b in zip(first[:3], second[:3], strict=True)] == [60, 60, 60]
    assert third[1] - second[1] == 5
    other = simulate(reading, server=None, seed=2, patch_stdlib=True)
    assert all(a != b for a, b in zip(once[0][1:], other[0][1:], strict=True))


def test_the_standard_library_is_real_otherwise_and_afterwards():
    before = (time.time, time.monotonic, time.sleep, os.urandom, random._urandom)
    simulate(reading, server=None, patch_stdlib=True)
    assert (time.time, time.monotonic, time.sleep, os.urandom, random._urandom) == before

    async def main():
        return time.time(), uuid.uuid4()

    assert abs(simulate(main, server=None)[0] - time.time()) < 3_600
    assert simulate(main, server=None)[1] != simulate(main, server=None)[1]


def test_other_threads_keep_the_real_clock():
    seen = []

    async def main():
        thread = threading.Thread(target=lambda: seen.append(time.time()))
        thread.start()
        thread.join()
        return time.time()

    assert simulate(main, server=None, patch_stdlib=True) == EPOCH
    assert abs(seen[0] - time.time()) < 3_600
