"""`assert_sent_at_most_once` finds what repeats without permission, at whichever request and by whichever fault, and passes what does not."""

from __future__ import annotations

import re
import threading

import httpx
import pytest
import requests

import resilient_bridge as rb
from resilient_bridge.testing import HTTPFault, assert_sent_at_most_once


pytestmark = pytest.mark.real

QUICK = rb.Retry(attempts=3, backoff=rb.Backoff.constant(0.06), budget=None)


def post(url: str, **options: object) -> httpx.Response:
    """One POST, over httpx."""
    with httpx.Client(trust_env=False, timeout=5, **options) as client:
        return client.post(f"{url}/charge", json={"n": 1})


@pytest.mark.parametrize("redirects", [False, True])
def test_one_post_without_repeats_passes(redirects):
    """Each fault is met, and none of them makes it go out twice."""
    assert_sent_at_most_once(lambda url: post(url, follow_redirects=redirects))


def test_a_loop_that_repeats_whatever_fails_is_found():
    """Each fault that comes after the effect, and no other, is named, with how often it was done."""

    def again(url: str) -> None:
        for _ in range(3):
            try:
                post(url, follow_redirects=True).raise_for_status()
            except httpx.HTTPError:
                continue
            return

    with pytest.raises(AssertionError) as caught:
        assert_sent_at_most_once(again)
    found = dict(re.findall(r"request: (.*): POST /charge was done (\d) times", str(caught.value)))
    assert found == {fault.value: "2" for fault in HTTPFault if fault.has_effect}


@pytest.mark.parametrize("attempts", [1, 4])
async def test_an_async_client_behind_our_transport_passes(attempts):
    """In an event loop of its own, also when it is asked for from within another."""
    policy = rb.Policy(rb.Retry(attempts=attempts, backoff=rb.Backoff.constant(0.06), budget=None))

    async def call(url: str) -> object:
        async with httpx.AsyncClient(
            transport=rb.HTTPTransport(policy, httpx.AsyncHTTPTransport()), follow_redirects=True
        ) as client:
            await client.get(f"{url}/price")
            return await client.post(f"{url}/charge", content=b"x")

    assert_sent_at_most_once(call)


def test_a01_charge_and_then_a_mail_that_is_refused():
    """A function with two requests, said to be repeatable: the second fails, and the first is done again."""

    @rb.Policy(QUICK)(idempotent=True)
    def order(url: str) -> None:
        for path in ("charge", "mail"):
            requests.post(f"{url}/{path}", timeout=5).raise_for_status()

    with pytest.raises(
        AssertionError,
        match=r"request 2 of 2: connection refused: POST /charge was done [23] times",
    ):
        assert_sent_at_most_once(order)
    assert_sent_at_most_once(order, allowed=2, faults=[HTTPFault.RESET_BEFORE])
    once = rb.Policy(QUICK)(idempotent=False)(order.__wrapped__)
    assert_sent_at_most_once(once, faults=[fault for fault in HTTPFault if fault.has_effect])


def test_what_is_reported_is_compared_with_what_was_done():
    """An error that says "it did not run" after it ran."""

    def lies(url: str) -> None:
        if post(url).status_code != 200:
            raise rb.errors.RejectedError(
                rb.Failure.of("SYS_RATE_LIMITED", "no", executed=rb.errors.Executed.NO)
            )

    with pytest.raises(
        AssertionError, match="503 after the effect: the caller was told that it did not run"
    ):
        assert_sent_at_most_once(lies)


def test_a_check_of_nothing_is_none():
    """A call without an effect, or one that fails without a fault."""
    with pytest.raises(
        AssertionError, match="wanted a call with an effect, got 1 requests without one"
    ):
        assert_sent_at_most_once(lambda url: requests.get(url, timeout=5))
    with pytest.raises(ZeroDivisionError):
        assert_sent_at_most_once(lambda url: 1 // 0)


def test_the_answer_is_what_the_client_reads():
    """JSON of yours."""
    seen = []
    assert_sent_at_most_once(lambda url: seen.append(post(url).json()), answer=["mine"], faults=[])
    assert seen == [["mine"]]


def test_no_thread_remains():
    """Servers, timers and connections end with the check."""
    before = set(threading.enumerate())
    assert_sent_at_most_once(post)
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive(), thread


@pytest.mark.parametrize("answer", [[503, 200], "503", 99])
def test_u02_a_server_refuses_what_is_no_answer(answer):
    """Before it listens, with a line to write."""
    with pytest.raises(rb.ConfigError, match=r"answers\[1\].*write rb\.testing\.HTTPServer\(503"):
        rb.testing.HTTPServer(200, answer)
