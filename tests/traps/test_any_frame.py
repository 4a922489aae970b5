"""Arbitrary text, objects and frames, of lengths around every bound in the code: no entry point raises.

Rule: the bounds are the constants in the code; each is tried with a text one shorter, as long, and one longer.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import resilient_bridge as rb
from resilient_bridge.bridge import BridgeState
from resilient_bridge.failure import Failure, redact, redact_lines, redact_value
from tests.bridges.servers.graphql_ws_dialect import graphql_ws
from tests.bridges.servers.nostr_dialect import nostr
from tests.bridges.servers.yjs_dialect import yjs
from tests.calls.forms import at_once
from tests.internals.stores import record_line
from tests.protocol.driving import CUT, Rig
from tests.protocol.frames_rig import FramesRig


# What the numbers named below are in the code today: redaction, classification, texts, lines, suggestions, names.
BOUNDS = (
    4,
    6,
    8,
    10,
    32,
    40,
    50,
    60,
    64,
    80,
    100,
    120,
    160,
    200,
    255,
    300,
    480,
    500,
    960,
    2_000,
    4_000,
    4_096,
    8_000,
    8_192,
    65_536,
)
FILLERS = (
    " ", "\n", "x", "a b ", "é", "\ud800", "\u202e", "'", '"', "\\", "token=", "token: ", "://", "@", "a://b@", "429 ", "ECONNREFUSED ", "/", "../", "{", "[",
    "<token>", "-----BEGIN PRIVATE KEY-----", "eyJ", "sk-", "Cookie: ", "--token ", "-u a:b ", "connection refused ", "ENOENT: '/a/", "\x1b[31m", "\0", "0", "=>",
)  # fmt: skip
QUICK = settings(max_examples=20, suppress_health_check=list(HealthCheck))


@st.composite
def bounded_text(draw):
    """A text of a bound's length, or one more or less, made of one filler, with special text at its ends."""
    length = draw(st.sampled_from(BOUNDS)) + draw(st.sampled_from((-1, 0, 1)))
    filler = draw(st.sampled_from(FILLERS))
    begin, end = draw(st.text(max_size=4)), draw(st.text(max_size=4))
    return (begin + filler * (length // len(filler) + 1))[: max(0, length - len(end))] + end


texts = bounded_text() | st.text(max_size=12)
plain = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=20)
data = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            texts | st.sampled_from(("code", "message", "error", "details", "token")),
            inner,
            max_size=6,
        )
    ),
    max_leaves=5,
)
CODES = (
    st.sampled_from(
        (
            "SYS_INTERNAL_ERROR",
            "AUTH_INVALID_TOKEN",
            "SESS_NOT_FOUND",
            "PROTO_INVALID_MESSAGE",
            "CONN_",
            "NOPE",
        )
    )
    | texts
)
FIELDS = (
    "code", "message", "details", "suggestions", "recoverable", "retryable", "retry_after", "violations", "request_type", "max_retries", "session_id",
    "messages", "server_id", "message_id", "status", "reason",
)  # fmt: skip
payloads = st.dictionaries(st.sampled_from(FIELDS), CODES | data, max_size=4)
TYPES = (
    "error", "connection_error", "connection_ack", "session_joined", "replay_buffer", "heartbeat_pong", "message_ack", "session_end", "note", "tool_result",
)  # fmt: skip


def test_the_bounds_are_those_of_the_code():
    """The numbers above are the constants of the modules that read foreign text: change a bound in both files."""
    root = Path(rb.__file__).parent
    source = "".join((root / name).read_text() for name in (
        "failure/redaction.py", "failure/secret_shapes.py", "failure/failure.py", "failure/texts.py", "failure/exits.py",
        "failure/dispatch.py", "failure/statuses.py", "client/secrets.py", "calls/outcome.py", "stores/session_lines.py",
    ))  # fmt: skip
    for bound in (8_192, 65_536, 500, 200, 160, 4_096, 480, 8_000, 100):
        assert f"{bound:_}" in source or str(bound) in source
        assert bound in BOUNDS


def _all_forms(failure: Failure) -> None:
    for text in (str(failure), repr(failure), failure.to_llm()):
        text.encode()
    failure.explain().encode()
    json.dumps(failure.to_dict(), allow_nan=False)
    json.dumps(failure.to_mcp(), allow_nan=False)
    json.dumps(failure.to_report(datetime.now(UTC)), allow_nan=False)


@QUICK
@given(texts)
def test_any_text_is_redacted(text):
    """Bounded, on one line, encodable, and stable."""
    shown = redact(text)
    assert len(shown) <= 500
    shown.encode()
    assert redact(shown) == shown
    redact_lines(text, limit=100).encode()


@QUICK
@given(data)
def test_any_data_is_redacted_classified_and_recorded(value):
    """As details, as an answer, as an error object, in a line of a session log."""
    json.dumps(redact_value({"value": value}), allow_nan=True).encode()
    rb.classify(value)
    _all_forms(
        Failure.of(
            "CONN_RESET",
            details={"value": value, "exit_code": value, "errno": value, "http_status": value},
        )
    )
    if isinstance(value, dict):
        _all_forms(Failure.from_mcp(value))
        _all_forms(Failure.from_mcp({"code": value.get("code"), "message": value, "data": value}))
        rb.classify({"jsonrpc": "2.0", "error": value})
        rb.classify({"isError": True, "content": [value], "structuredContent": value})
    record_line({"value": value, "token": value}, datetime.now(UTC))


@QUICK
@given(
    texts,
    st.sampled_from(
        (RuntimeError, OSError, ConnectionError, TimeoutError, ValueError, KeyError, Exception)
    ),
)
def test_any_error_is_classified_suggested_for_and_captured(text, kind):
    """`classify`, `suggest`, `capture` and `Toolbox.call` accept it, and so does every form of their results."""
    error = kind(text)
    _all_forms(rb.classify(error))
    rb.agent.suggest(error)

    def call() -> None:
        raise error

    outcome = rb.capture(call)
    assert outcome.error is error
    outcome.to_llm()
    toolbox = rb.agent.Toolbox(rb.Policy(at_once(attempts=1)))
    toolbox.tool(call)
    outcome = asyncio.run(toolbox.call("call", {text: text}))
    json.loads(outcome.to_llm())
    json.loads(asyncio.run(toolbox.call(text, text)).to_llm())
    outcome = asyncio.run(toolbox.call("call", {}))
    assert outcome.error is error
    json.loads(outcome.to_llm())


@QUICK
@given(
    st.sampled_from(("AUTHENTICATING", "JOINING", "REPLAYING", "READY")),
    st.lists(st.tuples(st.sampled_from(TYPES) | texts, payloads | plain, plain), max_size=2),
)
def test_any_frames_leave_the_session_core_sound(state, frames):
    """In every phase a frame is a message, an event, or a typed end of the connection, and never an internal error."""
    rig = Rig().up()
    if state != "READY":
        rig.lose()
        rig.connect()
    if state in {"JOINING", "REPLAYING"}:
        rig.authenticate()
    if state == "REPLAYING":
        rig.join()
    rig.send("note", {"x": 1})
    with rb.testing.record():
        for type_, payload, identity in frames:
            frame = json.dumps(
                {"type": type_, "id": identity, "timestamp": identity, "payload": payload},
                default=str,
            )
            rig.session.receive(frame, rig.now)
            rig.after()
            if rig.session.death is not None:
                break
            rig.write()
        for event in rig.events:
            repr(event)
            failure = getattr(event, "failure", None)
            if failure is not None:
                _all_forms(failure)
    assert rig.state in set(BridgeState)
    rig.take()


@QUICK
@given(texts | st.binary(max_size=40))
def test_any_raw_frame_leaves_the_session_core_sound(frame):
    """Text and bytes that are no JSON, or JSON that is no message."""
    rig = Rig().up()
    rig.session.receive(frame, rig.now)
    rig.after()
    for event in rig.events:
        repr(event)


@pytest.mark.parametrize(
    "length", [bound + by for bound in (160, 500, 4_096, 8_192) for by in (-1, 0, 1)]
)
def test_a_listener_hears_of_errors_of_any_length(length):
    """Every event that a listener gets can be printed."""
    for filler in FILLERS:
        text = (filler * length)[:length]

        @rb.Policy(at_once(attempts=2))(idempotent=True)
        def call(text=text) -> None:
            raise ConnectionError(text)

        with rb.testing.record() as recorded, pytest.raises(ConnectionError):
            call()
        assert recorded
        for event in recorded:
            repr(event).encode("utf-8", "strict")


# ---- every dialect -----------------------------------------------------------------------------------------------------

DIALECTS = {
    "recursor": rb.dialects.recursor,
    "recursor_live": rb.dialects.recursor_live,
    "plain": rb.dialects.plain,
    "jsonrpc": rb.dialects.jsonrpc,
    "openhands": rb.dialects.openhands,
    "openhands_legacy": rb.dialects.openhands_legacy,
    "mattermost": rb.dialects.mattermost,
    "slack_socket_mode": rb.dialects.slack_socket_mode,
    "agno": rb.dialects.agno(workflow_id="w"),
    "centrifugo": rb.dialects.centrifugo("news"),
    "jupyter": rb.dialects.jupyter(session="s"),
    "socketio": rb.dialects.socketio(),
    "sequence": rb.dialects.sequence(field="seq", ask={"type": "resume", "from": "{position}"}, end="end", reset="reset", hello="hello", epoch="epoch"),
    "last_event_id": rb.dialects.last_event_id(end="end", reset="reset"),
    "since": rb.dialects.since(end="end", ping={"type": "ping"}, pong="pong"),
    "nostr": nostr("t", since=0),
    "yjs": yjs(),
    "graphql_ws": graphql_ws(["first"], start=0),
}  # fmt: skip
HOSTILE = (
    b"", b"\x00", b"\xff" * 50, b"\x80\x81", b"{", b'{"type":"end"}', b"\x00\x01\xff\xff\xff\xff\x0f", b"\x00\x00\x01\x80\x80\x80\x80\x08",
    "", " ", "\n", "null", "true", "0", "-0", "1e400", "NaN", '"', '"x"', "[]", "{}", "[[]]", "{", "}", "[1,2", '{"a":1,"a":2}', '"\\ud800"', "\x00", "é" * 50,
    '{"type":"\\ud800"}', '{"push":7}', '{"push":{"pub":7}}', '{"push":{"channel":7,"pub":{"offset":true,"data":1}}}', '{"id":[],"error":7}', '{"id":1e999}',
    '{"subscribe":{"publications":[1,[],null]},"id":1500000000}', '{"connect":[]}', '{"connect":{"ping":"x"},"id":1}', '{"id":{},"result":1,"jsonrpc":"2.0"}',
    '["EVENT"]', '["EVENT",1,{}]', '["OK"]', '["OK",1,2,3]', '["EOSE"]', "0{", "0", "1", "2", "3", "40", "42", "42[", '42["x"', "43", "430[]", "44", "451-[", "9", "42[{}]",
    '{"seq":1,"type":[]}', '{"type":"hello","epoch":{}}', '{"type":"end"}', '{"type":"reset"}', '{"type":"hello","num_connections":"x"}', '{"envelope_id":7,"type":{}}',
    '{"event":"hello","seq":"x","data":7}', '{"event":7,"seq":[]}', '{"header":7,"msg_type":1}', '{"header":{"msg_type":"status"},"parent_header":7,"content":[]}',
    '{"kind":"x","source":"y","seq":"7","id":7,"timestamp":7}', '{"type":"replay","from_seq":"a"}', '{"event":"x","event_index":"a","run_id":7}', '{"action":7}',
    '{"type":"next","id":"first","payload":7}', '{"type":"connection_ack"}', '{"type":"ping"}', '{"type":"complete"}', '{"type":"error","payload":7}',
    "[" * 10_000 + "]" * 10_000, '{"a":' * 10_000 + "1" + "}" * 10_000, "9" * 10_000, '{"seq":' + "9" * 400 + ',"type":"x"}', '{"id":' + "9" * 400 + "}",
)  # fmt: skip
names = st.sampled_from(
    (
        *("type", "id", "seq", "event", "data", "payload", "push", "pub", "channel", "offset", "connect", "subscribe", "error", "code", "message", "result"),
        *("method", "jsonrpc", "header", "parent_header", "msg_type", "msg_id", "content", "timestamp", "envelope_id", "kind", "source", "run_id", "event_index"),
        *("num_connections", "from_seq", "to_seq", "status", "seq_reply", "publications", "epoch", "recovered", "was_recovering", "retry_after"),
    )
)  # fmt: skip
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(TYPES)
    | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
    max_leaves=8,
)
any_frame = st.one_of(
    st.sampled_from(HOSTILE),
    st.binary(max_size=60),
    st.text(max_size=30),
    st.builds(json.dumps, st.dictionaries(names, values, max_size=6)),
    st.builds(json.dumps, values),
    st.builds(
        lambda prefix, value: prefix + json.dumps(value),
        st.sampled_from(("42", "0", "40", "43", "4511-")),
        values,
    ),
)


def _survives(name, frames, *, is_ready):
    """Whatever came, the session can say where it stands, and each send of ours has one outcome."""
    rig = FramesRig(DIALECTS[name])
    rig.connect(
        "token" if DIALECTS[name].login is not None or DIALECTS[name].auth is not None else None
    )
    if is_ready:
        rig.idle(30)
    payload = {"args": [1]} if name == "socketio" else {"content": "x"}
    try:
        entry = rig.send("do", payload)
    except rb.errors.ProtocolError:  # a dialect whose messages are of another form
        entry = None
    rig.write()
    for frame in frames:
        rig.session.receive(frame, rig.now)
        rig.after()
        if rig.session.death is not None:
            break
        rig.write()
    rig.idle(1)
    for event in rig.events:
        repr(event)
        failure = getattr(event, "failure", None)
        if failure is not None:
            _all_forms(failure)
            assert failure.code != "SYS_INTERNAL_ERROR"
    for item in rig.take():
        repr(item)
    death = rig.session.death
    if death is not None:
        _all_forms(death)
    rig.lose(death or CUT)
    if rig.state is not BridgeState.FAILED:
        rig.connect()
        rig.session.close(rig.now)
    rig.after()
    assert entry is None or entry.is_settled
    assert not [*rig.session.outbound.outbox.unsettled()]
    assert not rig.session.outbound.open_requests


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("is_ready", [False, True], ids=["greeting", "later"])
def test_l06_every_hostile_frame_through_every_dialect(name, is_ready):
    """Bytes, half of JSON, numbers of 400 digits, 10,000 levels: alone, and all of them one after the other."""
    for frame in HOSTILE:
        _survives(name, [frame], is_ready=is_ready)
    _survives(name, HOSTILE, is_ready=is_ready)


@pytest.mark.parametrize("name", DIALECTS)
@QUICK
@given(frames=st.lists(any_frame, max_size=4), is_ready=st.booleans())
def test_l06_any_frame_through_every_dialect(name, frames, is_ready):
    """Any bytes, any text, any JSON in the words of these servers."""
    _survives(name, frames, is_ready=is_ready)


@pytest.mark.parametrize("name", DIALECTS)
def test_l06_ten_megabytes_through_every_dialect(name):
    """Of one text, of many small values, and of bytes."""
    text = "x" * 10_000_000
    for frame in (
        text,
        json.dumps({"type": "x", "payload": {"text": text}}),
        "[" + "1," * 4_000_000 + "1]",
        text.encode(),
        b"\xff" * 10_000_000,
    ):
        _survives(name, [frame], is_ready=True)
