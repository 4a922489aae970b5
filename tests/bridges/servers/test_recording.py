"""The frames of a real OpenHands server, as openhands_frames.jsonl has them, read by its two dialects: no server, and no Python 3.12.

`python -m tests.bridges.servers.recording` writes that file anew.
"""

from __future__ import annotations

import asyncio
import json
import re
from itertools import groupby
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from websockets.asyncio.server import serve

import resilient_bridge as rb
from tests.rows import each_row


d = rb.dialects
FILE = Path(__file__).with_name("openhands_frames.jsonl")
LINES = [json.loads(line) for line in FILE.read_text().splitlines()]
DIALECTS = {"session": d.openhands, "legacy": d.openhands_legacy}


def heard(socket, connection):
    """The frames that the server sent on the first, second or third connection of a socket."""
    connections = [
        [*lines] for _, lines in groupby(LINES, lambda line: (line["socket"], line["connection"]))
    ]
    lines = [lines for lines in connections if lines[0]["socket"] == socket][connection]
    return [json.dumps(line["frame"]) for line in lines if line["way"] == "down"]


def facts_of(socket, connection):
    """What its dialect reads in them."""
    return [fact for frame in heard(socket, connection) for fact in DIALECTS[socket].decode(frame)]


def frames_of_ours(socket):
    """What the client said on a socket."""
    return [line["frame"] for line in LINES if line["socket"] == socket and line["way"] == "up"]


@each_row("line", LINES, ids=[f"{at}" for at in range(len(LINES))])
def test_every_frame_is_read(line):
    """Each frame of the server says something; an event has its type and, where it is stored, its id and its time."""
    if line["way"] == "up":
        return
    facts = DIALECTS[line["socket"]].decode(json.dumps(line["frame"]))
    assert facts
    for event in (fact for fact in facts if isinstance(fact, d.Received)):
        assert event.type
        assert event.id
        assert event.timestamp
        assert event.raw == line["frame"]


def test_a_first_connection_begins_where_the_log_ends():
    """`sync` without a number, of an empty log: whoever is cut before the first event asks for all that came after it."""
    hello, window, moved, *_ = facts_of("session", 0)
    assert isinstance(hello, d.Hello)
    assert (window.first, window.through) == (0, -1)
    assert moved == d.Moved(position=-1)
    record = d.Record(positions={None: -1}, overlap=1, moved=frozenset({None}))
    assert d.openhands.resume(record).query == {"after_seq": -1}


def test_a_resume_names_its_window_and_fills_it():
    """Exactly the events behind the number that was asked for, the state without a position, and live events."""
    _, window, *facts = facts_of("session", 1)
    events = [fact for fact in facts if isinstance(fact, d.Received)]
    positions = [event.position for event in events if event.position is not None]
    assert (window.first, window.through) == (5, 9)
    assert positions == [5, 6, 7, 8, 9, 10, 11]
    (state,) = [event for event in events if event.position is None]
    assert state.payload["key"] == "full_state"
    (refused,) = [fact for fact in facts if isinstance(fact, d.Refused)]
    assert refused.code == "ValidationError"
    _, window, *_ = facts_of("session", 2)  # `after_seq=999`, of a log that is shorter
    assert window.first > window.through


def test_a_time_has_no_window():
    """The event that was asked after comes again, with its time as its position; the state has none."""
    events = [fact for fact in facts_of("legacy", 1) if isinstance(fact, d.Received)]
    query = next(line["query"] for line in LINES if line["socket"] == "legacy" and line["query"])
    positions = [event.position for event in events]
    assert positions[0] is None
    assert positions[1] == query.partition("after_timestamp=")[2]
    assert positions[1:] == sorted(positions[1:])
    assert any(isinstance(fact, d.Refused) for fact in facts_of("legacy", 1))


@pytest.mark.parametrize("socket", DIALECTS)
def test_what_we_say_is_what_it_took(socket):
    """Auth and a message are written as they were recorded, and the message is known again when it comes back."""
    dialect, (auth, message, *_) = DIALECTS[socket], frames_of_ours(socket)
    send = d.Send(type="", payload=message, id="1", key="k", timestamp="2026-01-01T00:00:00Z")
    assert json.loads(dialect.encode(d.Auth(token="k"))) == auth
    assert json.loads(dialect.encode(send)) == message
    echoes = [
        fact.echo for fact in facts_of(socket, 0) if isinstance(fact, d.Received) and fact.echo
    ]
    assert echoes == [dialect.echo(json.dumps(message))]


def test_the_recording_is_small_and_has_no_secrets():
    """Keys are masked, and nothing names the machine that it was made on."""
    text = FILE.read_text()
    assert len(text) < 40_000
    assert re.findall(r'"api_key":"(?!\*+")', text) == []
    for trace in ("/tmp", "/home", "/root"):
        assert trace not in text


@pytest.mark.real
async def test_a_client_recovers_over_the_recording():
    """A server that only says what was recorded: the client asks for what the recorder asked for, and ends RECOVERED with each event once."""
    queries, last = [], json.loads(heard("session", 1)[-2])["seq"]

    async def attend(socket):
        queries.append(unquote(urlsplit(socket.request.path).query))
        await socket.recv()
        for frame in heard("session", len(queries) - 1):
            await socket.send(frame)
        if len(queries) == 1:
            await socket.close(1011)
        await socket.wait_closed()

    policy = rb.bridge.BridgePolicy(
        reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.05))
    )
    async with asyncio.timeout(20), serve(attend, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/sockets/session/main"
        async with rb.BridgeClient(url, dialect=d.openhands, token="k", policy=policy) as client:
            events, positions = client.events(), []
            async for message in client:
                positions += [message.raw["seq"]] if "seq" in message.raw else []
                if positions[-1:] == [last]:
                    break
            async for event in events:
                if isinstance(event, rb.events.Resumed):
                    break
    assert queries == ["", next(line["query"] for line in LINES if line["connection"] == 2)]
    assert positions == list(range(last + 1))
    assert (event.verdict, event.proof) == (rb.bridge.Verdict.RECOVERED, "window")
