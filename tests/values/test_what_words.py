"""OpenViber's names of retryable errors, as its configuration prints them (V1)."""

from __future__ import annotations

import httpx
import pytest

import resilient_bridge as rb
from tests.rows import each_row


SEED = ["rate_limit", "timeout", "server_error", "connection_error"]


@pytest.mark.requirement("V1")
@pytest.mark.parametrize("on", [SEED, tuple(SEED), set(SEED), ("rate_limit", "timeout"), "timeout"])
def test_h09_the_words_of_the_seed_name_failures(on):
    """In `on=`, alone or in any collection; a tuple of them is several."""
    retry = rb.Retry(on=on)
    assert all(not isinstance(what, tuple) for what in retry.on)
    assert rb.Category.TIMEOUT in retry.on
    assert eval(repr(retry), {"Retry": rb.Retry, "Category": rb.Category}) == retry


@pytest.mark.requirement("V1")
@each_row(
    ("error", "calls"),
    [
        (httpx.ReadTimeout("x"), 3),
        (httpx.ConnectError("x"), 3),
        (TimeoutError(), 3),
        *(
            (
                httpx.HTTPStatusError(
                    "x", request=httpx.Request("GET", "http://h"), response=httpx.Response(status)
                ),
                calls,
            )
            for status, calls in ((429, 3), (500, 3), (503, 3), (501, 1), (400, 1), (401, 1))
        ),
        (ValueError("x"), 1),
    ],
    ids=repr,
)
def test_h09_what_they_repeat(error, calls):
    """The seed's list, and no more: three calls in all."""
    made = []
    policy = rb.Policy(rb.Retry(attempts=3, on=SEED, backoff=rb.Backoff.constant(0), budget=None))

    @policy(idempotent=True)
    def ask() -> None:
        made.append(1)
        raise error

    with pytest.raises(type(error)):
        ask()
    assert len(made) == calls
