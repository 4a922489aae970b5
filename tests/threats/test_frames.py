"""Rows 1 to 4: frames that are no messages, seen from the user: an event, and the session goes on.

Rule: every bad frame is sent on a live link, between two good messages, and the one connection carries both.
"""

from __future__ import annotations

import json
import random

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import MemoryStore
from tests.internals.telemetry import MessageRejected
from tests.internals.testing import GARBAGE
from tests.rows import each_row
from tests.threats.watching import Watch, push, simulated, until


NESTED = '{"type": "tool_call", "payload": {"x": %s%s}}'
MALFORMED = ["malformed", "empty", "bom", "not_an_object", "binary"]
NUMBERS = ["nan", "infinity", "overflow", "huge_integer"]
AMBIGUOUS = ["duplicate_keys", "id_list", "null_payload", "lone_surrogate"]


async def survives(server, frames, codes=("PROTO_INVALID_FRAME", "PROTO_INVALID_MESSAGE")):
    """Push the frames between two messages: each is one typed event, and nothing else happens."""
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1)
        for frame in frames:
            await server.push_raw(frame)
        await push(server, 2)
        await watch.until(lambda: watch.ids == [1, 2])
        rejected = watch.of(MessageRejected)
        assert len(rejected) == len(frames)
        assert {event.failure.code for event in rejected} <= set(codes)
        assert {event.failure.category for event in rejected} == {rb.Category.PROTOCOL}
        assert len(watch.messages) == 2
        assert len(server.connect_times) == 1
        # the position is sound as well: the next resume knows it
        await push(server, 3)
        await server.cut("abort")
        await watch.recovered(2)
        await watch.until(lambda: watch.ids == [1, 2, 3])
        assert watch.verdicts == [("RECOVERED", "anchor")]
        return rejected


@pytest.mark.parametrize("name", MALFORMED)
@simulated
async def test_row_01_malformed_json(server, name):
    """Malformed JSON, a byte order mark, an empty frame, an array, binary rubbish: typed, counted, dropped, session kept."""
    await survives(server, [GARBAGE[name]] * 3)


@simulated
async def test_row_01_invalid_utf8(server):
    """A text frame that is not UTF-8 costs that frame, and not the connection."""
    async with Watch(server.url) as watch:
        await watch.ready()
        for link in server._listener.links:
            protocol = link.connection.protocol
            protocol.send_text(b'{"type": "tool_call", "payload": {"x": "\xff\xfe"}}')
            link.connection.transport.write(b"".join(protocol.data_to_send()))
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        (event,) = watch.of(MessageRejected)
        assert event.failure.code == "PROTO_INVALID_FRAME"
        assert len(server.connect_times) == 1


@simulated
async def test_row_01_in_a_replay(server):
    """An entry of a replay that is no message costs that entry: the others arrive, and the verdict stands."""
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        await server.cut("abort", seconds=2)
        session = server._memory.sessions[server.session]
        await push(server, 2)
        for bad in ('{"type": 7}', '"text"', "null", '{"type":"a","payload":[]}'):
            server._memory.keep(session, bad)
        await push(server, 3)
        await watch.recovered(2)
        await watch.until(lambda: watch.ids == [1, 2, 3])
        assert watch.verdicts == [("RECOVERED", "anchor")]
        codes = {event.failure.code for event in watch.of(MessageRejected)}
        assert codes == {"PROTO_INVALID_MESSAGE", "PROTO_INVALID_FRAME"}
        assert len(watch.of(MessageRejected)) >= 4


@pytest.mark.parametrize("depth", [101, 900, 985, 995, 5_000, 100_000])
@simulated
async def test_row_02_nesting(server, depth):
    """Arrays and objects nested to any depth, closed or not, are a typed error (json raises RecursionError there)."""
    lists = NESTED % ("[" * depth, "]" * depth)
    dicts = NESTED % ('{"a":' * depth + "1", "}" * depth)
    await survives(server, [lists, dicts, "[" * depth, '{"a":' * depth], ("PROTO_INVALID_FRAME",))


@pytest.mark.parametrize("as_strings", [False, True], ids=["objects", "strings"])
@simulated
async def test_row_02_nesting_in_a_replay(server, as_strings):
    """A deep entry in a replay does not take the client down; what can be read arrives, or the verdict says so."""
    server.behave(replay_entries="strings" if as_strings else "objects")
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        await server.cut("abort", seconds=2)
        session = server._memory.sessions[server.session]
        server._memory.keep(session, NESTED % ("[" * 5_000, "]" * 5_000))
        await push(server, 2)
        await watch.recovered(2)
        if as_strings:
            await watch.until(lambda: watch.ids == [1, 2])
            assert watch.verdicts == [("RECOVERED", "anchor")]
        else:  # the whole answer cannot be read: that is a hole, and it is told
            assert watch.of(MessageRejected)
            assert watch.gaps or watch.ids == [1, 2]


@pytest.mark.parametrize("depth", [2_000, 100_000])
@simulated
async def test_row_02_what_we_send(server, depth):
    """A payload nested too deeply is refused by `send` and `request`, typed; the next one goes."""
    deep: list = []
    for _ in range(depth):
        deep = [deep]
    async with Watch(server.url) as watch:
        await watch.ready()
        with pytest.raises(rb.errors.ProtocolError, match="payload"):
            await watch.client.send("note", {"x": deep})
        with pytest.raises(rb.errors.ProtocolError, match="payload"):
            await watch.client.request("note_request", {"x": deep})
        receipt = await watch.client.send("note", {"n": 1})
        assert await receipt.confirmed(10) == "applied"
        assert [message["payload"]["n"] for message in server.received] == [1]


@pytest.mark.parametrize("name", NUMBERS)
@simulated
async def test_row_03_numbers(server, name):
    """NaN, Infinity, 1e400 and an integer of 5,000 digits are typed errors, although json would read three of them."""
    await survives(
        server, [GARBAGE[name], GARBAGE[name].replace('"payload": {', '"payload": {"y": [1], ')]
    )


@simulated
async def test_row_03_what_we_send(server):
    """The same numbers never leave: `send` refuses them, nothing is queued, the session goes on."""
    hostile = [float("nan"), float("inf"), -float("inf"), 10**5_000]
    async with Watch(server.url) as watch:
        await watch.ready()
        for value in hostile:
            for payload in ({"x": value}, {"x": [{"y": value}]}):
                with pytest.raises(rb.errors.ProtocolError, match="payload"):
                    await watch.client.send("note", payload)
        assert watch.client.health().queued == 0
        assert await (await watch.client.send("note", {"x": 1e308})).confirmed(10) == "applied"
        assert len(server.received) == 1


@pytest.mark.parametrize("name", AMBIGUOUS)
@simulated
async def test_row_04_ambiguous(server, name):
    """Duplicate keys, an id that is a list, a null payload, a lone surrogate: typed, dropped, session kept."""
    await survives(server, [GARBAGE[name]] * 2)


@simulated
async def test_row_04_outbox_is_never_poisoned(server):
    """What cannot be written to the wire is refused before it is stored: a store holds only what can be sent."""
    store = MemoryStore()
    hostile = [
        {"x": "\ud800"},
        {"\udfff": 1},
        {"x": {1, 2}},
        {"x": b"bytes"},
        {"x": object()},
        {(1, 2): 3},
        None,
        7,
        "text",
    ]
    async with Watch(server.url, store=store) as watch:
        await watch.ready()
        await server.cut("abort", seconds=3)  # the link is down: everything would have to be kept
        for payload in hostile:
            with pytest.raises((rb.errors.ProtocolError, rb.ConfigError)):
                await watch.client.send("note", payload)
        for kind in ("", "Note", "no te", "note\n", "\ud800", None, 7):
            with pytest.raises(rb.errors.ProtocolError):
                await watch.client.send(kind, {})
        assert list(store.entries()) == []
        receipt = await watch.client.send("note", {"n": 1})
        await watch.recovered(2)
        assert await receipt.confirmed(10) == "applied"


@pytest.mark.parametrize("key", [7, "", ["k"], {"k": 1}, "\ud800"], ids=repr)
@simulated
async def test_row_04_idempotency_key(server, key):
    """A key that is no text, in the payload or as an argument, is refused; it never names an entry."""
    async with Watch(server.url) as watch:
        await watch.ready()
        with pytest.raises((rb.ConfigError, rb.errors.ProtocolError)):
            await watch.client.send("note", {"idempotency_key": key})
        with pytest.raises((rb.ConfigError, rb.errors.ProtocolError)):
            await watch.client.send("note", {}, idempotency_key=key)
        assert watch.client.health().queued == 0


CONTROL = [
    "connection_ack", "connection_error", "session_joined", "replay_buffer", "heartbeat_pong", "message_ack",
    "error", "heartbeat_ping", "health_status", "session_message", "note_response",
]  # fmt: skip
VALUES = [
    None, True, 0, -1, 1.5, 2**70, "", "x", "\u0000", "a" * 5_000, [], [[]], {}, {"a": {}}, ["x"], [None, 7],
    "2026-01-01T00:00:00Z", {"n": 1},
]  # fmt: skip
FIELDS = [
    "code", "message", "message_id", "status", "messages", "session_id", "server_id", "details", "suggestions",
    "recoverable", "violations", "request_type", "request_id", "retry_after", "idempotency_key", "n",
]  # fmt: skip


def hostile_frame(rng, ids):
    """A well-formed envelope of a type that means something, with fields of every type."""
    kind = rng.choice(CONTROL)
    fields = rng.sample(FIELDS, rng.randrange(len(FIELDS)))
    body = {"type": kind, "payload": {field: rng.choice([*VALUES, *ids]) for field in fields}}
    code = rng.choice(["SYS_INTERNAL_ERROR", "PROTO_INVALID_MESSAGE", "WHAT", "", 7, None, {}])
    if kind == "error":
        body["payload"]["code"] = code
    if rng.random() < 0.5:
        body["id"] = rng.choice(["", "x", *ids])
    if rng.random() < 0.5:
        body["timestamp"] = rng.choice(
            ["", "x", "9999-99-99T99:99:99Z", "2026-01-01T00:00:00Z", "\u0661"]
        )
    return json.dumps(body)


@each_row("seed", range(8))
@simulated
async def test_row_04_fields_of_the_wrong_type(server, seed):
    """400 control frames with fields of every type: the client lives, tells only typed errors, and is READY in the end."""
    rng = random.Random(seed)
    async with Watch(server.url) as watch:
        await watch.ready()
        receipts = [await watch.client.send("note", {"n": n}) for n in range(5)]
        for receipt in receipts:
            await receipt.confirmed(10)
        ids = [receipt.id for receipt in receipts]
        for _ in range(400):
            await server.push_raw(hostile_frame(rng, ids))
            if rng.random() < 0.05:
                await until(lambda: watch.client.state in {"READY", "FAILED"}, 200)
                assert watch.client.state == "READY", watch.client.health()
        await until(lambda: watch.client.state == "READY", 200)
        receipt = await watch.client.send("note", {"n": 99})
        assert await receipt.confirmed(60) in {"applied", "read"}
        for event in watch.of(MessageRejected):
            assert event.failure.code.startswith("PROTO_")
