"""A link over real MCP servers that are killed, restarted and proxied: streamable HTTP in both of its eras, SSE, and stdio."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

import resilient_bridge as rb
from tests.adapters.link_peers import quick
from tests.adapters.link_servers import TRANSPORTS, Peer, linked, peer_of, text, ticket
from tests.peers.everything import everything, needs_everything
from tests.peers.processes import is_running
from tests.peers.running import Ledger, until


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]


# -- killed and restarted ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_calls_go_on_after_a_restart_between_them(transport, tmp_path):
    """Complaint 1: the next call is done by the next server, once; the link says how often it came back."""
    async with peer_of(transport, tmp_path) as peer, linked(peer) as (client, link):
        assert isinstance(client, Client)
        assert await ticket(client, "a") == "created a"
        await peer.kill()
        await peer.start()
        if transport in {
            "stdio",
            "sse",
        }:  # a read, which may meet the end of the connection, and may run twice
            await client.list_tools()
        assert await ticket(client, "b") == "created b"
        assert peer.ledger.keys == ["a", "b"]
        assert len(peer.ledger.lives) == 2
        assert client.server_info.name == "peer"
        # the era without sessions does not notice, and has no reason to
        assert link.health().reconnects == (0 if transport == "streamable-http" else 1)


@pytest.mark.requirement("V8", "G5", "V13")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_killed_in_mid_call_the_outcome_is_unknown(transport, tmp_path):
    """Complaints 2 and 4: within seconds an OutcomeUnknownError from a real cause; never a CancelledError, never a group; it ran once."""
    async with peer_of(transport, tmp_path) as peer, linked(peer) as (client, link):
        call = asyncio.create_task(client.call_tool("slow", {"seconds": 60, "key": "a"}))
        await peer.ledger.wait_for("a")
        await peer.kill()
        async with asyncio.timeout(10):
            with pytest.raises(
                rb.OutcomeUnknownError, match="outcome of call_tool unknown"
            ) as caught:
                await call
        cause = caught.value.__cause__
        assert isinstance(cause, httpx2.TransportError | MCPError)
        assert caught.value.failure.cause is cause
        assert caught.value.failure.executed is rb.errors.Executed.MAYBE
        if transport == "streamable-http":
            assert isinstance(cause, httpx2.ReadError | httpx2.RemoteProtocolError)
        await peer.start()
        assert await ticket(client, "b") == "created b"
        assert peer.ledger.keys == ["a", "b"]
        assert link.health().reconnects == 1


@pytest.mark.requirement("V13")
@pytest.mark.parametrize(
    ("transport", "reported"),
    [
        ("streamable-http", "all"),
        ("streamable-http", "predicate"),
        ("legacy", "name"),
        ("sse", "all"),
        ("stdio", "predicate"),
    ],
)
async def test_an_idempotent_call_is_repeated_after_the_reconnect(transport, reported, tmp_path):
    """`idempotent=`: True, the name of the tool, or a predicate; the ledger shows both runs."""
    idempotent = {
        "all": True,
        "name": ["slow"],
        "predicate": lambda call: call.method == "call_tool" and call.args[0] == "slow",
    }[reported]
    async with (
        peer_of(transport, tmp_path) as peer,
        linked(peer, idempotent=idempotent) as (client, _),
    ):
        call = asyncio.create_task(client.call_tool("slow", {"seconds": 0.4, "key": "a"}))
        await peer.ledger.wait_for("a")
        await peer.kill()
        await peer.start()
        assert text(await call) == "slept for a"
        assert peer.ledger.keys == ["a", "a"]


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_a_call_made_while_the_server_is_away_waits(transport, tmp_path):
    """Three calls, made when the link knows that nobody listens: done after the return, once each."""
    async with peer_of(transport, tmp_path) as peer, linked(peer) as (client, link):
        await ticket(client, "a")
        await peer.kill()
        read = asyncio.create_task(
            client.list_tools()
        )  # which tells the link, if nothing else does
        await until(lambda: link.health().attempt >= 2, "two failed attempts")
        calls = [asyncio.create_task(ticket(client, key)) for key in "bcd"]
        await peer.start()
        await read
        assert await asyncio.gather(*calls) == ["created b", "created c", "created d"]
        assert sorted(peer.ledger.keys) == ["a", "b", "c", "d"]


async def test_patience_ends_with_the_cause(tmp_path):
    """NotConnectedError, from the refusal; it says that the call did not run."""
    async with (
        peer_of("streamable-http", tmp_path) as peer,
        linked(peer, patience=0.3) as (client, _),
    ):
        await peer.kill()
        with pytest.raises(rb.errors.NotConnectedError, match="connection refused") as caught:
            await ticket(client, "a")
        assert isinstance(caught.value.__cause__, httpx2.ConnectError)
        assert caught.value.failure.executed is rb.errors.Executed.NO
        assert peer.ledger.keys == []


@pytest.mark.parametrize("transport", ["streamable-http", "sse", "stdio"])
async def test_calls_in_flight_together_each_get_an_outcome(transport, tmp_path):
    """Five run when the server dies, one reads: each of the five is unknown and ran once, the read is repeated."""
    async with peer_of(transport, tmp_path) as peer, linked(peer) as (client, _):
        calls = [
            asyncio.create_task(client.call_tool("slow", {"seconds": 60, "key": f"k{n}"}))
            for n in range(5)
        ]
        for n in range(5):
            await peer.ledger.wait_for(f"k{n}")
        await peer.kill()
        read = asyncio.create_task(client.list_tools())
        await peer.start()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in ended] == [rb.OutcomeUnknownError] * 5
        assert {tool.name for tool in (await read).tools} >= {"slow", "add"}
        assert sorted(peer.ledger.keys) == [f"k{n}" for n in range(5)]


@pytest.mark.parametrize("transport", ["legacy", "stdio"])
async def test_cancelling_one_call_leaves_the_others(transport, tmp_path):
    """The caller's own cancellation comes out as such; the call beside it ends well, on the same connection."""
    async with peer_of(transport, tmp_path) as peer, linked(peer) as (client, link):
        gone, stays = (
            asyncio.create_task(client.call_tool("slow", {"seconds": seconds, "key": key}))
            for seconds, key in ((60, "a"), (0.3, "b"))
        )
        await peer.ledger.wait_for("a")
        await peer.ledger.wait_for("b")
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert text(await stays) == "slept for b"
        assert link.health().reconnects == 0


# -- children ---------------------------------------------------------------------------------------------------------
@pytest.mark.requirement("G5")
async def test_a_child_that_dies_in_its_call_is_reaped_and_replaced(tmp_path):
    """Its exit is an unknown outcome, it ran once, its process is gone, and the next call has the next child."""
    async with peer_of("stdio", tmp_path) as peer, linked(peer) as (client, link):
        with pytest.raises(rb.OutcomeUnknownError):
            await client.call_tool("die", {"code": 3, "key": "a"})
        assert await ticket(client, "b") == "created b"
        assert (peer.ledger.keys, link.health().reconnects) == (["a", "b"], 1)
        first, second = peer.ledger.lives
        with pytest.raises(ChildProcessError):
            os.waitid(os.P_PID, first, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    assert not is_running(second)


@pytest.mark.requirement("G5", "S7")
async def test_a_child_of_ours_says_how_it_ended(tmp_path):
    """Over `rb.links.stdio` the exit code is in the failure; a request that may run twice is repeated by its own argument."""
    child = Path(__file__).with_name("child.py")
    factory = rb.links.stdio(sys.executable, "-I", "-S", str(child))
    async with rb.reconnecting(factory, quick()) as peer:
        first = peer.pid
        with pytest.raises(rb.OutcomeUnknownError) as caught:
            await peer.request("leave", {"code": 3})
        failure = caught.value.failure
        assert failure.details["exit_code"] == 3
        assert "3" in failure.explain()
        assert "Traceback" not in failure.explain()
        assert await peer.request("echo", {"text": "x"}, idempotent=True)
        assert peer.pid != first


async def test_a_command_that_is_not_there_is_reported_at_once(tmp_path):
    """ConfigError from the FileNotFoundError, after one attempt."""
    link = rb.reconnecting(
        lambda: Client(StdioServerParameters(command=str(tmp_path / "nothing"), args=[])), quick()
    )
    with pytest.raises(rb.ConfigError) as caught:
        async with link:
            pytest.fail("entered")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


@needs_everything
async def test_c17_nodes_example_server_is_outlived(tmp_path):
    """Another implementation of the protocol: killed and started again, it answers 400 without a JSON-RPC id, and the call has a new session."""
    async with everything(tmp_path / "log") as server:
        peer = Peer(lambda: Client(server.url()), Ledger(tmp_path / "none"), server)
        async with linked(peer) as (client, link):
            assert "hello" in text(await client.call_tool("echo", {"message": "hello"}))
            await server.restart()
            assert "again" in text(await client.call_tool("echo", {"message": "again"}))
            assert link.health().reconnects == 1
