"""Sends that were taken back, dropped, or failed: never delivered behind anybody's back."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import resilient_bridge as rb
from tests.internals.transports import WebSocketTransport

from .journey import Journey, simulated


QUICK = rb.presets.default.evolve(
    reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(1), connect_burst=50)
)


def arrived(server: Any) -> list[Any]:
    """The serials of all frames that ever reached the bridge, whatever became of them; each of them was a message."""
    assert not [frame for frame in server.frames if "raw" in frame]
    return [frame["payload"]["n"] for frame in server.frames if "n" in frame.get("payload", {})]


async def cancelled(work: Any, *, after: int = 0) -> None:
    """Start it as a task, cancel it after so many turns of the loop, and see it cancelled."""
    task = asyncio.ensure_future(work)
    for _ in range(after):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@simulated
async def test_24_sends_taken_back_while_queued_are_never_delivered(server):
    """Cancelled before they were accepted or withdrawn while queued: 0 of 24 arrive; all the others do, in order."""
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        await server.cut("abort", seconds=3)
        await asyncio.sleep(0.1)
        for n in range(1, 49):
            if n % 4 == 1:
                await cancelled(journey.client.send("tool_result", {"n": n}))
            else:
                receipt = await journey.send(n)
                if n % 4 == 2:
                    assert receipt.withdraw() is True
                    assert receipt.withdraw() is False
        await journey.rest()
        check = [n for n in range(1, 49) if n % 4 in {0, 3}]
        assert arrived(server) == check
        assert {
            n for n, receipt in journey.receipts.items() if receipt.state == "confirmed"
        } == set(check)
        with pytest.raises(rb.errors.NotDeliveredError):
            await journey.receipts[2].confirmed()
    journey.check()


@simulated
async def test_a_send_that_was_handed_out_cannot_be_withdrawn(server):
    """withdraw() says False, changes nothing, and the receipt tells how it really ended."""
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        receipt = await journey.send(1)
        await asyncio.sleep(0.001)
        assert receipt.state == "written"
        assert receipt.withdraw() is False
        assert await receipt.confirmed(5) == "applied"
        assert receipt.withdraw() is False
    journey.check()


@pytest.mark.parametrize("rounds", range(4))
@simulated
async def test_a_blocked_send_that_is_cancelled_is_never_delivered(server, rounds):
    """overflow="block": cancelled while it waits for room, also in the very turn in which there is room."""
    policy = QUICK.evolve(outbox=rb.bridge.Outbox(max_messages=2, overflow="block"))
    async with Journey(server, policy=policy) as journey:
        await journey.ready()
        await server.cut("abort", seconds=3)
        await asyncio.sleep(0.1)
        await journey.send(1, 2)
        waiting = []
        for n in range(3, 7):
            waiting.append(asyncio.create_task(journey.client.send("tool_result", {"n": n})))
            await asyncio.sleep(0)  # each is called before the next
        await asyncio.sleep(0.1)
        assert not any(task.done() for task in waiting)
        waiting[0].cancel()
        await asyncio.sleep(0)
        journey.receipts[1].withdraw()
        for _ in range(rounds):
            await asyncio.sleep(0)
        waiting[1].cancel()
        done = await asyncio.gather(*waiting, return_exceptions=True)
        taken = [
            n
            for n, result in zip(range(3, 7), done, strict=True)
            if isinstance(result, rb.bridge.Receipt)
        ]
        assert len(taken) >= 2
        assert 3 not in taken
        for n, result in zip(range(3, 7), done, strict=True):
            if n in taken:
                journey.ledger.sent(n, result)
        await journey.rest()
        assert sorted(arrived(server)) == [2, *taken]
    journey.check()


@pytest.mark.parametrize("acks", ["each", "none"])
@simulated
async def test_blocked_sends_go_in_the_order_in_which_they_were_called(server, acks):
    """A send called later never overtakes one that waits for room; every one is confirmed."""
    server.behave(acks=acks)
    policy = QUICK.evolve(outbox=rb.bridge.Outbox(max_messages=3, overflow="block"))
    async with Journey(server, policy=policy) as journey:
        await journey.ready()
        receipts = []

        async def one(n: int) -> None:
            receipt = await journey.client.send("tool_result", {"n": n})
            receipts.append(receipt)
            await receipt.confirmed(60)

        tasks = []
        for n in range(1, 31):
            tasks.append(asyncio.create_task(one(n)))
            await asyncio.sleep(0.003 * (n % 3))
        await asyncio.gather(*tasks)
        assert arrived(server) == list(range(1, 31))


@simulated
async def test_a_send_that_finds_room_does_not_overtake_one_that_waits_for_it(server):
    """Room appears and somebody else sends in that very step: the one that was called first goes first; all are confirmed."""
    policy = QUICK.evolve(outbox=rb.bridge.Outbox(max_messages=2, overflow="block"))
    server.behave(acks="none")
    async with Journey(server, policy=policy) as journey:
        client = journey.client
        await journey.ready()
        await server.cut("abort", seconds=3)
        await asyncio.sleep(0.1)
        first, second = [await client.send("tool_result", {"n": n}) for n in (1, 2)]
        waiting = asyncio.create_task(client.send("tool_result", {"n": 3}))
        await asyncio.sleep(0.1)
        first.withdraw()
        late = asyncio.create_task(client.send("tool_result", {"n": 4}))
        late_too = client.send("tool_result", {"n": 5})
        with contextlib.suppress(StopIteration):
            late_too.send(None)  # its first step, before anybody else has had a turn
        late_too.close()
        second.withdraw()
        for receipt in await asyncio.gather(waiting, late):
            await receipt.confirmed(30)
        serials = arrived(server)
        assert serials == sorted(serials)


@simulated
async def test_two_blocked_sends_with_one_key_are_one_message(server):
    """The key is still pending while its first send waits for room: the second one is that send."""
    policy = QUICK.evolve(outbox=rb.bridge.Outbox(max_messages=1, overflow="block"))
    async with Journey(server, policy=policy) as journey:
        await journey.ready()
        await server.cut("abort", seconds=3)
        await asyncio.sleep(0.1)
        first = await journey.client.send("tool_result", {"n": 1})
        pair = [
            asyncio.create_task(journey.client.send("tool_result", {"n": 2}, idempotency_key="k"))
            for _ in "ab"
        ]
        await asyncio.sleep(0.1)
        first.withdraw()
        async with asyncio.timeout(60):
            a, b = await asyncio.gather(*pair)
        assert a.id == b.id
        await journey.rest()
        assert arrived(server) == [2]


@simulated
async def test_failed_requests_and_sends_are_no_ghosts(server):
    """Timed out, cancelled, withdrawn, expired, coalesced, dropped, volatile: none of them is ever seen by the bridge."""
    policy = QUICK.evolve(outbox=rb.bridge.Outbox(max_messages=8, overflow="drop_oldest"))
    async with Journey(server, policy=policy) as journey:
        client = journey.client
        await journey.ready()
        await server.cut("abort", seconds=10)
        await asyncio.sleep(0.1)
        asked = [
            asyncio.create_task(
                client.request("git_status_request", {"n": n}, timeout=1, idempotent=n % 2 == 0)
            )
            for n in range(100, 106)
        ]
        await asyncio.sleep(0.1)
        asked[0].cancel()
        asked[1].cancel()
        (await client.send("tool_result", {"n": 110})).withdraw()
        await client.send("tool_result", {"n": 111}, ttl=2)
        await client.send("tool_result", {"n": 112}, coalesce="status")
        await client.send("tool_result", {"n": 113}, coalesce="status")
        gone = await client.send("tool_result", {"n": 114}, volatile=True)
        assert gone.state == "dropped"
        await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.sleep(3)
        for n in range(1, 11):
            await client.send("tool_result", {"n": n})
        await journey.rest()
        await asyncio.sleep(60)
        assert arrived(server) == list(range(3, 11))


@pytest.mark.parametrize("end", ["timeout", "cancel", "loss"])
@simulated
async def test_a_request_that_was_handed_out_and_failed_is_not_sent_again(server, end):
    """It ended in OutcomeUnknown, a timeout or a cancellation: later losses do not bring it back."""
    server.behave(ignored=frozenset({"git_status_request"}))
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        asked = asyncio.create_task(
            journey.client.request(
                "git_status_request", {"n": 1}, timeout=2, idempotent=end != "loss"
            )
        )
        await asyncio.sleep(0.5)
        if end == "timeout":
            with pytest.raises(rb.errors.AttemptTimeoutError) as caught:
                await asked
            assert caught.value.failure.executed is rb.errors.Executed.MAYBE
        elif end == "cancel":
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        for _ in range(3):
            await server.cut("abort")
            await asyncio.sleep(2)
        await journey.rest()
        assert arrived(server) == [1]
        if end == "loss":
            with pytest.raises(rb.OutcomeUnknownError):
                await asked


@simulated
async def test_an_answer_that_comes_too_late_is_reported_and_not_delivered(server):
    """The request failed at the loss; its answer, found in the replay, is the event LateReply and no message."""
    server.on_request = lambda message: {"late": True}
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        await journey.push(1)
        await asyncio.sleep(0.5)
        journey.loop.network.links[0].blackhole(1e9, "down")
        asked = asyncio.create_task(journey.client.request("git_status_request", {}))
        await asyncio.sleep(0.5)
        await server.cut("abort")
        with pytest.raises(rb.OutcomeUnknownError):
            await asked
        await journey.rest()
        (late,) = journey.of(rb.events.LateReply)
        assert late.type == "git_status_response"
        assert not [m for m in journey.messages if m.type == "git_status_response"]
        assert journey.verdicts() == ["RECOVERED(anchor)"]


@pytest.mark.parametrize("is_full", [False, True], ids=["room", "full"])
@simulated
async def test_a_lone_request_is_written_in_its_callers_turn_and_none_is_lost_where_that_cannot_be(
    server, monkeypatch, is_full
):
    """With a full write buffer what was handed out waits for the writer, once, and ahead of all that follows."""
    calls, original = [], WebSocketTransport.send_now

    def send_now(transport, *frames):
        calls.append(len(frames))
        return not is_full and original(transport, *frames)

    server.on_request = lambda message: {"n": message["payload"]["n"]}
    async with Journey(server, policy=QUICK) as journey:
        await journey.ready()
        await asyncio.sleep(0.1)
        monkeypatch.setattr(WebSocketTransport, "send_now", send_now)
        asked = [
            asyncio.create_task(journey.client.request("git_status_request", {"n": n}, timeout=5))
            for n in range(3)
        ]
        assert [(await each).payload["n"] for each in asked] == [0, 1, 2]
        assert calls == [1]
        assert (await journey.client.request("git_status_request", {"n": 3}, timeout=5)).payload[
            "n"
        ] == 3
        assert calls == [1, 1]


@simulated
async def test_a_volatile_send_that_waited_for_room_does_not_outlive_its_link(server):
    """`volatile` means now or never, also for one that had to wait for room."""
    policy = QUICK.evolve(outbox=rb.bridge.Outbox(max_messages=2, overflow="block"))
    async with Journey(server, policy=policy) as journey:
        await journey.ready()
        journey.loop.network.slow(
            5, rate=1_000
        )  # the first one is on its way for long, the second waits behind it
        await journey.send(1, size=300_000)
        second = await journey.send(2)
        waiting = asyncio.create_task(journey.client.send("tool_result", {"n": 3}, volatile=True))
        await asyncio.sleep(0.5)
        assert second.state == "queued"
        await server.cut("abort", seconds=10)
        await asyncio.sleep(1)
        assert second.withdraw()
        assert (await waiting).state == "dropped"
        await journey.rest()
        assert arrived(server) == [1]
