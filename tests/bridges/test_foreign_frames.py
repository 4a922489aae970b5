"""What a server of somebody else sends: JSON without a payload, numbers for ids and times, errors that name a type, and nothing at all.

Rule: what it says reaches the user, and what it never says is not waited for.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from aiohttp import WSMsgType, web

import resilient_bridge as rb
from tests.bridges.aiohttp_server import serving
from tests.bridges.foreign import Mini, Watch, only_reads, quick
from tests.internals.telemetry import LateReply, MessageRejected
from tests.rows import each_row


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]
PLAIN = quick(dialect=rb.bridge.Dialect.envelopes())


# -- aiohttp: a server that speaks JSON of its own ----------------------------------------------------------------------
class Chat:
    """`{"type": "chat", "id": n, "text": …}` to everybody, numbered by the server; knows nothing of any protocol."""

    def __init__(self):
        self.frames, self.sockets, self.authorizations = [], [], []
        self.url = ""

    async def handle(self, request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.authorizations.append(request.headers.get("Authorization"))
        self.sockets.append(socket)
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                self.frames.append(json.loads(message.data))
        return socket

    @asynccontextmanager
    async def running(self):
        async with serving(self.handle) as self.url:
            yield self

    async def say(self, **frame):
        await self.sockets[-1].send_json(frame)


async def test_c03_a_plain_server_is_ready_at_once_and_hears_nothing_of_ours():
    """aiohttp, Dialect.envelopes(): READY, the token in a header, only the user's frames on the wire, and a loss told as UNKNOWN."""
    async with Chat().running() as chat, Watch(chat.url, policy=PLAIN, token="secret") as watch:
        await watch.client.wait_ready(5)
        await watch.client.send("hello", {"i": 1})
        await watch.until(lambda: chat.frames)
        await chat.say(type="note", payload={"i": 1})
        await watch.until(lambda: watch.read == [1])
        chat.sockets[-1]._writer.transport.abort()
        await watch.back()
        await watch.until(lambda: len(chat.sockets) == 2)
        await chat.say(type="note", payload={"i": 2})
        await watch.until(lambda: watch.read == [1, "UNKNOWN no_replay", 2])
    assert [frame["type"] for frame in chat.frames] == ["hello"]
    assert chat.authorizations == ["Bearer secret"] * 2


async def test_c03_without_a_token_and_an_answer_no_greeting_is_sent():
    """A dialect that waits for no greeting sends none without a token."""
    frames = []
    policy = quick(dialect=rb.bridge.Dialect.envelopes(auth="auth"))
    async with only_reads(frames) as url, Watch(url, policy=policy) as watch:
        await watch.client.wait_ready(5)
        await watch.client.send("note", {"i": 1})
        await watch.until(lambda: frames)
    assert [frame["type"] for frame in frames] == ["note"]


@pytest.mark.parametrize(
    "dialect",
    [rb.bridge.Dialect.envelopes(), rb.bridge.Dialect.envelopes(ack="message_ack")],
    ids=["nothing", "an ack"],
)
async def test_c06_what_nothing_can_confirm_does_not_fill_the_outbox(dialect):
    """2,500 sends to a server that never says a word: all of them arrive once, none is refused, and their receipts say `written`."""
    frames = []
    async with only_reads(frames) as url, Watch(url, policy=quick(dialect=dialect)) as watch:
        await watch.client.wait_ready(5)
        receipts = [await watch.client.send("note", {"i": i}) for i in range(2_500)]
        await watch.until(lambda: len(frames) == 2_500)
        assert [frame["payload"]["i"] for frame in frames] == [*range(2_500)]
        await watch.until(lambda: receipts[2_400].state == "written" and receipts[2_400].failure)
        assert watch.client.health().unconfirmed <= 64
        with pytest.raises(rb.OutcomeUnknownError, match="never confirmed"):
            await receipts[0].confirmed(1)


async def test_c06_a_first_ack_is_waited_for():
    """A server without pings that acknowledges is believed: all of its receipts are `applied`."""
    policy = quick(dialect=rb.bridge.Dialect(ping=None))
    async with (
        Mini(ack=True).running() as bridge,
        Watch(bridge.url, token="t", policy=policy) as watch,
    ):
        await watch.client.wait_ready(5)
        receipts = [await watch.client.send("note", {"i": i}) for i in range(50)]
        assert {await receipt.confirmed(5) for receipt in receipts} == {"applied"}


# -- fields, ids and times ----------------------------------------------------------------------------------------------
async def test_c04_fields_beside_the_payload_reach_the_user():
    """Flat messages, answers and greetings: `message.raw` is the frame as it came."""
    async with Chat().running() as chat, rb.BridgeClient(chat.url, policy=PLAIN) as client:
        await client.wait_ready(5)
        messages = aiter(client)
        await chat.say(type="chat", id="a", text="flat")
        message = await anext(messages)
        assert (message.type, message.payload) == ("chat", {})
        assert message.raw == {"type": "chat", "id": "a", "text": "flat"}
        asking = asyncio.ensure_future(client.request("look", {}, timeout=5))
        async with asyncio.timeout(5):
            while not chat.frames:
                await asyncio.sleep(0.01)
        await chat.say(type="seen", request_id=chat.frames[0]["id"], text="answer")
        assert (await asking).raw["text"] == "answer"


MOMENT = datetime(2026, 1, 1, 12, 30, 15, tzinfo=UTC)


@each_row(
    ("stamp", "wanted"),
    [(1767270615000, MOMENT), (1767270615, MOMENT), (1767270615.25, MOMENT.replace(microsecond=250_000)),
     (1767270615000000, MOMENT), ("1767270615000", MOMENT), (-5, None), (1e300, None), (7, None)],
)  # fmt: skip
async def test_c05_numeric_ids_and_times_are_read(stamp, wanted):
    """`Date.now()` in milliseconds or seconds, and an id that is a number: the message arrives, and `raw` has them as they came."""
    async with Chat().running() as chat, rb.BridgeClient(chat.url, policy=PLAIN) as client:
        await client.wait_ready(5)
        await chat.say(type="num", id=7, timestamp=stamp, payload={"i": 1})
        message = await anext(aiter(client))
        assert (message.id, message.timestamp, message.payload) == ("7", wanted, {"i": 1})
        assert (message.raw["id"], message.raw["timestamp"]) == (7, stamp)
        assert client.health().rejected == 0


async def test_c05_a_server_of_numbers_is_asked_in_numbers():
    """Ids and stamps that are numbers carry a replay as well: `since` is a number, and the anchor is found."""
    async with Mini().running() as bridge, Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)

        async def push(number, *, live=True):
            frame = {
                "type": "note",
                "id": number,
                "timestamp": 1767225600000 + number,
                "payload": {"i": number},
            }
            bridge.log.append(frame)
            if live:
                await bridge.connections[-1].send(json.dumps(frame))

        await push(1)
        await watch.until(lambda: watch.read == [1])
        bridge.cut()
        await push(2, live=False)
        await watch.back()
        await push(3)
        await watch.until(lambda: watch.read == [1, 2, 3])
        asked = [frame["payload"] for frame in bridge.frames if frame["type"] == "request_replay"]
        assert asked == [{"since": 1767225600001 - 300_000}]
        assert watch.of(MessageRejected) == []


# -- requests that are refused --------------------------------------------------------------------------------------------
async def test_c07_a_refused_request_ends_at_the_refusal():
    """A fresh id, and `request_type`: the error is its answer, and no stray message."""
    refuse = {"file_read": {"code": "PERMISSION_DENIED", "message": "not yours"}}
    async with Mini(refuse).running() as bridge, Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        with pytest.raises(rb.BridgeError, match="not yours") as caught:
            await watch.client.request("file_read", {}, timeout=20)
        assert caught.value.failure.details["wire_code"] == "PERMISSION_DENIED"
        assert watch.read == []


async def test_c07_of_several_requests_none_is_blamed():
    """Two of one type: the error goes to the stream, and the timeout of each names it."""
    refuse = {"file_read": {"code": "PERMISSION_DENIED", "message": "not yours"}}
    async with Mini(refuse).running() as bridge, Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        asked = [watch.client.request("file_read", {}, timeout=0.5) for _ in range(2)]
        errors = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(error, rb.errors.AttemptTimeoutError) for error in errors)
        assert all("not yours" in str(error) for error in errors)
        assert watch.read == ["error", "error"]


async def test_c07_a_late_refusal_is_not_the_answer_of_the_next_request():
    """A request that was given up may still be refused: the error ends no other one of its type."""
    async with Mini().running() as bridge, Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        with pytest.raises(rb.errors.AttemptTimeoutError):
            await watch.client.request("slow", {}, timeout=0.1)
        asking = asyncio.ensure_future(watch.client.request("slow", {}, timeout=1))
        await watch.until(lambda: bridge.types.count("slow") == 2)
        refusal = {"code": "PERMISSION_DENIED", "message": "not yours", "request_type": "slow"}
        await bridge.say(bridge.connections[0], "error", refusal, "fresh")
        with pytest.raises(rb.errors.AttemptTimeoutError, match="not yours"):
            await asking
        await bridge.say(bridge.connections[0], "error", refusal, "fresh2")
        assert watch.of(LateReply) == []


async def test_c07_a_refused_send_is_reported_by_its_receipt():
    """Of one send that waits, an error that names its type is the answer, too."""
    refuse = {
        "message": {"code": "PROTO_INVALID_MESSAGE", "message": "Unknown message type: message"}
    }
    async with Mini(refuse).running() as bridge, Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        receipt = await watch.client.send("message", {})
        with pytest.raises(rb.errors.ProtocolError, match="Unknown message type"):
            await receipt.confirmed(5)
