"""What OpenHands' agent server does on its session socket, seen by a plain client. Its start takes ten seconds: three in all."""

from __future__ import annotations

import pytest

from tests.bridges.servers import openhands
from tests.bridges.servers.wire import refused, until, wire


pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
async def conversation(tmp_path_factory):
    """A server with a conversation."""
    async with openhands.running(tmp_path_factory.mktemp("openhands")) as server:
        yield server


def session(server, after=None):
    """The session socket, from this position on."""
    return wire(server.url if after is None else f"{server.url}?after_seq={after}")


async def synced(server, client):
    """Authenticate; the window that the server says it will replay, as `(from, through)`."""
    await client.say({"type": "auth", "session_api_key": server.key})
    frame = await client.hear()
    assert frame["type"] == "sync"
    return frame.get("from_seq"), frame.get("through_seq")


async def replayed(client, through):
    """The positions of the durable frames up to this one."""
    heard = await client.hear_until(lambda frame: frame.get("seq") == through)
    return [frame["seq"] for frame in heard if frame["type"] == "durable"]


def text_of(frame):
    """The text of a durable message, if it is one."""
    event = frame.get("event", {})
    return (
        event["llm_message"]["content"][0]["text"] if event.get("kind") == "MessageEvent" else None
    )


async def head(server):
    """The position of the last event in the log."""
    async with session(server) as client:
        return (await synced(server, client))[1]


async def test_openhands_names_the_window_that_it_replays(conversation):
    """`sync`, exactly the events behind `after_seq`, an event without a position, then live; positions have no holes."""
    await conversation.publish(1)
    before = await head(conversation)
    async with session(conversation, before) as client:
        assert await synced(conversation, client) == (before, before)
        await conversation.publish(2)
        first = (await client.hear_until(lambda frame: frame["type"] == "durable"))[-1]["seq"]
        assert first == before + 1
        client.cut()
    await conversation.publish(3)
    async with session(conversation, first) as client:
        after, through = await synced(conversation, client)
        assert after == first
        assert await replayed(client, through) == list(range(first + 1, through + 1))
        snapshot = await client.hear()
        assert (snapshot["type"], snapshot["event"]["key"]) == ("transient", "full_state")
        await conversation.publish(4)
        live = await client.hear_until(lambda frame: text_of(frame) == "published 4")
        assert [frame["seq"] for frame in live] == list(range(through + 1, through + 1 + len(live)))


async def test_openhands_says_nothing_about_a_position_behind_its_end(conversation):
    """`sync from 999` through less than that, no error; then live events as if all were well."""
    end = await head(conversation)
    async with session(conversation, 999) as client:
        assert await synced(conversation, client) == (999, end)
        await conversation.publish(5)
        live = (await client.hear_until(lambda frame: frame["type"] == "durable"))[-1]
        assert end is None or live["seq"] == end + 1


async def test_openhands_stores_the_same_message_twice_and_its_log_outlives_a_kill(conversation):
    """The only confirmation is the stored message itself, with an id of the server's; a restart goes on with the same log."""
    message = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    stored = []
    async with session(conversation, await head(conversation)) as client:
        await synced(conversation, client)
        for _ in range(2):
            await client.say(message)
            heard = await client.hear_until(lambda frame: text_of(frame) == "hi")
            stored.append(heard[-1]["event"]["id"])
            await client.hear_until(lambda frame: text_of(frame) == "ok")  # the agent's answer
    assert len(set(stored)) == 2
    assert await conversation.ledger() == ["hi", "hi"]
    await until(conversation.status, "finished")
    log = [event["id"] for event in await conversation.events()]
    conversation.kill()
    assert conversation.processes() == []
    await conversation.start()
    async with session(conversation, -1) as client:
        assert await synced(conversation, client) == (-1, len(log) - 1)
        heard = await client.hear_until(lambda frame: frame["type"] == "transient")
        assert [frame["event"]["id"] for frame in heard[:-1]] == log
    assert await conversation.ledger() == ["hi", "hi"]


async def test_openhands_closes_with_4001_and_4004_and_refuses_malformed_addresses_with_403(
    conversation,
):
    """A wrong key, an unknown conversation, and a position that is no number, which looks like a wrong key."""
    async with session(conversation, 0) as client:
        await client.say({"type": "auth", "session_api_key": "wrong"})
        assert await client.closed() == 4001
    unknown = conversation.url.replace(
        conversation.conversation, "00000000-0000-4000-8000-000000000000"
    )
    async with wire(unknown) as client:
        await client.say({"type": "auth", "session_api_key": conversation.key})
        assert await client.closed() == 4004
    assert await refused(f"{conversation.url}?after_seq=abc") == 403
