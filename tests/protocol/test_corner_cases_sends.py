"""What a server says about messages of ours: acknowledgements, answers, refusals that name nothing, repetitions; and what we owe it."""

from __future__ import annotations

import json

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

import resilient_bridge as rb
from resilient_bridge.failure import classify, error_for
from tests.internals.telemetry import AcknowledgementLate
from tests.protocol.frames_rig import FramesRig, d, dialect, event, gap, shown, unknown


CONFIRMS = {"confirms": True, "answers": True}


def rig_with(*facts, positions=None, **settings):
    """Connected, having heard these facts."""
    return FramesRig(dialect(positions, **{**CONFIRMS, **settings})).up(*facts)


def states(*entries):
    """How each of these messages stands."""
    return [str(entry.state) for entry in entries]


# ---- acknowledgements --------------------------------------------------------------------------------------------


def test_an_acknowledgement_by_numbers_settles_those():
    """Serial 2 and a count of 2: the second and the third, and neither the one before nor the one behind."""
    rig = rig_with()
    sends = [rig.send("note", {"n": n}) for n in range(4)]
    numbers = [json.loads(frame)["number"] for frame in rig.write()]
    rig.hear(d.Acked(ids=numbers[1:3]))
    assert states(*sends) == ["written", "confirmed", "confirmed", "written"]


def test_an_acknowledgement_by_key_settles_its_send():
    """The key is what a second send of the same thing has in common with the first, so a server may know messages by it."""
    rig = rig_with()
    first, second = (rig.send("note", key=key) for key in ("k1", "k2"))
    rig.write()
    rig.hear(d.Acked(ids=["k2"]))
    assert states(first, second) == ["written", "confirmed"]
    rig.hear(d.Refused(to="k1", code="no"))
    assert states(first, second) == ["dead", "confirmed"]
    assert rig.session.outbound.stray_acks == 0


def test_an_acknowledgement_by_an_echo_that_fits_nothing_is_counted():
    """As one by an id is: `echo=` is missing in this dialect, so no message has such a name."""
    rig = rig_with()
    sent = rig.send("note")
    rig.write()
    rig.hear(d.Acked(echo="hash"))
    assert states(sent) == ["written"]
    assert rig.session.outbound.stray_acks == 1


def test_a_cumulative_acknowledgement_settles_all_before_it():
    """Through the third: three are confirmed, the fourth is not."""
    rig = rig_with()
    sends = [rig.send("note", {"n": n}) for n in range(4)]
    rig.write()
    rig.hear(d.Acked(through=3))
    assert states(*sends) == ["confirmed", "confirmed", "confirmed", "written"]


def test_an_acknowledgement_of_what_was_never_sent_is_harmless():
    """It settles nothing that waits, and nothing that comes later; the same one twice changes nothing."""
    rig = rig_with(d.Hello(), waits_for_hello=True)
    rig.lose()
    rig.connect()
    waiting = rig.send("note")
    for fact in (d.Acked(ids=(1,)), d.Acked(through=99), d.Acked(ids=("nobody's", 77))):
        rig.hear(fact)
    assert states(waiting) == ["queued"]
    rig.hear(d.Hello())
    assert states(waiting) == ["written"]
    for _ in range(2):
        rig.hear(d.Acked(ids=(waiting.seq,)))
        assert states(waiting) == ["confirmed"]
    assert rig.read() == [unknown("no_replay")]


@pytest.mark.parametrize("dedupes", [True, False])
def test_an_acknowledgement_counts_for_its_connection(dedupes):
    """After a new session what went out before is of unknown outcome, and an early number of the new connection does not confirm it."""
    positions = {"contiguous": True, "ends": "stated"}
    rig = rig_with(
        d.Hello(session="one"), event(1), positions=positions, waits_for_hello=True, dedupes=dedupes
    )
    before = rig.send("before")
    rig.write()
    rig.again()
    rig.hear(d.Hello(session="two"))
    after = rig.send("after")
    (frame,) = rig.write()
    assert json.loads(frame)["id"] == after.id
    rig.hear(d.Acked(through=before.seq))
    assert states(before, after) == ["unknown", "written"]
    assert rig.read()[-1] == gap("new_session")


def test_an_acknowledgement_before_the_replay_is_over_counts_for_its_connection():
    """Serials that begin anew with each connection: the first of this one is not the first of the one before."""
    rig = rig_with(event(1), positions={"ends": "stated"}, dedupes=True)
    sent = rig.send("note")
    (first,) = rig.write()
    rig.again()
    rig.hear(d.Acked(through=sent.seq))
    assert states(sent) == ["written"]
    assert rig.hear(d.Replayed(complete=True)) == [first]
    rig.hear(d.Acked(through=sent.seq))
    assert states(sent) == ["confirmed"]


def test_what_a_server_recognises_goes_out_again_with_its_id():
    """The session goes on, and the server drops a repetition: same id, same number."""
    rig = rig_with(
        d.Hello(session="one"), positions={"ends": "stated"}, waits_for_hello=True, dedupes=True
    )
    sent = rig.send("note")
    (first,) = rig.write()
    rig.again()
    rig.hear(d.Hello(session="one"))
    assert rig.wire == [first]
    rig.hear(d.Acked(ids=(sent.id,)))
    assert states(sent) == ["confirmed"]


# ---- a repetition ------------------------------------------------------------------------------------------------


def test_a_repetition_that_is_refused_as_one_is_a_success():
    """The server had it already: that is what was wanted, and the reader is not bothered."""
    rig = rig_with(dedupes=True)
    sent = rig.send("note")
    rig.write()
    rig.again()
    rig.hear(d.Reply(to=sent.seq, duplicate=True))
    assert (states(sent), sent.confirmation) == (["confirmed"], "read")
    assert rig.read() == [unknown("no_replay")]


def test_a_repetition_that_is_dropped_in_silence_settles_nothing():
    """A kernel drops what it has run before, and says nothing: the outcome stays unknown, to the end."""
    rig = FramesRig(d.jupyter(session="s", resend=True)).up()
    sent = rig.send("execute_request", {"code": "1"})
    first = rig.write()
    rig.again()
    assert rig.wire == first
    rig.idle(300)
    assert states(sent) == ["written"]
    rig.session.close(rig.now)
    assert states(sent) == ["unknown"]


def test_what_a_server_does_not_recognise_is_not_repeated():
    """Without a word that it drops repetitions the outcome is unknown, and nothing goes out twice."""
    rig = FramesRig(d.jupyter(session="s")).up()
    sent = rig.send("execute_request", {"code": "1"})
    rig.write()
    rig.again()
    assert (states(sent), rig.wire) == (["unknown"], [])


# ---- refusals ----------------------------------------------------------------------------------------------------


def test_a_refusal_that_names_a_type_ends_the_only_message_of_it():
    """ReCursor names the type of the request that it refuses, and not its id."""
    rig = FramesRig(d.recursor_live).up({"type": "connection_ack", "payload": {}})
    asked, other = rig.request("git_status"), rig.request("file_read")
    rig.write()
    refusal = {"request_type": "git_status", "code": "GIT_ERROR", "message": "no repository"}
    rig.hear({"type": "error", "payload": refusal})
    assert states(asked, other) == ["dead", "written"]
    assert asked.failure.message == "no repository"
    assert rig.read() == []


def test_a_refusal_that_fits_two_messages_goes_to_the_reader():
    """Nobody can tell which of them it is: neither ends, and the refusal is a message."""
    rig = rig_with()
    asked = [rig.request("ask"), rig.request("ask")]
    rig.write()
    rig.hear(d.Refused(raw="which?", type="ask", code="E"))
    assert states(*asked) == ["written", "written"]
    assert rig.read() == ["which?"]
    rig.hear(d.Reply(to=asked[0].id, raw="yes"))
    rig.hear(d.Refused(raw="that one", type="ask", code="E"))
    assert states(*asked) == ["confirmed", "dead"]
    assert rig.read() == []


def test_a_refusal_that_names_nothing_goes_to_the_reader():
    """agno names neither a request nor its type."""
    rig = FramesRig(d.agno(workflow_id="w")).up({"event": "connected", "requires_auth": False})
    sent = rig.send("start-workflow", {"message": "go"})
    rig.write()
    rig.hear(refusal := {"event": "error", "error": "no such workflow"})
    assert rig.read() == [refusal]
    assert states(sent) == ["written"]


def test_a_refusal_by_number_ends_that_message():
    """Whatever its type, and whatever else waits."""
    rig = rig_with()
    sends = [rig.send("note"), rig.send("note")]
    rig.write()
    rig.hear(d.Refused(to=sends[0].seq, code="E", text="not this one"))
    rig.hear(d.Refused(to=sends[0].seq, code="E", text="not this one"))
    assert states(*sends) == ["dead", "written"]


def refused_upgrade(status):
    """What the client makes of this status."""
    return classify(InvalidStatus(Response(status, "", Headers(), b"")))


def test_a_refused_upgrade_says_nothing_of_a_token_that_was_not_in_it():
    """OpenHands answers 403 to a query that it cannot read, and gets the key in the first frame."""
    rig = FramesRig(d.openhands)
    rig.connect("key")
    rig.hear({"type": "sync", "from_seq": -1})
    rig.hear({"type": "durable", "seq": 0, "event": {"id": "a", "kind": "X"}})
    rig.lose()
    rig.session.resume()
    rig.session.connecting(rig.now)
    failure = rig.lose(refused_upgrade(403)).failure
    assert not failure.code.startswith("AUTH_")
    assert not isinstance(error_for(failure), rb.errors.AuthError)


@pytest.mark.parametrize("login", ["asked", "first"])
def test_a_refusal_before_any_token_was_sent_is_not_about_one(login):
    """A server that is full says so to everybody: before it has asked who we are, or to a client without a token."""
    rig = FramesRig(dialect(None, login=login, waits_for_hello=True))
    rig.connect("key" if login == "asked" else None)
    assert not any("key" in frame for frame in rig.wire)
    rig.hear(d.Refused(code="FULL", text="too many connections"))
    assert rig.session.death is not None
    assert not rig.session.death.code.startswith("AUTH_")


def test_a_refusal_of_our_token_is_about_it():
    """Behind our first frame, before the greeting: whatever code the server has for that."""
    rig = FramesRig(dialect(None, login="first", waits_for_hello=True))
    rig.connect("key")
    rig.hear(d.Refused(code="E17", text="who are you"))
    assert rig.session.death.code == "AUTH_INVALID_TOKEN"
    assert not rig.lose(rig.session.death).retry


# ---- what we owe -------------------------------------------------------------------------------------------------


def envelope(name, identity="Ev1"):
    """An event of Slack's in an envelope of this name."""
    return {
        "type": "events_api",
        "envelope_id": name,
        "payload": {"event_id": identity, "event": {"type": "message"}},
    }


def owed(frames):
    """The envelopes that these frames acknowledge."""
    return [json.loads(frame)["envelope_id"] for frame in frames]


def test_an_event_that_comes_again_in_another_envelope_is_one_event():
    """Slack sends again what was not acknowledged: delivered once, by its own id, and the newest envelope is what is acknowledged."""
    rig = FramesRig(d.slack_socket_mode).up({"type": "hello"})
    assert rig.hear(envelope("env1")) == []
    assert rig.hear(envelope("env2")) == []
    assert len(rig.take()) == 1
    assert owed(rig.write()) == ["env2"]
    assert owed(rig.hear(envelope("env3"))) == ["env3"]
    assert rig.take() == []
    rig.again()
    rig.hear({"type": "hello"})
    assert owed(rig.hear(envelope("env4"))) == ["env4"]
    assert [shown(item) for item in rig.take()] == [unknown("no_replay")]


def test_an_event_is_not_acknowledged_before_it_is_read():
    """It comes again, and is acknowledged once it is read; that it is late is reported, once."""
    rig = FramesRig(d.slack_socket_mode).up({"type": "hello"})
    rig.hear(envelope("env1"))
    rig.idle(10)
    assert [late.id for late in rig.of(AcknowledgementLate)] == ["Ev1"]
    rig.again()
    rig.hear({"type": "hello"})
    assert rig.hear(envelope("env2")) == []
    assert len(rig.take()) == 2
    assert owed(rig.write()) == ["env2"]


def test_two_events_in_one_moment_are_owed_each():
    """Different events in different envelopes: both are delivered, both are acknowledged."""
    rig = FramesRig(d.slack_socket_mode).up({"type": "hello"})
    rig.hear(envelope("env1", "Ev1"))
    rig.hear(envelope("env2", "Ev2"))
    assert len(rig.take()) == 2
    assert owed(rig.write()) == ["env1", "env2"]


# ---- frames ------------------------------------------------------------------------------------------------------


def test_two_framings_on_one_connection():
    """agno says a run to whoever started it as server-sent events, and all else as JSON: each frame says what it is."""
    rig = FramesRig(d.agno(workflow_id="w")).up({"event": "connected", "requires_auth": False})
    for number, name in enumerate(("RunStarted", "Step")):
        body = json.dumps({"event": name, "run_id": "mine", "event_index": number})
        rig.hear(f"event: {name}\ndata: {body}\n\n")
    rig.hear({"event": "RunStarted", "run_id": "other", "event_index": 0})
    assert [message["event"] for message in rig.read()] == ["RunStarted", "Step", "RunStarted"]
    rig.again()
    rig.hear({"event": "connected", "requires_auth": False})
    asked = {frame["run_id"]: frame.get("last_event_index") for frame in map(json.loads, rig.wire)}
    assert asked == {"mine": 0, "other": None}
    rig.hear({"event": "Step", "run_id": "mine", "event_index": 1})
    rig.hear({"event": "Step", "run_id": "mine", "event_index": 2})
    rig.hear({"event": "subscribed", "run_id": "mine"})
    rig.hear({"event": "error", "error": "Run other not found in database"})
    assert rig.resumed == ("GAP", "position_gone", {"mine": "RECOVERED", "other": "GAP"})
    assert [reason for _, reason, *_ in rig.read()[:1]] == ["position_gone"]


def test_a_frame_that_the_dialect_cannot_read_is_not_the_end():
    """It is counted and reported, and the next frame is read."""
    rig = rig_with()
    rig.hear("no JSON")
    rig.hear(event(None, "news"))
    assert rig.read() == ["news"]
    assert rig.of(rb.events.MessageRejected)


@pytest.mark.parametrize("name", [[1], {"a": 1}, 1.5, None, True], ids=repr)
def test_an_answer_to_what_is_no_name_answers_nothing(name):
    """A server's id may be any JSON: an answer, a refusal or an acknowledgement of a list is about nothing of ours, and ends nothing."""
    rig = rig_with()
    sent = rig.send()
    rig.write()
    rig.hear(d.Reply(to=name, raw="an answer"))
    rig.hear(d.Acked(ids=[name]))
    rig.hear(d.Refused(to=name or "none", code="X", text="a refusal"))
    rig.hear(event(None, "news"))
    assert "news" in rig.read()
    assert not sent.is_settled
