"""`AdaptiveLimit(throttle=K)`: of calls to a server that refuses most, some are rejected here and never sent."""

from __future__ import annotations

import asyncio

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.errors import ConfigError, ThrottledError
from tests.calls.test_adaptive_limit import run


class Server:
    """Refuses every call, until `refuses` is False."""

    def __init__(self) -> None:
        self.refuses, self.calls = True, 0

    async def answer(self, *_: object) -> object:
        self.calls += 1
        await asyncio.sleep(0.1)
        return httpx.Response(429) if self.refuses else "answer"


class Draws:
    """An rng that always draws the same."""

    def __init__(self, drawn: float) -> None:
        self.drawn = drawn

    def random(self) -> float:
        return self.drawn


def policy(**settings: object) -> rb.Policy:
    return rb.Policy(rb.Retry(attempts=1), rb.AdaptiveLimit(**settings))


async def each_second(ask, number: int, *arguments: object) -> list[object]:
    """Make so many calls, one a second; return their results and errors."""

    async def later(after: int) -> object:
        await asyncio.sleep(after)
        return await ask(*arguments)

    return await asyncio.gather(*(later(n) for n in range(number)), return_exceptions=True)


@pytest.mark.parametrize("throttle", [None, 2])
def test_a_server_that_refuses_everything_is_sent_few_calls(throttle):
    server = Server()
    ask = policy(throttle=throttle, start=1000)(server.answer, idempotent=False)

    async def main():
        return await each_second(ask, 25)

    results, _ = run(main)
    rejected = [each for each in results if isinstance(each, ThrottledError)]
    assert len(rejected) + server.calls == 25
    if throttle is None:
        assert rejected == []
        return
    assert len(rejected) >= 12
    for error in rejected:
        assert error.failure.executed == "no"
        assert error.failure.code == "SYS_THROTTLED"
        assert "accepted 0 of" in str(error)
        assert "(throttle=2)" in str(error)


def test_a_server_that_takes_calls_again_gets_all_of_them_within_ten_minutes():
    """Few get through at first, and of each that does, more; then nothing is counted any more."""
    server = Server()
    ask = policy(throttle=2, start=1000)(server.answer, idempotent=False)

    async def main():
        await each_second(ask, 20)
        server.refuses = False
        during = await each_second(ask, 600)
        return during, await each_second(ask, 20)

    (during, after), _ = run(main)
    assert "answer" in during
    assert set(after) == {"answer"}


def test_it_counts_for_each_limit_by_itself():
    servers = {"a": Server(), "b": Server()}
    servers["b"].refuses = False

    async def ask(name: str) -> object:
        return await servers[name].answer()

    protected = policy(throttle=2, start=1000, key=lambda name: name)(ask, idempotent=False)

    async def main():
        return await asyncio.gather(
            each_second(protected, 25, "a"), each_second(protected, 25, "b")
        )

    (first, second), _ = run(main)
    assert any(isinstance(each, ThrottledError) for each in first)
    assert set(second) == {"answer"}


def test_the_chance_is_that_of_the_book():
    """(requests - K * accepts) / (requests + 1) of the last two minutes; one that is rejected is a request."""
    limits = limits_of(policy(throttle=2, start=1000)(Server().answer, idempotent=True))
    limit = limits.find((), 0.0)
    for _ in range(4):
        limit.counted.turn(1.0)
        limit.counted.count()
    assert not limit.throttles(2, 2.0, Draws(0.0))
    limit.counted.count(12, 12)  # 16, of which 4 were accepted: 8 of 17
    assert not limit.throttles(2, 3.0, Draws(0.48))
    assert not limit.throttles(4, 3.0, Draws(0.0))
    assert limit.throttles(2, 3.0, Draws(0.46))
    assert (limit.counted.seen, limit.counted.failed) == (17, 13)  # 9 of 18
    assert limit.throttles(2, 4.0, Draws(0.49))
    assert not limit.throttles(2, 126.0, Draws(0.0))


def limits_of(function):
    from tests.calls.test_adaptive_limit import limits_of as found

    limits = found(function)
    limits.clock = lambda: 0.0
    return limits


def test_a_refused_call_that_goes_back_is_never_rejected():
    """It was sent: it waits as without `throttle`."""
    server = Server()
    ask = policy(throttle=1.1)(server.answer, idempotent=True)

    async def main():
        call = asyncio.create_task(ask())
        await asyncio.sleep(5)
        server.refuses = False
        return await call

    assert run(main)[0] == "answer"
    assert server.calls > 2


def test_what_is_rejected_is_seen():
    server, heard = Server(), []
    ask = policy(throttle=2, start=1000)(server.answer, idempotent=False)

    async def main():
        results = await each_second(ask, 25)
        return (
            results,
            rb.calls.adaptive_limits(),
            str(ask.explain()),
            rb.telemetry.health_app().status(),
        )

    with rb.listen(heard.append):
        (results, seen, shown, health), _ = run(main)
    number = sum(isinstance(each, ThrottledError) for each in results)
    (status,) = seen.values()
    assert status.throttled == number > 0
    assert status.refused == server.calls
    assert f"{server.calls} refused, {number} throttled" in shown
    assert "throttle=2" in shown
    (row,) = health["adaptive_limits"]
    assert row["throttled"] == number
    rejections = [each for each in heard if isinstance(each, rb.events.CallRejected)]
    assert [each.by for each in rejections] == ["adaptive_limit"] * number


@pytest.mark.parametrize("wrong", [1, 0, -2, "2", True, float("inf")])
def test_a_wrong_number_is_refused(wrong):
    with pytest.raises(
        ConfigError, match=r"AdaptiveLimit\.throttle: wanted a finite number above 1"
    ):
        rb.AdaptiveLimit(throttle=wrong)
