"""The four kinds of client that take an HTTPTransport, driven alike. Rule: a test says what it wants, not how a kind does it."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import attrs
import httpx
import httpx2
import pytest

import resilient_bridge as rb


_NO_TLS = ssl.SSLContext(
    ssl.PROTOCOL_TLS_CLIENT
)  # to load the world's certificates takes longer than a test


@attrs.frozen(repr=False)
class Kind:
    """One of httpx and httpx2, sync or async."""

    library: ModuleType
    is_async: bool

    def __repr__(self) -> str:
        """The id of a test."""
        return f"{self.library.__name__} {'async' if self.is_async else 'sync'}"

    def inner(self, **options: Any) -> Any:
        """The library's own transport; `connections` bounds its pool."""
        if (connections := options.pop("connections", None)) is not None:
            options["limits"] = self.library.Limits(max_connections=connections)
        made = self.library.AsyncHTTPTransport if self.is_async else self.library.HTTPTransport
        return made(verify=_NO_TLS, **options)

    def mock(self, answer) -> Any:
        """A transport without a network: `answer(request)` gives status, headers and body."""

        def respond(request):
            status, *rest = answer(request)
            headers, content = rest[0] if rest else {}, rest[1] if len(rest) > 1 else b""
            return self.library.Response(status, headers=headers, content=content)

        return self.library.MockTransport(respond)

    @asynccontextmanager
    async def client(self, transport: Any = None, **options: Any):
        """A client over this transport (default: one that repeats at once)."""
        options.setdefault("timeout", 20)
        transport = rb.HTTPTransport(QUICK, self.inner()) if transport is None else transport
        made = self.library.AsyncClient if self.is_async else self.library.Client
        raw = made(transport=transport, **options)
        caller = Caller(self, raw)
        try:
            yield caller
        finally:
            await caller.do(raw.aclose if self.is_async else raw.close)


@attrs.frozen
class Caller:
    """A client in use; a sync one works in a thread, because its server lives on our loop."""

    kind: Kind
    raw: Any

    async def do(self, function, *args, **kwargs):
        """Call a function of the client, in the way of its kind."""
        if self.kind.is_async:
            return await function(*args, **kwargs)
        return await asyncio.to_thread(function, *args, **kwargs)

    async def request(self, method: str, url: str, **options: Any) -> Any:
        """Ask, and read the answer."""
        return await self.do(self.raw.request, method, url, **options)

    async def get(self, url: str, **options: Any) -> Any:
        """Ask with GET."""
        return await self.request("GET", url, **options)

    async def post(self, url: str, **options: Any) -> Any:
        """Ask with POST."""
        return await self.request("POST", url, **options)

    async def streamed(
        self, method: str, url: str, how: str = "bytes", **options: Any
    ) -> tuple[Any, bytes]:
        """Ask, and read the body piece by piece: `raw` as it came, or decoded `bytes`."""

        async def read_async():
            async with self.raw.stream(method, url, **options) as response:
                return response, b"".join(
                    [part async for part in getattr(response, f"aiter_{how}")()]
                )

        def read():
            with self.raw.stream(method, url, **options) as response:
                return response, b"".join(getattr(response, f"iter_{how}")())

        return await self.do(read_async if self.kind.is_async else read)


KINDS = [Kind(library, is_async) for library in (httpx, httpx2) for is_async in (False, True)]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=repr)

AT_ONCE = rb.Retry(attempts=4, backoff=rb.Backoff.constant(0), budget=None)
QUICK = rb.Policy(AT_ONCE)


def scripted(*statuses):
    """What a mock answers, one status after the other, the last one for ever; `.seen` has the requests."""
    seen: list[Any] = []

    def answer(request):
        seen.append(request)
        status = statuses[min(len(seen), len(statuses)) - 1]
        return status if isinstance(status, tuple) else (status,)

    answer.seen = seen
    return answer


def repeating(**options: Any) -> rb.Policy:
    """A policy that repeats at once, with these fields."""
    return rb.Policy(attrs.evolve(AT_ONCE, **options))
