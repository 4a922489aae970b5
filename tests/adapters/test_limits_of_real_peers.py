"""The adaptive limit against a real server, with real clients: no call is lost, and nothing acts twice that may not."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import anthropic
import httpx
import openai
import pytest
import requests
from aiohttp import web

import resilient_bridge as rb


pytestmark = pytest.mark.real

SECONDS = 0.03


class Quota:
    """An aiohttp server that takes `most` requests at once, or `per_second` with a burst of one, and counts what acted."""

    def __init__(
        self, most=3, *, per_second=None, status=429, headers=None, acts_first=False
    ) -> None:
        self.most, self.per_second, self.status = most, per_second, status
        self.headers, self.acts_first = headers or {}, acts_first
        self.running = self.refused = self.peak = 0
        self.next_at = 0.0
        self.effects: Counter[str] = Counter()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        number = request.headers.get("x-number", "")
        if self.acts_first:
            self.effects[number] += 1
        now = asyncio.get_running_loop().time()
        is_free = self.running < self.most and now >= self.next_at
        if not is_free:
            self.refused += 1
            return web.Response(status=self.status, headers=self.headers)
        if self.per_second is not None:
            self.next_at = now + 1 / self.per_second
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await asyncio.sleep(SECONDS)
        finally:
            self.running -= 1
        if not self.acts_first:
            self.effects[number] += 1
        if request.path.endswith("/chat/completions"):
            return web.json_response({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}]})  # fmt: skip
        return web.json_response({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
                                  "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}})  # fmt: skip


@asynccontextmanager
async def serving(quota):
    """Serve in this loop; yield the address."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", quota.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    finally:
        await runner.cleanup()


@contextmanager
def serving_in_thread(quota):
    """Serve in a thread of its own, for clients that block."""
    ready, address = threading.Event(), []

    async def main():
        async with serving(quota) as url:
            address.append((url, asyncio.get_running_loop(), asyncio.Event()))
            ready.set()
            await address[0][2].wait()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    ready.wait()
    url, loop, over = address[0]
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


async def _of_httpx(url, number, method):
    async with httpx.AsyncClient(
        transport=rb.HTTPTransport(trust_env=False), timeout=None
    ) as client:
        answers = await asyncio.gather(
            *(client.request(method, url, headers={"x-number": str(n)}) for n in range(number))
        )
    return [answer.status_code for answer in answers]


async def _of_aiohttp(url, number, method):
    async with aiohttp.ClientSession(middlewares=[rb.HTTPMiddleware()]) as session:

        async def one(n):
            async with session.request(method, url, headers={"x-number": str(n)}) as answer:
                return answer.status

        return await asyncio.gather(*(one(n) for n in range(number)))


async def _of_requests(url, number, method):
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", rb.HTTPAdapter())

    def one(n):
        return session.request(method, url, headers={"x-number": str(n)}).status_code

    return await asyncio.gather(*(asyncio.to_thread(one, n) for n in range(number)))


CLIENTS = {"httpx": _of_httpx, "aiohttp": _of_aiohttp, "requests": _of_requests}


@pytest.mark.requirement("X14")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"retry-after": "0.1"},
        {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"},
        {"retry-after": "never", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"},
    ],
    ids=["no header", "a time", "the past", "wrong"],
)
def test_no_call_is_lost(client, headers):
    """Twelve at once at a server that takes three: all answered, each acted once."""
    quota = Quota(headers=headers)
    with serving_in_thread(quota) as url:
        statuses = asyncio.run(CLIENTS[client](url, 12, "GET"))
    assert statuses == [200] * 12
    assert set(quota.effects.values()) == {1}
    assert quota.refused <= 40


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("status", [503, 529])
def test_a_post_that_acted_and_was_refused_does_not_act_again(client, status):
    """0 second effects: the answer is returned at once, whatever its Retry-After says."""
    quota = Quota(most=1, status=status, headers={"retry-after": "1"}, acts_first=True)
    with serving_in_thread(quota) as url:
        statuses = asyncio.run(CLIENTS[client](url, 10, "POST"))
    assert set(statuses) <= {200, status}
    assert statuses.count(status) == quota.refused > 0
    assert set(quota.effects.values()) == {1}


async def test_a_function_that_acted_and_met_a_429_does_not_act_again():
    """`idempotent=False`: each runs once, its error is raised, and the next calls are slowed."""
    quota, effects = Quota(most=1, headers={"retry-after": "0.2"}), Counter()
    policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit())
    async with serving(quota) as url, httpx.AsyncClient(trust_env=False) as client:

        @policy(idempotent=False)
        async def pay(number):
            effects[number] += 1
            answer = await client.post(url)
            answer.raise_for_status()

        results = await asyncio.gather(*map(pay, range(10)), return_exceptions=True)
        refused = sum(isinstance(result, httpx.HTTPStatusError) for result in results)
        assert refused == 9
        began = asyncio.get_running_loop().time()
        more = await asyncio.gather(*map(pay, range(10, 13)), return_exceptions=True)
        assert asyncio.get_running_loop().time() - began >= 0.15
    assert set(effects.values()) == {1}
    assert len(more) == 3


async def test_a_server_that_takes_so_many_a_second():
    """Ten a second without any burst: the starts are spaced, and no call is lost."""
    quota = Quota(most=100, per_second=10)
    async with serving(quota) as url:
        statuses = await _of_httpx(url, 15, "GET")
    assert statuses == [200] * 15


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_the_real_clients_of_sdks(kind):
    quota = Quota(status=529 if kind == "anthropic" else 429)
    async with serving(quota) as url:
        made = openai.AsyncOpenAI if kind == "openai" else anthropic.AsyncAnthropic
        client = rb.wrap(made(api_key="k", base_url=url))

        async def one():
            message = {"role": "user", "content": "hi"}
            if kind == "openai":
                return await client.chat.completions.create(model="m", messages=[message])
            return await client.messages.create(model="m", messages=[message], max_tokens=5)

        answers = await asyncio.gather(*(one() for _ in range(12)))
        await client.close()
    assert len(answers) == 12
    assert quota.refused


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_model_call_that_acted_and_may_not_be_repeated_does_not_act_again(kind):
    """`wrap(…, idempotent=False)`: a 429 after the effect is raised at once, and each call acted once."""
    quota = Quota(most=1, headers={"retry-after": "0.2"}, acts_first=True)
    async with serving(quota) as url:
        made = openai.AsyncOpenAI if kind == "openai" else anthropic.AsyncAnthropic
        client = rb.wrap(made(api_key="k", base_url=url), idempotent=False)

        async def one(number):
            message, headers = {"role": "user", "content": "hi"}, {"x-number": str(number)}
            if kind == "openai":
                return await client.chat.completions.create(
                    model="m", messages=[message], extra_headers=headers
                )
            return await client.messages.create(
                model="m", messages=[message], max_tokens=5, extra_headers=headers
            )

        results = await asyncio.gather(*map(one, range(8)), return_exceptions=True)
        await client.close()
    refused = (openai.RateLimitError, anthropic.RateLimitError)
    assert sum(isinstance(result, refused) for result in results) == quota.refused > 0
    assert len(quota.effects) == 8
    assert set(quota.effects.values()) == {1}


async def test_a_limit_that_changes_is_followed():
    """Four at once, then one, then four: nothing is lost, and the server is used again."""
    quota = Quota(most=4, headers={"retry-after": "0.05"})
    async with serving(quota) as url:

        async def change():
            await asyncio.sleep(0.3)
            quota.most = 1
            await asyncio.sleep(0.6)
            quota.most, quota.peak = 4, 0

        changing = asyncio.create_task(change())
        statuses = await _of_httpx(url, 60, "GET")
        await changing
    assert statuses == [200] * 60
    assert set(quota.effects.values()) == {1}
