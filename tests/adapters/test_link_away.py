"""M01: a link over a real MCP server behind a proxy that says for a while that the server is away."""

from __future__ import annotations

import asyncio

import pytest
from mcp.shared.exceptions import MCPError

from tests.adapters.link_servers import ticket
from tests.adapters.test_link_mcp_proxy import proxied
from tests.peers.faults import Fault
from tests.peers.running import mcp_server, until


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]


@pytest.fixture(scope="module")
async def server(tmp_path_factory):
    """One MCP server for all of them: it is the proxy that fails."""
    async with mcp_server(ledger=tmp_path_factory.mktemp("mcp") / "ledger") as server:
        yield server


@pytest.mark.requirement("X5")
@pytest.mark.parametrize("with_transport", [False, True], ids=["mcp's own", "HTTPTransport"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("status", [502, 503, 504])
async def test_calls_wait_while_a_proxy_says_that_the_server_is_away(
    status, mode, with_transport, server
):
    """M01: the one that met it is in doubt; twelve later ones are held, and then run once each. A read of that time is answered."""
    async with proxied(server, with_transport=with_transport, mode=mode) as (
        front,
        peer,
        client,
        _,
    ):
        assert await ticket(client, "before") == "created before"
        front.strike(Fault.answer(status), times=1_000_000)
        with pytest.raises(MCPError):
            await ticket(client, "struck")
        calls = [asyncio.create_task(ticket(client, f"k{n}")) for n in range(12)]
        read = asyncio.create_task(client.list_tools(cache_mode="bypass"))
        seen = len(front.log)
        await until(lambda: len(front.log) > seen + 3, "attempts that the proxy refuses")
        assert not any(one.done() for one in (*calls, read))
        front.heal()
        assert await asyncio.gather(*calls) == [f"created k{n}" for n in range(12)]
        assert (await read).tools
        assert peer.ledger.keys.count("struck") == 0
        assert sorted(peer.ledger.keys[1:]) == sorted(f"k{n}" for n in range(12))


async def test_a_call_in_progress_is_answered_while_another_one_meets_a_502(server):
    """M01: the link opens another connection only after what is under way on this one has its answer."""
    async with proxied(server, with_transport=False) as (front, peer, client, _):
        slow = asyncio.create_task(client.call_tool("slow", {"seconds": 0.5, "key": "slow"}))
        await peer.ledger.wait_for("slow")
        for rpc in (
            "tools/call",
            "ping",
            "initialize",
            "server/discover",
        ):  # mcp lists the tools after a call
            front.strike(Fault.answer(502), times=1_000_000, rpc=rpc)
        with pytest.raises(MCPError):
            await ticket(client, "struck")
        assert not (await slow).is_error
        front.heal()
        assert await ticket(client, "after") == "created after"


@pytest.mark.parametrize("with_transport", [False, True], ids=["mcp's own", "HTTPTransport"])
async def test_a_read_is_repeated_with_pauses_while_a_proxy_refuses_it(with_transport, server):
    """M01: the ping is answered and the call is not, as behind a balancer: the client stays, and a write is not repeated."""
    async with proxied(server, with_transport=with_transport, trust_hints=True) as (
        front,
        peer,
        client,
        link,
    ):
        front.strike(Fault.answer(502), rpc="tools/call", times=3)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert (await client.call_tool("add", {"a": 1, "b": 2})).content[0].text == "3"
        assert loop.time() - began >= 0.25 + 0.5
        front.strike(Fault.answer(502), rpc="tools/call")
        with pytest.raises(MCPError):
            await ticket(client, "struck")
        assert peer.ledger.keys == []
        assert link.health().reconnects == 0


async def test_hints_that_a_proxy_refused_are_asked_for_again(server):
    """M05: a list that did not come is not kept as one without hints."""
    async with proxied(server, with_transport=False, trust_hints=True) as (front, _, client, link):
        front.strike(Fault.answer(500), rpc="tools/list")
        await ticket(client, "a")
        await ticket(client, "b")
        assert [one.request.rpc for one in front.log if one.request.rpc == "tools/list"][1:] == [
            "tools/list"
        ]
        assert link.health().reconnects == 0
