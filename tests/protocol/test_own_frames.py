"""A dialect with frames of its own: what its two functions may do, what they may not, and which fields go with them."""

from __future__ import annotations

import json
import pickle

import pytest

import resilient_bridge as rb
from tests.bridges.servers.nostr_dialect import nostr
from tests.internals.protocol import canonical, decode_json, own_frame
from tests.protocol.frames_rig import FramesRig, d, dialect
from tests.rows import each_row


def read(frame):
    """One event for each line of a text."""
    return tuple(rb.dialects.Received(raw=line, type="line") for line in frame.splitlines())


def write(message):
    """The payload's one text."""
    return message.payload["text"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"decode": read}, "Dialect.encode"),
        ({"encode": write}, "Dialect.encode"),
        ({"decode": read, "encode": write, "join": "join"}, "Dialect.join"),
        ({"decode": read, "encode": write, "ping": "ping", "pong": "pong"}, "Dialect.ping"),
        ({"decode": 7, "encode": write}, "Dialect.decode"),
        ({"bearer": "yes"}, "Dialect.bearer"),
    ],
)
def test_fields_that_do_not_go_together_are_refused_by_name(fields, named):
    """One function without the other, or a message that the session would have to speak itself."""
    with pytest.raises(rb.ConfigError, match=named):
        rb.bridge.Dialect.envelopes(**fields)


def test_the_dialects_are_values():
    """Equal to themselves after a pickle, hashable, and other than each other."""
    for value in (rb.dialects.plain, rb.dialects.recursor):
        assert pickle.loads(pickle.dumps(value)) == value
        assert hash(value) == hash(pickle.loads(pickle.dumps(value)))
    assert rb.dialects.plain != rb.dialects.recursor == rb.bridge.Dialect()


@each_row(
    ("frame", "raw", "type_"),
    [
        ('{"type": "news", "id": 7}', {"type": "news", "id": 7}, "news"),
        ('{"type": "news", "id": "a"}', {"type": "news", "id": "a"}, "news"),
        ('{"type": 7}', {"type": 7}, ""),
        ("[1, 2]", [1, 2], ""),
        ("null", None, ""),
        ("NaN", "NaN", ""),
        ("", "", ""),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}', ""),
        ('"\\ud800"', '"\\ud800"', ""),
        ("[" * 200 + "]" * 200, "[" * 200 + "]" * 200, ""),
        (b"\xff\x00", b"\xff\x00", ""),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_plain_reads_any_frame(frame, raw, type_):
    """JSON that is unambiguous as its value, all else as it came; nothing has an id."""
    (event,) = rb.dialects.plain.decode(frame)
    assert (event.raw, event.type, event.id) == (raw, type_, None)


@pytest.mark.parametrize(
    "text", ["NaN", '{"a": 1, "a": 2}', "[" * 200 + "]" * 200, "{", '"\\ud800"', "1e999"]
)
def test_json_that_is_ambiguous_is_no_json(text):
    """The same rules as for an envelope."""
    with pytest.raises(ValueError, match=r".*"):
        decode_json(text)


def test_what_is_no_json_is_its_own_canonical_text():
    """Two frames of a dialect of its own are compared like any others."""
    assert canonical('{"b": 1, "a": 2}') == canonical('{"a":2,"b":1}')
    assert canonical("hello") == "hello"


def test_a_message_that_cannot_be_written_is_refused():
    """Whatever the function does: an error of its own, or text that UTF-8 cannot write."""
    message = rb.dialects.Send(type="", payload={}, id="1", key="1", timestamp="")
    for encode in (lambda _: 1 / 0, lambda _: "\ud800", lambda _: 7):
        with pytest.raises(rb.errors.ProtocolError, match="frame") as refused:
            own_frame(encode, message)
        assert refused.value.failure.executed is rb.errors.Executed.NO


# ---- what a server says of messages that it names itself --------------------------------------------------------------


def _named(frame):
    """The server's own id of a message: its text, upside down."""
    return json.loads(frame)["send"][::-1]


def test_l11_a_refusal_by_an_id_of_the_servers_reaches_the_receipt():
    """`Refused(echo=)`: the message that it names is refused, the others wait; another one with that id is refused by the next."""
    rig = FramesRig(dialect(confirms=True, echo=_named)).up()
    one, two, three = (rig.send(name, {}) for name in ("ab", "cd", "ab"))
    rig.write()
    rig.hear(d.Refused(echo="dc", code="blocked", text="blocked: not here"))
    assert [str(entry.state) for entry in (one, two, three)] == ["written", "dead", "written"]
    assert two.failure.details["server_code"] == "blocked"
    rig.hear(d.Refused(echo="ba", code="blocked"))
    assert [str(entry.state) for entry in (one, three)] == ["dead", "written"]
    rig.hear(d.Acked(echo="ba"))
    assert str(three.state) == "confirmed"


def test_l11_a_refusal_of_nothing_of_ours_reaches_the_reader():
    """An id that no message of ours has: it is a message for the reader, and settles nothing."""
    rig = FramesRig(dialect(confirms=True, echo=_named)).up()
    entry = rig.send("ab", {})
    rig.write()
    rig.hear(d.Refused(raw="no", echo="zz", type="refusal"))
    assert rig.read() == ["no"]
    assert not entry.is_settled
    assert rig.state == "READY"


def test_l11_a_relay_of_nostr_refuses_an_event_of_an_earlier_process():
    """The id is read from the stored frame, so that no table of what was sent has to be kept."""
    first = FramesRig(nostr("topic", since=0))
    first.connect()
    first.hear('["EOSE", "numbers"]')
    first.send("EVENT", {"content": "spam"})
    sent = json.loads(first.write()[-1])[1]["id"]
    store = first.store
    rig = FramesRig(nostr("topic", since=0), store=store)
    (entry,) = rig.session.outbound.outbox.unsettled()
    rig.connect()
    rig.hear('["EOSE", "numbers"]')
    rig.write()
    rig.hear(json.dumps(["OK", sent, False, "blocked: spam"]))
    assert str(entry.state) == "dead"
    assert entry.failure.details["server_code"] == "blocked"
    assert "blocked: spam" in entry.failure.message


# ---- pings of the server, and its advice --------------------------------------------------------------------------------


def test_l11_the_answer_to_a_ping_knows_the_position():
    """Discord's heartbeat carries the last sequence number, whoever asks for it."""

    def encode(intent):
        if isinstance(intent, d.Ping | d.Pong):
            return json.dumps({"op": 1, "d": intent.record.position})
        return None

    speaks = dialect({"ends": "stated"}, pings=True, resume=lambda record: d.Resume()).evolve(
        encode=encode
    )
    rig = FramesRig(speaks).up()
    assert rig.hear(d.Ping()) == ['{"op": 1, "d": null}']
    rig.hear(d.Received(raw="a", position=7))
    assert rig.hear(d.Ping(body="x")) == ['{"op": 1, "d": 7}']


def test_l11_the_numbers_of_pongs_are_those_of_no_message():
    """As those of `Auth` and `Ping`: each once on a connection."""
    numbers = []

    def encode(intent):
        numbers.append(intent.number)

    rig = FramesRig(dialect().evolve(encode=encode)).up()
    rig.hear(d.Ping())
    rig.hear(d.Ping())
    assert len(set(numbers)) == 2
    assert min(numbers) > 1_000_000_000


@each_row(
    ("refusal", "advice"),
    [
        ({"code": "INSECURE_TRANSPORT", "remediation": "use TLS"}, ("use TLS",)),
        (
            {
                "code": "INSECURE_TRANSPORT",
                "remediation": "use TLS",
                "documentation_url": "https://x/",
            },
            ("use TLS", "see https://x/"),
        ),
        ({"code": "INSECURE_TRANSPORT", "suggestions": ["use TLS", 7, ""]}, ("use TLS",)),
        ({"code": "INSECURE_TRANSPORT"}, ("use wss://",)),
        ({"code": "AUTH_FAILED"}, ("check or renew the token",)),
        ({"code": "AUTH_FAILED", "remediation": "pair again"}, ("pair again",)),
        ({"code": "NO_SUCH_THING", "remediation": "pair again"}, ("pair again",)),
    ],
)
def test_l11_recursor_live_keeps_the_bridges_own_advice(refusal, advice):
    """`remediation` and its kin; without any, that of the code, which is never about a missing permission."""
    rig = FramesRig(rb.dialects.recursor_live)
    rig.connect("token")
    rig.hear({"type": "connection_error", "payload": {"message": "refused", **refusal}})
    decision = rig.lose(rig.session.death)
    assert decision.retry is False
    assert decision.failure.suggestions == advice
    assert decision.failure.category == "AUTH"


# ---- a session that is resumed in Auth ----------------------------------------------------------------------------------


def _gateway():
    """A chat's gateway: it greets, is sent IDENTIFY or RESUME, and says RESUMED behind the events that were missed."""

    def decode(frame):
        op, *rest = json.loads(frame)
        match op:
            case "hello":
                return (d.Challenge(),)
            case "ready":
                return (d.Hello(session=rest[0]),)
            case "resumed":
                return d.Hello(), d.Replayed(complete=True)
            case _:
                return (d.Received(raw=rest[1], type="event", position=rest[0]),)

    def encode(intent):
        if isinstance(intent, d.Auth) and intent.record.session is not None:
            return json.dumps(["resume", intent.record.session, intent.record.position])
        return json.dumps(["identify", intent.token]) if isinstance(intent, d.Auth) else None

    return rb.bridge.Dialect.envelopes(
        decode=decode, encode=encode, error=None, bearer=False, login="asked", waits_for_hello=True,
        positions=d.Positions(contiguous=True, ends="stated", distinct=True),
    )  # fmt: skip


def test_l11_a_dialect_that_resumes_in_auth_has_no_resume():
    """IDENTIFY at first, RESUME with session and position after a cut: RECOVERED by the server's word, each event once, in order."""
    rig = FramesRig(_gateway())
    rig.connect("t")
    assert rig.hear('["hello"]') == ['["identify", "t"]']
    rig.hear('["ready", "s1"]')
    for number in (1, 2):
        rig.hear(json.dumps(["event", number, f"e{number}"]))
    assert rig.read() == ["e1", "e2"]
    rig.again(token="t")
    assert rig.hear('["hello"]') == ['["resume", "s1", 2]']
    for number in (3, 4):
        rig.hear(json.dumps(["event", number, f"e{number}"]))
    assert rig.read() == []
    rig.hear('["resumed"]')
    assert rig.resumed[:2] == ("RECOVERED", "stated")
    assert rig.read() == ["e3", "e4"]


def test_l11_a_session_that_auth_cannot_resume_is_a_gap():
    """The server gives a new session: what came meanwhile is gone, and the next RESUME names that one."""
    rig = FramesRig(_gateway())
    rig.connect("t")
    rig.hear('["hello"]')
    rig.hear('["ready", "s1"]')
    rig.hear('["event", 1, "e1"]')
    rig.again(token="t")
    rig.hear('["hello"]')
    rig.hear('["ready", "s2"]')
    assert rig.resumed[0] == "GAP"
    rig.hear('["event", 1, "n1"]')
    assert [item if isinstance(item, str) else item[0] for item in rig.read()] == [
        "e1",
        "GAP",
        "n1",
    ]
    rig.again(token="t")
    assert rig.hear('["hello"]') == ['["resume", "s2", 1]']
