"""What our users test with: virtual time, injected failures, recorded events, policies switched off; each for its context alone."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import PASS, disabled, inject, record, virtual_time
from tests.calls.forms import ASYNC, Server, at_once, both, settle


REFUSED = ConnectionRefusedError


# ---- virtual_time ----------------------------------------------------------------------------------------------------


@both
def test_waits_take_no_time_and_are_noted(form):
    """`slept` lists them, and the clock has moved by their sum."""
    with virtual_time() as clock:
        began = clock.now
        form.run(
            rb.Policy(rb.Retry(backoff=rb.Backoff.steps(1, 2, 5)))(
                form.of(Server(*[REFUSED] * 3).get), idempotent=True
            )
        )
        assert clock.slept == [1, 2, 5]
        assert clock.now - began == 8


def test_time_stands_still_by_itself():
    """Only a wait or `advance` moves it."""
    with virtual_time() as clock:
        began = clock.now
        rb.Policy(at_once(), rb.Breaker())(idempotent=True).call(Server().get)
        assert clock.now == began
        clock.advance(2.5)
        assert clock.now == began + 2.5
        assert clock.slept == []


async def test_steps_add_up():
    """A limit of 3 s is over after three steps of a second, whatever the machine's clock shows: it begins at a whole second."""

    async def hang():
        await asyncio.get_running_loop().create_future()

    for _ in range(20):
        with virtual_time() as clock:
            assert clock.now == int(clock.now)
            call = asyncio.create_task(rb.Policy(rb.Timeout(3)).call(hang))
            for _ in range(3):
                await settle()
                clock.advance(1)
            with pytest.raises(rb.errors.AttemptTimeoutError):
                await call


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf")])
def test_time_goes_forward_only(wrong):
    """ConfigError for anything else."""
    with virtual_time() as clock, pytest.raises(rb.ConfigError, match="advance"):
        clock.advance(wrong)


async def test_a_limit_ends_when_the_time_comes_by():
    """A Timeout fires in `advance`, and when another call's wait passes its end."""

    async def hang():
        await asyncio.get_running_loop().create_future()

    with virtual_time() as clock:
        get = rb.Policy(rb.Timeout(5))(hang)
        first = asyncio.create_task(get())
        await settle()
        clock.advance(5)
        with pytest.raises(rb.errors.AttemptTimeoutError):
            await first
        second = asyncio.create_task(get())
        await settle()
        await rb.Policy(rb.Retry(backoff=rb.Backoff.constant(9)))(
            ASYNC.of(Server(REFUSED).get), idempotent=True
        )()
        with pytest.raises(rb.errors.AttemptTimeoutError):
            await second


async def test_a_call_that_lets_its_own_time_pass():
    """A function that advances the clock itself is cut off where it next gives way, and nobody is when it does not."""
    with virtual_time() as clock:
        policy = rb.Policy(rb.Timeout(5))

        async def waits():
            clock.advance(6)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        async def returns():
            clock.advance(6)
            return "ok"

        async def main(body):
            result = await policy(body)()
            await settle()
            return result

        with pytest.raises(rb.errors.AttemptTimeoutError):
            await asyncio.create_task(main(waits))
        assert await asyncio.create_task(main(returns)) == "ok"


@pytest.mark.parametrize(
    ("layer", "error"),
    [(rb.Timeout(10), rb.errors.AttemptTimeoutError), (rb.Deadline(10), rb.DeadlineExceededError)],
    ids=["timeout", "deadline"],
)
def test_x01_a_limit_ends_a_sleep_of_the_function_itself(layer, error):
    """It fires when as many seconds pass in the loop, and the policies' clock is then at its end. The loop is simulated: nothing waits."""

    async def main(_server):
        began = asyncio.get_running_loop().time()
        with virtual_time() as clock:
            with pytest.raises(error):
                await rb.Policy(layer).call(asyncio.sleep, 300)
            return asyncio.get_running_loop().time() - began, clock.elapsed, clock.slept

    assert rb.testing.simulate(main) == (10, 10, [])


def test_x01_a_limit_counts_the_seconds_of_both_clocks_once():
    """After four virtual seconds of ten it still takes ten of the loop's; a call that ends in time leaves the clock alone."""

    async def main(_server):
        began = asyncio.get_running_loop().time()
        with virtual_time() as clock:
            call = asyncio.create_task(rb.Policy(rb.Timeout(10)).call(asyncio.sleep, 300))
            await settle()
            clock.advance(4)
            with pytest.raises(rb.errors.AttemptTimeoutError):
                await call
            assert (asyncio.get_running_loop().time() - began, clock.elapsed) == (10, 10)
            await rb.Policy(rb.Timeout(10)).call(asyncio.sleep, 9)
            await asyncio.sleep(60)
            assert clock.elapsed == 10

    rb.testing.simulate(main)


def test_x01_a_limit_of_a_tool_and_of_a_stream():
    """The limit of a Toolbox' tool, and the time between two items of a stream."""
    toolbox = rb.agent.Toolbox()

    @toolbox.tool(timeout=10)
    async def slow() -> None:
        await asyncio.sleep(300)

    @rb.Policy(rb.Timeout(60, idle=5))
    async def items():
        yield 1
        await asyncio.sleep(300)
        yield 2

    async def main(_server):
        loop = asyncio.get_running_loop()
        with virtual_time():
            began = loop.time()
            answer = await toolbox.call("slow", {})
            tool, began = loop.time() - began, loop.time()
            with pytest.raises(rb.errors.AttemptTimeoutError):
                assert [item async for item in items()] == [1]
        return answer.failure.code, tool, loop.time() - began

    assert rb.testing.simulate(main) == ("TOOL_TIMEOUT", pytest.approx(10, abs=0.1), 5)


async def test_x01_a_loop_that_was_stopped_for_longer_than_a_limit_ends_no_call_that_goes_on():
    """As on a busy machine: what is ready runs first, and the call ends well."""

    async def long() -> str:
        time.sleep(0.03)
        for _ in range(50):
            await asyncio.sleep(0)
        return "ok"

    with virtual_time() as clock:
        assert await rb.Policy(rb.Timeout(0.01)).call(long) == "ok"
    assert clock.elapsed == 0


def test_a_limit_of_a_loop_that_is_gone_does_no_harm():
    """Time goes on after `asyncio.run` has ended, past the end of what ran in it."""
    with virtual_time() as clock:
        assert asyncio.run(rb.Policy(rb.Timeout(5)).call(ASYNC.of(Server().get))) == "ok"
        clock.advance(10)
        assert asyncio.run(rb.Policy(rb.Timeout(5)).call(ASYNC.of(Server().get))) == "ok"


def test_it_is_the_time_of_its_context():
    """Not of another thread, and of the outer one again after an inner one."""
    with virtual_time() as outer:
        with virtual_time() as inner:
            inner.advance(100)
            rb.Policy(rb.Retry(backoff=rb.Backoff.constant(3)))(idempotent=True).call(
                Server(REFUSED).get
            )
        assert (inner.slept, outer.slept) == ([3], [])
        seen = []
        get = rb.Policy(rb.Deadline(50))(lambda: seen.append(rb.current_attempt().remaining))
        thread = threading.Thread(target=get)
        thread.start()
        thread.join()
        get()
    assert seen[0] < 50  # real time has passed in that thread
    assert seen[1] == 50


def test_circuits_from_before_keep_their_time():
    """One that opened a moment ago in real time is open in virtual time, until that has passed."""
    get = rb.Policy(rb.Breaker.consecutive(1, open_for=60))(Server(REFUSED).get)
    with pytest.raises(REFUSED):
        get()
    with virtual_time() as clock:
        with pytest.raises(rb.CircuitOpenError):
            get()
        clock.advance(60)
        assert get() == "ok"


def test_it_may_be_exited_in_another_context_than_it_was_entered():
    """As fixtures are."""
    clock = virtual_time()

    async def enter():
        clock.__enter__()

    async def leave():
        clock.__exit__(None, None, None)

    asyncio.run(enter())
    asyncio.run(leave())
    assert rb.current_attempt() is None


@both
def test_it_changes_nothing_around(form):
    """Inside of a protected call its deadline goes on, in the new time, and its Retry still counts the calls of those inside."""
    server = Server(always=REFUSED)

    def body():
        with virtual_time():
            rb.Policy(at_once(attempts=3))(server.get, idempotent=True)()

    with pytest.raises(REFUSED):
        form.run(rb.Policy(at_once(attempts=2))(form.of(body), idempotent=True))
    assert server.calls == 3  # the largest count of the two, not 2 x 3


# ---- inject ----------------------------------------------------------------------------------------------------------


@both
def test_calls_go_as_written(form):
    """An exception, its class, a status, PASS: one step a call; after the last one calls go through."""
    server = Server()
    error = REFUSED("this one")
    get = rb.Policy(at_once(attempts=9))(form.of(server.get), idempotent=True)
    with (
        inject(get, error, ConnectionResetError, 503, PASS, REFUSED) as injected,
        record() as recorded,
    ):
        assert form.run(get) == "ok"
        assert (injected.calls, server.calls) == (4, 1)
        assert form.run(get) == "ok"
        assert form.run(get) == "ok"
    assert (injected.calls, server.calls) == (7, 3)
    failures = [event.failure for event in recorded if isinstance(event, rb.events.RetryScheduled)]
    assert [failure.code for failure in failures] == [
        "CONN_REFUSED",
        "CONN_RESET",
        "SYS_UNAVAILABLE",
        "CONN_REFUSED",
    ]
    assert failures[0].cause is error
    assert failures[2].details["http_status"] == 503


@both
def test_a_policy_stands_for_all_its_functions(form):
    """Injected into a Policy, the script is that of every function behind it, and of its `call`."""
    policy = rb.Policy(rb.Breaker(window=99, rate=1))
    one, other = policy(form.of(Server().get)), policy(form.of(Server().get))
    with inject(policy, REFUSED, REFUSED, REFUSED):
        for protected in (one, other):
            with pytest.raises(REFUSED):
                form.run(protected)
        with pytest.raises(REFUSED):
            form.run(policy(idempotent=True).call, form.of(Server().get))
        assert form.run(one) == "ok"


@both
def test_the_seed_is_that_of_the_time_around(form):
    """Injected inside of virtual time: the same seed, the same waits."""

    def waits(seed):
        get = rb.Policy(rb.Retry(backoff=rb.Backoff.exponential(1)))(
            form.of(Server().get), idempotent=True
        )
        with virtual_time(seed=seed) as clock, inject(get, REFUSED, REFUSED, REFUSED):
            form.run(get)
        return clock.slept

    assert waits(1) == waits(1) != waits(2)


@both
def test_only_the_target_is_hit(form):
    """Another function behind an equal policy goes through, and so does everything after the block."""
    policy = rb.Policy(rb.Breaker())
    target, other = policy(form.of(Server().get)), policy(form.of(Server().get))
    with inject(target, *[REFUSED] * 5):
        assert form.run(other) == "ok"
        with pytest.raises(REFUSED):
            form.run(target)
    assert form.run(target) == "ok"


def test_a_generator_can_be_hit_too():
    """Before its first item."""

    @rb.Policy(at_once())(idempotent=True)
    def items():
        yield 1

    with inject(items, REFUSED, REFUSED) as injected:
        assert list(items()) == [1]
    assert injected.calls == 3


def test_injection_does_not_reach_another_thread():
    """It belongs to its context."""
    get = rb.Policy(rb.Breaker())(Server().get)
    results = []
    with inject(get, REFUSED):
        thread = threading.Thread(target=lambda: results.append(get()))
        thread.start()
        thread.join()
    assert results == ["ok"]


@pytest.mark.parametrize("script", [[200], [True], ["REFUSED"], [None], [600]], ids=repr)
def test_a_step_that_is_none_is_refused(script):
    """ConfigError names its place in the script."""
    get = rb.Policy(rb.Breaker())(Server().get)
    with pytest.raises(rb.ConfigError, match=r"inject\.script\[1\]"), inject(get, PASS, *script):
        pass


def test_a_target_without_a_policy_is_refused():
    """A bare function cannot be reached."""
    with pytest.raises(rb.ConfigError, match=r"inject\.target"), inject(Server().get, REFUSED):
        pass


async def test_an_injected_class_without_arguments_is_made():
    """A class that takes no message is made without one."""

    class NoArgumentsError(Exception):
        def __init__(self):
            super().__init__("made")

    get = rb.Policy(rb.Breaker())(ASYNC.of(Server().get))
    with inject(get, NoArgumentsError), pytest.raises(NoArgumentsError, match="made"):
        await get()


# ---- disabled and record ---------------------------------------------------------------------------------------------


@both
def test_disabled_nothing_is_protected(form):
    """One call, no layer asked, no event told; protected again afterwards."""
    server = Server(always=REFUSED)
    get = rb.Policy(at_once(), rb.Breaker.consecutive(1), rb.RateLimit(1, per=3600))(
        form.of(server.get), idempotent=True
    )
    with disabled(), record() as recorded:
        for _ in range(3):
            with pytest.raises(REFUSED):
                form.run(get)
    assert (server.calls, recorded) == (3, [])
    assert rb.calls.circuit(get).state == "closed"
    with pytest.raises(REFUSED):
        form.run(get)
    assert rb.calls.circuit(get).state == "open"


def test_record_lists_events_in_order():
    """Those inside of the block, and no more after it."""
    get = rb.Policy(at_once())(Server(REFUSED, None, REFUSED).get, idempotent=True)
    with record() as recorded:
        get()
    seen = list(recorded)
    get()
    assert recorded == seen
    assert [type(event).__name__ for event in recorded] == ["RetryScheduled", "RetryRecovered"]


def test_policies_live_by_the_clock_of_a_simulation():
    """Waits, deadlines and open circuits go by the simulated loop, and the same seed makes the same waits."""

    def run(seed):
        async def main(server):
            loop, instants = asyncio.get_running_loop(), []

            @rb.Policy(
                rb.Deadline(100), rb.Retry(attempts=3), rb.Breaker.consecutive(3, open_for=60)
            )(idempotent=True)
            async def down():
                instants.append(loop.time())
                raise ConnectionRefusedError

            with pytest.raises(ConnectionRefusedError):
                await down()
            assert rb.calls.circuit(down).retry_after == pytest.approx(60)
            await asyncio.sleep(61)
            with pytest.raises(ConnectionRefusedError):
                await down()
            return instants

        return rb.testing.simulate(main, seed=seed)

    first = run(3)
    assert first == run(3) != run(4)
    assert 0 < first[1] - first[0] <= 0.3
    assert 1 <= first[2] - first[1] <= 3
