"""Fetch many pages politely: a few at a time, a few per second, failures as data.

The rate limit and the bulkhead apply to all pages together; one missing page does not
stop the rest.

    $ python examples/crawler.py
    fetched 18 of 20
    /page/7: HTTP 404
    /page/13: HTTP 404
    at most 4 at once
"""

import asyncio

import httpx

import resilient_bridge as rb


polite = rb.Policy(
    rb.Deadline(120),
    rb.Retry(attempts=3),
    rb.RateLimit(100, per=1, max_wait=60),
    rb.Bulkhead(4, queue=100),
    name="crawler",
)
running = most = 0


async def server(request: httpx.Request) -> httpx.Response:
    """Play the site: two pages are missing, and each request takes a moment."""
    global running, most
    running += 1
    most = max(most, running)
    await asyncio.sleep(0.001)
    running -= 1
    return httpx.Response(404 if request.url.path in {"/page/7", "/page/13"} else 200)


@polite(idempotent=True)
async def fetch(client: httpx.AsyncClient, path: str) -> str:
    response = await client.get(path)
    return response.raise_for_status().text


async def main() -> None:
    paths = [f"/page/{number}" for number in range(20)]
    async with httpx.AsyncClient(
        transport=httpx.MockTransport(server), base_url="https://site.example"
    ) as client:
        pages = [rb.capture(fetch, client, path) for path in paths]
        outcomes = await asyncio.gather(*pages)
    print(f"fetched {sum(outcome.ok for outcome in outcomes)} of {len(paths)}")
    for path, outcome in zip(paths, outcomes, strict=True):
        if outcome.failure is not None:
            print(f"{path}: HTTP {outcome.failure.details['http_status']}")
    print(f"at most {most} at once")


if __name__ == "__main__":
    asyncio.run(main())
