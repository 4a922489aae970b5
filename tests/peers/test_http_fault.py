"""The failing HTTP server: every fault as a plain client sees it, and what reached the server behind it."""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
from contextlib import asynccontextmanager

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from tests.peers.faults import SOUND, Fault, seeded
from tests.peers.http_fault import HttpFault
from tests.peers.http_wire import Answer, BreakError
from tests.peers.ports import Port
from tests.peers.running import until
from tests.rows import each_row


pytestmark = pytest.mark.real


@asynccontextmanager
async def proxied(answer=None, **options):
    """A working server, a failing one in front of it, and a client of that: yields front, server and client."""
    async with (
        HttpFault(answer) as back,
        HttpFault(("127.0.0.1", back.port), **options) as front,
        httpx.AsyncClient(base_url=front.url(""), timeout=20) as client,
    ):
        yield front, back, client


STRUCK = [
    ("reset_unread", Fault.reset_unread(), httpx.ReadError, 0),
    ("reset_before", Fault.reset_before(), httpx.ReadError, 0),
    ("reset_after", Fault.reset_after(), httpx.ReadError, 1),
    ("cut after the head", Fault.cut(), httpx.RemoteProtocolError, 1),
    ("cut in the body", Fault.cut(3), httpx.RemoteProtocolError, 1),
    ("cut by a reset", Fault.cut(3, reset=True), httpx.ReadError, 1),
    ("black hole", Fault.black_hole(), httpx.ReadTimeout, 0),
    ("black hole after the work", Fault.black_hole(executed=True), httpx.ReadTimeout, 1),
    ("refused", Fault.refuse(), httpx.ReadError, 0),
]


@each_row(
    ("fault", "error", "executed"), [row[1:] for row in STRUCK], ids=[row[0] for row in STRUCK]
)
async def test_a_fault_is_felt_and_what_ran_is_known(fault, error, executed):
    """The client gets its error; the front knows whether the request reached the server behind."""
    async with proxied() as (front, back, client):
        front.strike(fault)
        with pytest.raises(error) as caught:
            await client.post(
                "/", json={"key": "k"}, timeout=0.2 if fault.kind == "black_hole" else 20
            )
        assert type(caught.value) is error
        assert (front.requests, front.executed, back.requests) == (1, executed, executed)
        assert front.log[0].fault == fault


async def test_without_a_fault_it_is_a_proxy():
    """Method, path, headers and body arrive, answers come back whole, and one connection serves many requests."""
    body = {"key": "x" * 300_000}
    async with proxied(
        lambda request: Answer.of([request.method, request.path, request.json()], 201)
    ) as (
        front,
        back,
        client,
    ):
        answer = await client.post("/a?b=c", json=body, headers={"x-key": "k"})
        assert (answer.status_code, answer.json()) == (201, ["POST", "/a?b=c", body])
        assert back.log[0].request.headers["x-key"] == "k"
        assert (await client.get("/")).json() == ["GET", "/", None]
        assert (front.requests, front.connections, front.executed) == (2, 1, 2)


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 500, 503])
async def test_it_answers_with_any_status(status):
    """The status, its headers and its body, and nothing is executed; the connection goes on."""
    async with proxied() as (front, back, client):
        front.strike(Fault.answer(status, b"no", retry_after=7, www_authenticate="Bearer"))
        answer = await client.post("/", json={})
        assert (answer.status_code, answer.content) == (status, b"no")
        assert (answer.headers["retry-after"], answer.headers["www-authenticate"]) == (
            "7",
            "Bearer",
        )
        assert back.requests == 0
        assert (await client.post("/", json={})).status_code == 200
        assert front.connections == 1


async def test_it_refuses_until_it_listens_again():
    """Refused means ECONNREFUSED, also for a client with a connection in its pool; then the same address works again."""
    async with HttpFault() as front, httpx.AsyncClient() as client:
        assert (await client.get(front.url())).status_code == 200
        await front.refuse()
        for _ in range(3):
            with pytest.raises(httpx.ConnectError):
                await client.get(front.url())
        await front.listen()
        assert (await client.get(front.url())).status_code == 200
        front.strike(Fault.refuse())
        with pytest.raises(httpx.ReadError):
            await client.get(front.url())
        with pytest.raises(httpx.ConnectError):
            await client.get(front.url())


async def test_a_connection_in_the_pool_can_be_dropped():
    """What a client kept alive is reset while idle: a request under way is not touched."""
    gate = asyncio.Event()

    async def body():
        yield b"begun "
        await gate.wait()
        yield b"ended"

    async with (
        HttpFault(lambda request: Answer(200, body() if request.path == "/slow" else b"")) as front,
        httpx.AsyncClient(base_url=front.url("")) as client,
    ):
        slow = asyncio.create_task(client.get("/slow"))
        await until(lambda: front.requests == 1, "the slow request")
        await client.get("/")
        await front.drop()
        assert (await client.get("/")).status_code == 200
        gate.set()
        assert (await slow).text == "begun ended"
        assert front.connections == 3


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_cut_comes_after_the_chosen_number_of_bytes(reset):
    """The head and that many bytes of the body arrive before the end, also before a reset."""
    async with (
        HttpFault(lambda _: Answer(200, b"0123456789")) as front,
        httpx.AsyncClient() as client,
    ):
        front.strike(Fault.cut(4, reset=reset))
        got = b""
        with pytest.raises(httpx.ReadError if reset else httpx.RemoteProtocolError):
            async with client.stream("GET", front.url()) as answer:
                async for piece in answer.aiter_raw():
                    got += piece
        assert got == b"0123"


async def test_a_delay_comes_before_the_rest():
    """A delayed fault waits first."""
    async with proxied() as (front, _, client):
        front.strike(Fault.answer(503).delayed(0.15))
        started = asyncio.get_running_loop().time()
        assert (await client.get("/")).status_code == 503
        assert asyncio.get_running_loop().time() - started >= 0.15


async def test_faults_are_planned_by_method():
    """A fault applies to its JSON-RPC or HTTP method, the chosen number of times, until all are healed."""
    async with proxied() as (front, _, client):
        front.strike(Fault.answer(500), rpc="tools/call", times=2)
        front.strike(Fault.answer(409), method="DELETE")
        statuses = [
            (await client.post("/", json={"method": name})).status_code
            for name in ("ping", *["tools/call"] * 3)
        ]
        assert statuses == [200, 500, 500, 200]
        front.strike(Fault.answer(500), times=100)
        assert (await client.delete("/")).status_code == 409
        assert (await client.get("/")).status_code == 500
        front.heal()
        assert (await client.get("/")).status_code == 200


async def test_one_request_is_one_decision():
    """`decide` is called once per request, with its number from 1, its method and its path; its result comes first."""
    asked = []

    def decide(n, method, path):
        asked.append((n, method, path))
        return Fault.answer(418) if n == 2 else SOUND

    async with proxied(decide=decide) as (front, _, client):
        front.strike(Fault.answer(500))
        assert [(await client.get(f"/{n}")).status_code for n in (1, 2, 3)] == [500, 418, 200]
        assert asked == [(1, "GET", "/1"), (2, "GET", "/2"), (3, "GET", "/3")]


def test_a_schedule_depends_on_the_seed_and_the_number_alone():
    """The same seed gives the same plan in any order, another seed another; the rate holds; other methods are spared."""
    faults = [Fault.reset_before(), Fault.reset_after(), Fault.answer(503)]
    plan = seeded(7, faults, rate=0.3)
    drawn = [plan(n, "POST", "/") for n in range(1, 2001)]
    assert [plan(n, "POST", "/") for n in range(2000, 0, -1)] == drawn[::-1]
    assert drawn != [seeded(8, faults, rate=0.3)(n, "POST", "/") for n in range(1, 2001)]
    struck = [fault for fault in drawn if fault != SOUND]
    assert 500 < len(struck) < 700
    assert set(struck) == set(faults)
    spared = seeded(7, faults, rate=1, method="POST")
    assert (spared(1, "GET", "/"), spared(1, "POST", "/") in faults) == (SOUND, True)


async def test_a_stream_comes_piece_by_piece_and_ends_with_its_reader():
    """Behind the front too, an event arrives before the next is written; when the client leaves, the server's side ends."""
    ended = asyncio.Event()

    async def events():
        try:
            for n in itertools.count():
                yield b"data: %d\n\n" % n
                await asyncio.sleep(0 if n < 1 else 3600)
        finally:
            ended.set()

    async with proxied(lambda _: Answer(200, events(), {"content-type": "text/event-stream"})) as (
        front,
        _,
        client,
    ):
        async with client.stream("GET", "/") as answer:
            lines = answer.aiter_lines()
            assert [await anext(lines) for _ in range(3)] == ["data: 0", "", "data: 1"]
        async with asyncio.timeout(10):
            await ended.wait()
        await until(lambda: front.log[0].is_over, "the end of the exchange")


async def test_a_server_that_fails_behind_is_a_502_or_a_cut():
    """A server that is down or closes before it answers gives 502, and the front knows what ran; a later cut is passed on."""

    async def torn():
        yield b"half"
        raise BreakError

    with Port() as empty:
        async with HttpFault(("127.0.0.1", empty.number)) as front, httpx.AsyncClient() as client:
            assert (await client.get(front.url())).status_code == 502
            assert front.executed == 0
    async with proxied(lambda _: Answer(200, torn())) as (front, back, client):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/")
        back.strike(Fault.reset_before())
        assert (await client.get("/")).status_code == 502
        assert front.executed == 2


async def test_leaving_ends_everything_at_once():
    """With a request in a black hole and a stream under way: no task, no socket, and the port is free again."""
    tasks = asyncio.all_tasks()
    async with httpx.AsyncClient() as client:
        async with HttpFault(decide=lambda n, method, path: Fault.black_hole()) as front:
            waiting = asyncio.create_task(client.get(front.url()))
            await until(lambda: front.requests == 1, "the request")
        with pytest.raises(httpx.ReadError):
            await waiting
        with pytest.raises(httpx.ConnectError):
            await client.get(front.url())
    assert asyncio.all_tasks() == tasks


def test_a_sync_client_needs_no_loop():
    """anyio's portal runs it in a thread."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(HttpFault()) as front,
        httpx.Client() as client,
    ):
        front.strike(Fault.answer(503))
        assert [client.get(front.url()).status_code for _ in range(2)] == [503, 200]


async def test_a_port_stays_reserved_while_nothing_listens():
    """Connections are refused, its owner may bind it any number of times, and no other process gets it."""
    with Port() as port:
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port.number)
            listener = port.listen()
            _, writer = await asyncio.open_connection("127.0.0.1", port.number)
            writer.transport.abort()
            listener.close()
        if sys.platform == "linux":
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port.number))


async def test_hundreds_of_requests_are_counted():
    """Four hundred requests in eight tasks, a third of them struck: counted to the last."""
    plan = seeded(
        3, [Fault.reset_before(), Fault.reset_after(), Fault.answer(503), Fault.cut(2)], rate=0.3
    )
    async with proxied(decide=plan) as (front, back, client):

        async def some():
            for _ in range(50):
                try:
                    await client.post("/", json={})
                except httpx.TransportError:
                    continue

        async with asyncio.timeout(60):
            await asyncio.gather(*(some() for _ in range(8)))
        planned = [plan(n, "POST", "/") for n in range(1, 401)]
        ran = sum(fault.kind in {"sound", "reset_after", "cut"} for fault in planned)
        assert (front.requests, front.executed, back.requests) == (400, ran, ran)
