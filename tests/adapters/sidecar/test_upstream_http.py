"""The connection to an MCP server over streamable HTTP, against servers that are not ours: effects are counted on their side."""

from __future__ import annotations

import asyncio

import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventMessage, EventStore

import resilient_bridge as rb
from tests.adapters.sidecar.http_servers import (
    call,
    connected,
    opened,
    order,
    sdk_server,
)
from tests.internals.adapters import message as rpc
from tests.peers.everything import everything, needs_everything
from tests.peers.mcp_server import build
from tests.peers.running import Ledger, until


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]

NO, MAYBE = rb.errors.Executed.NO, rb.errors.Executed.MAYBE


@pytest.mark.parametrize("form", ["json", "stream"])
async def test_the_python_sdk_restarted_has_forgotten_the_session(form, tmp_path):
    """Each call that meets it provably did not run, concerns itself, and is done in the next session: once. While it is away: unreachable."""
    ledger = Ledger(tmp_path / "ledger")
    async with sdk_server(
        lambda: build(ledger.file, 2).streamable_http_app(json_response=form == "json")
    ) as server:
        async with connected(server.url) as (upstream, heard):
            assert (await opened(upstream, heard))["serverInfo"]["name"] == "peer"
            upstream.send(order(1, "a"))
            assert (await heard.outcome(1)).result["content"][0]["text"] == "created a"
            await server.stop()
            upstream.send(order(2, "b"))
            loss = await heard.outcome(2)
            assert (loss.executed, loss.is_away, loss.is_session_gone) == (NO, True, False)
            await server.start()
            upstream.send(order(3, "b"))
            upstream.send(order(4, "c"))
            for number in (3, 4):
                loss = await heard.outcome(number)
                assert (loss.executed, loss.is_away, loss.is_session_gone) == (NO, False, True)
            assert ledger.keys == ["a"]
        async with connected(server.url) as (upstream, heard):
            await opened(upstream, heard)
            upstream.send(order(1, "b"))
            assert (await heard.outcome(1)).result
    assert ledger.keys == ["a", "b"]


@pytest.mark.parametrize("form", ["json", "stream"])
async def test_the_python_sdk_in_the_modern_era_has_no_session(form, tmp_path):
    """Requests on their own, known by their `_meta`; restarted it answers the next; killed in the middle of a call, that may have run."""
    ledger = Ledger(tmp_path / "ledger")
    app = lambda: build(ledger.file, 2).streamable_http_app(json_response=form == "json")  # noqa: E731
    async with sdk_server(app) as server, connected(server.url) as (upstream, heard):
        upstream.send(order(1, "a", modern=True))
        assert (await heard.outcome(1)).result["resultType"] == "complete"
        upstream.send(call(2, "slow", modern=True, seconds=30, key="b"))
        await ledger.wait_for("b")
        await server.stop()
        assert (await heard.outcome(2)).executed is MAYBE
        await server.start()
        upstream.send(order(3, "c", modern=True))
        assert (await heard.outcome(3)).result
        upstream.send(rpc.request(4, "no/such", {"_meta": order(4, "", modern=True).meta}))
        assert (await heard.outcome(4)).error["code"] == -32601  # which comes with a 404
    assert ledger.keys == ["a", "b", "c"]


async def test_the_python_sdk_s_own_streams_are_taken_up_again():
    """It closes the stream of a call in the middle, as 2025-11-25 has it, keeps the events, and tells changes on the stream of notices."""
    effects = []
    peer = MCPServer("peer", version="1", log_level="CRITICAL")

    @peer.tool()
    async def polled(ctx: Context) -> str:
        effects.append("polled")
        await ctx.session.send_tool_list_changed()
        await ctx.close_sse_stream()
        await asyncio.sleep(0.05)
        return "after the cut"

    gets = []

    def app():
        inner = peer.streamable_http_app(event_store=MemoryEvents(), retry_interval=20)

        async def counted(scope, receive, send):
            async def counting(message):
                await send(message)
                if message["type"] == "http.response.start" and scope["method"] == "GET":
                    gets.append(dict(scope["headers"]).get(b"last-event-id"))

            await inner(scope, receive, counting if scope["type"] == "http" else send)

        return counted

    async with sdk_server(app) as server, connected(server.url) as (upstream, heard):
        await opened(upstream, heard)
        await until(lambda: gets, "the stream of notices is there")
        upstream.send(call(1, "polled"))
        assert (await heard.outcome(1)).result["content"][0]["text"] == "after the cut"
        await until(
            lambda: (
                ("notifications/tools/list_changed", None)
                in [(m.method, r) for m, r in heard.messages]
            ),
            "the notice",
        )
    assert effects == ["polled"]
    assert gets[0] is None
    assert len([position for position in gets if position]) == 1


class MemoryEvents(EventStore):
    """The events of all streams, in memory."""

    def __init__(self):
        """None yet."""
        self.events = []

    async def store_event(self, stream_id, message):
        """Keep it; its id is its number."""
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        """Send what came later in the same stream."""
        after = int(last_event_id)
        stream_id = self.events[after - 1][0]
        for number, (stream, message) in enumerate(self.events[after:], after + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream_id


@needs_everything
async def test_node_s_own_example_server(tmp_path):
    """Another implementation: a session, notices, a 400 without an id once it is restarted, which proves that the call did not run."""
    async with everything(tmp_path / "log") as server, connected(server.url()) as (upstream, heard):
        assert "everything" in (await opened(upstream, heard))["serverInfo"]["name"]
        upstream.send(call(1, "echo", message="a"))
        assert (await heard.outcome(1)).result["content"][0]["text"] == "Echo: a"
        await server.restart()
        upstream.send(call(2, "echo", message="b"))
        loss = await heard.outcome(2)
        assert (loss.executed, loss.is_session_gone) == (NO, True)
        async with connected(server.url()) as (later, news):
            await opened(later, news)
            later.send(call(1, "echo", message="b"))
            assert (await news.outcome(1)).result["content"][0]["text"] == "Echo: b"
