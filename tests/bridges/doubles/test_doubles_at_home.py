"""The doubles of servers made at home and of JSON-RPC, asked over loopback by a raw client; and the two harnesses."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.bridges.doubles.base import Double
from tests.bridges.doubles.clients import cut, dial, hear, hear_close, numbers, publish, say, until
from tests.bridges.doubles.harness import serving_aiohttp, serving_websockets
from tests.bridges.doubles.homemade import Homemade
from tests.bridges.doubles.jsonrpc import JsonRpc


pytestmark = pytest.mark.real


@pytest.fixture(params=[serving_websockets, serving_aiohttp], ids=["websockets", "aiohttp"])
def serving(request):
    """Both servers."""
    return request.param


async def test_homemade_asks_in_the_url_or_in_a_frame(serving):
    """The ring after a position, an end marker, a gap frame, an epoch that a restart changes."""
    options = {"epoch": "server_id", "end_marker": "ready", "gap_frame": "replay_gap", "ring": 3}
    double = Homemade(Random(1), **options)
    await publish(double, 1, 2, 3, 4, 5)
    async with serving(double) as url:
        async with dial(f"{url}/?last_seq=3") as socket:
            hello, *events, ready = await hear(socket, 4)
            assert [event["seq"] for event in events] == numbers(events) == [4, 5]
            assert ready == {"type": "ready", "through": 5, "count": 2}
            double.lag(2)
            await publish(double, 6, 7, 8)
            gap, event = await hear(socket, 2)
            assert gap == {"type": "replay_gap", "requested": 6, "oldest": 8, "dropped": 2}
            assert numbers([event]) == [8]
            await cut(url, double)
        double.restart()
        double.ask = "frame"
        await publish(double, 9)
        async with dial(url) as socket:
            await say(socket, {"type": "resume", "last_seq": 0}, {"type": "ping"})
            again, event, ready, pong = await hear(socket, 4)
            assert again["server_id"] != hello["server_id"]
            assert (event["seq"], numbers([event]), ready["through"], pong["type"]) == (1, [9], 1, "pong")


@pytest.mark.parametrize(("kind", "inclusive"), [("time", True), ("id", False), ("integer", True)])
async def test_homemade_positions_of_each_kind(kind, inclusive):
    """Inclusive servers say the anchor again; an id that was trimmed is a gap, and so is a lost number."""
    options = {"field": "at", "since": "since", "gap_frame": "gap", "contiguous": False}
    double = Homemade(Random(1), kind=kind, inclusive=inclusive, **options)
    await publish(double, 1, 2, 3)
    first, second = (event["at"] for event in [*double.ring][:2])
    async with serving_websockets(double) as url:
        async with dial(f"{url}/?since={second}") as socket:
            await until(lambda: double.connections)
            await publish(double, 4)
            assert numbers(await hear(socket, 2 + inclusive)) == [2, 3, 4][not inclusive :]
        double.trim(2)
        async with dial(f"{url}/?since={first}") as socket:
            gap, *rest = await hear(socket, 3)
            assert (gap["type"], gap["requested"], numbers(rest)) == ("gap", first, [3, 4])


async def test_jsonrpc_answers_batches_errors_and_asks_back(serving):
    """Requests are answered by id, notifications are not; ids of both sides overlap."""
    double = JsonRpc(Random(1))

    def call(method, params=None, **fields):
        return {"jsonrpc": "2.0", "method": method, "params": params, **fields}

    async with serving(double) as url, dial(url) as socket:
        await say(
            socket, call("echo", [1], id=1), call("do", {"a": 1}), [call("do", {"a": 2}, id=2), call("do", 3)]
        )
        assert (await hear(socket))[0]["result"] == [1]
        assert await hear(socket) == [[{"jsonrpc": "2.0", "id": 2, "result": {"done": 2}}]]
        assert double.effects == [{"a": 1}, {"a": 2}, 3]
        wait, cancel = call("wait", {"seconds": 60}, id=3), call("$/cancelRequest", {"id": 3})
        await say(socket, "{", [], call("nothing", id=1), wait, cancel)
        codes = [answer["error"]["code"] for answer in await hear(socket, 4)]
        assert codes == [-32700, -32600, -32601, -32800]
        await publish(double, 7)
        await double.publish_batch([8, 9])
        assert numbers(await hear(socket, 2)) == [7, 8, 9]
        asked = asyncio.ensure_future(double.ask("configuration"))
        assert (await hear(socket))[0]["id"] == 1
        await say(socket, {"jsonrpc": "2.0", "id": 1, "result": "yes"})
        assert (await asked)["result"] == "yes"


async def test_a_harness_cuts_without_a_goodbye_and_reports_errors(serving):
    """`drop` sends no close frame; what goes wrong in a double is raised at the end of the block."""

    class Wrong(Double):
        async def attend(self, connection):
            await connection.receive()
            raise ArithmeticError("wrong")

    with pytest.raises(ArithmeticError):
        async with serving(Wrong(Random(1))) as url, dial(url) as socket:
            await say(socket, "x")
            await hear_close(socket)
    double = JsonRpc(Random(1))
    async with serving(double) as url, dial(url) as socket:
        await until(lambda: double.connections)
        url.drop()
        assert await hear_close(socket) is None
