"""How many lines of a kind are written, and that the rest is told once."""

from __future__ import annotations

from tests.internals.telemetry import LineRate


def test_the_first_lines_of_an_interval_are_written_and_the_rest_is_counted():
    """SEC3: each kind for itself; the count comes when the interval is over, and once."""
    rate = LineRate(3)
    assert [rate.admits("junk", 0.1 * n) for n in range(10)] == [True] * 3 + [False] * 7
    assert rate.admits("other", 1)
    assert rate.next_end == 60
    assert rate.omitted(59.9) == []
    assert rate.omitted(60) == [("junk", 7)]
    assert rate.omitted(60) == []
    assert rate.next_end is None
    assert rate.admits("junk", 61)


def test_a_line_has_a_number_of_its_own():
    """Of what is refused one a minute is written; `at_end` ends the interval before its time."""
    rate = LineRate(200)
    assert [rate.admits("refused", 0, most=1) for _ in range(4)] == [True, False, False, False]
    assert rate.omitted(1, at_end=True) == [("refused", 3)]


def test_an_interval_that_omitted_nothing_is_forgotten():
    """A new one begins with the next line, and nothing grows."""
    rate = LineRate(1)
    for minute in range(0, 600, 60):
        assert rate.admits("line", minute)
        assert rate.next_end is None
    assert rate.omitted(1_000) == []
