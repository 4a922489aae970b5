"""A link over a real MCP server with a faulty proxy in front: statuses, resets, cut answers and lost sessions."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

import resilient_bridge as rb
from tests.adapters.link_peers import quick
from tests.adapters.link_servers import Peer, linked, ticket
from tests.peers.faults import Fault
from tests.peers.http_fault import HttpFault
from tests.peers.ports import HOST
from tests.peers.running import mcp_server, until


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]


# -- a proxy in front -------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
async def server(tmp_path_factory):
    """One MCP server for all of them: it is the proxy that fails."""
    async with mcp_server(ledger=tmp_path_factory.mktemp("mcp") / "ledger") as server:
        yield server


@asynccontextmanager
async def proxied(
    server, *, with_transport: bool, mode: str = "auto", retry: rb.Retry | None = None, **options
):
    """A proxy before the server, and a link over clients of it, with the SDK's own HTTP client or with ours below."""
    retry = retry or rb.Retry(
        attempts=4, backoff=rb.Backoff.constant(0.02, jitter="none"), budget=None
    )
    server.ledger.file.unlink(missing_ok=True)
    async with HttpFault((HOST, server.port)) as front:
        url = front.url("/mcp")

        @asynccontextmanager
        async def over_ours():
            transport = rb.HTTPTransport(rb.Policy(retry))
            async with (
                httpx2.AsyncClient(transport=transport) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                yield client

        peer = Peer(
            over_ours if with_transport else lambda: Client(url, mode=mode), server.ledger, server
        )
        async with linked(peer, **options) as (client, link):
            yield front, peer, client, link


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 500, 503])
async def test_a_status_of_a_proxy_is_an_answer_not_a_loss(status, server):
    """Complaint 3, as far as it goes with the bare client: an MCPError, which mcp has robbed of its status; once, and the link stays."""
    async with proxied(server, with_transport=False) as (front, peer, client, link):
        front.strike(Fault.answer(status), rpc="tools/call")
        with pytest.raises(MCPError):
            await ticket(client, "a")
        assert peer.ledger.keys == []
        assert await ticket(client, "b") == "created b"
        assert link.health().reconnects == 0


@pytest.mark.parametrize(
    ("status", "is_repeated"),
    [
        (401, False),
        (403, False),
        (408, False),
        (425, True),
        (429, True),
        (500, False),
        (503, False),
    ],
)
async def test_with_our_transport_what_provably_did_not_run_is_repeated(
    status, is_repeated, server
):
    """425 and 429, below mcp, where the status is still known; a 408 and a 5xx may have run, and are answers."""
    async with proxied(server, with_transport=True) as (front, peer, client, link):
        front.strike(Fault.answer(status), rpc="tools/call", times=2)
        if is_repeated:
            assert await ticket(client, "a") == "created a"
        else:
            with pytest.raises(MCPError):
                await ticket(client, "a")
        assert peer.ledger.count("a") == is_repeated
        assert link.health().reconnects == 0


async def test_with_our_transport_status_and_retry_after_are_heard(server):
    """The event tells both, and the repeat does not come earlier than told."""
    async with proxied(server, with_transport=True) as (front, peer, client, _):
        front.strike(Fault.answer(429, retry_after=1), rpc="tools/call")
        seen, started = [], asyncio.get_running_loop().time()
        with rb.listen(seen.append):
            assert await ticket(client, "a") == "created a"
        assert asyncio.get_running_loop().time() - started >= 1
        retry = next(event for event in seen if isinstance(event, rb.events.RetryScheduled))
        assert (retry.failure.details["http_status"], retry.failure.retry_after) == (429, 1)
        assert peer.ledger.keys == ["a"]


async def test_with_our_transport_a_refused_connection_is_tried_again(server):
    """Nobody listens for a moment: the call, which never left, is done; the link does not even notice."""
    retry = rb.Retry(attempts=50, backoff=rb.Backoff.constant(0.02, jitter="none"), budget=None)
    async with proxied(server, with_transport=True, retry=retry) as (front, peer, client, link):
        await ticket(client, "a")
        await until(
            lambda: all(connection.is_idle for connection in front._open), "idle connections"
        )
        await front.refuse()
        call = asyncio.create_task(ticket(client, "b"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(call), 0.1)
        await front.listen()
        assert await call == "created b"
        assert (peer.ledger.keys, link.health().reconnects) == (["a", "b"], 0)


async def test_a_refused_connection_of_one_call_proves_nothing_for_another(server):
    """One call runs on an open connection; another is refused, and ends the client under both: the first may have run, and did."""
    async with proxied(server, with_transport=False, patience=1) as (front, peer, client, _):
        runs = asyncio.create_task(client.call_tool("slow", {"seconds": 60, "key": "a"}))
        await peer.ledger.wait_for("a")
        await front.refuse()
        with pytest.raises(rb.BridgeError):
            await ticket(client, "b")
        with pytest.raises(rb.OutcomeUnknownError) as caught:
            await runs
        assert caught.value.failure.executed is rb.errors.Executed.MAYBE
        await front.listen()
        assert await ticket(client, "c") == "created c"
        assert peer.ledger.keys == ["a", "c"]


@pytest.mark.parametrize(
    ("fault", "runs"),
    [
        (Fault.reset_unread(), 0),
        (Fault.reset_before(), 0),
        (Fault.reset_after(), 1),
        (Fault.cut(), 1),
        (Fault.cut(5, reset=True), 1),
    ],
    ids=lambda fault: fault.kind if isinstance(fault, Fault) else "",
)
async def test_an_answer_that_breaks_off_is_an_unknown_outcome(fault, runs, server):
    """From the error of the connection itself; it is not repeated, whether it ran or not."""
    async with proxied(server, with_transport=True) as (front, peer, client, link):
        await ticket(client, "first")
        front.strike(fault, rpc="tools/call")
        with pytest.raises(rb.OutcomeUnknownError) as caught:
            await ticket(client, "a")
        assert isinstance(caught.value.__cause__, httpx2.TransportError)
        assert await ticket(client, "b") == "created b"
        assert (peer.ledger.count("a"), peer.ledger.count("b")) == (runs, 1)
        assert link.health().reconnects == 1


@pytest.mark.parametrize("with_transport", [False, True])
async def test_a_lost_session_is_made_anew_and_the_call_repeated(with_transport, server):
    """Complaint 1: the 404 of a session that is gone means that nothing ran: initialise again, and repeat."""
    async with proxied(server, with_transport=with_transport, mode="legacy") as (
        front,
        peer,
        client,
        link,
    ):
        await ticket(client, "first")
        front.strike(Fault.answer(404), rpc="tools/call")
        assert await ticket(client, "a") == "created a"
        assert (peer.ledger.count("a"), link.health().reconnects) == (1, 1)


async def test_a_session_that_is_lost_after_the_tool_ran_repeats_nothing(server):
    """After a tool's first run mcp asks for the list of tools, within the same call: that 404 does not mean that the tool did not run."""
    async with proxied(server, with_transport=False, mode="legacy") as (front, peer, client, _):
        front.strike(Fault.answer(404), rpc="tools/list")
        with pytest.raises(rb.OutcomeUnknownError):
            await ticket(client, "a")
        assert await ticket(client, "b") == "created b"
        assert peer.ledger.keys == ["a", "b"]


async def test_statuses_while_connecting_are_outlived(server):
    """A proxy that answers 503 to everything for a while: the link is offline and goes on, the call is done when it is over."""
    server.ledger.file.unlink(missing_ok=True)
    async with HttpFault((HOST, server.port)) as front:
        front.strike(Fault.answer(503), times=8)
        link = rb.reconnecting(lambda: Client(front.url("/mcp")), quick(), patience=20)
        async with link as client:
            assert await ticket(client, "a") == "created a"
            assert link.health().failure is not None
        assert server.ledger.keys == ["a"]
