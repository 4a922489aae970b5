"""The ledger of `demo --crash`: a kill between a deed and its report is no error, and everything else that is missing is."""

from __future__ import annotations

import pytest

from resilient_bridge.cli.demo_book import Book, book_lines


FRAMES = (1, 2, 2)


def balanced():
    """Three sends, the second told twice and the third never reported; three messages, one of them again after a crash."""
    book = Book()
    book.accepted(1)
    book.settled("1", "confirmed")
    book.accepted(2)
    assert book.took_over([["2", "written"], ["3", "queued"]]) == (1, 1)
    assert not book.settled("2", "confirmed")
    assert book.settled("3", "confirmed")
    for n in (1, 2, 3):
        book.ledger.pushed(n)
        book.applied(n)
        book.got(n, False, False)
    book.got(3, True, False)
    book.ready(True, None)
    book.ready(False, "RECOVERED")
    return book


def totals_of(book):
    return book.totals(FRAMES) | {"processes": 2, "kills": 1, "crashes": ["busy"]}


def test_what_was_accepted_and_not_reported_is_recovered():
    """The bridge applied it, or the next process found it: it counts, and breaks nothing."""
    book = balanced()
    book.applied(4)
    totals = totals_of(book)
    assert totals["broken"] == []
    assert (totals["sent"], totals["applied"], totals["recovered"]) == (4, 4, 2)
    assert (totals["lost"], totals["unknown"], totals["resent"], totals["repeated"]) == (0, 0, 1, 1)
    assert totals["verdicts"] == {"RECOVERED": 1, "GAP": 0, "UNKNOWN": 0}


@pytest.mark.parametrize("state", ["queued", "written", "gone"])
def test_what_was_accepted_and_never_applied_is_lost(state):
    """Whatever a receipt said of it last, as long as that was no outcome."""
    book = balanced()
    book.accepted(9)
    book.settled("9", state)
    totals = totals_of(book)
    assert totals["lost"] == 1
    assert totals["broken"] == ["forgotten: accepted, and neither applied nor told of: 9"]


def test_an_outcome_that_was_told_is_no_loss():
    """`unknown` was told, and is counted as that."""
    book = balanced()
    book.accepted(9)
    book.settled("9", "unknown")
    totals = totals_of(book)
    assert (totals["unknown"], totals["lost"], totals["broken"]) == (1, 0, [])


def test_an_outcome_that_nobody_remembers_is_unknown():
    """The bridge has it, and neither a process nor the store can say so."""
    book = balanced()
    book.accepted(9)
    book.settled("9", "gone")
    book.applied(9)
    totals = totals_of(book)
    assert (totals["unknown"], totals["lost"], totals["broken"]) == (1, 0, [])


def _apply_again(book):
    book.applied(2)


def _apply_late(book):
    for n in (9, 8):
        book.accepted(n)
        book.settled(str(n), "confirmed")
        book.applied(n)


def _repeat(book):
    book.got(2, False, False)


def _lose(book):
    book.ledger.pushed(4)


def _confirm_in_vain(book):
    book.accepted(9)
    book.settled("9", "confirmed")


def _join_without_verdict(book):
    book.ready(False, None)


@pytest.mark.parametrize(
    ("wrong", "count", "said"),
    [
        (_apply_again, "duplicated", "reapplied"),
        (_apply_late, "reordered", "disordered"),
        (_repeat, "duplicated", "duplicated"),
        (_lose, "lost", "lost"),
        (_confirm_in_vain, "lost", "unapplied"),
        (_join_without_verdict, None, "unjudged"),
    ],
)
def test_each_broken_promise_is_found(wrong, count, said):
    """Applied twice or late, delivered twice without a flag, lost, confirmed and not applied, joined without a verdict."""
    book = balanced()
    wrong(book)
    totals = totals_of(book)
    assert [line.partition(":")[0] for line in totals["broken"]] == [said]
    assert count is None or totals[count] == 1
    assert book_lines(totals)[-2] == "BROKEN"


def test_what_is_open_is_told_apart_by_the_bridge():
    """At a kill: accepted and not at the bridge, and there without a confirmation."""
    book = balanced()
    for n in (5, 6, 7):
        book.accepted(n)
    book.applied(5)
    assert book.open() == (2, 1)
    assert book.untold == [5, 6, 7]


def test_the_lines_say_what_was_kept():
    """Processes, kills by kind, both directions, and the last word."""
    lines = book_lines(totals_of(balanced()))
    assert "2 on one store, 1 killed: busy 1" in lines[2]
    assert "accepted 3 (1 of them recovered" in lines[3]
    assert "lost 0" in lines[-2]
    assert lines[-1].startswith("kept: ")
