"""Threat 18 over links and HTTPTransport: a name that does not exist, a look-up or a connect that never ends. In time, and typed.

Rule: no name is looked up outside: the simulated network's names are the test's, and sync clients get theirs from a patched `getaddrinfo`.
"""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import ExitStack, contextmanager

import httpx
import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

import resilient_bridge as rb
from tests.adapters.link_peers import World, now, quick, virtual
from tests.internals.testing import HANG, NXDOMAIN
from tests.peers.running import until


BLACKHOLE = "2001:db8::1"
WEATHER = {
    "no such name": (NXDOMAIN, "CONN_DNS_FAILED"),
    "a look-up that never ends": (HANG, "CONN_TIMEOUT"),
    "a connect that nobody answers": ((BLACKHOLE,), "CONN_TIMEOUT"),
}
bad = pytest.mark.parametrize(("name", "code"), WEATHER.values(), ids=WEATHER)
libraries = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
AT_ONCE = rb.Retry(attempts=3, backoff=rb.Backoff.constant(0), budget=None)


def worsen(name):
    """Make `gone.example` this bad on the simulated network."""
    network = asyncio.get_running_loop().network
    network.names["gone.example"] = name
    network.roads[BLACKHOLE] = "blackhole"
    return network


# -- links ----------------------------------------------------------------------------------------------------------------
@bad
@virtual
async def test_row_18_an_attempt_of_a_link_ends_in_time(name, code):
    """Each within the connect timeout, which a name that does not exist does not wait for; entered when the world is whole again."""
    network = worsen(name)
    async with serve(lambda ws: ws.wait_closed(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        policy = quick(connect_timeout=4, backoff=rb.Backoff.constant(1, jitter="none"))
        link = rb.reconnecting(
            lambda: connect(f"ws://gone.example:{port}", open_timeout=None, proxy=None),
            policy,
            patience=2,
        )
        with rb.testing.record() as reported:
            async with link as ws:
                assert now() <= 4.1
                with pytest.raises(rb.errors.NotConnectedError):
                    await ws.send("a")
                await until(lambda: link.health().attempt >= 3, seconds=60)
                spent = now()
                network.names.clear()
                await link.wait_ready(10)
    losses = [event.failure for event in reported if isinstance(event, rb.events.Disconnected)]
    assert {failure.code for failure in losses[:3]} == {code}
    assert all(failure.retryable for failure in losses[:3])
    assert spent <= (3 if code == "CONN_DNS_FAILED" else 3 * 5) + 1


@virtual
async def test_row_18_a_factory_that_hangs_is_abandoned_in_time():
    """Whatever it waits for: entering returns after one connect timeout, with the link still trying."""
    world = World()
    world.hangs = True
    link = rb.reconnecting(world.factory, quick(connect_timeout=3), patience=1)
    async with link as client:
        assert 3 <= now() < 3.1
        assert link.health().failure.code == "CONN_TIMEOUT"
        with pytest.raises(rb.errors.NotConnectedError, match="no connection within 3 s"):
            await client.work("a")
        world.hangs = False
        await link.wait_ready(10)
        assert await client.work("b")
    assert world.ran == {"b": 1}


# -- HTTPTransport --------------------------------------------------------------------------------------------------------
@bad
@libraries
def test_row_18_a_request_ends_within_the_connect_timeout(library, name, code):
    """Three attempts of at most the client's own connect timeout; then the library's error, with that code, and no effect anywhere."""

    async def main(_bridge):
        worsen(name)
        transport = rb.HTTPTransport(rb.Policy(AT_ONCE))
        async with library.AsyncClient(
            transport=transport, timeout=library.Timeout(60, connect=4), trust_env=False
        ) as client:
            with pytest.raises(
                library.ConnectError if name == NXDOMAIN else library.ConnectTimeout
            ) as caught:
                await client.post("http://gone.example/", content=b"x")  # it provably did not run
            return now(), rb.classify(caught.value)

    spent, failure = rb.testing.simulate(main)
    assert (failure.code, failure.executed, failure.retryable) == (
        code,
        rb.errors.Executed.NO,
        True,
    )
    assert (len(failure.history), failure.stopped) == (2, "attempts")
    assert spent <= (0.1 if code == "CONN_DNS_FAILED" else 12.1)


@bad
@libraries
def test_row_18_a_deadline_ends_a_client_without_timeouts(library, name, code):
    """A client that would wait for ever: the policy's Deadline ends it, typed, as the library's own timeout too."""

    async def main(_bridge):
        worsen(name)
        policy = rb.Policy(rb.Deadline(5), rb.Retry(backoff=rb.Backoff.constant(2), attempts=100))
        async with library.AsyncClient(
            transport=rb.HTTPTransport(policy), timeout=None, trust_env=False
        ) as client:
            with pytest.raises((rb.DeadlineExceededError, library.ConnectError)) as caught:
                await client.get("http://gone.example/")
            return now(), caught.value

    spent, error = rb.testing.simulate(main)
    if code == "CONN_TIMEOUT":
        assert isinstance(error, rb.DeadlineExceededError)
        assert isinstance(error, library.TimeoutException)
        assert 5 <= spent < 5.1
    else:  # the last wait would end too late, so it is not begun
        assert spent <= 5
        assert rb.classify(error).code == code


@libraries
def test_row_18_a_blocking_client_whose_name_does_not_exist(library, monkeypatch):
    """CONN_DNS_FAILED after three look-ups, and each was asked of this name only."""
    asked = []

    def no_one(host, *_, **__):
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_one)
    client = library.Client(transport=rb.HTTPTransport(rb.Policy(AT_ONCE)), trust_env=False)
    with client, pytest.raises(library.ConnectError) as caught:
        client.post("http://gone.example/", content=b"x")
    failure = rb.classify(caught.value)
    assert (failure.code, failure.executed) == ("CONN_DNS_FAILED", rb.errors.Executed.NO)
    assert {host if isinstance(host, str) else host.decode() for host in asked} == {"gone.example"}
    assert len(asked) == 3


@contextmanager
def full():
    """A port on loopback whose queue is full: a SYN gets no answer."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listening.getsockname()
        for _ in range(20):
            knock = stack.enter_context(socket.socket())
            knock.settimeout(0.05)
            try:
                knock.connect(address)
            except TimeoutError:
                break
        else:
            pytest.skip("this system's queues are never full")
        yield address[1]


@pytest.mark.real
@libraries
async def test_row_18_no_answer_to_a_real_connect(library):
    """A blocking and an async client with the recommended kind of policy, and a link: each ends at its limit."""
    policy = rb.Policy(rb.Deadline(0.3), AT_ONCE)
    with full() as port:
        url = f"http://127.0.0.1:{port}/"
        with library.Client(
            transport=rb.HTTPTransport(policy), timeout=None, trust_env=False
        ) as client:
            started = time.monotonic()
            with pytest.raises((rb.DeadlineExceededError, library.ConnectTimeout)) as caught:
                await asyncio.to_thread(client.get, url)
            assert 0.2 < time.monotonic() - started < 5
            assert rb.classify(caught.value).category is rb.Category.TIMEOUT
        async with library.AsyncClient(
            transport=rb.HTTPTransport(policy), timeout=None, trust_env=False
        ) as client:
            started = time.monotonic()
            with pytest.raises(rb.DeadlineExceededError):
                await client.get(url)
            assert 0.2 < time.monotonic() - started < 5
        link = rb.reconnecting(
            lambda: connect(f"ws://127.0.0.1:{port}", open_timeout=None), quick(connect_timeout=0.3)
        )
        started = time.monotonic()
        async with link:
            assert 0.2 < time.monotonic() - started < 5
            assert link.health().failure.code == "CONN_TIMEOUT"
