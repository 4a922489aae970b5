"""The doubles of agents' bridges, asked over loopback by a raw client: each says what the real system was seen to say."""

from __future__ import annotations

import asyncio
import json
from random import Random
from urllib.request import urlopen

import pytest

from tests.bridges.doubles.agno import BROKEN, Agno
from tests.bridges.doubles.clients import (
    cut,
    dial,
    hear,
    hear_close,
    numbers,
    publish,
    say,
    status,
    until,
)
from tests.bridges.doubles.harness import serving_aiohttp, serving_websockets
from tests.bridges.doubles.jupyter import Jupyter
from tests.bridges.doubles.openhands import LegacySocket, SessionSocket
from tests.bridges.doubles.recursor_live import RecursorLive


pytestmark = pytest.mark.real


@pytest.fixture(params=[serving_websockets, serving_aiohttp], ids=["websockets", "aiohttp"])
def serving(request):
    """Both servers."""
    return request.param


AUTH = {"type": "auth", "id": "a", "payload": {"token": "secret"}}


async def test_recursor_pushes_its_queue_after_each_ack(serving):
    """As if live, without an end; live output is not in it, and a notification only until it is acknowledged."""
    double = RecursorLive(Random(1))
    async with serving(double) as url:
        async with dial(url) as socket:
            await say(socket, AUTH)
            assert (await hear(socket))[0]["type"] == "connection_ack"
            await publish(double, 1)
            await publish(double, 2, channel="output")
            await publish(double, 3, channel="notification")
            seen = await hear(socket, 3)
            assert numbers(seen) == [1, 2, 3]
        async with dial(url) as socket:
            await say(socket, AUTH)
            assert numbers(await hear(socket, 3)) == [1, 3]
            ids = [seen[2]["payload"]["notification_id"]]
            await say(
                socket,
                {"type": "notification_ack", "id": "n", "payload": {"notification_ids": ids}},
            )
            await until(lambda: double.effects)
            await cut(url, double)
        double.restart()
        await publish(double, 4)
        async with dial(url) as socket:
            await say(socket, AUTH)
            assert numbers(await hear(socket, 2)) == [4]  # 1 is gone, and nothing says so
    assert double.log == {None: [1, 4], "output": [2], "notification": [3]}


async def test_recursor_refuses_with_an_open_socket(serving):
    """A ping is answered before auth; an error has an id of its own, and a message no ack at all."""
    double = RecursorLive(Random(1))
    async with serving(double) as url, dial(url) as socket:
        await say(
            socket,
            {"type": "heartbeat_ping", "id": "p"},
            {"type": "auth", "payload": {"token": "old"}},
            AUTH,
        )
        pong, refused, accepted = await hear(socket, 3)
        assert (pong["type"], refused["payload"]["code"]) == ("heartbeat_pong", "AUTH_FAILED")
        assert accepted["payload"]["requires_health_verification"]
        message = {"type": "message", "id": "m", "payload": {"content": "hi"}}
        await say(
            socket,
            message,
            message,
            {"type": "session_join", "id": "j"},
            {"type": "git_status", "id": "g"},
        )
        error, answer = await hear(socket, 2)
        assert error["id"] != "j"
        assert error["payload"]["code"] == "PROTO_INVALID_MESSAGE"
        assert error["payload"]["message"] == "Unknown message type: session_join"
        assert error["payload"]["request_type"] == "session_join"
        assert answer["id"] == "g"
        assert double.effects[:2] == [message, message]


async def test_openhands_legacy_says_full_state_before_the_replay(serving):
    """It is newer than all that is replayed, which includes the event of the time asked for; without a time nothing is."""
    double = LegacySocket(Random(1))
    await publish(double, 1, 2, 3)
    path = "/sockets/events/main?resend_mode=since"
    second = double.stored["main"][1]["timestamp"]
    async with serving(double) as url:
        async with dial(f"{url}{path}&after_timestamp={second}") as socket:
            state, *replayed = await hear(socket, 3)
            assert numbers(replayed) == [2, 3]
            assert state["key"] == "full_state"
            assert state["timestamp"] > replayed[-1]["timestamp"]
        double.restart()
        async with dial(f"{url}{path}&after_timestamp={state['timestamp']}") as socket:  # the trap
            await hear(socket)
            await publish(double, 4)
            assert numbers(await hear(socket)) == [4]
        async with dial(url + path) as socket:
            await hear(socket)
            await publish(double, 5)
            assert numbers(await hear(socket)) == [5]
        http = "http" + url.removeprefix("ws")
        page = await asyncio.to_thread(
            _read, f"{http}/api/conversations/main/events/search?limit=2"
        )
        assert numbers(page["items"]) == [1, 2]
        assert page["next_page_id"] == double.stored["main"][2]["id"]


def _read(url):
    with urlopen(url, timeout=5) as answer:
        return json.load(answer)


async def test_openhands_refuses_before_and_after_the_upgrade(serving):
    """403 for a wrong key in the query and for a malformed value; 4001, 4004 and 1013 after the upgrade."""
    legacy, session = (
        LegacySocket(Random(1), key="k"),
        SessionSocket(Random(2), key="k", max_subscribers=1),
    )
    async with serving(legacy) as url:
        page = f"{url}/sockets/events/main"
        assert await status(f"{page}?session_api_key=wrong") == 403
        assert await status(f"{page}?after_timestamp=abc") == 403
        async with dial(page) as socket:
            await say(socket, {"role": "user", "content": []})
            assert await hear_close(socket) == 4001
        async with dial(f"{url}/sockets/events/other?session_api_key=k") as socket:
            assert await hear_close(socket) == 4004
    async with serving(session) as url:
        page = f"{url}/sockets/session/main"
        assert await status(f"{page}?after_seq=abc") == 403
        async with dial(page) as first, dial(f"{page}?session_api_key=k") as second:
            await say(first, {"type": "auth", "session_api_key": "k"})
            codes = {asyncio.ensure_future(hear_close(socket)) for socket in (first, second)}
            done, pending = await asyncio.wait(codes, return_when=asyncio.FIRST_COMPLETED)
            assert [code.result() for code in done] == [1013]
            pending.pop().cancel()


async def test_openhands_legacy_echoes_each_copy(serving):
    """The same frame twice is two stored messages; the rest of a run follows, and a bad frame leaves the socket open."""
    double = LegacySocket(Random(1), runs=True)
    message = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    async with serving(double) as url, dial(f"{url}/sockets/events/main") as socket:
        await say(socket, message, "garbage")
        frames = await hear(socket, 10)
        kinds = [
            frame.get("key") or frame["kind"]
            for frame in frames
            if frame["kind"] != "ServerErrorEvent"
        ]
        assert kinds[:3] == ["full_state", "MessageEvent", "last_user_message_id"]
        assert kinds[3:] == [
            "execution_status",
            "stats",
            "stats",
            "MessageEvent",
            "execution_status",
            "full_state",
        ]
        assert frames[1]["source"] == "user"
        assert "ValidationError" in {frame.get("code") for frame in frames}
        await say(socket, message)
        assert (await hear(socket))[0]["id"] != frames[1]["id"]
    assert double.effects == [message, message]
    assert "full_state" not in {event.get("key") for event in double.stored["main"]}


async def test_openhands_session_names_its_window(serving):
    """`sync`, exactly what is between, a transient state; a position beyond the log is answered with it, and silence."""
    double = SessionSocket(Random(1))
    await publish(double, *range(8))
    page = "/sockets/session/main"
    async with serving(double) as url:
        async with dial(f"{url}{page}?after_seq=4") as socket:
            sync, *durable, transient = await hear(socket, 5)
            assert sync == {"type": "sync", "from_seq": 4, "through_seq": 7}
            assert [(frame["seq"], *numbers([frame])) for frame in durable] == [
                (5, 5),
                (6, 6),
                (7, 7),
            ]
            assert (transient["type"], transient["event"]["key"], "seq" in transient) == (
                "transient",
                "full_state",
                False,
            )
            double.stream_item(99)
            await publish(double, 8)
            assert [frame.get("seq") for frame in await hear(socket, 3)] == [None, None, 8]
        async with dial(f"{url}{page}?after_seq=-1") as socket:
            assert numbers(await hear(socket, 10)) == [*range(9)]
        double.reset()
        await publish(double, 9)
        async with dial(f"{url}{page}?after_seq=8") as socket:
            assert await hear(socket) == [{"type": "sync", "from_seq": 8, "through_seq": 0}]
            await publish(double, 10)
            assert (await hear(socket))[0]["seq"] == 1


START = {"action": "start-workflow", "workflow_id": "w", "session_id": "s", "message": "go"}
BACK = {"action": "reconnect", "run_id": "run-1", "workflow_id": "w", "session_id": "s"}


async def test_agno_has_two_framings_and_catches_up(serving):
    """SSE text where the run was started, plain JSON after a reconnect: catch_up, the missed events, subscribed, live."""
    double = Agno(Random(1))
    async with serving(double) as url:
        async with dial(f"{url}/workflows/ws") as socket:
            assert await hear(socket) == [{"event": "connected", "requires_auth": False}]
            await say(socket, START)
            (opening,) = await hear(socket, raw=True)
            assert opening.startswith("event: WorkflowStarted\ndata: {")
            await publish(double, 1)
            assert numbers(await hear(socket, raw=True)) == [1]
            await cut(url, double)
        await publish(double, 2, 3)
        async with dial(f"{url}/workflows/ws") as socket:
            await say(socket, {**BACK, "last_event_index": 1})
            _, catch_up, *missed, subscribed = await hear(socket, 5)
            assert (catch_up["event"], catch_up["missed_events"]) == ("catch_up", 2)
            assert [event["event_index"] for event in missed] == [2, 3]
            assert subscribed["event"] == "subscribed"
            await publish(double, 4)
            assert numbers(await hear(socket)) == [4]
            await say(socket, {**BACK, "last_event_index": 4})
            assert (await hear(socket))[0]["event"] == "subscribed"  # nothing was missed
    assert double.effects == [START]


async def test_agno_replays_a_finished_run_from_the_start(serving):
    """Whatever index was asked for; after a restart the database fails as 3.1.10's does; a repeated start runs twice."""
    double = Agno(Random(1))
    await publish(double, 1, 2)
    double.finish()
    async with serving(double) as url:
        async with dial(f"{url}/workflows/ws") as socket:
            await say(socket, {**BACK, "last_event_index": 999})
            _, replay, *events = await hear(socket, 6)
            assert (replay["event"], replay["total_events"]) == ("replay", 4)
            assert [event["event_index"] for event in events] == [0, 1, 2, 3]
            await say(socket, {**BACK, "run_id": "other"}, START, START)
            error, first, second = await hear(socket, 3, raw=True)
            assert json.loads(error) == {
                "event": "error",
                "error": "Run other not found in buffer or database",
            }
            assert first != second
            await cut(url, double)
        double.restart()
        async with dial(f"{url}/workflows/ws") as socket:
            await say(socket, BACK)
            assert (await hear(socket, 2))[1] == {"event": "error", "error": BROKEN}


async def test_agno_never_closes_for_a_refusal(serving):
    """auth_required for each action, a reason for each token, and then the pong."""
    double = Agno(Random(1), token="t", expired=frozenset({"old"}), authenticated_twice=True)
    ping = {"action": "ping"}
    tokens = [{"action": "authenticate", "token": token} for token in ("old", "bad", "t")]
    async with serving(double) as url, dial(f"{url}/workflows/ws") as socket:
        await say(socket, ping, *tokens, ping)
        frames = await hear(socket, 7)
        kinds = [frame["event"] for frame in frames]
        assert (
            kinds
            == "connected auth_required auth_error auth_error authenticated authenticated pong".split()
        )
        assert [frame.get("error_type") for frame in frames[2:4]] == ["expired", "invalid_token"]


def request(kind="execute_request", msg_id="1", channel="shell"):
    """A message for a kernel."""
    header = {"msg_id": msg_id, "msg_type": kind, "session": "s", "username": "u", "version": "5.3"}
    return {
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": {"code": "run()"},
        "channel": channel,
    }


async def test_jupyter_runs_once_and_answers_a_copy_with_nothing(serving):
    """busy, the input, the reply, idle; the very same bytes again get no answer at all."""
    double = Jupyter(Random(1), token="t")
    page = "/api/kernels/k1/channels?session_id=s"
    async with serving(double) as url:
        assert await status(f"{url}{page}") == 403
        assert await status(f"{url}/api/kernels/other/channels?token=t") == 404
        async with dial(f"{url}{page}&token=t") as socket:
            await say(socket, request(), request(), request("kernel_info_request", "2"))
            frames = await hear(socket, 7)
            kinds = [frame["header"]["msg_type"] for frame in frames]
            assert (
                kinds
                == "status execute_input execute_reply status status kernel_info_reply status".split()
            )
            assert [frame["channel"] for frame in frames[:3]] == ["iopub", "iopub", "shell"]
            await say(socket, "garbage")
            assert await hear_close(socket) == 1005
    assert [effect["header"]["msg_type"] for effect in double.effects] == [
        "execute_request",
        "kernel_info_request",
    ]


async def test_jupyter_buffers_for_the_same_session_only(serving):
    """The same session gets the buffer, then live; another one loses it, and only the server's log has a word of it."""
    double = Jupyter(Random(1))
    page = "/api/kernels/k1/channels?session_id="
    async with serving(double) as url:
        for session, live, expected in (("s", 1, [1]), ("s", 3, [2, 3]), ("t", 5, [5])):
            async with dial(url + page + session) as socket:
                await until(lambda: double.kernels["k1"].clients)
                await publish(double, live)
                assert numbers(await hear(socket, len(expected))) == expected
                await cut(url, double)
            await publish(double, live + 1)
        assert double.server_log == ["Discarding 1 buffered messages for s"]
        async with dial(f"{url}{page}x") as first, dial(f"{url}{page}x"):
            assert await hear_close(first) == 1005
