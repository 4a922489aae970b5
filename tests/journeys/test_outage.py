"""While the link is down: requests fail, sends are kept and repeated under one key, the heartbeat resumes at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import resilient_bridge as rb

from .journey import Journey, simulated


QUICK = rb.bridge.BridgePolicy(
    reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(1), connect_burst=50, attempts=None)
)


def frames(server: Any, kind: str = "tool_result") -> list[Any]:
    """What the bridge received of one type, resends included."""
    return [frame for frame in server.frames if frame["type"] == kind]


@pytest.mark.requirement("V8")
@simulated
async def test_requests_in_flight_fail_at_the_loss_and_are_not_repeated(server):
    """OutcomeUnknownError at the moment of the loss; the bridge never sees the request again."""
    server.behave(ignored=frozenset({"git_status_request"}))
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        asked = [
            asyncio.create_task(journey.client.request("git_status_request", {})) for _ in range(3)
        ]
        await asyncio.sleep(0.5)
        await server.cut("abort")
        await asyncio.sleep(0.01)
        for request in asked:
            assert request.done()
            error = request.exception()
            assert isinstance(error, rb.OutcomeUnknownError)
            assert error.failure.executed is rb.errors.Executed.MAYBE
        await journey.rest()
        assert len(frames(server, "git_status_request")) == 3
    journey.check()


@pytest.mark.requirement("V8")
@simulated
async def test_an_idempotent_request_is_repeated_under_its_id_and_key(server):
    """`idempotent=True`: asked again after the join, inside its timeout, same id and key; the answer comes."""
    server.behave(ignored=frozenset({"git_status_request"}))
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        asked = asyncio.create_task(
            journey.client.request("git_status_request", {"a": 1}, idempotent=True)
        )
        await asyncio.sleep(0.5)
        server.behave(ignored=frozenset())
        await server.cut("abort")
        answer = await asked
        assert (answer.type, answer.payload["a"]) == ("git_status_response", 1)
        first, second = frames(server, "git_status_request")
        assert (first["id"], first["payload"]) == (second["id"], second["payload"])
        assert first["payload"]["idempotency_key"]


@pytest.mark.requirement("V8")
@simulated
async def test_a_request_made_while_down_waits_inside_its_timeout(server):
    """It goes when the link is back; if that takes too long it fails as never sent, and is never sent."""
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        await server.cut("abort", seconds=5)
        await asyncio.sleep(0.1)
        late = asyncio.create_task(
            journey.client.request("git_status_request", {"a": 1}, timeout=2)
        )
        good = asyncio.create_task(
            journey.client.request("git_status_request", {"a": 2}, timeout=20)
        )
        with pytest.raises(rb.errors.AttemptTimeoutError) as caught:
            await late
        assert caught.value.failure.executed is rb.errors.Executed.NO
        assert (await good).payload["a"] == 2
        await journey.rest()
        assert [f["payload"]["a"] for f in frames(server, "git_status_request")] == [2]


@pytest.mark.requirement("V8")
@simulated
async def test_results_queue_and_the_heartbeat_resumes_in_the_first_burst(server):
    """Sends made while down arrive in order after the join; a ping goes out together with the join."""
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        await server.cut("abort", seconds=5)
        await asyncio.sleep(0.1)
        await journey.send(*range(1, 101))
        seen = len(server.frames)
        await journey.rest()
        assert [f["payload"]["n"] for f in frames(server)] == list(range(1, 101))
        kinds = [frame["type"] for frame in server.frames[seen:]]
        assert kinds[:3] == ["auth", "session_join", "heartbeat_ping"]
        assert {receipt.state for receipt in journey.receipts.values()} == {"confirmed"}
    journey.check()


@pytest.mark.requirement("V9")
@pytest.mark.parametrize("keys", ["ours", "given", "in the payload"])
@simulated
async def test_every_resend_carries_the_same_id_and_key(server, keys):
    """Five losses before its confirmation arrives: six times the very same frame, applied once, confirmed at last."""
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        payload = {"n": 1, "idempotency_key": "mine"} if keys == "in the payload" else {"n": 1}
        server.behave(ignored=frozenset({"tool_result", "heartbeat_ping"}))
        receipt = await journey.client.send(
            "tool_result", payload, idempotency_key="mine" if keys == "given" else None
        )
        journey.ledger.sent(1, receipt)
        assert keys == "ours" or receipt.idempotency_key == "mine"
        for copies in range(1, 6):
            async with asyncio.timeout(5):
                while len(frames(server)) < copies:
                    await asyncio.sleep(0.1)
            if copies == 5:
                server.behave(ignored=frozenset())
            await server.cut("abort")
        await receipt.confirmed(10)
        sent = [(frame["id"], frame["payload"]) for frame in frames(server)]
        assert sent == [(receipt.id, {"n": 1, "idempotency_key": receipt.idempotency_key})] * 6
    assert len(server.received) == 1
    journey.check()


@pytest.mark.requirement("V9")
@pytest.mark.parametrize(("outage", "state"), [(260, "confirmed"), (275, "unknown")])
@simulated
async def test_nothing_is_repeated_outside_the_window(server, outage, state):
    """Handed out and unconfirmed: repeated after 260 s; after 275 s reported UNKNOWN and never sent again."""
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        server.behave(ignored=frozenset({"tool_result"}))
        (link,) = journey.loop.network.links
        link.blackhole(1e9, "down")
        await journey.send(1)
        await asyncio.sleep(0.1)
        server.behave(ignored=frozenset())
        await server.cut("abort", seconds=outage)
        await asyncio.sleep(0.1)
        await journey.send(2)
        await journey.rest(limit=400)
        assert journey.receipts[1].state == state
        assert journey.receipts[2].state == "confirmed"
        assert [f["payload"]["n"] for f in frames(server)] == (
            [1, 1, 2] if state == "confirmed" else [1, 2]
        )
        if state == "unknown":
            with pytest.raises(rb.OutcomeUnknownError):
                await journey.receipts[1].confirmed()
    journey.check()


@pytest.mark.requirement("V9")
@simulated
async def test_a_key_that_is_pending_names_the_same_send(server):
    """The same key while the first send is pending, and after it was confirmed: one message, one receipt."""
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        await server.cut("abort", seconds=2)
        a = await journey.client.send("tool_result", {"x": 1}, idempotency_key="k")
        b = await journey.client.send("tool_result", {"x": 1}, idempotency_key="k")
        assert a.id == b.id
        await a.confirmed(30)
        c = await journey.client.send("tool_result", {"x": 1}, idempotency_key="k")
        assert (c.id, c.state) == (a.id, "confirmed")
        assert len(frames(server)) == 1
        assert journey.client.receipt("k").id == a.id


@pytest.mark.requirement("V13")
@pytest.mark.parametrize("how", ["abort", "fin", "silence"])
@simulated
async def test_a_dead_peer_is_noticed_and_its_work_sent_again_with_its_key(server, how):
    """Unclean close, end of stream or silence: noticed, and what was unconfirmed goes out again, once applied."""
    async with Journey(server, policy=rb.presets.openviber) as journey:
        await journey.ready()
        await asyncio.sleep(20)
        (link,) = journey.loop.network.links
        link.blackhole(1e9, "down")  # the bridge applies it, and its word is lost
        await journey.send(1)
        await asyncio.sleep(0.1)
        assert journey.client.health().unconfirmed == 1
        if how == "abort":
            link.abort()
        elif how == "fin":
            link.fin(lose=True)
        await journey.rest()
        first, second = frames(server)
        assert first == second
        assert len(server.received) == 1
        (lost,) = journey.of(rb.events.Disconnected)
        assert lost.failure.code == (
            "CONN_HEARTBEAT_TIMEOUT" if how == "silence" else "CONN_WEBSOCKET_CLOSED"
        )
        assert not journey.client.health().unconfirmed
    journey.check()


@pytest.mark.requirement("V13")
@simulated
async def test_health_says_what_is_going_on(server):
    """Ready or not, why, since how many attempts, and how much is queued, unconfirmed and unread."""
    async with Journey(server, policy=rb.presets.openviber, reads=False) as journey:
        await asyncio.sleep(0)
        health = journey.client.health()
        assert (health.ready, health.state) == (False, "CONNECTING")
        await journey.ready()
        await journey.push(1, 2)
        await asyncio.sleep(1)
        health = journey.client.health()
        assert (health.ready, health.unread, health.queued, health.attempt) == (True, 2, 0, 0)
        await server.cut("abort", seconds=10)
        await asyncio.sleep(0.1)
        await journey.send(1)
        await asyncio.sleep(4)
        health = journey.client.health()
        assert (health.ready, health.state, health.reason) == (False, "BACKOFF", "connect_refused")
        assert (health.queued, health.attempt) == (1, 3)
        assert health.failure.code == "CONN_REFUSED"


@simulated
async def test_health_counts_what_was_refused_repeated_and_stray(server):
    """Frames that broke the protocol, messages that came twice, acks for nothing we wait for: since the start, over all links."""
    server.behave(duplicate_ids="repeat", ack_foreign=True)
    async with Journey(server) as journey:
        await journey.ready()
        await journey.push(1, 2, 3)
        await journey.send(1, 2)
        await asyncio.sleep(2)
        await server.push("connection_ack", {})  # out of sequence
        await asyncio.sleep(1)
        await server.cut("abort")
        await asyncio.sleep(0.1)
        await journey.ready()
        health = journey.client.health()
        assert health.rejected == len(journey.of(rb.events.MessageRejected)) >= 1
        assert health.duplicates >= 3
        assert health.stray_acks >= 2
