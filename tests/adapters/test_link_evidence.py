"""What proves to a link that a call did not run, and what does not: effects are counted at real servers, or by the object called."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Self

import httpx2
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

import resilient_bridge as rb
from tests.adapters.link_peers import Client, World, quick, virtual
from tests.adapters.link_servers import Peer, linked, peer_of, ticket
from tests.adapters.test_link_calls import client_of
from tests.peers.faults import Fault
from tests.peers.http_fault import HttpFault
from tests.peers.ports import HOST, Port
from tests.peers.running import mcp_server, until
from tests.rows import each_row


pytestmark = pytest.mark.timeout(60)


# -- methods of any object ---------------------------------------------------------------------------------------------
class Shop:
    """A shop whose order charges, and then writes a mail."""

    def __init__(self, charged: list[str], error: Exception) -> None:
        """`error`: what the mail server says."""
        self.charged, self.error = charged, error

    async def __aenter__(self) -> Self:
        """Open."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""

    async def order(self, item: str) -> None:
        """Charge, then fail."""
        self.charged.append(item)
        await asyncio.sleep(0)
        raise self.error

    async def order_at_once(self, item: str) -> None:
        """Charge, then fail before anything was waited for."""
        self.charged.append(item)
        raise self.error


SECOND_STEPS = {
    "refused": ConnectionRefusedError(111, "mail refused"),
    "no such name": rb.BridgeError(rb.Failure.of("CONN_DNS_FAILED", "mail.invalid")),
    "not connected": rb.errors.NotConnectedError(rb.Failure.of("CONN_NOT_CONNECTED", "mail")),
    "text": RuntimeError("connect ECONNREFUSED 127.0.0.1:25"),
    "limited": httpx2.HTTPStatusError(
        "429", request=httpx2.Request("POST", "http://m"), response=httpx2.Response(429)
    ),
    "session": MCPError(-32600, "Session not found"),
    "unknown method": MCPError(-32601, "Method not found"),
    "circuit": rb.CircuitOpenError(rb.Failure.of("SYS_CIRCUIT_OPEN", "mail")),
}


@virtual
@each_row("method", ["order", "order_at_once"])
@each_row("error", SECOND_STEPS.values(), ids=SECOND_STEPS)
@each_row(
    "layer",
    [
        rb.Retry(attempts=4, on=(Exception,), backoff=rb.Backoff.constant(0), budget=None),
        rb.Breaker(),
    ],
    ids=["retry", "none"],
)
async def test_a12_what_a_method_raises_proves_nothing_about_it(error, method, layer):
    """It charged, and then its second step was refused: it is not called again, and nobody is told that it did not run."""
    charged: list[str] = []
    async with rb.reconnecting(lambda: Shop(charged, error), quick(calls=rb.Policy(layer))) as shop:
        with pytest.raises(Exception) as caught:
            await getattr(shop, method)("book")
    assert charged == ["book"]
    assert rb.classify(caught.value).executed is rb.errors.Executed.MAYBE


@virtual
@pytest.mark.parametrize("is_loss", [False, True])
async def test_a_method_that_knows_better_says_so(is_loss):
    """`raise NotExecutedError from error`: nothing of it has happened, so it is called again, on a new client if this one is lost."""
    tried: list[str] = []

    class Careful(Shop):
        async def order(self, item: str) -> None:
            tried.append(item)
            await asyncio.sleep(0)
            if len(tried) == 1:
                cause = ConnectionRefusedError(111, "refused") if is_loss else TimeoutError("busy")
                raise rb.NotExecutedError from cause
            self.charged.append(item)

    charged: list[str] = []
    link = rb.reconnecting(lambda: Careful(charged, ValueError()), quick())
    async with link as shop:
        await shop.order("book")
        assert (charged, len(tried), link.health().reconnects) == (["book"], 2, int(is_loss))


@virtual
async def test_an_explicit_no_closes_every_permission():
    """`idempotent=False`: not even a read by protocol, or what the policy names repeatable, is done again; left out, both are."""
    for no, runs in ((False, 1), (None, 2)):
        world = World(client_of("mcp", list_tools=Client.wait, bridge_health=Client.wait))
        policy = quick().evolve(idempotent=("bridge_health",))
        async with rb.reconnecting(world.factory, policy, idempotent=no) as client:
            for name in ("list_tools", "bridge_health"):
                world.gate.clear()
                call = asyncio.create_task(getattr(client, name)(name))
                await until(lambda name=name, world=world: world.ran[name])
                world.client.die(ConnectionResetError("gone"))
                if no is False:
                    with pytest.raises(rb.OutcomeUnknownError):
                        await call
                else:
                    world.gate.set()
                    await call
        assert world.ran == {"list_tools": runs, "bridge_health": runs}


# -- an MCP session that is gone --------------------------------------------------------------------------------------
def rpc(code: int, message: str, **more: object) -> bytes:
    """A JSON-RPC error, as servers write it."""
    return json.dumps(
        {"jsonrpc": "2.0", "error": {"code": code, "message": message}, **more}
    ).encode()


JSON = "application/json"
FORMS = {
    "404": (404, b"", "text/plain"),
    "404 with words": (404, b"Not Found", "text/plain"),
    "404 typescript": (404, rpc(-32001, "Session not found", id=None), JSON),
    "404 python": (404, rpc(-32600, "Session not found", id="server-error"), JSON),
    "404 python, older": (
        404,
        rpc(-32600, "Not Found: Invalid or expired session ID", id=None),
        JSON,
    ),
    "404 -32000": (404, rpc(-32000, "Session not found", id=None), JSON),
    "400 no valid id": (
        400,
        rpc(-32000, "Bad Request: No valid session ID provided", id=None),
        JSON,
    ),
    "400 without an id": (400, rpc(-32000, "Bad Request: No valid session ID provided"), JSON),
    "400 not initialized": (400, rpc(-32000, "Bad Request: Server not initialized", id=None), JSON),
    "400 plain": (400, b"Invalid or missing session ID", "text/plain"),
    "401 rust": (401, b"Unauthorized: Session not found", "text/plain"),
    "401 json": (401, rpc(-32000, "Session not found", id=None), JSON),
    "503": (503, b'{"error": "session is unknown on this API instance"}', JSON),
}
TRANSPORTS = ["url", "transport"]


@pytest.fixture(scope="module")
async def server(tmp_path_factory):
    """One MCP server for all of them: the proxy before it says what it says."""
    async with mcp_server(ledger=tmp_path_factory.mktemp("mcp") / "ledger") as server:
        yield server


@asynccontextmanager
async def fronted(server, way: str = "url", **options):
    """A proxy before the server, and a link over clients of it: of the url, or with our transport below."""
    server.ledger.file.unlink(missing_ok=True)
    async with HttpFault((HOST, server.port)) as front:
        url = front.url("/mcp")

        @asynccontextmanager
        async def over_ours():
            async with (
                httpx2.AsyncClient(
                    transport=rb.HTTPTransport(rb.Policy(rb.Breaker())), follow_redirects=True
                ) as http,
                McpClient(streamable_http_client(url, http_client=http), mode="legacy") as client,
            ):
                yield client

        factory = over_ours if way == "transport" else lambda: McpClient(url, mode="legacy")
        async with linked(Peer(factory, server.ledger, server), **options) as (client, link):
            yield front, client, link


@pytest.mark.real
@pytest.mark.parametrize("way", TRANSPORTS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_c15_a_lost_session_is_renewed_whatever_the_server_says_it_with(form, way, server):
    """Initialised again once, and the call, which the server refused to look at, is done: once."""
    status, body, kind = form
    async with fronted(server, way) as (front, client, link):
        await ticket(client, "first")
        front.strike(Fault.answer(status, body, content_type=kind), rpc="tools/call")
        assert await ticket(client, "a") == "created a"
        assert (server.ledger.count("a"), link.health().reconnects) == (1, 1)


@pytest.mark.real
@pytest.mark.parametrize("way", TRANSPORTS)
async def test_a_call_whose_request_is_redirected_is_done_once(way, server):
    """The next request inherits what ours was marked with, and is sent all the same."""
    async with fronted(server, way) as (front, client, link):
        await ticket(client, "first")
        front.strike(Fault.answer(307, location=front.url("/mcp")), rpc="tools/call")
        assert await ticket(client, "a") == "created a"
        assert (server.ledger.count("a"), link.health().reconnects) == (1, 0)


@pytest.mark.real
@pytest.mark.parametrize("way", TRANSPORTS)
async def test_c15_once_for_all_calls_that_hit_it(way, server):
    """Six calls at once, each told 404: one new session, and each is done once."""
    async with fronted(server, way) as (front, client, link):
        await ticket(client, "first")
        body = rpc(-32001, "Session not found", id=None)
        front.strike(Fault.answer(404, body, content_type=JSON), rpc="tools/call", times=6)
        keys = [f"k{n}" for n in range(6)]
        assert await asyncio.gather(*(ticket(client, key) for key in keys)) == [
            f"created {key}" for key in keys
        ]
        assert sorted(server.ledger.keys) == sorted(["first", *keys])
        assert link.health().reconnects == 1


@pytest.mark.real
async def test_c15_a_session_that_is_never_known_ends(server):
    """A wrong path, or replicas without sticky sessions: after three sessions the call fails, "did not run"."""
    async with fronted(server) as (front, client, link):
        front.strike(
            Fault.answer(404, rpc(-32001, "Session not found", id=None), content_type=JSON),
            rpc="tools/call",
            times=50,
        )
        with pytest.raises(rb.errors.NotConnectedError, match="did not run") as caught:
            await ticket(client, "a")
        assert caught.value.failure.executed is rb.errors.Executed.NO
        assert (server.ledger.keys, link.health().reconnects <= 3) == ([], True)


@pytest.mark.real
@pytest.mark.parametrize(
    "answer",
    [
        (401, b"token expired"),
        (400, b"bad request"),
        (403, b"no"),
        (500, b"Session not found"),
        (404, rpc(-32601, "Method not found", id=None)),
    ],
    ids=lambda answer: str(answer[0]),
)
async def test_c15_other_refusals_are_answers(answer, server):
    """They come out as they are, once, and the session stays."""
    status, body = answer
    async with fronted(server) as (front, client, link):
        front.strike(
            Fault.answer(
                status, body, content_type=JSON if body.startswith(b"{") else "text/plain"
            ),
            rpc="tools/call",
        )
        with pytest.raises(MCPError):
            await ticket(client, "a")
        assert await ticket(client, "b") == "created b"
        assert (server.ledger.keys, link.health().reconnects) == (["b"], 0)


@asynccontextmanager
async def away(folder, way: str):
    """A server that can be killed, a client of a link to it, and the link."""
    async with peer_of("streamable-http", folder) as peer:
        there = Peer(_factory(peer.server.url(), way), peer.ledger, peer.server)
        async with linked(there) as (client, link):
            yield peer, client, link


# -- an MCP server that is not there ----------------------------------------------------------------------------------
@pytest.mark.real
@pytest.mark.parametrize("way", [*TRANSPORTS, "own client"])
async def test_c16_no_server_listens_the_call_waits_and_is_done(way, tmp_path):
    """The connection was refused, so it did not run: it waits for the link, and is done once when the server is back."""
    async with away(tmp_path, way) as (peer, client, link):
        await ticket(client, "a")
        await peer.kill()
        call = asyncio.create_task(ticket(client, "b"))
        await until(lambda: link.health().attempt >= 2)
        assert not call.done()
        await peer.start()
        assert await call == "created b"
        assert peer.ledger.keys == ["a", "b"]


@pytest.mark.real
@pytest.mark.parametrize("way", [*TRANSPORTS, "own client"])
async def test_c16_no_server_comes_back_it_was_not_sent(way, tmp_path):
    """NotConnectedError when patience ends, `executed` NO, from the refusal."""
    async with peer_of("streamable-http", tmp_path) as peer:
        there = Peer(_factory(peer.server.url(), way), peer.ledger, peer.server)
        async with linked(there, patience=0.5) as (client, _):
            await ticket(client, "a")
            await peer.kill()
            with pytest.raises(rb.errors.NotConnectedError, match="refused") as caught:
                await ticket(client, "b")
            assert caught.value.failure.executed is rb.errors.Executed.NO
            assert peer.ledger.keys == ["a"]


@pytest.mark.real
@pytest.mark.parametrize("way", TRANSPORTS)
async def test_c16_several_calls_that_were_never_sent_are_all_done_later(way, tmp_path):
    """One refused connection ends the client under all of them; each knows of itself that nothing was written."""
    async with away(tmp_path, way) as (peer, client, link):
        await ticket(client, "a")
        await peer.kill()
        calls = [asyncio.create_task(ticket(client, f"k{n}")) for n in range(5)]
        await until(lambda: link.health().attempt >= 2)
        await peer.start()
        ended = await asyncio.gather(*calls)
        assert ended == [f"created k{n}" for n in range(5)]
        assert sorted(peer.ledger.keys) == ["a", *(f"k{n}" for n in range(5))]


@pytest.mark.real
async def test_c16_from_the_start_no_server_listens():
    """A closed port: offline first, and the first call says that it was not sent."""
    with Port() as port:
        url = f"http://127.0.0.1:{port.number}/mcp"
        async with rb.reconnecting(lambda: McpClient(url), quick(), patience=0.3) as client:
            with pytest.raises(rb.errors.NotConnectedError, match="refused"):
                await client.call_tool("x")


def _factory(url: str, way: str):
    if way == "url":
        return lambda: McpClient(url)

    @asynccontextmanager
    async def over():
        transport = (
            rb.HTTPTransport(rb.Policy(rb.Retry(attempts=2, backoff=rb.Backoff.constant(0.01))))
            if way == "transport"
            else None
        )
        async with (
            httpx2.AsyncClient(transport=transport) as http,
            McpClient(streamable_http_client(url, http_client=http)) as client,
        ):
            yield client

    return over
