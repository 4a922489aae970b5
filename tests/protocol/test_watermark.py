"""The position of a session: bounded, made of what the server said, and what to ask for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from resilient_bridge.protocol import Watermark


def _stamp(seconds, form="%Y-%m-%dT%H:%M:%SZ"):
    return (datetime(2026, 3, 20, 14, tzinfo=UTC) + timedelta(seconds=seconds)).strftime(form)


def _mark(watermark, n, *, key=True, stamp=None, mono=0.0, text=None):
    identity = ("a", str(n)) if key else None
    watermark.accept(identity, text or f'{{"type":"a","payload":{{"n":{n}}}}}', stamp, mono)


def test_the_anchor_is_the_last_message_with_an_id():
    """Id-less messages after it come along, oldest first, to be compared."""
    watermark = Watermark("s")
    assert watermark.anchor() == (None, [])
    for n, key in enumerate([False, True, True, False, False]):
        _mark(watermark, n, key=key)
    anchor, after = watermark.anchor()
    assert anchor.key == ("a", "2")
    assert [mark.text for mark in after] == [mark.text for mark in watermark.tail[-2:]]


def test_keys_are_type_and_id():
    """One id serves two messages (`tool_call`, then `approval_required`): an id alone is not unique."""
    watermark = Watermark("s")
    watermark.accept(("tool_call", "1"), "x", None, 0.0)
    assert ("tool_call", "1") in watermark
    assert ("approval_required", "1") not in watermark
    assert None not in watermark


def test_a_missing_timestamp_inherits_the_one_before():
    """Id-less frames without a stamp do not lose the place; the raw text is kept as the server printed it."""
    watermark = Watermark("s")
    _mark(watermark, 1, stamp=_stamp(5))
    _mark(watermark, 2)
    assert watermark.tail[-1].stamp == _stamp(5)
    assert watermark.last_timestamp == datetime(2026, 3, 20, 14, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize("size", [10, 20_000])
def test_the_tail_is_bounded_by_count_and_bytes(size):
    """At most 2,048 messages and 16 MiB, however many were accepted; the keys go with them."""
    watermark = Watermark("s")
    for n in range(5_000):
        _mark(watermark, n, text="x" * size)
    assert len(watermark.tail) <= 2_048
    assert sum(len(mark.text) for mark in watermark.tail) <= 16 * 2**20
    assert len(watermark.by_key) == len(watermark.tail)
    assert ("a", "4999") in watermark
    assert ("a", "0") not in watermark
    assert watermark.accepted == 5_000


def test_the_tail_ages_with_deliveries_and_not_with_the_outage():
    """30 minutes are counted back from the last delivery; a link that is down for a day forgets nothing."""
    watermark = Watermark("s")
    for n, mono in enumerate([0.0, 600.0, 1_799.0]):
        _mark(watermark, n, mono=mono)
    assert len(watermark.tail) == 3
    _mark(watermark, 3, mono=1_801.0)
    assert [mark.key[1] for mark in watermark.tail] == ["1", "2", "3"]
    _mark(watermark, 4, mono=100_000.0)
    assert [mark.key[1] for mark in watermark.tail] == ["4"]


def test_one_huge_message_is_still_a_position():
    """The newest message is kept whatever its size: without it there is no anchor."""
    watermark = Watermark("s")
    _mark(watermark, 1, text="x" * 17 * 2**20)
    assert watermark.anchor()[0].key == ("a", "1")


@pytest.mark.requirement("R17")
def test_since_is_the_last_timestamp_minus_the_overlap():
    """In the server's own format, so that the answer holds something we already have (threat 8)."""
    watermark = Watermark("s")
    assert watermark.since(300, None) is None
    _mark(watermark, 1, stamp=_stamp(600))
    assert watermark.since(300, None) == _stamp(300)
    watermark = Watermark("s")
    _mark(watermark, 1, stamp=_stamp(600, "%Y-%m-%d %H:%M:%S.123+00:00"))
    assert watermark.since(300, None) == _stamp(300, "%Y-%m-%d %H:%M:%S.123+00:00")


def test_a_clock_that_stepped_back_lowers_since_and_never_the_last():
    """Threat 11: the smallest of the last 64 stamps counts; after 64 later messages the regression is over."""
    watermark = Watermark("s")
    _mark(watermark, 1, stamp=_stamp(1_000))
    _mark(watermark, 2, stamp=_stamp(400))
    _mark(watermark, 3, stamp=_stamp(1_001))
    assert watermark.since(300, None) == _stamp(100)
    for n in range(63):
        _mark(watermark, 4 + n, stamp=_stamp(1_002 + n))
    assert watermark.since(300, None) == _stamp(701)


def test_a_timestamp_beyond_the_servers_own_time_moves_nothing():
    """Threat 9: the year 9999 is not believed; a server without a clock of its own is."""
    watermark = Watermark("s")
    _mark(watermark, 1, stamp=_stamp(600))
    _mark(watermark, 2, stamp="9999-12-31T23:59:59Z")
    now = datetime(2026, 3, 20, 14, 10, tzinfo=UTC)
    assert watermark.since(300, now) == _stamp(300)
    only = Watermark("s")
    _mark(only, 1, stamp="9999-12-31T23:59:59Z")
    assert only.since(300, now) is None
    assert only.since(300, None) == "9999-12-31T23:54:59Z"


@pytest.mark.parametrize(
    "stamp", ["0001-01-01T00:00:10Z", "yesterday", "0001-01-01T00:00:00+14:00"]
)
def test_a_timestamp_that_cannot_be_reckoned_with_asks_for_everything(stamp):
    """Threat 10: no overflow, no error, no message lost: `since` is left out."""
    watermark = Watermark("s")
    _mark(watermark, 1, stamp=stamp)
    assert watermark.since(300, None) is None
    assert ("a", "1") in watermark


def test_1970_asks_for_more_and_not_for_less():
    """Threat 9: an ancient stamp lowers since; later events still arrive."""
    watermark = Watermark("s")
    _mark(watermark, 1, stamp="1970-01-01T00:10:00Z")
    _mark(watermark, 2, stamp=_stamp(600))
    assert watermark.since(300, None) == "1970-01-01T00:05:00Z"


def test_a_new_process_forgets_what_was_never_taken():
    """Of five accepted messages the consumer asked past the second: the replay has to bring the others again."""
    watermark = Watermark("s")
    for n in range(5):
        _mark(watermark, n, stamp=_stamp(n))
    for _ in range(3):
        watermark.take()
        watermark.hand()
    watermark.rollback()
    assert [mark.key[1] for mark in watermark.tail] == ["0", "1"]
    assert (watermark.accepted, watermark.taken, watermark.handed) == (2, 2, 2)
    assert watermark.last_timestamp == datetime(2026, 3, 20, 14, 0, 1, tzinfo=UTC)
    assert ("a", "2") not in watermark


def test_a_consumer_who_lags_behind_the_tail_leaves_no_position():
    """What he had not taken fills the whole tail: nothing certain is left, so everything is asked for."""
    watermark = Watermark("s")
    for n in range(3_000):
        _mark(watermark, n, stamp=_stamp(n))
    watermark.rollback()
    assert watermark.tail == ()
    assert watermark.anchor() == (None, [])
    assert watermark.since(300, None) is None
