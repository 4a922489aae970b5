"""LogBridge: what it says on the wire, to a bare client over real sockets."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

import resilient_bridge as rb
from resilient_bridge.testing import FaultProxy, LogBridge
from tests.rows import each_row


pytestmark = pytest.mark.real

ASK = {"type": "resume", "after": {"seq": "{position}"}}


@asynccontextmanager
async def peer(server, query="", **options):
    """A bare connection: `hear()` is its next frame, `heard(n)` so many."""
    url = f"{server.url}?{query}"
    async with connect(url, proxy=None, ping_interval=None, close_timeout=1, **options) as socket:
        yield Peer(socket)


class Peer:
    """Decides nothing."""

    def __init__(self, socket):
        self.socket = socket

    async def say(self, frame):
        """Send one frame."""
        await self.socket.send(frame if isinstance(frame, (str, bytes)) else json.dumps(frame))

    async def heard(self, count):
        """The next frames, in their order."""
        async with asyncio.timeout(5):
            return [json.loads(await self.socket.recv()) for _ in range(count)]

    async def silent(self, server):
        """Nothing else was sent: the next frame is one that is pushed now."""
        await server.push({"probe": True})
        return (await self.heard(1))[0].get("probe") is True


async def push(server, count):
    """Push so many events, numbered from 1, and return their positions."""
    return [await server.push({"n": n + 1}) for n in range(count)]


def numbers(frames):
    """What each frame carries; its type if it is no event."""
    return [frame.get("n", frame["type"]) for frame in frames]


async def test_an_event_has_its_payload_its_type_and_its_position():
    """Numbers begin at 1 and have no holes; what is sent is what `pushed` has; the position is returned."""
    async with LogBridge() as server, peer(server) as client:
        assert await server.push({"text": "a", "seq": 77}) == 1
        assert await server.push({"text": "b"}, type="note") == 2
        heard = await client.heard(2)
        assert heard == server.pushed
        assert len({frame.pop("id") for frame in heard}) == 2
        assert heard == [
            {"text": "a", "seq": 1, "type": "event"},
            {"text": "b", "seq": 2, "type": "note"},
        ]
        assert server.connections == 1


async def test_the_parts_of_an_event_stand_where_the_paths_say():
    """Dotted paths for type, payload and position; what a payload has beside them stays, and is not changed."""
    payload = {"meta": {"by": "me"}}
    async with (
        LogBridge(field="meta.seq", type="head.kind", id=None) as server,
        peer(server) as client,
    ):
        await server.push(payload)
        assert await client.heard(1) == [
            {"meta": {"by": "me", "seq": 1}, "head": {"kind": "event"}}
        ]
        assert payload == {"meta": {"by": "me"}}
    async with LogBridge(payload="data.body", id=None) as server, peer(server) as client:
        await server.push(payload)
        assert await client.heard(1) == [{"data": {"body": payload}, "type": "event", "seq": 1}]


@each_row(
    ("options", "asked", "answer"),
    [
        ({}, 2, [3, 4]),
        ({}, 0, [1, 2, 3, 4]),
        ({}, 4, []),
        ({}, 9, []),
        ({}, "", []),
        ({"inclusive": True}, 2, [2, 3, 4]),
        ({"inclusive": True}, 0, [1, 2, 3, 4]),
        ({"end": "done"}, 2, [3, 4, "done"]),
        ({"end": "done"}, 4, ["done"]),
        ({"end": "done"}, "", ["done"]),
        ({"keep": 2}, 1, [3, 4]),
        ({"keep": 0}, 1, []),
        ({"keep": 2, "reset": "gone"}, 1, ["gone", 3, 4]),
        ({"keep": 2, "reset": "gone"}, 2, [3, 4]),
        ({"keep": 2, "reset": "gone", "inclusive": True}, 2, ["gone", 3, 4]),
        ({"reset": "gone", "end": "done"}, 5, ["gone", 1, 2, 3, 4, "done"]),
        ({"reset": "gone", "end": "done"}, "four", ["gone", 1, 2, 3, 4, "done"]),
    ],
)
async def test_the_query_asks_for_what_came_after_a_number(options, asked, answer):
    """From the number on if inclusive, behind it otherwise; `reset` where the log cannot vouch, `end` behind each answer."""
    async with LogBridge(**options) as server:
        await push(server, 4)
        async with peer(server, f"last_seq={asked}") as client:
            assert numbers(await client.heard(len(answer))) == answer
            assert await client.silent(server)
        async with peer(server) as client:  # asks nothing, and so gets no answer
            assert await client.silent(server)


async def test_a_frame_asks_for_what_came_after_a_number():
    """Each frame that fits the form is a question; live events come before it too, and again in its answer."""
    async with LogBridge(ask=ASK, end="done") as server, peer(server, "last_seq=0") as client:
        await push(server, 3)
        assert numbers(await client.heard(3)) == [1, 2, 3]
        for frame in (
            {"type": "resume"},
            {"type": "resume", "after": 1},
            ["resume"],
            "no json",
            b"\x00",
        ):
            await client.say(frame)
        await client.say({**ASK, "after": {"seq": 1}, "id": "q"})
        assert numbers(await client.heard(3)) == [2, 3, "done"]
        await client.say({**ASK, "after": {"seq": None}})
        assert numbers(await client.heard(1)) == ["done"]
        await client.say({**ASK, "after": {"seq": 2}})
        assert numbers(await client.heard(2)) == [3, "done"]
        assert server.received[:5] == [
            {"type": "resume"},
            {"type": "resume", "after": 1},
            ["resume"],
            "no json",
            b"\x00",
        ]
        assert [frame["after"]["seq"] for frame in server.received[5:]] == [1, None, 2]


async def test_a_form_may_be_a_list():
    """As in protocols whose frames are arrays; the constants in it have to be the same, and as many."""
    async with LogBridge(ask={"args": ["resume", "{position}"]}) as server, peer(server) as client:
        await push(server, 2)
        await client.heard(2)
        for args in (["resume"], ["other", 1], ["resume", 1, 2], {"resume": 1}, ["resume", 1]):
            await client.say({"args": args})
        assert numbers(await client.heard(1)) == [2]
        assert await client.silent(server)


async def test_numbers_may_have_holes():
    """They grow by one to three, and what came after one that nobody had is what is higher."""
    async with LogBridge(contiguous=False, reset="gone") as server:
        positions = await push(server, 40)
        steps = {b - a for a, b in pairwise([0, *positions])}
        assert steps == {1, 2, 3}
        async with peer(server, f"last_seq={positions[-3]}") as client:
            assert [frame["seq"] for frame in await client.heard(2)] == positions[-2:]


async def test_ids_have_no_order_and_are_known_or_not():
    """What came after an id; of an unknown one, everything that is held, behind a reset if there is such a frame."""
    async with LogBridge(position="id") as server:
        ids = await push(server, 3)
        assert len(set(ids)) == 3
        for asked, answer in ((ids[0], [2, 3]), ("unknown", [1, 2, 3])):
            async with peer(server, f"last_event_id={asked}") as client:
                frames = await client.heard(len(answer))
                assert numbers(frames) == answer
                assert [frame["id"] for frame in frames] == ids[-len(answer) :]
    async with LogBridge(position="id", inclusive=True, reset="gone", keep=2) as server:
        ids = await push(server, 3)
        for asked, answer in ((ids[1], [2, 3]), (ids[0], ["gone", 2, 3])):
            async with peer(server, f"last_event_id={asked}") as client:
                assert numbers(await client.heard(len(answer))) == answer


async def test_times_are_shared_and_inclusive():
    """Two events of one millisecond are told apart by their ids; asked for that time, both come, unless the bridge is exclusive."""
    clock = [1_774_017_125.5]
    for inclusive, answer, later in ((None, [2, 3, 4], ["gone", 4]), (False, [4], [4])):
        async with LogBridge(
            position="time", wall=lambda: clock[0], inclusive=inclusive, reset="gone"
        ) as server:
            for n, seconds in ((1, 0), (2, 1), (3, 0), (4, 1)):
                clock[0] += seconds
                await server.push({"n": n})
            events = server.pushed
            assert events[1]["timestamp"] == events[2]["timestamp"]
            assert events[1]["id"] != events[2]["id"]
            async with peer(server, f"since={events[1]['timestamp']}") as client:
                assert numbers(await client.heard(len(answer))) == answer
            server.trim(1)
            async with peer(server, f"since={events[1]['timestamp']}") as client:
                assert numbers(await client.heard(len(later))) == later


async def test_a_clock_that_is_set_hides_no_event():
    """After a step backwards the log goes on in the order of the pushes: what came behind an event of that time is sent."""
    async with LogBridge(position="time", wall=lambda: 1_774_017_125.5) as server:
        await push(server, 1)
        server.step_clock(-3600)
        await server.push({"n": 2})
        first, second = (event["timestamp"] for event in server.pushed)
        assert (first, second) == ("2026-03-20T14:32:05.500Z", "2026-03-20T13:32:05.500Z")
        async with peer(server, f"since={first}") as client:
            assert numbers(await client.heard(2)) == [1, 2]


async def test_a_process_that_lost_its_log_knows_what_it_cannot_know():
    """Numbers begin anew, with another name of the log; a number of before is not of this log; of times, all before its start is gone."""
    async with LogBridge(hello="hello", epoch="log.id", reset="gone") as server:
        await push(server, 3)
        before = server.log_name
        async with peer(server) as client:
            assert await client.heard(1) == [{"type": "hello", "log": {"id": before}}]
            await server.restart()
            with pytest.raises(ConnectionClosed) as caught:
                await client.heard(1)
            assert caught.value.rcvd.code == 1012
        assert server.log_name == before
        await server.restart(lose_log=True)
        assert await server.push({"n": 4}) == 1
        async with peer(server, "last_seq=3") as client:
            assert numbers(await client.heard(3)) == ["hello", "gone", 4]
        assert server.log_name != before
        assert [event["n"] for event in server.pushed] == [1, 2, 3, 4]
    async with LogBridge(position="time", reset="gone") as server:
        await push(server, 1)
        await server.restart(lose_sessions=True)
        async with peer(server, f"since={server.pushed[0]['timestamp']}") as client:
            assert numbers(await client.heard(1)) == ["gone"]


async def test_the_log_can_be_cut_short():
    """Once by `trim`, from now on by `truncate_replay` until it is lifted, and to nothing by `expire_sessions`; numbers go on."""
    async with LogBridge(reset="gone") as server:
        await push(server, 5)
        server.trim(3)
        async with peer(server, "last_seq=0") as client:
            assert numbers(await client.heard(4)) == ["gone", 3, 4, 5]
        await server.truncate_replay(1)
        await server.push({"n": 6})
        async with peer(server, "last_seq=0") as client:
            assert numbers(await client.heard(2)) == ["gone", 6]
        await server.truncate_replay(None)
        await server.push({"n": 7})
        async with peer(server, "last_seq=5") as client:
            assert numbers(await client.heard(2)) == [6, 7]
        server.expire_sessions()
        async with peer(server, "last_seq=6") as client:
            assert numbers(await client.heard(1)) == ["gone"]
        assert await server.push({"n": 8}) == 8


async def test_pings_are_answered_and_other_frames_are_noted():
    """A frame with the fields of the ping gets a pong; everything that was sent is in `received`, as often as it was."""
    async with LogBridge(ping={"op": "ping"}, pong="pong") as server, peer(server) as client:
        for frame in ({"op": "say"}, {"op": "say"}, {"op": "ping", "id": 1}):
            await client.say(frame)
        assert await client.heard(1) == [{"type": "pong"}]
        assert server.received == [{"op": "say"}, {"op": "say"}, {"op": "ping", "id": 1}]


@pytest.mark.parametrize("how", ["abort", "fin", "blackhole"])
async def test_links_can_be_cut(how):
    """A reset, an end without a close frame, or silence; what was pushed meanwhile is in the log."""
    async with LogBridge() as server:
        async with peer(server) as client:
            await push(server, 1)
            await client.heard(1)
            await server.cut(how)
            await server.push({"n": 2})
            if how == "blackhole":
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await client.socket.recv()
            else:
                with pytest.raises(ConnectionClosed) as caught:
                    await client.heard(1)
                assert caught.value.rcvd is None
        async with peer(server, "last_seq=1") as client:
            assert numbers(await client.heard(1)) == [2]


async def test_a_bridge_with_a_token_refuses_who_has_none():
    """401 without it, or with another; it may come in the header or in the query, and be changed."""
    async with LogBridge(token="secret") as server:
        for query in ("", "token=other"):
            with pytest.raises(InvalidStatus) as caught:
                async with peer(server, query):
                    pass
            assert caught.value.response.status_code == 401
        async with peer(server, "token=secret") as client:
            assert await client.silent(server)
        server.token = "new"
        async with peer(server, additional_headers={"Authorization": "Bearer new"}) as client:
            assert await client.silent(server)


async def test_a_proxy_can_stand_before_it():
    """`address` is what a `FaultProxy` is led to; a bridge that never was started has none."""
    with pytest.raises(RuntimeError, match="a started bridge"):
        LogBridge().url  # noqa: B018 - the look-up is the test
    async with LogBridge() as server, FaultProxy(*server.address) as proxy:
        await push(server, 1)
        async with connect(proxy.url("/?last_seq=0"), proxy=None) as socket:
            assert numbers([json.loads(await socket.recv())]) == [1]


async def test_a_payload_that_is_no_json_was_never_pushed():
    """TypeError or ValueError, and the number is not used."""
    server = LogBridge()
    for payload, error in (({"a": object()}, TypeError), ({"a": float("nan")}, ValueError)):
        with pytest.raises(error):
            await server.push(payload)
    assert server.pushed == []
    assert await server.push({}) == 1


async def test_without_positions_any_frame_goes_out_as_it_is_and_nothing_comes_again():
    """Objects, arrays and numbers as JSON, text and bytes as they are; who comes later gets what is pushed later, whatever he asks."""
    frames = [{"seq": 7, "a": None}, [1, "two"], 3, "no json {", b"\x00\xff"]
    async with LogBridge(position=None, hello="hi", ping={"op": "ping"}, pong="pong") as server:
        assert await server.push({"before": "anybody"}) == 1
        async with peer(server, "last_seq=0") as client:
            assert await client.heard(1) == [{"type": "hi"}]
            assert [await server.push(frame) for frame in frames] == [2, 3, 4, 5, 6]
            heard = [await client.socket.recv() for _ in frames]
            assert heard == ['{"seq":7,"a":null}', '[1,"two"]', "3", "no json {", b"\x00\xff"]
            for frame in ({}, {"seq": "{position}"}, {"op": "ping"}):
                await client.say(frame)
            assert await client.heard(1) == [{"type": "pong"}]
            assert await client.silent(server)
        assert server.pushed == [{"before": "anybody"}, *frames, {"probe": True}]
        assert server.received == [{}, {"seq": "{position}"}, {"op": "ping"}]
        for payload, type_, error in (
            ({"a": object()}, None, TypeError),
            (float("nan"), None, ValueError),
            ({}, "event", ValueError),
        ):
            with pytest.raises(error):
                await server.push(payload, type=type_)
        assert len(server.pushed) == 7


@each_row(
    ("options", "field"),
    [
        ({"position": "page"}, "position"),
        ({"position": None, "field": "seq"}, "field"),
        ({"position": None, "ask": {"after": "{position}"}}, "ask"),
        ({"position": None, "inclusive": False}, "inclusive"),
        ({"position": None, "reset": "gone"}, "reset"),
        ({"position": None, "end": "done"}, "end"),
        ({"keep": -1}, "keep"),
        ({"ask": {"type": "resume"}}, "ask"),
        ({"epoch": "log"}, "epoch"),
        ({"ping": {"type": "ping"}}, "pong"),
    ],
)
def test_arguments_that_make_no_bridge_are_refused(options, field):
    """By a ConfigError that names them."""
    with pytest.raises(rb.ConfigError, match=field):
        LogBridge(**options)
