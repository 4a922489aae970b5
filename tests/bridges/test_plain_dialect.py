"""`rb.dialects.plain` and `on_connect`, over aiohttp's WebSocket server: frames of any form, and subscriptions that are said at each connection.

Rule: the server counts what it was told.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import WSMsgType, web
from websockets.asyncio.client import connect

import resilient_bridge as rb
from tests.bridges.aiohttp_server import serving
from tests.bridges.foreign import Mini, quick


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]


class Feed:
    """Sends to a topic's subscribers alone, and forgets them with their connection: `{"op": "subscribe", "topic": …}` is answered."""

    def __init__(self):
        self.frames, self.sockets, self.subscribed = [], [], []
        self.answers = True
        self.url = ""

    async def handle(self, request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets.append(socket)
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                continue
            frame = json.loads(message.data)
            self.frames.append((len(self.sockets), frame))
            if frame.get("op") == "subscribe" and self.answers:
                self.subscribed.append(socket)
                await socket.send_str("welcome")
                await socket.send_json({"ok": frame["op"], "topic": frame["topic"]})
        return socket

    async def publish(self, frame):
        for socket in self.subscribed:
            if not socket.closed:
                await (
                    socket.send_bytes(frame) if isinstance(frame, bytes) else socket.send_str(frame)
                )

    @asynccontextmanager
    async def running(self):
        async with serving(self.handle) as self.url:
            yield self

    def client(self, **options):
        return rb.BridgeClient(self.url, policy=quick(), dialect=rb.dialects.plain, **options)


@pytest.fixture
async def feed():
    async with Feed().running() as one:
        yield one


async def subscribe(link):
    """What is said at each connection, and the answer to it."""
    await link.send({"op": "subscribe", "topic": "news"})
    answer = await link.expect({"ok": "subscribe"})
    assert answer.raw["topic"] == "news"


async def test_subscriptions_are_renewed_at_each_connection(feed):
    """Before READY, on each connection, once: after a loss the server knows of them again, and its messages come."""
    async with feed.client(on_connect=subscribe) as bridge:
        messages = aiter(bridge)
        await bridge.wait_ready(10)
        await feed.publish(json.dumps({"type": "news", "n": 1}))
        assert [(await anext(messages)).raw for _ in range(2)] == [
            "welcome",
            {"type": "news", "n": 1},
        ]
        feed.sockets[-1]._req.transport.abort()
        while len(feed.subscribed) < 2:
            await asyncio.sleep(0.01)
        await bridge.wait_ready(10)
        await feed.publish(json.dumps({"type": "news", "n": 2}))
        assert (await anext(messages)).raw == "welcome"
        assert (await anext(messages)).raw == {"type": "news", "n": 2}
    assert feed.frames == [(n, {"op": "subscribe", "topic": "news"}) for n in (1, 2)]


async def test_what_is_queued_goes_behind_the_subscription(feed):
    """A send that was accepted before the first connection does not overtake `on_connect`."""
    async with feed.client(on_connect=subscribe, receive=False) as bridge:
        for n in range(3):
            await bridge.send({"op": "say", "n": n})
        await bridge.wait_ready(10)
        while len(feed.frames) < 4:
            await asyncio.sleep(0.01)
    sent_frames = [frame for _, frame in feed.frames]
    assert sent_frames == [
        {"op": "subscribe", "topic": "news"},
        *({"op": "say", "n": n} for n in range(3)),
    ]


async def test_frames_of_any_form_arrive_as_they_are(feed):
    """Objects, arrays, numbers, texts and bytes; equal frames are not taken for one message."""
    sent = [
        {"id": 7, "a": 1},
        {"id": 7, "a": 1},
        [1, 2],
        5,
        None,
        "text",
        "{no json",
        b"\x00\xff",
        b"{}",
    ]
    async with feed.client(on_connect=subscribe) as bridge:
        messages = aiter(bridge)
        await bridge.wait_ready(10)
        for frame in sent:
            is_raw = isinstance(frame, bytes) or frame == "{no json"
            await feed.publish(frame if is_raw else json.dumps(frame))
        received = [(await anext(messages)).raw for _ in range(len(sent) + 1)]
    assert received == ["welcome", *sent]


async def test_bytes_are_bytes_over_a_websocket_of_ones_own(feed):
    """`BridgeClient.over` reads as a URL does: bytes that happen to be text are not made one."""
    client = rb.BridgeClient.over(
        lambda: connect(feed.url), policy=quick(), dialect=rb.dialects.plain, on_connect=subscribe
    )
    async with asyncio.timeout(10), client as bridge:
        messages = aiter(bridge)
        await bridge.wait_ready(10)
        await feed.publish(b"{}")
        assert [(await anext(messages)).raw for _ in range(2)] == ["welcome", b"{}"]


async def test_a_send_ends_as_written_and_is_not_sent_twice(feed):
    """Nobody can say here that it was read: the outcome is unknown, and the server has it once."""
    async with feed.client(receive=False) as bridge:
        await bridge.wait_ready(10)
        receipt = await bridge.send({"op": "pay"})
        with pytest.raises(rb.OutcomeUnknownError):
            await receipt.confirmed(timeout=10)
        while not feed.frames:
            await asyncio.sleep(0.01)
        feed.sockets[-1]._req.transport.abort()
        while len(feed.sockets) < 2:
            await asyncio.sleep(0.01)
        await bridge.wait_ready(10)
        await bridge.send({"op": "last"})
        while feed.frames[-1][1] != {"op": "last"}:
            await asyncio.sleep(0.01)
    assert [frame["op"] for _, frame in feed.frames] == ["pay", "last"]


async def test_each_reconnection_ends_unknown(feed):
    """What was sent meanwhile nobody can tell: `on_gap` hears of it, once for each."""
    gaps = []
    async with feed.client(on_connect=subscribe, on_gap=gaps.append) as bridge:
        messages = aiter(bridge)
        await anext(messages)
        feed.sockets[-1]._req.transport.abort()
        assert (await anext(messages)).raw == "welcome"
    assert [gap.verdict for gap in gaps] == [rb.bridge.Verdict.UNKNOWN]


async def test_a_server_that_does_not_answer_is_not_ready(feed):
    """`on_connect` has the connect timeout; then the connection is made again, and the reason is told."""
    feed.answers = False
    policy = rb.presets.default.evolve(
        reconnect=rb.presets.default.reconnect.evolve(connect_timeout=0.2)
    )
    client = rb.BridgeClient(
        feed.url, policy=policy, dialect=rb.dialects.plain, on_connect=subscribe
    )
    async with client as bridge:
        with pytest.raises(rb.errors.AttemptTimeoutError) as late:
            await bridge.wait_ready(1)
        assert "on_connect was not done within 0.2" in str(late.value)
        assert bridge.state is not rb.bridge.BridgeState.READY


async def test_an_error_of_on_connect_is_a_failed_connection(feed):
    """It is tried again, as a server may answer otherwise next time, and the reason is told; READY comes with the first that succeeds."""
    tries = []

    async def shaky(link):
        tries.append(link)
        if len(tries) < 3:
            raise KeyError("topic")

    with rb.testing.record() as events:
        async with feed.client(on_connect=shaky) as bridge:
            await bridge.wait_ready(10)
    assert len(feed.sockets) == len(tries) == 3
    reasons = [
        event.failure.message for event in events if isinstance(event, rb.events.Disconnected)
    ]
    assert reasons == ["KeyError: 'topic'"] * 2


async def test_a_condition_that_raises_raises_in_on_connect(feed):
    """`expect(function)`: what the function raises comes out of `expect`, and the reader is none the worse."""
    heard = []

    async def asking(link):
        await link.send({"op": "subscribe", "topic": "news"})
        with pytest.raises(TypeError):
            await link.expect(lambda frame: frame["ok"] == "subscribe")  # the first frame is a text
        heard.append((await link.expect(lambda frame: isinstance(frame, dict))).raw["ok"])

    async with feed.client(on_connect=asking) as bridge:
        assert (await anext(aiter(bridge))).raw == "welcome"
    assert heard == ["subscribe"]


@pytest.mark.parametrize("bound", [{"max_messages": 1}, {"max_bytes": 40}])
async def test_what_is_held_during_on_connect_is_bounded(feed, bound):
    """More than the side buffer may hold ends the connection, in words; nothing is dropped in silence."""

    async def deaf(link):
        await link.send({"op": "subscribe", "topic": "news"})
        await link.expect({"never": True})

    policy = quick(replay=rb.bridge.Replay(**bound))
    with rb.testing.record() as events:
        async with rb.BridgeClient(
            feed.url, policy=policy, dialect=rb.dialects.plain, on_connect=deaf
        ):
            while len(feed.sockets) < 2:
                await asyncio.sleep(0.01)
    lost = next(event for event in events if isinstance(event, rb.events.Disconnected))
    assert (lost.failure.code, "on_connect" in lost.failure.message) == ("SYS_INBOX_FULL", True)


async def test_a_refusal_in_on_connect_ends_the_client(feed):
    """What trying again cannot help: an error that says so."""

    async def refused(link):
        raise rb.errors.AuthError(rb.Failure.of("AUTH_FORBIDDEN", "no such topic for you"))

    async with feed.client(on_connect=refused) as bridge:
        with pytest.raises(rb.errors.AuthError, match="no such topic"):
            await bridge.wait_ready(10)
    assert len(feed.sockets) == 1


async def test_an_on_connect_that_hangs_is_cancelled_with_its_connection(feed):
    """A lost connection ends the function that was waiting on it, and nothing of it is left behind."""
    cancelled = []

    async def hanging(link):
        try:
            await link.expect({"never": True})
        except asyncio.CancelledError:
            cancelled.append(link)
            raise

    async with feed.client(on_connect=hanging):
        while not feed.sockets:
            await asyncio.sleep(0.01)
        feed.sockets[-1]._req.transport.abort()
        while not cancelled:
            await asyncio.sleep(0.01)
    assert not [task for task in asyncio.all_tasks() if "on_connect" in task.get_name()]


async def test_an_on_connect_has_ended_before_the_next_one_starts(feed):
    """What it does while it is cancelled is waited for, by the next connection as by the end of the client."""
    log = []

    async def tidy(link):
        log.append("in")
        try:
            await link.expect({"never": True})
        finally:
            await asyncio.sleep(0.2)
            log.append("out")

    async with asyncio.timeout(10), feed.client(on_connect=tidy):
        while not (log and feed.sockets):
            await asyncio.sleep(0.01)
        feed.sockets[-1]._req.transport.abort()
        while log.count("in") < 2:
            await asyncio.sleep(0.01)
    assert log == ["in", "out"] * 2


async def test_a_greeting_that_is_over_says_so(feed):
    """Its connection is not to be used later: subscriptions belong into the function."""
    links = []

    async def keep(link):
        links.append(link)
        with pytest.raises(rb.ConfigError, match="dict"):
            await link.send("text")
        with pytest.raises(rb.ConfigError, match="dict"):
            await link.expect(7)

    async with feed.client(on_connect=keep) as bridge:
        await bridge.wait_ready(10)
        with pytest.raises(rb.errors.NotConnectedError):
            await links[0].send({"op": "late"})
        with pytest.raises(rb.errors.NotConnectedError):
            await links[0].expect({"ok": "late"})


async def test_on_connect_comes_after_auth_and_before_the_join():
    """On a bridge with sessions, too: the token first, then the user's frames, then session_join; at each connection."""

    async def hello(link):
        await link.send({"type": "hello", "id": "h", "payload": {}})
        answer = await link.expect({"type": "hello_to_you"})
        assert answer.id == "h"

    class Polite(Mini):
        async def answer(self, socket, frame):
            if frame["type"] == "hello":
                await self.say(socket, "hello_to_you", {}, frame["id"])
            else:
                await super().answer(socket, frame)

    async with Polite(token="t").running() as mini:
        policy = quick(dialect=rb.dialects.recursor)
        async with rb.BridgeClient(
            mini.url, token="t", policy=policy, on_connect=hello, receive=False
        ) as bridge:
            await bridge.wait_ready(10)
            mini.connections[-1].transport.abort()
            while mini.types.count("session_join") < 2:
                await asyncio.sleep(0.01)
            await bridge.wait_ready(10)
    sent_frames = [kind for kind in mini.types if kind in {"auth", "hello", "session_join"}]
    assert sent_frames == ["auth", "hello", "session_join"] * 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"token": "secret"}, "BridgeClient.token"),
        ({"on_connect": 7}, "BridgeClient.on_connect"),
        ({"health_check": lambda: True}, "BridgeClient.health_check"),
    ],
)
@pytest.mark.parametrize("client", [rb.BridgeClient, rb.BridgeClient.over])
def test_what_this_dialect_cannot_do_is_refused_by_name(client, arguments, named):
    """Before anything is connected, of a URL and over a websocket of one's own; the token is not in the message."""
    with pytest.raises(rb.ConfigError, match=named) as refused:
        client(lambda: None, dialect=rb.dialects.plain, **arguments)
    assert "secret" not in str(refused.value)


async def test_a_request_that_cannot_be_matched_is_refused(feed):
    """`request` by name; so is a frame that JSON cannot write, and one argument where there are types."""
    async with feed.client(receive=False) as bridge:
        with pytest.raises(rb.ConfigError, match="request"):
            await bridge.request("ask", {})
        with pytest.raises(rb.errors.ProtocolError, match="frame"):
            await bridge.send({"n": float("nan")})
        with pytest.raises(rb.ConfigError, match="send"):
            await bridge.send(7)
    async with rb.BridgeClient(feed.url, receive=False) as bridge:
        with pytest.raises(rb.ConfigError, match="types"):
            await bridge.send({"op": "say"})


def _lines(frame):
    if not isinstance(frame, str):
        raise TypeError("text")
    return tuple(
        rb.dialects.Received(raw=line, type="line", id=line) for line in frame.splitlines()
    )


def _line(message):
    return json.dumps({"op": "subscribe", "topic": message.payload["topic"]})


async def test_a_dialect_of_ones_own_reads_several_messages_from_a_frame(feed):
    """Each with its id, so that none comes twice; a frame that its `decode` refuses is told, and the link goes on."""
    dialect = rb.bridge.Dialect.envelopes(decode=_lines, encode=_line)
    with rb.testing.record() as events:
        async with rb.BridgeClient(feed.url, policy=quick(), dialect=dialect) as bridge:
            messages = aiter(bridge)
            await bridge.send({"topic": "news"})
            assert [(await anext(messages)).raw, (await anext(messages)).raw[:5]] == [
                "welcome",
                '{"ok"',
            ]
            for frame in ("a\nb", b"\x00", "b\nc"):
                await feed.publish(frame)
            assert [(await anext(messages)).id for _ in range(3)] == ["a", "b", "c"]
    (rejected,) = [event for event in events if isinstance(event, rb.events.MessageRejected)]
    assert (rejected.failure.code, "TypeError" in rejected.failure.message) == (
        "PROTO_INVALID_FRAME",
        True,
    )


async def test_a_frame_of_ones_own_outlives_its_process(feed, tmp_path):
    """Accepted by a durable store while the server was away, it is sent by the next client of that store, as it was."""
    path = tmp_path / "bridge.db"
    async with rb.BridgeClient(
        "ws://127.0.0.1:1", policy=quick(), dialect=rb.dialects.plain, store=path, receive=False
    ) as bridge:
        await bridge.send({"op": "later", "idempotency_key": "mine"})
        await bridge.aclose(drain=0)
    async with feed.client(store=path, receive=False) as bridge:
        await bridge.wait_ready(10)
        while not feed.frames:
            await asyncio.sleep(0.01)
    assert feed.frames == [(1, {"op": "later", "idempotency_key": "mine"})]
