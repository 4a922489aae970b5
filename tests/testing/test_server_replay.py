"""The replay buffer: bounded, inclusive, stable; and the seed's own, with each of its bugs."""

from __future__ import annotations

import json

import pytest

from tests.internals.testing import Entry, ReplayBuffer, SeedBuffer, ordered, replay_frame


def fill(buffer, *entries, limit=1_000_000, age=1800.0):
    """Append (text, stamp, at) entries of 10 bytes each."""
    for text, stamp, at in entries:
        buffer.append(Entry(text, 10, stamp, 1, at), limit=limit, age=age)


@pytest.mark.requirement("R14")
def test_since_is_inclusive_and_keeps_equal_timestamps_in_order():
    """Of five messages with one timestamp none is left out, and they come as they were pushed."""
    buffer = ReplayBuffer()
    fill(buffer, ("a", 1_000, 0), *((f"b{i}", 2_000, 0) for i in range(5)), ("c", 3_000, 0))
    assert buffer.since(2_000) == ["b0", "b1", "b2", "b3", "b4", "c"]
    assert buffer.since(2_000, exclusive=True) == ["c"]


@pytest.mark.requirement("R14")
def test_an_overflow_drops_only_the_oldest():
    """With room for three the newest three stay; the seed's loop would have emptied it."""
    buffer = ReplayBuffer()
    fill(buffer, *((str(i), i, 0) for i in range(10)), limit=30)
    assert buffer.since(None) == ["7", "8", "9"]


@pytest.mark.requirement("R14")
def test_what_is_older_than_the_age_is_dropped():
    """30 minutes are inclusive, a moment more is too old, with or without a later message."""
    buffer = ReplayBuffer()
    fill(buffer, ("old", 0, 0.0), ("new", 1, 1.0))
    buffer.trim(1800.0, limit=1000, age=1800.0)
    assert len(buffer) == 2
    buffer.trim(1800.1, limit=1000, age=1800.0)
    assert buffer.since(None) == ["new"]


def test_a_message_larger_than_the_buffer_is_not_buffered():
    """The bound holds even if it leaves nothing."""
    buffer = ReplayBuffer()
    fill(buffer, ("a", 0, 0), ("b", 0, 0), limit=9)
    assert len(buffer) == 0


@pytest.mark.requirement("R14")
def test_a_clock_that_steps_back_does_not_reorder():
    """The order is that of pushing; `since` filters and never sorts."""
    buffer = ReplayBuffer()
    fill(buffer, ("a", 5_000, 0), ("b", 1_000, 0), ("c", 6_000, 0))
    assert buffer.since(1_000) == ["a", "b", "c"]
    assert buffer.since(5_000) == ["a", "c"]


@pytest.mark.requirement("R14")
def test_a_finer_since_does_not_hide_a_coarser_stamp():
    """A stamp printed as second 5 is found by since 5.5: it may have been made after it."""
    buffer = ReplayBuffer()
    buffer.append(Entry("a", 10, 5_000, 1_000, 0), limit=100, age=10)
    assert buffer.since(5_500) == ["a"]
    assert buffer.since(6_000) == []


def test_keep_caps_the_count():
    """A test can make the buffer forget, now and for what comes."""
    buffer = ReplayBuffer()
    fill(buffer, ("a", 0, 0), ("b", 0, 0))
    buffer.keep = 1
    fill(buffer, ("c", 0, 0))
    assert buffer.since(None) == ["c"]


def test_the_seeds_buffer_is_emptied_by_an_overflow():
    """Its size is measured once: 100 bytes of text in a bound of 100 leave nothing, not something."""
    buffer = SeedBuffer()
    for _ in range(4):
        buffer.append("x" * 20, limit=100)
    assert len(buffer.since(None)) == 4
    buffer.append("x" * 20, limit=100)
    assert buffer.since(None) == []


def test_the_seeds_size_is_that_of_the_printed_array():
    """`JSON.stringify(buffer).length`, quotes and commas included, is what is compared."""
    texts = ['{"a":"ü"}', "plain", '"']
    exact = len(json.dumps(texts, ensure_ascii=False, separators=(",", ":")))
    buffer = SeedBuffer(texts[:2])
    buffer.append(texts[2], limit=exact)
    assert len(buffer.since(None)) == 3
    buffer = SeedBuffer(texts[:2])
    buffer.append(texts[2], limit=exact - 1)
    assert buffer.since(None) == []


def test_the_seeds_since_finds_nothing():
    """Text has no timestamp, so every comparison is false."""
    assert SeedBuffer(["a"]).since(0) == []


@pytest.mark.parametrize("as_strings", [False, True])
def test_an_answer_is_one_frame_around_what_was_sent(as_strings):
    """Entries are the messages, as objects or as the text they were."""
    texts = ['{"type":"a"}', '{"type":"b"}']
    answer = json.loads(replay_frame(texts, as_strings=as_strings, ident="i", stamp="t"))
    messages = texts if as_strings else [{"type": "a"}, {"type": "b"}]
    assert answer == {
        "type": "replay_buffer",
        "id": "i",
        "timestamp": "t",
        "payload": {"messages": messages},
    }
    assert set(json.loads(replay_frame([], as_strings=as_strings, ident=None, stamp=None))) == {
        "type",
        "payload",
    }


@pytest.mark.parametrize(
    ("order", "found"),
    [("live", "b1 a1 c1 a2"), ("timestamp", "c1 a1 b1 a2"), ("type", "a1 b1 c1 a2")],
)
def test_b02_an_answer_may_be_sorted(order, found):
    """By timestamp, newest first where it is equal, or by timestamp and type; otherwise as it was said."""
    texts = [
        json.dumps({"type": name[0], "timestamp": name[1]}) for name in ("b1", "a1", "c1", "a2")
    ]
    parts = [json.loads(text) for text in ordered(texts, order)]
    assert " ".join(each["type"] + each["timestamp"] for each in parts) == found
