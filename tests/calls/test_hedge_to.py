"""A further request that goes to another function: what its answer is worth, and what it says of the first."""

from __future__ import annotations

import asyncio
import gc
import warnings
from contextlib import suppress
from functools import partial
from random import Random
from unittest.mock import AsyncMock

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.calls import Hedge
from tests.calls.test_hedge import Server, in_virtual_time, learns_a_steady_time
from tests.internals.calls import HedgeState
from tests.rows import each_row


pytestmark = pytest.mark.requirement("X16")

RESET, NO = ConnectionResetError("reset"), PermissionError("no")


def raced(first, mirror, *layers, after=1, **hedge):
    policy = rb.Policy(*layers, Hedge(after, to=mirror.answer, budget=1, **hedge))
    return policy(first.answer, idempotent=True)


class Mirror(Server):
    """Another region: its answers are told apart by their sign."""

    async def answer(self):
        answer = await super().answer()
        return -answer if isinstance(answer, int) else answer


# ---- who answers --------------------------------------------------------------------------------


def test_the_further_request_goes_to_the_other_function_and_the_event_names_it():
    first, mirror = Server((10, None)), Mirror((0.5, None))
    result, seconds, [event] = in_virtual_time(raced(first, mirror))
    assert (result, seconds) == (-1, 1.5)
    assert (first.asked, first.cancelled, mirror.asked) == (1, 1, 1)
    assert (event.requests, event.winner, event.unknown) == (2, 2, 1)
    assert event.to == "tests.calls.test_hedge_to.Mirror.answer"
    text = (
        "was hedged, to tests.calls.test_hedge_to.Mirror.answer, and ended by request 2 of 2 after"
    )
    assert text in event.__text__()


def test_the_first_may_win_and_the_other_function_is_cancelled():
    first, mirror = Server((2, None)), Mirror((10, None))
    result, seconds, [event] = in_virtual_time(raced(first, mirror))
    assert (result, seconds, mirror.cancelled, event.winner) == (1, 2, 1, 1)
    assert "it failed there" not in event.__text__()


def test_a_function_that_is_fast_enough_asks_no_other():
    first, mirror = Server((0.9, None)), Mirror((0, None))
    assert in_virtual_time(raced(first, mirror)) == (1, 0.9, [])
    assert mirror.asked == 0


def test_it_gets_the_arguments_of_the_call():
    asked = []

    async def mirror(*args, **kwargs):
        asked.append((args, kwargs, rb.current_attempt().idempotency_key))
        return "mirror"

    @rb.Policy(rb.Retry(), Hedge(1, to=mirror, budget=1))(idempotent=True)
    async def read(path, *, region="eu"):
        keys.append(rb.current_attempt().idempotency_key)
        await asyncio.sleep(60)

    keys = []
    policy = read.policy

    async def work():
        return [
            await read("/a", region="us"),
            await policy(idempotent=True).call(read.__wrapped__, "/b", region="us"),
            await rb.Policy(rb.Deadline(60), policy)(idempotent=True).call(read.__wrapped__, "/c"),
        ]

    assert in_virtual_time(work)[0] == ["mirror"] * 3
    assert [each[:2] for each in asked] == [
        (("/a",), {"region": "us"}), (("/b",), {"region": "us"}), (("/c",), {}),
    ]  # fmt: skip
    assert [key for *_, key in asked] == keys


def test_all_further_requests_go_to_it():
    first, mirror = Server((0, None), (0, None), (60, None)), Mirror((60, None), (60, None), (0.5, None))  # fmt: skip
    call = raced(first, mirror, most=3)

    async def work():
        return [await call() for _ in range(3)]  # the first two earn what the third spends

    result, seconds, [event] = in_virtual_time(work)
    assert (result, seconds, first.asked, mirror.asked) == ([1, 2, -3], 4.5, 3, 3)
    assert (event.requests, event.winner, event.unknown) == (4, 4, 3)


# ---- its failures are its own -------------------------------------------------------------------


@each_row("failure", [RESET, NO, TypeError("a mistake"), httpx.Response(503), httpx.Response(404)])
def test_a_failure_of_the_other_function_never_ends_the_call(failure):
    """Not even one that a repeat cannot help: a mirror without credentials, or one that lags, says nothing of the first."""
    first, mirror = Server((5, None)), Mirror((0.5, failure))
    result, seconds, [event] = in_virtual_time(raced(first, mirror))
    assert (result, seconds, event.winner, event.unknown) == (1, 5, 1, 0)
    assert event.failure.code == rb.classify(failure).code


@each_row("failure, level", [
    (RESET, "info"), (httpx.Response(503), "info"), (NO, "warning"), (TypeError("a mistake"), "warning"),
])  # fmt: skip
def test_a_function_that_cannot_work_is_seen(failure, level):
    first, mirror = Server((5, None)), Mirror((0.5, failure))
    *_, [event] = in_virtual_time(raced(first, mirror))
    assert event.__level__() == level
    assert "it failed there: " in event.__text__()


@each_row("here, there, winner", [
    ((2, RESET), (3, None), 2), ((2, RESET), (0.5, RESET), 0), ((2, RESET), (3, NO), 0), ((2, NO), (3, None), 0),
])  # fmt: skip
def test_the_failure_of_the_call_is_that_of_the_first(here, there, winner):
    """The other function is waited for, where a repeat could help too."""
    first, mirror = Server(here), Mirror(there)

    async def work():
        return await rb.capture(raced(first, mirror))

    outcome, seconds, [event] = in_virtual_time(work)
    assert outcome.error is (None if winner else here[1])
    assert outcome.ok is bool(winner)
    assert seconds == (4 if winner or there == (3, NO) else 2)
    if not outcome.ok:
        assert event.winner == 1
    if here[1] is NO:
        assert mirror.cancelled == 1


def test_repeats_are_those_of_the_first():
    """What the other function tried inside of its own policy uses up no attempt of the first."""
    first, tried = Server((3, RESET), (3, RESET), (0.5, None)), []

    @rb.Policy(rb.Retry(attempts=4, backoff=rb.Backoff.constant(0), budget=None))(idempotent=True)
    async def mirror():
        tried.append(1)
        raise RESET

    policy = rb.Policy(
        rb.Retry(attempts=3, backoff=rb.Backoff.constant(0), budget=None),
        Hedge(1, to=mirror, budget=1),
    )

    async def work():
        return await rb.capture(policy(first.answer, idempotent=True))

    outcome, *_ = in_virtual_time(work)
    assert (outcome.value, outcome.attempts, first.asked) == (3, 3, 3)
    assert len(tried) >= 2


def test_an_error_proves_nothing_once_the_other_function_may_have_run():
    refused = rb.NotExecutedError("nothing happened")
    first, mirror = Server((2, refused)), Mirror((0.5, RESET))

    async def work():
        return await rb.capture(raced(first, mirror))

    assert in_virtual_time(work)[0].failure.executed is rb.errors.Executed.MAYBE


# ---- what the first is judged by ----------------------------------------------------------------


@each_row("here, there, failed", [
    ((10, None), (0.5, None), 0),  # cancelled: nobody knows
    ((2, RESET), (3, None), 1),  # its own failure counts, whatever was answered elsewhere
    ((2, httpx.Response(503)), (3, None), 1),
    ((5, None), (0.5, RESET), 0),
])  # fmt: skip
@pytest.mark.parametrize("outside", [False, True])
def test_the_circuit_counts_the_first_alone(here, there, failed, outside):
    first, mirror = Server(here), Mirror(there)
    breaker, retry = rb.Breaker.consecutive(3), rb.Retry(attempts=1)
    layers = [breaker, retry] if outside else [retry, breaker]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this order is one that warns
        call = raced(first, mirror, *layers)

    async def work():
        for _ in range(3):
            await call()
            first.asked = mirror.asked = 0

    in_virtual_time(work)
    assert rb.calls.circuit(call).state == ("open" if failed else "closed")


def test_an_answer_elsewhere_does_not_make_good_what_the_first_has_failed():
    """A success of the first would begin the count anew; one of the other function does not."""
    first, mirror = Server((0, RESET), (10, None), (0, RESET)), Mirror((0.5, None))
    call = raced(first, mirror, rb.Breaker.consecutive(2))

    async def work():
        return [await rb.capture(call) for _ in range(3)]

    outcomes = in_virtual_time(work)[0]
    assert [each.ok for each in outcomes] == [False, True, False]
    assert rb.calls.circuit(call).state == "open"


def test_a_first_that_is_too_slow_counts_where_slow_calls_do():
    first, mirror = Server((10, None)), Mirror((0.5, None))
    call = raced(first, mirror, rb.Breaker.consecutive(2, slow_after=1.2))

    async def work():
        return [await call(), await call()]

    in_virtual_time(work)
    assert rb.calls.circuit(call).state == "open"


def test_a_probe_of_a_circuit_has_no_further_request():
    first, mirror = Server((0, RESET), (0, RESET), (5, None)), Mirror((0, None))
    call = raced(first, mirror, rb.Breaker.consecutive(2, open_for=1))

    async def work():
        await rb.capture(call)
        await rb.capture(call)
        await asyncio.sleep(2)
        return await call()

    assert in_virtual_time(work)[0] == 3
    assert mirror.asked == 0


def test_it_takes_no_permit_and_no_turn_of_the_first():
    """They are those of the first function's server; the other function may have a policy of its own."""
    first, mirror = Server((10, None)), Mirror((0.5, None))
    call = raced(first, mirror, rb.Bulkhead(1), rb.RateLimit(1, per=60))
    assert in_virtual_time(call)[:2] == (-1, 1.5)
    first = Server((10, None))
    call = raced(first, mirror, rb.AdaptiveLimit(start=1))
    assert in_virtual_time(call)[:2] == (-2, 1.5)


def test_a_refusal_elsewhere_does_not_lower_the_limit_of_the_first_and_its_own_does():
    refused = httpx.Response(429, request=httpx.Request("GET", "http://x/"))
    limits = []

    async def work(call):
        with rb.listen(limits.append):
            await call()

    first, mirror = Server((5, None)), Mirror((0.5, refused))
    in_virtual_time(partial(work, raced(first, mirror, rb.AdaptiveLimit())))
    assert not [event for event in limits if isinstance(event, rb.events.LimitChanged)]
    first, mirror = Server((2, refused)), Mirror((3, None))
    in_virtual_time(partial(work, raced(first, mirror, rb.AdaptiveLimit())))
    assert [event for event in limits if isinstance(event, rb.events.LimitChanged)]


def test_an_answer_elsewhere_is_no_success_for_the_limit_of_the_first():
    first, mirror = Server((10, None)), Mirror((0.5, None))
    limit = rb.AdaptiveLimit(start=4)
    call = raced(first, mirror, limit)
    seen = []

    async def work():
        with rb.listen(seen.append):
            for _ in range(20):
                await call()

    in_virtual_time(work)
    assert not [event for event in seen if isinstance(event, rb.events.LimitChanged)]


def test_the_time_is_learnt_from_the_first_alone():
    """Its time until it was cancelled counts: without that the time would shrink from race to race."""

    async def mirror():
        await asyncio.sleep(0.01)

    learns_a_steady_time(Hedge(to=mirror, budget=1))


def test_an_answer_elsewhere_after_the_first_has_failed_teaches_nothing(monkeypatch):
    learnt = []
    monkeypatch.setattr(HedgeState, "answered", lambda _, seconds: learnt.append(seconds))
    first, mirror = Server((2, RESET), (3, None)), Mirror((9, None))
    call = raced(first, mirror)

    async def work():
        return await call(), await call()

    assert in_virtual_time(work)[0] == (-1, 2)
    assert learnt == [3]


def test_no_more_than_the_budget():
    first, mirror = Server((10, None)), Mirror((0.1, None))
    call = rb.Policy(Hedge(1, to=mirror.answer))(first.answer, idempotent=True)

    async def work():
        for _ in range(200):
            await call()

    in_virtual_time(work)
    assert (first.asked, mirror.asked) == (200, 10)


def test_no_further_request_while_the_other_function_refuses():
    refused = httpx.Response(429, headers={"Retry-After": "60"}, request=httpx.Request("GET", "http://x/"))  # fmt: skip
    first, mirror = Server((5, None)), Mirror((0.5, refused), (0, None))
    call = raced(first, mirror)

    async def work():
        return [await call() for _ in range(5)]

    in_virtual_time(work)
    assert mirror.asked == 1


@each_row("seed", range(40))
def test_a_cancelled_caller_cancels_all_of_it(seed):
    """At any moment, in both functions: no task, no permit and no request is left."""
    rng = Random(seed)

    def script():
        return [(rng.uniform(0.5, 3), RESET if rng.random() < 0.3 else None) for _ in range(4)]

    first, mirror = Server(*script()), Mirror(*script())
    retry = rb.Retry(attempts=2, backoff=rb.Backoff.constant(0))
    call = raced(first, mirror, retry, rb.Bulkhead(2), rb.Breaker.consecutive(100, slow_after=60))

    async def work():
        task = asyncio.create_task(call())
        instants = [1 + seconds for seconds, _ in (*first.script, *mirror.script)]
        await asyncio.sleep(rng.choice([rng.uniform(0, 4), *instants]))
        task.cancel()
        with suppress(asyncio.CancelledError, ConnectionResetError):
            await task
        assert len(asyncio.all_tasks()) <= 2
        return first.running + mirror.running

    assert in_virtual_time(work, seed=seed)[0] == 0
    assert not call.__binding__.operation.circuit.under_way


@each_row("here, there", [
    ((10, None), (1, None)), ((3, ConnectionResetError), (5, None)),
    ((3, ConnectionResetError), (1, PermissionError)), ((3, httpx.Response(503)), (5, None)),
])  # fmt: skip
def test_a_race_that_is_over_is_freed(here, there):
    def races():
        return [each for each in gc.get_objects() if type(each).__name__ in {"_Race", "_Further"}]

    call, before = raced(Server(here), Mirror(there)), {id(each) for each in races()}

    async def work():
        for _ in range(5):
            with suppress(ConnectionError):
                await call()
        await asyncio.sleep(60)
        return [each for each in races() if id(each) not in before]

    gc.collect()
    gc.disable()
    try:
        assert in_virtual_time(work)[0] == []
    finally:
        gc.enable()


# ---- streams ------------------------------------------------------------------------------------


def test_a_stream_goes_on_where_its_first_item_came_from():
    async def first():
        await asyncio.sleep(10)
        yield "never"

    async def mirror():
        yield "a"
        await asyncio.sleep(1)
        yield "b"

    stream = rb.Policy(rb.Bulkhead(1), Hedge(1, to=mirror, budget=1))(first, idempotent=True)

    async def work():
        return [item async for item in stream()]

    result, seconds, [event] = in_virtual_time(work)
    assert (result, seconds, event.winner) == (["a", "b"], 2, 2)


# ---- who may, and what names it -----------------------------------------------------------------


async def read(url, *, timeout=5):
    """Stand for a function of the reader's."""


def read_sync(url, *, timeout=5):
    """Stand for one that is not async."""


async def read_items(url, *, timeout=5):
    """Stand for a stream."""
    yield 1


class Region:
    """Stands for a client of another region."""

    async def read(self, url, *, timeout=5):
        """As above."""

    async def __call__(self, url, *, timeout=5):
        """As above."""


async def too_few(url):
    """Stand for one without an argument."""


async def too_many(url, region, *, timeout=5):
    """Stand for one with one more."""


async def other_name(address, *, timeout=5):
    """Stand for one whose argument has another name."""


def onto(to, function=read):
    return lambda: rb.Policy(Hedge(1, to=to))(function, idempotent=True)


def replaced(to):
    function = rb.Policy(rb.Timeout(1))(read, idempotent=True)
    function.policy = rb.Policy(Hedge(1, to=to))
    asyncio.run(function("x"))


def refusals():
    return {
        "no function": (lambda: Hedge(1, to="eu"), "Hedge.to: wanted an async function"),
        "several": (lambda: Hedge(1, to=[read]), "Hedge.to: wanted an async function"),
        "a class": (lambda: Hedge(1, to=Region), "Hedge.to: wanted an async function"),
        "sync": (onto(read_sync), "Hedge.to on .*read: wanted an async function"),
        "a lambda": (onto(lambda url, **_: read(url)), "wanted an async function"),
        "a stream for a call": (onto(read_items), "wanted an async function"),
        "a call for a stream": (onto(read, read_items), "wanted an async generator function"),
        "too few arguments": (onto(too_few), r"the arguments of .*\.read\(url, \*, timeout=5\), got '.*\.too_few\(url\)"),
        "too many": (onto(too_many), r"too_many\(url, region, \*, timeout=5\)"),
        "other names": (onto(other_name), r"other_name\(address, \*, timeout=5\)"),
        "call": (lambda: rb.Policy(Hedge(1, to=too_few))(idempotent=True).call(read, "x"), r"too_few\(url\)"),
        "replaced at run time": (lambda: replaced(read_sync), "wanted an async function"),
        "idempotent=False": (
            lambda: rb.Policy(Hedge(1, to=read))(read, idempotent=False), "may run twice",
        ),
    }  # fmt: skip


@each_row("name", refusals())
def test_where_it_is_refused_with_words(name):
    refused, words = refusals()[name]
    with pytest.raises(rb.ConfigError, match=words):
        refused()


@each_row("to", {
    "a method": Region().read, "a callable object": Region(), "a partial": partial(too_many, region="eu"),
    "a mock": AsyncMock(), "a protected function": rb.Policy(rb.Timeout(1))(read, idempotent=True),
    "any arguments": AsyncMock(spec=read),
})  # fmt: skip
def test_what_takes_the_same_arguments_is_one(to):
    tos = {
        "a method": Region().read, "a callable object": Region(), "a partial": partial(too_many, region="eu"),
        "a mock": AsyncMock(), "a protected function": rb.Policy(rb.Timeout(1))(read, idempotent=True),
        "any arguments": AsyncMock(spec=read),
    }  # fmt: skip
    onto(tos[to])()


def test_methods_and_functions_that_take_anything_are_not_compared():
    class Client:
        @rb.Policy(Hedge(1, to=other_name_of_self))(idempotent=True)
        async def read(self, url): ...

    async def anything(*args, **kwargs): ...

    onto(too_many, anything)()
    assert Client.read.policy


async def other_name_of_self(client, url):
    """Stand for a function that takes the object of a method."""


def test_explain_and_the_value_name_it():
    policy = rb.Policy(rb.Retry(attempts=3), Hedge(2, to=read))
    text = str(policy.explain())
    assert "one request more, to read, after 2 s" in text
    assert "to=read" in repr(policy)
    assert policy == rb.Policy(rb.Retry(attempts=3), Hedge(2, to=read))
    assert policy != rb.Policy(rb.Retry(attempts=3), Hedge(2))
    assert policy.explain().max_calls == 6


def test_a_settings_file_names_it():
    document = {"policies": {"reads": {"retry": {}, "hedge": {"after": 2, "to": "mirror"}}}}
    config = rb.load(document, names={"mirror": read})
    assert config.policies["reads"].layers[-1] == Hedge(2, to=read)


def test_under_a_client_it_gets_the_request():
    asked = []

    async def hang(_):
        await asyncio.sleep(60)

    async def mirror(asked_for):
        asked.append(str(asked_for.url))
        return httpx.Response(200, text="mirror", request=asked_for)

    async def work():
        policy = rb.Policy(rb.Retry(attempts=2), Hedge(1, to=mirror, budget=1))
        transport = rb.HTTPTransport(policy, httpx.MockTransport(hang))
        async with httpx.AsyncClient(transport=transport) as client:
            return (await client.get("http://x/a")).text

    result, seconds, [event] = in_virtual_time(work)
    assert (result, seconds, asked, event.to.rpartition(".")[2]) == ("mirror", 1, ["http://x/a"], "mirror")  # fmt: skip
