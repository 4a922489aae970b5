"""The text of `policy.explain()`: the order of the layers, the worst case in two numbers, and warnings."""

from __future__ import annotations

import math
import warnings

import pytest

import resilient_bridge as rb
from tests.rows import each_row


def test_it_reads_from_the_outside_in():
    """One line a layer, in order, then the worst case."""
    policy = rb.Policy(rb.Deadline(60), rb.Retry(attempts=4), rb.Breaker(), rb.Timeout(10))
    lines = str(policy.explain()).splitlines()
    assert lines[0] == "outermost first:"
    assert [line.split(":")[0] for line in lines[1:5]] == [
        "1. Deadline(60)",
        "2. Retry(attempts=4)",
        "3. Breaker()",
        "4. Timeout(10)",
    ]
    assert lines[5] == "worst case: 4 calls, 60 s"


EXACT = rb.Backoff.steps(1, 2, 5)


@each_row(
    ("layers", "calls", "seconds"),
    [
        ([rb.Retry(attempts=4)], 4, math.inf),
        ([rb.Breaker()], 1, math.inf),
        ([rb.Timeout(10)], 1, 10),
        ([rb.Retry(attempts=3, backoff=EXACT, max_retry_after=0), rb.Timeout(10)], 3, 33),
        (
            [
                rb.Retry(attempts=3, backoff=EXACT, max_retry_after=0),
                rb.Timeout.escalating(2, 5, 30),
            ],
            3,
            40,
        ),
        ([rb.Retry(attempts=3, max_retry_after=100), rb.Timeout(10)], 3, 30 + 2 * 100),
        ([rb.Deadline(60), rb.Retry(attempts=3, max_retry_after=100), rb.Timeout(10)], 3, 60),
        ([rb.Retry(attempts=2, rules={429: rb.Rule(attempts=6)})], 6, math.inf),
        ([rb.Retry(attempts=2, backoff=lambda _: 1), rb.Timeout(5)], 2, math.inf),
    ],
    ids=repr,
)
def test_the_worst_case(layers, calls, seconds):
    """Every attempt takes its whole time limit, and the server asks for the longest wait allowed; inf without a bound."""
    explained = rb.Policy(*layers).explain()
    assert (explained.max_calls, explained.max_seconds) == (calls, pytest.approx(seconds))


def test_a_missing_time_limit_is_shown():
    """`resilient` has none, and says so."""
    wanted = f"{rb.Retry().attempts} calls, no limit to the time"
    assert wanted in str(rb.resilient.explain())


def test_warnings_are_part_of_it():
    """The warnings raised when the policy was built are part of it."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        policy = rb.Policy(rb.Breaker(), rb.Retry())
    assert [warning.category for warning in warned] == [UserWarning]
    assert "Breaker outside of Retry" in str(policy.explain())
    assert policy.explain().warnings[0] in str(warned[0].message)


def test_it_is_a_value():
    """Equal policies explain equally."""
    assert rb.resilient.explain() == rb.Policy(*rb.resilient.layers).explain()
