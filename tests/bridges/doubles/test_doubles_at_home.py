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
from tests.bridges.doubles.recursor import Recursor


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
            assert (event["seq"], numbers([event]), ready["through"], pong["type"]) == (
                1,
                [9],
                1,
                "pong",
            )


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


def frame(kind, **payload):
    """A message to a bridge of ReCursor's specification."""
    return {
        "type": kind,
        "id": f"i-{kind}",
        "timestamp": "2026-01-01T00:00:00Z",
        "payload": payload,
    }


AUTH = frame("auth", token="secret")
JOIN, AGAIN = (frame("session_join", session_id="s", resume=resume) for resume in (False, True))


async def test_recursor_wants_its_order(serving):
    """Auth first, then the join, then anything; a wrong token is refused and ends the connection."""
    double = Recursor(Random(1))
    async with serving(double) as url:
        async with dial(url) as socket:
            await say(socket, JOIN)
            assert (await hear(socket))[0]["payload"]["code"] == "PROTO_SEQUENCE_ERROR"
            await say(socket, AUTH, frame("chat", text="x"), JOIN)
            ack, error, joined = await hear(socket, 3)
            assert (ack["type"], ack["payload"]["active_sessions"]) == ("connection_ack", [])
            assert error["payload"]["code"] == "PROTO_SEQUENCE_ERROR"
            assert (joined["type"], joined["payload"]) == ("session_joined", {"session_id": "s"})
            await say(socket, frame("chat", text="x"), frame("heartbeat_ping"), {"type": "chat"})
            pong, error = await hear(socket, 2)
            assert (pong["type"], pong["id"], len(double.effects)) == (
                "heartbeat_pong",
                "i-heartbeat_ping",
                1,
            )
            assert error["payload"]["code"] == "PROTO_INVALID_MESSAGE"
        async with dial(url) as socket:
            await say(socket, frame("auth", token="other"))
            assert (await hear(socket))[0]["type"] == "connection_error"
            assert await hear_close(socket) is not None


async def test_recursor_holds_a_session_for_its_grace(serving):
    """It comes back with its buffer, as texts, and answers what came behind a time; it dies with its grace, and with the process."""
    double = Recursor(Random(1), grace=0.2)
    async with serving(double) as url:
        async with dial(url) as socket:
            await say(socket, AUTH, JOIN)
            await hear(socket, 2)
            for number in (1, 2):
                await publish(double, number)
            seen = await hear(socket, 2)
            assert numbers(seen) == [1, 2]
        await until(lambda: not double.connections)
        await publish(double, 3)
        async with dial(url) as socket:
            await say(socket, AUTH, AGAIN)
            ack, _, buffer = await hear(socket, 3)
            assert ack["payload"]["active_sessions"] == ["s"]
            assert all(isinstance(each, str) for each in buffer["payload"]["messages"])
            assert numbers([buffer]) == [1, 2, 3]
            await say(
                socket, frame("request_replay", since=seen[0]["timestamp"]), frame("request_replay")
            )
            since, everything = await hear(socket, 2)
            assert set(numbers([since])) <= {2, 3}  # later than that millisecond, never at it
            assert (since["id"], numbers([everything])) == ("i-request_replay", [1, 2, 3])
        await until(lambda: not double.connections)
        await asyncio.sleep(0.3)
        async with dial(url) as socket:
            await say(socket, AUTH, AGAIN)
            assert (await hear(socket, 2))[1]["payload"]["code"] == "SESS_NOT_FOUND"


async def test_recursor_that_answers(serving):
    """It names its process, acknowledges, and runs a known key once; a newer connection takes the session, and the buffer is bounded."""
    double = Recursor(Random(1), answers=True, buffer_bytes=450)
    async with serving(double) as url, dial(url) as old, dial(url) as socket:
        await say(old, AUTH, JOIN)
        assert (await hear(old, 2))[0]["payload"]["server_id"] == double.process
        await say(socket, AUTH, JOIN)
        assert (await hear(socket, 2))[1]["payload"] == {"session_id": "s", "dedupes": True}
        assert await hear_close(old) == 4409
        await say(socket, frame("chat", idempotency_key="k"), frame("chat", idempotency_key="k"))
        assert [ack["payload"]["status"] for ack in await hear(socket, 2)] == [
            "applied",
            "already_processed",
        ]
        assert len(double.effects) == 1
        for number in range(1, 8):
            await publish(double, number)
        assert numbers(await hear(socket, 7)) == [1, 2, 3, 4, 5, 6, 7]
        await say(socket, frame("request_replay"))
        assert numbers(await hear(socket)) == [5, 6, 7]
        before = double.process
        double.restart()
        assert (double.process != before, double.sessions) == (True, {})


async def test_jsonrpc_answers_batches_errors_and_asks_back(serving):
    """Requests are answered by id, notifications are not; ids of both sides overlap."""
    double = JsonRpc(Random(1))

    def call(method, params=None, **fields):
        return {"jsonrpc": "2.0", "method": method, "params": params, **fields}

    async with serving(double) as url, dial(url) as socket:
        await say(
            socket,
            call("echo", [1], id=1),
            call("do", {"a": 1}),
            [call("do", {"a": 2}, id=2), call("do", 3)],
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
