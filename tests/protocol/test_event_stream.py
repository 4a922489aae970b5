"""Where the reader of an event stream stands: positions, duplicates, holes, and what follows a loss."""

from __future__ import annotations

import random

import pytest

from resilient_bridge.bridge import Reconnect
from resilient_bridge.failure import Failure
from resilient_bridge.protocol import Now, ServerSentEvent
from resilient_bridge.values import Backoff, Rule
from tests.internals.protocol import EventStream, Position
from tests.rows import each_row


CUT = Failure.of("CONN_RESET")


def event(data="", type="message", id="", retry=None, has_id=None):
    has_id = bool(id) if has_id is None else has_id
    return ServerSentEvent(type=type, data=data, id=id, retry=retry, has_id=has_id)


def read(position, *events):
    """Deliver what is new; what became of each."""
    met = []
    for each in events:
        met.append(position.meet(each))
        if met[-1] != "duplicate":
            position.delivered(each)
    return met


def resumed(*before, position=None):
    """A position after a connection with these events was lost and another was made."""
    position = position or Position()
    position.connected()
    read(position, *before)
    position.lost()
    position.connected()
    return position


A, B, C, D = (event(text, id=text) for text in "abcd")
ONE, TWO, THREE, FOUR, FIVE = (event(f"n{n}", id=str(n)) for n in range(1, 6))
PING = event("ping", "ping", id="a", has_id=False)  # the id that A left behind


LOSSES = [
    ((), "no_event_id"), ((PING,), "no_event_id"), ((A, B), None), ((A, PING), "no_event_id"), ((A, PING, B), None),
    ((A, event("x", id="")), "no_event_id"), ((event("x", id="\x7f"),), "no_event_id"),
    ((event("x", id=" \t"),), "no_event_id"), ((event("x", id="0"), event("y", id="0")), "repeated_event_id"),
]  # fmt: skip


@each_row(("before", "missing"), LOSSES)
def test_what_a_loss_may_have_cost(before, missing):
    """None only if the last event has an id of its own that fits a header and stands for it alone."""
    position = Position()
    assert position.lost() is None  # nothing had begun
    position.connected()
    read(position, *before)
    assert position.lost() == missing


def test_a_checkpoint_makes_a_position_exact_again():
    """An id for the place after an event without one."""
    position = Position()
    position.connected()
    read(position, A, PING)
    position.marked("p")
    assert (position.lost(), position.header) == (None, b"p")
    position.marked("")
    assert (position.lost(), position.header) == ("no_event_id", None)


def test_the_header_holds_what_a_header_can():
    """UTF-8, spaces around it stripped; no control character."""
    ids = ["é", " a b ", "a\tb", "a\x01", "\ud800"]
    position = Position("41")  # that another process read
    position.connected()
    assert (position.header, position.lost()) == (b"41", None)
    assert [Position(each).header for each in ids] == ["é".encode(), b"a b", b"a\tb", None, None]


def test_events_that_come_again_are_dropped_until_the_first_new_one():
    """A server that starts too early: what was delivered is known by id, type and data, also behind a greeting without id."""
    position = resumed(A, B, C)
    assert " ".join(read(position, PING, A, B, D, C)) == "next duplicate duplicate next next"
    assert position.duplicates == 2
    position = resumed(A, B, C)
    read(position, A)
    assert (
        position.last_event_id == "c"
    )  # lost again here, the newest id is still the one to ask with


@pytest.mark.parametrize("again", [event("other", id="c"), event("c", "other", id="c")])
def test_the_same_id_with_other_content_is_no_duplicate(again):
    """It is delivered, and it shows that ids have lost their meaning."""
    assert read(resumed(A, B, C), again, D) == ["jump", "next"]


def test_an_id_that_stands_for_several_events_drops_nothing():
    """Ids that repeat on one connection do not identify: nothing is dropped, before and after the loss."""
    ticks = (event("tick", id="0"),) * 2
    assert read(resumed(*ticks), *ticks) == ["next", "next"]
    assert read(resumed(A), A, A) == [
        "duplicate",
        "next",
    ]  # the second repeats nothing from before the loss


COUNTS = [
    ((ONE, TWO, THREE), (FOUR,), "next"),
    ((ONE, TWO, THREE), (FIVE,), "jump"),
    ((TWO, THREE, FOUR), (ONE,), "jump"),  # counts from the start again
    ((ONE, TWO), (FIVE,), "next"),  # one step is no count
    ((ONE, THREE, FOUR, FIVE), (event(id="9"),), "next"),  # no count: it skips by itself
    ((A, B, C), (event(id="z"),), "next"),
    ((ONE, TWO, THREE), (event(id="x"),), "jump"),
    (
        (ONE, TWO, THREE),
        (TWO, THREE, FOUR),
        "next",
    ),  # the first new one against the newest delivered
    ((ONE, TWO, THREE), (TWO, THREE, FIVE), "jump"),
]


@each_row(("before", "after", "met"), COUNTS)
def test_ids_that_counted_show_a_hole(before, after, met):
    """Ids that went up by one and do not after a resume are evidence; ids that never counted are none."""
    assert read(resumed(*before), *after)[-1] == met


def test_only_so_many_ids_are_remembered():
    """The newest 1,000, so that a long stream costs no memory; what is older is delivered again."""
    position = resumed(*(event(str(n), id=f"id{n}") for n in range(1_500)))
    assert len(position._seen) == 1_000
    assert read(position, event("600", id="id600")) == ["duplicate"]
    assert read(position, event("400", id="id400")) == ["next"]


def fed(stream, data):
    """The stream with a new connection, and these bytes read to the end."""
    stream.gap_reported()
    stream.opened(Now(0, 0))
    stream.receive(data)
    while stream.take() is not None:
        pass
    return stream


def stream_of(data=b"", **policy):
    policy = Reconnect(**{"backoff": Backoff.constant(1), "connect_burst": 100} | policy)
    return fed(
        EventStream(policy, random.Random(1), last_event_id=None, max_event_bytes=1_000), data
    )


def test_both_words_of_the_server_are_lower_bounds():
    """The longest of the policy's wait, `retry:` and a Retry-After, on every later loss too."""
    stream, busy = (
        stream_of(b"retry: 5000\n\n"),
        Failure.of("SYS_UNAVAILABLE", retry_after=7, details={"http_status": 503}),
    )
    assert [stream.lost(each, Now(1, 1)).wait for each in (CUT, CUT, busy, CUT)] == [5, 5, 7, 5]
    assert stream_of(b"retry: 9000\n\n").lost(busy, Now(1, 1)).wait == 9
    assert stream_of(b"retry: 20\n\n").lost(CUT, Now(1, 1)).wait == 1
    assert stream.lost(busy, Now(1, 1)).reason == "rejected(503)"


def test_a_retry_beyond_patience_ends_it():
    """As a Retry-After does: never earlier than told, and not waited for for ever; a cancellation of ours ends nothing."""
    stream = stream_of(b"retry: 999999999\n\n")
    decision = stream.lost(CUT, Now(1, 1))
    assert (decision.retry, decision.failure.stopped) == (False, "retry_after")
    assert decision.failure.retry_after == 999_999.999
    decision = stream_of(b"retry: 999999999\n\n").lost(CUT, Now(1, 1), is_ours=True)
    assert (decision.retry, decision.wait) == (True, 86_400)


AGAIN = [
    "CONN_RESET",
    "CONN_TIMEOUT",
    "SYS_UNAVAILABLE/503",
    "SYS_RATE_LIMITED/429",
    "SYS_UPSTREAM_REJECTED/425",
]
AGAIN += ["SYS_DEADLINE_EXCEEDED", "PROTO_INVALID_FRAME"]
FINAL = [
    "AUTH_TOKEN_EXPIRED/401",
    "AUTH_FORBIDDEN/403",
    "SYS_UPSTREAM_REJECTED/404",
    "SYS_UPSTREAM_REJECTED/410",
]
FINAL += [
    "SESS_NOT_FOUND/404",
    "SYS_UPSTREAM_REJECTED/501",
    "SYS_CONFIG_INVALID",
    "SYS_INTERNAL_ERROR",
]


@each_row("ending", AGAIN + FINAL)
def test_which_losses_are_worth_another_attempt(ending):
    """Losses are; an answer that means no, and a client that cannot, are not. A rule of the policy overrules it."""
    code, _, status = ending.partition("/")
    failure = Failure.of(code, details={"http_status": int(status)} if status else {})
    assert stream_of().lost(failure, Now(1, 1)).retry is (ending in AGAIN)
    assert stream_of(rules={code: Rule()}).lost(failure, Now(1, 1)).retry


def test_the_first_event_is_the_proof_of_health():
    """After `stable_after` seconds the schedule starts over if an event came on the connection, and not otherwise."""
    for data, attempt in ((b"data: a\n\n", 1), (b": ping\n", 2)):
        stream = stream_of()
        stream.lost(CUT, Now(0, 0))
        assert fed(stream, data).lost(CUT, Now(60, 60)).attempt == attempt
