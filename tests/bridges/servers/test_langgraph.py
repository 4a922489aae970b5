"""LangGraph's development server: what its streams do on the wire, and `rb.links.EventSource` before it, with cuts, kills and restarts.

langgraph_runs.py says what a reader can know. langgraph-api is under the Elastic License 2.0 and installed for these tests alone.
"""

from __future__ import annotations

import json
import sys

import httpx
import pytest

from tests.bridges.servers import langgraph
from tests.bridges.servers.langgraph_runs import LangGraphRun
from tests.bridges.servers.sse_runs import campaign


pytestmark = pytest.mark.real

FIFTY = range(100, 150)
START = {"Last-Event-ID": "-1"}


@pytest.fixture
async def graphs(tmp_path):
    """A development server."""
    async with langgraph.running(tmp_path) as server:
        yield server


async def events_of(url, headers, wanted):
    """The status, and name, id and data of the first events: so many, or all up to the end of the stream if `wanted` is None."""
    event, heard = {}, []
    async with (
        httpx.AsyncClient(trust_env=False, verify=False, timeout=30) as client,
        client.stream("GET", url, headers=headers) as response,
    ):
        async for line in response.aiter_lines():
            name, _, value = line.partition(": ")
            if line and name:
                event[name] = json.loads(value) if name == "data" else value
            elif event:
                heard.append(event)
                event = {}
                if len(heard) == wanted:
                    break
    return response.status_code, heard


def numbers_in(heard):
    """The numbers in such events."""
    return [event["data"]["number"] for event in heard if event["event"] == "custom"]


async def test_langgraph_goes_on_behind_an_id_while_the_run_goes_on_and_afterwards(graphs):
    """-1 is before everything; behind any id come the later events; without one, none that was before; the end of the run ends the stream."""
    await graphs.start_run("a")
    for number in (1, 2, 3):
        await graphs.publish(number)
    _, (metadata, first, *_) = await events_of(graphs.url, START, 4)
    assert metadata["event"] == "metadata"
    assert first["data"] == {"number": 1}
    assert numbers_in((await events_of(graphs.url, {"Last-Event-ID": first["id"]}, 2))[1]) == [2, 3]
    await graphs.offer(0)
    status, heard = await events_of(graphs.url, {"Last-Event-ID": first["id"]}, None)
    assert (status, numbers_in(heard)) == (200, [2, 3, 0])
    for headers in ({}, {"Last-Event-ID": "9999999999999-0"}):
        assert await events_of(graphs.url, headers, None) == (200, [])
    assert await graphs.ledger() == ["a"]


async def test_langgraph_gives_events_of_one_millisecond_one_id(graphs):
    """So an id is no place in the stream: behind it the others of that millisecond do not come again."""
    await graphs.start_run("a")
    await graphs.offer(-1)
    await graphs.offer(0)
    _, heard = await events_of(graphs.url, START, None)
    while 0 not in numbers_in(
        heard
    ):  # the run has not ended, and what is read meanwhile may come twice
        _, heard = await events_of(graphs.url, START, None)
    ids = {event["data"]["number"]: event["id"] for event in heard if event["event"] == "custom"}
    assert [*ids] == [*range(1, 51), 0]
    number = next(number for number in range(1, 50) if ids[number] == ids[number + 1])
    _, behind = await events_of(graphs.url, {"Last-Event-ID": ids[number]}, None)
    assert number + 1 not in numbers_in(behind)
    assert 0 in numbers_in(behind)


async def test_langgraph_knows_no_run_after_a_kill_and_says_so_with_200(graphs):
    """An `error` event, and the end of the stream."""
    await graphs.start_run("a")
    await graphs.publish(1)
    _, heard = await events_of(graphs.url, START, 2)
    graphs.kill()
    assert graphs.processes() == []
    await graphs.start()
    status, (error,) = await events_of(graphs.url, {"Last-Event-ID": heard[-1]["id"]}, None)
    assert status == 200
    assert error["event"] == "error"
    assert error["data"]["message"] == "404: Run not found"
    assert await graphs.ledger() == ["a"]


async def test_langgraph_runs_a_graph_again_after_a_stop_with_another_log(graphs):
    """The node has run twice. Behind the old id come the new `metadata` and what is new; what was not read before is gone, and nothing says so."""
    await graphs.start_run("a")
    await graphs.publish(1)
    _, heard = await events_of(graphs.url, START, 2)
    await graphs.publish(2)
    await graphs.stop()
    await graphs.start()
    await graphs.publish(3)
    _, (metadata, three) = await events_of(graphs.url, {"Last-Event-ID": heard[-1]["id"]}, 2)
    assert metadata["event"] == "metadata"
    assert three["data"] == {"number": 3}
    assert await graphs.ledger() == ["a", "a"]


async def test_langgraph_a_sample_of_runs(graphs):
    """Three runs of the reader on one server: one kills it, one stops it."""
    seen = await campaign(LangGraphRun, graphs, (3, 4, 5), sys.stderr.write)
    assert seen.problems == []
    assert seen.delivered >= 3 * 8
    assert seen.verdicts["run gone"] >= 1


class Deaf(LangGraphRun):
    """A reader that overhears every number that ends in 2, and says nothing."""

    def take(self, event):
        """The event, unless it is such a number."""
        number = json.loads(event.data).get("number", 0)
        if number % 10 == 2:
            self.numbers[number] = event.id
            return True
        return super().take(event)


async def test_langgraph_a_run_notices_what_is_wrong(graphs):
    """A loss without a gap."""
    seen = await Deaf(graphs, 8).make()
    assert any("were lost without a gap" in problem for problem in seen.problems), seen.problems


@pytest.mark.campaign
@pytest.mark.timeout(3_000)
async def test_langgraph_fifty_runs(graphs, capsys):
    """Fifty seeds; a third of them kill the server, a third stop it politely. The totals are printed."""
    seen = await campaign(LangGraphRun, graphs, FIFTY, sys.stderr.write)
    with capsys.disabled():
        sys.stdout.write(f"\nlanggraph: {seen}\n")
    assert seen.problems == []
    assert seen.connections >= 50 * 4
