"""Server-sent events to the letter of the WHATWG text, wherever the bytes are split."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_bridge.failure import Failure, ProtocolError
from resilient_bridge.protocol import ServerSentEvent
from tests.internals.protocol import EventStreamParser
from tests.rows import each_row


CUT = Failure.of("CONN_RESET")


def parsed(*pieces, parser=None, found=None):
    """All events of a stream that comes in these pieces."""
    parser, found = parser or EventStreamParser(), [] if found is None else found
    for piece in pieces:
        parser.receive(piece)
        while (event := parser.next_event()) is not None:
            found.append(event)
    return found


def event(data="", type="message", id="", retry=None, has_id=None):
    has_id = bool(id) if has_id is None else has_id
    return ServerSentEvent(type=type, data=data, id=id, retry=retry, has_id=has_id)


SPEC = {
    "one message": (b"data: This is the first message.\n\n", [event("This is the first message.")]),
    "two lines": (b"data: YHOO\ndata: +2\ndata: 10\n\n", [event("YHOO\n+2\n10")]),
    "two types": (b"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n", [event("73857293", "add"), event("2153", "remove")]),
    "four blocks: a comment, an id, an id that is reset, a space that stays": (b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n", [event("first event", id="1"), event("second event"), event(" third event")]),
    "fields without a value; the last block has no blank line": (b"data\n\ndata\ndata\n\ndata:\n", [event(""), event("\n")]),
    "the space after the colon is ignored": (b"data:test\n\ndata: test\n\n", [event("test"), event("test")]),
    "one byte order mark is dropped": (b"\xef\xbb\xbfdata: a\n\n", [event("a")]),
    "a second one is part of a field's name": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [event("b")]),
    "a byte order mark later is text": (b"data: a\n\ndata:\xef\xbb\xbfb\n\n", [event("a"), event("\ufeffb")]),
    "carriage returns": (b"data: a\rdata: b\r\rdata: c\r\r", [event("a\nb"), event("c")]),
    "pairs": (b"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", [event("a\nb"), event("c")]),
    "all three ends of a line": (b"data: a\r\ndata: b\rdata: c\n\r\n", [event("a\nb\nc")]),
    "LF CR is two ends": (b"data: a\n\rdata: b\n\n", [event("a"), event("b")]),
    "other separators are text": (b"data: a\x0b\x0c\x1c\xc2\x85\xe2\x80\xa8b\n\n", [event("a\x0b\x0c\x1c\x85\u2028b")]),
    "an id stays until the next": (b"id: 1\ndata: a\n\ndata: b\n\nid: 2\ndata: c\n\n", [event("a", id="1"), event("b", id="1", has_id=False), event("c", id="2")]),
    "an id with NUL is ignored": (b"id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n", [event("a", id="1"), event("b", id="1", has_id=False)]),
    "an id without data counts": (b"id: 7\n\ndata: a\n\n", [event("a", id="7", has_id=False)]),
    "a type without data is forgotten": (b"event: add\n\ndata: a\n\n", [event("a")]),
    "the last type wins, an empty one is message": (b"event: a\nevent:\ndata: x\n\n", [event("x")]),
    "an unknown field is ignored": (b"cheese: 1\ndata: a\nDATA: b\n data: c\n\n", [event("a")]),
    "a line without a colon is a field": (b"datagram\ndata: a\n\n", [event("a")]),
    "a comment is ignored inside of an event": (b"data: a\n:data: b\n:\ndata: c\n\n", [event("a\nc")]),
    "colons after the first are the value's": (b"data: a:b: c\n\n", [event("a:b: c")]),
    "bytes that are no UTF-8 are replaced": (b"data: a\xff\xe2\x82b\xc3\n\n", [event("a\ufffd\ufffdb\ufffd")]),
    "NUL is text": (b"data: a\0b\n\n", [event("a\0b")]),
    "blank lines alone are nothing": (b"\n\n\r\n\r\r", []),
    "a retry": (b"retry: 1500\ndata: a\n\ndata: b\n\n", [event("a", retry=1500), event("b")]),
    "a retry of other than digits is ignored": (b"retry: 1x\nretry: -1\nretry: 1.5\nretry: \xd9\xa1\nretry:\nretry\nretry:  2\ndata: a\n\n", [event("a")]),
}  # fmt: skip


@each_row("name", SPEC)
def test_the_stream_is_read_as_the_standard_says(name):
    """Each example of the standard, and each rule of its text, gives the events it says, in one piece and byte by byte."""
    stream, wanted = SPEC[name]
    assert parsed(stream) == wanted
    assert parsed(*(stream[at : at + 1] for at in range(len(stream)))) == wanted


def model(stream):
    """The standard's algorithm over a whole stream at once, written without looking at the parser."""
    found, data, kind, last, own, retry, latest = [], "", "", "", False, None, None
    for line in re.split("\r\n|\n|\r", stream.decode("utf-8-sig", "replace"))[:-1]:
        name, value = re.fullmatch("(?s)([^:]*):? ?(.*)", line).groups()
        if not line:
            if data:
                found.append(event(data[:-1], kind or "message", last, retry, own and last != ""))
            data, kind, own, retry = "", "", False, None
        data += value + "\n" if line and name == "data" else ""
        kind = value if name == "event" else kind
        if name == "id" and "\0" not in value:
            last, own = value, True
        if name == "retry" and re.fullmatch("[0-9]+", value):
            retry = latest = int(value)
    return found, latest


FRAGMENTS = st.sampled_from([
    b"data", b"event", b"id", b"retry", b":", b": ", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"\0", b"7", b"12", b"x",
    b"\xef", b"\xbb", b"\xbf", b"\xef\xbb\xbf", b"\xe2\x82\xac", b"\xff", b"data: a\n\n", b"id: 3\n",
])  # fmt: skip


@given(st.lists(FRAGMENTS, max_size=40).map(b"".join), st.lists(st.integers(0, 200), max_size=12))
def test_any_split_of_the_bytes_gives_the_same_events(stream, cuts):
    """Wherever the network cuts, events and retry are those of the standard's algorithm over the whole."""
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    parser = EventStreamParser()
    found = parsed(*(stream[a:b] for a, b in pairwise(places)), parser=parser)
    assert (found, parser.retry) == model(stream)


LINES = st.sampled_from([b"data: ab\n", b":ccccccccc\n", b"\n", b"x", b"\r"])


@given(st.lists(LINES, max_size=30).map(b"".join), st.integers(0, 200))
def test_the_limit_strikes_at_the_same_byte_wherever_the_bytes_are_split(stream, cut):
    """An event too big is refused after the same events, in whatever pieces it came."""

    def until_refused(*pieces):
        found = []
        with suppress(ProtocolError):
            parsed(*pieces, parser=EventStreamParser(max_event_bytes=20), found=found)
            found.append("no refusal")
        return found

    assert until_refused(stream) == until_refused(stream[:cut], stream[cut:])


def test_a_carriage_return_holds_no_event_back():
    """The event is there with CR, although LF may follow; the LF that does is no blank line."""
    parser = EventStreamParser()
    assert parsed(b"data: a\r\n\r", parser=parser) == [event("a")]
    assert parsed(b"\ndata: b\r\n", b"\r", parser=parser) == [event("b")]


def test_the_id_is_never_ahead_of_the_events_handed_out():
    """With three events in one piece, the position follows one `next_event` after the other; an incomplete event has none."""
    parser = EventStreamParser()
    parser.receive(b"id: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 3\ndata: c\n")
    assert (parser.last_event_id, parser.next_event()) == ("", event("a", id="1"))
    assert (parser.last_event_id, parser.next_event()) == ("1", event("b", id="2"))
    assert (parser.last_event_id, parser.next_event()) == ("2", None)
    assert parser.last_event_id == "2"


def test_an_id_without_data_is_a_checkpoint():
    """It moves the position although there is no event, until an event does."""
    parser = EventStreamParser()
    assert parsed(b"data: a\n\nid: 9\n\n", parser=parser) == [event("a")]
    assert (parser.last_event_id, parser.checkpoint) == ("9", "9")
    assert parsed(b"data: b\n\n", parser=parser) == [event("b", id="9", has_id=False)]
    assert parser.checkpoint is None


def test_a_new_stream_drops_what_was_incomplete_and_keeps_id_and_retry():
    """After `restart`: no half line, no half event, no half pair, a byte order mark is dropped again."""
    parser = EventStreamParser()
    parsed(b"id: 1\nretry: 50\ndata: a\n\nid: 2\ndata: lost\nda", parser=parser)
    parser.restart("1")
    assert parsed(b"\xef\xbb\xbfdata: b\n\n", parser=parser) == [event("b", id="1", has_id=False)]
    assert parser.retry == 50
    parsed(b"data: c\r", parser=parser)
    parser.restart("1")
    assert parsed(b"\ndata: d\n\n", parser=parser) == [event("d", id="1", has_id=False)]


def test_a_retry_is_bounded():
    """A number of any length is read, in no time, and one beyond reason is kept within it."""
    parser = EventStreamParser()
    parsed(b"retry: " + b"0" * 100 + b"12\n", parser=parser)
    assert parser.retry == 12
    parsed(b"retry: " + b"9" * 100_000 + b"\n", parser=parser)
    assert parser.retry == 10**15


@pytest.mark.parametrize(
    "stream", [b"data: xxxxxxxxxxxxxxx\n\n", b"data: 12345\ndata: 1234", b":" * 21, b"x" * 21]
)
def test_an_event_over_the_limit_is_a_typed_error(stream):
    """A line, or the lines of one event, beyond the limit: PROTO_MESSAGE_TOO_BIG, in its place, and for good."""
    parser = EventStreamParser(max_event_bytes=20)
    parser.receive(b"data: a\n\n" + stream)
    assert parser.next_event() == event("a")
    for _ in range(2):
        with pytest.raises(ProtocolError, match="wanted at most 20 bytes, got more") as caught:
            parser.next_event()
        assert caught.value.failure.code == "PROTO_MESSAGE_TOO_BIG"


def test_comments_may_go_on_for_ever():
    """A server that keeps the line alive with comments and never a blank line does not reach the limit."""
    parser = EventStreamParser(max_event_bytes=100)
    data = b"x" * 90
    assert parsed(b"data:" + data + b"\n", *[b": ping\n"] * 1_000, b"\n", parser=parser) == [
        event(data.decode())
    ]


def test_a_large_event_in_small_pieces_is_read_in_linear_time():
    """An event of 4 MiB in pieces of 64 bytes: no piece is looked at more than a few times."""
    (found,) = parsed(b"data: ", *[b"x" * 64] * 2**16, b"\n\n")
    assert len(found.data) == 4 * 2**20


def test_the_repr_of_an_event_hides_its_data():
    """Data may hold secrets."""
    assert repr(event("s3cret", "add", "7")) == "<ServerSentEvent 'add' id='7' 6 characters>"
