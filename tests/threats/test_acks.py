"""Row 15: acks that never come, and acks that lie. A receipt says what is known, and nothing beyond it.

Rule: the bridge's list of what it applied is the truth that a receipt is held against.
"""

from __future__ import annotations

import asyncio
import json

import pytest

import resilient_bridge as rb
from tests.threats.watching import Watch, push, simulated


SILENT = rb.presets.default.evolve(dialect=rb.bridge.Dialect(ping=None, pong=None, ack=None))


@simulated
async def test_row_15_never_acked(server):
    """No acks, no pongs, and a dialect that says so: the receipt is `written` once it was, and says at once that nobody will know."""
    server.behave(acks="none")
    async with Watch(server.url, policy=SILENT) as watch:
        await watch.ready()
        receipt = await watch.client.send("note", {"n": 1})
        with pytest.raises(rb.OutcomeUnknownError):
            await receipt.confirmed(5)
        assert receipt.state == "written"
        assert await watch.client.aclose(drain=1) == []
        assert len(server.received) == 1


@simulated
async def test_row_15_never_acked_but_ponged(server):
    """No acks, but pongs: the barrier says `read`, and never `applied`."""
    server.behave(acks="none")
    async with Watch(server.url) as watch:
        await watch.ready()
        receipts = [await watch.client.send("note", {"n": n}) for n in range(100)]
        assert [await receipt.confirmed(10) for receipt in receipts] == ["read"] * 100


@pytest.mark.parametrize("lie", ["ack_beyond", "ack_foreign", "ack_backwards"])
@simulated
async def test_row_15_acks_that_lie(server, lie):
    """Acks beyond what was sent, of another session, or again: counted and ignored, every true one still counts."""
    server.behave(**{lie: True})
    async with Watch(server.url) as watch:
        await watch.ready()
        receipts = [await watch.client.send("note", {"n": n}) for n in range(20)]
        assert [await receipt.confirmed(10) for receipt in receipts] == ["applied"] * 20
        assert [message["payload"]["n"] for message in server.received] == [*range(20)]
        if lie != "ack_backwards":
            assert watch.client._session.outbound.stray_acks >= 19
        await server.cut("abort", seconds=1)
        more = await watch.client.send("note", {"n": 20})
        await watch.recovered(2)
        assert await more.confirmed(10) == "applied"
        assert len(server.received) == 21  # nothing that was confirmed went out again


@simulated
async def test_row_15_an_ack_for_what_was_never_sent(server):
    """An ack that names a message still in the queue confirms nothing: it was never handed out."""
    server.behave(replay_delay=4.0, push_buffer=False)
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        await server.cut("abort", seconds=1)
        await watch.until(lambda: watch.client.state == "BACKOFF")
        receipt = await watch.client.send("note", {"n": 1})
        await watch.until(lambda: watch.client.state == "REPLAYING", 60)
        ack = {"type": "message_ack", "payload": {"message_id": receipt.id, "status": "applied"}}
        await server.push_raw(json.dumps(ack))

        await asyncio.sleep(1)
        assert watch.client.state == "REPLAYING"
        assert receipt.state == "queued"
        assert watch.client._session.outbound.stray_acks == 1
        await watch.recovered(2)
        assert await receipt.confirmed(10) == "applied"
        assert len(server.received) == 1
