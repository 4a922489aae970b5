"""Which layers cannot be made: every bad value is refused where it is written, by the name of its field."""

from __future__ import annotations

from datetime import timedelta

import pytest
import tenacity

from resilient_bridge.bridge import Reconnect
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
from resilient_bridge.failure import ConfigError, Severity
from resilient_bridge.values import Backoff, Rule
from tests.rows import each_row


NAN, INF = float("nan"), float("inf")
BAD_SECONDS = [-1, NAN, INF, 1e10, 10**400, True, "1", timedelta(seconds=-1), [1]]
BAD_COUNTS = [0, -1, 1.0, NAN, True, "1"]
BAD_WHATS = [
    "",
    "busy",
    1.5,
    True,
    int,
    [1.5],
    ["CONN_RESET", "busy"],
    {"CONN_RESET": 1},
    Severity.ERROR,
]


def _field(make) -> str:
    with pytest.raises(ConfigError) as caught:
        make()
    return caught.value.failure.details["violations"][0]["field"]


def _by_keyword(kind, name, values, *first):
    return [
        pytest.param(
            lambda value=value: kind(*first, **{name: value}),
            f"{kind.__name__}.{name}",
            id=f"{name}={value!r:.20}",
        )
        for value in values
    ]


def _positional(make, path, values):
    return [
        pytest.param(lambda value=value: make(value), path, id=f"{path}={value!r:.20}")
        for value in values
    ]


@each_row(
    ("make", "field"),
    [
        *_by_keyword(Retry, "attempts", [*BAD_COUNTS, None, tenacity.wait_fixed(1)]),
        *_by_keyword(Retry, "max_retry_after", [*BAD_SECONDS, None]),
        *_by_keyword(Retry, "backoff", [5, None, "1", Backoff, tenacity.wait_fixed]),
        *_by_keyword(Retry, "on_result", [5, "empty", ValueError]),
        *_by_keyword(Retry, "budget", [0, 0.2, True, "x"]),
        *_by_keyword(Retry, "rules", [None, [429], 5]),
        *_by_keyword(Rule, "backoff", [5, "1", Backoff]),
        *_by_keyword(RetryBudget, "ratio", [-0.1, NAN, INF, True, "1", None]),
        *_by_keyword(RetryBudget, "floor", [-1, NAN, INF, True, "1", None]),
        *_by_keyword(RetryBudget, "key", ["", 5]),
        *_by_keyword(Breaker, "rate", [0, -1, 1.01, 80, NAN, INF, True, "0.8", None]),
        *_by_keyword(
            Breaker, "window", [*BAD_COUNTS, 30.0, None, timedelta(0), timedelta(seconds=-1)]
        ),
        *_by_keyword(Breaker, "open_for", [*BAD_SECONDS, None]),
        *_by_keyword(Breaker, "probes", [*BAD_COUNTS, None]),
        *_by_keyword(Breaker, "slow_after", [*BAD_SECONDS, 0]),
        *_by_keyword(Breaker, "lease", [*BAD_SECONDS, 0, None]),
        *_by_keyword(Breaker, "key", ["", 5, True]),
        *_by_keyword(Bulkhead, "queue", [-1, 1.0, True, "1"], 1),
        *_by_keyword(Bulkhead, "max_wait", BAD_SECONDS, 1),
        *_by_keyword(Bulkhead, "key", ["", 5], 1),
        *_by_keyword(RateLimit, "per", [*BAD_SECONDS, 0, None], 1),
        *_by_keyword(RateLimit, "max_wait", [*BAD_SECONDS, None], 1),
        *_by_keyword(RateLimit, "key", ["", 5], 1),
        *_by_keyword(Timeout, "thread", [1, None, "yes"], 1),
        *_positional(Timeout, "Timeout.seconds", [*BAD_SECONDS, 0, None]),
        *_positional(Deadline, "Deadline.seconds", [*BAD_SECONDS, 0, None]),
        *_positional(Bulkhead, "Bulkhead.calls", [*BAD_COUNTS, None]),
        *_positional(RateLimit, "RateLimit.calls", [*BAD_COUNTS, None]),
        *_positional(
            Breaker.consecutive, "Breaker.consecutive.failures", [*BAD_COUNTS, None, timedelta(1)]
        ),
        *_positional(
            lambda step: Timeout.escalating(2, step), "Timeout.seconds[1]", [*BAD_SECONDS, 0, None]
        ),
        pytest.param(Timeout.escalating, "Timeout.seconds", id="no step"),
        pytest.param(Fallback, "Fallback.ladder", id="no rung"),
        pytest.param(lambda: Fallback(len, "cache"), "Fallback.ladder[1]", id="no function"),
        pytest.param(
            lambda: Fallback(len, acknowledge=True), "Fallback.acknowledge", id="no question"
        ),
        pytest.param(
            lambda: RetryBudget(ratio=0, floor=0), "RetryBudget.floor", id="nothing allowed"
        ),
        pytest.param(lambda: Retry(rules={429: 5}), "Retry.rules[429]", id="no Rule"),
        pytest.param(
            lambda: Reconnect(rules={429: Rule(backoff=tenacity.wait_fixed(1))}),
            "Reconnect.rules[429].backoff",
            id="a call's schedule for a link",
        ),
    ],
)
def test_a_bad_value_is_refused_by_name(make, field):
    """Negative, NaN, infinite, bool, text, 0 attempts, None where none belongs: a ConfigError with the field's path."""
    assert _field(make) == field


@each_row("value", BAD_WHATS, ids=repr)
def test_what_is_outside_the_vocabulary_is_refused(value):
    """In `on=` and `ignore=` alike; the path names the item that is wrong."""
    for make in (
        lambda: Retry(on=value),
        lambda: Breaker(ignore=value),
        lambda: Fallback(len, on=value),
    ):
        path = _field(make)
        assert path.partition("[")[0] in ("Retry.on", "Breaker.ignore", "Fallback.on")
    if value == ["CONN_RESET", "busy"]:
        assert path == "Fallback.on[1]"


def test_only_a_retry_takes_retry_objects_of_tenacity():
    """They ask for tenacity's own state, which only a Retry has."""
    on = tenacity.retry_if_exception_type(ValueError)
    assert _field(lambda: Breaker(ignore=on)) == "Breaker.ignore[0]"
    assert _field(lambda: Fallback(len, on=on)) == "Fallback.on[0]"
    assert _field(lambda: Retry(rules={on: Rule()})) == "Retry.rules"


@each_row(
    "make",
    [
        Retry,
        RetryBudget,
        Breaker,
        lambda **wrong: Breaker.consecutive(5, **wrong),
        lambda **wrong: Timeout(1, **wrong),
        lambda **wrong: Timeout.escalating(1, **wrong),
        lambda **wrong: Deadline(1, **wrong),
        lambda **wrong: Bulkhead(1, **wrong),
        lambda **wrong: RateLimit(1, **wrong),
        lambda **wrong: Fallback(len, **wrong),
    ],
)
def test_an_unknown_keyword_is_named(make):
    """Python's own TypeError says which word is unknown."""
    with pytest.raises(TypeError, match="max_atempts"):
        make(max_atempts=3)


@pytest.mark.parametrize("kind", [Timeout, Deadline, Bulkhead, RateLimit])
def test_only_what_the_class_is_named_for_is_positional(kind):
    """One positional; everything else by keyword. The others take none at all."""
    with pytest.raises(TypeError):
        kind(1, 1)
    for other in (Retry, RetryBudget, Breaker):
        with pytest.raises(TypeError):
            other(1)


def test_the_error_says_what_was_wanted_and_what_came():
    """One line that can be acted on."""
    with pytest.raises(
        ConfigError,
        match=r'Breaker\.window: wanted a whole number of calls of at least 1, a timedelta, or a text such as "60s", got 30\.0',
    ):
        Breaker(window=30.0)
    with pytest.raises(
        ConfigError,
        match=r"Retry\.attempts: wanted a whole number of at least 1 \(1 is no repeat\)",
    ):
        Retry(attempts=0)


@each_row(
    "kind", [Deadline, Timeout, Bulkhead, RateLimit, Fallback], ids=lambda kind: kind.__name__
)
def test_a_wrong_name_and_a_missing_one_give_each_name_once(kind):
    """Each name once: a missing argument is in the list of those that there are."""
    with pytest.raises(ConfigError) as caught:
        kind(foo=1)
    wanted, _, got = str(caught.value).partition(": wanted ")[2].partition(", got ")
    names = wanted.removeprefix("one of ").split(", ")
    assert len(names) == len(set(names)), wanted
    assert got.startswith("foo=1")
