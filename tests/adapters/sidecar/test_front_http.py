"""The HTTP front with sessions: opening, streams, resuming, ending; over real sockets, with a scripted relay behind."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

import httpx
import pytest

from tests.adapters.sidecar.scripted_relay import (
    TOKEN,
    ScriptedRelay,
    answer_of,
    call,
    events,
    request,
    running,
)
from tests.internals.adapters import HttpLimits, serve_http
from tests.internals.adapters import message as rpc
from tests.peers.running import until
from tests.rows import each_row


pytestmark = pytest.mark.real
GET = {"accept": "text/event-stream"}


def text_of(response):
    """The text that a tool returned."""
    return answer_of(response)["result"]["content"][0]["text"]


async def next_messages(lines, count):
    """The next messages of a stream that stays open."""
    found = []
    async for line in lines:
        if line.startswith("data: {"):
            found.append(json.loads(line[6:]))
            if len(found) == count:
                return found
    raise AssertionError(f"wanted {count} messages before the end of the stream, got {found}")


@pytest.mark.requirement("X7")
async def test_a_session_begins_with_initialize_and_ends_with_delete():
    """The id of the first answer opens all later requests; after DELETE it is unknown, and the relay is closed."""
    async with running() as front:
        session = await front.open()
        assert text_of(await front.post(call(1, "echo", "hello"), session)) == "hello"
        accepted = await front.post(
            {"jsonrpc": "2.0", "method": "notifications/initialized"}, session
        )
        assert (accepted.status_code, accepted.content) == (202, b"")
        async with front.stream("DELETE", session=session) as ended:
            assert ended.status_code == 200
        lost = await front.post(call(2, "echo"), session)
        assert lost.status_code == 404
        assert lost.json() == {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": -32600, "message": "Session not found"},
        }
        await until(lambda: front.relays[0].is_closed, "the relay is closed")
        assert front.relays[0].clients == []


async def test_each_session_has_a_relay_of_its_own_or_all_have_one():
    """`shared` decides; a shared relay outlives its sessions."""
    async with running() as front:
        await front.open()
        await front.open()
        assert len(front.relays) == 2
    assert all(relay.is_closed for relay in front.relays)
    async with running(shared=True) as front:
        first, _ = await front.open(), await front.open()
        assert [len(relay.clients) for relay in front.relays] == [2]
        async with front.stream("DELETE", session=first):
            pass
        assert (len(front.relays[0].clients), front.relays[0].is_closed) == (1, False)
    assert front.relays[0].is_closed


@each_row(
    ("body", "headers", "status", "code"),
    [
        (call(1, "echo"), {}, 400, -32600),  # no session
        ("{", {}, 400, -32700),
        ("[]", {}, 400, -32600),
        ('{"jsonrpc": "2.0", "id": true, "method": "ping"}', {}, 400, -32600),
        (b'{"jsonrpc": "2.0", "id": "\xff", "method": "ping"}', {}, 400, -32700),
        (call(1, "echo"), {"mcp_session_id": "nobody's"}, 404, -32600),
        (call(1, "echo"), {"accept": "application/json"}, 406, -32600),
        (call(1, "echo"), {"content_type": "text/plain"}, 415, -32600),
        (call(1, "echo"), {"mcp_protocol_version": "1999-01-01"}, 400, -32602),
    ],
)
async def test_what_is_no_request_of_a_session_is_refused(body, headers, status, code):
    """Status and JSON-RPC error say why, and nothing reaches a relay."""
    async with running() as front:
        response = await front.post(body, **headers)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
        assert all(relay.got == [] for relay in front.relays)


async def test_an_answer_at_once_is_json_and_a_later_one_a_stream():
    """In the same turn it is the whole response; otherwise a stream that begins with an id to resume from."""
    async with running() as front:
        session = await front.open()
        at_once = await front.post(call(1, "now", "x"), session)
        assert at_once.headers["content-type"] == "application/json"
        later = await front.post(call(2, "echo", "y"), session)
        assert later.headers["content-type"] == "text/event-stream"
        (first_id, first), (_, last) = events(later.text)
        assert (first, last["id"]) == (None, 2)
        assert first_id
        assert "retry: 1000" in later.text


async def test_a_client_of_an_earlier_version_gets_no_event_without_data():
    """Clients before 2025-11-25 would take it for a broken message."""
    async with running() as front:
        session = await front.open("2025-06-18")
        assert [
            message["id"]
            for _, message in events((await front.post(call(7, "echo"), session)).text)
        ] == [7]


async def test_what_belongs_to_a_request_goes_into_its_stream():
    """Progress before the answer, and a request of the server whose answer is posted."""
    async with running() as front:
        session = await front.open()
        progress = await front.post(call(1, "progress", "m", {"progressToken": "t"}), session)
        assert [message.get("method") for _, message in events(progress.text) if message] == [
            "notifications/progress",
            None,
        ]
        async with front.stream("POST", call(2, "roots"), session) as response:
            lines = response.aiter_lines()
            [asked] = await next_messages(lines, 1)
            assert asked["method"] == "roots/list"
            result = {
                "jsonrpc": "2.0",
                "id": asked["id"],
                "result": {"roots": [{"uri": "file:///a"}]},
            }
            assert (await front.post(result, session)).status_code == 202
            [answer] = await next_messages(lines, 1)
        assert answer["result"]["content"][0]["text"] == "file:///a"


async def test_what_belongs_to_no_request_waits_for_the_get_stream():
    """It is there when the stream begins; a second stream beside it is refused."""
    async with running() as front:
        session = await front.open()
        [client] = front.relays[0].clients
        client.deliver(rpc.notification("one"), None)
        async with front.stream("GET", session=session) as response:
            lines = response.aiter_lines()
            client.deliver(rpc.notification("two"), None)
            assert [message["method"] for message in await next_messages(lines, 2)] == [
                "one",
                "two",
            ]
            async with front.stream("GET", session=session) as second:
                assert second.status_code == 409
            client.deliver(rpc.notification("three"), None)
            assert [message["method"] for message in await next_messages(lines, 1)] == ["three"]


async def test_what_waits_for_no_one_is_bounded():
    """Of more than the limit the oldest are left out."""
    async with running(limits=HttpLimits(events=3)) as front:
        session = await front.open("2025-06-18")
        [client] = front.relays[0].clients
        for number in range(10):
            client.deliver(rpc.notification(str(number)), None)
        async with front.stream("GET", session=session) as response:
            found = await next_messages(response.aiter_lines(), 3)
        assert [message["method"] for message in found] == ["7", "8", "9"]


@pytest.mark.requirement("X7")
async def test_a_stream_that_was_cut_is_resumed():
    """The answer to a call comes on GET with Last-Event-ID, after what the client has already seen and nothing else."""
    async with running() as front:
        session = await front.open()
        other, relay = await front.open(), front.relays[0]
        async with front.stream("POST", call(1, "hold"), session) as response:
            lines = response.aiter_lines()
            first = await anext(lines)
        assert first.startswith("id: ")
        client, held = relay.held()
        stream = client._in_flight[held.key]
        await until(lambda: stream.reader is None, "it is noticed")
        client.deliver(rpc.notification("while away"), held.key)
        client.deliver(rpc.notification("of no request"), None)
        async with front.stream("GET", session=session, last_event_id=first[4:]) as response:
            relay.answer(client, held, "late")
            text = (await response.aread()).decode()
        assert [message.get("method", "answer") for _, message in events(text)] == [
            "while away",
            "answer",
        ]
        assert not stream.has_messages
        # It can be read once more, from any event; in another session these ids mean nothing.
        async with front.stream(
            "GET", session=session, last_event_id=events(text)[0][0]
        ) as response:
            assert [message["id"] for _, message in events((await response.aread()).decode())] == [
                1
            ]
        for last in ("9999-1", "x", "1-", "-", "1-2-3", "\u0663-\u0661"):
            async with front.stream("GET", session=other, last_event_id=last.encode()) as response:
                assert response.status_code == 400


async def test_of_a_long_session_only_the_newest_events_are_replayed():
    """What was left out is not invented: a stream that has ended and of which nothing is stored is unknown."""
    async with running(limits=HttpLimits(events=3)) as front:
        session = await front.open()
        [client] = front.relays[0].clients
        first = events((await front.post(call(1, "echo"), session)).text)
        for number in range(3):
            client.deliver(rpc.notification(str(number)), None)
        async with front.stream("GET", session=session, last_event_id=first[0][0]) as response:
            assert response.status_code == 400
        assert set(client._streams) == {0}
        async with front.stream("GET", session=session, last_event_id="0-0") as response:
            found = await next_messages(response.aiter_lines(), 3)
        assert [message["method"] for message in found] == ["0", "1", "2"]


async def test_a_resumed_stream_has_one_reader():
    """Who resumes takes over: the earlier connection, which may be dead without anybody knowing, is cut."""
    async with running() as front:
        session = await front.open()
        [client] = front.relays[0].clients
        async with front.stream("GET", session=session) as first:
            client.deliver(rpc.notification("one"), None)
            [one] = await next_messages(first.aiter_lines(), 1)
            assert one["method"] == "one"
            async with front.stream("GET", session=session, last_event_id="0-0") as second:
                client.deliver(rpc.notification("two"), None)
                found = await next_messages(second.aiter_lines(), 2)
                assert [message["method"] for message in found] == ["one", "two"]
                assert client.notices.reader is not None


async def test_a_port_that_is_taken_leaves_nothing_behind():
    """OSError, and the relay that was made is closed."""
    made = []

    def make_relay():
        made.append(ScriptedRelay())
        return made[-1]

    async with running() as front:
        with pytest.raises(OSError, match="ddress already in use"):
            async with serve_http(
                make_relay, token=TOKEN, port=urlsplit(front.url).port, shared=True
            ):
                pass
    assert [relay.is_closed for relay in made] == [True]


async def test_the_same_id_twice_in_flight_is_refused():
    """By type and value: 1 is neither "1" nor, after its answer, taken."""
    async with running() as front:
        session = await front.open()
        relay = front.relays[0]
        async with front.stream("POST", call(1, "hold"), session):
            refused = await front.post(call(1, "echo"), session)
            assert (refused.status_code, refused.json()["id"], refused.json()["error"]["code"]) == (
                400,
                1,
                -32600,
            )
            assert text_of(await front.post(call("1", "echo", "text"), session)) == "text"
            relay.answer(*relay.held())
        assert text_of(await front.post(call(1, "echo", "again"), session)) == "again"


async def test_a_cancelled_request_ends_without_an_answer():
    """`notifications/cancelled` reaches the relay, and `drop` ends the stream; leaving alone cancels nothing."""
    async with running() as front:
        session = await front.open()
        relay = front.relays[0]
        async with front.stream("POST", call(1, "hold"), session) as response:
            cancel = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": 1},
            }
            assert (await front.post(cancel, session)).status_code == 202
            assert [
                message for _, message in events((await response.aread()).decode()) if message
            ] == []
        async with front.stream("POST", call(2, "hold"), session):
            pass
        await front.post(call(3, "echo"), session)
        assert relay.cancelled == [("int", 1)]


async def test_a_session_whose_opening_fails_does_not_stay():
    """Neither one that the server refuses, nor one whose client leaves before the answer."""
    async with running() as front:
        refused = await front.post(request(0, "initialize", protocolVersion="refuse"))
        assert answer_of(refused)["error"]["code"] == -32000
        assert (
            await front.post(call(1, "echo"), refused.headers["mcp-session-id"])
        ).status_code == 404
        async with front.stream("POST", request(0, "initialize", name="hold")) as response:
            session = response.headers["mcp-session-id"]
        await until(
            lambda: all(relay.is_closed for relay in front.relays), "both relays are closed"
        )
        assert (await front.post(call(1, "echo"), session)).status_code == 404


async def test_there_are_not_more_sessions_than_the_limit():
    """One too many is 503, and there is room again when one ends."""
    async with running(limits=HttpLimits(sessions=2)) as front:
        first, _ = await front.open(), await front.open()
        refused = await front.post(request(0, "initialize", protocolVersion="2025-11-25"))
        assert (refused.status_code, len(front.relays)) == (503, 2)
        async with front.stream("DELETE", session=first):
            pass
        assert await front.open()


async def test_an_unused_session_ends():
    """An open stream is use; without any request its relay is closed after the idle time."""
    async with running(limits=HttpLimits(idle_seconds=0.2)) as front:
        used, idle = await front.open(), await front.open()
        async with front.stream("GET", session=used):
            await until(lambda: front.relays[1].is_closed, "the idle one ended")
            assert not front.relays[0].is_closed
            assert (await front.post(call(1, "echo"), idle)).status_code == 404
        await until(lambda: front.relays[0].is_closed, "the other ended, too")


async def test_a_silent_stream_has_comments():
    """So that neither proxies nor clients give it up."""
    async with running(limits=HttpLimits(keep_alive_seconds=0.05)) as front:
        session = await front.open()
        async with front.stream("GET", session=session) as response:
            lines = response.aiter_lines()
            while not (await anext(lines)).startswith(": keep-alive"):
                pass


async def until_refused(front):
    """The first response that is not good."""
    while (response := await front.post(call(1, "now"), "no session")).status_code == 404:
        await asyncio.sleep(0.01)
    return response


async def test_the_end_waits_for_requests_under_way_and_for_nothing_else():
    """A call is answered, streams and what is not answered end, and all of it in bounded time."""
    async with httpx.AsyncClient(
        headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False
    ) as http:
        async with asyncio.timeout(10), running(limits=HttpLimits(close_seconds=0.5)) as front:
            front.http = http
            session = await front.open()
            relay = front.relays[0]
            calls = [
                asyncio.create_task(front.post(call(number, "hold"), session)) for number in (1, 2)
            ]
            opened: list[int] = []

            async def listen() -> None:
                own = GET | {"mcp-session-id": session}
                async with http.stream("GET", front.url, headers=own) as stream:
                    opened.append(stream.status_code)
                    await stream.aread()

            listening = asyncio.create_task(listen())
            await until(
                lambda: len(relay.got) == 3 and opened, "the calls and the stream are under way"
            )
            late = asyncio.create_task(until_refused(front))
            asyncio.get_running_loop().call_later(
                0.1, lambda: relay.answer(*relay.held(), "in time")
            )
        answered, unanswered = await asyncio.gather(*calls)
        assert text_of(answered) == "in time"
        assert (await late).json()["error"]["message"] == "Shutting down"
        assert [message for _, message in events(unanswered.text) if message] == []
        await listening
        assert opened == [200]
    assert relay.is_closed


async def test_an_opening_with_an_error_of_null_beside_its_result_is_none_that_was_refused(
    monkeypatch,
):
    """Some servers write it so: the session goes on."""
    answer = ScriptedRelay.answer

    def answered(self, client, message, text=None, *, now=False):
        if message.method != "initialize":
            answer(self, client, message, text, now=now)
            return
        fields = {
            "jsonrpc": "2.0",
            "id": message.id,
            "error": None,
            "result": {"protocolVersion": "2025-11-25"},
        }
        client.deliver(rpc.parse(json.dumps(fields)), message.key)

    monkeypatch.setattr(ScriptedRelay, "answer", answered)
    async with running() as front:
        session = await front.open()
        assert text_of(await front.post(call(1, "echo", "hello"), session)) == "hello"
