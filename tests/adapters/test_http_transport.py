"""A policy under an HTTP client: what comes out, what is closed, and what is not multiplied."""

from __future__ import annotations

import asyncio
import gc
import gzip
import threading

import httpx
import httpx2
import pytest

import resilient_bridge as rb
from tests.adapters.http_clients import KINDS, QUICK, each_kind, repeating, scripted
from tests.peers.faults import Fault
from tests.peers.http_fault import HttpFault
from tests.peers.http_wire import Answer
from tests.peers.running import until


real = pytest.mark.real


@real
@pytest.mark.requirement("S4")
@each_kind
async def test_the_last_response_comes_out_whatever_its_status(kind):
    """A server that only says 503 is asked four times; the fourth answer is returned, nothing is raised, its body is whole."""
    async with HttpFault() as server, kind.client() as client:
        server.strike(Fault.answer(503, b"down"), times=100)
        answer = await client.get(server.url())
        assert (answer.status_code, answer.content, server.requests) == (503, b"down", 4)
        server.heal()
        assert (await client.get(server.url())).status_code == 200


@real
@each_kind
async def test_discarded_responses_give_their_connection_back(kind):
    """With a pool of one connection, answers that are thrown away must be closed, or the next attempt waits for ever."""
    transport = rb.HTTPTransport(QUICK, kind.inner(connections=1))
    async with HttpFault() as server, kind.client(transport, timeout=5) as client:
        for body in (b"x" * 300_000, b'{"error": 1}'):
            server.strike(Fault.answer(503, body, content_type="application/json"), times=3)
            assert (await client.get(server.url())).status_code == 200
        assert server.requests == 8


@real
@each_kind
async def test_what_cannot_be_helped_is_asked_once(kind):
    """400, 401, 404 and 501 are returned as they are: a repeat brings nothing."""
    async with HttpFault() as server, kind.client() as client:
        for n, status in enumerate((400, 401, 404, 501), 1):
            server.strike(Fault.answer(status))
            assert (await client.get(server.url())).status_code == status
            assert server.requests == n


@real
@each_kind
async def test_the_clients_own_error_comes_out(kind):
    """Nobody listens: after four calls the library's ConnectError is raised itself, with a note, and its history for `classify`."""
    async with HttpFault() as server, kind.client() as client:
        await server.refuse()
        with pytest.raises(kind.library.ConnectError) as caught:
            await client.post(server.url())
    assert type(caught.value) is kind.library.ConnectError
    failure = rb.classify(caught.value)
    assert failure.code == "CONN_REFUSED"
    assert (failure.executed, len(failure.history), failure.stopped) == (
        rb.errors.Executed.NO,
        3,
        "attempts",
    )
    assert any("gave up after 4 calls" in note for note in caught.value.__notes__)


# ---- the server's word -----------------------------------------------------------------------------------------------


@each_kind
async def test_retry_after_is_a_lower_bound_and_has_a_ceiling(kind):
    """7 s are waited for; 121 s are not: the answer is returned at once, with the hint in it."""
    policy = repeating(backoff=rb.Backoff.constant(1))
    with rb.testing.virtual_time() as time:
        answer = scripted((429, {"retry-after": "7"}), 200)
        async with kind.client(rb.HTTPTransport(policy, kind.mock(answer))) as client:
            assert (await client.get("https://a.example/")).status_code == 200
        assert (time.slept, len(answer.seen)) == ([7.0], 2)
        answer = scripted((503, {"retry-after": "121"}), 200)
        async with kind.client(rb.HTTPTransport(policy, kind.mock(answer))) as client:
            answered = await client.get("https://a.example/")
        assert (answered.status_code, answered.headers["retry-after"], time.slept) == (
            503,
            "121",
            [7.0],
        )


@each_kind
async def test_x_should_retry_is_obeyed_in_both_directions(kind):
    """A 503 that must not be repeated is not, and a 404 that may be, is."""
    for status, reported, calls in ((503, "false", 1), (404, "true", 2)):
        answer = scripted((status, {"x-should-retry": reported}), 200)
        async with kind.client(rb.HTTPTransport(QUICK, kind.mock(answer))) as client:
            await client.get("https://a.example/")
        assert len(answer.seen) == calls


@real
@each_kind
@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_the_body_decides_about_a_429(kind, coding):
    """An empty account and a rate limit have one status; only the second is repeated, and the first is returned whole."""
    pack = gzip.compress if coding == "gzip" else bytes
    async with HttpFault() as server, kind.client() as client:
        for code, calls in ((b"insufficient_quota", 1), (b"rate_limit_exceeded", 2)):
            body = b'{"error": {"code": "%b", "message": "no"}}' % code
            fields = {"content_type": "application/json", "content_encoding": coding}
            before = server.requests
            server.strike(Fault.answer(429, pack(body), **fields))
            answered = await client.post(server.url(), json={})
            assert server.requests == before + calls
            assert calls == 2 or answered.content == body


# ---- layers of retries -------------------------------------------------------------------------------------------------


@each_kind
async def test_two_of_them_are_refused(kind):
    """One inside another would multiply the attempts: a ConfigError at once, or with the first request where it is hidden."""
    inner = rb.HTTPTransport(QUICK, kind.mock(scripted(200)))
    with pytest.raises(rb.ConfigError, match=r"HTTPTransport\.inner"):
        rb.HTTPTransport(QUICK, inner)

    class Hiding:
        """A transport of a user's own."""

        def handle_request(self, request):
            return inner.handle_request(request)

        async def handle_async_request(self, request):
            return await inner.handle_async_request(request)

        async def aclose(self):
            """Nothing."""

        close = inner.close

    async with kind.client(rb.HTTPTransport(QUICK, Hiding())) as client:
        for _ in range(2):
            with pytest.raises(kind.library.RequestError, match=r"HTTPTransport\.inner") as caught:
                await client.get("https://a.example/")
            assert isinstance(caught.value, rb.ConfigError)
        assert (
            await client.get("https://a.example/", extensions={"rb.policy": None})
        ).status_code == 200


@each_kind
async def test_a_policy_around_the_call_does_not_multiply(kind):
    """Three attempts around three attempts make three requests: the repeating is left to the outer one."""
    answer = scripted(503)
    policy = repeating(attempts=3)
    async with kind.client(rb.HTTPTransport(policy, kind.mock(answer))) as client:

        @policy(idempotent=True)
        async def load():
            return (await client.get("https://a.example/")).raise_for_status()

        with pytest.raises(kind.library.HTTPStatusError):
            await load()
    assert len(answer.seen) == 3


async def test_a_result_that_the_user_rejects_is_repeated():
    """`on_result` sees the response itself, also one that is no failure."""
    answer = scripted(202, 202, 200)
    policy = repeating(on_result=lambda response: response.status_code == 202)
    async with KINDS[1].client(rb.HTTPTransport(policy, KINDS[1].mock(answer))) as client:
        assert (await client.get("https://a.example/")).status_code == 200
    assert len(answer.seen) == 3


# ---- its life --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("policy", {"policy": httpx.AsyncHTTPTransport}),
        ("inner", {"inner": 5}),
        ("max_body", {"max_body": 0}),
        ("max_body", {"max_body": True}),
        ("idempotency_header", {"idempotency_header": ""}),
        ("idempotency_header", {"idempotency_header": "two words"}),
        ("allow_plaintext_credentials", {"allow_plaintext_credentials": "no"}),
    ],
)
def test_a_bad_argument_is_named(name, arguments):
    """A ConfigError that says which argument, before any request."""
    with pytest.raises(rb.ConfigError, match=rf"^HTTPTransport\.{name}: wanted"):
        rb.HTTPTransport(**arguments)


@real
@each_kind
async def test_one_inner_transport_for_all_threads(kind):
    """Four first requests at once make one pool; closing the client closes every connection."""
    async with HttpFault() as server:
        start = threading.Barrier(4)
        async with kind.client(rb.HTTPTransport(QUICK)) as client:

            def at_once():
                start.wait(10)
                return client.raw.get(server.url())

            answers = [
                client.get(server.url()) if kind.is_async else asyncio.to_thread(at_once)
                for _ in range(4)
            ]
            assert {answer.status_code for answer in await asyncio.gather(*answers)} == {200}
        await until(lambda: not server._open, "the end of all connections")
        gc.collect()


@real
async def test_a_response_that_is_not_read_to_its_end_is_closed():
    """Whoever leaves a stream in the middle leaves no connection behind."""

    async def endless():
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0)

    async with HttpFault(lambda _: Answer(200, endless())) as server, KINDS[1].client() as client:
        async with client.raw.stream("GET", server.url()) as response:
            async for _ in response.aiter_bytes():
                break
        await until(lambda: not server._open, "the end of the connection")


def test_it_is_for_any_client():
    """The four clients take it, and its repr tells policy and inner transport."""
    for made in (httpx.Client, httpx2.Client):
        made(transport=rb.HTTPTransport()).close()
    shown = repr(rb.HTTPTransport(QUICK, httpx.MockTransport(lambda _: httpx.Response(200))))
    assert shown == f"HTTPTransport({QUICK!r}, inner=MockTransport)"
    limited = rb.resilient.replace(rb.AdaptiveLimit())
    assert repr(rb.HTTPTransport()) == f"HTTPTransport({limited!r})"


@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_d09_an_inner_transport_of_the_other_kind_is_refused_in_words(library):
    """A sync one under an AsyncClient and the reverse: a ConfigError that says which is wanted, with and without a block."""
    sync, is_async = library.HTTPTransport(), library.AsyncHTTPTransport()
    with pytest.raises(rb.ConfigError, match="an async transport for an AsyncClient"):
        async with library.AsyncClient(transport=rb.HTTPTransport(inner=sync)):
            pass
    with pytest.raises(rb.ConfigError, match="an async transport for an AsyncClient"):
        await library.AsyncClient(transport=rb.HTTPTransport(inner=sync)).get("https://a.example/")
    with pytest.raises(rb.ConfigError, match="a sync transport for a Client"):
        library.Client(transport=rb.HTTPTransport(inner=is_async)).get("https://a.example/")
    with (
        pytest.raises(rb.ConfigError, match="a sync transport for a Client"),
        library.Client(transport=rb.HTTPTransport(inner=is_async)),
    ):
        pass
    sync.close()
    await is_async.aclose()
