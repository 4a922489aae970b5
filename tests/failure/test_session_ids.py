"""The session's id is kept on what sessions and a client refuse (S9)."""

from __future__ import annotations

import pytest

import resilient_bridge as rb


@pytest.mark.requirement("S9")
async def test_h04_what_sessions_refuse_names_the_session():
    """An unknown one, and one that cannot do what was asked."""
    async with rb.stores.Sessions(rb.stores.MemoryStore()) as sessions:
        with pytest.raises(rb.errors.SessionError) as unknown:
            await sessions.get("abc")
        assert unknown.value.failure.details["session_id"] == "abc"
        record = await sessions.create("codex", ".")
        with pytest.raises(rb.errors.SessionError) as refused:
            await sessions.resume(record.id)
        assert refused.value.failure.details["session_id"] == record.id
        assert refused.value.failure.to_mcp()["data"]["sessionId"] == record.id


@pytest.mark.requirement("S9")
async def test_h04_a_message_that_cannot_be_sent_names_the_session():
    """`send` and `request` of what is no JSON."""
    async with rb.BridgeClient("ws://127.0.0.1:1/", session_id="abc") as bridge:
        for refused in (
            bridge.send("note", {"x": object()}),
            bridge.request("note", {"x": object()}),
        ):
            with pytest.raises(rb.errors.ProtocolError) as caught:
                await refused
            assert caught.value.failure.code == "PROTO_INVALID_MESSAGE"
            assert caught.value.failure.details["session_id"] == "abc"
