"""requests and aiohttp over our adapters keep what HTTPTransport promises; effects are counted by a server that is not ours."""

from __future__ import annotations

import asyncio
import json
import socket

import aiohttp
import aiohttp.web
import pytest
import requests
import urllib3

import resilient_bridge as rb
from tests.adapters.other_clients import KINDS, QUICK, client, serving


pytestmark = pytest.mark.real
both = pytest.mark.parametrize("kind", KINDS, ids=repr)


def _dead() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}/"


def _redirect(url: str, status: int = 303):
    return aiohttp.web.Response(status=status, headers={"Location": url})


# ---- what may be repeated ----------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("fault", [503, None, 502], ids=["503", "closed", "502"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
async def test_f01_what_the_protocol_calls_idempotent_is_repeated(kind, method, fault):
    """After a status and after a connection that was closed without an answer."""
    async with serving() as server, client(kind) as http:
        server.script = [fault, fault]
        assert (await http.ask(method, server.url)).status == 200
    assert server.methods == [method] * 3


@both
@pytest.mark.parametrize("fault", [503, None])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_f01_what_may_have_run_is_sent_once(kind, method, fault):
    """It comes out as it came: the answer, or the library's own error, which says that it may have run."""
    async with serving() as server, client(kind) as http:
        server.script = [fault] * 5
        if fault is None:
            with pytest.raises(kind.error) as caught:
                await http.ask(method, server.url, data=b"x")
            assert rb.classify(caught.value).executed == "maybe"
        else:
            assert (await http.ask(method, server.url, data=b"x")).status == fault
    assert server.methods == [method]


@both
async def test_f01_a_key_of_yours_permits_and_is_the_same_on_each_repeat(kind):
    """V9; a key of ours goes along as well, and permits nothing."""
    async with serving() as server, client(kind) as http:
        server.script = [503, None]
        answer = await http.ask("POST", server.url, data=b"x", headers={"Idempotency-Key": "mine"})
        assert (answer.status, server.keys) == (200, ["mine"] * 3)
        server.seen.clear()
        server.script = [503]
        assert (await http.ask("POST", server.url, data=b"x")).status == 503
        assert len(server.keys) == 1
        assert server.keys[0]
        server.seen.clear()
        server.script = [503, 503]
        await http.ask("PUT", server.url, data=b"x")
        assert len(server.keys) == 3
        assert len(set(server.keys)) == 1
        server.seen.clear()
        await http.ask("GET", server.url)
        assert server.keys == [None]


@both
async def test_f01_what_provably_did_not_run_is_repeated_whatever_it_is(kind):
    """A refused connection: nothing was sent, and `classify` says so."""
    async with client(kind) as http:
        with pytest.raises(kind.error) as caught:
            await http.ask("POST", _dead(), data=b"x")
    failure = rb.classify(caught.value)
    assert (failure.code, failure.executed, len(failure.history)) == ("CONN_REFUSED", "no", 3)


@both
async def test_f01_a_limit_is_waited_for(kind):
    """429 with Retry-After 7: GET and POST are repeated after it, as providers document it; also as a fraction."""
    async with serving() as server, client(kind) as http:
        for method in ("GET", "POST"):
            server.script = [
                aiohttp.web.Response(status=429, headers={"Retry-After": wait})
                for wait in ("7", "0.5")
            ]
            with rb.testing.virtual_time() as time:
                assert (await http.ask(method, server.url)).status == 200
            if kind.name == "aiohttp":  # requests runs in a thread, whose time is its own
                assert time.slept == [7.0, 0.5]


@both
async def test_the_last_answer_is_returned_with_its_body(kind):
    """A body that we have looked into is still there, for who reads it and for who streams it."""
    body = {"error": {"code": "E_BUSY", "message": "busy"}}
    async with serving() as server, client(kind) as http:
        server.script = [lambda _: aiohttp.web.json_response(body, status=503) for _ in range(8)]
        answer = await http.ask("GET", server.url)
        assert (answer.status, json.loads(answer.text)) == (503, body)
        assert len(server.seen) == 4
        if kind.name == "aiohttp":
            async with http.raw.get(server.url) as streamed:
                assert json.loads(await streamed.content.read()) == body
        else:

            def streamed() -> bytes:
                with http.raw.get(server.url, stream=True, timeout=10) as response:
                    return b"".join(response.iter_content(5))

            assert json.loads(await asyncio.to_thread(streamed)) == body


# ---- bodies ------------------------------------------------------------------------------------------------------


def _parts():
    yield b"one"
    yield b"two"


async def _parts_async():
    yield b"one"
    yield b"two"


@both
async def test_f01_a_body_that_can_be_read_once_is_sent_once(kind):
    """A generator: not even a PUT is repeated once it has been read; the answer stands."""
    parts = _parts() if kind.name == "requests" else _parts_async()
    async with serving() as server, client(kind) as http:
        server.script = [503] * 4
        assert (await http.ask("PUT", server.url, data=parts)).status == 503
    assert [body for *_, body in server.seen] == [b"onetwo"]


@both
async def test_f01_a_file_is_sent_again_from_where_it_was(kind, tmp_path):
    """What can be rewound is repeated whole."""
    path = tmp_path / "body"
    path.write_bytes(b"0123456789")
    async with serving() as server, client(kind) as http:
        server.script = [503, 503]
        with path.open("rb") as file:
            assert (await http.ask("PUT", server.url, data=file)).status == 200
    assert [body for *_, body in server.seen] == [b"0123456789"] * 3


# ---- redirects ---------------------------------------------------------------------------------------------------


@both
async def test_f01_each_hop_is_a_request_of_its_own(kind):
    """The GET behind a 303 is repeated, the POST before it is not sent again."""
    async with serving() as server, client(kind) as http:
        server.script = [lambda _: _redirect(server.url + "done"), 503, None]
        assert (await http.ask("POST", server.url, data=b"x")).status == 200
    assert server.methods == ["POST", "GET", "GET", "GET"]


@both
async def test_f01_a_redirect_to_a_dead_host_proves_nothing_of_the_whole(kind):
    """The POST ran; the GET behind it was refused: `executed` is maybe, and the POST was sent once."""
    dead = _dead()
    async with serving() as server, client(kind) as http:
        server.script = [lambda _: _redirect(dead)]
        with pytest.raises(kind.error) as caught:
            await http.ask("POST", server.url, data=b"x")
    failure = rb.classify(caught.value)
    assert (failure.code, failure.executed) == ("CONN_REFUSED", "maybe")
    assert server.methods == ["POST"]


@both
async def test_f01_a_redirect_to_an_open_circuit_proves_nothing_of_the_whole(kind):
    """The POST ran; the circuit of the next origin refused the GET behind it: `executed` is maybe, as with HTTPTransport."""
    policy = QUICK.replace(rb.Breaker())
    async with serving() as server, serving() as other, client(kind, policy) as http:
        await http.ask("GET", other.url)
        rb.calls.circuit(other.url.rstrip("/")).isolate()
        server.script = [lambda _: _redirect(other.url)]
        with pytest.raises(kind.error) as caught:
            await http.ask("POST", server.url, data=b"x")
    failure = rb.classify(caught.value)
    assert (failure.code, failure.executed) == ("SYS_CIRCUIT_OPEN", "maybe")
    assert (server.methods, other.methods) == (["POST"], ["GET"])


@both
async def test_f01_a_secret_does_not_follow_to_another_origin(kind):
    """The libraries take away Authorization only: an api key in a header is refused, and our error is the library's too."""
    async with serving() as server, serving() as other, client(kind) as http:
        server.script = [lambda _: _redirect(other.url, 307)] * 2
        with pytest.raises(rb.BridgeError) as caught:
            await http.ask("GET", server.url, headers={"X-Api-Key": "canary"})
        assert caught.value.failure.code == "CONN_REDIRECT_REFUSED"
        assert isinstance(caught.value, kind.error)
        assert other.seen == []
        assert (await http.ask("GET", server.url)).status == 200
        assert len(other.seen) == 1


@both
async def test_f01_credentials_do_not_cross_http_to_another_machine(kind):
    """CONN_INSECURE before anything is sent."""
    async with client(kind) as http:
        with pytest.raises(rb.ConfigError) as caught:
            await http.ask(
                "GET", "http://shop.invalid/", headers={"Authorization": "Bearer canary"}
            )
    assert caught.value.failure.code == "CONN_INSECURE"
    assert isinstance(caught.value, kind.error)
    assert "canary" not in str(caught.value)


@both
@pytest.mark.parametrize("status", [307, 308])
async def test_sec5_a_body_with_a_secret_does_not_follow_to_another_origin(kind, status):
    """A form and JSON with a password are not sent to the other origin; a body without one is."""
    async with serving() as server, serving() as other, client(kind) as http:
        for body in (
            {"data": {"user": "bob", "password": "canary"}},
            {"json": {"password": "canary"}},
            {"data": b"token=canary"},
        ):
            server.script = [lambda _: _redirect(other.url, status)]
            with pytest.raises(rb.BridgeError) as caught:
                await http.ask("POST", server.url, **body)
            assert caught.value.failure.code == "CONN_REDIRECT_REFUSED"
            assert isinstance(caught.value, kind.error)
        assert other.seen == []
        server.script = [lambda _: _redirect(other.url, status)]
        assert (await http.ask("POST", server.url, json={"name": "x"})).status == 200
        assert other.methods == ["POST"]


@both
async def test_sec5_a_token_in_a_query_does_not_cross_http_to_another_machine(kind):
    """CONN_INSECURE before a name is looked up, as for a header."""
    async with client(kind) as http:
        with pytest.raises(rb.ConfigError) as caught:
            await http.ask("GET", "http://shop.invalid/?access_token=canary")
    assert caught.value.failure.code == "CONN_INSECURE"
    assert "canary" not in str(caught.value)


# ---- circuits, budgets, limits -----------------------------------------------------------------------------------


@both
@pytest.mark.filterwarnings(
    "ignore:circuit .* was Breaker"
)  # an earlier test of this process may have had the port
async def test_f01_a_circuit_belongs_to_the_origin(kind):
    """One host that is down opens its own; the rejection is the library's error as well."""
    policy = rb.Policy(rb.Breaker.consecutive(2, open_for=60))
    async with serving() as down, serving() as up, client(kind, policy) as http:
        down.script = [503] * 9
        for _ in range(2):
            assert (await http.ask("GET", down.url)).status == 503
        with pytest.raises(rb.CircuitOpenError) as caught:
            await http.ask("GET", down.url)
        assert isinstance(caught.value, kind.error)
        assert len(down.seen) == 2
        assert (await http.ask("GET", up.url)).status == 200
        assert rb.calls.circuit(down.url.rstrip("/")).state == "open"
        rb.calls.circuit(down.url.rstrip("/")).reset()


@both
async def test_f01_a_deadline_ends_a_request(kind):
    """The socket of requests is bounded by it, the task of aiohttp is cancelled; the server did hear of it."""
    gate = asyncio.Event()
    async with serving() as server:
        original = server.answer

        async def slow(request):
            await original(request)
            await gate.wait()
            return aiohttp.web.Response()

        runner = aiohttp.web.ServerRunner(aiohttp.web.Server(slow))
        await runner.setup()
        await aiohttp.web.TCPSite(runner, "127.0.0.1", 0).start()
        async with client(kind, rb.Policy(rb.Deadline(0.4), rb.Retry(attempts=2))) as http:
            with pytest.raises((kind.error, TimeoutError)):
                await http.ask("GET", f"http://127.0.0.1:{runner.addresses[0][1]}/", timeout=30)
        gate.set()
        await runner.cleanup()
    assert len(server.seen) == 1


# ---- what is the library's own -----------------------------------------------------------------------------------


async def test_aiohttp_does_not_repeat_below_us():
    """It sends a GET again whose connection was lost, once more for each of our attempts: that is off, from the first request on."""
    kind = KINDS[1]
    for _ in range(2):
        async with serving() as server, client(kind) as http:
            for _ in range(2):
                server.script = [None] * 20
                with pytest.raises(aiohttp.ClientError) as caught:
                    await http.ask("GET", server.url)
                assert len(server.seen) == 4
                assert len(rb.classify(caught.value).history) == 3
                server.seen.clear()
                server.script.clear()
            assert (await http.ask("GET", server.url)).status == 200


def test_what_is_refused_when_it_is_made():
    """A second retry below, and what is no adapter."""
    often = requests.adapters.HTTPAdapter(max_retries=urllib3.Retry(3))
    for inner in (often, rb.HTTPAdapter(), object()):
        with pytest.raises(rb.ConfigError, match=r"HTTPAdapter\.inner"):
            rb.HTTPAdapter(QUICK, inner)
    assert rb.HTTPAdapter(QUICK, requests.adapters.HTTPAdapter(pool_maxsize=50))
    with pytest.raises(rb.ConfigError):
        rb.HTTPMiddleware("often")
    policy = rb.Policy(rb.Retry(attempts=4), rb.Breaker())
    assert repr(rb.HTTPMiddleware(policy)) == f"HTTPMiddleware({policy!r})"
    assert repr(rb.HTTPAdapter(policy)) == f"HTTPAdapter({policy!r})"
