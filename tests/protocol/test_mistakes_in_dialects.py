"""What a dialect's own functions do wrong, and where its writer reads of it: the log, the receipt, the error of the send."""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial

import pytest

import resilient_bridge as rb
from tests.protocol.frames_rig import FramesRig, d, dialect


def failing(client, **fields):
    """What a send ends with whose dialect has these fields."""

    async def main(server):
        async with rb.BridgeClient(
            server.url, dialect=rb.bridge.Dialect.envelopes(**fields)
        ) as bridge:
            return await client(bridge)

    return rb.testing.simulate(main, server=partial(rb.testing.LogBridge, position=None))


async def sent(bridge):
    """A receipt that is waited for."""
    receipt = await bridge.send("note", {"n": 1})
    with pytest.raises(rb.BridgeError) as raised:
        await receipt.confirmed(timeout=5)
    return raised.value


def read(frame):
    """Every frame is a message."""
    return (d.Received(raw=frame),)


def write(intent):
    """Only messages have frames."""
    return json.dumps({"n": intent.payload["n"]}) if isinstance(intent, d.Send) else None


def test_what_decode_raises_is_logged_once_on_each_connection(caplog):
    """With its class and its text, masked: an event alone is seen by nobody who has no listener."""

    async def main(server):
        speaks = rb.bridge.Dialect.envelopes(decode=json.loads, encode=write)
        async with rb.BridgeClient(server.url, dialect=speaks) as bridge:
            for cut in (False, True):
                if cut:
                    await server.cut("abort")
                    await asyncio.sleep(5)
                await bridge.wait_ready(30)
                for _ in range(3):
                    await server.push("no JSON")
                await asyncio.sleep(1)

    caplog.set_level(logging.WARNING, "resilient_bridge")
    rb.testing.simulate(main, server=partial(rb.testing.LogBridge, position=None))
    texts = [line for record in caplog.records if "rejected" in (line := record.getMessage())]
    assert len(texts) == 2
    assert all("its decode refused: JSONDecodeError: Expecting value" in text for text in texts)


def test_what_encode_raises_is_named_and_chained():
    """The error of `send` has the class and the text of the exception in the message, and the exception as its cause."""

    async def send(bridge):
        with pytest.raises(
            rb.errors.ProtocolError, match=r"its encode raised KeyError: 'n'\)"
        ) as raised:
            await bridge.send("note", {})
        return raised.value

    error = failing(send, decode=read, encode=write)
    assert isinstance(error.__cause__, KeyError)
    assert error.failure.cause is error.__cause__


def test_what_resume_raises_is_the_reason_of_the_receipt():
    """The client ends before anything is sent: the receipt says why."""
    error = failing(
        sent,
        decode=read,
        encode=write,
        resume=lambda record: record.position + 1,
        positions=d.Positions(),
    )
    assert isinstance(error, rb.errors.NotDeliveredError)
    assert 'a function that returns a Resume, got "TypeError: ' in str(error)


def test_a_receipt_in_vain_names_the_acknowledgements_that_fitted_nothing():
    """The server acknowledges by a name that was never in the frame: the error says where to look."""
    rig = FramesRig(dialect(confirms=True)).up()
    entry = rig.send()
    rig.write()
    rig.hear(d.Acked(ids=["of the server's own"]))
    assert (str(entry.state), rig.session.outbound.stray_acks) == ("written", 1)

    async def main(server):
        speaks = rb.bridge.Dialect.envelopes(
            decode=lambda frame: (d.Acked(echo=frame),), encode=write, confirms=True
        )
        async with rb.BridgeClient(server.url, dialect=speaks) as bridge:
            await bridge.wait_ready(5)
            receipt = await bridge.send("note", {"n": 1})
            await server.push({"ok": 1})
            with pytest.raises(rb.errors.AttemptTimeoutError) as raised:
                await receipt.confirmed(timeout=5)
            return str(raised.value)

    text = rb.testing.simulate(main, server=partial(rb.testing.LogBridge, position=None))
    assert "1 acknowledgements fitted no message of ours (health().stray_acks)" in text
    assert "Send.key, Send.id or Send.number" in text
