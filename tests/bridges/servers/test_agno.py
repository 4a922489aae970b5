"""What agno's AgentOS does on the socket of its workflows, seen by a plain client."""

from __future__ import annotations

import json

import pytest

from tests.bridges.servers import agno
from tests.bridges.servers.wire import wire


pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
async def workflows(tmp_path_factory):
    """An AgentOS."""
    async with agno.running(tmp_path_factory.mktemp("agno")) as server:
        yield server


def framed(text):
    """`(whether it is a server-sent event, its JSON)`."""
    return text.startswith("event: "), json.loads(text.partition("\ndata: ")[2] or text)


def start(message):
    """What starts a run."""
    return {
        "action": "start-workflow",
        "workflow_id": agno.WORKFLOW,
        "session_id": "s",
        "message": message,
    }


def reconnect(run, index):
    """What asks for the events of a run after this index."""
    known = {"run_id": run, "workflow_id": agno.WORKFLOW, "session_id": "s"}
    return {"action": "reconnect", **known, "last_event_index": index}


def is_number(heard):
    """Whether a frame reports a number that was published."""
    return heard[1]["event"] == "StepProgress"


async def open_run(server, client, message):
    """Start a run and hear it report one number; its id and the index of that event."""
    greeting = (await client.hear())[1]
    assert (greeting["event"], greeting["requires_auth"]) == ("connected", False)
    await client.say(start(message))
    await server.publish(1)
    heard = await client.hear_until(is_number)
    assert [is_sse for is_sse, _ in heard] == [True] * len(heard)
    assert [event["event_index"] for _, event in heard] == list(range(len(heard)))
    return heard[-1][1]["run_id"], heard[-1][1]["event_index"]


async def replay(client, run):
    """Ask for a run from an index behind its end until it is over, which is later than its last event. The answer."""
    while True:
        await client.say(reconnect(run, 999))
        heard = await client.hear_until(lambda frame: frame[1]["event"] in {"subscribed", "replay"})
        if (answer := heard[-1][1])["event"] == "replay":
            return answer


async def test_agno_catches_up_in_another_framing(workflows):
    """SSE where the run was started, JSON after a reconnect: `catch_up`, the missed events, `subscribed`, live."""
    async with wire(workflows.url, decode=framed) as client:
        run, index = await open_run(workflows, client, "a")
        client.cut()
    await workflows.publish(2)
    await workflows.publish(3)
    async with wire(workflows.url, decode=framed) as client:
        await client.say(reconnect(run, index))
        heard = await client.hear_until(lambda frame: frame[1]["event"] == "subscribed")
        assert not any(is_sse for is_sse, _ in heard)
        assert [event["event"] for _, event in heard] == [
            *("connected", "catch_up", "StepProgress", "StepProgress", "subscribed")
        ]
        assert heard[1][1]["missed_events"] == 2
        assert [(event["event_index"], event["content"]) for _, event in heard[2:4]] == [
            (index + 1, "2"),
            (index + 2, "3"),
        ]
        await workflows.publish(4)
        live = (await client.hear())[1]
        assert (live["event_index"], live["content"]) == (index + 3, "4")
        await workflows.finish()
        await client.hear_until(lambda frame: frame[1]["event"] == "WorkflowCompleted")


async def test_agno_replays_a_finished_run_from_the_beginning(workflows):
    """Whatever index was asked for. And a start that is repeated is a second run."""
    before = await workflows.ledger()
    async with wire(workflows.url, decode=framed) as client:
        run, _ = await open_run(workflows, client, "b")
        await workflows.finish()
        await client.hear_until(lambda frame: frame[1]["event"] == "WorkflowCompleted")
        answer = await replay(client, run)
        events = [(await client.hear())[1] for _ in range(answer["total_events"])]
        assert [event["event_index"] for event in events] == list(range(len(events)))
        assert events[-1]["event"] == "WorkflowCompleted"
        await client.say(start("b"))
        await workflows.publish(5)
        await client.hear_until(is_number)
        await workflows.finish()
    assert await workflows.ledger() == [*before, "b", "b"]


async def test_agno_does_not_go_on_with_a_run_after_a_kill(workflows):
    """Neither `catch_up` nor `subscribed`; an unknown run is an error on a socket that stays open."""
    async with wire(workflows.url, decode=framed) as client:
        run, index = await open_run(workflows, client, "c")
        workflows.kill()
        assert await client.closed() is None
    assert workflows.processes() == []
    await workflows.start()
    async with wire(workflows.url, decode=framed) as client:
        await client.say(reconnect(run, index))
        _, (_, answer) = [await client.hear(), await client.hear()]
        assert answer["event"] in {"error", "replay"}
        await client.say(reconnect("unknown", index))
        await client.hear_until(lambda frame: "unknown not found" in frame[1].get("error", ""))
    assert (await workflows.ledger())[-1] == "c"


async def test_agno_refuses_without_closing(tmp_path):
    """With a key: every action before `authenticate` is answered, and so is a wrong one; the right one still works."""
    async with (
        agno.running(tmp_path, token="right") as server,
        wire(server.url, decode=framed) as client,
    ):
        await client.say({"action": "ping"})
        await client.say({"action": "authenticate", "token": "wrong"})
        await client.say({"action": "authenticate", "token": "right"})
        await client.say({"action": "ping"})
        heard = [
            event for _, event in await client.hear_until(lambda frame: frame[1]["event"] == "pong")
        ]
        assert heard[0]["requires_auth"]
        assert [event["event"] for event in heard[1:4]] == [
            "auth_required",
            "auth_error",
            "authenticated",
        ]
