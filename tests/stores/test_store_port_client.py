"""A client that ends, and the next one of the same store: what each store has to bring about, on real sockets.

Rule: the second client knows nothing but the store, and the bridge says what arrived.
"""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import BridgeServer, Fault, FaultProxy
from tests.internals.telemetry import MessageUndelivered
from tests.peers.ports import HOST, Port
from tests.redis_server import redis_server_fixture
from tests.stores.port_suite import DURABLE, PLACES, backend_fixture
from tests.threats.watching import Watch, push, quick, until


pytestmark = pytest.mark.real
server = redis_server_fixture(scope="module")
backend = backend_fixture(PLACES)
durable = backend_fixture(DURABLE)


def _client(url, backend, *, policy=None, **options):
    return Watch(url, store=backend.store(), policy=policy or quick(), **options)


async def _offline(backend, count, **options):
    """A client that reaches nobody accepts so many sends, and ends. Returns the keys."""
    with Port() as port:
        watch = _client(f"ws://{HOST}:{port.number}/ws", backend, read=False)
        async with watch:
            receipts = [await watch.client.send("note", {"n": n}, **options) for n in range(count)]
            assert await watch.client.aclose(drain=0)
    return [receipt.idempotency_key for receipt in receipts]


async def test_what_was_queued_is_sent_by_the_next(durable):
    """Accepted while nobody could be reached: the next client sends it, in order, each once, with the same keys."""
    keys = await _offline(durable, 100)
    async with BridgeServer() as bridge, _client(bridge.url, durable) as watch:
        assert len(watch.client.pending()) == 100
        await until(lambda: len(bridge.received) == 100)
        await watch.client.send("note", {"n": "new"})
        await until(lambda: not watch.client.pending())
        assert [message["payload"]["n"] for message in bridge.received] == [*range(100), "new"]
        assert [message["payload"]["idempotency_key"] for message in bridge.received][:100] == keys
        assert await watch.client.receipt(keys[0]).confirmed(5) in {"applied", "read"}
    async with durable.opened() as store:
        assert list(store.entries()) == []
        assert {entry.state for entry in store.outcomes()} == {"confirmed"}


async def test_a_send_that_was_confirmed_is_not_sent_again(durable):
    """The same key in the next process, while the outcome is remembered: its receipt says confirmed, and nothing moves."""
    async with BridgeServer() as bridge:
        async with _client(bridge.url, durable) as watch:
            receipt = await watch.client.send("note", {"n": 1}, idempotency_key="invoice-1")
            await receipt.confirmed(5)
        async with _client(bridge.url, durable) as watch:
            await watch.ready(5)
            receipt = await watch.client.send("note", {"n": 1}, idempotency_key="invoice-1")
            assert await receipt.confirmed(0.1) in {"applied", "read"}
        assert len(bridge.received) == 1


async def _unconfirmed(backend, bridge):
    """A client whose sends arrive, and whose acks do not, ends. Returns the keys."""
    async with (
        FaultProxy(*bridge.address) as proxy,
        _client(proxy.url("/ws"), backend, session_id="s") as watch,
    ):
        await watch.ready(5)
        await push(bridge, 1)
        await until(lambda: watch.ids == [1])
        proxy.apply(Fault.black_hole("down"))
        receipts = [await watch.client.send("note", {"n": n}) for n in range(5)]
        await until(lambda: len(bridge.received) == 5)
        await watch.client.aclose(drain=0)
    return [receipt.idempotency_key for receipt in receipts]


async def test_what_was_not_confirmed_is_sent_again_with_its_key(durable):
    """It arrived, and the ack did not: the next client sends it again, the bridge knows the key and applies it once."""
    async with BridgeServer() as bridge:
        keys = await _unconfirmed(durable, bridge)
        async with _client(bridge.url, durable) as watch:
            assert [receipt.idempotency_key for receipt in watch.client.pending()] == keys
            assert [receipt.state for receipt in watch.client.pending()] == ["written"] * 5
            assert [await receipt.confirmed(5) for receipt in watch.client.pending()] == [
                "read"
            ] * 5
        assert [message["payload"]["idempotency_key"] for message in bridge.received] == keys
        sent = [
            frame["payload"].get("idempotency_key")
            for frame in bridge.frames
            if frame["type"] == "note"
        ]
        assert sent == keys * 2


async def test_what_is_too_old_to_be_recognised_is_unknown(durable):
    """Handed out longer ago than the bridge remembers keys: UNKNOWN, said once, and not sent again."""
    async with BridgeServer() as bridge:
        await _unconfirmed(durable, bridge)
        policy = quick(outbox=rb.bridge.Outbox(resend_within=0.01))
        async with _client(bridge.url, durable, policy=policy) as watch:
            receipts = watch.client.pending()
            await watch.ready(5)
            assert [receipt.state for receipt in receipts] == ["unknown"] * 5
            await until(lambda: len(watch.of(MessageUndelivered)) == 5)
        assert len([frame for frame in bridge.frames if frame["type"] == "note"]) == 5


async def test_a_session_is_resumed(backend):
    """The next client names no session: it is in the same one, RECOVERED, and gets what was pushed meanwhile, once."""
    async with BridgeServer() as bridge:
        async with _client(bridge.url, backend) as watch:
            await watch.ready(5)
            await push(bridge, 1, 2, 3)
            await until(lambda: watch.ids == [1, 2, 3])
            session = watch.client.session_id
        await push(bridge, 4, 5, 6)
        async with _client(bridge.url, backend) as watch:
            await until(lambda: len(watch.ids) == 3)
            assert watch.client.session_id == session
            assert watch.verdicts == [("RECOVERED", "anchor")]
            assert watch.ids == [4, 5, 6]
            assert [message.replayed for message in watch.messages] == [True] * 3
            assert not any(message.redelivered for message in watch.messages)


async def test_a_crash_repeats_nothing_without_saying_so(durable):
    """After a crash what comes again is flagged, and nothing is missing."""
    async with BridgeServer() as bridge:
        async with _client(bridge.url, durable) as watch:
            await watch.ready(5)
            await push(bridge, *range(1, 6))
            await until(lambda: len(watch.ids) == 5)
            await asyncio.sleep(0.25)
            await push(bridge, *range(6, 21))
            await until(lambda: len(watch.ids) == 20)
            crashed = await durable.crashed()
            before = set(watch.ids)
        await push(bridge, 21, 22)
        async with _client(bridge.url, crashed) as watch:
            await until(lambda: 22 in watch.ids)
            assert {*before, *watch.ids} == set(range(1, 23))
            assert all(
                message.redelivered for message in watch.messages if message.payload["n"] in before
            )
            assert watch.verdicts == [("RECOVERED", "anchor")]


async def test_a_session_that_the_bridge_lost_ends_in_a_gap(durable):
    """The bridge lost the session while nobody was there: a gap is told, and the process after that knows of the new one."""
    async with BridgeServer() as bridge:
        async with _client(bridge.url, durable) as watch:
            await watch.ready(5)
            await push(bridge, 1)
            await until(lambda: watch.ids == [1])
        await bridge.restart(lose_sessions=True)
        async with _client(bridge.url, durable) as watch:
            await watch.ready(5)
            assert watch.verdicts == [("GAP", "new_session")]
            session = watch.client.session_id
            await push(bridge, 2)
            await until(lambda: watch.ids == [2])
        async with _client(bridge.url, durable) as watch:
            await watch.ready(5)
            assert watch.client.session_id == session
            assert watch.verdicts == [("RECOVERED", "anchor")]


async def test_a_client_leaves_nothing_behind(durable):
    """After the client has ended the loop has no task more than before."""
    before = asyncio.all_tasks()
    async with BridgeServer() as bridge, _client(bridge.url, durable) as watch:
        await watch.ready(5)
        await watch.client.send("note", {})
    assert asyncio.all_tasks() == before
