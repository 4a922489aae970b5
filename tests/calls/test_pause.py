"""E04: a 429 with Retry-After pauses every call of its function, client or origin, costs no budget and opens no circuit."""

from __future__ import annotations

import asyncio
import time
from collections import deque

import httpx
import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, both, http_error, settle
from tests.internals.calls import PAUSED
from tests.internals.telemetry import name_in_words


def limiter(per_second, clock):
    """An API that serves `per_second` requests in any second, and answers the rest with 429 and Retry-After: 1."""
    served: deque[float] = deque()
    asked: list[int] = []

    def answer(request):
        now = clock()
        while served and served[0] <= now - 1:
            served.popleft()
        is_served = len(served) < per_second
        asked.append(200 if is_served else 429)
        if is_served:
            served.append(now)
            return httpx.Response(200)
        return httpx.Response(429, headers={"Retry-After": "1"})

    return answer, asked


async def work(client, jobs, workers):
    """Run the jobs with `workers` workers; return the statuses."""
    queue, statuses = list(range(jobs)), []

    async def worker():
        while queue:
            number = queue.pop()
            response = await client.post(f"https://shop.example/{number}", json={})
            statuses.append(response.status_code)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(worker())
    return statuses


@pytest.mark.parametrize(
    "policy", [None, rb.Policy(rb.Retry(attempts=6), rb.Breaker())], ids=["default", "6"]
)
def test_e04_a_storm_is_one_pause(policy):
    """200 jobs of 20 workers at 50 a second: all are served with at most 1.3 requests per job, no open circuit, no spent budget."""

    async def main(world):
        answer, asked = limiter(50, asyncio.get_running_loop().time)

        async def slowly(request):
            await asyncio.sleep(0.005)
            return answer(request)

        value = {} if policy is None else {"policy": policy}
        transport = rb.HTTPTransport(inner=httpx.MockTransport(slowly), **value)
        seen: list[rb.events.Event] = []
        with rb.listen(seen.append):
            async with httpx.AsyncClient(transport=transport) as client:
                statuses = await work(client, 200, 20)
        return (
            statuses,
            asked,
            [event for event in seen if name_in_words(event) == "circuit opened"],
        )

    statuses, asked, opened = rb.testing.simulate(main, seed=1)
    assert (statuses, opened) == ([200] * 200, [])
    assert len(asked) <= 260


@both
def test_e04_one_retry_after_pauses_all_calls(form):
    """The second call of the function waits for the end of the pause, and then makes one attempt."""
    server = Server(http_error(429, retry_after="10"), None, None)
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Retry(attempts=1))(form.of(server.get), idempotent=True)
        with pytest.raises(httpx.HTTPStatusError):
            form.run(get)
        assert clock.slept == []
        form.run(get)
        assert (clock.slept == [10] or 10 <= clock.slept[0] <= 11, len(clock.slept)) == (True, 1)
        form.run(get)
    assert len(clock.slept) == 1


@both
@pytest.mark.parametrize("layers", [(rb.Deadline(5),), ()], ids=["deadline", "max_retry_after"])
def test_e04_no_call_waits_longer_than_its_limit(form, layers):
    """With a pause of 10 s and a limit of 5 s the call is rejected at once, without an attempt, with `retry_after`."""
    server = Server(http_error(429, retry_after="10"))
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Retry(attempts=1))(form.of(server.get), idempotent=True)
        with pytest.raises(httpx.HTTPStatusError):
            form.run(get)
        retry = rb.Retry(attempts=1, max_retry_after=120 if layers else 5)
        get.policy = rb.Policy(*layers, retry)
        with pytest.raises(rb.errors.ThrottledError) as raised:
            form.run(get)
    assert (clock.slept, server.calls) == ([], 1)
    assert raised.value.retry_after == 10
    assert raised.value.failure.executed == "no"


@both
def test_e04_a_pause_above_the_ceiling_is_none(form):
    """A Retry-After of an hour pauses no other call: each call gets the error of its own attempt."""
    server = Server(always=http_error(429, retry_after="3600"))
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Retry())(form.of(server.get), idempotent=True)
        for _ in range(2):
            with pytest.raises(httpx.HTTPStatusError):
                form.run(get)
    assert (clock.slept, server.calls) == ([], 2)


@both
def test_e04_it_costs_no_budget_and_opens_no_circuit(form):
    """Fifty calls get one Retry-After each, with a budget for no retry."""
    refused = [http_error(429, retry_after="1"), None] * 50
    server = Server(*refused)
    with rb.testing.virtual_time():
        retry = rb.Retry(budget=rb.RetryBudget(ratio=0.01, floor=0), backoff=rb.Backoff.constant(0))
        get = rb.Policy(retry, rb.Breaker.consecutive(1))(form.of(server.get), idempotent=True)
        for _ in range(50):
            form.run(get)
        assert rb.calls.circuit(get).state == "closed"
    assert server.calls == 100


async def test_a_shorter_hint_does_not_end_a_longer_pause():
    """Two calls are under way: the one that is told 10 s ends first, the other is told 2 s; the next call waits for the 10 s."""
    with rb.testing.virtual_time() as clock:
        policy = rb.Policy(rb.Retry(attempts=1, backoff=rb.Backoff.constant(0)))
        hints = [http_error(429, retry_after="10"), http_error(429, retry_after="2"), None]

        @policy(idempotent=True)
        async def get():
            error = hints.pop(0)
            await settle()
            if error is not None:
                raise error

        outcomes = await asyncio.gather(get(), get(), return_exceptions=True)
        assert [type(each) for each in outcomes] == [httpx.HTTPStatusError] * 2
        await get()
    assert clock.slept == [10]


async def test_e04_a_pause_that_grows_is_waited_for_again():
    """If another call gets a longer Retry-After meanwhile, waiting calls wait for that too."""
    with rb.testing.virtual_time() as clock:
        policy = rb.Policy(rb.Retry(attempts=1, backoff=rb.Backoff.constant(0)))
        server = Server(http_error(429, retry_after="10"), http_error(429, retry_after="10"), None)

        async def get():
            return server.get()

        protected = policy(get, idempotent=True)
        with pytest.raises(httpx.HTTPStatusError):
            await protected()
        waiting = [asyncio.create_task(protected()) for _ in range(2)]
        await settle()
        clock.advance(10)
        await settle()
        assert server.calls <= 3
        clock.advance(20)
        await asyncio.wait(waiting)
    assert server.calls == 3


_RETRY = rb.Retry(attempts=2)
KEYED = [
    rb.Policy(rb.Retry(attempts=2, budget=rb.RetryBudget(key="all"))),
    rb.Policy(_RETRY, rb.Breaker(key="all")),
    rb.Policy(_RETRY, rb.Bulkhead(9, key="all")),
    rb.Policy(_RETRY, rb.RateLimit(99, key="all")),
]


@pytest.mark.parametrize("policy", KEYED, ids=["budget", "breaker", "bulkhead", "rate limit"])
def test_c01_a_429_of_one_host_does_not_stop_the_calls_to_another(policy):
    """Hosts that share a budget, a circuit, a bulkhead or a rate limit share that, and no pause."""
    hosts = []

    def answer(request):
        hosts.append(request.url.host)
        is_busy = request.url.host == "a.test"
        return httpx.Response(
            429 if is_busy else 200, headers={"Retry-After": "30"} if is_busy else {}
        )

    async def main(_):
        clock = asyncio.get_running_loop().time
        async with httpx.AsyncClient(
            transport=rb.HTTPTransport(policy, httpx.MockTransport(answer))
        ) as client:
            busy = asyncio.create_task(client.get("https://a.test/"))
            while not hosts:
                await asyncio.sleep(0)
            await asyncio.sleep(1)
            began = clock()
            assert (await client.get("https://b.test/")).status_code == 200
            waited = clock() - began
            assert (await busy).status_code == 429
        return waited

    assert rb.testing.simulate(main) < 1
    assert hosts == ["a.test", "b.test", "a.test"]


@both
def test_c01_functions_that_share_a_circuit_do_not_share_a_pause(form):
    """The pause after a 429 belongs to the function that got it; `policy.call` has one for its policy."""
    policy = rb.Policy(rb.Retry(attempts=1), rb.Breaker(key="shared circuit"))
    busy, free = Server(always=http_error(429, retry_after="30")), Server()
    with rb.testing.virtual_time() as clock:
        with pytest.raises(httpx.HTTPStatusError):
            form.run(policy(form.of(busy.get), idempotent=True))
        form.run(policy(form.of(free.get), idempotent=True))
        assert clock.slept == []
        with pytest.raises(httpx.HTTPStatusError):
            form.run(policy(idempotent=True).call, form.of(busy.get))
        form.run(policy(idempotent=True).call, form.of(free.get))
        assert sum(clock.slept) >= 30


def test_e04_a_pause_of_virtual_time_is_none_in_real_time():
    """The clocks are separate: a pause in a test's virtual time does not delay later calls."""
    policy = rb.Policy(rb.Retry(attempts=1), rb.Breaker(key="two clocks"))
    server = Server(http_error(429, retry_after="100"), None)
    get = policy(server.get, idempotent=True)
    before = set(PAUSED)
    with rb.testing.virtual_time(), pytest.raises(httpx.HTTPStatusError):
        get()
    assert before == PAUSED, "real calls look for a pause that is none of theirs"
    began = time.monotonic()
    get()
    assert time.monotonic() - began < 60


@pytest.mark.real
@pytest.mark.parametrize("door", ["transport", "decorated"])
async def test_e04_a_storm_on_a_real_socket(door):
    """aiohttp serves 50 a second; 200 jobs by 20 workers, over HTTPTransport and through a decorated function."""
    web = pytest.importorskip("aiohttp.web")
    answer, asked = limiter(50, time.monotonic)

    async def handle(request):
        response = answer(request)
        return web.Response(
            status=response.status_code, headers={**response.headers, "Content-Length": "0"}
        )

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    inner = httpx.AsyncHTTPTransport()
    transport = rb.HTTPTransport(inner=inner) if door == "transport" else inner
    try:
        async with httpx.AsyncClient(transport=transport, base_url=url) as client:
            post = client.post
            if door == "decorated":
                post = rb.Policy(rb.Retry(), rb.Breaker())(client.post, idempotent=True)
            queue, statuses = list(range(200)), []

            async def worker():
                while queue:
                    statuses.append((await post(f"/{queue.pop()}")).status_code)

            async with asyncio.TaskGroup() as group:
                for _ in range(20):
                    group.create_task(worker())
    finally:
        await runner.cleanup()
    assert statuses == [200] * 200
    assert len(asked) <= 260
