"""E21: a loop of attempts that would block the event loop says so."""

from __future__ import annotations

import pytest

import resilient_bridge as rb


async def test_e21_a_sync_loop_in_async_code_warns():
    """Before the wait, once for each; `async for` does not."""
    policy = rb.Policy(rb.Retry(attempts=2, backoff=rb.Backoff.constant(0.01)))

    def block():
        for attempt in policy.attempts(idempotent=True):
            with attempt:
                raise ConnectionRefusedError

    with pytest.warns(RuntimeWarning, match="write `async for`"):
        assert rb.capture(block).failure.code == "CONN_REFUSED"
    with pytest.raises(ConnectionRefusedError):
        async for attempt in policy.attempts(idempotent=True):
            with attempt:
                raise ConnectionRefusedError
