"""The sliding window of circuits, retry budgets and alerts, against the whole history of what it counted."""

from __future__ import annotations

from math import floor

from hypothesis import given
from hypothesis import strategies as st

from tests.internals.values import Window


WAITS = st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0, 3.0, 4.75, 5.0, 20.0, -2.0])


@given(steps=st.lists(st.tuples(WAITS, st.integers(0, 2)), max_size=60))
def test_a_bucket_expires_as_a_whole(steps):
    """Of 10 buckets of half a second the newest and the 9 before; a time that goes back counts as the newest."""
    window, now, newest, history = Window(5.0, 10), 100.25, 0, []
    for wait, outcome in steps:
        now += wait
        newest = max(newest, floor(now / 0.5))
        if now >= window.ends:
            window.turn(now)
        if outcome:
            window.count(failed=outcome - 1)
            history.append((newest, outcome - 1))
        held = [failed for number, failed in history if number > newest - 10]
        assert (window.seen, window.failed) == (len(held), sum(held))
        assert window.ends == (newest + 1) * 0.5


def test_what_is_taken_back_is_the_newest():
    """It had expired last; with nothing counted nothing is taken back."""
    window = Window(10.0, 10)
    window.take_back()
    for second in (1.0, 4.0):
        window.turn(second)
        window.count()
    window.turn(9.0)
    window.take_back()
    window.turn(10.5)
    assert window.seen == 1
    window.turn(11.0)
    assert window.seen == 0
    window.take_back()
    assert window.seen == 0
