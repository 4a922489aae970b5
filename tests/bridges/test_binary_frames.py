"""A binary protocol: bytes go out and come in as they are, through queue, resends, stores, replays and the command line.

The protocol: a byte that says what a frame is, a number of four bytes, and the body.
"""

from __future__ import annotations

import asyncio
import json
import struct
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import WSMsgType, web
from websockets.asyncio.client import connect

import resilient_bridge as rb
from tests.bridges.aiohttp_server import serving
from tests.bridges.foreign import quick
from tests.internals.protocol import FirstFrames, canonical
from tests.internals.stores import frame_of, row_text
from tests.protocol.frames_rig import FramesRig, d, shown
from tests.redis_server import redis_server_fixture
from tests.rows import each_row


redis = redis_server_fixture(scope="module")
ANY_BYTES = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"text",
    "é".encode(),
    b'{"a":1}',
    bytes(range(256)),
    b"\x02bytes:AA==",
)
EVENT, SINCE, END, SAY, TAKEN = range(5)


def frame(kind, value=0, body=b""):
    """One frame."""
    return struct.pack(">BI", kind, value) + body


def decode(data):
    """Facts of bytes; a text is none of this protocol."""
    kind, value = struct.unpack_from(">BI", data)
    body = data[5:]
    match kind:
        case 0:
            return (d.Received(raw=body, type="body", position=value),)
        case 2:
            return (d.Replayed(through=value),)
        case 4:
            return (d.Acked(ids=[value]),)
    raise ValueError(f"no frame of kind {kind}")


def encode(intent):
    """A message with its number."""
    return frame(SAY, intent.number, intent.body) if isinstance(intent, d.Send) else None


def resume(record):
    """What came after the position, as a frame of bytes."""
    return d.Resume(frames=() if record.position is None else (frame(SINCE, record.position),))


def numbered(**settings):
    """The dialect."""
    positions = d.Positions(contiguous=True, repeats=True, ends="stated", distinct=True)
    return rb.bridge.Dialect.envelopes(
        decode=decode,
        encode=encode,
        resume=resume,
        positions=positions,
        confirms=True,
        error=None,
        dedupes=True,
        **settings,
    )


# ---- the core ----------------------------------------------------------------------------------------------------------


def test_l10_a_session_of_bytes_recovers_what_was_missed():
    """Sent, acknowledged, cut, asked for by bytes, and told apart by content: a repeat is known, another event at its number is another log."""
    rig = FramesRig(numbered()).up()
    for number in range(1, 4):
        rig.hear(frame(EVENT, number, bytes((number, 255))))
    entry = rig.send("", b"\xff\x00hello")
    assert rig.write() == [frame(SAY, 1, b"\xff\x00hello")]
    rig.hear(frame(TAKEN, 1))
    assert str(entry.state) == "confirmed"
    assert entry.size == 12
    assert rig.again() == [frame(SINCE, 3)]
    for number in range(3, 6):
        rig.hear(frame(EVENT, number, bytes((number, 255))))
    rig.hear(frame(END, 5))
    assert rig.resumed[:2] == ("RECOVERED", "window")
    assert rig.read() == [bytes((number, 255)) for number in range(1, 6)]
    rig.hear(frame(EVENT, 5, bytes((5, 255))))
    assert rig.read() == []
    rig.hear(frame(EVENT, 5, b"another"))
    assert [item if isinstance(item, bytes) else item[1] for item in rig.read()] == [
        "restarted",
        b"another",
    ]


def test_l10_a_text_that_holds_the_same_characters_is_another_frame():
    """Bytes and text are told apart everywhere that frames are compared."""
    assert canonical(b'{"b":1,"a":2}') == b'{"b":1,"a":2}' != canonical('{"b":1,"a":2}')
    rig = FramesRig(
        rb.bridge.Dialect.envelopes(
            decode=lambda data: (d.Received(raw=data, position=1),),
            encode=encode,
            positions=d.Positions(repeats=True),
        )
    ).up()
    rig.session.receive("x", rig.now)
    rig.session.receive(b"x", rig.now)
    assert [
        item if isinstance(item, str | bytes) else item[1] for item in map(shown, rig.take())
    ] == [
        "x",
        "restarted",
        b"x",
    ]


@each_row("data", ANY_BYTES, ids=lambda data: repr(data[:8]))
def test_l10_plain_and_the_families_send_bytes_as_they_are(data):
    """`send(b"…")`: your own frame; and it is read as it came."""
    for dialect in (
        rb.dialects.plain,
        rb.dialects.sequence(field="n", ask="after"),
        rb.dialects.since(),
        rb.dialects.last_event_id(),
    ):
        rig = FramesRig(dialect).up()
        rig.send("", data)
        assert rig.write()[-1:] == [data]
        rig.hear(data)
        assert rig.read() == [data]


@pytest.mark.parametrize(
    "dialect",
    [
        rb.dialects.jsonrpc,
        rb.dialects.mattermost,
        rb.dialects.openhands,
        rb.dialects.socketio(),
        rb.dialects.centrifugo("a"),
        rb.dialects.recursor_live,
    ],
    ids=["jsonrpc", "mattermost", "openhands", "socketio", "centrifugo", "recursor_live"],
)
def test_l10_a_dialect_that_speaks_text_refuses_bytes(dialect):
    """Where it is sent, and nothing of it is queued."""
    rig = FramesRig(dialect)
    with pytest.raises(rb.errors.ProtocolError) as refused:
        rig.send("do", b"\x00")
    assert refused.value.failure.executed is rb.errors.Executed.NO
    assert not rig.session.outbound.outbox.queued


def test_l10_an_envelope_of_json_refuses_bytes():
    """`BridgeClient` with a dialect of types: the error says which dialects speak bytes."""

    async def main(server):
        del server
        async with rb.BridgeClient("ws://127.0.0.1:9/") as bridge:
            for arguments in ((b"x",), ("type", b"x")):
                with pytest.raises((rb.ConfigError, rb.errors.ProtocolError), match="send"):
                    await bridge.send(*arguments)
        async with rb.BridgeClient("ws://127.0.0.1:9/", dialect=rb.dialects.plain) as bridge:
            for wrong in (bytearray(b"x"), memoryview(b"x"), 7, [b"x"], None):
                with pytest.raises(rb.ConfigError, match=r'send\(b"…"\)'):
                    await bridge.send(wrong)

    asyncio.run(main(None))


def test_l10_the_first_frames_of_a_stalled_handshake_may_be_bytes():
    """What was sent is named by its kind, and never shown."""
    first = FirstFrames()
    first.went(b"secret")
    first.came(b"\xff\x00")
    assert "sent: bytes; came back:" in str(first)
    assert "secret" not in str(first)


@each_row(
    "data",
    (
        *ANY_BYTES,
        *(text for text in ("", "x", "\x02", "\x02bytes:AA==", "\x02text:", "\x02\x02", "é\u2028")),
    ),
    ids=lambda data: repr(data[:8]),
)
def test_l10_a_row_says_whether_a_frame_was_text_or_bytes(data):
    """The text of a row is that of exactly one frame."""
    assert frame_of(row_text(data)) == data
    assert type(frame_of(row_text(data))) is type(data)


@pytest.mark.parametrize(
    "text", ["\x02", "\x02x", "\x02bytes:", "\x02bytes:A", "\x02bytes:é"], ids=repr
)
def test_l10_a_damaged_row_is_no_frame(text):
    """A ValueError, which a store reads as damage; an empty string of bytes is one."""
    if text == "\x02bytes:":
        assert frame_of(text) == b""
        return
    with pytest.raises(ValueError, match=r".*"):
        frame_of(text)


# ---- over a real socket --------------------------------------------------------------------------------------------------


class Log:
    """aiohttp: keeps what was taken, answers `SINCE`, and notes frames of text."""

    def __init__(self):
        self.log, self.taken, self.texts, self.sockets = [], [], [], []
        self.acknowledges = True
        self.url = ""

    async def handle(self, request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets.append(socket)
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                self.texts.append(message.data)
                continue
            kind, value = struct.unpack_from(">BI", message.data)
            if kind == SINCE:
                for number in range(value, len(self.log)):
                    await socket.send_bytes(frame(EVENT, number + 1, self.log[number]))
                await socket.send_bytes(frame(END, len(self.log)))
            elif kind == SAY:
                self.taken.append(message.data[5:])
                if self.acknowledges:
                    await socket.send_bytes(frame(TAKEN, value))
        return socket

    async def publish(self, body):
        self.log.append(body)
        for socket in self.sockets:
            with suppress(ConnectionError):  # cut
                await socket.send_bytes(frame(EVENT, len(self.log), body))

    def cut(self):
        self.sockets[-1]._req.transport.abort()

    @asynccontextmanager
    async def running(self):
        async with serving(self.handle) as self.url:
            yield self


@pytest.fixture
async def log():
    async with Log().running() as one:
        yield one


def stores(name, tmp_path, server):
    """The store of this name, anew for each client."""
    if name == "redis":
        return rb.stores.RedisStore(server.url, name=tmp_path.name)
    return None if name == "memory" else str(tmp_path / "bridge.db")


@pytest.mark.requirement("X20")
@pytest.mark.real
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["memory", "sqlite", "redis"])
async def test_l10_bytes_survive_a_cut_in_every_store(log, name, tmp_path, redis):
    """aiohttp: resent as they were, recovered, in order, once; no frame of text on the wire."""
    store = stores(name, tmp_path, redis)
    async with rb.BridgeClient(log.url, dialect=numbered(), policy=quick(), store=store) as bridge:
        messages = aiter(bridge)
        await bridge.wait_ready(10)
        await log.publish(b"\xff\x01")
        assert (await anext(messages)).raw == b"\xff\x01"
        log.acknowledges = False
        receipt = await bridge.send("", b"\x80first", idempotency_key="first")
        while not log.taken:
            await asyncio.sleep(0.01)
        log.acknowledges = True
        log.cut()
        await log.publish(b"\xff\x02")
        assert await receipt.confirmed(10) == "applied"
        assert (await anext(messages)).raw == b"\xff\x02"
    assert log.taken == [b"\x80first", b"\x80first"]
    assert log.texts == []


@pytest.mark.real
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["sqlite", "redis"])
async def test_l10_bytes_survive_the_process(log, name, tmp_path, redis):
    """Queued by one client, sent by the next; read by one, told as known to the next, with the last one redelivered."""
    async with rb.BridgeClient(
        log.url, dialect=numbered(), policy=quick(), store=stores(name, tmp_path, redis)
    ) as bridge:
        messages = aiter(bridge)
        await bridge.wait_ready(10)
        for number in range(3):
            await log.publish(bytes((255, number)))
            assert (await anext(messages)).raw == bytes((255, number))
    async with rb.BridgeClient(
        "ws://127.0.0.1:9/", dialect=numbered(), policy=quick(), store=stores(name, tmp_path, redis)
    ) as bridge:
        for data in ANY_BYTES:
            await bridge.send("", data)
    await log.publish(b"\xff\x03")
    async with rb.BridgeClient(
        log.url, dialect=numbered(), policy=quick(), store=stores(name, tmp_path, redis)
    ) as bridge:
        messages = aiter(bridge)
        while len(log.taken) < len(ANY_BYTES):
            await asyncio.sleep(0.01)
        read = [await anext(messages)]
        while read[-1].raw != b"\xff\x03":
            read.append(await anext(messages))
        assert [(message.raw, message.redelivered) for message in read] in (
            [(b"\xff\x03", False)],
            [(b"\xff\x02", True), (b"\xff\x03", False)],
        )
    assert tuple(log.taken) == ANY_BYTES


@pytest.mark.real
@pytest.mark.timeout(60)
async def test_l10_bytes_over_a_websocket_of_ones_own(log):
    """`BridgeClient.over` a websocket of the websockets package, and of aiohttp's client through an object with its three methods."""

    @asynccontextmanager
    async def own():
        async with connect(log.url, proxy=None) as socket:
            yield socket

    async with rb.BridgeClient.over(own, dialect=numbered(), policy=quick()) as bridge:
        await bridge.wait_ready(10)
        receipt = await bridge.send("", b"\xff\x00")
        assert await receipt.confirmed(10) == "applied"
        await log.publish(b"\x00\xff")
        assert (await anext(aiter(bridge))).raw == b"\x00\xff"
    assert (log.taken, log.texts) == ([b"\xff\x00"], [])


@pytest.mark.real
@pytest.mark.timeout(60)
async def test_l10_on_connect_and_the_reader_tell_text_from_bytes():
    """`rb.dialects.plain`: a frame of bytes that is UTF-8 is bytes, and a text is what JSON says."""
    heard = []

    async def echo(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            heard.append(message.data)
            await (socket.send_bytes if message.type is WSMsgType.BINARY else socket.send_str)(
                message.data
            )
        return socket

    async def greet(link):
        await link.send(b"hello")
        assert (await link.expect(b"hello")).raw == b"hello"
        await link.send({"op": "hello"})
        assert (await link.expect({"op": "hello"})).raw == {"op": "hello"}
        with pytest.raises(rb.ConfigError, match=r"on_connect\.send"):
            await link.send(bytearray(b"x"))

    async with (
        serving(echo) as url,
        rb.BridgeClient(url, dialect=rb.dialects.plain, policy=quick(), on_connect=greet) as bridge,
    ):
        messages = aiter(bridge)
        await bridge.send(b"text")
        await bridge.send({"text": 1})
        assert [(await anext(messages)).raw for _ in range(2)] == [b"text", {"text": 1}]
    assert heard == [
        b"hello",
        json.dumps({"op": "hello"}, separators=(",", ":")),
        b"text",
        '{"text":1}',
    ]
