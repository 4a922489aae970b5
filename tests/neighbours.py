"""Run beside other libraries in an environment of their own (`nox -s neighbours`): `python -m tests.neighbours openai ably ...`.

Rule: it needs nothing of the test extra: a bridge that is cut, a call over HTTP that is repeated, and the neighbours imported, prove that
the versions which they insist on will do.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from importlib.metadata import version

import httpx

import resilient_bridge as rb


async def bridge() -> None:
    """A client of the embedded bridge sends, is cut off, and sends again: over the websockets that is installed."""
    policy = rb.bridge.BridgePolicy(
        reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.05))
    )
    async with (
        rb.testing.BridgeServer() as server,
        rb.BridgeClient(server.url, token="t", policy=policy) as client,
    ):
        await client.wait_ready(timeout=20)
        await (await client.send("note", {"n": 1})).confirmed(timeout=20)
        await server.cut("abort")
        await (await client.send("note", {"n": 2})).confirmed(timeout=20)
    print("bridge: ok, over websockets", version("websockets"))


async def call() -> None:
    """A GET that meets a 503 is made again: over the httpx, with the tenacity, that are installed."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200 if len(asked) > 1 else 503)

    policy = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(0)))
    transport = rb.HTTPTransport(policy, httpx.MockTransport(answer))
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        answered = await client.get("http://127.0.0.1/")
    assert (answered.status_code, len(asked)) == (200, 2), (answered, asked)
    wrapped = rb.wrap(client, policy, methods={"get"})
    assert isinstance(wrapped, httpx.AsyncClient)
    print(
        "call: ok, over httpx",
        version("httpx"),
        "tenacity",
        version("tenacity"),
        "wrapt",
        version("wrapt"),
    )


def main(names: list[str]) -> None:
    """Import the neighbours first, as their users do."""
    for name in names:
        importlib.import_module(name)
        print(f"{name}: imported")
    asyncio.run(bridge())
    asyncio.run(call())


if __name__ == "__main__":
    main(sys.argv[1:])
