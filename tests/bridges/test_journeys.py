"""The same journeys against two bridges that share no code, over real sockets, through a proxy that breaks them.

Rule: a journey waits for what it needs to have happened, and reads the truth from the bridge.
"""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import MemoryStore
from resilient_bridge.testing import Fault
from tests.internals.telemetry import Joined
from tests.threats.watching import quick


pytestmark = pytest.mark.real


async def test_connect(stage):
    """READY on a new session: Joined, no verdict, nothing delivered, and the bridge knows one client."""
    async with stage.client(session_id="journey") as watch:
        assert watch.client.session_id == "journey"
        assert [event.session_id for event in watch.of(Joined)] == ["journey"]
        assert watch.verdicts == []
        assert watch.messages == []
        assert stage.proxy.connections == 1
    assert watch.client.state == "CLOSED"


async def test_push(stage):
    """200 messages, half of them without an id: in order, once, none flagged."""
    async with stage.client() as watch:
        pushed = await stage.bridge.push(200)
        await watch.until(lambda: len(watch.ids) >= 200, 10)
        assert watch.ids == pushed
        assert {message.type for message in watch.messages} == {"tool_call", "stream_chunk"}
        assert all(
            (message.id is None) == (message.type == "stream_chunk") for message in watch.messages
        )
        assert not any(message.maybe_duplicate or message.replayed for message in watch.messages)


@pytest.mark.requirement("R17")
@pytest.mark.parametrize("how", ["abort", "fin", "black_hole", "reset", "1011", "1001", "4999"])
async def test_cut_and_recover(stage, how):
    """Cut in seven ways, messages pushed meanwhile: RECOVERED, each message once, in order, the missed ones marked replayed."""
    policy = quick(heartbeat=rb.bridge.Heartbeat(every=0.2, timeout=0.3, probe_timeout=0.3))
    async with stage.client(policy=policy) as watch:
        first = await stage.bridge.push(5)
        await watch.until(lambda: watch.ids == first, 10)
        stage.proxy.refuse()
        if how == "reset":
            await stage.bridge.cut("abort")
        elif how.isdigit():
            await stage.bridge.cut(how)
        else:
            stage.proxy.apply(getattr(Fault, how)())
        await watch.until(lambda: watch.client.state != "READY", 10)
        second = await stage.bridge.push(5)
        stage.proxy.heal()
        await watch.recovered(2, within=10)
        third = await stage.bridge.push(5)
        await watch.until(lambda: third[-1] in watch.ids, 10)
        assert watch.ids == first + second + third
        assert watch.verdicts == [("RECOVERED", "anchor")]
        assert watch.gaps == []
        assert [message.payload["n"] for message in watch.messages if message.replayed] == second
        assert not any(message.maybe_duplicate for message in watch.messages)


async def test_ten_cuts_with_traffic_in_both_directions(stage):
    """Cut ten times while both sides talk: nothing lost, nothing twice, nothing out of order, every receipt confirmed."""
    async with stage.client() as watch:
        pushed, receipts = [], []
        for turn in range(10):
            pushed += await stage.bridge.push(3)
            receipts += [await watch.client.send("note", {"n": 3 * turn + n}) for n in range(3)]
            await watch.until(lambda turn=turn: len(watch.ids) > 5 * turn, 10)
            stage.proxy.apply(Fault.abort() if turn % 2 else Fault.fin())
            pushed += await stage.bridge.push(2)
            await watch.recovered(turn + 2, within=10)
        await watch.until(lambda: pushed[-1] in watch.ids, 10)
        assert watch.ids == pushed
        assert {verdict for verdict, _ in watch.verdicts} == {"RECOVERED"}
        for receipt in receipts:
            assert await receipt.confirmed(10) in {"applied", "read"}
        assert await stage.payloads("note") == [{"n": n} for n in range(30)]


@pytest.mark.requirement("V9")
async def test_resend_with_the_same_key(stage):
    """Applied, but the acks never arrive: sent again with the same key after the cut, applied once, confirmed."""
    async with stage.client() as watch:
        (anchor,) = await stage.bridge.push(1)
        await watch.until(lambda: anchor in watch.ids, 10)
        stage.proxy.apply(Fault.black_hole("down"))
        receipts = [await watch.client.send("note", {"n": n}) for n in range(5)]
        async with asyncio.timeout(10):
            while len(await stage.bridge.received()) < 5:
                await asyncio.sleep(0.01)
        before = [
            message["payload"]["idempotency_key"] for message in await stage.bridge.received()
        ]
        assert [receipt.state for receipt in receipts] == ["written"] * 5
        up = stage.proxy.bytes_up
        stage.proxy.apply(Fault.abort())
        await watch.recovered(2, within=10)
        assert [await receipt.confirmed(10) for receipt in receipts] == [
            "read"
        ] * 5  # "already processed"
        assert await stage.payloads("note") == [{"n": n} for n in range(5)]
        assert before == [receipt.idempotency_key for receipt in receipts]
        assert stage.proxy.bytes_up - up > 5 * 100  # they did travel twice


async def test_a_key_of_ones_own_is_applied_once(stage):
    """The same key sent twice by the user, with a loss in between, is one message to the bridge."""
    async with stage.client() as watch:
        one = await watch.client.send("note", {"n": 1}, idempotency_key="invoice-1")
        await one.confirmed(10)
        stage.proxy.apply(Fault.abort())
        await watch.recovered(2, within=10)
        two = await watch.client.send("note", {"n": 1}, idempotency_key="invoice-1")
        assert await two.confirmed(10) in {"applied", "read"}
        assert await stage.payloads("note") == [{"n": 1}]


@pytest.mark.requirement("R4")
@pytest.mark.parametrize("live", [True, False], ids=["live", "away"])
async def test_session_expiry_is_a_gap(stage, live):
    """The session ends on the bridge, under a live link or while away: a gap, a new session, and the stream goes on."""
    async with stage.client() as watch:
        old = watch.client.session_id
        first = await stage.bridge.push(3)
        await watch.until(lambda: watch.ids == first, 10)
        if live:
            await stage.bridge.expire()
        else:
            stage.proxy.refuse()
            stage.proxy.apply(Fault.abort())
            await watch.until(lambda: watch.client.state != "READY", 10)
            await stage.bridge.expire()
            stage.proxy.heal()
        await watch.recovered(2, within=10)
        assert watch.verdicts == [("GAP", "new_session")]
        assert watch.client.session_id != old
        second = await stage.bridge.push(3)
        await watch.until(lambda: second[-1] in watch.ids, 10)
        assert [gap.reason for gap in watch.gaps] == ["new_session"]
        assert watch.stream.index(watch.gaps[0]) == 3  # in its place
        assert watch.ids == first + second


async def test_a_restart_that_forgets(stage):
    """A bridge that restarts with nothing: 1012, another identity, a gap; what may have been applied is not repeated."""
    async with stage.client() as watch:
        (anchor,) = await stage.bridge.push(1)
        await watch.until(lambda: anchor in watch.ids, 10)
        stage.proxy.apply(Fault.black_hole("down"))
        doubtful = await watch.client.send("note", {"n": 1})
        async with asyncio.timeout(10):
            while not await stage.bridge.received():
                await asyncio.sleep(0.01)
        stage.proxy.refuse()
        stage.proxy.apply(Fault.abort())
        await watch.until(lambda: watch.client.state != "READY", 10)
        waiting = await watch.client.send("note", {"n": 2})
        await stage.bridge.lose_sessions()
        stage.proxy.heal()
        await watch.recovered(2, within=10)
        assert watch.verdicts == [("GAP", "new_session")]
        with pytest.raises(rb.OutcomeUnknownError):
            await doubtful.confirmed(10)
        assert await waiting.confirmed(10) == "applied"
        assert await stage.payloads("note") == [{"n": 1}, {"n": 2}]


async def test_a_graceful_restart_is_waited_for(stage):
    """1012 asks for patience: at least five seconds, unless the user knows better."""
    async with stage.client() as watch:
        await stage.bridge.lose_sessions()
        await watch.until(lambda: watch.waits, 10)
        assert watch.waits[0] >= 5
        watch.client.reconnect_now()
        await watch.recovered(2, within=10)


@pytest.mark.requirement("R14")
async def test_truncated_replay(stage):
    """More was missed than the bridge keeps (100 KB): a gap in its place, then the newest that are left, in order, to the last."""
    async with stage.client() as watch:
        first = await stage.bridge.push(2)
        await watch.until(lambda: watch.ids == first, 10)
        stage.proxy.refuse()
        stage.proxy.apply(Fault.abort())
        await watch.until(lambda: watch.client.state != "READY", 10)
        missed = await stage.bridge.push(3_000)
        stage.proxy.heal()
        await watch.recovered(2, within=10)
        await watch.until(lambda: missed[-1] in watch.ids, 10)
        assert watch.verdicts == [("GAP", "truncated")]
        (gap,) = watch.gaps
        assert watch.stream.index(gap) == 2
        assert gap.since == watch.messages[1].timestamp
        assert gap.until == watch.messages[2].timestamp
        saved = watch.ids[2:]
        assert 100 < len(saved) < 3_000
        assert saved == missed[-len(saved) :]


async def test_request_and_response(stage):
    """Twenty requests at a time: each gets its own answer, and none of them enters the stream."""
    async with stage.client() as watch:
        answers = await asyncio.gather(
            *(watch.client.request("git_status_request", {"n": n}, timeout=10) for n in range(20))
        )
        assert [answer.payload["n"] for answer in answers] == [*range(20)]
        assert {answer.type for answer in answers} == {"git_status_response"}
        (last,) = await stage.bridge.push(1)
        await watch.until(lambda: last in watch.ids, 10)
        assert watch.ids == [last]


@pytest.mark.requirement("V8")
async def test_a_request_at_the_loss(stage):
    """The link dies while the answer is awaited: OutcomeUnknownError at once, and the request is not repeated."""
    async with stage.client() as watch:
        stage.proxy.apply(Fault.black_hole("down"))
        request = asyncio.create_task(
            watch.client.request("git_status_request", {"n": 1}, timeout=30)
        )
        async with asyncio.timeout(10):
            while not await stage.bridge.received():
                await asyncio.sleep(0.01)
        stage.proxy.apply(Fault.abort())
        with pytest.raises(rb.OutcomeUnknownError):
            await request
        await watch.recovered(2, within=10)
        again = await watch.client.request("git_status_request", {"n": 2}, timeout=10)
        assert again.payload["n"] == 2
        assert await stage.payloads("git_status_request") == [{"n": 1}, {"n": 2}]


async def test_an_idempotent_request_at_the_loss(stage):
    """The same with `idempotent=True`: repeated with its key after the join, answered, applied once."""
    async with stage.client() as watch:
        (anchor,) = await stage.bridge.push(1)
        await watch.until(lambda: anchor in watch.ids, 10)
        stage.proxy.apply(Fault.black_hole("down"))
        request = asyncio.create_task(
            watch.client.request("git_status_request", {"n": 1}, timeout=30, idempotent=True)
        )
        async with asyncio.timeout(10):
            while not await stage.bridge.received():
                await asyncio.sleep(0.01)
        stage.proxy.apply(Fault.abort())
        answer = await request
        assert answer.payload["n"] == 1
        assert await stage.payloads("git_status_request") == [{"n": 1}]
        await watch.recovered(2, within=10)
        (last,) = await stage.bridge.push(1)
        await watch.until(lambda: last in watch.ids, 10)
        assert watch.ids == [anchor, last]  # the answer in the replay is no message


async def test_a_request_while_down(stage):
    """Asked while the link is down: waits inside its timeout, goes out after the join, or ends as never sent."""
    async with stage.client() as watch:
        stage.proxy.refuse()
        stage.proxy.apply(Fault.abort())
        await watch.until(lambda: watch.client.state != "READY", 10)
        with pytest.raises(rb.errors.AttemptTimeoutError) as caught:
            await watch.client.request("git_status_request", {"n": 1}, timeout=0.1)
        assert caught.value.failure.executed is rb.errors.Executed.NO
        waiting = asyncio.create_task(
            watch.client.request("git_status_request", {"n": 2}, timeout=10)
        )
        await asyncio.sleep(0)
        stage.proxy.heal()
        assert (await waiting).payload["n"] == 2
        assert await stage.payloads("git_status_request") == [{"n": 2}]


async def test_withdraw(stage):
    """Withdrawn while queued: provably never sent. Withdrawn too late: refused, and the outcome stands."""
    async with stage.client() as watch:
        done = await watch.client.send("note", {"n": 0})
        await done.confirmed(10)
        assert done.withdraw() is False
        stage.proxy.refuse()
        stage.proxy.apply(Fault.abort())
        await watch.until(lambda: watch.client.state != "READY", 10)
        receipts = [await watch.client.send("note", {"n": n}) for n in range(1, 5)]
        assert [receipt.withdraw() for receipt in receipts[1:3]] == [True, True]
        stage.proxy.heal()
        await watch.recovered(2, within=10)
        assert await receipts[0].confirmed(10) == "applied"
        assert await receipts[3].confirmed(10) == "applied"
        for receipt in receipts[1:3]:
            with pytest.raises(rb.errors.NotDeliveredError):
                await receipt.confirmed(1)
            assert receipt.withdraw() is False
        assert await stage.payloads("note") == [{"n": 0}, {"n": 1}, {"n": 4}]


async def test_drain(stage):
    """Leaving drains: 500 sends in one burst are applied, in order, before the context is left, and none is returned."""
    async with stage.client() as watch:
        receipts = [await watch.client.send("note", {"n": n}) for n in range(500)]
        assert await watch.client.aclose(drain=10) == []
        assert watch.client.state == "CLOSED"
        assert {receipt.state for receipt in receipts} == {"confirmed"}
    assert await stage.payloads("note") == [{"n": n} for n in range(500)]


async def test_drain_while_down(stage):
    """Closing while the bridge is away: within its seconds, without an error, and everything unsettled comes back."""
    loop = asyncio.get_running_loop()
    async with stage.client() as watch:
        stage.proxy.refuse()
        stage.proxy.apply(Fault.abort())
        await watch.until(lambda: watch.client.state != "READY", 10)
        receipts = [await watch.client.send("note", {"n": n}) for n in range(3)]
        started = loop.time()
        remaining = await watch.client.aclose(drain=0.2)
        assert loop.time() - started < 2
        assert [receipt.id for receipt in remaining] == [receipt.id for receipt in receipts]
        for receipt in receipts:
            with pytest.raises(rb.BridgeError):
                await receipt.confirmed(1)
    stage.proxy.heal()
    assert await stage.bridge.received() == []


async def test_offline_first(stage):
    """Started while the bridge cannot be reached: sends are kept, and go out when it can, in order."""
    stage.proxy.refuse()
    async with stage.client(ready=False) as watch:
        receipts = [await watch.client.send("note", {"n": n}) for n in range(10)]
        await watch.until(lambda: watch.waits, 10)
        stage.proxy.heal()
        assert [await receipt.confirmed(10) for receipt in receipts] == ["applied"] * 10
        assert await stage.payloads("note") == [{"n": n} for n in range(10)]


async def test_a_second_client_takes_the_session(stage):
    """The same session joined by another client: the first is fenced for good, the second has what was kept for it."""
    async with stage.client(session_id="shared") as old:
        first = await stage.bridge.push(2)
        await old.until(lambda: old.ids == first, 10)
        async with stage.client(session_id="shared") as new:
            await old.until(lambda: old.client.state == "FAILED", 10)
            with pytest.raises(rb.errors.SessionError):
                await old.client.send("note", {})
            second = await stage.bridge.push(2)
            await new.until(lambda: second[-1] in new.ids, 10)
            assert new.ids[-2:] == second
            assert old.ids == first
            assert stage.proxy.connections == 2


async def test_another_process_goes_on_where_the_first_stopped(stage):
    """The store of a client that is gone, given to the next one: what was missed in between arrives, once."""
    store = MemoryStore()
    async with stage.client(store=store, session_id="kept") as watch:
        first = await stage.bridge.push(4)
        await watch.until(lambda: watch.ids == first, 10)
    assert watch.client.state == "CLOSED"
    missed = await stage.bridge.push(4)
    async with stage.client(store=store) as watch:
        assert watch.client.session_id == "kept"
        await watch.until(lambda: missed[-1] in watch.ids, 10)
        assert [
            message.payload["n"] for message in watch.messages if not message.redelivered
        ] == missed
        assert watch.verdicts == [("RECOVERED", "anchor")]
