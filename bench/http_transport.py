"""P8: what a policy under an HTTP client costs, against httpx-retries and the bare client.

    python bench/http_transport.py [rounds]

Claim: a request that succeeds, and one that gets 503 and then 200, cost no more than with httpx-retries, on a mock transport
(nothing but overhead) and over a socket of this machine; 10 MB read as a stream take at most 1.05 x the bare client.

httpx-retries only repeats; ours has a circuit as well, asks the body of an error what it means, and has tenacity carry out its repeats:
what tenacity alone costs under the same client stands beside it. No waits between the attempts, on any side; our budget is off,
because half of all requests fail here, which is what it is there to stop.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx
import tenacity
from _measure import Samples, holds, interleave, per_call, per_call_sync, rounds_asked, table
from httpx_retries import Retry, RetryTransport

import resilient_bridge as rb


PACKAGES = ("httpx", "httpx-retries", "tenacity", "attrs")
SIZE = 10 * 1024 * 1024
BARE, THEIRS, TENACITY, OURS = "bare httpx", "httpx-retries", "tenacity", "rb.HTTPTransport"
POLICY = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0), budget=None), rb.Breaker())


class TenacityTransport(httpx.AsyncBaseTransport, httpx.BaseTransport):
    """A transport as users write it with tenacity: retry a 5xx, close responses not returned, return the last one."""

    def __init__(self, inner) -> None:
        self._inner = inner
        options = {
            "retry": tenacity.retry_if_result(lambda response: response.status_code >= 500),
            "stop": tenacity.stop_after_attempt(3),
            "wait": tenacity.wait_none(),
            "retry_error_callback": lambda state: state.outcome.result(),
        }
        self._again = tenacity.AsyncRetrying(before_sleep=self._discard_async, **options).wraps(
            inner.handle_async_request
        )
        if hasattr(inner, "handle_request"):
            self._again_sync = tenacity.Retrying(before_sleep=self._discard, **options).wraps(
                inner.handle_request
            )

    @staticmethod
    async def _discard_async(state) -> None:
        await state.outcome.result().aclose()

    @staticmethod
    def _discard(state) -> None:
        state.outcome.result().close()

    async def handle_async_request(self, request):
        return await self._again(request)

    def handle_request(self, request):
        return self._again_sync(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def transports(inner) -> dict:
    """Return the four transports, each over an inner transport of its own."""
    return {
        BARE: inner(),
        TENACITY: TenacityTransport(inner()),
        THEIRS: RetryTransport(
            transport=inner(), retry=Retry(total=3, backoff_factor=0, backoff_jitter=0)
        ),
        OURS: rb.HTTPTransport(POLICY, inner()),
    }


def sound() -> httpx.MockTransport:
    """Answer 200."""
    return httpx.MockTransport(lambda _: httpx.Response(200))


def flaky() -> httpx.MockTransport:
    """Answer 503, then 200, and so on."""
    is_due = False

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal is_due
        is_due = not is_due
        return httpx.Response(503 if is_due else 200)

    return httpx.MockTransport(answer)


def getting(client: httpx.Client, url: str):
    """Return a sync function that asks once."""

    def call(_) -> None:
        assert client.get(url).status_code in {200, 503}

    return call


def getting_async(client: httpx.AsyncClient, url: str):
    """Return an async function that asks once."""

    async def call(_) -> None:
        assert (await client.get(url)).status_code in {200, 503}

    return call


async def twice(client: httpx.AsyncClient, url: str, _: int) -> None:
    """What the bare client does for a 503 and a 200: two requests."""
    await client.get(url)
    await client.get(url)


def twice_sync(client: httpx.Client, url: str, _: int) -> None:
    """What the bare client does for a 503 and a 200: two requests."""
    client.get(url)
    client.get(url)


async def streamed(client: httpx.AsyncClient, url: str) -> float:
    """Read 10 MB; return the milliseconds of our CPU, which the server's pace does not change."""
    began = time.process_time()
    size = 0
    async with client.stream("GET", url) as response:
        async for part in response.aiter_raw():
            size += len(part)
    assert size == SIZE
    return (time.process_time() - began) * 1e3


@contextmanager
def server():
    """A small HTTP server in a process of its own: /ok, /flaky (503 with JSON, then 200), /large; yields its base URL."""
    process = subprocess.Popen(
        [sys.executable, Path(__file__), "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield f"http://127.0.0.1:{json.loads(process.stdout.readline())}"
    finally:
        process.stdin.close()  # it ends with its input
        process.wait(10)


async def serve() -> None:
    """Run that server until the input ends."""
    large = b"x" * SIZE

    is_due = False  # of the server, not of a connection: an error with an unread body costs its connection

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal is_due
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1]
                if path == b"/flaky":
                    is_due = not is_due
                is_down = is_due and path == b"/flaky"
                status, body = (
                    b"503 No" if is_down else b"200 OK",
                    large if path == b"/large" else b"ok",
                )
                kind = b"application/json" if is_down else b"text/plain"
                response = status, kind, len(body), body
                writer.write(
                    b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % response
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    listening = await asyncio.start_server(attend, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    listening.close()


def mocked() -> dict[str, dict]:
    """The comparisons without a socket."""
    url = "https://example.org/"
    parts: dict[str, dict] = {}
    for title, inner in (("success", sound), ("503 then 200", flaky)):
        for kind, client_of in (("async", httpx.AsyncClient), ("sync", httpx.Client)):
            cases = parts[f"mock, {kind}, {title}"] = {}
            for name, transport in transports(inner).items():
                client = client_of(transport=transport)
                is_plain = inner is sound or name != BARE
                if kind == "async":
                    cases[name] = per_call(
                        getting_async(client, url) if is_plain else partial(twice, client, url)
                    )
                else:
                    cases[name] = per_call_sync(
                        getting(client, url) if is_plain else partial(twice_sync, client, url)
                    )
    return parts


async def real(base: str, stack: AsyncExitStack) -> dict[str, dict]:
    """The comparisons over a socket."""
    parts: dict[str, dict] = {
        "loopback, success": {},
        "loopback, 503 then 200": {},
        "loopback, 10 MB streamed": {},
    }
    success, repeated, large = parts.values()
    for name, transport in transports(httpx.AsyncHTTPTransport).items():
        client = await stack.enter_async_context(httpx.AsyncClient(transport=transport))
        success[name] = per_call(getting_async(client, f"{base}/ok"))
        flaky_url = f"{base}/flaky"
        repeated[name] = per_call(
            partial(twice, client, flaky_url) if name == BARE else getting_async(client, flaky_url)
        )
        large[name] = partial(streamed, client, f"{base}/large")
    return parts


def rows_of(title: str, cases: dict, samples: Samples) -> list[list]:
    """Return the rows of one comparison."""
    named = {name: f"{title}: {name}" for name in cases}
    base, goal = (BARE, 1.05) if "streamed" in title else (THEIRS, 1.0)
    scale = 1.0 if "streamed" in title else 1e-3
    rows = []
    for name, full in named.items():
        ratio = samples.ratio(full, named[base])
        verdict = [goal, holds(ratio, goal)] if name == OURS else ["", ""]
        paired = samples.paired(full, named[base])
        rows.append([title, name, samples.low(full) * scale, f"x {base}", ratio, paired, *verdict])
    return rows


async def main() -> None:
    """Measure, then print."""
    rounds = rounds_asked(101)
    with server() as base:
        async with AsyncExitStack() as stack:
            parts = {**mocked(), **await real(base, stack)}
            cases = {
                f"{title}: {name}": case
                for title, part in parts.items()
                for name, case in part.items()
            }
            samples = await interleave(cases, rounds)
    rows = [row for title, part in parts.items() for row in rows_of(title, part, samples)]
    head = [
        "",
        "case",
        "us a request, min (10 MB: ms of CPU)",
        "",
        "min/min",
        "paired median",
        "goal <=",
        "P8",
    ]
    table(f"P8: {rounds} rounds", head, rows, PACKAGES)


if __name__ == "__main__":
    asyncio.run(serve() if "--serve" in sys.argv else main())
