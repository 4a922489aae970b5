"""A session of requests and one of aiohttp over our adapters, driven alike, and a server that counts what reaches it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import aiohttp.web
import attrs
import requests

import resilient_bridge as rb


QUICK = rb.Policy(rb.Retry(attempts=4, backoff=rb.Backoff.constant(0), budget=None))


class Server:
    """An aiohttp server on loopback: `script` says what to answer next, `seen` what has come."""

    def __init__(self) -> None:
        self.script: list[Any] = []
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.url = ""

    async def answer(self, request: aiohttp.web.BaseRequest) -> aiohttp.web.StreamResponse:
        """Answer a status, a response, or None: close the connection without a word."""
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append((request.method, request.path, headers, body))
        step = self.script.pop(0) if self.script else 200
        if callable(step):
            step = step(request)
        if step is None:
            assert request.transport is not None
            request.transport.abort()
            return aiohttp.web.Response()
        if isinstance(step, int):
            return aiohttp.web.Response(status=step, text=f"status {step}")
        return step

    @property
    def methods(self) -> list[str]:
        """What has come, in order."""
        return [method for method, *_ in self.seen]

    @property
    def keys(self) -> list[str | None]:
        """The idempotency keys of what has come."""
        return [headers.get("idempotency-key") for _, _, headers, _ in self.seen]


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    """Such a server while the block runs."""
    server = Server()
    runner = aiohttp.web.ServerRunner(aiohttp.web.Server(server.answer))
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        yield server
    finally:
        await runner.cleanup()


@attrs.frozen
class Answer:
    """What both libraries have in common."""

    status: int
    text: str
    native: Any


@attrs.frozen(repr=False)
class Kind:
    """requests or aiohttp."""

    name: str
    error: type[Exception]
    make: Callable[..., Any]

    def __repr__(self) -> str:
        """The id of a test."""
        return self.name


class OfRequests:
    """A session of requests, in threads: its server lives on our loop."""

    def __init__(self, policy: Any, **options: Any) -> None:
        self.raw = requests.Session()
        self.raw.trust_env = False
        self.adapter = rb.HTTPAdapter(policy, **options)
        self.raw.mount("http://", self.adapter)
        self.raw.mount("https://", self.adapter)

    async def ask(self, method: str, url: str, **options: Any) -> Answer:
        """Ask, and read the answer."""
        options.setdefault("timeout", 10)
        answer = await asyncio.to_thread(self.raw.request, method, url, **options)
        return Answer(answer.status_code, answer.text, answer)

    async def close(self) -> None:
        """Close the session."""
        await asyncio.to_thread(self.raw.close)


class OfAiohttp:
    """A session of aiohttp."""

    def __init__(self, policy: Any, **options: Any) -> None:
        self.raw = aiohttp.ClientSession(middlewares=[rb.HTTPMiddleware(policy, **options)])

    async def ask(self, method: str, url: str, **options: Any) -> Answer:
        """Ask, and read the answer."""
        timeout = aiohttp.ClientTimeout(total=options.pop("timeout", 10))
        async with self.raw.request(method, url, timeout=timeout, **options) as answer:
            return Answer(answer.status, await answer.text(), answer)

    async def close(self) -> None:
        """Close the session."""
        await self.raw.close()


KINDS = (
    Kind("requests", requests.RequestException, OfRequests),
    Kind("aiohttp", aiohttp.ClientError, OfAiohttp),
)


@contextlib.asynccontextmanager
async def client(kind: Kind, policy: Any = QUICK, **options: Any) -> AsyncIterator[Any]:
    """A client over our adapter."""
    made = kind.make(policy, **options)
    try:
        yield made
    finally:
        await made.close()
