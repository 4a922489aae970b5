"""How a join ends: the verdict table of delivery.md §3.6, row by row, and what is delivered with it."""

from __future__ import annotations

import json

import pytest

from resilient_bridge.bridge import BridgeState, Dialect, Replay, Verdict
from resilient_bridge.protocol import Gap
from tests.internals.telemetry import DuplicateConflict, Joined, ReplayIgnored, Resumed
from tests.protocol.driving import Rig, closed, envelope
from tests.rows import each_row


def m(name, **payload):
    """`A1` is a message with that id, `x` an id-less frame; both carry their name."""
    fields = {"timestamp": "2026-03-20T09:46:40Z"} | ({"id": name} if name[0].isupper() else {})
    return envelope("a" if "id" in fields else "x", {"name": name, **payload}, **fields)


def ms(names):
    return [m(name) for name in names.split()]


def lost(names="A x", *, take=True, **parts):
    """A session that received these and lost its link."""
    rig = Rig(**parts).up()
    for message in ms(names):
        rig.hear(**{"type_": message.pop("type"), **message})
    if take:
        rig.take()
    rig.lose()
    rig.step(1)
    return rig


def rejoined(rig):
    """A link whose join was confirmed; the replay was asked for."""
    rig.connect()
    rig.join()
    return rig


def verdict_of(rig):
    event = rig.of(Resumed)[-1]
    return f"{event.verdict.value}({event.reason})"


def names(rig):
    """What the consumer reads now: names, with ? for a flag and | for a gap."""
    return " ".join(
        "|" if isinstance(item, Gap) else item.payload["name"] + "?" * item.maybe_duplicate
        for item in rig.take()
    )


def say(rig, message):
    rig.session.receive(json.dumps(message), rig.now)
    rig.after()


@pytest.mark.requirement("R17")
def test_the_first_join_ever_has_no_verdict():
    """3.6a: the event is Joined; the watermark exists from then on, even with nothing delivered."""
    rig = Rig().up()
    assert ([type(event) for event in rig.of(Joined)], rig.of(Resumed)) == ([Joined], [])
    assert rig.last("session_join")["payload"] == {"session_id": "s", "resume": False}
    rig.lose()
    rig.up()
    assert verdict_of(rig) == "UNKNOWN(no_anchor)"
    assert rig.last("session_join")["payload"] == {"session_id": "s", "resume": True}


@pytest.mark.requirement("R4")
@pytest.mark.parametrize("code", ["SESS_NOT_FOUND", "SESS_CLOSED"])
def test_a_session_that_is_gone_is_a_gap(code):
    """3.6b: the join is refused, a new session is joined at once on the same link, and the gap is told (threat 14)."""
    rig = lost()
    rig.connect()
    rig.authenticate()
    old = rig.session.session_id
    rig.hear("error", {"code": code, "message": "gone"}, id=rig.last("session_join")["id"])
    rig.write()
    assert rig.last("session_join")["payload"] == {
        "session_id": rig.session.session_id,
        "resume": False,
    }
    assert rig.session.session_id != old
    rig.hear("session_joined")
    rig.pong()
    rig.pong()
    assert (verdict_of(rig), names(rig), rig.state) == ("GAP(new_session)", "|", BridgeState.READY)


def test_a_session_that_is_gone_by_close_code_is_a_gap():
    """3.6b: 4404 instead of an answer; the next link asks for a new session."""
    rig = lost()
    rig.connect()
    rig.authenticate()
    rig.lose(closed(4404))
    rig.connect()
    rig.join()
    assert (verdict_of(rig), rig.last("session_join")["payload"]["resume"]) == (
        "GAP(new_session)",
        False,
    )


@pytest.mark.parametrize("refused", ["error", "close"])
@pytest.mark.parametrize("again", ["link", "process"])
def test_the_gap_of_a_lost_session_outlives_a_cut(refused, again):
    """3.6b: cut, or ended, between the refusal and the new join: the gap is still told."""
    rig = lost()
    rig.connect()
    rig.authenticate()
    if refused == "error":
        rig.hear("error", {"code": "SESS_NOT_FOUND"}, id=rig.last("session_join")["id"])
        rig.lose()
    else:
        rig.lose(closed(4404))
        rig.connect()
        rig.lose()
    if again == "process":
        rig = Rig(store=rig.store, session_id=None, seed=2)
    rejoined(rig)
    rig.pongs()
    assert verdict_of(rig) == "GAP(new_session)"


def test_no_endless_loop_of_new_sessions():
    """Threat 14: a server that refuses the new session as well ends the link, not the sanity."""
    rig = lost()
    rig.connect()
    rig.authenticate()
    for _ in range(2):
        rig.hear("error", {"code": "SESS_NOT_FOUND"}, id=rig.last("session_join")["id"])
        rig.write()
    assert rig.session.death.code == "SESS_NOT_FOUND"
    assert len([frame for frame in rig.wire if frame["type"] == "session_join"]) == 2


@pytest.mark.requirement("R17")
@each_row(
    ("delivered", "answers", "side", "read"),
    [
        ("A x", ["A x"], "", ""),
        ("A x", ["A x B y"], "", "B y"),
        ("A x", ["A x x"], "", "x"),
        ("A x", ["A x B"], "B", "B"),  # live before the answer and in it
        ("A x", ["A x"], "B y", "B y"),
        ("A x", ["A x B y y"], "B y y", "B y y"),
        ("A x", ["", "A x B"], "", "B"),  # the seed: nothing for `since`, everything without
        (
            "A x",
            ["x", "A x B"],
            "",
            "B",
        ),  # an exclusive server whose clock has a second's resolution
        ("A B x", ["B x C"], "", "C"),
        ("A x", ["A x B A"], "", "B"),
    ],
)
def test_recovered_with_the_anchor(delivered, answers, side, read):
    """3.6c: the anchor was found and the tail agrees: exactly what was missed, in order, unflagged."""
    rig = rejoined(lost(delivered))
    for message in ms(side):
        say(rig, message)
    for answer in answers:
        rig.replay(*ms(answer))
    assert (verdict_of(rig), names(rig)) == ("RECOVERED(anchor)", read)


def test_recovered_however_long_the_outage():
    """3.6c: a week later the same proof holds."""
    rig = lost("A x")
    rig.step(7 * 86_400)
    rejoined(rig).replay(*ms("A x B"))
    assert (verdict_of(rig), names(rig)) == ("RECOVERED(anchor)", "B")


@pytest.mark.parametrize(
    ("delivered", "answers", "verdict", "read"),
    [
        ("A x", ["B y", "B y"], "GAP(truncated)", "| B y?"),
        ("A x", ["", "B y"], "GAP(truncated)", "| B y?"),
        (
            "A B x",
            ["A C", "A C"],
            "GAP(truncated)",
            "| C",
        ),  # the last key is the anchor; A is not repeated
        ("A x", ["A y"], "GAP(mismatch)", "| y?"),
        ("A x y", ["A B"], "GAP(mismatch)", "| B"),
    ],
)
def test_a_gap_where_the_server_lost_the_position(delivered, answers, verdict, read):
    """3.6d: no non-empty answer holds the anchor, or the tail disagrees: told first, then what is new; id-less flagged."""
    rig = rejoined(lost(delivered))
    for answer in answers:
        rig.replay(*ms(answer))
    assert (verdict_of(rig), names(rig)) == (verdict, read)


@pytest.mark.requirement("R14")
def test_a_gap_says_from_when_to_when():
    """The last stamp before the hole and the first one after it, in the marker and in the event."""
    rig = rejoined(lost("A"))
    after = {**m("B"), "timestamp": "2026-03-20T10:00:00Z"}
    rig.replay(after)
    rig.replay(after)
    gap, event = rig.take()[0], rig.of(Resumed)[-1]
    for found in (gap, event):
        assert (found.since.isoformat()[11:19], found.until.isoformat()[11:19]) == (
            "09:46:40",
            "10:00:00",
        )
    assert (gap.verdict, gap.reason, event.replayed) == (Verdict.GAP, "truncated", 1)


@pytest.mark.requirement("R14")
def test_l12_without_an_anchor_the_gap_may_begin_an_overlap_earlier():
    """UNKNOWN(no_anchor): `since` is what was asked for, 300 s before the last message; so in the event."""
    rig = rejoined(lost("x"))
    last = rig.session.inbound.last_timestamp
    rig.replay(m("z"))
    if rig.state is BridgeState.REPLAYING:
        rig.replay(m("z"))
    gap, event = rig.take()[0], rig.of(Resumed)[-1]
    assert (gap.verdict, gap.reason) == (Verdict.UNKNOWN, "no_anchor")
    assert gap.since == event.since
    assert (last - gap.since).total_seconds() == 300


def test_unknown_without_a_proof():
    """3.6e: each cause by its name, and the gap's marker in its place."""
    rig = rejoined(lost())
    rig.replay()
    rig.replay()
    assert verdict_of(rig) == "UNKNOWN(empty)"
    rig = rejoined(lost("x y"))
    rig.replay(*ms("x y z"))
    assert (verdict_of(rig), names(rig)) == ("UNKNOWN(no_anchor)", "| x? y? z?")
    rig = rejoined(lost())
    rig.idle(9.9)
    assert rig.state is BridgeState.REPLAYING
    rig.idle(0.2)
    assert (verdict_of(rig), names(rig)) == ("UNKNOWN(timeout)", "|")

    rig = rejoined(lost())
    rig.replay()  # empty, so everything is asked for, and that never comes
    rig.idle(10.1)
    assert verdict_of(rig) == "UNKNOWN(timeout)"
    rig = rejoined(lost(dialect=Dialect(request_replay=None)))
    assert verdict_of(rig) == "UNKNOWN(no_replay)"

    rig = rejoined(lost(replay=Replay(max_messages=3)))
    for message in ms("y y y y"):
        say(rig, message)
    assert (verdict_of(rig), names(rig)) == ("UNKNOWN(side_buffer_full)", "| y y y y")


@pytest.mark.parametrize(
    "error", [{"code": "UNKNOWN_TYPE", "request_type": "request_replay"}, {"code": "UNKNOWN_TYPE"}]
)
def test_a_server_without_replay_says_so(error):
    """3.6e: an error about the request, by its type or by its id, ends the waiting at once."""
    rig = rejoined(lost())
    by_id = {} if "request_type" in error else {"id": rig.last("request_replay")["id"]}
    rig.hear("error", error, **by_id)
    assert (verdict_of(rig), rig.state) == ("UNKNOWN(no_replay)", BridgeState.READY)


def test_the_first_match_wins():
    """An answer without the anchor and a full side buffer: d stands before e."""
    rig = rejoined(lost(replay=Replay(max_messages=2)))
    rig.replay(*ms("B"))
    for message in ms("y y y"):
        say(rig, message)
    assert verdict_of(rig) == "GAP(truncated)"


def test_the_side_buffer_is_bounded_by_bytes_as_well():
    """Threat 12: a flood during the join ends in a verdict, not in memory."""
    rig = rejoined(lost(replay=Replay(max_bytes=5_000)))
    for n in range(100):
        say(rig, m(f"B{n}", text="x" * 100))
        if rig.state is not BridgeState.REPLAYING:
            break
    assert n < 60
    assert verdict_of(rig) == "UNKNOWN(side_buffer_full)"


def test_a_late_answer_is_counted_and_dropped():
    """Threat 12: the seed pushes and answers; the second is no second delivery."""
    rig = rejoined(lost())
    rig.replay(*ms("A x B"), asked=False)
    rig.replay(*ms("A x B C"))
    assert (verdict_of(rig), names(rig)) == ("RECOVERED(anchor)", "B")
    assert [event.messages for event in rig.of(ReplayIgnored)] == [4]


def test_an_answer_pushed_before_the_join_was_confirmed_counts():
    """Evidence is collected from the first byte on; then nothing needs to be asked."""
    rig = lost()
    rig.connect()
    rig.authenticate()
    rig.replay(*ms("A x B"), asked=False)
    assert rig.of(Resumed) == []
    rig.join()
    assert (verdict_of(rig), names(rig)) == ("RECOVERED(anchor)", "B")
    assert not any(frame["type"] == "request_replay" for frame in rig.wire)


def test_answers_without_ids_are_distinguished_by_the_pong_behind_them():
    """A server that correlates nothing: a push is not taken for the answer, the pong to the ping behind the ask decides."""
    rig = rejoined(lost())
    rig.replay(*ms("B"), asked=False)  # pushed, lacks the anchor
    assert rig.state is BridgeState.REPLAYING
    assert len([frame for frame in rig.wire if frame["type"] == "request_replay"]) == 1
    rig.replay(*ms("A x B"), asked=False)
    assert verdict_of(rig) == "RECOVERED(anchor)"


def test_the_second_question_asks_for_everything():
    """Once without `since`, and no third time."""
    rig = rejoined(lost())
    assert rig.last("request_replay")["payload"] == {"since": "2026-03-20T09:41:40Z"}
    rig.replay()
    assert rig.last("request_replay")["payload"] == {}
    rig.replay()
    assert len([frame for frame in rig.wire if frame["type"] == "request_replay"]) == 2
    assert rig.state is BridgeState.READY


@pytest.mark.parametrize("when", ["first join", "resume"])
def test_a_key_is_delivered_once_whatever_brings_it(when):
    """Threat 7: twice live during the join, in the answer as well, or delivered before the loss: once."""
    rig = Rig() if when == "first join" else lost("Z A")
    rig.connect()
    rig.authenticate()
    for name in ("B", "B") if when == "first join" else ("Z", "B", "B", "A"):
        say(rig, m(name))
    rig.join()
    if when == "resume":
        rig.replay(*ms("A B"))
    assert names(rig) == "B"


def test_an_id_with_another_content_is_a_conflict():
    """Threat 7: delivered once, the other one counted and reported; an equal repeat is only counted."""
    rig = Rig().up()
    for message in (m("A"), m("A"), m("A", other=1)):
        say(rig, message)
    assert names(rig) == "A"
    assert [(event.type, event.id) for event in rig.of(DuplicateConflict)] == [("a", "A")]
    assert rig.session.inbound.duplicates == 2


def test_one_id_may_serve_two_types():
    """`tool_call`, then `approval_required` with the same id: both are messages."""
    rig = Rig().up()
    rig.hear("tool_call", {"name": "1"}, id="7")
    rig.hear("approval_required", {"name": "2"}, id="7")
    assert names(rig) == "1 2"


def test_messages_cut_off_during_the_first_join_are_not_lost_in_silence():
    """The server has joined us and says something, the link dies before we are READY: the next join has a verdict."""
    rig = Rig()
    rig.connect()
    rig.authenticate()
    rig.hear("session_joined")
    say(rig, m("A"))
    rig.lose()
    rejoined(rig)
    rig.replay(*ms("A B"))
    rig.replay(*ms("A B"))
    assert (verdict_of(rig), names(rig)) == ("UNKNOWN(no_anchor)", "| A B")


# ---- a new process ------------------------------------------------------------------------------------------------


def _process(rig):
    return rejoined(Rig(store=rig.store, session_id=None, seed=2))


def test_a_new_process_gets_again_what_was_never_taken():
    """Two of three were read, the second is still in hand: it comes again flagged, the third for the first time."""
    rig = lost("A B C", take=False)
    rig.session.inbound.take()
    rig.session.inbound.take()
    rig = _process(rig)
    rig.replay(*ms("A B C"))
    assert verdict_of(rig) == "RECOVERED(anchor)"
    assert [(item.id, item.redelivered) for item in rig.take()] == [("B", True), ("C", False)]


def test_every_process_that_may_have_seen_it_keeps_the_flag():
    """Three processes die before the message is taken: the fourth delivers it flagged."""
    rig = lost("A B", take=False)
    rig.session.inbound.take()
    rig.session.inbound.take()
    Rig(store=rig.store, session_id=None, seed=2)
    rig = _process(rig)
    rig.replay(*ms("A B"))
    rig = _process(rig)
    rig.replay(*ms("A B"))
    assert [(item.id, item.redelivered) for item in rig.take()] == [("B", True)]


def test_the_flag_belongs_to_the_message_that_was_in_hand():
    """Under a gap the answer may begin with others: the one that may repeat is flagged, whichever place it has."""
    rig = lost("A x B", take=False)
    for _ in range(3):
        rig.session.inbound.take()
    rig = _process(rig)
    rig.replay(*ms("x B C"))
    rig.replay(*ms("x B C"))
    assert verdict_of(rig) == "GAP(truncated)"
    taken = [(item.payload["name"], item.redelivered) for item in rig.take()[1:]]
    assert taken == [("x", False), ("B", True), ("C", False)]


@pytest.mark.parametrize("replay", [None, "request_replay"])
def test_what_was_in_hand_keeps_the_flag_where_it_is_pushed_as_if_it_were_live(replay):
    """A server without a replay pushes what it holds during the join: what the dead process had in hand may come twice."""
    rig = lost("A x", take=False, dialect=Dialect(request_replay=replay))
    for _ in range(2):
        rig.session.inbound.take()
    again = Rig(store=rig.store, session_id=None, seed=2, dialect=Dialect(request_replay=replay))
    again.connect()
    again.authenticate()
    for message in ms("A x y"):
        say(again, message)
    again.hear("session_joined")
    if replay is None:
        again.pongs()
    else:
        again.write()
        again.replay()
        again.replay()
    assert verdict_of(again) == f"UNKNOWN({'no_replay' if replay is None else 'empty'})"
    taken = [(item.payload["name"], item.redelivered) for item in again.take()[1:]]
    assert taken == [("x", True), ("y", False)]
