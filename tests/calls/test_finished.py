"""J01: every call ends in one event, whichever API made it; without a listener no event is made."""

from __future__ import annotations

import asyncio

import httpx
import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, everywhere


REFUSED = ConnectionRefusedError


def ends(seen):
    """Return the events of finished calls."""
    return [event for event in seen if isinstance(event, rb.events.CallFinished)]


def rejections(seen):
    """Return what rejected which call, by the events."""
    return [
        (event.by, event.key, event.failure.code)
        for event in seen
        if isinstance(event, rb.events.CallRejected)
    ]


@everywhere
def test_j01_each_call_tells_how_it_ended(form):
    """Ten successes, one retry, one call given up: the events show rate, success ratio, latency and attempts."""
    seen: list[rb.events.Event] = []
    server = Server(*[None] * 10, REFUSED, None, *[REFUSED] * 3)
    with form.world() as clock, rb.listen(seen.append):
        policy = rb.Policy(
            rb.Retry(attempts=3, backoff=rb.Backoff.constant(1 if form.is_virtual else 0))
        )
        get = policy(form.of(server.get), idempotent=True, name="shop")
        for _ in range(11):
            form.run(get)
        with pytest.raises(REFUSED):
            form.run(get)
    found = ends(seen)
    assert [(end.outcome, end.attempts) for end in found] == [("ok", 1)] * 10 + [
        ("ok", 2),
        ("failed", 3),
    ]
    assert {end.name for end in found} == {"shop"}
    assert [end.failure and end.failure.code for end in found][-2:] == [None, "CONN_REFUSED"]
    if form.is_virtual:
        assert clock.slept == [1, 1, 1]
        assert [(end.seconds, end.waited) for end in found][-2:] == [(1, 1), (2, 2)]
    (gave_up,) = (event for event in seen if isinstance(event, rb.events.GaveUp))
    if form.is_virtual:
        assert gave_up.seconds == found[-1].seconds
    else:  # x05: the call ends after it has given up, however long the machine takes for that
        assert 0 <= gave_up.seconds <= found[-1].seconds


@everywhere
def test_j01_the_event_of_a_rejected_call_names_what_rejected_it(form):
    """With an open circuit nothing was called, in no time, and one event names the circuit."""
    seen: list[rb.events.Event] = []
    with form.world(), rb.listen(seen.append):
        get = rb.Policy(rb.Breaker.consecutive(1, key=f"github {form}"))(
            form.of(Server(always=REFUSED).get)
        )
        for _ in range(2):
            with pytest.raises((REFUSED, rb.CircuitOpenError)):
                form.run(get)
    assert [(end.outcome, end.attempts, end.key) for end in ends(seen)] == [
        ("failed", 1, f"github {form}"),
        ("rejected", 0, f"github {form}"),
    ]
    assert rejections(seen) == [("circuit", f"github {form}", "SYS_CIRCUIT_OPEN")]


def test_j01_a_limit_and_a_budget_reject_too():
    """A rate limit rejects the call, a budget the retry."""
    seen: list[rb.events.Event] = []
    with rb.testing.virtual_time(), rb.listen(seen.append):
        limited = rb.Policy(rb.RateLimit(1, per=60, key="slow"))(Server().get)
        limited()
        with pytest.raises(rb.errors.ThrottledError):
            limited()
        poor = rb.Retry(attempts=2, budget=rb.RetryBudget(ratio=0.01, floor=0, key="poor"))
        with pytest.raises(REFUSED):
            rb.Policy(poor)(Server(always=REFUSED).get, idempotent=True)()
    assert rejections(seen) == [
        ("rate_limit", "slow", "SYS_THROTTLED"),
        ("budget", "poor", "CONN_REFUSED"),
    ]
    assert [end.outcome for end in ends(seen)] == ["ok", "rejected", "failed"]


async def test_j01_a_full_bulkhead_and_a_cancelled_call():
    """The second call is rejected by the bulkhead; the first is cancelled."""
    seen: list[rb.events.Event] = []
    with rb.listen(seen.append):

        @rb.Policy(rb.Bulkhead(1, key="one"))
        async def hang():
            await asyncio.get_running_loop().create_future()

        hanging = asyncio.create_task(hang())
        await asyncio.sleep(0)
        with pytest.raises(rb.errors.BulkheadFullError):
            await hang()
        hanging.cancel()
        await asyncio.wait([hanging])
    assert rejections(seen) == [("bulkhead", "one", "SYS_BULKHEAD_FULL")]
    assert [(end.outcome, end.attempts) for end in ends(seen)] == [
        ("rejected", 0),
        ("cancelled", 1),
    ]


def test_j01_every_door_is_heard():
    """`call`, a block, a stream to its last item, a Fallback and a tool emit one event each."""
    seen: list[rb.events.Event] = []
    tools = rb.agent.Toolbox()

    @tools.tool
    def search() -> str:
        return "found"

    with rb.testing.virtual_time(), rb.listen(seen.append):
        policy = rb.Policy(at_once(), name="door")
        policy(idempotent=True)(Server(REFUSED).get)()
        for attempt in rb.Policy(rb.Breaker(), name="block").attempts():
            with attempt:
                pass

        @policy(idempotent=True)
        def items():
            yield 1
            yield 2

        assert list(items()) == [1, 2]
        assert (
            rb.Policy(rb.Fallback(lambda: 5, may_have_run=True), name="other")(
                Server(always=REFUSED).get
            )()
            == 5
        )
        asyncio.run(tools.call("search", {}))
    assert [(end.outcome, end.attempts) for end in ends(seen)] == [
        ("ok", 2),
        ("ok", 1),
        ("ok", 1),
        ("fell_back", 1),
        ("ok", 1),
    ]


@pytest.mark.parametrize("name", [None, "shop"])
def test_j01_http_requests_go_by_the_name_of_their_policy(name):
    """Events have `name=`, or else the origin; the key is the origin's in both cases."""
    seen: list[rb.events.Event] = []
    transport = rb.HTTPTransport(
        rb.Policy(rb.Retry(), rb.Breaker(), name=name),
        httpx.MockTransport(lambda _: httpx.Response(200)),
    )
    with rb.listen(seen.append), httpx.Client(transport=transport) as client:
        client.get("https://shop.example/a")
    ((end,),) = (ends(seen),)
    origin = "https://shop.example"
    assert (end.name, end.key, end.outcome) == (name or origin, origin, "ok")


def test_j01_without_a_listener_no_event_is_made(monkeypatch):
    """Without a listener no event is built, whatever the end."""
    monkeypatch.setattr(rb.events, "CallFinished", None)
    monkeypatch.setattr(rb.events, "CallRejected", None)
    get = rb.Policy(rb.Breaker.consecutive(1))(Server(None, always=REFUSED).get)
    get()
    for error in (REFUSED, rb.CircuitOpenError):
        with pytest.raises(error):
            get()


@everywhere
def test_j01_a_returned_failure_is_no_success(form):
    """A returned 503 ends as `failed`, with its failure; also without a Retry."""
    seen: list[rb.events.Event] = []
    with form.world(), rb.listen(seen.append):
        for layers in ((at_once(),), (rb.Breaker(),)):
            rb_policy = rb.Policy(*layers)
            form.run(rb_policy(form.of(lambda: httpx.Response(503)), idempotent=True))
    assert [(end.outcome, end.failure and end.failure.code) for end in ends(seen)] == [
        ("failed", "SYS_UNAVAILABLE")
    ] * 2
