"""A request whose answer is cut after the headers: no transport repeats it, and the error says why, and what to do."""

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
from tests.peers.nginx import needs_nginx, nginx


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


READABLE = (
    "not repeated: the answer had begun when its body was cut, and a transport repeats up to the headers; "
    "put a policy around the function that reads the body: @policy(idempotent=True)"
)
DOUBTFUL = (
    "not repeated: it may have run, its answer had begun when the body was cut; find out before you send it again. "
    "If twice does no harm: put a policy around the function that reads the body: @policy(idempotent=True)"
)


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
    assert notes == [READABLE]
    assert lines(caplog) == [f"HTTPTransport: {READABLE}"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_post_whose_body_is_cut_says_that_it_may_have_run(client, method, caplog):
    """It may not be repeated, so the reader is told to find out first, and where a permission would help."""
    caplog.set_level(logging.INFO, "resilient_bridge")
    assert await cut(client, POLICY, method) == ([DOUBTFUL], 1)
    assert lines(caplog) == [f"HTTPTransport: {DOUBTFUL}"]


def lines(caplog):
    """The lines of the log about bodies that were cut."""
    return [line for line in caplog.messages if "body" in line]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_k03_no_note_where_nothing_could_be_repeated(client, method):
    """Without a Retry."""
    assert await cut(client, rb.Policy(rb.Breaker()), method) == ([], 1)


@pytest.mark.parametrize(
    ("method", "options", "note"),
    [
        ("POST", {"extensions": {"rb.idempotent": True}}, READABLE),
        ("GET", {"extensions": {"rb.idempotent": False}}, DOUBTFUL),
        # The function may make a new key when it is called again, so the permission is for the user to give.
        ("POST", {"headers": {"Idempotency-Key": "mine"}}, DOUBTFUL),
        ("POST", {"extensions": {"rb.policy": None}}, None),
    ],
)
def test_the_note_follows_the_permission_of_the_request(method, options, note):
    """A POST that the user permits reads as a GET does, a GET that they forbid as a POST."""
    with (
        rb.testing.HTTPServer(rb.testing.HTTPFault.CUT) as server,
        httpx.Client(transport=rb.HTTPTransport(POLICY), trust_env=False) as client,
        pytest.raises(httpx.RemoteProtocolError) as raised,
    ):
        client.request(method, server.url, **options)
    assert getattr(raised.value, "__notes__", []) == ([] if note is None else [note])
    assert len(server.seen) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_body_that_is_cut_is_logged_once_per_class_and_transport(method, caplog):
    """Three requests of one client: three notes, one line."""
    caplog.set_level(logging.INFO, "resilient_bridge")
    fault = rb.testing.HTTPFault.CUT
    with (
        rb.testing.HTTPServer(fault, fault, fault) as server,
        httpx.Client(transport=rb.HTTPTransport(POLICY), trust_env=False) as client,
    ):
        for _ in range(3):
            with pytest.raises(httpx.RemoteProtocolError) as raised:
                client.request(method, server.url)
            assert len(raised.value.__notes__) == 1
    assert len(lines(caplog)) == 1


@needs_nginx
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_behind_nginx_the_note_is_the_same(client, method, tmp_path):
    """The server dies in its answer, and nginx ends the connection of the client."""
    async with (
        serving() as (url, asked),
        nginx(tmp_path / "nginx", int(url.rpartition(":")[2])) as front,
    ):
        with pytest.raises(Exception) as raised:
            await CLIENTS[client](POLICY, method, front.url("/cut"))
    assert raised.value.__notes__ == [READABLE if method == "GET" else DOUBTFUL]
    assert asked == ["/cut"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_policy_around_the_reader_of_a_post_decides(client):
    """With its permission the note's advice works; without it the note is the policy's alone."""

    async def read(url):
        return await CLIENTS[client](POLICY, "POST", url)

    async with serving() as (url, asked):
        with pytest.raises(Exception) as raised:
            await POLICY(idempotent=True)(read)(f"{url}/cut")
        assert asked.count("/cut") == 3
        (note,) = raised.value.__notes__
        assert note.startswith("gave up after 3 calls")
        with pytest.raises(Exception) as raised:
            await POLICY(idempotent=False)(read)(f"{url}/cut")
        assert asked.count("/cut") == 4
        (note,) = raised.value.__notes__
        assert note.startswith("not repeated: it may have run; find out before you call it again")


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
