"""Virtual time: what passes, what fires in which order, and how a run that cannot go on says so."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from tests.internals.testing import EPOCH, SimDeadlock, SimOverrun, SimulatedLoop


def run(main, **options):
    """Run a coroutine function on a fresh simulated loop, which it gets as its argument."""
    loop = SimulatedLoop(**options)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(loop))


def test_an_hour_of_sleep_costs_no_time():
    """Time jumps to the next timer: an hour passes on the loop and next to nothing outside."""

    async def main(loop):
        await asyncio.sleep(3600)
        return loop.time()

    began = time.perf_counter()
    assert run(main) == 3600
    assert time.perf_counter() - began < 5


def test_timeouts_are_virtual():
    """`asyncio.timeout` and `wait_for` take their time from the loop."""

    async def main(loop):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await loop.create_future()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(99), 12)
        return loop.time()

    assert run(main) == 42


def test_equal_timers_fire_in_the_order_asked():
    """Timers with one deadline keep their order, which asyncio's own heap does not promise."""

    async def main(loop):
        fired = []
        for number in range(50):
            loop.call_at(10, fired.append, number)
        await asyncio.sleep(11)
        return fired

    assert run(main) == list(range(50))


def test_cancelled_timers_do_not_pile_up():
    """A program that sets and cancels timeouts for ever does not fill the memory."""

    async def main(loop):
        keep = loop.call_later(9_000, lambda: None)
        for _ in range(5_000):
            loop.call_later(10_000, lambda: None).cancel()
            await asyncio.sleep(0)
        size = len(loop._timers)
        keep.cancel()
        return size

    assert run(main) < 500


def test_a_timer_at_nan_is_refused():
    """CPython 3.11 and 3.12 let sleep(nan) stop unrelated timers: here it is an error."""

    async def main(loop):
        with pytest.raises(ValueError, match=r"(?i)nan"):
            await asyncio.sleep(float("nan"))

    run(main)


def test_a_deadlock_is_reported():
    """Nothing ready and no timer left: the run ends with an error that names the place, instead of hanging."""

    async def stuck(loop):
        await loop.create_future()

    async def main(loop):
        await asyncio.gather(stuck(loop), asyncio.sleep(5))

    with pytest.raises(
        SimDeadlock, match=r"deadlock after 5\.000 s.*seed=42.*test_timeline\.py:\d+ stuck"
    ):
        run(main, seed=42)


def test_a_timer_at_infinity_hides_no_deadlock():
    """sleep(inf) can never end, so it counts as nothing."""

    async def main(loop):
        await asyncio.sleep(float("inf"))

    with pytest.raises(SimDeadlock):
        run(main)


def test_a_busy_loop_is_stopped():
    """A program that spins without time passing meets the bound of steps."""

    async def main(loop):
        while True:
            await asyncio.sleep(0)

    with pytest.raises(SimOverrun, match="more than 1000 steps"):
        run(main, max_steps=1000)


def test_waiting_for_ever_is_stopped():
    """A program that only polls meets the bound of virtual seconds."""

    async def main(loop):
        while True:
            await asyncio.sleep(15)

    with pytest.raises(SimOverrun, match="86400 virtual seconds"):
        run(main, max_seconds=86_400)


def test_foreign_threads_are_fenced_off():
    """A thread that touches the loop gets an error, because no seed could repeat when it ran."""

    async def main(loop):
        errors = []

        def intrude(call):
            try:
                call(lambda: None)
            except RuntimeError as error:
                errors.append(str(error))

        calls = (
            loop.call_soon_threadsafe,
            loop.call_soon,
            lambda callback: loop.call_later(1, callback),
        )
        for call in calls:
            thread = threading.Thread(target=intrude, args=(call,), name="intruder")
            thread.start()
            thread.join()
        return errors

    assert run(main) == ["a simulated loop belongs to one thread, got a call from intruder"] * 3


def test_a_stall_delays_every_callback():
    """A blocked loop: ten seconds pass, and what was due in them fires when the block ends."""

    async def main(loop):
        fired = []
        loop.call_later(3, lambda: fired.append(loop.time()))
        loop.stall(10)
        await asyncio.sleep(1)
        return fired, loop.time()

    assert run(main) == ([10.0], 11.0)


def test_after_a_stall_arrivals_go_before_timers():
    """Bytes that came during a stall are read before a timeout that came due in it, as with `select`."""

    async def main(loop):
        order = []

        class Reader(asyncio.Protocol):
            def data_received(self, data):
                order.append("data")

        server = await loop.create_server(Reader, "127.0.0.1", 0)
        transport, _ = await loop.create_connection(
            asyncio.Protocol, *server.sockets[0].getsockname()
        )
        await asyncio.sleep(1)
        loop.call_at(loop.time(), order.append, "first timer")
        transport.write(b"x")
        loop.call_later(0.0001, order.append, "timeout")  # before the packet can arrive
        loop.stall(10)
        await asyncio.sleep(1)
        transport.close()
        server.close()
        return order

    assert run(main) == ["data", "first timer", "timeout"]


def test_a_sleeping_machine_stops_only_the_monotonic_clock():
    """After a suspend the wall clock has gone on and the monotonic clock has not."""

    async def main(loop):
        before = loop.time(), loop.wall(), loop.true_time()
        loop.sleep_machine(3600)
        return [
            after - was
            for was, after in zip(before, (loop.time(), loop.wall(), loop.true_time()), strict=True)
        ]

    assert run(main) == [0, 3600, 3600]


def test_only_the_client_sees_its_clock_offset():
    """`wall_offset` moves the client's wall clock, not the true time by which the bridge lives."""

    async def main(loop):
        loop.wall_offset = -86_400.0
        await asyncio.sleep(5)
        return loop.wall(), loop.true_time()

    assert run(main) == (EPOCH + 5 - 86_400, EPOCH + 5)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_time_never_runs_backwards(seconds):
    """A stall or a suspend of no real length is refused."""
    loop = SimulatedLoop()
    with pytest.raises(ValueError, match="at least 0"):
        loop.stall(seconds)
    with pytest.raises(ValueError, match="at least 0"):
        loop.sleep_machine(seconds)
    loop.close()


def test_tasks_and_futures_hash_by_number():
    """Sets of tasks and futures iterate in an order that does not depend on where they lie in memory."""

    async def main(loop):
        tasks = {loop.create_task(asyncio.sleep(0)) for _ in range(20)}
        futures = {loop.create_future() for _ in range(20)}
        await asyncio.gather(*tasks)
        return [task.get_name() for task in tasks], [hash(future) for future in futures]

    first = run(main)
    ballast = [bytearray(size) for size in range(1, 2_000, 7)]  # moves later objects elsewhere
    assert ballast
    assert run(main) == first


def test_a_task_factory_of_the_program_is_used():
    """The loop's own tasks do not stand in the way of a factory somebody sets."""

    async def main(loop):
        made = []

        def factory(loop, coro, **options):
            made.append(coro)
            return asyncio.Task(coro, loop=loop, **options)

        loop.set_task_factory(factory)
        await asyncio.create_task(asyncio.sleep(0))
        return len(made)

    assert run(main) == 1


def test_errors_that_asyncio_would_log_are_collected():
    """An exception that nobody retrieves ends up in `errors`."""

    async def main(loop):
        async def fail():
            raise ValueError("lost")

        task = asyncio.create_task(fail())
        await asyncio.sleep(1)
        del task
        gc.collect()
        return loop.errors

    assert run(main) == ["SimulatedTask exception was never retrieved: ValueError: lost"]


def test_the_trace_knows_time_and_text():
    """Runs with the same notes at the same instants have one hash; another instant or text has another."""

    def hash_of(*notes):
        async def main(loop):
            for at, text in notes:
                await asyncio.sleep(at - loop.time())
                loop.note(text)
            return loop.trace_hash()

        return run(main)

    first = hash_of((1, "a"), (2, "b"))
    assert first == hash_of((1, "a"), (2, "b"))
    assert (
        len({first, hash_of((1, "a"), (3, "b")), hash_of((1, "a"), (2, "c")), hash_of((1, "a"))})
        == 4
    )
