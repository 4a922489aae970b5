"""A server that answers in the order of its timestamps, and whose clock was set back: what is new stands before everything that we
remember, as history does. A session that began here has no history; elsewhere nobody can tell, and the verdict says so.
"""

from __future__ import annotations

import pytest

from resilient_bridge.bridge import Dialect, Replay
from resilient_bridge.protocol import Message, Now, Watermark
from tests.internals.protocol import Item, Rejoin
from tests.internals.stores import mark_rows, position_of, watermark_of
from tests.internals.telemetry import Resumed
from tests.protocol.driving import Rig, envelope
from tests.protocol.test_rejoin import names, rejoined, say, verdict_of
from tests.rows import each_row


def at(name, second, **payload):
    """`A` is a message with that id, `x` an id-less one; `second` of the server's clock, 0 being 09:46:00."""
    fields = {"timestamp": f"2026-03-20T09:{46 + second // 60:02}:{second % 60:02}Z"}
    fields |= {"id": name} if name[0].isupper() else {}
    return envelope("a" if "id" in fields else "x", {"name": name, **payload}, **fields)


def timed(texts):
    """`A60 x61`: messages with the second of the server's clock."""
    return [at(text[0], int(text[1:])) for text in texts.split()]


def lost(texts, **parts):
    """A session that received these and lost its link; it began here unless a name is given."""
    rig = Rig(**{"session_id": None, **parts}).up()
    for message in timed(texts):
        say(rig, message)
    rig.take()
    rig.lose()
    rig.step(1)
    return rig


def resumed(texts, answer, **parts):
    """What the reader gets of this answer, and the verdict of the join."""
    rig = rejoined(lost(texts, **parts))
    rig.replay(*timed(answer))
    return rig


@pytest.mark.requirement("R17")
@each_row(
    ("had", "answer", "read"),
    [
        ("A60", "B12 A60", "| B"),
        ("A60 B61", "C12 A60 B61 D62", "| C D"),
        ("A60 x61", "B12 C13 A60 x61", "| B C"),
        ("A60", "x12 B13 A60", "| x? B"),
        ("A60", "x12 A60", "| x?"),  # without an id, too
        ("A60 x61 B62", "x11 A60 x61 B62", "| x?"),
        ("x60 A61", "y12 x60 A61 B62", "| y? B"),
    ],
)
def test_what_a_clock_that_went_back_puts_before_everything_is_new(had, answer, read):
    """The session began here and nothing was forgotten: nothing can be older than the first message that we had."""
    rig = resumed(had, answer)
    assert (verdict_of(rig), names(rig)) == ("UNKNOWN(order)", read)


@each_row(
    ("had", "answer", "read"),
    [("A60", "A60 B12", "B"), ("A60 B12", "A60 B12 x13", "x"), ("A60 x12", "A60 x12 B11", "B")],
)
def test_a_clock_that_went_back_harms_no_answer_in_live_order(had, answer, read):
    """The order is the proof, whatever the times are."""
    rig = resumed(had, answer)
    assert (verdict_of(rig), names(rig)) == ("RECOVERED(anchor)", read)


def test_what_was_found_so_is_known_from_then_on():
    """The next sorted answer holds it again and nothing new: RECOVERED, and nothing comes twice."""
    rig = resumed("A60", "x11 B12 A60")
    say(rig, at("C", 61))
    assert names(rig) == "| x? B C"
    rig.lose()
    rig.step(1)
    rejoined(rig).replay(*timed("x11 B12 A60 C61"))
    assert (verdict_of(rig), names(rig)) == ("RECOVERED(anchor)", "")


@each_row("kind", ["named by the user", "named by the server", "without a join", "join unknown"])
def test_in_a_session_of_another_origin_it_may_be_history(kind):
    """It stays out, as it may have been acted on before; that nothing is missing is not claimed."""
    if kind == "named by the user":
        rig = lost("A60", session_id="s")
    elif kind == "named by the server":
        rig = Rig(session_id=None, dialect=Dialect(session_from_join=True))
        rig.connect()
        rig.authenticate()
        rig.hear("session_joined", {"session_id": "theirs"})
        rig.pongs()
        say(rig, at("A", 60))
        rig.take()
        rig.lose()
    elif kind == "without a join":
        rig = lost("A60", dialect=Dialect(join=None))
    else:
        rig = Rig(session_id=None)
        rig.connect()
        rig.authenticate()
        rig.hear("error", {"code": "UNKNOWN_TYPE", "request_type": "session_join"})
        rig.pongs()
        say(rig, at("A", 60))
        rig.take()
        rig.lose()
    rig.connect()
    rig.authenticate()
    if kind not in {"without a join", "join unknown"}:
        rig.hear("session_joined", {"session_id": rig.session.session_id})
    rig.pongs()
    rig.write()
    rig.replay(*timed("B12 A60 C61"))
    assert (verdict_of(rig), names(rig)) == ("UNKNOWN(order)", "| C")
    assert not rig.session.inbound.watermark.is_shuffled


def test_what_no_step_within_the_overlap_explains_is_history():
    """An answer to a question for everything: what precedes the time that was asked for was not said since."""
    rig = rejoined(lost("A300", session_id="s"))
    rig.replay(*timed("H-99 J-1 A300 B301"))
    assert (verdict_of(rig), names(rig)) == ("RECOVERED(anchor)", "B")
    rig = rejoined(lost("A300", session_id="s"))
    rig.replay(*timed("H-99 J1 A300 B301"))
    assert (verdict_of(rig), names(rig)) == ("UNKNOWN(order)", "| B")


def _busy(count, mono=0.0):
    """A tail that has forgotten: `count` messages, ten a second."""
    watermark = Watermark("s")
    watermark.is_own = True
    for n in range(count):
        message = at(f"K{n}", n // 10)
        watermark.accept(("a", f"K{n}"), str(message), message["timestamp"], mono)
    watermark.asked_to_join = watermark.joined = True
    return watermark


def _judged(watermark, first, count):
    """The outcome of an answer with the messages from `first` on."""
    rejoin = Rejoin(watermark, Replay())
    rejoin.ask("q", watermark.since(300, None))
    items = []
    for n in range(first, count):
        message = at(f"K{n}", n // 10)
        items.append(Item(Message("a", f"K{n}", message["timestamp"], message["payload"]), str(message)))  # fmt: skip
    rejoin.answer(items, "q")
    return rejoin.resolve()


@each_row(
    ("had", "first", "verdict"),
    [
        (2_500, 0, "RECOVERED"),  # the ids of the forgotten are known for a while
        (6_000, 2_900, "RECOVERED"),
        (2_000, 0, "RECOVERED"),
    ],
)
def test_a_busy_session_is_recovered_as_before(had, first, verdict):
    """The overlap reaches behind the tail: what stands there was had, as far as its ids are still known."""
    outcome = _judged(_busy(had), first, had)
    assert (str(outcome.verdict), outcome.items) == (verdict, [])


def test_after_a_restart_the_ids_of_the_forgotten_are_gone():
    """What is between the time that was asked for and the oldest that is remembered may be new: no proof, and nothing twice."""
    watermark = _busy(2_498)
    watermark.taken = watermark.handed = watermark.accepted
    now = Now(10.0, 1_774_000_000.0)
    position = position_of(watermark, now, is_exact=True)
    again = watermark_of("s", position, mark_rows(watermark, 0, now), [], now)
    assert again.is_own
    outcome = _judged(again, 0, 2_498)
    assert (str(outcome.verdict), outcome.reason, outcome.items) == ("UNKNOWN", "order", [])


def test_after_a_restart_a_session_that_began_here_is_still_known_to_have():
    """The new process delivers what the clock put before everything."""
    rig = lost("A60 B61")
    rig = rejoined(Rig(store=rig.store, session_id=None, seed=2))
    rig.replay(*timed("C12 A60 B61"))
    assert verdict_of(rig) == "UNKNOWN(order)"
    assert names(rig) == "| C"


def test_the_session_after_a_lost_one_has_no_history():
    """The user named the first one; its heir is ours."""
    rig = lost("A60", session_id="s")
    rig.connect()
    rig.authenticate()
    rig.hear("error", {"code": "SESS_NOT_FOUND"}, id=rig.last("session_join")["id"])
    rig.write()
    rig.hear("session_joined")
    rig.pongs()
    say(rig, at("B", 70))
    assert names(rig) == "| B"
    rig.lose()
    rejoined(rig).replay(*timed("C12 B70"))
    assert (verdict_of(rig), names(rig)) == ("UNKNOWN(order)", "| C")
    assert [event.reason for event in rig.of(Resumed)] == ["new_session", "order"]


def test_what_was_lost_under_the_gap_before_the_first_message_is_no_sign_of_another_order():
    """A new session whose join was cut, and a message of it without an id: the gap was reported, and the order is the live one."""
    rig = lost("A60")
    rig.connect()
    rig.authenticate()
    rig.hear("error", {"code": "SESS_NOT_FOUND"}, id=rig.last("session_join")["id"])
    rig.lose()
    rejoined(rig).pongs()
    say(rig, at("B", 70))
    assert (verdict_of(rig), names(rig)) == ("GAP(new_session)", "| B")
    rig.lose()
    rejoined(rig).replay(*timed("x69 B70 C71"))
    assert (verdict_of(rig), names(rig)) == ("RECOVERED(anchor)", "C")


# ---- id-less messages behind a join without proof


def unproven(rig, answer=""):
    """A join that ends without proof: its answer has no message that we know."""
    rejoined(rig).replay(*timed(answer))
    if not answer:
        rig.replay()
        rig.pongs()
    assert verdict_of(rig).startswith("UNKNOWN")


def test_what_is_put_between_the_messages_of_an_unproven_answer_is_new():
    """That answer was sorted, and so is the next: what is new and has no id stands among those that we have, and is not lost."""
    rig = lost("")
    unproven(rig, "x12 y14 A60 z61")
    assert names(rig) == "| x y A z"
    rig.lose()
    rejoined(rig).replay(*timed("x12 y14 p15 A60 z61"))
    assert (verdict_of(rig), names(rig)) == ("UNKNOWN(order)", "| p?")


def test_what_was_lost_under_a_gap_is_delivered_late_and_the_server_is_trusted_afterwards():
    """A message without an id as one with an id: it is no sign that the server sorts."""
    rig = lost("A60")
    unproven(rig)
    say(rig, at("B", 70))
    assert names(rig) == "| B"
    rig.lose()
    rejoined(rig).replay(*timed("A60 x65 B70 C71"))
    assert (verdict_of(rig), names(rig)) == ("UNKNOWN(order)", "| x? C")
    assert not rig.session.inbound.watermark.is_shuffled
    say(rig, at("D", 72))
    assert names(rig) == "D"
    rig.lose()
    rejoined(rig).replay(*timed("A60 x65 B70 C71 D72 y73"))
    assert (verdict_of(rig), names(rig)) == ("RECOVERED(anchor)", "y")


# ---- live messages behind a join without proof ---------------------------------------------------------------------


def test_what_came_live_with_a_time_of_the_forgotten_does_not_come_twice_without_a_flag():
    """2,100 messages, a join without proof, the clock is set back: a new message may be a forgotten one; a replay brings it again."""
    rig = Rig(session_id=None).up()
    for n in range(2_100):
        say(rig, at(f"K{n}", 60 + n // 50))
    rig.take()
    rig.lose()
    rejoined(rig).replay()
    rig.replay()
    rig.pongs()
    assert verdict_of(rig) == "UNKNOWN(empty)"
    say(rig, at("C", 30))
    say(rig, at("C", 30))
    assert names(rig) == "| C?"
    rig.lose()
    rejoined(rig).replay(at("K2099", 101), at("C", 30), at("D", 31))
    assert (verdict_of(rig), names(rig)) == ("RECOVERED(anchor)", "D")
