"""The border to a dialect's functions: whatever they return, the link goes on or ends with an error that names the function.

Rule: nothing that was sent before is lost, what can be read of a frame is read, and a hole is told in its place.
"""

from __future__ import annotations

import json
import math

import pytest

import resilient_bridge as rb
from resilient_bridge.bridge import BridgeState
from tests.internals.protocol import facts_of, frame_of, own_frame, resume_of
from tests.internals.telemetry import MessageRejected
from tests.protocol.frames_rig import (
    CUT,
    FramesRig,
    Pinged,
    ask,
    d,
    decode,
    dialect,
    encode,
    event,
    events,
    gap,
    unknown,
)
from tests.rows import each_row


NUMBERED = d.Positions(contiguous=True, ends="stated")
TIMED = d.Positions(order="time", repeats=True, ends="anchor")
OPAQUE = d.Positions(order="opaque")
DEEP = "[" * 10_000 + "]" * 10_000
NO_NUMBERS = (
    "7",
    "x",
    "",
    True,
    1.0,
    1.5,
    math.nan,
    math.inf,
    [7],
    {"n": 7},
    10**400,
    2**64,
    -(2**63) - 1,
    b"7",
)


def talking(read=decode, write=encode, positions=None, **settings):
    """A dialect of these functions."""
    if positions is not None:
        settings.setdefault("resume", ask)
    return rb.bridge.Dialect.envelopes(
        decode=read, encode=write, error=None, bearer=False, positions=positions, **settings
    )


class Script:
    """A `decode` for facts that no JSON holds: a frame is the name under which they were script."""

    def __init__(self):
        self.facts = {}

    def __call__(self, frame):
        return self.facts[frame]

    def to(self, rig, *facts):
        """The server says these facts in one frame."""
        frame = f"frame {len(self.facts)}"
        self.facts[frame] = facts
        rig.session.receive(frame, rig.now)
        rig.after()


def why(rig):
    """What was rejected, in words."""
    return [rejected.failure.message for rejected in rig.of(MessageRejected)]


# ---- L03: positions ------------------------------------------------------------------------------------------------


@each_row("position", NO_NUMBERS, ids=lambda value: repr(value)[:12])
def test_l03_an_event_whose_number_is_none_is_refused(position):
    """In a log of numbers anything but a whole number of 64 bits is told and counted; 2,100 events later one old number is a repeat."""
    script = Script()
    rig = FramesRig(talking(script, positions=d.Positions(repeats=True))).up()
    script.to(rig, event(1))
    script.to(rig, event(position, "odd"))
    for number in range(2, 2_102):
        script.to(rig, event(number))
        rig.take()
    script.to(rig, event(3))
    assert rig.read() == ["e3?"]
    assert "Received.position" in why(rig)[0]
    assert "a whole number" in why(rig)[0]
    assert rig.session.inbound.rejected == 1
    assert (rig.session.death, rig.state) == (None, BridgeState.READY)


@each_row(
    "position",
    ['"7"', "true", "1.5", "NaN", "[1]", '{"a": 1}', "1e999", "9" * 400],
    ids=lambda text: text[:8],
)
def test_l03_the_families_refuse_it_too(position):
    """`rb.dialects.sequence` reads the field as it is, so a text is no number; a frame that is no JSON is a message without one."""
    rig = FramesRig(rb.dialects.sequence(field="seq", ask="after")).up()
    rig.hear('{"type": "news", "seq": 1}')
    rig.hear(f'{{"type": "news", "seq": {position}}}')
    rig.hear('{"type": "news", "seq": 2}')
    read = [*rig.take()]
    assert [message.raw["seq"] for message in read if isinstance(message.raw, dict)] == [1, 2]
    assert len(why(rig)) + sum(isinstance(message.raw, str) for message in read) == 1
    assert rig.session.record().position == 2


@pytest.mark.parametrize("positions", [TIMED, OPAQUE], ids=["time", "opaque"])
def test_l03_times_and_ids_are_numbers_or_texts(positions):
    """A time in fractions of a second is a message without a position, as it always was; a list is refused."""
    script = Script()
    rig = FramesRig(talking(script, positions=positions)).up()
    for position in ("2026-01-01T00:00:00Z", 7, 1.5, [7], True, math.nan, "\ud800"):
        script.to(rig, event(position, str(position)[:4]))
    assert rig.read() == ["2026", "7", "1.5", unknown("unreadable")]
    assert len(why(rig)) == 4


def test_l03_what_the_server_says_of_its_log_is_checked_too():
    """`Moved` and `Replayed` with a text where there are numbers."""
    rig = FramesRig(dialect({"contiguous": True, "ends": "stated", "distinct": True})).up(
        *events(1, 3)
    )
    rig.again()
    for fact in (
        d.Moved(position="4"),
        d.Replayed(through="4"),
        d.Replayed(complete=1),
        d.Replayed(first=2.5),
    ):
        rig.hear(fact)
    assert [text.split()[2] for text in why(rig)] == [
        "Moved.position",
        "Replayed.through",
        "Replayed.complete",
        "Replayed.first",
    ]
    rig.hear(d.Replayed(complete=True))
    assert rig.resumed[:2] == ("RECOVERED", "stated")


def test_l03_a_store_of_another_dialect_does_not_break_a_numbered_log():
    """Positions that an earlier dialect has written as texts are older than all that is known."""
    script = Script()
    first = FramesRig(talking(script, positions=OPAQUE)).up()
    for name in ("a", "b", "c"):
        script.to(first, event(name, name))
    first.take()
    rig = FramesRig(talking(script, positions=d.Positions(repeats=True)), store=first.store)
    rig.connect()
    rig.idle(10)
    for number in range(1, 2_048):  # the oldest in memory is "c", and "a" is forgotten
        script.to(rig, event(number))
        rig.take()
    script.to(rig, event(0))
    assert (rig.session.death, rig.read()) == (None, ["e0?"])


# ---- L04: what decode returns ---------------------------------------------------------------------------------------


async def _async_decode(frame):
    return ()


WRONG_RETURNS = {
    "none": (lambda _: None, "write ()"),
    "text": (lambda frame: frame, "wanted a tuple of facts, got a str"),
    "bytes": (lambda _: b"x", "got a bytes"),
    "dict": (lambda _: {"type": "x"}, "got a dict"),
    "number": (lambda _: 7, "got an int"),
    "one fact": (lambda _: d.Hello(), "write (Hello(…),)"),
    "coroutine": (_async_decode, "not async def"),
    "other things": (lambda _: ("x",), "a str among its facts"),
    "a Send": (lambda _: (d.Send(type="", payload={}, id="", key="", timestamp=""),), "a Send among its facts"),
    "an error": (lambda _: 1 / 0, "ZeroDivisionError"),
    "endless nesting": (lambda _: json.loads("[" * 100_000), "RecursionError"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG_RETURNS)
def test_l04_a_decode_that_returns_no_facts(kind):
    """The frame is rejected with words that say what to write, and the link goes on."""
    wrong, words = WRONG_RETURNS[kind]
    rig = FramesRig(talking(lambda frame: wrong(frame) if frame == "odd" else decode(frame))).up()
    rig.hear("odd")
    rig.hear(event(None, "later"))
    assert words in why(rig)[0]
    assert rig.read() == ["later"]


@pytest.mark.parametrize(
    "several",
    [list, iter, lambda facts: (fact for fact in facts)],
    ids=["list", "iterator", "generator"],
)
def test_l04_a_decode_may_return_any_iterable(several):
    """A list, an iterator or a generator is as good as a tuple."""
    made = d.Hello(), d.Closing()
    assert facts_of(lambda _: several(made), "x", None) == [*made]


WRONG_FIELDS = (
    (d.Received(raw=1, id=7), "Received.id as an int: wanted a text or None"),
    (d.Received(raw=1, id="\ud800"), "Received.id as a text with a lone surrogate"),
    (d.Received(raw=1, type=None), "Received.type as None: wanted a text"),
    (d.Received(raw=1, payload=None), "Received.payload as None: wanted a dict"),
    (d.Received(raw=1, payload=[]), "Received.payload as a list"),
    (d.Received(raw=1, timestamp=1.5), "Received.timestamp as a float"),
    (d.Received(raw=1, channel=7), "Received.channel as an int"),
    (d.Received(raw=1, echo=b"x"), "Received.echo as a bytes"),
    (d.Hello(epoch=7), "Hello.epoch as an int"),
    (d.Hello(silence="5"), "Hello.silence as a str"),
    (d.Hello(silence=math.nan), "Hello.silence as a float"),
    (d.Challenge(silence=-1), "Challenge.silence as an int"),
    (d.Finished(channel=[]), "Finished.channel as a list"),
    (d.Reply(to="x", payload=7), "Reply.payload as an int"),
    (d.Acked(ids="abc"), "Acked.ids as a str: wanted a list of ids"),
    (d.Acked(ids=7), "Acked.ids as an int"),
    (d.Acked(through="7"), "Acked.through as a str"),
    (d.Refused(code=7), "Refused.code as an int"),
    (d.Refused(retry_after="soon"), "Refused.retry_after as a str"),
    (d.Refused(suggestions="do it"), "Refused.suggestions as a str"),
    (d.Closing(within="1"), "Closing.within as a str"),
    (d.Ping(id=7), "Ping.id as an int"),
    (d.Pong(id=7), "Pong.id as an int"),
)


@pytest.mark.parametrize(
    ("fact", "words"),
    WRONG_FIELDS,
    ids=lambda value: str(value)[:24] if isinstance(value, str) else "",
)
def test_l04_a_fact_with_a_field_of_the_wrong_type(fact, words):
    """It is rejected by name; what stands beside it in the frame is taken."""
    script = Script()
    rig = FramesRig(talking(script)).up()
    script.to(rig, event(None, "before"), fact, event(None, "behind"))
    assert rig.read() == ["before", "behind"]
    (text,) = why(rig)
    assert words in text
    assert (rig.state, rig.session.death) == (BridgeState.READY, None)


# ---- L04: what encode returns ---------------------------------------------------------------------------------------


def without(*kinds):
    """An `encode` that has no frame for these intents."""
    return lambda intent: None if isinstance(intent, kinds) else encode(intent)


@pytest.mark.parametrize("pings", [True, "in_order"])
def test_l04_no_frame_for_a_ping_means_no_pings(pings):
    """70 sends, two barriers' worth, and an hour: the link lives, each send ends as written, and the connection itself is pinged."""
    rig = Pinged(talking(write=without(d.Ping), pings=pings)).up()
    sent = [rig.send("note", {"n": number}) for number in range(70)]
    rig.write()
    rig.pong()
    rig.idle(3_600)
    assert (rig.session.death, rig.state) == (None, BridgeState.READY)
    assert [str(entry.state) for entry in sent] == ["written"] * 70
    assert all(entry.is_settled for entry in sent)
    assert not any("ping" in frame for frame in rig.wire)
    assert rig.session.keepalive is not None


def test_l04_a_barrier_that_cannot_be_asked_for_ends_in_time():
    """A join that ends by the answer to a ping, without a frame for it: it is told as UNKNOWN, and the link goes on."""
    speaks = talking(
        write=without(d.Ping),
        pings="in_order",
        positions=d.Positions(ends="barrier", proof="barrier"),
    )
    rig = FramesRig(speaks).up(*events(1, 3))
    rig.read()
    rig.again()
    rig.hear(event(4))
    rig.idle(60)
    assert rig.read() == [unknown("timeout"), "e4"]
    assert rig.is_ready


@pytest.mark.parametrize("intent", [d.Ping, d.Auth, d.Pong, d.Acknowledge])
@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (7, "an int"),
        ({"ping": 1}, "a dict"),
        (["x"], "a list"),
        (bytearray(b"x"), "a bytearray"),
        ("\ud800", "a text with a lone surrogate"),
        (True, "a bool"),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_l04_an_encode_that_returns_no_frame(intent, frame, words):
    """A control frame of the wrong type ends the client with an error that names the function, the intent and what was wanted."""

    def write(asked):
        return frame if isinstance(asked, intent) else encode(asked)

    speaks = talking(
        write=write, pings=True, login="first", waits_for_hello=True, acknowledges="received"
    )
    rig = FramesRig(speaks)
    rig.connect("token")
    if intent is not d.Auth:
        rig.hear(d.Hello())
        rig.hear(d.Ping() if intent is d.Pong else d.Received(raw="x", id="a", ack="a"))
        rig.idle(60)
    death = rig.session.death
    assert (death.code, death.message) == (
        "SYS_CONFIG_INVALID",
        f"the dialect's encode returned {words} for {intent.__name__}: wanted a text, bytes, or None where this server has no frame for it",
    )
    assert rig.lose(death).retry is False


def test_l04_a_message_without_a_frame_is_refused_where_it_is_sent():
    """`send` says that the dialect has no frame for it, and nothing is queued."""
    message = d.Send(type="", payload={}, id="1", key="1", timestamp="")
    for made, words in (
        (None, "no frame for it"),
        (7, "an int"),
        (1.5, "a float"),
        ("\ud800", "a lone surrogate"),
    ):
        with pytest.raises(rb.errors.ProtocolError, match="frame") as refused:
            own_frame(lambda _, made=made: made, message)
        assert words in str(refused.value.failure.details)
        assert refused.value.failure.executed is rb.errors.Executed.NO
    assert frame_of(lambda _: b"x", message) == own_frame(lambda _: b"x", message) == b"x"


# ---- L04: what resume returns ---------------------------------------------------------------------------------------


async def _async_resume(record):
    return d.Resume()


WRONG_RESUMES = (
    (lambda _: None, "Dialect.resume", "None"),
    (lambda _: {"query": {}}, "Dialect.resume", "a dict"),
    (lambda _: ["frame"], "Dialect.resume", "a list"),
    (_async_resume, "Dialect.resume", "a coroutine"),
    (lambda _: 1 / 0, "Dialect.resume", "ZeroDivisionError"),
    (lambda _: d.Resume(frames="one frame"), "Resume.frames", "a str"),
    (lambda _: d.Resume(frames=({"since": 1},)), "Resume.frames", "a tuple of dict"),
    (lambda _: d.Resume(frames=("ok", 7)), "Resume.frames", "a tuple of str, int"),
    (lambda _: d.Resume(frames=None), "Resume.frames", "None"),
    (lambda _: d.Resume(frames=("\ud800",)), "Resume.frames", "a tuple of str"),
    (lambda _: d.Resume(query={"since": None}), "Resume.query", "a dict of NoneType"),
    (lambda _: d.Resume(query=[("since", 1)]), "Resume.query", "a list of tuple"),
    (lambda _: d.Resume(headers={"Last": 7}), "Resume.headers", "a dict of int"),
    (lambda _: d.Resume(url=b"ws://x"), "Resume.url", "a bytes"),
    (lambda _: d.Resume(channels="news"), "Resume.channels", "a str"),
    (lambda _: d.Resume(channels=(1,)), "Resume.channels", "a tuple of int"),
)


@pytest.mark.parametrize(("resume", "path", "got"), WRONG_RESUMES)
def test_l04_a_resume_that_returns_no_resume(resume, path, got):
    """A ConfigError that names the field, what was wanted and the type that was got; where it is called for frames, the link ends with it."""
    with pytest.raises(rb.ConfigError, match=path) as refused:
        resume_of(resume, d.Record())
    assert got in str(refused.value)
    calls = []

    def second(record):
        calls.append(record)
        return d.Resume() if len(calls) == 1 else resume(record)

    rig = FramesRig(talking(positions=NUMBERED, resume=second))
    rig.connect()
    assert path in rig.session.death.message
    assert rig.lose(rig.session.death).retry is False


def test_l04_frames_of_a_resume_may_be_bytes():
    """They are written as they are."""
    rig = FramesRig(
        talking(positions=NUMBERED, resume=lambda _: d.Resume(frames=(b"\x00\xff", "text")))
    )
    assert rig.connect() == [b"\x00\xff", "text"]


# ---- L04: echo ------------------------------------------------------------------------------------------------------


def test_l04_an_echo_that_raises_is_reported():
    """The message that came back is delivered, the send stays open, and the link goes on."""
    speaks = talking(confirms=True, echo=lambda frame: 1 / 0)
    rig = FramesRig(speaks).up()
    entry = rig.send("note", {})
    rig.write()
    rig.hear(event(None, "back", echo="x"))
    rig.hear(d.Acked(echo="x"))
    assert rig.read() == ["back"]
    assert not entry.is_settled
    assert all("the dialect's echo raised ZeroDivisionError" in text for text in why(rig))


# ---- L06: a frame of several facts ---------------------------------------------------------------------------------


def batch(frame):
    """A line each: a number is an event, "moved N", "done", or what cannot be read."""
    for line in frame.split("\n"):
        word, _, number = line.partition(" ")
        match word:
            case "moved":
                yield d.Moved(position=int(number))
            case "done":
                yield d.Replayed(complete=True)
            case _ if word.isdigit():
                yield event(int(word))
            case "bad":
                yield d.Unreadable("expected a number")
            case "odd":
                yield event("x", "odd")
            case _:
                raise ValueError("expected a number")


@pytest.mark.parametrize("hole", ["bad", "odd"])
def test_l06_the_readable_facts_of_a_frame_are_taken_and_the_hole_is_a_gap(hole):
    """Contiguous numbers: 1 2 ? 4; what is missing is asked for once, then told with its number in its place."""
    rig = FramesRig(talking(batch, positions=NUMBERED)).up()
    rig.hear(f"1\n2\n{hole}\n4")
    assert rig.read() == ["e1", "e2"]
    rig.dies()
    rig.hear(f"{hole}\n4\ndone")
    assert rig.read() == [gap("hole", missing=(3, 3)), "e4"]
    assert len(why(rig)) == 2


def test_l06_what_came_before_an_error_is_taken():
    """A generator that raises in the middle: what it had returned is delivered."""
    rig = FramesRig(talking(batch, positions=NUMBERED)).up()
    rig.hear("1\n2\n!\n4")
    assert rig.read() == ["e1", "e2"]
    assert "ValueError" in why(rig)[0]


def test_l06_a_position_does_not_move_over_what_could_not_be_read():
    """`Moved` behind it in the same frame says that 3 is not for us; it may be the event that could not be read."""
    rig = FramesRig(talking(batch, positions=NUMBERED)).up()
    rig.hear("1\n2\nbad\nmoved 3")
    rig.hear("4")
    rig.dies()
    rig.hear("4\ndone")
    assert rig.read() == ["e1", "e2", gap("hole", missing=(3, 3)), "e4"]


@pytest.mark.parametrize(
    "positions",
    [
        d.Positions(ends="stated", repeats=True, distinct=True),
        d.Positions(order="opaque", ends="stated", distinct=True),
    ],
    ids=["numbers with holes", "ids"],
)
def test_l06_without_contiguous_numbers_an_unknown_gap_is_reported(positions):
    """Live, and in a replay that the server calls complete: something may be missing, so it is UNKNOWN and not RECOVERED."""
    rig = FramesRig(talking(batch, positions=positions)).up()
    rig.hear("1\n2\nbad\n4")
    assert rig.read() == ["e1", "e2", unknown("unreadable"), "e4"]
    rig.again()
    rig.hear("5\n!")
    rig.hear("6\ndone")
    assert rig.resumed[:2] == ("UNKNOWN", "unreadable")
    assert rig.read() == [unknown("unreadable"), "e5", "e6"]
    rig.again()
    rig.hear("7\ndone")
    assert rig.resumed[:2] == ("RECOVERED", "stated")


LINE_ENDS = ("\u2028", "\u2029", "\x85", "\v", "\f", "\x1c", "\x1d", "\x1e")


@each_row("character", LINE_ENDS, ids=lambda character: f"U+{ord(character):04X}")
def test_l06_a_publication_with_any_line_end_of_unicode_is_read(character):
    """A publication of Centrifugo, and one behind it in the same frame: JSON allows the characters above U+001F as they are."""
    text = f"before{character}behind"
    raw = json.dumps(text, ensure_ascii=False)
    push = '{"push":{"channel":"news","pub":{"data":{"text":%s},"offset":%d}}}'
    facts = rb.dialects.centrifugo("news").decode(f"{push % (raw, 1)}\r\n{push % (raw, 2)}\n")
    assert [(fact.position, fact.payload["text"]) for fact in facts] == [(1, text), (2, text)]


def test_l06_one_unreadable_command_of_centrifugo_leaves_the_others():
    """The answer behind it is taken, and the reader is told that a publication may be missing."""
    facts = rb.dialects.centrifugo("news").decode(
        '{"push":{"channel":"news","pub":{"data":1,"offset":1}}}\n{"pu\n[1]\n{"id":7,"publish":{}}'
    )
    assert [type(fact).__name__ for fact in facts] == [
        "Received",
        "Unreadable",
        "Unreadable",
        "Reply",
    ]


def test_l06_one_unreadable_publication_of_a_recovery_is_no_recovery():
    """In the answer to a subscription, which Centrifugo calls recovered."""
    speaks = rb.dialects.centrifugo("news")
    rig = FramesRig(speaks)
    answer = '{"id":1500000000,"subscribe":{"recoverable":true,"epoch":"a","offset":%d%s}}'
    rig.connect()
    rig.hear('{"id":1000000001,"connect":{"client":"c"}}')
    rig.hear(answer % (1, ""))
    rig.hear('{"push":{"channel":"news","pub":{"data":{"n":2},"offset":2}}}')
    rig.again(CUT)
    rig.hear('{"id":1000000001,"connect":{"client":"c"}}')
    more = ',"was_recovering":true,"recovered":true,"publications":[{"data":{"n":3},"offset":3},"odd",{"data":{"n":5},"offset":5}]'
    rig.hear(answer % (5, more))
    assert rig.resumed == ("UNKNOWN", "unreadable", {"news": "UNKNOWN"})
    assert [item.payload["n"] for item in rig.take() if isinstance(item, rb.bridge.Message)] == [
        2,
        3,
        5,
    ]
