"""MCP with resumption: what the Python SDK's server does on the wire, and `resilient-bridge mcp URL` before it, with cuts, kills and restarts.

Rule: no call runs twice, and what each was told is true; one whose stream was cut is answered while the server lives that keeps its events.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.bridges.servers import mcp_events
from tests.bridges.servers.mcp_events_runs import CallRun, campaign
from tests.bridges.servers.wire import until


pytestmark = pytest.mark.real

FIFTY = range(100, 150)
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "plain", "version": "0"},
}
BOTH = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


@pytest.fixture
async def orders(tmp_path):
    """A server with an event store."""
    async with mcp_events.running(tmp_path) as server:
        yield server


class Plain:
    """A client of streamable HTTP that knows nothing of losses."""

    def __init__(self, url):
        """Nothing is sent yet."""
        self.url, self.session = url, {}
        self.client = httpx.AsyncClient(trust_env=False, verify=False, timeout=30)

    async def initialize(self):
        """Open a session."""
        async with self.posted(0, "initialize", INITIALIZE) as (response, events):
            self.session = {"mcp-session-id": response.headers["mcp-session-id"]}
            while "result" not in (await anext(events))[1]:
                pass

    def posted(self, ident, method, params):
        """A request; its response, and the events of its stream."""
        body = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
        return self._streamed("POST", json=body)

    def taken_up(self, last):
        """The stream behind the event with this id."""
        return self._streamed("GET", headers={"Last-Event-ID": last})

    @asynccontextmanager
    async def _streamed(self, method, headers=None, **options):
        headers = BOTH | self.session | (headers or {})
        async with self.client.stream(method, self.url, headers=headers, **options) as response:
            yield response, _events(response)


async def _events(response):
    """Id and message of each event; {} for one that only has a place."""
    ident = data = ""
    async for line in response.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "id":
            ident = value
        elif field == "data":
            data = value
        elif not line and ident:
            yield ident, json.loads(data or "{}")
            ident = data = ""


def order(marker):
    """What is asked of the tool."""
    return {"name": "order", "arguments": {"marker": marker}, "_meta": {"progressToken": "p"}}


async def test_mcp_events_brings_an_answer_of_the_time_without_a_listener(orders):
    """The first event of a stream only has a place; behind any of them, progress and answer come again, once."""
    plain = Plain(orders.url)
    await plain.initialize()
    async with plain.posted(1, "tools/call", order("a")) as (response, events):
        assert response.status_code == 200
        first, nothing = await anext(events)
        assert nothing == {}
        second, progress = await anext(events)
        assert progress["method"] == "notifications/progress"
    assert await orders.offer(7) == 1
    for last, brought in ((first, ["notifications/progress", None]), (second, [None])):
        async with plain.taken_up(last) as (response, events):
            heard = [(await anext(events))[1] for _ in brought]
        assert [message.get("method") for message in heard] == brought
        assert heard[-1]["result"]["content"][0]["text"] == "a 7"
    assert await orders.ledger() == ["a"]


async def test_mcp_events_forgets_events_and_sessions_in_a_restart(orders):
    """An id that is unknown is answered with an empty stream, a session that is unknown with 404; the order stays ordered."""
    plain = Plain(orders.url)
    await plain.initialize()
    async with plain.posted(1, "tools/call", order("a")) as (_, events):
        last, _ = await anext(events)
        await until(orders.ledger, ["a"])
    async with plain.taken_up("999") as (response, events):
        assert response.status_code == 200
        assert [each async for each in events] == []
    orders.kill()
    assert orders.processes() == []
    await orders.start()
    async with plain.taken_up(last) as (response, _):
        assert response.status_code == 404
    async with plain.posted(2, "tools/call", order("b")) as (response, _):
        assert response.status_code == 404
    await orders.stop()
    assert await orders.ledger() == ["a"]


async def test_mcp_events_a_sample_of_runs(orders):
    """Three runs of the sidecar on one server: one kills it, one stops it."""
    tally = await campaign(orders, (3, 4, 5))
    assert tally.problems == []
    assert tally.replays > 0
    assert tally.outcomes["answered"] >= 3
    assert tally.outcomes["unknown"] >= 2


async def test_mcp_events_a_run_notices_a_stream_that_is_not_taken_up(tmp_path):
    """Without an event store the same cut ends as unknown, and that is a problem here."""
    async with mcp_events.running(tmp_path, keeps=False) as server, asyncio.timeout(120):
        tally = await CallRun(server, 5).make()
    assert any("unknown instead of answered" in problem for problem in tally.problems), tally


@pytest.mark.campaign
@pytest.mark.timeout(3_000)
async def test_mcp_events_fifty_runs(orders, capsys):
    """Fifty seeds; a third of them kill the server, a third stop it politely. The totals are printed."""
    tally = await campaign(orders, FIFTY)
    with capsys.disabled():
        sys.stdout.write(f"\nmcp_events: {tally}\n")
    assert tally.problems == []
    assert tally.replays >= 50
    assert tally.outcomes["unknown"] >= tally.faults["kill"] + tally.faults["stop"]
