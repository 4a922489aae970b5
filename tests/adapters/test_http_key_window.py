"""How long a key is permission: as long as the server is sure to know it (V9)."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import virtual_time
from tests.adapters.http_clients import each_kind, scripted


URL = "https://a.example/"
KEY = {"Idempotency-Key": "k-1"}
EVERY_100_S = rb.Policy(rb.Retry(attempts=8, backoff=rb.Backoff.constant(100), budget=None))


@pytest.mark.requirement("V9")
@pytest.mark.parametrize(
    ("method", "asked", "calls"),
    [
        ("POST", {"headers": KEY}, 3),  # at 0, 100 and 200 s; the fourth would come at 300 s
        ("PUT", {}, 8),  # may be repeated anyway
        ("POST", {"headers": KEY, "extensions": {"rb.idempotent": True}}, 8),  # so the caller says
    ],
    ids=["by key", "by method", "by word"],
)
@each_kind
async def test_a_key_is_permission_for_270_seconds(kind, method, asked, calls):
    """A repeat of what may have run that would begin later is not made: the last response comes out, and the key was the same throughout."""
    answer = scripted(*[503] * 8)
    with virtual_time() as time:
        async with kind.client(rb.HTTPTransport(EVERY_100_S, kind.mock(answer))) as client:
            assert (await client.request(method, URL, **asked)).status_code == 503
    assert len(answer.seen) == calls
    assert sum(time.slept) == 100 * (calls - 1)
    assert len({request.headers["idempotency-key"] for request in answer.seen}) == 1


@pytest.mark.requirement("V9")
@each_kind
async def test_what_a_limiter_turned_away_outlasts_the_key(kind):
    """Nothing but 429, which needs no key by convention: it is repeated for as long as the policy likes, and with a key no less."""
    answer = scripted(*[429] * 7, 200)
    with virtual_time():
        async with kind.client(rb.HTTPTransport(EVERY_100_S, kind.mock(answer))) as client:
            assert (await client.post(URL, headers=KEY)).status_code == 200
    assert len(answer.seen) == 8


@pytest.mark.requirement("V9")
@each_kind
async def test_the_time_counts_from_the_first_attempt_of_a_call(kind):
    """A second call of the same client has all of the time again; a 429 does not prove that the attempts before it did not run."""
    answer = scripted(503, 429, 503, 503, 503, 429)
    with virtual_time() as time:
        async with kind.client(rb.HTTPTransport(EVERY_100_S, kind.mock(answer))) as client:
            parts = [(await client.post(URL, headers=KEY)).status_code for _ in range(2)]
    assert (parts, len(answer.seen), sum(time.slept)) == ([503, 429], 6, 400)
