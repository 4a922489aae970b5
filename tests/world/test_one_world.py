"""One world for everything a call does: its clocks, waits, random numbers and ids agree in real time, `virtual_time` and `simulate`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.world import World
from tests.internals.testing import EPOCH


EPOCH_DATE = datetime.fromtimestamp(EPOCH, UTC)


def unavailable(until: datetime) -> httpx.HTTPStatusError:
    """A 503 whose Retry-After names a moment; the answer says nothing of its own clock."""
    headers = {"Retry-After": format_datetime(until, usegmt=True)}
    request = httpx.Request("GET", "http://host/")
    response = httpx.Response(503, headers=headers, request=request)
    return httpx.HTTPStatusError("503", request=request, response=response)


def failing_once(error: Callable[[], Exception]) -> Callable[[], Any]:
    """An async function that raises, and then returns."""
    errors = [error]

    async def fetch() -> str:
        if errors:
            failure = errors.pop()()
            raise failure
        return "ok"

    return rb.Policy(rb.Retry(backoff=rb.Backoff.constant(1)))(fetch, idempotent=True)


def simulated(main: Callable[..., Any], seed: int = 0) -> Any:
    async def run(_server: object) -> Any:
        return await main()

    return rb.testing.simulate(run, seed=seed)


# ---- E03: two clocks -------------------------------------------------------------------------------------------------


def test_e03_a_date_in_retry_after_is_read_by_the_simulated_clock():
    """60 s ahead of it is a wait of 60 s, whatever the host's clock shows."""

    async def main() -> float:
        started = asyncio.get_running_loop().time()
        date = EPOCH_DATE + timedelta(seconds=int(started) + 60)
        assert await failing_once(lambda: unavailable(date))() == "ok"
        return asyncio.get_running_loop().time()

    assert simulated(main) == pytest.approx(60, abs=0.001)


async def test_e03_a_date_in_retry_after_is_read_by_the_virtual_clock():
    """After 90 virtual seconds a date 100 s from the beginning is 10 s away."""
    start = datetime(2027, 5, 6, tzinfo=UTC)
    with rb.testing.virtual_time(start=start) as clock:
        clock.advance(90)
        assert await failing_once(lambda: unavailable(start + timedelta(seconds=100)))() == "ok"
    assert clock.slept == [10]


def test_e03_an_event_is_stamped_by_the_clock_of_its_world():
    """Two waits of a second lie a second apart."""

    async def main() -> list[rb.events.Event]:
        with rb.testing.record(calls=True) as events:
            await failing_once(ConnectionRefusedError)()
            await failing_once(ConnectionRefusedError)()
        return events

    for events in (simulated(main), in_virtual_time(main)):
        times = [event.at for event in events]
        assert (times[-1] - times[0]).total_seconds() == pytest.approx(2)
    assert simulated(main)[0].at == EPOCH_DATE + timedelta(seconds=0)


def in_virtual_time(main: Callable[..., Any]) -> Any:
    async def run() -> Any:
        with rb.testing.virtual_time(seed=3):
            return await main()

    return asyncio.run(run())


# ---- E03: a seed repeats all of it -----------------------------------------------------------------------------------


def everything(directory: Path) -> Callable[[rb.testing.BridgeServer], Any]:
    """A program that uses most of the package, and returns what it saw."""

    async def main(server: rb.testing.BridgeServer) -> list[str]:
        keys: list[str] = []
        with rb.testing.record(calls=True) as events:
            await calls(keys)
            await requests(keys)
            await a_workflow(directory)
            await a_bridge(server)
        return [*map(repr, events), *keys]

    return main


async def calls(keys: list[str]) -> None:
    """Retries with jitter, a circuit, a fallback, a tool, and the idempotency key of each."""
    toolbox = rb.agent.Toolbox(rb.Policy(rb.Retry(attempts=2)))

    @toolbox.tool(idempotent=True)
    async def search() -> None:
        keys.append(rb.current_attempt().idempotency_key)
        raise ConnectionResetError

    policy = rb.Policy(
        rb.Fallback(lambda: "spare"), rb.Retry(attempts=3), rb.Breaker.consecutive(2)
    )

    async def fetch() -> None:
        keys.append(rb.current_attempt().idempotency_key)
        raise ConnectionRefusedError

    for _ in range(2):
        assert await policy(idempotent=True).call(fetch) == "spare"
        await toolbox.call("search", {})


async def requests(keys: list[str]) -> None:
    """A POST gets a key of its own."""

    async def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        return httpx.Response(503 if len(keys) % 2 else 200)

    transport = rb.HTTPTransport(rb.Policy(rb.Retry()), inner=httpx.MockTransport(answer))
    async with httpx.AsyncClient(transport=transport) as client:
        await client.post("http://host/", extensions={"rb.idempotent": True})


async def a_workflow(directory: Path) -> None:
    """Its run has an id, and its file its times."""
    flow = rb.agent.Workflow(directory / "flow.json")

    @flow.phase
    async def only() -> str:
        return "done"

    await flow.run()
    for path in directory.iterdir():
        path.unlink()


async def a_bridge(server: rb.testing.BridgeServer) -> None:
    """Messages both ways, and a lost connection in between."""
    async with rb.BridgeClient(server.url, token="good") as bridge:
        receipt = await bridge.send("note", {"n": 1})
        await receipt.confirmed(timeout=30)
        asyncio.get_running_loop().cut_links("abort")
        receipt = await bridge.send("note", {"n": 2})
        await receipt.confirmed(timeout=60)


def test_e03_two_runs_of_a_seed_are_equal_in_every_event_key_and_wait(tmp_path):
    """And another seed is another run."""
    first, second, other = (
        rb.testing.simulate(everything(tmp_path), seed=seed) for seed in (7, 7, 8)
    )
    assert first == second
    assert len(first) > 30
    assert first != other


# ---- E02: parallel waits ---------------------------------------------------------------------------------------------

WAIT = 0.05
"""In seconds, of real time: ten of them are longer than the deadline of five."""


async def ten_in_parallel(wait: float) -> list[str]:
    """Ten calls that wait once, under a deadline that five waits fit into."""
    policy = rb.Policy(rb.Deadline(5 * wait), rb.Retry(backoff=rb.Backoff.constant(wait)))

    async def step(number: int) -> str:
        failed = [number]

        async def work() -> str:
            if failed:
                raise ConnectionRefusedError(failed.pop())
            return f"{number}: ok"

        return await policy(work, idempotent=True)()

    return await asyncio.gather(*map(step, range(10)))


@pytest.mark.parametrize("world", ["real", "virtual", "simulated"])
def test_e02_parallel_waits_overlap(world):
    """In real time as in virtual time as in a simulation."""
    run = {
        "real": lambda: asyncio.run(ten_in_parallel(1)),
        "virtual": lambda: in_virtual_time(lambda: ten_in_parallel(1)),
        "simulated": lambda: simulated(lambda: ten_in_parallel(1)),
    }[world]
    assert run() == [f"{number}: ok" for number in range(10)]


async def test_e02_the_clock_moves_to_the_earliest_wait():
    """Waits of 3, 1 and 2 s end in the order of their length, 3 s after they began; each is listed once."""
    ends: list[tuple[int, float]] = []

    async def step(seconds: int) -> None:
        await failing_once(lambda: unavailable_for(seconds))()
        ends.append((seconds, clock.now - began))

    with rb.testing.virtual_time() as clock:
        began = clock.now
        await asyncio.gather(*map(step, (3, 1, 2)))
    assert ends == [(1, 1), (2, 2), (3, 3)]
    assert sorted(clock.slept) == [1, 2, 3]


def unavailable_for(seconds: int) -> Exception:
    request = httpx.Request("GET", "http://host/")
    response = httpx.Response(503, headers={"Retry-After": str(seconds)}, request=request)
    return httpx.HTTPStatusError("503", request=request, response=response)


async def test_e02_work_that_is_ready_goes_before_a_wait_ends():
    """A task that only gives way is not overtaken by a wait of a second."""
    order: list[str] = []

    async def working() -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        order.append("worked")

    async def waiting() -> None:
        await failing_once(ConnectionRefusedError)()
        order.append("waited")

    with rb.testing.virtual_time():
        await asyncio.gather(waiting(), working())
    assert order == ["worked", "waited"]


async def test_e02_a_wait_that_is_cancelled_moves_nothing():
    """Nobody waits any more: the clock stays where it is, and goes on with the next wait."""
    with rb.testing.virtual_time() as clock:
        began = clock.now
        waiting = asyncio.create_task(failing_once(ConnectionRefusedError)())
        while not clock.slept:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        for _ in range(5):
            await asyncio.sleep(0)
        assert clock.now == began
        await failing_once(ConnectionRefusedError)()
        assert clock.now == began + 1


async def test_e02_a_test_that_polls_is_not_waited_for():
    """Something is ready at every turn: after a thousand of them the wait ends all the same."""
    with rb.testing.virtual_time() as clock:
        waiting = asyncio.create_task(failing_once(ConnectionRefusedError)())
        while not waiting.done():
            await asyncio.sleep(0)
    assert (waiting.result(), clock.slept) == ("ok", [1])


def test_e02_a_loop_that_was_closed_in_the_middle_of_a_wait_stops_nothing():
    """The next loop under the same clock waits as if the first had never been."""
    with rb.testing.virtual_time() as clock:
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(failing_once(ConnectionRefusedError)())
        while not clock.slept:
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        assert asyncio.run(failing_once(ConnectionRefusedError)()) == "ok"
    assert clock.slept == [1, 1]
    waiting._log_destroy_pending = False
    waiting.get_coro().close()


# ---- E09: disabled ---------------------------------------------------------------------------------------------------


class Busy(Exception):  # noqa: N818
    """An error that the policy repeats."""


POLICY = rb.Policy(
    rb.Retry(attempts=3, on=Busy, backoff=rb.Backoff.constant(5)),
    rb.Breaker.consecutive(1, key="e09"),
)


def test_e09_disabled_holds_for_a_block():
    """Its body runs once, nothing waits, and the circuit hears nothing."""
    runs: list[int] = []
    with rb.testing.virtual_time() as clock, rb.testing.disabled():
        with pytest.raises(Busy):
            for attempt in POLICY.attempts(idempotent=True):
                with attempt:
                    runs.append(attempt.number)
                    raise Busy
        assert rb.calls.circuit("e09").state == "closed"
    assert (runs, clock.slept) == ([1], [])


async def test_e09_disabled_holds_for_an_async_block():
    """The same, and a block that ends well ends the loop."""
    runs: list[int] = []
    with rb.testing.virtual_time() as clock, rb.testing.disabled():
        with pytest.raises(Busy):
            async for attempt in POLICY.attempts(idempotent=True):
                with attempt:
                    runs.append(attempt.number)
                    raise Busy
        async for attempt in POLICY.attempts(idempotent=True):
            with attempt:
                runs.append(attempt.number)
    assert (runs, clock.slept) == ([1, 1], [])


async def test_a_sleep_that_a_test_replaces_is_the_one_that_waits_until_then():
    """Many tests skip waits so; one that does it at the first wait of all changes no later one."""
    world, slept = World(), []

    async def skipped(seconds: float) -> None:
        slept.append(seconds)

    with mock.patch("asyncio.sleep", skipped):
        await world.asleep(3600)
    with mock.patch("asyncio.sleep", skipped):
        await world.asleep(60)
    await world.asleep(0.001)
    assert slept == [3600, 60]
