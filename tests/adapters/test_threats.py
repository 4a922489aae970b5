"""Bad days, over the adapters: certificates, proxies that cut idle connections, secrets, tokens that cannot be renewed.

The other rows of the table of threats are met where each adapter is proven: redirects and plaintext (41, 42) in test_http_redirects
and, for the clients of providers, in test_wrap_addresses; hostile errors and logs (45, 46) in test_http_secrets; other loops and
processes and callbacks (32, 48) in test_link_states, pickles of wrapped clients (32) in test_wrap_places; a child's misbehaviour (49)
in test_stdio; calls under way at a loss (17) in test_link_calls and test_link_mcp.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import sys

import httpx
import httpx2
import openai
import pytest
import websockets
from websockets.asyncio.server import serve

import resilient_bridge as rb
from tests.rows import each_row
from tests.threats.certificates import KINDS, serving, trusting


CANARY = "c4n4ry-S3CR3T-8f1e7a02b9d64c55"
QUICK = rb.presets.default.evolve(
    reconnect=rb.bridge.Reconnect(
        backoff=rb.Backoff.constant(0.01, jitter="none"), connects_per_minute=6000
    ),
    calls=rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0.01))),
)
pytestmark = pytest.mark.real


@contextlib.asynccontextmanager
async def answering(talk, tls=None):
    """A server on loopback that talks as told on each connection; its port, and how many were accepted."""
    accepted = []

    async def attend(reader, writer):
        accepted.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(attend, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1], accepted
    finally:
        server.close()
        for writer in accepted:
            writer.transport.abort()
        await asyncio.sleep(0)


async def say_ok(reader, writer):
    """One answer, and the connection is closed without a word, as a proxy does to an idle one."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    await writer.drain()


# ---- 43: certificates ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("R5")
@each_row("library", [httpx, httpx2])
@each_row("kind", KINDS)
async def test_row_43_a_bad_certificate_is_looked_at_once(kind, library):
    """HTTPTransport: no storm of handshakes; the library's own error, which says what is wrong with the certificate."""
    async with answering(say_ok, serving(kind)) as (port, _):
        inner = library.AsyncHTTPTransport(verify=trusting())
        policy = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0.01)))
        with rb.testing.record() as reported:
            async with library.AsyncClient(transport=rb.HTTPTransport(policy, inner)) as client:
                with pytest.raises(library.ConnectError) as caught:
                    await client.get(
                        f"https://localhost:{port}/", headers={"Authorization": f"Bearer {CANARY}"}
                    )
    failure = rb.classify(caught.value)
    assert (failure.code, failure.retryable) == ("CONN_TLS_HANDSHAKE_FAILED", False)
    assert not [event for event in reported if isinstance(event, rb.events.RetryScheduled)]
    assert CANARY not in f"{failure.to_dict()} {caught.value!r} {reported!r}"


async def test_row_43_an_sdk_does_not_repeat_it_either():
    """openai calls it a connection error and would repeat it; wrapped, it is looked at once."""
    async with answering(say_ok, serving("expired")) as (port, _):
        http = httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(verify=trusting()))
        async with rb.wrap(
            openai.AsyncOpenAI(
                api_key=CANARY, base_url=f"https://localhost:{port}", http_client=http
            )
        ) as client:
            with pytest.raises(openai.APIConnectionError) as caught:
                await client.models.list()
    failure = rb.classify(caught.value)
    assert (failure.code, failure.retryable, failure.history) == (
        "CONN_TLS_HANDSHAKE_FAILED",
        False,
        (),
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_row_43_a_link_ends_with_it(kind):
    """websockets' own loop would dial for ever; a link is FAILED after one attempt, and entering it says why."""
    async with serve(lambda ws: ws.wait_closed(), "127.0.0.1", 0, ssl=serving(kind)) as server:
        url = f"wss://localhost:{server.sockets[0].getsockname()[1]}"
        link = rb.reconnecting(lambda: websockets.connect(url, ssl=trusting()), QUICK)
        with pytest.raises(rb.BridgeError) as caught:
            async with link:
                pytest.fail("entered")
    assert caught.value.failure.code == "CONN_TLS_HANDSHAKE_FAILED"
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
    assert link.state is rb.bridge.BridgeState.FAILED


# ---- 22: what a proxy cuts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_row_22_an_idle_connection_that_was_cut_costs_nothing(method, library):
    """A connection that is closed between two requests: the second goes through, once, a POST as well."""
    async with (
        answering(say_ok) as (port, accepted),
        library.AsyncClient(transport=rb.HTTPTransport(QUICK)) as client,
    ):
        for _ in range(5):
            assert (await client.request(method, f"http://127.0.0.1:{port}/")).text == "ok"
            while not accepted[-1].is_closing():
                await asyncio.sleep(0)
            await asyncio.sleep(
                0.01
            )  # its FIN has to cross to the client, which then knows without asking
        assert len(accepted) == 5


async def test_row_22_a_link_through_a_cut_goes_on():
    """A proxy that cuts every connection after the first message: reading goes on across the cuts."""
    stated = iter(range(5))

    async def talk(ws):
        with contextlib.suppress(StopIteration):
            await ws.send(str(next(stated)))
        ws.transport.close()  # no close frame: the line just ends, after what was sent

    async with serve(talk, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        heard = []
        async with rb.reconnecting(lambda: websockets.connect(url), QUICK) as ws:
            async for message in ws:
                heard.append(message)
                if len(heard) == 5:
                    break
    assert heard == ["0", "1", "2", "3", "4"]


# ---- 18: nobody answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_row_18_a_deadline_covers_all_phases(library):
    """A server that takes the connection and says nothing: the deadline of the policy ends it, typed, as the library's own timeout."""

    async def hold(reader, writer):
        await reader.read()

    policy = rb.Policy(rb.Deadline(0.2), rb.Retry(backoff=rb.Backoff.constant(0.01)))
    async with (
        answering(hold) as (port, _),
        library.AsyncClient(transport=rb.HTTPTransport(policy)) as client,
    ):
        with pytest.raises(rb.DeadlineExceededError) as caught:
            await client.get(f"http://127.0.0.1:{port}/")
    assert isinstance(caught.value, library.TimeoutException)


async def test_row_18_a_handshake_that_never_ends_is_abandoned():
    """The link's connect timeout covers connect, TLS and upgrade: another attempt follows, and nothing is left of the first."""

    async def hold(reader, writer):
        await reader.read()

    policy = QUICK.evolve(
        reconnect=rb.bridge.Reconnect(
            backoff=rb.Backoff.constant(0.01), connect_timeout=0.1, connects_per_minute=6000
        )
    )
    async with answering(hold) as (port, accepted):
        link = rb.reconnecting(
            lambda: websockets.connect(f"ws://127.0.0.1:{port}", open_timeout=None),
            policy,
            patience=0.1,
        )
        async with link as ws:
            with pytest.raises(rb.errors.NotConnectedError) as caught:
                await ws.send("hello")
            while len(accepted) < 3:
                await asyncio.sleep(0.01)
    assert link.health().failure.code == "CONN_TIMEOUT"
    assert "no connection within" in str(caught.value)


# ---- 40: secrets ----------------------------------------------------------------------------------------------------


async def test_row_40_a_link_shows_no_secret(caplog):
    """The token in a URL, the arguments and the environment of a child: in no repr, event, health, log or error."""
    caplog.set_level(logging.DEBUG, logger="resilient_bridge")
    parts = []

    async def talk(ws):
        await ws.close(1011, f"token {CANARY} is broken")

    async with serve(talk, "127.0.0.1", 0) as server:
        url = f"ws://user:{CANARY}@127.0.0.1:{server.sockets[0].getsockname()[1]}/?token={CANARY}"
        link = rb.reconnecting(lambda: websockets.connect(url), QUICK, patience=0.2)
        with rb.testing.record() as events:
            async with link as ws:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(
                        0.3
                    ):  # many connections, each closed with words that hold it
                        await ws.recv()
        parts += [repr(link), repr(link.health()), repr(list(events))]
    child = rb.links.stdio(
        sys.executable, "-c", "import sys; sys.exit(3)", CANARY, env={"TOKEN": CANARY}
    )
    link = rb.reconnecting(child, QUICK, patience=0.2)
    with rb.testing.record() as events:
        async with link as peer:
            with pytest.raises(rb.BridgeError) as caught:
                await peer.request("ping")
    parts += [
        repr(link),
        repr(link.health()),
        repr(list(events)),
        str(caught.value),
        repr(caught.value.__cause__),
    ]
    parts += [
        rb.classify(caught.value).explain(),
        str(rb.classify(caught.value).to_dict()),
        caplog.text,
    ]
    assert CANARY not in "\n".join(parts)


# ---- 44: a token that cannot be renewed ---------------------------------------------------------------------------


@pytest.mark.parametrize("refresh", ["fails", "recurses"])
async def test_row_44_a_refresh_that_does_not_work_ends_in_the_refusal(refresh):
    """401 in mid-session: one refresh is tried, bounded; what comes out is an answer or an error, not a hang."""
    refreshed = 0

    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()

    async with answering(refuse) as (port, accepted):
        url = f"http://127.0.0.1:{port}/"

        async def log_in():
            nonlocal refreshed
            refreshed += 1
            if refresh == "fails":
                raise RuntimeError("no token today")
            await client.get(url)

        policy = rb.Policy(
            rb.Deadline(5),
            rb.Retry(
                rules={401: rb.Rule(attempts=2, before=log_in, backoff=rb.Backoff.constant(0))}
            ),
        )
        async with httpx.AsyncClient(transport=rb.HTTPTransport(policy)) as client:
            if refresh == "fails":
                with pytest.raises(
                    RuntimeError, match="no token today"
                ):  # what the user's own code raised is the user's to see
                    await client.get(url)
            else:
                assert (await client.get(url)).status_code == 401
    assert refreshed == 1
    assert len(accepted) <= 3
