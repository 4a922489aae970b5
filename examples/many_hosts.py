"""Ask many hosts through one function: a host that is down costs the others nothing.

Each host has a circuit and a bulkhead of its own, and all answers have to be there
within a minute.

    $ python examples/many_hosts.py
    a.example: 20 of 20
    b.example: 0 of 20, after 3 requests
    c.example: 20 of 20
    b.example is open
"""

import asyncio

import httpx

import resilient_bridge as rb


def host(client: httpx.AsyncClient, name: str, path: str) -> str:
    """Return what a state is for; it gets the arguments of `fetch`."""
    return name


requests: dict[str, int] = {}
each = rb.Policy(
    rb.Retry(attempts=3, backoff=rb.Backoff.constant(0)),
    rb.Bulkhead(1, max_wait=30, key=host),
    rb.Breaker.consecutive(3, open_for=60, key=host),
    name="fetch",
)


async def server(request: httpx.Request) -> httpx.Response:
    """Play the hosts: one of them is down."""
    requests[request.url.host] = requests.get(request.url.host, 0) + 1
    await asyncio.sleep(0)
    return httpx.Response(503 if request.url.host == "b.example" else 200)


@each(idempotent=True)
async def fetch(client: httpx.AsyncClient, name: str, path: str) -> str:
    response = await client.get(f"https://{name}{path}")
    return response.raise_for_status().text


async def main() -> None:
    names = ("a.example", "b.example", "c.example")
    async with (
        httpx.AsyncClient(transport=httpx.MockTransport(server)) as client,
        rb.Deadline(60),
    ):
        for name in names:
            asked = [rb.capture(fetch, client, name, f"/{page}") for page in range(20)]
            ok = sum(outcome.ok for outcome in await asyncio.gather(*asked))
            made = "" if ok else f", after {requests[name]} requests"
            print(f"{name}: {ok} of 20{made}")
    for name in names:
        if (state := rb.calls.circuits()[f"fetch[{name}]"].state) != "closed":
            print(f"{name} is {state}")


if __name__ == "__main__":
    asyncio.run(main())
