"""An A2A agent: what its streams do on the wire, and `rb.links.EventSource` before it, with cuts, kills and restarts.

a2a_runs.py says what a reader can know.
"""

from __future__ import annotations

import json
import sys

import httpx
import pytest

import resilient_bridge as rb
from tests.bridges.servers import a2a
from tests.bridges.servers.a2a_runs import A2ARun
from tests.bridges.servers.sse_runs import campaign


pytestmark = pytest.mark.real

FIFTY = range(100, 150)


@pytest.fixture
async def agent(tmp_path):
    """An agent."""
    async with a2a.running(tmp_path) as server:
        yield server


async def heard_of(agent, task, wanted, publish=()):
    """The first results of a subscription; `publish` is published when the first has come."""
    heard = []
    body = a2a.question("SubscribeToTask", id=task)
    async with (
        httpx.AsyncClient(trust_env=False, verify=False, timeout=30) as client,
        client.stream("POST", agent.url, json=body, headers=a2a.HEADERS) as response,
    ):
        async for line in response.aiter_lines():
            assert not line.startswith("id:")
            if line.startswith("data: "):
                heard.append(json.loads(line.removeprefix("data: "))["result"])
                for number in publish if len(heard) == 1 else ():
                    await agent.publish(number)
                if len(heard) == wanted:
                    break
    return heard


def artifacts_of(task):
    """The numbers that a task has."""
    return [int(each["artifactId"]) for each in task["artifacts"]]


async def test_a2a_says_a_snapshot_first_and_then_what_is_new(agent):
    """No event has an id; each subscription begins with the whole task, and a task goes on without a reader."""
    task = await agent.begin_task("a")
    await agent.publish(1)
    snapshot, artifact = await heard_of(agent, task, 2, publish=(2,))
    assert artifacts_of(snapshot["task"]) == [1]
    assert artifact["artifactUpdate"]["artifact"]["artifactId"] == "2"
    await agent.publish(3)
    snapshot, end = await heard_of(agent, task, 2, publish=(0,))
    assert artifacts_of(snapshot["task"]) == [1, 2, 3]
    assert end["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert artifacts_of((await agent.ask("GetTask", id=task))["result"]) == [1, 2, 3]
    assert await agent.ledger() == ["a"]


async def test_a2a_answers_with_json_for_a_task_that_is_over_or_unknown(agent):
    """Status 200 and no stream: -32004 and -32001. The reader ends with an error, and does not ask again."""
    task = await agent.begin_task("a")
    await agent.publish(0)
    assert (await agent.ask("SubscribeToTask", id=task))["error"]["code"] == -32004
    agent.kill()
    assert agent.processes() == []
    await agent.start()
    assert (await agent.ask("SubscribeToTask", id=task))["error"]["code"] == -32001
    assert (await agent.ask("GetTask", id=task))["error"]["code"] == -32001
    body = json.dumps(a2a.question("SubscribeToTask", id=task))
    async with (
        httpx.AsyncClient(trust_env=False, verify=False) as client,
        rb.links.EventSource(
            client, agent.url, method="POST", content=body, headers=a2a.HEADERS
        ) as source,
    ):
        with pytest.raises(rb.errors.ProtocolError, match="no event stream"):
            await anext(source)
    assert await agent.ledger() == ["a"]


async def test_a2a_a_sample_of_runs(agent):
    """Three runs of the reader on one server: one kills it, one stops it."""
    seen = await campaign(A2ARun, agent, (3, 4, 5), sys.stderr.write)
    assert seen.problems == []
    assert seen.delivered >= 3 * 8
    assert seen.verdicts["task gone"] >= 2


class Deaf(A2ARun):
    """A reader that hears of no gap, and overhears every live number that ends in 2."""

    def take_gap(self, gap):
        """Say nothing."""

    def _take_number(self, number):
        if number % 10 != 2:
            super()._take_number(number)

    def has(self, number):
        """Whatever was to be heard."""
        return number % 10 == 2 or super().has(number)


async def test_a2a_a_run_notices_what_is_wrong(agent):
    """A snapshot without a gap, and a number that is missing."""
    problems = (await Deaf(agent, 8).make()).problems
    assert any("no gap was reported" in problem for problem in problems), problems
    assert any("does not go on" in problem or "were read" in problem for problem in problems), (
        problems
    )


@pytest.mark.campaign
@pytest.mark.timeout(3_000)
async def test_a2a_fifty_runs(agent, capsys):
    """Fifty seeds; a third of them kill the server, a third stop it politely. The totals are printed."""
    seen = await campaign(A2ARun, agent, FIFTY, sys.stderr.write)
    with capsys.disabled():
        sys.stdout.write(f"\na2a: {seen}\n")
    assert seen.problems == []
    assert seen.gaps >= seen.verdicts["snapshot"]
