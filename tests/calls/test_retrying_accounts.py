"""The books of a call that is repeated: its calls, its times, its reasons, and whose error it ends in."""

from __future__ import annotations

import asyncio
from datetime import UTC, timedelta

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.world import current_world
from tests.calls.forms import Server, at_once, both, everywhere, http_error, settle, steady
from tests.internals.calls import CURRENT
from tests.rows import each_row


REFUSED, RESET = ConnectionRefusedError, ConnectionResetError


class LockedError(Exception):
    """Somebody's own."""


def ended(form, protected):
    """Call what is bound to fail; return its error, and what is read of it."""
    with pytest.raises(Exception) as raised:
        form.run(protected)
    return raised.value, rb.classify(raised.value)


# ---- what is reported ---------------------------------------------------------------------------------------------


@everywhere
def test_every_event_has_the_time_of_the_wall_clock(form):
    """A repeat, a recovery and the end of a call: with a time zone, and now."""
    with form.world(), rb.testing.record() as reported:
        now = current_world().now()
        policy = rb.Policy(at_once(attempts=2))
        form.run(policy(form.of(Server(REFUSED).get), idempotent=True))
        ended(form, policy(form.of(Server(always=REFUSED).get), idempotent=True))
    assert [type(event).__name__ for event in reported] == [
        "RetryScheduled",
        "RetryRecovered",
        "RetryScheduled",
        "GaveUp",
    ]
    assert all(event.at.tzinfo is UTC for event in reported)
    assert all(abs(event.at - now) < timedelta(minutes=1) for event in reported)


@everywhere
@each_row(
    ("answer", "idempotent", "why"),
    [
        (httpx.Response(503), True, "attempts"),
        (httpx.Response(503), False, "not_idempotent"),
        (httpx.Response(404), True, "not_retryable"),
        ("pending", True, "attempts"),
        ("pending", False, "not_idempotent"),
    ],
    ids=["503", "503, may have run", "404", "refused by on_result", "refused by on_result, it ran"],
)
def test_a_returned_failure_that_gives_its_reason(form, answer, idempotent, why):
    """The caller gets the answer; who listens gets the reason."""
    policy = rb.Policy(at_once(attempts=2, on_result=lambda result: result == "pending"))
    with form.world(), rb.testing.record() as reported:
        assert form.run(policy(form.of(lambda: answer), idempotent=idempotent)) is answer
    (gave_up,) = [event for event in reported if isinstance(event, rb.events.GaveUp)]
    assert gave_up.failure.stopped == why


@both
def test_attempts_used_up_is_no_matter_of_patience(form):
    """A server that asks for one second each time is waited for, until there is no call left: that is what the note says."""
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(at_once(attempts=2))(
            form.of(Server(always=http_error(429, retry_after="1")).get), idempotent=True
        )
        error, failure = ended(form, get)
    assert clock.slept == [1]
    assert error.__notes__ == ["gave up after 2 calls in 1.0 s: attempts used up"]
    assert failure.stopped == "attempts"


# ---- what counts as a call ------------------------------------------------------------------------------------


@pytest.mark.parametrize("failures", [1, 2, 3])
async def test_a_call_that_the_deadline_ends_counts_with_those_before_it(failures):
    """Some that failed and one that hangs: the note and `capture` count all of them, and the history has the ones that failed."""
    server = Server(*[REFUSED] * failures)

    @rb.Policy(rb.Deadline(5), at_once())(idempotent=True)
    async def get():
        server.get()
        await asyncio.get_running_loop().create_future()

    with rb.testing.virtual_time() as clock:
        task = asyncio.create_task(rb.capture(get))
        await settle()
        clock.advance(5)
        outcome = await task
    assert outcome.attempts == server.calls == failures + 1
    assert (outcome.failure.code, outcome.failure.stopped) == ("SYS_DEADLINE_EXCEEDED", "deadline")
    assert [earlier.code for earlier in outcome.failure.history] == ["CONN_REFUSED"] * failures
    with pytest.raises(rb.DeadlineExceededError) as raised:
        _ = outcome.value
    assert raised.value.__notes__ == [
        f"gave up after {failures + 1} calls in 5.0 s: no time left before the deadline"
    ]


# ---- whose error it ends in -----------------------------------------------------------------------------------


@everywhere
def test_a_call_that_was_never_let_in_says_so_itself(form, key):
    """Nothing was called, so there is no other error than the layer's: its attempts are used up, and it counts no call."""
    full = rb.Bulkhead(1, queue=0, key=key)
    server = Server()
    with form.world():
        get = rb.Policy(at_once(attempts=2), full)(server.get, idempotent=True)
        body = form.of(lambda: rb.capture(get))
        outcome = form.run(rb.Policy(full)(body))  # the one place is its own
    assert (server.calls, outcome.attempts) == (0, 0)
    assert (outcome.failure.code, outcome.failure.stopped) == ("SYS_BULKHEAD_FULL", "attempts")
    assert [earlier.code for earlier in outcome.failure.history] == ["SYS_BULKHEAD_FULL"]


@everywhere
def test_a_rejection_inside_of_the_function_is_the_functions_own_error(form):
    """The second call ran and met an open circuit of its own: that is what the caller sees, after the failure before it."""
    server = Server(REFUSED)
    with form.world():
        inner = rb.Policy(rb.Breaker())(Server().get)
        rb.calls.circuit(inner).isolate()

        def body():
            server.get()
            inner()

        error, failure = ended(form, rb.Policy(at_once())(form.of(body), idempotent=True))
    assert server.calls == 2
    assert isinstance(error, rb.CircuitOpenError)
    assert failure.stopped == "not_retryable"
    assert [earlier.code for earlier in failure.history] == ["CONN_REFUSED"]


@both
def test_a_circuit_that_is_named_is_sat_out(form):
    """The call fails and opens the circuit, the next one is not admitted and waits on, the one after that is the probe."""
    server = Server(REFUSED)
    retry = rb.Retry(on=(rb.Kind.TRANSIENT, rb.CircuitOpenError), backoff=rb.Backoff.constant(5))
    with rb.testing.virtual_time() as clock, rb.testing.record() as reported:
        get = rb.Policy(retry, rb.Breaker.consecutive(1, open_for=8))(
            form.of(server.get), idempotent=True
        )
        assert form.run(get) == "ok"
    assert server.calls == 2
    assert [
        event.failure.code for event in reported if isinstance(event, rb.events.RetryScheduled)
    ] == [
        "CONN_REFUSED",
        "SYS_CIRCUIT_OPEN",
    ]
    assert sum(clock.slept) >= 8


@both
def test_what_is_handed_on_holds_the_error_while_it_is_of_use(form):
    """The next attempt and a schedule read what happened, the exception itself too; afterwards it is saved by nobody."""
    seen = []

    def schedule(attempt):
        seen.append(attempt.failure.cause)
        return 1

    def body():
        attempt = rb.current_attempt()
        saved.append(attempt)
        seen.append(attempt.failure and attempt.failure.cause)
        return server.get()

    saved, error = [], REFUSED("down")
    server = Server(error)
    with rb.testing.virtual_time():
        assert (
            form.run(rb.Policy(rb.Retry(backoff=schedule))(form.of(body), idempotent=True)) == "ok"
        )
    assert seen == [None, error, error]
    assert [
        attempt.failure and (attempt.failure.code, attempt.failure.cause) for attempt in saved
    ] == [
        None,
        ("CONN_REFUSED", None),
    ]


# ---- the last one ---------------------------------------------------------------------------------------------


NOT_ALLOWED = "not repeated: it may have run; find out before you call it again. If twice does no harm: @policy(idempotent=True)"


@everywhere
@each_row(
    ("script", "why", "notes"),
    [
        ([REFUSED], "not_retryable", []),
        (
            [REFUSED, REFUSED],
            "not_retryable",
            ["gave up after 2 calls in 0.0 s: the policy does not repeat it"],
        ),
        ([RESET], "not_idempotent", [NOT_ALLOWED]),
    ],
    ids=["the first", "the second", "not allowed anyway"],
)
def test_a_call_whose_input_is_used_up_is_the_last(form, script, why, notes):
    """A stream that has been sent cannot be sent again: the attempt says so, and its failure is not repeated."""
    server = Server(*script)

    def body():
        frame = CURRENT.get()
        frame.is_last = frame.number == len(script)
        return server.get()

    with form.world():
        error, failure = ended(
            form, rb.Policy(at_once())(form.of(body), idempotent=script != [RESET])
        )
    assert server.calls == len(script)
    assert failure.stopped == why
    assert steady(getattr(error, "__notes__", [])) == notes


# ---- calls inside of calls ------------------------------------------------------------------------------------


@everywhere
def test_a_repeat_is_as_deep_inside_as_the_first_attempt(form):
    """An inner call in the second attempt of the one around it still sees the outermost Retry, and is counted with it."""
    numbers = []
    with form.world():
        server = Server(always=REFUSED)
        inner = rb.Policy(at_once(attempts=3))(server.get, idempotent=True)

        @rb.Policy(at_once(attempts=3, on=LockedError))(idempotent=True)
        def middle():
            numbers.append(rb.current_attempt().number)
            if numbers[-1] == 1:
                raise LockedError
            inner()

        ended(form, rb.Policy(at_once(attempts=2))(form.of(middle), idempotent=True))
    assert numbers == [1, 2]
    assert server.calls == 3


@everywhere
@each_row("on", [RESET, rb.Kind.TRANSIENT], ids=["class", "kind"])
def test_an_outer_retry_that_names_the_class_has_no_permission_by_that(form, on):
    """The inner one repeats, and the outer one, whatever it names, adds nothing to it."""
    server = Server(always=RESET)
    with form.world():
        inner = rb.Policy(at_once(attempts=3))(server.get, idempotent=True)
        ended(form, rb.Policy(at_once(attempts=2, on=on))(form.of(inner), idempotent=False))
    assert server.calls == 3


async def test_a_refresh_does_not_refresh_itself_through_another_call():
    """A log-in that comes back to the same call inside of another protected one fails at once, and its error says why."""
    logins, ends = [], []
    session = rb.Policy(rb.Breaker())

    async def log_in():
        logins.append(1)
        try:
            await session.call(get)
        except httpx.HTTPStatusError as error:
            ends.append((rb.classify(error).stopped, *steady(error.__notes__)))
            raise

    @rb.Policy(at_once(rules={401: rb.Rule(attempts=2, before=log_in)}))(idempotent=True)
    async def get():
        raise http_error(401)

    with pytest.raises(httpx.HTTPStatusError):
        async with asyncio.timeout(30):  # one that did would wait for itself for ever
            await get()
    assert len(logins) == 1
    assert ends == [("attempts", "gave up after 1 call in 0.0 s: attempts used up")]
