"""Replay meets delivery: the cut in an answer, and the seam between answer and side buffer."""

from __future__ import annotations

import itertools
import json
import time

import pytest

from resilient_bridge.protocol import Message, Watermark
from tests.internals.protocol import Item, cut, join_live, without_repeats
from tests.rows import each_row


def item(name, n=0):
    """`A1`: a message with id; `x`: an id-less frame that looks like every other `x`."""
    identity = name if name[0].isupper() else None
    body = {"type": "a", "payload": {"name": name, "n": n}}
    return Item(Message("a", identity, None, body["payload"]), json.dumps(body))


def items(names):
    return [item(name) for name in names.split()]


def tail(names):
    watermark = Watermark("s")
    for each in items(names):
        watermark.accept(each.key, each.text, None, 0.0)
    return watermark


@each_row(
    ("delivered", "answer", "found", "news"),
    [
        ("A x y", "A x y z", "anchor", "z"),
        ("A x y", "A x y", "anchor", ""),
        ("A x y", "Z A x y B z", "anchor", "B z"),
        ("A x x", "A x x x", "anchor", "x"),  # a real repeat is news
        (
            "A x y",
            "A x",
            "anchor",
            "",
        ),  # the answer ends before our tail: it agrees as far as it goes
        ("A x y", "A", "anchor", ""),
        ("A B", "B C", "anchor", "C"),
        ("A B", "A C", "absent", None),  # the *last* key is the anchor
        ("A x y", "x y z", "absent", None),
        ("A x", "", "absent", None),
        ("A x y", "A y z", "mismatch", None),
        ("A x y", "A B z", "mismatch", None),
        ("x y", "x y z", "absent", None),  # nothing to anchor on
        ("", "A", "absent", None),
    ],
)
def test_the_cut_is_behind_what_was_delivered(delivered, answer, found, news):
    """Anchored on the last unique key; id-less frames behind it must agree as far as both go."""
    sequence = items(answer)
    result = cut(sequence, tail(delivered))
    assert result.found == found
    if news is not None:
        assert [each.text for each in sequence[result.at :]] == [each.text for each in items(news)]


def test_texts_compare_by_content():
    """Another order of keys or other spaces are the same message: objects and strings of one server agree."""
    watermark = Watermark("s")
    watermark.accept(("a", "A"), '{"type":"a","id":"A"}', None, 0.0)
    watermark.accept(None, '{"type":"a","payload":{"x":1,"y":2}}', None, 0.0)
    again = Item(Message("a", None, None, {}), '{ "payload": {"y": 2, "x": 1}, "type": "a" }')
    assert cut([item("A"), again, item("B")], watermark)[:2] == ("anchor", 2)


def test_what_may_have_been_a_repeat_need_not_be_in_the_answer():
    """A frame delivered with a flag may stand in our tail twice: the server's log, which holds it once, agrees."""
    watermark = tail("A x")
    watermark.accept(None, item("x").text, None, 0.0, doubtful=True)
    watermark.accept(None, item("y").text, None, 0.0)
    sequence = items("A x y z")
    assert cut(sequence, watermark)[:2] == ("anchor", 3)
    assert cut(items("A x x y z"), watermark)[:2] == ("anchor", 4)


def test_where_two_cuts_are_possible_the_earlier_is_taken():
    """Our tail ends with what may be a repeat: the same frame in the answer may be it or a new one, so it is not skipped."""
    watermark = tail("A x")
    watermark.accept(None, item("x").text, None, 0.0, doubtful=True)
    assert cut(items("A x x y"), watermark)[:3] == ("anchor", 2, 3)
    assert cut(items("A x y"), watermark)[:3] == ("anchor", 2, 2)


@pytest.mark.parametrize(
    ("names", "unique"),
    [("A B A C", "A B C"), ("A A A", "A"), ("x x x", "x x x"), ("A x A x", "A x x"), ("", "")],
)
def test_a_key_is_retained_once(names, unique):
    """Threat 7: a server that repeats an id in one answer is heard once; id-less frames may be real repeats."""
    assert [each.text for each in without_repeats(items(names))] == [
        each.text for each in items(unique)
    ]


def _merged(replay, live, before, *, proven=True):
    """What is delivered: (texts in order, how many of them are flagged)."""
    join = join_live(replay, live, before, proven=proven)
    return [each.text for each in ([] if join.subsumed else replay)] + [
        each.text for each in live[join.skip :]
    ], join.doubtful


@each_row(
    ("answer", "side", "before", "whole"),
    [
        ("A B", "", 0, "A B"),
        ("A B", "C", 0, "A B C"),
        ("A B", "B C", 1, "A B C"),
        ("A B", "A B C", 2, "A B C"),
        (
            "A x",
            "x x",
            1,
            "A x x",
        ),  # one x arrived before the answer and is in it, the other came after it
        ("A x x", "x x", 2, "A x x"),
        ("A x x", "x x", 0, "A x x x x"),
        (
            "x y",
            "w x y z",
            3,
            "w x y z",
        ),  # the server cut its answer short: the side buffer holds all of it
        ("x x", "x x x x", 3, "x x x x"),
        ("B", "A B C", 2, "A B C"),
        ("", "A B", 2, "A B"),
        ("", "", 0, ""),
    ],
)
@each_row("proven", [True, False])
def test_answer_and_side_buffer_meet_without_a_seam(answer, side, before, whole, proven):
    """What reached us before an in-order answer is at its end: each message once, none lost, none flagged."""
    assert _merged(items(answer), items(side), before, proven=proven) == (
        [each.text for each in items(whole)],
        0,
    )


@each_row("length", range(1, 5))
@each_row("buffer", [1, 2, 4])
def test_an_answer_in_order_is_never_guessed_about(length, buffer):
    """All logs over {x, y}, all windows of an honest server: the whole log is delivered, each message once."""
    for log in itertools.product("xy", repeat=length):
        whole = [item(name) for name in log]
        for end in range(length + 1):
            for start in range(end + 1):
                held = max(0, end - buffer)
                merged, doubtful = _merged(whole[held:end], whole[start:], end - start)
                assert merged == [
                    each.text for each in whole[min(held, start) if held < end else start :]
                ]
                assert doubtful == 0


@pytest.mark.parametrize("length", range(1, 6))
def test_a_snapshot_of_unknown_age_never_loses(length):
    """All logs over {x, y}: whatever part of the side buffer was in it, the log is in what is delivered, in order."""
    for log in itertools.product("xy", repeat=length):
        whole = [item(name) for name in log]
        for end in range(length + 1):
            for start in range(end + 1):
                merged, doubtful = _merged(whole[:end], whole[start:], None)
                assert len(merged) - length <= doubtful, "every repeat is flagged"
                rest = iter(merged)
                assert all(each.text in rest for each in whole), "the log, with repeats in between"


def test_without_proof_nothing_is_repeated():
    """Under a GAP the longest overlap is taken: a loss is told anyway, a repeat or a jump back would not be."""
    assert _merged(items("x x"), items("x x x"), None, proven=False) == ([item("x").text] * 3, 0)
    texts, doubtful = _merged(items("x x"), items("x x x"), None, proven=True)
    assert (len(texts), doubtful) == (5, 3)


@pytest.mark.parametrize("before", [None, "all"])
def test_the_seam_costs_linear_time(before):
    """Threat 12: equal id-less frames in answer and side buffer, four times as many, cost about four times as much."""

    def seconds(count):
        replay, live = (
            [item("A"), *(item("x") for _ in range(count))],
            [item("x") for _ in range(count)],
        )
        started = time.process_time()
        join_live(replay, live, None if before is None else count, proven=True)
        return time.process_time() - started

    seconds(500)
    assert seconds(2_000) < 9 * max(min(seconds(500) for _ in range(3)), 0.002)
