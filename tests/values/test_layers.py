"""What holds for every layer of a Policy as a value: copies, what it prints, and what it refuses."""

from __future__ import annotations

import pickle
import re
from datetime import timedelta
from http import HTTPStatus

import attrs
import pytest
import tenacity

from resilient_bridge import named
from resilient_bridge.calls import (
    Breaker,
    Bulkhead,
    Deadline,
    Fallback,
    RateLimit,
    Retry,
    RetryBudget,
    Timeout,
)
from resilient_bridge.failure import Category, Failure, Kind
from resilient_bridge.values import Backoff, Rule
from tests.internals.calls import Layer
from tests.rows import each_row


class BusyError(Exception):
    """A user's own."""


class Odd(type):
    """A metaclass: its classes are instances of something else than `type` alone."""

    def __call__(cls, *_):
        return True


class OddError(Exception, metaclass=Odd):
    """An exception class that is truthy when called."""


def is_busy(failure: Failure) -> bool:
    return "busy" in failure.message


def is_empty(value: object) -> bool:
    return not value


def two(attempt: object) -> float:
    return 2.0


def cached(query: str) -> str:
    return query


NAMES = {
    "named": named,
    "Backoff": Backoff,
    "Breaker": Breaker,
    "Bulkhead": Bulkhead,
    "BusyError": BusyError,
    "Category": Category,
    "Deadline": Deadline,
    "Fallback": Fallback,
    "Kind": Kind,
    "RateLimit": RateLimit,
    "Retry": Retry,
    "RetryBudget": RetryBudget,
    "Rule": Rule,
    "Timeout": Timeout,
    "cached": cached,
    "is_busy": is_busy,
    "is_empty": is_empty,
    "re": re,
    "timedelta": timedelta,
    "two": two,
}
ATTEMPTS = Retry().attempts
PRINTED = [
    (Retry(), f"Retry(attempts={ATTEMPTS})"),
    (Retry(attempts=1, on=BusyError), "Retry(attempts=1, on=BusyError)"),
    (
        Retry(on=(Kind.TRANSIENT, BusyError, HTTPStatus.CONFLICT)),
        f"Retry(attempts={ATTEMPTS}, on=(Kind.TRANSIENT, BusyError, 409))",
    ),
    (
        Retry(on=named("httpx", "ReadTimeout")),
        f"Retry(attempts={ATTEMPTS}, on=named('httpx', 'ReadTimeout'))",
    ),
    (
        Retry(on=["CONN_TIMEOUT", "CONN_RESET"]),
        f"Retry(attempts={ATTEMPTS}, on=('CONN_TIMEOUT', 'CONN_RESET'))",
    ),
    (Retry(on_result=bool), f"Retry(attempts={ATTEMPTS}, on_result=bool)"),
    (Retry(on=()), f"Retry(attempts={ATTEMPTS}, on=())"),
    (
        Retry(on=is_busy, on_result=is_empty),
        f"Retry(attempts={ATTEMPTS}, on=is_busy, on_result=is_empty)",
    ),
    (
        Retry(
            backoff=Backoff.steps(2, 4, 8), rules={429: Rule(attempts=6, backoff=two)}, budget=None
        ),
        f"Retry(attempts={ATTEMPTS}, backoff=Backoff.steps(2, 4, 8), rules={{429: Rule(attempts=6, backoff=two)}}, budget=None)",
    ),
    (
        Retry(max_retry_after=timedelta(minutes=1), budget=RetryBudget(ratio=0.5, key="x")),
        f"Retry(attempts={ATTEMPTS}, max_retry_after=60, budget=RetryBudget(ratio=0.5, key='x'))",
    ),
    (RetryBudget(), "RetryBudget()"),
    (RetryBudget(ratio=0, floor=1), "RetryBudget(ratio=0, floor=1)"),
    (Breaker(), "Breaker()"),
    (
        Breaker(rate=0.5, window=timedelta(seconds=30)),
        "Breaker(rate=0.5, window=timedelta(seconds=30))",
    ),
    (
        Breaker(
            open_for=60,
            probes=3,
            slow_after=2,
            ignore=(404, re.compile("x")),
            lease=5,
            key="github",
        ),
        "Breaker(open_for=60, probes=3, slow_after=2, ignore=(404, re.compile('x')), lease=5, key='github')",
    ),
    (Breaker(rate=1, window=timedelta(minutes=1)), "Breaker(rate=1, window=timedelta(seconds=60))"),
    (Breaker.consecutive(5), "Breaker.consecutive(5)"),
    (Breaker.consecutive(5, open_for=60, key="x"), "Breaker.consecutive(5, open_for=60, key='x')"),
    (
        Breaker.consecutive(5, open_for=Backoff.linear(1), ignore=Category.AUTH),
        "Breaker.consecutive(5, open_for=Backoff.linear(1), ignore=(Category.AUTH,))",
    ),
    (
        Breaker(rate=1, window=5),
        "Breaker.consecutive(5, open_for=Backoff.exponential(1, cap=3, jitter='equal'))",
    ),
    (Timeout(10), "Timeout(10)"),
    (Timeout(0.5, thread=True), "Timeout(0.5, thread=True)"),
    (Timeout.escalating(2, 5, 30), "Timeout.escalating(2, 5, 30)"),
    (
        Timeout.escalating(timedelta(minutes=1), 90, thread=True),
        "Timeout.escalating(60, 90, thread=True)",
    ),
    (Deadline(60), "Deadline(60)"),
    (Bulkhead(8), "Bulkhead(8)"),
    (Bulkhead(8, queue=2, max_wait=timedelta(seconds=1)), "Bulkhead(8, queue=2, max_wait=1)"),
    (RateLimit(5), "RateLimit(5)"),
    (RateLimit(5, per=60, max_wait=2, key="api"), "RateLimit(5, per=60, max_wait=2, key='api')"),
    (Fallback(cached), "Fallback(cached)"),
    (
        Fallback(cached, cached, on=BusyError, acknowledge=is_busy),
        "Fallback(cached, cached, on=(BusyError,), acknowledge=is_busy)",
    ),
]
VALUES = [value for value, _ in PRINTED]


@each_row(("value", "text"), PRINTED, ids=[text for _, text in PRINTED])
def test_a_layer_prints_as_the_call_that_makes_it(value, text):
    """The repr is what a person would type, and it evaluates to an equal layer."""
    assert repr(value) == text
    copy = eval(text, NAMES)
    assert copy == value
    assert hash(copy) == hash(value)


@each_row("value", VALUES, ids=repr)
def test_a_layer_is_a_value(value):
    """A pickle is equal and hashes alike; no field can be set and no attribute added."""
    copy = pickle.loads(pickle.dumps(value))
    assert copy == value
    assert copy is not value
    assert hash(copy) == hash(value)
    for name in (attrs.fields(type(value))[0].name, "another"):
        with pytest.raises((attrs.exceptions.FrozenInstanceError, AttributeError)):
            setattr(value, name, 1)
    assert isinstance(value, Layer) is not isinstance(value, RetryBudget)


def test_different_layers_are_not_equal():
    """No two of the values above are the same one."""
    assert len(set(VALUES)) == len(VALUES)


@each_row("value", [value for value in VALUES if not isinstance(value, Fallback)], ids=repr)
def test_a_layer_can_be_evolved(value):
    """attrs.evolve makes a checked copy."""
    assert attrs.evolve(value) == value


def test_a_rate_of_one_over_some_calls_is_failures_in_a_row():
    """Both ways of writing it are one value; a time window, or a lower rate, is no row."""
    assert Breaker.consecutive(5, open_for=30) == Breaker(rate=1, window=5, open_for=30)
    rows = [
        Breaker.consecutive(5),
        Breaker(rate=1, window=7),
        Breaker(),
        Breaker(rate=1, window=timedelta(1)),
    ]
    assert [breaker.in_a_row for breaker in rows] == [5, 7, None, None]


def test_a_single_what_and_a_collection_of_one_are_the_same():
    """`on=BusyError`, `on=[BusyError]`, `on={BusyError}`: one value; a set's order does not count."""
    assert (
        Retry(on=BusyError)
        == Retry(on=[BusyError])
        == Retry(on={BusyError})
        == Retry(on=(BusyError,))
    )
    assert Retry(on={"CONN_RESET", "CONN_TIMEOUT"}) == Retry(
        on=frozenset({"CONN_TIMEOUT", "CONN_RESET"})
    )


def test_k14_a_tuple_is_several():
    """A collection is one whatever it holds: two codes, two words, two kinds, a class by its name and a status."""
    timeout = named("httpx", "ReadTimeout")
    assert Retry(on=timeout).on == (timeout,)
    assert Retry(on=("CONN_TIMEOUT", "CONN_RESET")).on == ("CONN_TIMEOUT", "CONN_RESET")
    assert Retry(on=(Kind.TRANSIENT, Kind.PARTIAL)).on == (Kind.TRANSIENT, Kind.PARTIAL)
    assert Retry(on=(timeout, 503)).on == Retry(on=[timeout, 503]).on == (timeout, 503)
    assert Retry(on=("rate_limit", "timeout")).on == ("SYS_RATE_LIMITED", Category.TIMEOUT)


def test_a_class_with_a_metaclass_is_a_class():
    """It is not taken for a predicate, which would fit every failure."""
    assert Breaker(ignore=OddError).ignore == (OddError,)


def test_tenacity_objects_go_where_ours_go():
    """stop, wait and retry objects are taken by Retry, and a wait by Rule."""
    stop = tenacity.stop_after_attempt(3) | tenacity.stop_after_delay(10)
    wait = tenacity.wait_fixed(1) + tenacity.wait_random(0, 1)
    on = tenacity.retry_if_exception_type(BusyError)
    retry = Retry(attempts=stop, backoff=wait, on=on, rules={429: Rule(backoff=wait)})
    assert (retry.attempts, retry.backoff, retry.on) == (stop, wait, (on,))
    assert Retry(on=[on, 503]).on == (on, 503)


def test_the_last_step_of_an_escalation_repeats():
    """Attempt 1, 2, 3, 4: 2, 5, 30, 30 s; a plain timeout is the same for all."""
    escalating = Timeout.escalating(2, 5, 30)
    assert [escalating.of(attempt) for attempt in (1, 2, 3, 4)] == [2, 5, 30, 30]
    assert [Timeout(10).of(attempt) for attempt in (1, 9)] == [10, 10]


@pytest.mark.parametrize(
    "value",
    [
        Deadline(timedelta(minutes=1)),
        Timeout(timedelta(minutes=1)),
        Bulkhead(1, max_wait=timedelta(minutes=1)),
    ],
)
def test_a_timedelta_is_stored_as_seconds(value):
    """A minute given either way is one float."""
    assert value in (Deadline(60), Timeout(60), Bulkhead(1, max_wait=60))
    assert "60" in repr(value)
