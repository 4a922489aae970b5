"""Adaptive limits that processes share through a file: several states of one file, as several processes have, in virtual time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.stores import MachineState
from tests.calls.test_adaptive_limit import REFUSED, Server, run


@pytest.fixture(autouse=True)
def _shares_the_time_of_a_test(monkeypatch):
    monkeypatch.setattr(MachineState, "is_common", lambda _, __: True)


def policies(path: Path, number: int, **settings) -> list[rb.Policy]:
    """Return a policy for each of so many processes."""
    limit = rb.AdaptiveLimit(key="quota", **settings)
    return [rb.Policy(rb.Retry(), limit, state=MachineState(path)) for _ in range(number)]


def functions(path: Path, server: Server, number: int, **settings) -> list:
    return [each(server.answer, idempotent=True) for each in policies(path, number, **settings)]


async def agents(function, agents: int, calls: int) -> list[object]:
    """Make calls one after another in each of so many agents."""

    async def one():
        return [await function() for _ in range(calls)]

    return [
        each for found in await asyncio.gather(*(one() for _ in range(agents))) for each in found
    ]


def test_four_processes_together_are_refused_hardly_more_than_one(tmp_path):
    """16 agents of five calls each at a server that takes four at once: in one process, and four in each of four."""
    alone, together = Server(4), Server(4)
    (single,) = functions(tmp_path / "one", alone, 1)
    results, seconds = run(lambda: agents(single, 16, 5))
    assert set(results) == {"answer"}

    shared = functions(tmp_path / "four", together, 4)

    async def main():
        return await asyncio.gather(*(agents(each, 4, 5) for each in shared))

    found, whole = run(main)
    assert {each for results in found for each in results} == {"answer"}
    assert together.refused <= 1.3 * alone.refused
    assert whole <= 1.25 * seconds


def start_in_turn(found: list[rb.Policy]) -> None:
    """Let calls of two processes, whose limit is one at once, arrive in turn: so they start."""
    server, order = Server(9), []

    async def ask(number):
        order.append(number)
        return await server.answer()

    by_process = [each(ask, idempotent=True) for each in found]

    async def main():
        async def later(number):
            await asyncio.sleep(number / 100)
            return await by_process[number % 2](number)

        return await asyncio.gather(*(later(number) for number in range(10)))

    _, seconds = run(main)
    assert order == sorted(order)
    assert server.peak == 1
    assert seconds < 10 * 2.06  # 0.05 s until another process sees that a place is free


def test_the_earliest_call_of_all_processes_starts_first(tmp_path):
    start_in_turn(policies(tmp_path / "limits", 2, start=1, most=1))


def test_a_call_that_began_before_is_counted_in_a_process_that_only_hears_of_the_limit(tmp_path):
    server = Server(1, seconds=5)
    refused, other = functions(tmp_path / "limits", server, 2)

    async def main():
        running = asyncio.create_task(other())
        await asyncio.sleep(1)
        waiting = asyncio.create_task(refused())  # refused: the limit begins
        await asyncio.sleep(0.2)
        third = asyncio.create_task(other())  # hears of it
        await asyncio.sleep(0.01)
        limits = other.__binding__.operation.limits
        (limit,) = limits.by_key.values()
        counted = limit.earlier
        await asyncio.gather(running, waiting, third)
        return counted, limit.earlier

    (counted, remaining), _ = run(main)
    assert (counted, remaining) == (1, 0)


def test_without_the_file_each_process_goes_on_alone_and_says_so_once(tmp_path):
    path = tmp_path / "limits"
    path.write_bytes(b"notes of somebody else\n")
    server, seen = Server(4), []
    ask = functions(path, server, 1)[0]
    with rb.listen(seen.append):
        results, _ = run(lambda: agents(ask, 8, 3))
    assert set(results) == {"answer"}
    (event,) = [each for each in seen if isinstance(each, rb.events.StoreChanged)]
    assert (event.state, event.degraded) == ("failed", True)
    assert event.failure.code == "SYS_STATE_FOREIGN"
    assert "another program" in event.failure.message
    assert path.read_bytes() == b"notes of somebody else\n"


def test_a_file_that_can_be_used_again_is_used_again(tmp_path):
    path = tmp_path / "limits"
    path.mkdir()
    server, seen = Server(4), []
    ask = functions(path, server, 1)[0]

    async def main():
        first = await agents(ask, 8, 1)
        path.rmdir()
        await asyncio.sleep(40)
        return first + await agents(ask, 8, 1)

    with rb.listen(seen.append):
        results, _ = run(main)
    assert set(results) == {"answer"}
    changed = [each.state for each in seen if isinstance(each, rb.events.StoreChanged)]
    assert changed == ["failed", "working"]
    assert path.is_file()


def test_the_clients_of_an_origin_share_the_limit_of_each_route(tmp_path):
    server = Server(1)

    async def answer(request):
        return httpx.Response(429 if await server.answer() is REFUSED else 200)

    def client():
        policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit(), state=MachineState(tmp_path / "limits"))
        transport = rb.HTTPTransport(policy, inner=httpx.MockTransport(answer))
        return httpx.AsyncClient(transport=transport, base_url="http://api.example.com")

    async def main():
        async with client() as one, client() as other:
            found = await asyncio.gather(*(each.get("/a") for each in (one, one, other, other)))
            return {each.status_code for each in found}, dict(rb.calls.adaptive_limits())

    (statuses, limits), _ = run(main)
    assert statuses == {200}
    assert {name.partition(" #")[0] for name in limits} == {"http://api.example.com GET /a"}
    assert {each.refused for each in limits.values()} == {server.refused}


def test_threads_of_one_process_share_it_too(tmp_path):
    """Two policies with a state of their own each, and four threads; in real time."""
    with ThreadPoolExecutor(4) as pool:
        calls = [
            pool.submit(each(lambda: "answer", idempotent=True))
            for each in policies(tmp_path / "limits", 2, start=1, most=1) * 20
        ]
        assert {call.result(timeout=60) for call in calls} == {"answer"}


def test_explain_says_what_is_shared(tmp_path):
    state = MachineState(tmp_path / "limits")
    policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit(key="quota"), rb.Breaker(), state=state)
    line = next(each for each in policy.explain().lines if each.startswith("shared"))
    assert line == (
        f"shared through {state!r}: the adaptive limit; of this process alone: Retry, Breaker"
    )
    nothing = rb.Policy(rb.Retry(), state=state).explain()
    assert "nothing" in str(nothing)


def test_a_limit_without_a_name_that_all_agree_on_is_refused(tmp_path):
    policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit(), state=MachineState(tmp_path / "limits"))
    with pytest.raises(rb.ConfigError, match="a name that all processes agree on"):
        policy(idempotent=True).call(Server(1).answer)


def test_a_key_that_no_other_process_would_write_alike_is_refused(tmp_path):
    limit = rb.AdaptiveLimit(key=lambda: object(), start=2)  # noqa: PLW0108 -- a new one each time
    policy = rb.Policy(rb.Retry(), limit, state=MachineState(tmp_path / "limits"))
    ask = policy(Server(1).answer, idempotent=True)
    with pytest.raises(rb.ConfigError, match="all processes have to agree"):
        run(ask)
