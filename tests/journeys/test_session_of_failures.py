"""Whatever a client raises says of which session: a program with many of them can tell, and the id is good for a resume (S9)."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import error_for
from tests.threats.watching import Watch, quick, simulated


pytestmark = pytest.mark.requirement("S9")


async def _raised(awaitable):
    """The failure that it ends in."""
    with pytest.raises(rb.BridgeError) as caught:
        await awaitable
    return caught.value.failure


@simulated
async def test_every_failure_of_a_client_names_its_session(server):
    """No answer in time, an outcome that is unknown, a send that never left, one too many, a client that is closed, a fatal refusal."""
    server.on_request = lambda message: None
    policy = quick().evolve(outbox=rb.bridge.Outbox(max_messages=1))
    failures = []
    async with Watch(server.url, session_id="s1", policy=policy) as watch:
        await watch.ready()
        client = watch.client
        failures.append(await _raised(client.request("git_status_request", {}, timeout=1)))
        await server.cut("blackhole", seconds=5)
        receipt = await client.send("note", {})
        failures.append(await _raised(receipt.confirmed(0.1)))
        failures.append(await _raised(client.send("note", {})))
        receipt.withdraw()
        with pytest.raises(rb.BridgeError) as unknown:
            client.receipt("nobody's")
        failures.append(unknown.value.failure)
        await client.aclose(drain=0)
        failures.append(await _raised(receipt.confirmed(1)))
        failures.append(await _raised(client.send("note", {})))
    codes = [failure.code for failure in failures]
    assert codes[1:] == [
        "SYS_TIMEOUT",
        "SYS_OUTBOX_FULL",
        "SESS_NOT_FOUND",
        codes[4],
        "CONN_NOT_CONNECTED",
    ]
    assert [failure.details.get("session_id") for failure in failures] == ["s1"] * 6
    assert all("s1" in failure.explain() for failure in failures)
    assert [type(error_for(failure)) for failure in failures][1:4] == [
        rb.errors.AttemptTimeoutError, rb.errors.OutboxFullError, rb.errors.SessionError
    ]  # fmt: skip
