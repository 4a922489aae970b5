"""docs/reference/evidence.md is younger than most of the code that it speaks of. Rule: see `tests.evidence`."""

from __future__ import annotations

import json

from tests.evidence import ALLOWED, PAGE, ROOMS, STORED, dates, everywhere, gone, sample


KNOWN = json.loads(STORED.read_text())
RENEW = "run its campaign again, put the figures and the date on the page, then `python -m tests.evidence '{}'`"


def test_no_part_is_older_than_the_rooms_it_speaks_of():
    """Of the code that each part's figures were counted with, at least three quarters are as they were then."""
    now = everywhere()
    old = [
        f"{part}: {share:.0%} of {', '.join(rooms)} are no more since {KNOWN[part]['date']}; "
        + RENEW.format(part)
        for part, rooms in ROOMS.items()
        if (share := gone(KNOWN[part]["lines"].split(), now)) > ALLOWED
    ]
    assert old == []


def test_every_part_with_figures_is_judged():
    """A part that states a day is among those judged, and what is stored of its code is of that day."""
    assert dict(dates()) == {part: stored["date"] for part, stored in KNOWN.items()}
    assert KNOWN.keys() == ROOMS.keys()


def test_changes_are_seen_and_words_are_not():
    """Other lines count; comments, docstrings, order and indentation do not."""
    code = "\n".join(f"value_{number} = compute({number})" for number in range(4000))
    words = '"""Other words."""\n# a comment that says much\n' + "\n".join(
        f"    {line}" for line in reversed(code.splitlines())
    )
    half = "\n".join(code.splitlines()[:2000])
    of = {"a": code, "b": words, "c": half, "d": code.replace("compute", "calculate")}
    then, moved, less, other = (sample([name], of.__getitem__) for name in "abcd")
    assert gone(then, moved) == 0
    assert 0.4 < gone(then, less) < 0.6
    assert gone(then, other) == 1
    assert gone(less, then) == 0
    assert len(then) > 400


def test_the_page_states_the_rule():
    """A reader learns how old the figures may be."""
    assert "more than a quarter" in PAGE.read_text().partition("\n|")[0]
