"""A GET whose body is cut after the headers: no transport repeats it, and the error says why, and what to do."""

from __future__ import annotations

import asyncio
import gc
import logging
import pickle
import weakref
from contextlib import asynccontextmanager

import aiohttp
import httpx
import httpx2
import pytest
import requests
from aiohttp import web

import resilient_bridge as rb


pytestmark = pytest.mark.real
POLICY = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(0)))


@asynccontextmanager
async def serving():
    """A server of aiohttp that cuts the body of /cut after ten bytes of a hundred; `asked` has the paths."""
    asked = []

    async def answer(request):
        asked.append(request.path)
        if request.path != "/cut":
            return web.Response(body=b"x" * 100)
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"x" * 10)
        request.transport.abort()
        return response

    app = web.Application()
    app.router.add_route("*", "/{path}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


def with_httpx(library, transport, method, url):
    with library.Client(transport=transport, trust_env=False) as client:
        return client.request(method, url).content


async def with_httpx_async(library, transport, method, url):
    async with library.AsyncClient(transport=transport, trust_env=False) as client:
        return (await client.request(method, url)).content


def with_requests(policy, method, url, *, stream=False):
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", rb.HTTPAdapter(policy))
        response = session.request(method, url, stream=stream)
        return b"".join(response.iter_content(7)) if stream else response.content


async def with_aiohttp(policy, method, url):
    async with (
        aiohttp.ClientSession(middlewares=[rb.HTTPMiddleware(policy)]) as session,
        session.request(method, url) as response,
    ):
        return (await response.text()).encode()


CLIENTS = {
    "httpx": lambda p, m, u: asyncio.to_thread(with_httpx, httpx, rb.HTTPTransport(p), m, u),
    "httpx2": lambda p, m, u: asyncio.to_thread(with_httpx, httpx2, rb.HTTPTransport(p), m, u),
    "httpx, async": lambda p, m, u: with_httpx_async(httpx, rb.HTTPTransport(p), m, u),
    "httpx2, async": lambda p, m, u: with_httpx_async(httpx2, rb.HTTPTransport(p), m, u),
    "requests": lambda p, m, u: asyncio.to_thread(with_requests, p, m, u),
    "requests, streamed": lambda p, m, u: asyncio.to_thread(with_requests, p, m, u, stream=True),
    "aiohttp": with_aiohttp,
}


async def cut(client, policy, method="GET"):
    """Return the notes of the error that the reader of a cut body gets, and how often it was asked for."""
    async with serving() as (url, asked):
        assert len(await CLIENTS[client](policy, method, f"{url}/whole")) == 100
        with pytest.raises(Exception) as raised:
            await CLIENTS[client](policy, method, f"{url}/cut")
        return getattr(raised.value, "__notes__", []), asked.count("/cut")


@pytest.mark.parametrize("client", CLIENTS)
async def test_k03_a_get_whose_body_is_cut_says_why_it_was_not_repeated(client, caplog):
    """One note, one line in the log: the answer had begun, and the function that reads it can be protected."""
    caplog.set_level(logging.INFO, "resilient_bridge")
    notes, asked = await cut(client, POLICY)
    assert asked == 1
    (note,) = notes
    assert note.startswith("not repeated: the answer had begun when its body was cut")
    assert "@policy(idempotent=True)" in note
    assert [record.getMessage() for record in caplog.records].count(f"HTTPTransport: {note}") == 1


@pytest.mark.parametrize("client", CLIENTS)
async def test_k03_no_note_where_nothing_could_be_repeated(client):
    """Without a Retry, and for a POST."""
    assert await cut(client, rb.Policy(rb.Breaker())) == ([], 1)
    assert await cut(client, POLICY, "POST") == ([], 1)


@pytest.mark.parametrize("client", CLIENTS)
async def test_k03_a_policy_around_the_reader_repeats_it(client):
    """Then the note is that of this policy alone."""

    @POLICY(idempotent=True)
    async def read(url):
        return await CLIENTS[client](POLICY, "GET", url)

    async with serving() as (url, asked):
        with pytest.raises(Exception) as raised:
            await read(f"{url}/cut")
    assert asked.count("/cut") == 3
    (note,) = raised.value.__notes__
    assert note.startswith("gave up after 3 calls")


async def test_k03_a_response_stays_what_it_was():
    """Of requests: its class has its name, it can be pickled, and it is freed with its last reference."""
    async with serving() as (url, _):

        def ask():
            with requests.Session() as session:
                session.mount("http://", rb.HTTPAdapter(POLICY))
                response = session.get(f"{url}/whole")
            again = pickle.loads(pickle.dumps(response))
            assert (type(again), again.content) == (requests.Response, response.content)
            assert isinstance(response, requests.Response)
            assert repr(response) == "<Response [200]>"
            gone = weakref.ref(response)
            gc.disable()
            try:
                del response
                assert gone() is None
            finally:
                gc.enable()

        await asyncio.to_thread(ask)
