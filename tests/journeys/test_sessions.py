"""Sessions that live and end: the five minutes, the fresh join that says so, messages out of phase, errors about sessions."""

from __future__ import annotations

import asyncio
import json

import pytest

import resilient_bridge as rb

from .journey import Journey, simulated


SESSION_GRACE_MS = 5 * 60 * 1000  # as the specification writes 5 minutes
PATIENT = rb.bridge.BridgePolicy(
    reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(5), attempts=None)
)


@pytest.mark.requirement("R4")
@pytest.mark.parametrize(
    ("outage", "verdict"),
    [
        (SESSION_GRACE_MS / 1000 - 10, "RECOVERED(anchor)"),
        (SESSION_GRACE_MS / 1000 + 10, "GAP(new_session)"),
    ],
)
@simulated
async def test_a_session_lives_for_five_minutes(server, outage, verdict):
    """An outage of 290 s is resumed; after 310 s the session is unknown, the client joins afresh, and says so where it happened."""
    async with Journey(server, policy=PATIENT) as journey:
        await journey.ready()
        await journey.push(1)
        await journey.send(1)
        await asyncio.sleep(1)
        before = journey.client.session_id
        await server.cut("abort", seconds=outage)
        await asyncio.sleep(0.1)
        await journey.push(2)
        await journey.send(2)
        await asyncio.sleep(outage + 6)
        await journey.push(3)
        await journey.rest()
        assert journey.verdicts() == [verdict]
        assert (journey.client.session_id == before) == verdict.startswith("RECOVERED")
        assert journey.client.session_id == server.session
        resumes = [f["payload"]["resume"] for f in server.frames if f["type"] == "session_join"]
        assert resumes == [False, True, *([False] if outage > 300 else [])]
        assert (
            journey.receipts[2].state == "confirmed"
        )  # never sent before: it goes to the new session
        assert len(server.connect_times) == 2  # the fresh join needs no connection of its own
    assert journey.seen() == ([1, 2, 3] if outage < 300 else [1, 3])
    assert [gap.reason for gap in journey.gaps] == ([] if outage < 300 else ["new_session"])
    journey.check()


@pytest.mark.requirement("R4")
@simulated
async def test_the_gap_stands_where_messages_are_missing(server):
    """The consumer hears of the lost session after the last message before it and before the first one after it."""
    order: list[object] = []
    client = rb.BridgeClient(server.url, on_gap=lambda gap: order.append(gap.reason))
    async with client:
        await client.wait_ready()
        await server.push("tool_call", {"n": 1})
        await asyncio.sleep(0.5)
        server.expire_sessions()
        await asyncio.sleep(0.5)
        await client.wait_ready()
        await server.push("tool_call", {"n": 2})
        await asyncio.sleep(0.5)
        async for message in client:
            order.append(message.payload["n"])
            if order[-1] == 2:
                break
    assert order == [1, "new_session", 2]


@pytest.mark.requirement("R4")
@simulated
async def test_what_may_have_arrived_in_the_lost_session_is_not_repeated(server):
    """Handed out and unconfirmed when the session ended: UNKNOWN; never handed out: kept, or given back if asked for."""
    policy = PATIENT.evolve(outbox=rb.bridge.Outbox(on_new_session="return"))
    async with Journey(server, policy=policy) as journey:
        await journey.ready()
        server.behave(ignored=frozenset({"tool_result", "heartbeat_ping"}))
        await journey.send(1)
        await asyncio.sleep(0.5)
        server.behave(ignored=frozenset())
        await server.restart(lose_sessions=True, down=2)
        await journey.send(2)
        await journey.ready()
        with pytest.raises(rb.OutcomeUnknownError):
            await journey.receipts[1].confirmed()
        with pytest.raises(rb.errors.NotDeliveredError, match="new session"):
            await journey.receipts[2].confirmed()
        await asyncio.sleep(5)
        assert [f["payload"]["n"] for f in server.frames if f["type"] == "tool_result"] == [1]
    journey.check()


@simulated
async def test_a_session_closed_by_the_bridge_is_abandoned(server):
    """SESS_CLOSED on the resume is treated as SESS_NOT_FOUND: a fresh session, and a gap."""
    async with Journey(server) as journey:
        await journey.ready()
        await journey.push(1)
        await asyncio.sleep(0.5)
        server.close_session()
        await server.cut("abort")
        await asyncio.sleep(0.1)
        await journey.ready()
        assert journey.verdicts() == ["GAP(new_session)"]
        await journey.push(2)
        await journey.rest()
    journey.check()


@simulated
async def test_two_clients_of_one_session_do_not_fight(server):
    """The older one is superseded (4409) and stops for good; one writer is left."""
    async with Journey(server, session_id="shared") as old:
        await old.ready()
        async with Journey(server, session_id="shared") as new:
            await new.ready()
            await asyncio.sleep(120)
            assert old.client.state == "FAILED"
            assert old.client.health().failure.code == "SESS_SUPERSEDED"
            assert new.client.state == "READY"
            assert len(server.connect_times) == 2
            with pytest.raises(rb.errors.SessionError):
                await old.client.send("a", {})


@pytest.mark.requirement("R8")
@simulated
async def test_a_frame_out_of_phase_is_named_and_dropped(server):
    """A pong and a replay before connection_ack: PROTO_SEQUENCE_ERROR with expected, received and phase; the link lives on."""
    server.behave(slow=1.0)
    async with Journey(server) as journey:
        await asyncio.sleep(0.5)
        assert journey.client.state == "AUTHENTICATING"
        await server.push_raw('{"type":"heartbeat_pong","payload":{}}')
        await server.push_raw('{"type":"replay_buffer","payload":{"messages":[]}}')
        await journey.ready()
        failures = [event.failure for event in journey.of(rb.events.MessageRejected)]
        assert [f.code for f in failures] == ["PROTO_SEQUENCE_ERROR"] * 2
        assert [f.details["received"] for f in failures] == ["heartbeat_pong", "replay_buffer"]
        assert {f.details["phase"] for f in failures} == {"AUTHENTICATING"}
        assert "connection_ack" in failures[0].details["expected"]
        assert len(server.connect_times) == 1


@pytest.mark.requirement("R8")
@simulated
async def test_a_sequence_error_of_the_bridge_reaches_the_caller(server):
    """The bridge says that our request came out of phase: ProtocolError with expected, received and phase."""
    server.behave(ignored=frozenset({"git_status_request"}))
    async with Journey(server) as journey:
        await journey.ready()
        asked = asyncio.create_task(journey.client.request("git_status_request", {}))
        await asyncio.sleep(0.5)
        answer = {
            "type": "error",
            "id": server.frames[-1]["id"],
            "payload": {
                "code": "PROTO_SEQUENCE_ERROR",
                "message": "message out of sequence",
                "expected": ["session_join"],
                "received": "git_status_request",
                "current_phase": "authenticated",
            },
        }
        await server.push_raw(json.dumps(answer))
        with pytest.raises(rb.errors.ProtocolError) as caught:
            await asked
        details = caught.value.failure.details
        assert (details["received"], details["phase"]) == ("git_status_request", "authenticated")
        assert list(details["expected"]) == ["session_join"]


@pytest.mark.requirement("R9")
@simulated
async def test_a_lost_session_in_an_http_answer_keeps_its_suggestions(server):
    """404 with a SESS_NOT_FOUND body on the upgrade: a fresh session next, and the suggestions are in the failure."""
    async with Journey(server) as journey:
        await journey.ready()
        await journey.push(1)
        await asyncio.sleep(0.5)
        server.behave(reject_upgrade=404, reject_code="SESS_NOT_FOUND")
        await server.cut("abort")
        while len(server.attempt_times) < 2:
            await asyncio.sleep(0.1)
        server.behave(reject_upgrade=None, reject_code=None)
        await journey.ready()
        failure = journey.of(rb.events.ReconnectScheduled)[-1].failure
        assert failure.code == "SESS_NOT_FOUND"
        assert "Check session ID spelling" in failure.suggestions
        assert journey.verdicts() == ["GAP(new_session)"]
        await journey.push(2)
        await journey.rest()
    journey.check()


@pytest.mark.requirement("R9")
@simulated
async def test_an_operation_on_a_closed_session_keeps_the_suggestions(server):
    """A request to a session that the bridge has closed: SessionError with code and suggestions."""
    async with Journey(server) as journey:
        await journey.ready()
        server.close_session()
        with pytest.raises(rb.errors.SessionError) as caught:
            await journey.client.request("git_status_request", {})
        assert caught.value.failure.code == "SESS_CLOSED"
        assert "Start a new session" in caught.value.failure.suggestions


@simulated
async def test_no_endless_loop_where_no_session_can_be_joined(server):
    """A bridge that answers every join with SESS_NOT_FOUND: capped like any link that dies young, and told."""
    server.behave(close_at="join", accept_then_close=4404)
    async with Journey(server, policy=rb.presets.default) as journey:
        await asyncio.sleep(600)
        assert sum(t < 60 for t in server.connect_times) <= 7
        assert len(journey.of(rb.events.Suspended)) == 1
