"""Sixteen agents at a provider that takes four calls at once.

It refuses every other call with a 429. A refusal costs the call time, and no
attempt: the transport learns how many calls fit, and no call is lost.

    $ python examples/shared_quota.py
    64 of 64 calls were answered
    never more than 4 at once, and the limit has learnt from refusals
"""

import asyncio

import httpx

import resilient_bridge as rb


class Provider:
    running = most = refused = 0

    async def answer(self, request: httpx.Request) -> httpx.Response:
        if self.running == 4:
            self.refused += 1
            return httpx.Response(429, headers={"retry-after": "0.05"})
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.02)
        self.running -= 1
        return httpx.Response(200, json={"answer": "hello"})


async def agent(client: httpx.AsyncClient) -> int:
    answers = 0
    for _ in range(4):
        response = await client.post("https://api.example/v1/chat", json={"model": "m"})
        answers += response.status_code == 200
    return answers


async def main() -> None:
    provider = Provider()
    transport = rb.HTTPTransport(inner=httpx.MockTransport(provider.answer))
    async with httpx.AsyncClient(transport=transport, timeout=None) as client:
        answered = sum(await asyncio.gather(*(agent(client) for _ in range(16))))
        limits = rb.calls.adaptive_limits()
        status = next(limits[name] for name in limits if "api.example" in name)
    print(f"{answered} of 64 calls were answered")
    learnt = (
        "has learnt" if status.refused == provider.refused > 0 else "has not learnt"
    )
    print(
        f"never more than {provider.most} at once, and the limit {learnt} from refusals"
    )


if __name__ == "__main__":
    asyncio.run(main())
