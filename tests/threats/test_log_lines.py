"""Row 46: what a server says never breaks a line: not in a log, not in an event, not in a repr, not in an error.

Rule: one text with every kind of control character, sent by every way in which a server's words reach us.
"""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

import resilient_bridge as rb
from tests.threats.watching import Watch, refuse_with, simulated


FORGED = "bye\n2026-01-01 00:00:00 ERROR root: forged\r\x1b[31mred\x1b[0m\x00\x07\x85\u2028\u2029\x9b31m\u202eevil"
CONTROL = [
    chr(code) for code in (*range(32), 127, *range(128, 160), 0x2028, 0x2029, 0x202E, 0x2066)
]


def assert_one_line(text, allowed=""):
    """No control character in it, of any alphabet."""
    found = [hex(ord(sign)) for sign in CONTROL if sign in text and sign not in allowed]
    assert not found, (found, text[:300])


async def raised_by(use):
    """The error of an operation, or None."""
    try:
        await use
    except rb.BridgeError as error:
        return error
    return None


def assert_all_is_one_line(watch, caplog, *errors):
    """Records, events, failures, errors and reprs of everything the client has to do with."""
    assert caplog.records
    for record in caplog.records:
        if record.name.startswith("resilient_bridge"):
            assert_one_line(record.getMessage())
    client = watch.client
    for thing in (
        client,
        client.health(),
        *watch.events,
        *watch.messages,
        *watch.gaps,
        *filter(None, errors),
    ):
        assert_one_line(repr(thing))
        assert_one_line(str(thing))
    for event in watch.events:
        if (failure := getattr(event, "failure", None)) is not None:
            assert_one_line(str(failure))
            assert_one_line(failure.explain(), allowed="\n")
            assert "\n2026-01-01 00:00:00 ERROR" not in failure.explain()


@simulated
async def test_row_46_a_close_reason(server, caplog):
    """A close frame's text is on one line of one record."""
    caplog.set_level("INFO")  # the wait after the loss is short
    async with Watch(server.url) as watch:
        await watch.ready()
        for link in tuple(server._listener.links):
            await link.close(1011, FORGED[:40])
        await watch.recovered(2)
        assert_all_is_one_line(watch, caplog)


@pytest.mark.parametrize("way", ["connection_error", "body"])
@simulated
async def test_row_46_a_refusal(server, caplog, way):
    """The text of a connection_error, or in the body of a refused upgrade: escaped in the error that ends the client, too."""
    async with Watch(server.url) as watch:
        await watch.ready()
        await refuse_with(server, way, FORGED)
        await asyncio.sleep(20)
        errors = [
            await raised_by(watch.client.wait_ready(1)),
            await raised_by(watch.client.send("note", {})),
        ]
        assert any(errors)
        assert (
            "forged" in watch.client.health().failure.explain()
        )  # it is shown, and it is harmless
        assert_all_is_one_line(watch, caplog, *errors)


FRAMES = {
    "error": {
        "type": "error",
        "payload": {"code": FORGED, "message": FORGED, "suggestions": [FORGED]},
    },
    "type": {"type": FORGED, "payload": {}},
    "id": {"type": "tool_call", "id": FORGED, "payload": {}},
    "conflict": {"type": "tool_call", "id": FORGED, "payload": {"x": 1}},
    "stamp": {"type": "tool_call", "timestamp": FORGED, "payload": {}},
    "sequence": {"type": "connection_ack", "id": FORGED, "payload": {"server_id": FORGED}},
    "key": {"type": "message_ack", "payload": {"message_id": FORGED, "status": FORGED}},
}


@simulated
async def test_row_46_frames(server, caplog):
    """Types, ids, stamps, codes and messages of frames, legal and illegal ones: escaped wherever they are named."""
    caplog.set_level("INFO")  # the wait after the loss is short
    async with Watch(server.url) as watch:
        await watch.ready()
        for frame in FRAMES.values():
            await server.push_raw(json.dumps(frame))
        await server.push("tool_call", {"n": 1})
        await watch.until(lambda: watch.ids == [1])
        await server.cut("abort")
        await watch.recovered(2)
        assert len(watch.messages) >= 4
        assert_all_is_one_line(watch, caplog)


@simulated
async def test_row_46_a_session_id_of_the_servers(server, caplog):
    """A session id that no line could hold is refused, typed: it would be in every repr and record from then on."""
    caplog.set_level("INFO")  # the wait after the loss is short
    message = server._memory.message

    def spoiled(kind, payload, ident):
        return message(
            kind, {**payload, "session_id": FORGED} if kind == "session_joined" else payload, ident
        )

    server._memory.message = spoiled
    policy = rb.presets.default.evolve(dialect=rb.bridge.Dialect(session_from_join=True))
    async with Watch(server.url, policy=policy) as watch:
        await watch.until(lambda: watch.waits)
        assert watch.failures[0].startswith("PROTO_")
        assert_all_is_one_line(watch, caplog)


@simulated
async def test_row_46_one_record_per_event(server, caplog):
    """Every warning of a bad quarter of an hour is exactly one line, and there is at most one for each event."""
    async with Watch(server.url) as watch:
        await watch.ready()
        caplog.clear()
        await refuse_with(server, "connection_error", FORGED)
        await asyncio.sleep(900)
        ours = [record for record in caplog.records if record.name == "resilient_bridge"]
        assert ours
        assert len(ours) <= len(watch.events)
        for record in ours:
            assert len(logging.Formatter("%(message)s").format(record).splitlines()) == 1
