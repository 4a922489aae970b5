"""AdaptiveLimit in a policy: a refusal costs time, and no attempt, no budget and no circuit; and it opens no gate."""

from __future__ import annotations

import asyncio
import threading

import anthropic
import httpx
import httpx2
import pytest

import resilient_bridge as rb
from resilient_bridge.errors import DeadlineExceededError, ThrottledError
from tests.calls.forms import ASYNC, Form, both
from tests.internals.calls import Limits
from tests.internals.failure import is_refusal


REFUSED = httpx.Response(429)
VIRTUAL = (Form(is_async=False, is_virtual=True), Form(is_async=True, is_virtual=True))


class RefusedError(Exception):
    """An error of a client with a response, as httpx and SDKs have it."""

    def __init__(self, status: int = 429, **headers: str) -> None:
        super().__init__(f"status {status}")
        self.response = httpx.Response(
            status, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        self.status_code = status


RefusedError.__module__ = "httpx"
RefusedError.__qualname__ = RefusedError.__name__ = "HTTPStatusError"


class Server:
    """Takes so many calls at once, each of `seconds`; refuses others in 0.1 s."""

    def __init__(self, most: int, seconds: float = 2.0, refusal: object = REFUSED) -> None:
        self.most, self.seconds, self.refusal = most, seconds, refusal
        self.running = self.peak = self.calls = self.refused = 0

    async def answer(self, *_: object, **__: object) -> object:
        self.calls += 1
        if self.running >= self.most:
            self.refused += 1
            await asyncio.sleep(0.1)
            if isinstance(self.refusal, Exception):
                raise self.refusal
            return self.refusal
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.running -= 1
        return "answer"


def run(main):
    """Run a coroutine function in virtual time; return its result, and the seconds that it took."""

    async def timed(_world):
        began = asyncio.get_running_loop().time()
        result = await main()
        return result, asyncio.get_running_loop().time() - began

    return rb.testing.simulate(timed)


def many(function, number):
    """Run so many calls at once; return a coroutine function of their results."""

    async def main():
        return await asyncio.gather(*(function() for _ in range(number)), return_exceptions=True)

    return main


def limits_of(function) -> Limits:
    return function.__binding__.operation.limits


# ---- what a refusal costs --------------------------------------------------------------------------


def test_nothing_is_limited_before_the_first_refusal():
    server = Server(1_000, seconds=0.1)
    ask = rb.Policy(rb.Retry(), rb.AdaptiveLimit())(server.answer, idempotent=True)
    results, seconds = run(many(ask, 1_000))
    assert (set(results), server.peak) == ({"answer"}, 1_000)
    assert seconds == pytest.approx(0.1)


@pytest.mark.parametrize(
    "refusal",
    [REFUSED, RefusedError(429), httpx.Response(503), RefusedError(529)],
    ids=["429", "raised", "503", "529"],
)
def test_no_call_is_lost_whatever_the_attempts_and_the_budget_are(refusal):
    """Two attempts, no budget, a circuit that opens at one failure: 40 calls at a server that takes four at once."""
    server = Server(4, refusal=refusal)
    policy = rb.Policy(
        rb.Retry(attempts=2, budget=rb.RetryBudget(floor=0, ratio=0.001)),
        rb.AdaptiveLimit(),
        rb.Breaker.consecutive(1),
    )
    ask = policy(server.answer, idempotent=True)
    results, seconds = run(many(ask, 40))
    assert set(results) == {"answer"}
    assert rb.calls.circuit(ask).state == "closed"
    assert seconds < 26
    assert server.refused < 90


def test_a_limit_alone_repeats_what_is_refused_and_nothing_else():
    server, failed = Server(2), []

    async def ask():
        if not failed:
            failed.append(None)
            raise ConnectionResetError
        return await server.answer()

    protected = rb.Policy(rb.AdaptiveLimit())(ask, idempotent=True)
    results, _ = run(many(protected, 9))
    assert [type(result) for result in results].count(ConnectionResetError) == 1
    assert results.count("answer") == 8


def test_first_come_first_served():
    """Fifty calls that come one after the other, 10 ms apart, end in that order, but for those that ran before the first refusal."""
    server, ended = Server(3, seconds=1.0), []
    ask = rb.Policy(rb.AdaptiveLimit())(server.answer, idempotent=True)

    async def one(number):
        await asyncio.sleep(number * 0.01)
        await ask()
        ended.append(number)

    async def main():
        await asyncio.gather(*map(one, range(50)))

    run(main)
    assert sorted(ended) == list(range(50))
    assert all(abs(index - number) <= 12 for index, number in enumerate(ended))


@pytest.mark.parametrize("form", VIRTUAL, ids=str)
def test_a_refused_call_waits_for_the_servers_time(form):
    """Not for less, and for at most a tenth more; `waited` and the events say so."""
    answers = [httpx.Response(429, headers={"retry-after": "7"}), "answer"]
    ask = rb.Policy(rb.Retry(attempts=1), rb.AdaptiveLimit())(
        form.of(lambda: answers.pop(0)), idempotent=True
    )
    heard = []
    with rb.testing.virtual_time(), rb.listen(heard.append):
        assert form.run(ask) == "answer"
    (scheduled,) = [event for event in heard if isinstance(event, rb.events.RetryScheduled)]
    (finished,) = [event for event in heard if isinstance(event, rb.events.CallFinished)]
    assert 7 <= scheduled.wait <= 7.7
    assert (finished.outcome, finished.attempts) == ("ok", 2)
    assert 7 <= finished.waited <= 7.7


def test_what_a_rule_names_counts_as_that_rule_says():
    """Four attempts for 429 by the rule, then its answer; the limit is lowered all the same, and the circuit is not."""
    calls = []

    async def ask():
        calls.append(None)
        return httpx.Response(429)

    policy = rb.Policy(
        rb.Retry(rules={429: rb.Rule(attempts=4, backoff=rb.Backoff.constant(1))}),
        rb.AdaptiveLimit(),
        rb.Breaker.consecutive(1),
    )
    protected = policy(ask, idempotent=True)
    result, _ = run(protected)
    assert (result.status_code, len(calls)) == (429, 4)
    assert rb.calls.circuit(protected).state == "closed"
    assert sum(limit.refused for limit in all_of(protected)) == 4


def all_of(function):
    limits = limits_of(function)
    found = list(limits.by_key.values())
    other = limits._other
    return found + ([] if other is None else list(other.by_key.values()))


# ---- the gate --------------------------------------------------------------------------------------


@both
def test_where_a_repeat_is_not_permitted_the_answer_is_returned_at_once(form):
    """`idempotent=False`: one call each, and what the limit learnt holds for the next."""
    for refusal in (httpx.Response(429), httpx.Response(503, headers={"retry-after": "1"})):
        effects = []

        def pay(refusal=refusal, effects=effects):
            effects.append(None)
            return refusal

        protected = rb.Policy(rb.Retry(), rb.AdaptiveLimit())(form.of(pay), idempotent=False)
        assert form.run(protected) is refusal
        assert len(effects) == 1
        (limit,) = limits_of(protected).by_key.values()
        assert (limit.refused, limit.at_once) == (1, 1)


def test_an_error_whose_repeat_is_not_permitted_is_raised_as_it_is():
    server = Server(0, refusal=RefusedError(503))
    pay = rb.Policy(rb.AdaptiveLimit())(server.answer, idempotent=False)
    (error,), seconds = run(many(pay, 1))
    assert error is server.refusal
    assert (server.calls, round(seconds, 3)) == (1, 0.1)
    assert rb.classify(error).executed == "maybe"


def test_a_limit_around_a_function_needs_to_know_whether_a_repeat_is_safe():
    with pytest.raises(rb.ConfigError, match="say whether a repeat is safe"):
        rb.Policy(rb.AdaptiveLimit())(lambda: None)


def test_what_counts_as_a_refusal():
    """A rate limit or an overload, by status or by a provider's word; not an outage, and not a used-up quota."""

    def is_one(status, **body):
        return is_refusal(rb.classify(httpx.Response(status, json=body or None)))

    assert [is_one(status) for status in (429, 503, 529)] == [True] * 3
    assert [is_one(status) for status in (400, 404, 408, 500, 502, 504)] == [False] * 6
    assert is_one(400, __type="ThrottlingException")
    assert not is_one(429, error={"code": "insufficient_quota"})
    in_a_stream = anthropic.APIStatusError(
        "o",
        response=httpx2.Response(200, request=httpx2.Request("POST", "https://x/")),
        body={"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    )
    assert is_refusal(rb.classify(in_a_stream))


def test_a_used_up_quota_is_the_end_and_no_refusal():
    calls = []

    async def ask():
        calls.append(None)
        return httpx.Response(429, json={"error": {"code": "insufficient_quota"}})

    protected = rb.Policy(rb.Retry(), rb.AdaptiveLimit())(ask, idempotent=True)
    result, seconds = run(protected)
    assert (result.status_code, len(calls), seconds) == (429, 1, 0)
    assert all_of(protected) == []


# ---- the end of patience ---------------------------------------------------------------------------


def test_above_max_retry_after_it_ends_at_once():
    async def ask():
        return httpx.Response(429, headers={"retry-after": "3600"})

    protected = rb.Policy(rb.Retry(max_retry_after=300), rb.AdaptiveLimit())(ask, idempotent=True)
    result, seconds = run(protected)
    assert (result.status_code, seconds) == (429, 0)


def test_a_call_that_was_never_sent_says_so_and_names_the_refusal():
    """Another call is refused for longer than this one's deadline allows: it ends at once, provably not executed."""
    calls = []

    async def ask(deadline):
        calls.append(deadline)
        return httpx.Response(429, headers={"retry-after": "60"})

    async def main():
        long = asyncio.create_task(patient("long"))
        await asyncio.sleep(1)
        with pytest.raises(ThrottledError) as caught:
            await hasty("short")
        long.cancel()
        return caught.value

    patient = rb.Policy(rb.AdaptiveLimit(key="one"))(ask, idempotent=True)
    hasty = rb.Policy(rb.Deadline(5), rb.Retry(), rb.AdaptiveLimit(key="one"))(ask, idempotent=True)
    error, seconds = run(main)
    assert seconds == 1
    assert calls == ["long"]
    failure = rb.classify(error)
    assert (failure.executed, failure.code) == ("no", "SYS_THROTTLED")
    assert "429" in str(error)
    assert 58 <= failure.retry_after <= 66


def test_a_waiter_never_outlasts_its_deadline():
    server = Server(1, seconds=60)
    ask = rb.Policy(rb.Deadline(10), rb.Retry(), rb.AdaptiveLimit(start=1, most=1))(
        server.answer, idempotent=True
    )
    results, seconds = run(many(ask, 3))
    assert seconds == pytest.approx(10, abs=0.2)
    assert {type(result) for result in results} <= {DeadlineExceededError, ThrottledError}
    assert server.calls == 1


def test_of_a_server_that_refuses_everybody_the_calls_end():
    """48 calls: none waits for ever, few are sent, and each has an error or the server's answer."""
    server = Server(0)
    ask = rb.Policy(rb.Retry(), rb.AdaptiveLimit())(server.answer, idempotent=True)
    results, seconds = run(many(ask, 48))
    assert server.calls <= 2.5 * 48
    assert seconds < 200
    for result in results:
        if isinstance(result, ThrottledError):
            assert rb.classify(result).executed == "maybe"  # it was sent, and refused
        else:
            assert result.status_code == 429


def test_a_deadline_leaks_no_permit():
    server = Server(2)
    ask = rb.Policy(rb.Deadline(3), rb.Retry(), rb.AdaptiveLimit())(server.answer, idempotent=True)
    run(many(ask, 20))
    for limit in all_of(ask):
        assert (limit.running, limit.queue, limit.earlier) == (0, [], 0)


def test_cancelled_calls_give_their_places_back():
    server = Server(2)
    ask = rb.Policy(rb.Retry(), rb.AdaptiveLimit())(server.answer, idempotent=True)

    async def main():
        tasks = [asyncio.create_task(ask()) for _ in range(30)]
        for number, task in enumerate(tasks):
            await asyncio.sleep(0.13)
            if number % 2:
                task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results, _ = run(main)
    assert {type(result) for result in results} == {str, asyncio.CancelledError}
    for limit in all_of(ask):
        assert (limit.running, limit.queue, limit.earlier) == (0, [], 0)


# ---- with other layers -----------------------------------------------------------------------------


@pytest.mark.parametrize("after", [None, "8"], ids=["its second refusal", "a long one"])
def test_a_refused_call_goes_to_a_fallback_that_it_may_take(after):
    calls, headers = [], {} if after is None else {"retry-after": after}

    async def ask():
        calls.append(None)
        return httpx.Response(429, headers=headers)

    async def other():
        return "other model"

    policy = rb.Policy(rb.Fallback(other), rb.Retry(), rb.AdaptiveLimit())
    result, seconds = run(policy(ask, idempotent=True))
    assert result == "other model"
    assert len(calls) == (2 if after is None else 1)
    assert seconds < 1


def test_a_call_inside_of_a_call_takes_no_second_permit():
    """A function that calls itself does not wait for the place that it holds."""
    policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit(start=1, most=1))

    @policy(idempotent=True)
    async def walk(depth):
        await asyncio.sleep(0.1)
        return depth if depth == 0 else await walk(depth - 1)

    result, seconds = run(lambda: walk(5))
    assert result == 0
    assert seconds == pytest.approx(0.6)


def test_a_function_of_the_arguments_has_a_limit_for_each_result():
    """A host that refuses does not slow the others."""
    slow, quick = Server(1), Server(1_000, seconds=0.1)

    async def ask(host):
        return await (slow if host == "slow" else quick).answer()

    protected = rb.Policy(rb.Retry(), rb.AdaptiveLimit(key=lambda host: host))(ask, idempotent=True)
    times = {}

    async def main():
        async def one(host):
            await protected(host)
            times[host] = asyncio.get_running_loop().time() - began

        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            for host in ["slow"] * 10 + ["quick"] * 100:
                group.create_task(one(host))

    run(main)
    assert times["quick"] == pytest.approx(0.1)
    assert times["slow"] > 15
    assert [limit.key for limit in all_of(protected)] == [(None, "slow")]


def test_a_name_joins_policies():
    server = Server(2)
    one = rb.Policy(rb.Retry(), rb.AdaptiveLimit(key="the quota"))(server.answer, idempotent=True)
    two = rb.Policy(rb.AdaptiveLimit(key="the quota"))(server.answer, idempotent=True)
    assert limits_of(one) is limits_of(two)

    async def main():
        return await asyncio.gather(*(each() for _ in range(10) for each in (one, two)))

    results, _ = run(main)
    assert set(results) == {"answer"}
    assert len(all_of(one)) == 1


def test_outside_of_a_retry_it_is_refused():
    with pytest.raises(rb.ConfigError, match=r"layers\[1\]: wanted AdaptiveLimit inside of Retry"):
        rb.Policy(rb.Timeout(5), rb.AdaptiveLimit(), rb.Retry())


def test_a_block_waits_as_well():
    server, answers = Server(1), []
    policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit())

    async def one():
        async for attempt in policy.attempts(idempotent=True):
            with attempt:
                answer = await server.answer()
                if answer is REFUSED:
                    raise RefusedError
                answers.append(answer)

    run(many(one, 8))
    assert answers == ["answer"] * 8


def test_a_stream_is_refused_before_its_first_item():
    server = Server(2, refusal=RefusedError())

    @rb.Policy(rb.Retry(), rb.AdaptiveLimit())(idempotent=True)
    async def items():
        yield await server.answer()
        yield "more"

    async def one():
        return [item async for item in items()]

    results, _ = run(many(one, 10))
    assert results == [["answer", "more"]] * 10


# ---- threads ---------------------------------------------------------------------------------------


@pytest.mark.real
def test_threads_wait_in_line():
    """Sixteen threads at a server that takes two at once: every call is answered, and no place is lost."""
    lock, running, results = threading.Lock(), [], []

    def ask():
        with lock:
            if len(running) >= 2:
                return httpx.Response(429, headers={"retry-after": "0.05"})
            running.append(None)
        threading.Event().wait(0.02)
        with lock:
            running.pop()
        return "answer"

    protected = rb.Policy(rb.Retry(), rb.AdaptiveLimit())(ask, idempotent=True)

    def work():
        results.extend(protected() for _ in range(4))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == ["answer"] * 64
    limits = limits_of(protected)
    assert limits.flying == {}
    for limit in limits.by_key.values():
        assert (limit.running, limit.queue, limit.earlier) == (0, [], 0)


def test_a_limit_of_virtual_time_has_no_effect_in_real_time():
    answers = [httpx.Response(429, headers={"retry-after": "50"}), "late", "now"]
    ask = rb.Policy(rb.Retry(), rb.AdaptiveLimit())(
        ASYNC.of(lambda: answers.pop(0)), idempotent=True
    )
    result, seconds = run(ask)
    assert (result, seconds >= 50) == ("late", True)
    assert asyncio.run(ask()) == "now"


# ---- what is seen ----------------------------------------------------------------------------------


def test_what_a_limit_does_is_seen():
    """Its status, the explanation of the function, events, and the health of the process."""
    server, heard = Server(2), []
    ask = rb.Policy(rb.Retry(), rb.AdaptiveLimit())(server.answer, idempotent=True)

    async def main():
        assert rb.calls.adaptive_limits() == {}
        calls = asyncio.gather(*(ask() for _ in range(10)))
        await asyncio.sleep(0.15)
        seen = rb.calls.adaptive_limits()
        shown, health = str(ask.explain()), rb.telemetry.health_app().status()
        await calls
        return seen, shown, health

    with rb.listen(heard.append):
        (seen, shown, health), _ = run(main)
    ((name, status),) = seen.items()
    assert name.endswith("Server.answer")
    assert (status.state, status.refused, status.at_once) == ("paused", 8, 5)
    assert status.last.code == "SYS_RATE_LIMITED"
    assert f"limited now: {name}: 5 at once, 0 running, 8 waiting, 8 refused; paused" in shown
    (row,) = health["adaptive_limits"]
    assert (row["state"], row["waiting"], row["refused"]) == ("paused", 8, 8)
    changes = [event.state for event in heard if isinstance(event, rb.events.LimitChanged)]
    assert changes[0] == "began"
    assert set(changes) <= {"began", "lowered"}


def test_an_exhausted_limit_is_reported_and_so_is_its_end():
    refusing, heard = [True], []

    async def ask():
        return httpx.Response(429) if refusing else "answer"

    protected = rb.Policy(rb.Retry(), rb.AdaptiveLimit())(ask, idempotent=True)

    async def main():
        call = asyncio.create_task(protected())
        await asyncio.sleep(60)
        with pytest.raises(ThrottledError, match="another one is trying"):
            await protected()
        refusing.clear()
        assert await call == "answer"

    with rb.listen(heard.append):
        run(main)
    changes = [event.state for event in heard if isinstance(event, rb.events.LimitChanged)]
    assert changes == ["began", "exhausted", "recovered"]


@pytest.mark.parametrize("again", ["an answer", "a refusal"])
def test_that_a_limit_is_forgotten_is_reported_with_what_it_cost(again):
    """At the next call: how often the server has refused, and how long a call has waited at most."""
    server, heard, asked = Server(1), [], []
    ask = rb.Policy(rb.Retry(), rb.AdaptiveLimit())(server.answer, idempotent=True)

    async def main():
        began = asyncio.get_running_loop().time()

        async def call():
            await ask()
            asked.append(asyncio.get_running_loop().time() - began - 2)  # of which it ran 2 s

        await asyncio.gather(*(call() for _ in range(6)))
        await ask()  # which waits for nobody
        refused = server.refused
        await asyncio.sleep(601)
        if again == "a refusal":
            server.most = 0
            asyncio.get_running_loop().call_later(5, setattr, server, "most", 1)
        await ask()
        return refused

    with rb.listen(heard.append):
        refused, _ = run(main)
    changes = [event for event in heard if isinstance(event, rb.events.LimitChanged)]
    states = [event.state for event in changes]
    (forgotten,) = (event for event in changes if event.state == "forgotten")
    assert forgotten.refused == refused > 5
    assert forgotten.longest_wait == pytest.approx(max(asked), abs=0.01)
    assert (forgotten.waiting, forgotten.failure) == (0, None)
    assert (changes[0].state, changes[0].refused) == ("began", 1)
    assert states.count("began") == (2 if again == "a refusal" else 1)
    if again == "a refusal":
        assert [event.refused for event in changes if event.state == "began"] == [1, 1]


def test_a_limit_that_never_refused_is_forgotten_in_silence():
    heard = []
    ask = rb.Policy(rb.Retry(), rb.AdaptiveLimit(start=4))(ASYNC.of(lambda: 1), idempotent=True)

    async def main():
        await ask()
        await asyncio.sleep(601)
        await ask()

    with rb.listen(heard.append):
        run(main)
    assert not [event for event in heard if isinstance(event, rb.events.LimitChanged)]


# ---- streams ---------------------------------------------------------------------------------------


def test_an_open_stream_keeps_its_permit_for_a_quarter_of_the_patience():
    """Two permits, two open streams: a call waits until one is closed, or until they have lost their permits."""
    policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit(start=2, most=2, patience=40, key="streams"))

    @policy(idempotent=True)
    async def items():
        yield 1
        await asyncio.sleep(1_000)
        yield 2

    @policy(idempotent=True)
    async def ask():
        return asyncio.get_running_loop().time()

    async def main():
        began = asyncio.get_running_loop().time()
        streams = [items(), items()]
        for stream in streams:
            assert await anext(stream) == 1
        asyncio.get_running_loop().call_later(3, asyncio.ensure_future, streams[0].aclose())
        first = await ask() - began
        streams[0] = items()
        assert await anext(streams[0]) == 1
        second = await ask() - began
        for stream in streams:
            await stream.aclose()
        return first, second

    (first, second), _ = run(main)
    assert first == pytest.approx(3)
    assert second == pytest.approx(10)
    assert [limit.running for limit in all_limits("streams")] == [0]


def all_limits(name):
    policy = rb.Policy(rb.AdaptiveLimit(key=name, start=2, most=2, patience=40))
    return all_of(policy(lambda: None, idempotent=True))
