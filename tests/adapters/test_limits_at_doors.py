"""The adaptive limit of HTTP clients and SDKs: on by default, one for each key, and 0 second effects."""

from __future__ import annotations

import asyncio
from collections import Counter

import anthropic
import httpx
import httpx2
import openai
import pytest

import resilient_bridge as rb
from resilient_bridge.errors import ThrottledError


class Provider:
    """A server behind a mock transport: so many at once for each path, `refusal` for the others; effects are counted."""

    def __init__(
        self, most: int = 4, seconds: float = 2.0, status: int = 429, **headers: str
    ) -> None:
        self.most, self.seconds, self.status = most, seconds, status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.running: Counter[str] = Counter()
        self.effects: list[str] = []
        self.refused = self.peak = 0

    async def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.effects.append(request.content.decode())  # it acts, and then it refuses
        if self.running[path] >= self.most:
            self.refused += 1
            await asyncio.sleep(0.1)
            return httpx.Response(self.status, headers=self.headers)
        self.running[path] += 1
        self.peak = max(self.peak, self.running[path])
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.running[path] -= 1
        return httpx.Response(200)


def played(main):
    """Run a coroutine function of a client in virtual time; return its result and the seconds."""

    async def timed(_world):
        began = asyncio.get_running_loop().time()
        return await main(), asyncio.get_running_loop().time() - began

    return rb.testing.simulate(timed)


async def sent(provider, number, policy=None, method="GET", path="/v1/messages", **more):
    """Send so many requests at once, and return the statuses, or the errors."""
    transport = rb.HTTPTransport(policy, httpx.MockTransport(provider.answer))
    async with httpx.AsyncClient(
        transport=transport, base_url="https://api.test", timeout=None
    ) as client:

        async def one(index):
            try:
                return (await client.request(method, path, content=str(index), **more)).status_code
            except Exception as error:  # noqa: BLE001 -- returned
                return error

        return await asyncio.gather(*(one(index) for index in range(number)))


@pytest.mark.requirement("X14")
def test_it_is_on_by_default():
    provider = Provider()
    statuses, seconds = played(lambda: sent(provider, 40))
    assert statuses == [200] * 40
    assert seconds < 26
    assert provider.refused < 80


@pytest.mark.parametrize("policy", [rb.resilient, rb.Policy(rb.Retry(attempts=3))], ids=repr)
def test_a_policy_without_one_has_none(policy):
    """What is given is what applies: there a refusal counts as any failure."""
    statuses, _ = played(lambda: sent(Provider(), 40, policy))
    assert 429 in statuses


@pytest.mark.parametrize("status", [503, 529])
def test_a_post_that_was_answered_503_has_no_second_effect(status):
    """It may have run: the answer is returned at once, and what follows is slowed all the same."""
    provider = Provider(2, status=status, retry_after="1")
    statuses, seconds = played(lambda: sent(provider, 12, method="POST"))
    assert Counter(provider.effects).most_common(1)[0][1] == 1
    assert statuses.count(status) == 10
    assert seconds == pytest.approx(2, abs=0.2)


def test_a_post_that_was_answered_429_is_sent_again_by_convention():
    """And not where the request says `idempotent=False`."""
    statuses, _ = played(lambda: sent(Provider(), 20, method="POST"))
    assert statuses == [200] * 20
    provider = Provider()
    never = {"rb.idempotent": False}
    statuses, seconds = played(lambda: sent(provider, 20, method="POST", extensions=never))
    assert (statuses.count(429), len(provider.effects)) == (16, 20)
    assert seconds == pytest.approx(2, abs=0.2)


def test_a_refusal_that_was_returned_slows_the_next_calls():
    """The first wave of ten is refused and returned; the second is sent one after the other, as the limit allows."""
    provider = Provider(2, status=503)

    async def main():
        transport = rb.HTTPTransport(inner=httpx.MockTransport(provider.answer))
        async with httpx.AsyncClient(
            transport=transport, base_url="https://api.test", timeout=None
        ) as client:
            first = await asyncio.gather(*(client.post("/a", content=b"1") for _ in range(10)))
            provider.refused = 0
            second = await asyncio.gather(*(client.post("/a", content=b"2") for _ in range(10)))
            return Counter(each.status_code for each in first), Counter(
                each.status_code for each in second
            )

    (first, second), _ = played(main)
    assert first[503] == 8
    assert second[503] <= 4


def test_the_quota_of_one_route_does_not_stop_the_others():
    """Two routes of one origin, one of them limited: the other takes no longer than without."""
    provider, ends = Provider(1), {}

    async def main():
        transport = rb.HTTPTransport(inner=httpx.MockTransport(answer))
        async with httpx.AsyncClient(
            transport=transport, base_url="https://api.test", timeout=None
        ) as client:

            async def one(path):
                assert (await client.get(path)).status_code == 200
                ends[path] = asyncio.get_running_loop().time() - began

            began = asyncio.get_running_loop().time()
            await asyncio.gather(*(one(path) for path in ["/limited"] * 10 + ["/free"] * 100))

    async def answer(request):
        if request.url.path == "/free":
            await asyncio.sleep(0.1)
            return httpx.Response(200)
        return await provider.answer(request)

    played(main)
    assert ends["/free"] == pytest.approx(0.1)
    assert ends["/limited"] > 18


def test_two_clients_of_one_key_share_a_limit_and_another_key_has_its_own():
    """A limit belongs to the origin and the credential, whichever transport sends."""
    provider = Provider(2)

    async def main():
        found = []
        for token in ("one", "one", "two"):
            transport = rb.HTTPTransport(inner=httpx.MockTransport(provider.answer))
            found.append(httpx.AsyncClient(transport=transport, base_url="https://api.test", timeout=None,
                                           headers={"authorization": f"Bearer {token}"}))  # fmt: skip
        await asyncio.gather(*(client.get("/a") for client in found for _ in range(4)))
        limits = rb.calls.adaptive_limits()
        for client in found:
            await client.aclose()
        return limits

    limits, _ = played(main)
    named = [name for name in limits if name.startswith("https://api.test ")]
    assert len(named) == 2
    assert not any("Bearer" in name for name in named)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "20"},
        {"ratelimit": '"default";r=0;t=20'},
        {"ratelimit": "limit=100, remaining=0, reset=20"},
        {"ratelimit-remaining": "0", "ratelimit-reset": "20"},
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s"},
    ],
    ids=lambda headers: next(iter(headers)),
)
def test_headers_say_when_a_refused_call_may_come_again(headers):
    answers = [httpx.Response(429, headers=headers), httpx.Response(200)]

    async def main():
        inner = httpx.MockTransport(lambda _: answers.pop(0))
        async with httpx.AsyncClient(transport=rb.HTTPTransport(inner=inner)) as client:
            return (await client.get("https://api.test/")).status_code

    status, seconds = played(main)
    assert status == 200
    assert 20 <= seconds <= 22


@pytest.mark.parametrize(
    "headers",
    [
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "never"},
        {"x-ratelimit-remaining": "5", "x-ratelimit-reset": "20"},
        {"ratelimit": "r=0;t=-5"},
        {"ratelimit": "x" * 100_000},
        {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"},
        {"retry-after": "soon"},
        {},
    ],
    ids=lambda headers: str(headers)[:40],
)
def test_wrong_headers_change_nothing(headers):
    """The own pause applies: half a second at most."""
    answers = [httpx.Response(429, headers=headers), httpx.Response(200)]

    async def main():
        inner = httpx.MockTransport(lambda _: answers.pop(0))
        async with httpx.AsyncClient(transport=rb.HTTPTransport(inner=inner)) as client:
            return (await client.get("https://api.test/")).status_code

    status, seconds = played(main)
    assert (status, 0.2 <= seconds <= 0.55) == (200, True)


def test_a_call_that_ends_without_an_answer_has_the_librarys_class():
    """A ThrottledError of ours is an `httpx.RequestError`, and of an SDK that SDK's base error."""
    policy = rb.Policy(rb.Deadline(5), rb.Retry(), rb.AdaptiveLimit())
    answer = httpx.Response(429, headers={"retry-after": "60"})

    async def main():
        transport = rb.HTTPTransport(policy, httpx.MockTransport(lambda _: answer))
        async with httpx.AsyncClient(transport=transport) as client:
            assert (await client.get("https://api.test/")).status_code == 429
            with pytest.raises(httpx.RequestError) as caught:
                await client.get("https://api.test/")
        return caught.value

    error, _ = played(main)
    assert isinstance(error, ThrottledError)
    assert rb.classify(error).executed == "no"


def chat(_request):
    return httpx2.Response(200, json={"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}]})  # fmt: skip


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_the_clients_of_sdks_lose_no_call(kind):
    """Thirty model calls at a provider that takes three at once, refused by 429 and 529 in turn; each model has its limit."""
    running, refused = [], []

    async def answer(request):
        if len(running) >= 3:
            refused.append(None)
            await asyncio.sleep(0.1)
            return httpx2.Response(529 if len(refused) % 2 else 429)
        running.append(None)
        await asyncio.sleep(1)
        running.pop()
        if kind == "openai":
            return chat(request)
        return httpx2.Response(200, json={"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
                                          "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}})  # fmt: skip

    async def main():
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer), timeout=None)
        made = openai.AsyncOpenAI if kind == "openai" else anthropic.AsyncAnthropic
        client = rb.wrap(made(api_key="key-of-mine", base_url="https://sdk.test", http_client=http))

        async def one():
            message = {"role": "user", "content": "hi"}
            if kind == "openai":
                return await client.chat.completions.create(model="m-1", messages=[message])
            return await client.messages.create(model="m-1", messages=[message], max_tokens=5)

        answers = await asyncio.gather(*(one() for _ in range(30)))
        return len(answers), list(rb.calls.adaptive_limits())

    (number, names), seconds = played(main)
    assert number == 30
    assert seconds < 16
    (name,) = [name for name in names if kind in name]
    assert "m-1" in name
    assert "key-of-mine" not in name


def test_a_response_releases_its_permit_when_its_body_is_closed():
    """While two bodies are open a third request waits; a body that is never closed loses its permit after 30 s."""
    policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit(start=2, most=2))
    inner = httpx.MockTransport(lambda _: httpx.Response(200, stream=httpx.ByteStream(b"x" * 10)))

    async def main():
        loop = asyncio.get_running_loop()
        async with httpx.AsyncClient(transport=rb.HTTPTransport(policy, inner)) as client:
            began, times = loop.time(), []
            opened = [
                await client.send(client.build_request("GET", "https://api.test/a"), stream=True)
                for _ in range(2)
            ]
            loop.call_later(4, asyncio.ensure_future, opened[0].aclose())
            for _ in range(3):
                answer = await client.get("https://api.test/a")
                assert len(answer.content) == 10
                times.append(loop.time() - began)
            forgotten = await client.send(
                client.build_request("GET", "https://api.test/a"), stream=True
            )
            await client.get("https://api.test/a")
            times.append(loop.time() - began)
            await forgotten.aclose()
            await opened[1].aclose()
        return times

    times, _ = played(main)
    assert times == pytest.approx([4, 4, 4, 30])
