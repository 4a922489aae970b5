"""The doubles of socket.io, Mattermost, Slack and Centrifugo, asked over loopback by a raw client."""

from __future__ import annotations

import asyncio
import json
from random import Random
from urllib.request import Request, urlopen

import pytest

from tests.bridges.doubles.centrifugo import Centrifugo
from tests.bridges.doubles.clients import (
    cut,
    dial,
    hear,
    hear_close,
    hear_lines,
    numbers,
    publish,
    say,
    status,
    until,
)
from tests.bridges.doubles.harness import serving_aiohttp, serving_websockets
from tests.bridges.doubles.mattermost import Mattermost
from tests.bridges.doubles.slack_socket_mode import SlackSocketMode
from tests.bridges.doubles.socketio import SocketIO


pytestmark = pytest.mark.real
IO = "/socket.io/?EIO=4&transport=websocket"


@pytest.fixture(params=[serving_websockets, serving_aiohttp], ids=["websockets", "aiohttp"])
def serving(request):
    """Both servers."""
    return request.param


def answer(frame):
    """The sid and the pid of socket.io's answer to a connection."""
    assert frame.startswith("40{")
    fields = json.loads(frame[2:])
    return fields["sid"], fields.get("pid")


async def test_socketio_recovers_before_it_answers(serving):
    """The missed events, then the same sid and pid; rooms filter what is missed; a wrong offset is only a new pid."""
    double = SocketIO(Random(1))
    async with serving(double) as url:
        async with dial(url + IO) as socket:
            await say(socket, "40", '421["join","a"]')
            opening, joined, _ = await hear(socket, 3, raw=True)
            assert json.loads(opening[1:])["pingInterval"] == 25_000
            sid, pid = answer(joined)
            await publish(double, 1, channel="a")
            (event,) = await hear(socket, raw=True)
            kind, number, offset = json.loads(event[2:])
            assert (kind, number) == ("tick", 1)
            await cut(url, double)
        await publish(double, 2)
        await publish(double, 3, channel="b")
        await publish(double, 4, channel="a")
        async with dial(url + IO) as socket:
            await say(socket, "40" + json.dumps({"pid": pid, "offset": offset}))
            _, *missed, joined = await hear(socket, 4, raw=True)
            assert (numbers(missed), answer(joined)) == ([2, 4], (sid, pid))
            await cut(url, double)
        async with dial(url + IO) as socket:
            await say(socket, "40" + json.dumps({"pid": pid, "offset": "wrong"}))
            _, joined = await hear(socket, 2, raw=True)
            assert answer(joined)[1] != pid


async def test_socketio_without_recovery_ignores_what_it_is_asked(serving):
    """python-socketio: the answer has no pid, events have no offset; a client that comes back has missed what it missed."""
    double = SocketIO(Random(1), recovery=False)
    async with serving(double) as url, dial(url + IO) as socket:
        await publish(double, 1)
        await say(socket, '40{"pid":"p","offset":"o"}')
        _, joined = await hear(socket, 2, raw=True)
        assert answer(joined)[1] is None
        await publish(double, 2)
        assert await hear(socket, raw=True) == ['42["tick",2]']


async def test_socketio_acks_refuses_and_closes(serving):
    """An ack by the packet's id, an error for a namespace, 400 for another transport, garbage closes without a code."""
    double = SocketIO(Random(1), token="t")
    async with serving(double) as url:
        assert await status(f"{url}/socket.io/?EIO=4&transport=polling") == 400
        async with dial(url + IO) as socket:
            await say(
                socket, "40/nope,", "40", '40{"token":"t"}', '421["echo","a"]', '42["echo","b"]'
            )
            _, namespace, refused, _, ack = await hear(socket, 5, raw=True)
            assert namespace == '44/nope,{"message": "Invalid namespace"}'
            assert (refused[:2], ack) == ("44", '431["got a"]')
            await say(socket, "garbage")
            assert await hear_close(socket) == 1005
    assert double.effects == [["echo", "a"], ["echo", "b"]]


MATTERMOST = "/api/v4/websocket"
CHALLENGE = {"seq": 1, "action": "authentication_challenge", "data": {"token": "secret"}}
BEAT = {"seq": 2, "action": "ping"}
BEARER = {"Authorization": "Bearer secret"}


async def test_mattermost_says_nothing_when_a_resume_succeeds(serving):
    """No hello: the dead queue from the number on, what came in between, and then the pong."""
    double = Mattermost(Random(1))
    async with serving(double) as url:
        async with dial(url + MATTERMOST) as socket:
            await say(socket, CHALLENGE)
            hello, accepted = await hear(socket, 2)
            assert (hello["event"], hello["seq"], accepted["seq_reply"]) == ("hello", 0, 1)
            connection = hello["data"]["connection_id"]
            await publish(double, 1, 2)
            assert [(frame["seq"], *numbers([frame])) for frame in await hear(socket, 2)] == [
                (1, 1),
                (2, 2),
            ]
            double.hide()
            await publish(double, 3, 4)
            assert [frame["seq"] for frame in await hear(socket)] == [4]  # a hole
            await cut(url, double)
        await publish(double, 5)
        resumed = f"{url}{MATTERMOST}?connection_id={connection}&sequence_number=3"
        async with dial(resumed, additional_headers=BEARER) as socket:
            await say(socket, BEAT)
            *events, pong = await hear(socket, 4)
            assert [(frame["seq"], *numbers([frame])) for frame in events] == [
                (3, 3),
                (4, 4),
                (5, 5),
            ]
            assert pong["seq_reply"] == 2
            await cut(url, double)
        double.restart()
        async with dial(resumed, additional_headers=BEARER) as socket:
            (hello,) = await hear(socket)
            assert (hello["event"], hello["seq"]) == ("hello", 0)
            assert hello["data"]["connection_id"] != connection


async def test_mattermost_forgets_what_its_queues_do_not_hold():
    """A number that is not in the dead queue, or too many unsent: a new session. REST has the posts still."""
    double = Mattermost(Random(1), dead_queue=2, send_queue=3)
    async with serving_aiohttp(double) as url:
        for published, sequence in (([1, 2, 3], 1), ([4, 5, 6, 7], 1)):
            async with dial(url + MATTERMOST, additional_headers=BEARER) as socket:
                hello = (await hear(socket))[0]
                if sequence == len(published):
                    await publish(double, *published)
                await cut(url, double)
            await publish(double, *published)
            page = f"{url}{MATTERMOST}?connection_id={hello['data']['connection_id']}&sequence_number={sequence}"
            async with dial(page, additional_headers=BEARER) as socket:
                again = (await hear(socket))[0]
                assert again.get("event") == ("posted" if published == [1, 2, 3] else "hello")
                await cut(url, double)
        wanted = double.posts[1]["id"]
        http = f"http{url.removeprefix('ws')}/api/v4/channels/town-square/posts?after={wanted}"
        page = await _http(http, BEARER)
        assert len(page["order"]) == 5
        assert numbers([page["posts"][page["order"][-1]]]) == [3]


async def _http(url, headers, method="GET"):
    def read():
        with urlopen(Request(url, headers=headers, method=method), timeout=5) as found:
            return json.load(found)

    return await asyncio.to_thread(read)


async def test_slack_tickets_are_used_once():
    """Each attempt needs a ticket of its own; after link_disabled there is none."""
    double = SlackSocketMode(Random(1))
    async with serving_aiohttp(double) as url:
        page = f"http{url.removeprefix('ws')}/api/apps.connections.open"
        assert (await _http(page, {}, "POST"))["error"] == "invalid_auth"
        ticket = (await _http(page, {"Authorization": "Bearer xapp-1"}, "POST"))["url"]
        async with dial(ticket) as socket:
            assert (await hear(socket))[0]["type"] == "hello"
            assert await status(ticket) == 403
            double.disconnect("link_disabled")
            assert (await hear(socket))[0]["reason"] == "link_disabled"
            assert await hear_close(socket) == 1000
        assert not (await _http(page, {"Authorization": "Bearer xapp-1"}, "POST"))["ok"]


@pytest.mark.parametrize("envelope_ids", ["same", "new"])
async def test_slack_says_again_what_is_not_acknowledged(serving, envelope_ids):
    """The event stays the same; its envelope may not. An acknowledgement counts once."""
    double = SlackSocketMode(
        Random(1), ack_within=0.02, retries=(0.0, 0.02), envelope_ids=envelope_ids
    )
    async with serving(double) as url, dial(url + double.new_path()) as socket:
        await hear(socket)
        await publish(double, 1)
        first, second = await hear(socket, 2)
        assert numbers([first, second]) == [1, 1]
        assert first["payload"]["event_id"] == second["payload"]["event_id"]
        assert (first["envelope_id"] == second["envelope_id"]) is (envelope_ids == "same")
        assert (second["retry_attempt"], second["retry_reason"]) == (1, "timeout")
        ack = {"envelope_id": second["envelope_id"]}
        await say(socket, ack, ack)
        await until(lambda: double.effects)
        assert double.effects == [ack]
        await publish(double, 2)
        assert numbers(await hear(socket, 3)) == [2, 2, 2]
        await until(lambda: double.abandoned == [2])


async def test_slack_warns_before_it_closes(serving):
    """Events go to the new socket while the old one is open still, and each goes to one only."""
    double = SlackSocketMode(Random(1), closes_after=0.02)
    async with (
        serving(double) as url,
        dial(url + double.new_path()) as old,
        dial(url + double.new_path()) as other,
    ):
        assert [(await hear(socket))[0]["num_connections"] for socket in (old, other)] == [1, 2]
        double.disconnect("warning")
        async with dial(url + double.new_path()) as new:
            await hear(new)
            await publish(double, 1, 2)
            assert numbers(await hear(new, 2)) == [1, 2]
            assert (await hear(old))[0]["type"] == "disconnect"
            assert await hear_close(old) == 1000


CENTRIFUGO = "/connection/websocket"
CONNECT = {"id": 1, "connect": {}}


def subscribe(**fields):
    """A connection and a subscription in one frame."""
    command = {"id": 2, "subscribe": {"channel": "news", **fields}}
    return f"{json.dumps(CONNECT)}\n{json.dumps(command)}"


async def test_centrifugo_recovers_inside_the_reply(serving):
    """What clients may not see counts in the offset; publications of one moment share a frame."""
    double = Centrifugo(Random(1))
    async with serving(double) as url:
        async with dial(url + CENTRIFUGO) as socket:
            await say(socket, subscribe())
            connected, subscribed = await hear_lines(socket, 2)
            assert (connected["connect"]["ping"], connected["connect"]["pong"]) == (25, True)
            epoch = subscribed["subscribe"]["epoch"]
            assert "offset" not in subscribed["subscribe"]
            await publish(double, 1, 2)
            (both,) = await hear(socket, raw=True)
            assert (len(both.splitlines()), numbers([both])) == (2, [1, 2])
            await cut(url, double)
        await publish(double, 3)
        double.publish_filtered()
        async with dial(url + CENTRIFUGO) as socket:
            await say(socket, subscribe(recover=True, offset=2, epoch=epoch))
            reply = (await hear_lines(socket, 2))[1]["subscribe"]
            assert (reply["recovered"], reply["offset"], numbers(reply["publications"])) == (
                True,
                4,
                [3],
            )


@pytest.mark.parametrize("reason", ["restart", "trim", "limit"])
async def test_centrifugo_recovers_all_or_nothing(reason):
    """Another epoch, a hole, more than the limit: the position of now, and none of what was missed."""
    double = Centrifugo(Random(1), recovery_limit=2 if reason == "limit" else 300)
    await publish(double, 1, 2, 3)
    epoch = double.streams["news"].epoch
    if reason == "trim":
        double.trim(1)
    elif reason == "restart":
        double.restart()
        await publish(double, 4)
    async with serving_websockets(double) as url, dial(url + CENTRIFUGO) as socket:
        await say(socket, subscribe(recover=True, offset=0, epoch=epoch))
        reply = (await hear_lines(socket, 2))[1]["subscribe"]
        assert reply["was_recovering"]
        assert not {"recovered", "publications"} & reply.keys()
        assert (reply["epoch"] != epoch) is (reason == "restart")


async def test_centrifugo_refuses_by_error_and_by_close_code(serving):
    """109, 103 and 112 are answers; a wrong token, a first frame that is no connect and the server's own ends are codes."""
    double = Centrifugo(
        Random(1), token="t", expired=frozenset({"old"}), forbidden=frozenset({"x"})
    )
    good = {"id": 2, "connect": {"token": "t"}}
    since = {"channel": "news", "limit": -1, "since": {"offset": 7, "epoch": "other"}}
    async with serving(double) as url:
        async with dial(url + CENTRIFUGO) as socket:
            await say(socket, {"id": 1, "connect": {"token": "old"}})
            assert (await hear(socket))[0]["error"]["code"] == 109
            await say(socket, good)
            assert (await hear(socket))[0]["connect"]["client"]
            for command, code in (
                ({"subscribe": {"channel": "x"}}, 103),
                ({"history": since}, 112),
            ):
                await say(socket, {"id": 3, **command})
                assert (await hear(socket))[0]["error"]["code"] == code
            command = {"id": 4, "publish": {"channel": "news", "data": {"a": 1}}}
            await say(socket, command)
            assert await hear(socket) == [{"id": 4, "publish": {}}]
            assert double.effects == [command]
            double.disconnect(3014, "state invalidated")
            assert await hear_close(socket) == 3014
        for frame, code in (
            ({"id": 1, "connect": {"token": "bad"}}, 3500),
            ("garbage", 3501),
            ({"id": 1, "rpc": {}}, 3501),
        ):
            async with dial(url + CENTRIFUGO) as socket:
                await say(socket, frame)
                assert await hear_close(socket) == code
