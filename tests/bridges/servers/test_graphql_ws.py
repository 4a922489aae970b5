"""What graphql-ws does on the wire, seen by a plain client."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bridges.servers import graphql_ws
from tests.bridges.servers.wire import refused, wire


pytestmark = pytest.mark.real


@pytest.fixture
async def graphql(tmp_path):
    """A graphql-ws server."""
    async with graphql_ws.running(tmp_path) as server:
        yield server


def client_of(server):
    """A connection that asks for the sub-protocol."""
    return wire(server.url, subprotocols=[graphql_ws.PROTOCOL])


async def ready(client, **parameters):
    """Say `connection_init` and hear the answer."""
    await client.say({"type": "connection_init", "payload": parameters})
    assert (await client.hear())["type"] == "connection_ack"


def subscribe(ident, query):
    """What starts an operation."""
    return {"id": ident, "type": "subscribe", "payload": {"query": query}}


async def test_graphql_resumes_by_a_variable_of_the_subscription(graphql):
    """`next` without any position; after a cut the query itself says where to go on. A restart forgets what was published."""
    async with client_of(graphql) as client:
        await ready(client)
        await client.say(subscribe("1", "subscription { ticks(after: 0) }"))
        await graphql.publish(1)
        assert await client.hear() == {"id": "1", "type": "next", "payload": {"data": {"ticks": 1}}}
        client.cut()
    await graphql.publish(2)
    async with client_of(graphql) as client:
        await ready(client)
        await client.say(subscribe("1", "subscription { ticks(after: 1) }"))
        assert (await client.hear())["payload"]["data"] == {"ticks": 2}
        graphql.kill()
        assert await client.closed() is None
    assert await refused(graphql.url) == 0
    await graphql.start()
    async with client_of(graphql) as client:
        await ready(client)
        await client.say(subscribe("1", "subscription { ticks(after: 1) }"))
        await graphql.publish(3)
        assert (await client.hear())["payload"]["data"] == {"ticks": 3}


async def test_graphql_executes_a_mutation_that_is_repeated_again(graphql):
    """The same frame twice: two answers, two effects, which outlive the server."""
    async with client_of(graphql) as client:
        await ready(client)
        for _ in range(2):
            await client.say(subscribe("m", "mutation { do(value: 7) }"))
            heard = [(await client.hear()) for _ in range(2)]
            assert [frame["type"] for frame in heard] == ["next", "complete"]
    await graphql.stop()
    assert graphql.processes() == []
    assert await graphql.ledger() == [7, 7]


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([{"type": "nonsense"}], 4400),
        ([subscribe("1", "subscription { ticks }")], 4401),
        ([{"type": "connection_init", "payload": {"token": "wrong"}}], 4403),
        ([{"type": "connection_init"}, *[subscribe("1", "subscription { ticks }")] * 2], 4409),
        ([{"type": "connection_init"}] * 2, 4429),
        ([], 4408),
    ],
)
async def test_graphql_refuses_with_a_close_code(tmp_path, frames, code):
    """No error frame: the code is all that is said."""
    async with (
        graphql_ws.running(tmp_path, init_timeout=3 if frames else 0.1) as server,
        client_of(server) as client,
    ):
        for frame in frames:
            await client.say(frame)
            if (
                frame == {"type": "connection_init"} and len(frames) == 3
            ):  # a pipelined one is refused with 4401
                assert (await client.hear())["type"] == "connection_ack"
        assert await client.closed() == code


READER = """
import asyncio, sys, time
import resilient_bridge as rb
from tests.bridges.servers.graphql_ws_dialect import graphql_ws

async def main(url, store, last):
    async with rb.BridgeClient(url, dialect=graphql_ws(["first"], start=0), store=store) as bridge:
        async for message in bridge:
            print(message.payload["ticks"], message.redelivered, flush=True)
            if message.payload["ticks"] == last:
                time.sleep(600)  # it has this one in hand

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def read_until_killed(url, store, last):
    """What a reader got up to that number, when it was killed with that one in hand: number -> redelivered."""
    command = [sys.executable, "-c", READER, url, str(store), str(last)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    ) as reader:
        got = {}
        for line in reader.stdout:
            number, flag = line.split()
            got[int(number)] = flag == "True"
            if int(number) == last:
                reader.kill()
    return got


@pytest.mark.requirement("X2")
async def test_what_a_killed_reader_had_comes_again_and_is_flagged(graphql, tmp_path):
    """The protocol marks no end of a replay, so what follows the anchor comes behind the verdict: flagged all the same."""
    for number in range(1, 6):
        await graphql.publish(number)
    first = await asyncio.to_thread(read_until_killed, graphql.url, tmp_path / "bridge.db", 3)
    assert first == {1: False, 2: False, 3: False}
    second = await asyncio.to_thread(read_until_killed, graphql.url, tmp_path / "bridge.db", 5)
    assert 3 in second
    assert {4, 5} <= set(second)
    assert {number for number, flag in second.items() if number in first and not flag} == set()
