"""SEC4: what is read of a failure to decide about a repeat is bounded, received and decoded; what the user reads is whole.

Rule: the bodies are bombs, 60 KB that grow to 60 MB, from a server that is not ours; the peak of Python's memory is measured.
"""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import httpx
import httpx2
import pytest
import requests
from aiohttp import web

import resilient_bridge as rb
from resilient_bridge.adapters import EventSource
from tests.adapters.http_clients import QUICK


pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

MB = 2**20
SIZE = 60 * MB
PLAIN = b'{"error": {"message": "' + b" " * SIZE + b'"}}'
BOMBS = {"gzip": gzip.compress(PLAIN), "deflate": zlib.compress(PLAIN)}
MOST = 16 * MB  # each attempt that decodes all of it takes at least 60


@contextmanager
def peak():
    """The most memory that the block has held at once."""
    measured = []
    tracemalloc.start()
    try:
        yield measured
    finally:
        measured.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()


@asynccontextmanager
async def bombs(encoding, *, status=503, is_chunked=False):
    """A server of such answers: its URL, and the requests that came."""
    came = []

    async def handle(request):
        came.append(request.path)
        headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
        if not is_chunked:
            return web.Response(status=status, headers=headers, body=BOMBS[encoding])
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        await response.write(BOMBS[encoding])
        return response

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/", came
    finally:
        await runner.cleanup()


def by_httpx(library):
    def get(url, *, reads):
        with (
            library.Client(transport=rb.HTTPTransport(QUICK, trust_env=False)) as client,
            client.stream("GET", url) as answer,
        ):
            return answer.status_code, len(answer.read()) if reads else 0

    return get


def by_requests(url, *, reads):
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", rb.HTTPAdapter(QUICK))
        with session.get(url, stream=True) as answer:
            return answer.status_code, len(answer.content) if reads else 0


def by_httpx_async(url, *, reads):
    async def main():
        async with (
            httpx.AsyncClient(transport=rb.HTTPTransport(QUICK, trust_env=False)) as client,
            client.stream("GET", url) as answer,
        ):
            return answer.status_code, len(await answer.aread()) if reads else 0

    return asyncio.run(main())


def by_aiohttp(url, *, reads):
    async def main():
        async with (
            aiohttp.ClientSession(middlewares=[rb.HTTPMiddleware(QUICK)]) as session,
            session.get(url) as answer,
        ):
            return answer.status, len(await answer.read()) if reads else 0

    return asyncio.run(main())


CLIENTS = {
    "httpx": by_httpx(httpx),
    "httpx2": by_httpx(httpx2),
    "httpx async": by_httpx_async,
    "requests": by_requests,
    "aiohttp": by_aiohttp,
}


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("encoding", BOMBS)
async def test_sec4_a_failure_that_grows_is_not_decoded_to_decide(name, encoding):
    """SEC4: four attempts, none of which decodes more than a small part of it."""
    for is_chunked in (False, True):
        async with bombs(encoding, is_chunked=is_chunked) as (url, came):
            with peak() as measured:
                status, _ = await asyncio.to_thread(CLIENTS[name], url, reads=False)
            assert (status, len(came)) == (503, 4)
            assert measured[0] < MOST


@pytest.mark.parametrize("name", CLIENTS)
async def test_sec4_what_the_user_reads_is_whole(name):
    """SEC4: all of it, because no bound was asked for; and the body of a small compressed failure is still understood."""
    async with bombs("gzip") as (url, _):
        assert await asyncio.to_thread(CLIENTS[name], url, reads=True) == (503, len(PLAIN))


async def test_sec4_an_event_source_reads_a_bounded_part_of_a_refusal():
    """SEC4: also of one that is no stream."""
    async with bombs("gzip", status=404) as (url, _), httpx.AsyncClient(trust_env=False) as client:
        with peak() as measured:
            async with EventSource(client, url) as source:
                with pytest.raises(rb.BridgeError):
                    await anext(source)
        assert measured[0] < MOST


def test_sec4_a_small_compressed_failure_is_read():
    """SEC4: its body decides, in requests as elsewhere, and its reader gets it too."""
    body = gzip.compress(b'{"error": {"code": "insufficient_quota", "message": "used up"}}')

    class Inner(requests.adapters.BaseAdapter):
        def __init__(self):
            super().__init__()
            self.sent = 0

        def send(self, request, **_):
            from io import BytesIO

            from urllib3 import HTTPResponse

            self.sent += 1
            headers = {
                "content-type": "application/json",
                "content-encoding": "gzip",
                "content-length": str(len(body)),
            }
            raw = HTTPResponse(BytesIO(body), headers=headers, status=429, preload_content=False)
            return requests.adapters.HTTPAdapter().build_response(request, raw)

        def close(self):
            """Nothing."""

    inner = Inner()
    with requests.Session() as session:
        session.mount("http://", rb.HTTPAdapter(QUICK, inner))
        answer = session.get("http://127.0.0.1:9/")
    assert (answer.json()["error"]["message"], inner.sent) == ("used up", 1)
