"""The queue between the wire and the reader."""

from __future__ import annotations

from resilient_bridge.bridge import Inbox as InboxPolicy
from resilient_bridge.bridge import Verdict
from resilient_bridge.protocol import Gap, Message
from tests.internals.protocol import Inbox
from tests.rows import each_row


def _filled(count, size=10, **policy):
    inbox = Inbox(InboxPolicy(**policy))
    for n in range(count):
        inbox.put(Message("a", str(n), None, {}), size, None)
    return inbox


@each_row(
    ("count", "size", "full", "overfull", "room"),
    [
        (5, 1, False, False, True), (6, 1, False, False, True), (7, 1, False, False, False), (8, 1, True, False, False),
        (15, 1, True, False, False), (16, 1, True, True, False),
        (3, 25, False, False, True), (4, 25, True, False, False), (8, 25, True, True, False),
        (0, 0, False, False, True),
    ],
)  # fmt: skip
def test_the_bound_is_by_count_and_by_bytes(count, size, full, overfull, room):
    """8 messages or 100 bytes, whichever is first; overfull at twice that; room again at three quarters."""
    inbox = _filled(count, size, max_messages=8, max_bytes=100)
    assert (inbox.is_full, inbox.is_overfull, inbox.has_room) == (full, overfull, room)


def test_order_and_bytes_are_preserved():
    """First in, first out; the bytes go with the messages."""
    inbox = _filled(3, 7)
    assert [inbox.take()[0].id for _ in range(3)] == ["0", "1", "2"]
    assert (inbox.bytes, len(inbox), inbox.take()) == (0, 0, None)


def test_a_gap_stands_at_its_position():
    """It is met between the messages around it, passed once, and takes no bytes."""
    inbox = _filled(1)
    gap = Gap(Verdict.GAP, None, None, "truncated")
    inbox.put_gap(gap)
    inbox.put(Message("b", None, None, {}), 10, None)
    assert (inbox.peek_gap(), inbox.bytes, len(inbox)) == (None, 20, 3)
    inbox.take()
    assert inbox.peek_gap() is gap
    inbox.pass_gap()
    assert inbox.peek_gap() is None
    assert inbox.take()[0].type == "b"
