"""The answers of an MCP server over streamable HTTP: streams, their bounds, their cuts, and their end."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest
from aiohttp import web

import resilient_bridge as rb
from tests.adapters.sidecar.http_servers import (
    Scripted,
    body_of,
    call,
    connected,
    event,
    opened,
    streamed,
)
from tests.internals.adapters import message as rpc
from tests.internals.adapters import pause_of
from tests.internals.protocol import EventStreamParser
from tests.peers.running import until


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]

NO, MAYBE = rb.errors.Executed.NO, rb.errors.Executed.MAYBE


JSON = "application/json"


async def test_what_a_stream_brings_belongs_to_its_request():
    """Messages of the server come with the request in whose stream they are, an event may be large, noise is a note, and the connection is kept."""
    large = "x" * 3_000_000
    ports = set()

    async def script(request, message):
        ports.add(request.transport.get_extra_info("peername")[1])
        answer = {"jsonrpc": "2.0", "id": message["id"], **body_of(large)}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage"}
        return await streamed(
            request, b"event: ping\ndata: {}\n\ndata: noise\n\n", event(asked), event(answer)
        )

    async with Scripted(script).serving() as url, connected(url) as (upstream, heard):
        for number in (1, 2):
            upstream.send(call(number))
            answer = await heard.outcome(number)
            assert answer.result["content"][0]["text"] == large
            # the server's own ids are its own: a request of it with id 1 is no answer to ours
            assert [(m.method, r) for m, r in heard.messages if r == number] == [
                ("sampling/createMessage", number), ("", number)
            ]  # fmt: skip
            assert (
                heard.notes
                == ["the server sent an event that is no message: not a JSON object"] * number
            )
            await until(lambda: not upstream._tasks, "its stream has ended")
        assert len(ports) == 1


@pytest.mark.parametrize("form", ["stream", "json", "json, chunked"])
async def test_an_answer_beyond_the_limit_is_abandoned(form):
    """With a reason that names the limit; the next one is read as if nothing had been."""

    async def script(request, message):
        text = "x" * (1 if message["id"] == 2 else 100_000)
        document = {"jsonrpc": "2.0", "id": message["id"], **body_of(text)}
        if form == "json":
            return web.json_response(document)
        if form == "stream":
            return await streamed(request, event(document))
        response = web.StreamResponse(headers={"Content-Type": JSON})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(json.dumps(document).encode())
        return response

    async with (
        Scripted(script).serving() as url,
        connected(url, max_message=50_000) as (upstream, heard),
    ):
        upstream.send(call(1))
        loss = await heard.outcome(1)
        assert (loss.executed, loss.reason) == (
            MAYBE,
            "the answer was given up: it has more than 50000 bytes",
        )
        upstream.send(call(2))
        assert (await heard.outcome(2)).result


async def test_a_stream_that_ends_without_its_answer_is_cut_at_once():
    """Without event ids there is nothing to take up again."""
    server = Scripted()

    async def script(request, message):
        server.ran(message)
        return await streamed(
            request, event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
        )

    server.script = script
    async with server.serving() as url, connected(url) as (upstream, heard):
        await opened(upstream, heard)
        upstream.send(call(1))
        async with asyncio.timeout(1):
            loss = await heard.outcome(1)
        assert (loss.executed, loss.reason) == (MAYBE, "the answer was cut off")
    assert server.effects == {1: 1}


async def test_a_paused_stream_is_not_read():
    """A client of the sidecar that does not read makes the server wait; answers as JSON come meanwhile, and nothing is lost."""
    texts = [str(number) for number in range(100)]
    is_written = asyncio.Event()

    async def script(request, message):
        answer = {"jsonrpc": "2.0", "id": message["id"], **body_of("done")}
        if message["id"] == 2:
            return web.json_response(answer)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for text in texts:
            note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": text}}
            await response.write(event(note))
        is_written.set()
        await response.write(event(answer))
        return response

    async with Scripted(script).serving() as url, connected(url) as (upstream, heard):
        upstream.set_reading(is_reading=False)
        upstream.send(call(1))
        await is_written.wait()
        upstream.send(call(2))
        await heard.outcome(2)
        assert [message.id for message, _ in heard.messages] == [2]
        upstream.set_reading(is_reading=True)
        await heard.outcome(1)
        assert [message.params.get("data") for message, _ in heard.messages[1:-1]] == texts


@pytest.mark.parametrize("way", ["answer", "405", "404", "away", "modern"])
async def test_a_stream_with_event_ids_is_taken_up_again(way):
    """After the time that `retry:` names, from the last id; refused for good or away for too long, the answer was cut. Not since 2026-07-28."""
    server = Scripted()
    answer = {"jsonrpc": "2.0", "id": 1, **body_of("late")}
    resumed, times = [], []

    async def script(request, message):
        server.ran(message)
        times.append(asyncio.get_running_loop().time())
        return await streamed(request, event(None, id="e-1", retry=20))

    async def notices(request):
        if "Last-Event-ID" not in request.headers:
            return web.Response(status=405)
        resumed.append((request.headers["Last-Event-ID"], request.headers.get("Mcp-Session-Id")))
        times.append(asyncio.get_running_loop().time())
        if way == "answer":
            return await streamed(
                request,
                *(
                    [event(answer)]
                    if len(resumed) == 3
                    else [event(None, id=f"e-{len(resumed) + 1}")]
                ),
            )
        if way == "away":
            request.transport.abort()
        return web.Response(status=404 if way == "404" else 405)

    server.script, server.notices = script, notices
    async with server.serving() as url, connected(url, resume_within=0.1) as (upstream, heard):
        if way != "modern":
            await opened(upstream, heard)
        upstream.send(call(1, modern=way == "modern"))
        async with asyncio.timeout(5):
            outcome = await heard.outcome(1)
    assert server.effects == {1: 1}
    assert all(later - earlier >= 0.019 for earlier, later in pairwise(times))
    if way == "answer":
        assert outcome.result["content"][0]["text"] == "late"
        assert resumed == [("e-1", "s-1"), ("e-2", "s-1"), ("e-3", "s-1")]
        return
    assert (outcome.executed, outcome.reason) == (MAYBE, "the answer was cut off")
    assert (
        (len(resumed) == 0)
        if way == "modern"
        else (len(resumed) > 1)
        if way == "away"
        else (len(resumed) == 1)
    )


async def test_a_server_that_names_no_wait_is_not_asked_without_rest():
    """With `retry: 0` a stream is taken up again, and that of notices opened again, a few times in half a second."""
    gets = {"call": 0, "notices": 0}

    async def script(request, message):
        del message
        return await streamed(request, event(None, id="e-1", retry=0))

    async def notices(request):
        kind = "call" if request.headers.get("Last-Event-ID", "").startswith("e-") else "notices"
        gets[kind] += 1
        return await streamed(request, event(None, retry=0))

    async with Scripted(script, notices).serving() as url, connected(url) as (upstream, heard):
        await opened(upstream, heard)
        upstream.send(call(1))
        await asyncio.sleep(0.5)
        assert 2 <= gets["call"] <= 6
        assert 2 <= gets["notices"] <= 6
        assert not heard.unanswered


@pytest.mark.parametrize(
    ("retry", "seconds"),
    [(b"", 1.0), (b"0", 0.1), (b"20", 0.1), (b"2500", 2.5), (b"86400000", 60.0)],
)
def test_the_wait_that_a_server_names_is_bounded(retry, seconds):
    """From a tenth of a second to a minute; a second where it names none."""
    parser = EventStreamParser(max_event_bytes=100)
    parser.receive(b"retry: " + retry + b"\n\n")
    assert parser.next_event() is None
    assert pause_of(parser) == seconds


async def test_cancelled_its_stream_is_closed_without_a_report():
    """The server sees the end of the stream; the others go on."""
    closed = []

    async def script(request, message):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(
            event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
        )
        await until(
            lambda: request.transport is None or request.transport.is_closing(),
            "the client hangs up",
        )
        closed.append(message["id"])
        return response

    server = Scripted(script)
    async with server.serving() as url, connected(url) as (upstream, heard):
        upstream.send(call(1, modern=True))
        await until(lambda: len(heard.messages) == 1, "it runs")
        upstream.send(
            rpc.notification("notifications/cancelled", {"requestId": 1})
        )  # since 2026-07-28 no message
        await until(lambda: closed == [1], "the server sees it")
        upstream.send(call(2, modern=True))
        await until(lambda: len(heard.messages) == 2, "it runs")
        upstream.cancel(2)
        await until(lambda: closed == [1, 2], "the server sees it")
        upstream.cancel(2)
        assert not heard.unanswered
    assert server.seen == {"POST": 2}


def _not_utf8(number):
    return (
        json.dumps({"jsonrpc": "2.0", "id": number, **body_of("?")}).encode().replace(b"?", b"\xfd")
    )


DEFECTIVE = {
    "not UTF-8": (_not_utf8, "not UTF-8"),
    "text": (lambda number: json.dumps({"jsonrpc": "2.0", "id": str(number), **body_of("a")}).encode(), "its id"),
    "bare": (lambda number: json.dumps({"id": number, **body_of("a")}).encode(), 'no "jsonrpc"'),
    "broken": (lambda number: b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [}}' % number, "not a JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTIVE)
@pytest.mark.parametrize("form", ["stream", "with event ids", "json"])
async def test_a_call_whose_answer_cannot_be_used_ends_at_once(name, form):
    """M04: with the reason, whether the stream stays open or could be resumed; the connection goes on."""
    made, why = DEFECTIVE[name]
    done = asyncio.Event()

    async def script(request, message):
        body = made(message["id"])
        if message["id"] == 2:
            return web.json_response({"jsonrpc": "2.0", "id": 2, **body_of("good")})
        if form == "json":
            return web.Response(body=body, headers={"Content-Type": JSON})
        head = b"id: e-1\n" if form == "with event ids" else b""
        response = await streamed(request, head + b"data: " + body + b"\n\n")
        await done.wait()
        return response

    async with Scripted(script).serving() as url, connected(url) as (upstream, heard):
        upstream.send(call(1))
        async with asyncio.timeout(5):
            loss = await heard.outcome(1)
        done.set()
        assert (loss.executed, loss.is_unusable) == (MAYBE, True)
        assert why in loss.reason
        upstream.send(call(2))
        assert (await heard.outcome(2)).result


async def test_an_event_without_a_request_ends_no_call():
    """M04: it is logged; the call in whose stream it came goes on."""

    async def script(request, message):
        noise = b'data: {"level": "info", "id": 1, "text": "\xfd"}\n\n'
        return await streamed(
            request, noise, event({"jsonrpc": "2.0", "id": message["id"], **body_of("good")})
        )

    async with Scripted(script).serving() as url, connected(url) as (upstream, heard):
        upstream.send(call(1))
        assert (await heard.outcome(1)).result
        assert heard.notes == ["the server sent an event that is no message: not UTF-8"]


async def test_x04_a_resumed_stream_that_stood_for_a_second_is_a_success():
    """It brings nothing and ends, and the time within which one has to succeed begins anew: the third brings the answer."""
    server = Scripted()
    resumed = 0

    async def script(request, message):
        server.ran(message)
        return await streamed(request, event(None, id="e-1", retry=100))

    async def notices(request):
        nonlocal resumed
        if "Last-Event-ID" not in request.headers:
            return web.Response(status=405)
        resumed += 1
        if resumed == 3:
            return await streamed(request, event({"jsonrpc": "2.0", "id": 1, **body_of("late")}))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(1.05)
        return response

    server.script, server.notices = script, notices
    async with server.serving() as url, connected(url, resume_within=0.05) as (upstream, heard):
        await opened(upstream, heard)
        upstream.send(call(1))
        async with asyncio.timeout(30):
            outcome = await heard.outcome(1)
    assert outcome.result["content"][0]["text"] == "late"
    assert (resumed, server.effects) == (3, {1: 1})
