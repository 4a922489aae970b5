"""A second request beside a slow first one: what ends the race, what bounds it, and what is left of it."""

from __future__ import annotations

import asyncio
import gc
import warnings
from contextlib import suppress
from contextvars import ContextVar
from random import Random

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.calls import Hedge
from tests.internals.calls import CURRENT, HedgeState
from tests.rows import each_row


pytestmark = pytest.mark.requirement("X16")

EAGER = Hedge(1, budget=1)  # no budget that matters
WHOSE = ContextVar("WHOSE", default="")


class Server:
    """Answers its requests by a script: seconds, then an answer or an error."""

    def __init__(self, *script):
        self.script = script
        self.asked = self.running = self.done = self.cancelled = 0

    async def answer(self):
        seconds, what = self.script[min(self.asked, len(self.script) - 1)]
        self.asked += 1
        number = self.asked
        self.running += 1
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        self.done += 1
        if isinstance(what, BaseException) or (
            isinstance(what, type) and issubclass(what, BaseException)
        ):
            raise what
        return number if what is None else what


def in_virtual_time(work, *, seed=0):
    """Run `work()` on a simulated loop; return its result, the seconds that passed, and the events.

    It fails if a task is left, and if the caller's task was left cancelled.
    """
    seen = []

    async def main(_):
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        started = loop.time()
        with rb.listen(lambda event: isinstance(event, rb.events.Hedged) and seen.append(event)):
            result = await work()
        assert task.cancelling() == 0
        return result, round(loop.time() - started, 6)

    result, seconds = rb.testing.simulate(main, seed=seed)
    return result, seconds, seen


def raced(server, policy=EAGER, *layers):
    return rb.Policy(*layers, policy)(server.answer, idempotent=True)


# ---- what ends a race ----------------------------------------------------------------------------


def test_the_first_success_wins_and_the_other_request_is_cancelled():
    server = Server((10, None), (0.5, None))
    result, seconds, [event] = in_virtual_time(raced(server))
    assert (result, seconds) == (2, 1.5)
    assert (server.asked, server.cancelled, server.running) == (2, 1, 0)
    assert (event.requests, event.winner, event.unknown) == (2, 2, 1)
    assert "request 2 of 2" in event.__text__()
    assert event.__text__().endswith("1 cancelled, outcome and cost unknown")


def test_the_first_request_may_win_too():
    server = Server((2, None), (10, None))
    result, seconds, [event] = in_virtual_time(raced(server))
    assert (result, seconds, server.cancelled) == (1, 2, 1)
    assert (event.winner, event.unknown) == (1, 1)


def test_a_request_that_is_fast_enough_is_the_only_one():
    server = Server((0.9, None))
    result, seconds, seen = in_virtual_time(raced(server))
    assert (result, seconds, server.asked, seen) == (1, 0.9, 1, [])


@each_row("script", [
    ((10, None), (0.5, PermissionError("no"))),
    ((2, PermissionError("no")), (10, None)),
    ((10, None), (0.5, TypeError("a mistake"))),
])  # fmt: skip
def test_a_failure_that_a_repeat_cannot_help_ends_the_race(script):
    server = Server(*script)

    async def work():
        with pytest.raises((PermissionError, TypeError)) as raised:
            await raced(server)()
        return raised.value

    error, seconds, [event] = in_virtual_time(work)
    assert error in [what for _, what in script]
    assert seconds <= 2
    assert (server.asked, server.cancelled, event.unknown) == (2, 1, 1)


def test_another_failure_of_the_first_waits_for_the_second():
    server = Server((2, ConnectionResetError), (3, None))
    result, seconds, [event] = in_virtual_time(raced(server))
    assert (result, seconds) == (2, 4)
    assert (event.winner, event.unknown) == (2, 0)


def test_another_failure_of_the_second_waits_for_the_first():
    server = Server((5, None), (1, ConnectionResetError))
    result, seconds, [event] = in_virtual_time(raced(server))
    assert (result, seconds, event.winner, event.unknown) == (1, 5, 1, 0)


@each_row("first, second", [(3, 1), (3, 10), (1.5, 0.5)])
def test_when_all_fail_the_failure_of_the_first_is_that_of_the_attempt(first, second):
    """It is repeated as one attempt: the next one races anew."""
    one, two = ConnectionResetError(), TimeoutError()
    server = Server((first, one), (second, two), (0.5, None))
    policy = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(0)), EAGER)

    async def work():
        failures = []

        @policy(idempotent=True)
        async def call():
            failures.append(rb.current_attempt().failure)
            return await server.answer()

        outcome = await rb.capture(call)
        return outcome, failures

    (outcome, failures), _, _ = in_virtual_time(work)
    assert outcome.value == 3
    assert outcome.attempts == 2
    assert [failure and failure.code for failure in failures] == [None, None, rb.classify(one).code]


def test_an_answer_that_is_a_failure_does_not_win_and_is_closed():
    """A 503 waits for the other request; the answer that nobody reads is closed."""
    closed = []

    class Answer(httpx.Response):
        async def aclose(self):
            closed.append(self.status_code)

    request = httpx.Request("GET", "http://x/")
    server = Server(
        (5, Answer(200, request=request)), (1, Answer(503, request=request)), (1, Answer(404, request=request)),
    )  # fmt: skip
    result, seconds, _ = in_virtual_time(raced(server))
    assert (result.status_code, seconds, closed) == (200, 5, [503])


@each_row("closes", ["aclose", "close", "close, async"])
def test_the_answer_of_a_request_that_lost_is_closed_however_it_is_closed(closes):
    """The first request answers although it was cancelled: a connection that somebody has to close."""
    closed, asked = [], []

    class Stream:
        def close_at_once(self):
            closed.append(self)

        async def close_later(self):
            await asyncio.sleep(0)
            closed.append(self)

    way = Stream.close_at_once if closes == "close" else Stream.close_later
    setattr(Stream, closes.partition(",")[0], way)
    streams = Stream(), Stream()

    async def answer():
        asked.append(1)
        if len(asked) == 2:
            return streams[1]
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(10)
        return streams[0]

    result, _, _ = in_virtual_time(rb.Policy(EAGER)(answer, idempotent=True))
    assert (result, closed) == (streams[1], [streams[0]])


def test_most_bounds_the_requests_and_each_starts_after_as_long_again():
    started = []

    @rb.Policy(Hedge(1, most=3, budget=1))(idempotent=True)
    async def call(seconds):
        started.append(asyncio.get_running_loop().time())
        await asyncio.sleep(seconds)

    async def work():
        await call(0)
        await call(0)
        started.clear()
        await call(100)

    _, seconds, [event] = in_virtual_time(work)
    assert [round(at - started[0], 6) for at in started] == [0, 1, 2, 4]
    assert (seconds, event.requests, event.unknown) == (100, 4, 3)


# ---- what bounds it ------------------------------------------------------------------------------


def test_no_more_than_the_budget_from_the_first_request_on():
    """At every moment, and with the first twenty calls: none of them may have a second request."""
    server, most = Server((10, None)), []
    call = raced(server, Hedge(1))

    async def work():
        for number in range(1, 201):
            await call()
            most.append(server.asked / number)

    _, _, seen = in_virtual_time(work)
    assert max(most) <= 1.05
    assert most[18] == 1.0
    assert server.asked == 210
    assert len(seen) == 10


def test_calls_that_needed_no_second_request_have_earned_at_most_those_of_the_last_200():
    state = HedgeState()
    for _ in range(10_000):
        state.begin(Hedge(1))
    assert sum(state.take(0.0) for _ in range(100)) == 10


def test_the_time_is_learnt_from_the_last_answers():
    """None before 20; then that of 95 % of the last 200."""
    state, learnt = HedgeState(), Hedge()
    for _ in range(19):
        state.answered(1.0)
    assert state.begin(learnt) is None
    state.answered(7.0)
    assert state.begin(learnt) == 1.0
    for seconds in range(200):
        state.answered(float(seconds))
    assert state.begin(learnt) == 189.0
    assert state.begin(Hedge(3)) == 3


def learns_a_steady_time(hedge):
    """Call 600 times what is slow one time in twenty."""
    rng = Random(7)

    async def answer():
        await asyncio.sleep(rng.lognormvariate(0, 0.5) * (10 if rng.random() < 0.05 else 1))

    call = rb.Policy(hedge)(answer, idempotent=True)

    async def work():
        for _ in range(600):
            await call()

    _, _, seen = in_virtual_time(work)
    assert 15 <= len(seen) <= 60
    assert len(seen[len(seen) // 2 :]) <= 35


def test_learning_is_not_misled_by_the_requests_that_lost():
    """A first request that was cancelled counts as slow: the time does not shrink from race to race."""
    learns_a_steady_time(Hedge(budget=1))


def test_no_request_more_while_the_server_refuses():
    """A 429 without a Retry-After holds for 10 s, one with it as long as it says."""
    state, eager = HedgeState(), Hedge(1, budget=1)
    for _ in range(9):
        state.begin(eager)
    state.refused(100.0, None)
    assert [state.take(now) for now in (100.0, 109.9, 110.0)] == [False, False, True]
    state.refused(200.0, 60.0)
    state.refused(200.0, 1.0)
    assert [state.take(now) for now in (259.0, 260.0)] == [False, True]


def test_a_limited_answer_keeps_further_requests_away():
    limited = httpx.Response(429, request=httpx.Request("GET", "http://x/"))
    server = Server((0.1, limited), (5, None), (20, None))
    call = raced(server, EAGER)

    async def work():
        return [await call(), await call(), await call()]

    _, seconds, seen = in_virtual_time(work)
    assert seconds == 0.1 + 5 + 20
    assert [event.requests for event in seen] == [2]  # of the third call, from its 8th second on


def test_a_second_request_takes_a_permit_of_the_bulkhead_or_does_not_start():
    server = Server((5, None))
    call = raced(server, EAGER, rb.Bulkhead(3, queue=10))

    async def work():
        return await asyncio.gather(call(), call())

    _, seconds, seen = in_virtual_time(work)
    assert (seconds, server.asked, len(seen)) == (5, 3, 1)

    async def again():  # every place was given back
        return await asyncio.gather(call(), call(), call())

    server.asked = 0
    _, _, seen = in_virtual_time(again)
    assert (server.asked, seen) == (3, [])


def test_a_second_request_takes_a_turn_of_the_rate_limit_or_does_not_start():
    server = Server((5, None))
    call = raced(server, EAGER, rb.RateLimit(1, per=60))
    _, _, seen = in_virtual_time(call)
    assert (server.asked, seen) == (1, [])
    server = Server((5, None))
    call = raced(server, EAGER, rb.RateLimit(2, per=60))
    _, _, seen = in_virtual_time(call)
    assert (server.asked, len(seen)) == (2, 1)


def test_none_starts_under_an_adaptive_limit_that_is_in_force():
    """The server has refused calls: it gets no request that could be done without."""
    limited = httpx.Response(429, headers={"Retry-After": "0"})
    server = Server((0.1, limited), (0.1, "answer"), (20, None))
    call = raced(server, EAGER, rb.Retry(), rb.AdaptiveLimit())

    async def work():
        assert await call() == "answer"
        await asyncio.sleep(30)  # longer than the Hedge's own memory of the refusal
        return await call()

    _, _, seen = in_virtual_time(work)
    assert (server.asked, seen) == (3, [])


def test_a_second_request_that_is_refused_begins_the_adaptive_limit():
    """The call has its answer all the same; after it nothing is in flight."""
    limited = httpx.Response(429)
    server = Server((5, "answer"), (0.1, limited))
    call = raced(server, EAGER, rb.Retry(), rb.AdaptiveLimit())
    result, seconds, [event] = in_virtual_time(call)
    assert (result, seconds, event.winner) == ("answer", 5, 1)
    limits = call.__binding__.operation.limits
    assert (dict(limits.flying), len(limits.by_key)) == ({}, 1)


def test_a_probe_of_a_circuit_has_no_second_request():
    server = Server((0.1, ConnectionResetError), (5, None))
    call = raced(server, EAGER, rb.Breaker.consecutive(1, open_for=10))

    async def work():
        with suppress(ConnectionResetError):
            await call()
        await asyncio.sleep(11)
        return await call()

    _, _, seen = in_virtual_time(work)
    assert (server.asked, seen) == (2, [])


@each_row("script, failed", [
    (((3, ConnectionResetError), (1, ConnectionResetError)), 1),
    (((30, None), (1, None)), 0),
])  # fmt: skip
def test_a_race_counts_once_for_the_circuit(script, failed):
    server = Server(*script)
    call = raced(server, EAGER, rb.Breaker(key=f"hedged {script}"))

    async def work():
        with suppress(Exception):
            await call()

    in_virtual_time(work)
    assert server.asked == 2
    assert f"{failed}/1 failed" in repr(rb.calls.circuit(call))


# ---- who may ------------------------------------------------------------------------------------


async def read():
    """Stand for a function of the reader's."""


def read_sync():
    """Stand for another."""


async def read_items():
    """Stand for a stream."""
    yield 1


def refusals():
    retried = rb.Policy(rb.Retry(), Hedge(1))
    alone = rb.Policy(Hedge(1))
    return {
        "idempotent=False": (lambda: retried(read, idempotent=False), "may run twice"),
        "idempotent=False, a stream": (lambda: alone(read_items, idempotent=False), "may run twice"),
        "unsaid": (lambda: alone(read), "may run twice"),
        "call, unsaid": (lambda: alone.call(read), "may run twice"),
        "unsaid, with a Retry": (lambda: retried(read), "idempotent=True"),
        "replaced at run time": (lambda: setattr_and_call(alone), "may run twice"),
        "sync": (lambda: retried(read_sync, idempotent=True), "async function"),
        "sync stream": (lambda: retried(lambda: (yield), idempotent=True), "async function"),
        "block": (lambda: list(retried.attempts(idempotent=True)), "no Hedge"),
        "not innermost": (lambda: rb.Policy(Hedge(1), rb.Timeout(1)), "the last layer"),
        "middleware": (lambda: rb.HTTPMiddleware(retried), "no Hedge"),
    }  # fmt: skip


def setattr_and_call(alone):
    function = rb.Policy(rb.Timeout(1))(read)
    function.policy = alone
    asyncio.run(function())


@each_row("name", refusals())
def test_where_it_is_refused_with_words(name):
    refused, words = refusals()[name]
    with pytest.raises(rb.ConfigError, match=words) as raised:
        refused()
    violation = raised.value.failure.details["violations"][0]
    if write := violation.get("write"):
        line = write.partition(" above")[0].removeprefix("@policy").removeprefix("@")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(
                f"policy{line}" if line[0] == "(" else line, {"rb": rb, "policy": rb.Policy(EAGER)}
            )


def test_an_async_block_is_refused_too():
    async def work():
        async for _ in rb.Policy(EAGER).attempts(idempotent=True):
            raise AssertionError

    with pytest.raises(rb.ConfigError, match="no Hedge"):
        asyncio.run(work())


@each_row("method, idempotent, most", [
    ("GET", None, 2), ("HEAD", None, 2), ("POST", None, 1), ("PUT", None, 1), ("DELETE", None, 1),
    ("POST", True, 2), ("GET", False, 1),
])  # fmt: skip
def test_under_a_client_only_reads_and_what_is_permitted_are_raced(method, idempotent, most):
    """A request with an effect is not, though its method or key lets it be repeated after a failure."""
    asked = []

    async def slowly(request):
        asked.append(request)
        await asyncio.sleep(5)
        return httpx.Response(200)

    async def work():
        transport = rb.HTTPTransport(rb.Policy(rb.Retry(), EAGER), httpx.MockTransport(slowly))
        async with httpx.AsyncClient(transport=transport) as client:
            extensions = {} if idempotent is None else {"rb.idempotent": idempotent}
            return await client.request(method, "http://x/", extensions=extensions)

    in_virtual_time(work)
    assert len(asked) == most


def test_a_body_that_is_read_once_is_sent_once():
    asked = []

    async def body():
        yield b"x"

    async def slowly(request):
        asked.append(await request.aread())
        await asyncio.sleep(5)
        return httpx.Response(200)

    async def work():
        transport = rb.HTTPTransport(rb.Policy(rb.Retry(), EAGER), httpx.MockTransport(slowly))
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.post(
                "http://x/", content=body(), extensions={"rb.idempotent": True}
            )

    in_virtual_time(work)
    assert asked == [b"x"]


# ---- what is left of it -------------------------------------------------------------------------


@each_row("seed", range(40))
def test_a_cancelled_caller_cancels_all_of_it(seed):
    """At any moment, also where a request has just won: no task, no permit, no cancellation is left."""
    rng = Random(seed)
    server = Server(*((rng.uniform(0.5, 3), ConnectionResetError if rng.random() < 0.3 else None) for _ in range(4)))  # fmt: skip
    call = rb.Policy(
        rb.Retry(attempts=2, backoff=rb.Backoff.constant(0)),
        rb.Bulkhead(2, key=f"cut {seed}"),
        EAGER,
    )(server.answer, idempotent=True)

    async def work():
        task = asyncio.create_task(call())
        await asyncio.sleep(
            rng.choice([rng.uniform(0, 4), *(1 + each for each, _ in server.script)])
        )
        task.cancel()
        with suppress(asyncio.CancelledError, ConnectionResetError):
            await task
        assert len(asyncio.all_tasks()) <= 2
        return server.running

    running, _, _ = in_virtual_time(work, seed=seed)
    assert running == 0
    places = rb.Policy(rb.Bulkhead(2, key=f"cut {seed}"))

    async def both():
        await asyncio.gather(places(read)(), places(read)())

    asyncio.run(both())


def test_a_cancellation_in_the_instant_in_which_the_second_wins_is_not_swallowed():
    """Two cancellations of one task: that of the race is taken back, the caller's is not."""

    async def work():
        asked = []

        async def answer():
            asked.append(1)
            if len(asked) == 1:
                return await asyncio.sleep(10)
            await asyncio.sleep(1)
            loop = asyncio.get_running_loop()  # after the race's cancellation, before it arrives
            loop.call_soon(lambda: loop.call_soon(task.cancel))
            return "second"

        task = asyncio.create_task(rb.Policy(EAGER)(answer, idempotent=True)())
        with suppress(asyncio.CancelledError):
            await task
        return task.cancelled(), task.cancelling()

    result, _, _ = in_virtual_time(work)
    assert result == (True, 1)


@each_row("layer, error", [
    (rb.Timeout(3), rb.errors.AttemptTimeoutError), (rb.Deadline(3), rb.DeadlineExceededError),
])  # fmt: skip
def test_a_timeout_covers_the_whole_race(layer, error):
    server = Server((10, None))
    call = raced(server, EAGER, layer)

    async def work():
        with pytest.raises(error):
            await call()

    _, seconds, [event] = in_virtual_time(work)
    assert (seconds, server.cancelled, event.winner, event.unknown) == (3, 2, 0, 1)


def test_a_request_that_swallows_its_cancellation_is_waited_for():
    """It is no task that is left behind; its answer is not the call's."""

    async def answer():
        number = len(asked)
        asked.append(number)
        if number:
            return "second"
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
        return "first"

    asked = []
    result, seconds, _ = in_virtual_time(rb.Policy(EAGER)(answer, idempotent=True))
    assert (result, seconds) == ("second", 2)


def test_each_request_has_a_context_and_a_frame_of_its_own():
    """What one sets the other does not see; the key of the call is the same for both."""
    seen = []

    @rb.Policy(rb.Retry(), EAGER)(idempotent=True)
    async def call():
        number = len(seen)
        seen.append(
            (WHOSE.get(), rb.current_attempt().number, rb.current_attempt().idempotency_key)
        )
        WHOSE.set(f"request {number}")
        frame = CURRENT.get()
        await asyncio.sleep(10 if number == 0 else 1)
        assert CURRENT.get() is frame
        return WHOSE.get()

    async def work():
        WHOSE.set("caller")
        return await call()

    result, _, _ = in_virtual_time(work)
    assert result == "request 1"
    assert [row[:2] for row in seen] == [("caller", 1)] * 2
    assert len({key for *_, key in seen}) == 1


def test_policies_inside_of_both_requests_count_by_themselves():
    """Both repeat on their own, in their own frames; the policy around counts the larger number."""
    calls = {0: 0, 1: 0}

    @rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(2)))(idempotent=True)
    async def inner(number):
        calls[number] += 1
        await asyncio.sleep(0.2)
        raise ConnectionResetError(f"{number}")

    @rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(0)), EAGER)(idempotent=True)
    async def outer():
        started.append(1)
        await inner(len(started) - 1)

    started = []

    async def work():
        outcome = await rb.capture(outer)
        return outcome.error

    error, _, [event] = in_virtual_time(work)
    assert str(error) == "0"
    assert (calls, event.requests) == ({0: 3, 1: 3}, 2)


def test_an_error_proves_nothing_once_another_request_may_have_run():
    """The second says that it was not executed, for good; the first was cancelled: it may have been."""
    nothing_ran = rb.Failure.of("SYS_NOT_EXECUTED", "no", retryable=False, executed="no")
    call = raced(Server((10, None), (1, rb.NotExecutedError(nothing_ran))))

    async def work():
        with pytest.raises(rb.NotExecutedError) as raised:
            await call()
        return rb.classify(raised.value)

    failure, _, [event] = in_virtual_time(work)
    assert event.unknown == 1
    assert failure.executed is rb.errors.Executed.MAYBE


@each_row("script", [
    ((10, None), (1, None)), ((10, None), (1, PermissionError)),
    ((3, ConnectionResetError), (1, ConnectionAbortedError)),
])  # fmt: skip
def test_a_race_that_is_over_is_freed(script):
    """With its last reference, and not by the collector: an error holds no race, and no race an error."""

    def races():
        return [each for each in gc.get_objects() if type(each).__name__ in {"_Race", "_Further"}]

    call, before = raced(Server(*script)), {id(each) for each in races()}

    async def work():
        for _ in range(5):
            with suppress(ConnectionError, PermissionError):
                await call()
        # the simulated loop keeps a timer that was cancelled until its time
        await asyncio.sleep(60)
        return [each for each in races() if id(each) not in before]

    gc.collect()
    gc.disable()
    try:
        remaining, _, _ = in_virtual_time(work)
    finally:
        gc.enable()
    assert remaining == []


# ---- streams ------------------------------------------------------------------------------------


def test_a_stream_is_raced_until_its_first_item_and_not_after_it():
    closed = []

    @rb.Policy(EAGER)(idempotent=True)
    async def items():
        number = len(opened)
        opened.append(number)
        try:
            await asyncio.sleep(10 if number == 0 else 1)
            yield number, "a"
            await asyncio.sleep(30)
            yield number, "b"
        finally:
            closed.append(number)

    opened = []

    async def work():
        return [item async for item in items()]

    result, seconds, [event] = in_virtual_time(work)
    assert result == [(1, "a"), (1, "b")]
    assert (seconds, opened, closed, event.winner) == (32, [0, 1], [0, 1], 2)


def test_the_first_item_of_a_stream_that_came_too_late_is_closed_with_it():
    """Both have their first item in the same instant: one is read, the other is closed."""
    closed = []

    @rb.Policy(EAGER)(idempotent=True)
    async def items():
        number = len(opened)
        opened.append(number)
        try:
            await asyncio.sleep(2 - number)
            yield number
            yield number
        finally:
            closed.append(number)

    opened = []

    async def work():
        return [item async for item in items()]

    result, _, _ = in_virtual_time(work)
    assert result in ([0, 0], [1, 1])
    assert sorted(closed) == [0, 1]


def test_the_rest_of_a_stream_that_won_runs_in_its_own_context():
    """A variable that it set before its first item can be reset after its last."""

    @rb.Policy(EAGER)(idempotent=True)
    async def items():
        number = len(opened)
        opened.append(number)
        token = WHOSE.set("stream")
        try:
            await asyncio.sleep(10 if number == 0 else 1)
            for _ in range(3):
                yield WHOSE.get()
        finally:
            WHOSE.reset(token)

    opened = []

    async def work():
        return [item async for item in items()]

    result, _, _ = in_virtual_time(work)
    assert result == ["stream"] * 3


# ---- what is said of it -------------------------------------------------------------------------


def test_explain_counts_the_further_requests():
    policy = rb.Policy(rb.Retry(attempts=3), rb.Timeout(10), Hedge(2))
    explanation = policy.explain()
    assert explanation.max_calls == 6
    assert explanation.max_seconds == policy.replace(rb.Timeout(10)).explain().max_seconds
    assert "one request more after 2 s" in str(explanation)
    assert "95 % of the answers" in str(rb.Policy(Hedge()).explain())


def test_a_settings_file_may_have_one():
    config = rb.load({"policies": {"reads": {"retry": {"attempts": 3}, "hedge": {"after": "2s", "budget": 0.02}}}})  # fmt: skip
    assert config.policies["reads"] == rb.Policy(rb.Retry(attempts=3), Hedge(2, budget=0.02))
    assert rb.Policy(rb.Retry()).replace(Hedge(1), rb.Timeout(3)).layers[-1] == Hedge(1)


def test_a_race_is_one_attempt_of_its_call():
    server = Server((10, None), (1, None))
    call = raced(server)
    seen = []

    async def work():
        with rb.listen(seen.append):
            return await rb.capture(call)

    outcome, _, _ = in_virtual_time(work)
    assert outcome.attempts == 1
    [finished] = [event for event in seen if isinstance(event, rb.events.CallFinished)]
    assert (finished.outcome, finished.attempts) == ("ok", 1)
