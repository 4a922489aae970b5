"""Session records: every operation in every state, texts that come back equal, and texts that are none."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import get_args

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resilient_bridge.failure import CODES, ConfigError, Failure, SessionError, StoreError
from resilient_bridge.protocol import Now
from tests.internals.protocol import (
    SNAPSHOT_BYTES,
    SessionCheckpoint,
    SessionOperation,
    SessionRecord,
    SessionState,
)
from tests.rows import each_row


THEN, LATER = Now(100.0, 1_774_000_000.0), Now(160.0, 1_774_000_060.0)
BROKEN = Failure.of(
    "TOOL_EXECUTION_FAILED", "bash failed", details={"exit_code": 1, "stderr": ["a", "b"]}
)
CHECKPOINT = SessionCheckpoint(
    message_count=7, last_message_id="m7", context_snapshot={"open": ["a.py"]}
)

# What an operation makes of a state, or the code it is refused with. `asleep`: paused, and not resumable.
CELLS = """
          activate  checkpoint  pause   resume    fail    close
created   active    created     TURN    NOT       error   closed
active    active    active      paused  NOT       error   closed
paused    TURN      paused      paused  active    error   closed
asleep    NOT       paused      paused  NOT       error   closed
error     NOT       NOT         NOT     NOT       error   closed
closed    CLOSED    CLOSED      CLOSED  CLOSED    CLOSED  CLOSED
"""
CODES_OF = {"TURN": "PROTO_SEQUENCE_ERROR", "NOT": "SESS_NOT_RESUMABLE", "CLOSED": "SESS_CLOSED"}
HEAD, *LINES = (line.split() for line in CELLS.strip().splitlines())
TABLE = [
    (state, operation, cell)
    for state, *cells in LINES
    for operation, cell in zip(HEAD, cells, strict=True)
]


def record(**fields):
    """A record, active unless told otherwise."""
    defaults = {
        "id": "s1", "agent_type": "claude", "working_directory": "/work", "state": "active", "resumable": True,
        "created_at": THEN.at, "last_activity_at": THEN.at, "checkpoint": CHECKPOINT,
    }  # fmt: skip
    return SessionRecord(**defaults | fields)


def in_state(name):
    """A record in a state of the table."""
    if name == "asleep":
        return record(state="paused", resumable=False)
    return record(state=name, error=BROKEN if name == "error" else None)


# ---- states --------------------------------------------------------------------------------------------------------


def test_the_table_has_every_cell():
    """Six operations in every state, and paused twice: what can be done with it depends on whether it is resumable."""
    assert set(HEAD) == set(get_args(SessionOperation))
    assert {state for state, *_ in LINES} == {*SessionState, "asleep"}


@pytest.mark.requirement("R10")
@each_row(("state", "operation", "cell"), TABLE)
def test_every_operation_in_every_state(state, operation, cell):
    """It moves the record as the table says, its checkpoint stays, and the activity is noted; or it is refused by that code."""
    before = in_state(state)
    error = BROKEN if operation == "fail" else None
    if cell in CODES_OF:
        with pytest.raises(SessionError) as caught:
            before.after(operation, LATER, error=error)
        assert caught.value.failure.code == CODES_OF[cell]
    else:
        after = before.after(operation, LATER, error=error)
        assert after == attrs.evolve(
            before, state=cell, last_activity_at=LATER.at, error=error or before.error
        )


@each_row(
    ("state", "operation", "text", "hint"),
    [
        ("closed", "pause", "wanted one that is active or paused, got one that is closed", None),
        ("asleep", "resume", "wanted one that is paused and resumable, got one that is paused and not resumable", None),
        ("asleep", "activate", "wanted one that is created or active, got one that is paused and not resumable", None),
        ("error", "resume", "wanted one that is paused and resumable, got one that is error", None),
        ("created", "resume", "wanted one that is paused and resumable, got one that is created", "activate it first"),
        ("created", "pause", "wanted one that is active or paused, got one that is created", "activate it first"),
        ("paused", "activate", "wanted one that is created or active, got one that is paused", "resume it"),
        ("active", "resume", "wanted one that is paused and resumable, got one that is active",
         "go on with it; if the process that had it has died, activate it"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_would_have_done(state, operation, text, hint):
    """Wanted against got; while the session is well it says so, and what to do instead, else what the table of codes says."""
    with pytest.raises(SessionError) as caught:
        in_state(state).after(operation, LATER)
    failure = caught.value.failure
    assert failure.message == f"cannot {operation} session s1: {text}"
    assert failure.suggestions == (hint or CODES[failure.code].hint,)
    assert failure.session_valid is (hint is not None)
    assert failure.details["phase"] == in_state(state).state


@pytest.mark.requirement("R10")
def test_a_life_from_beginning_to_end():
    """Created, active, paused, active with the checkpoint, closed: each step is a new value, and the old one is unchanged."""
    steps = [SessionRecord.create("s1", "claude", "/work", THEN)]
    for operation in ("activate", "checkpoint", "pause", "resume", "close"):
        checkpoint = CHECKPOINT if operation == "checkpoint" else None
        steps.append(steps[-1].after(operation, LATER, checkpoint=checkpoint))
    assert [step.state for step in steps] == [
        "created",
        "active",
        "active",
        "paused",
        "active",
        "closed",
    ]
    assert [step.checkpoint for step in steps] == [
        None,
        None,
        CHECKPOINT,
        CHECKPOINT,
        CHECKPOINT,
        CHECKPOINT,
    ]
    assert {step.created_at for step in steps} == {THEN.at}


def test_the_latest_failure_is_the_one_that_is_recorded():
    """A second failure takes the place of the first; closing keeps it."""
    other = Failure.of("TOOL_TIMEOUT")
    failed = record().after("fail", THEN, error=BROKEN).after("fail", THEN, error=other)
    assert failed.error == failed.after("close", THEN).error == other


def test_an_error_without_a_failure_is_refused():
    """State error says why, always."""
    with pytest.raises(
        ConfigError,
        match=r"SessionRecord\.error: wanted the failure of a session in error, got None",
    ):
        record().after("fail", THEN)


# ---- values --------------------------------------------------------------------------------------------------------


@each_row(
    ("fields", "wanted"),
    [
        ({"id": ""}, "id: wanted text that is not empty, got ''"),
        ({"id": 5}, "id: wanted text that is not empty, got 5"),
        ({"agent_type": b"claude"}, "agent_type: wanted text, got"),
        ({"working_directory": "\ud800"}, "working_directory: wanted text, got 'a lone surrogate'"),
        ({"state": "asleep"}, "state: wanted one of created, active, paused, closed, error, got 'asleep'"),
        ({"resumable": 1}, "resumable: wanted True or False, got 1"),
        ({"created_at": datetime(2026, 3, 20)}, "created_at: wanted an aware datetime"),  # noqa: DTZ001
        ({"last_activity_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))},
         "last_activity_at: wanted an aware datetime"),
        ({"checkpoint": {}}, "checkpoint: wanted a SessionCheckpoint"),
        ({"error": "broken"}, "error: wanted a Failure"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(fields, wanted):
    """A ConfigError with the field, what was wanted and what was got."""
    with pytest.raises(ConfigError) as caught:
        record(**fields)
    assert caught.value.failure.message.startswith("SessionRecord." + wanted)


def test_times_are_in_utc():
    """An aware datetime of any zone is kept as the same moment in UTC."""
    moment = datetime(2026, 3, 20, 12, tzinfo=timezone(timedelta(hours=2)))
    assert record(created_at=moment).created_at == moment
    assert record(created_at=moment).created_at.isoformat() == "2026-03-20T10:00:00+00:00"


@each_row(
    ("snapshot", "wanted"),
    [
        ({"a": float("nan")}, "a JSON value, got"),
        ({"a": float("-inf")}, "a JSON value, got"),
        ({"a": object()}, "a JSON value, got"),
        ({"a": "\ud800"}, "a JSON value, got"),
        ({"a": {1, 2}}, "a JSON value, got"),
        (10**5_000, "a JSON value, got"),
        (
            {"a": (1, 2)},
            "a JSON value: lists, text as keys, at most 100 levels, got 'dict that is not'",
        ),
        ({1: "a"}, "a JSON value: lists, text as keys, at most 100 levels, got 'dict that is not'"),
        (
            {None: 1},
            "a JSON value: lists, text as keys, at most 100 levels, got 'dict that is not'",
        ),
        (
            "x" * (SNAPSHOT_BYTES - 1),
            f"at most 1048576 bytes of JSON, got '{SNAPSHOT_BYTES + 1} bytes'",
        ),
        (
            "é" * (SNAPSHOT_BYTES // 2),
            f"at most 1048576 bytes of JSON, got '{SNAPSHOT_BYTES + 2} bytes'",
        ),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "huge",
)
def test_a_snapshot_that_json_would_change_is_refused(snapshot, wanted):
    """No NaN, no tuple, no key that is no text, no lone surrogate, and at most 1 MiB as UTF-8: what was kept comes back as it was."""
    with pytest.raises(ConfigError) as caught:
        SessionCheckpoint(context_snapshot=snapshot)
    assert caught.value.failure.message.startswith(
        "SessionCheckpoint.context_snapshot: wanted " + wanted
    )


@pytest.mark.parametrize(("levels", "fits"), [(100, True), (101, False), (20_000, False)])
def test_a_snapshot_is_at_most_a_hundred_levels_deep(levels, fits):
    """As for messages: what is kept is walked deeper in the stack than where it was made."""
    snapshot = None
    for _ in range(levels - 1):
        snapshot = [snapshot]
    if fits:
        assert SessionCheckpoint(context_snapshot=snapshot).context_snapshot == snapshot
    else:
        with pytest.raises(ConfigError):
            SessionCheckpoint(context_snapshot=snapshot)


def test_the_largest_snapshot_fits():
    """1 MiB of JSON is accepted."""
    assert SessionCheckpoint(context_snapshot="x" * (SNAPSHOT_BYTES - 2)).context_snapshot


def test_a_snapshot_is_a_copy_and_not_shown():
    """What its owner does to it later changes nothing, and a repr holds none of it: it may be somebody's secret."""
    mine = {"files": ["a.py"]}
    checkpoint = SessionCheckpoint(context_snapshot=mine)
    mine["files"].append("b.py")
    assert checkpoint.context_snapshot == {"files": ["a.py"]}
    assert "a.py" not in repr(record(checkpoint=checkpoint))
    assert hash(checkpoint)
    assert pickle.loads(pickle.dumps(record())) == record()


@pytest.mark.parametrize(
    "fields", [{"message_count": -1}, {"message_count": True}, {"last_message_id": 7}]
)
def test_a_wrong_checkpoint_is_refused(fields):
    """A count is a whole number from 0, an id is text or None."""
    with pytest.raises(ConfigError, match=rf"SessionCheckpoint\.{next(iter(fields))}: wanted"):
        SessionCheckpoint(**fields)


# ---- texts ---------------------------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
moments = st.datetimes(timezones=st.just(UTC))
checkpoints = st.builds(
    SessionCheckpoint,
    message_count=st.integers(0, 2**63),
    last_message_id=st.none() | words,
    context_snapshot=json_values,
)
failures = st.builds(
    lambda code, message, details, retryable, wait: Failure.of(
        code, message, details=details, retryable=retryable, retry_after=wait, cause=ValueError("x")
    ),
    st.sampled_from(sorted(CODES)),
    st.text(max_size=40),
    st.dictionaries(
        st.text(max_size=9), json_values | st.floats() | st.tuples(st.text()), max_size=3
    ),
    st.none() | st.booleans(),
    st.none() | st.floats(),
)
records = st.builds(
    SessionRecord,
    id=words.filter(bool),
    agent_type=st.none() | words,
    working_directory=st.none() | words,
    state=st.sampled_from([state for state in SessionState if state != "error"]),
    resumable=st.booleans(),
    created_at=moments,
    last_activity_at=moments,
    checkpoint=st.none() | checkpoints,
    error=st.none() | failures,
)


@pytest.mark.requirement("R16")
@given(records)
@settings(max_examples=100)
def test_a_record_comes_back_from_its_text(stored):
    """Every field, to the microsecond and to the last level of the snapshot; the text is one line that UTF-8 can hold."""
    text = stored.to_json()
    back = SessionRecord.from_json(text)
    assert back == stored
    assert back.to_json() == text
    assert "\n" not in text
    assert text.encode()


@given(failures)
@settings(max_examples=100)
def test_a_failure_comes_back_as_far_as_it_is_stored(failure):
    """Code, message, verdicts, suggestions and details; cause, history and reason to stop end with the process."""
    stored = record(state="error", error=failure).error
    assert stored == record(state="closed", error=stored).error
    assert (stored.code, stored.message, stored.kind, stored.retryable) == (
        failure.code, failure.message, failure.kind, failure.retryable,
    )  # fmt: skip
    assert stored.suggestions == failure.suggestions
    assert stored.cause is None


OURS = json.loads(record(state="error", error=BROKEN).to_json())
SEEDS = {
    "id": "sess-abc123",
    "agentType": "claude-code",
    "workingDirectory": "/home/me/project",
    "createdAt": "2026-03-20T14:32:00.000Z",
    "lastActivityAt": "2026-03-20T15:00:00.250Z",
    "checkpoint": {
        "messageCount": 12,
        "lastMessageId": "m12",
        "contextSnapshot": {"files": [1, None]},
    },
}


@pytest.mark.requirement("R16")
def test_the_sessions_of_the_seed_can_be_read():
    """A PersistedSession of its page: same fields, paused and resumable, because it was kept to be resumed."""
    read = SessionRecord.from_json(json.dumps(SEEDS))
    assert read == SessionRecord(
        id="sess-abc123", agent_type="claude-code", working_directory="/home/me/project", state="paused", resumable=True,
        created_at=datetime(2026, 3, 20, 14, 32, tzinfo=UTC),
        last_activity_at=datetime(2026, 3, 20, 15, 0, 0, 250_000, tzinfo=UTC),
        checkpoint=SessionCheckpoint(message_count=12, last_message_id="m12", context_snapshot={"files": [1, None]}),
    )  # fmt: skip
    assert read.after("resume", LATER).checkpoint == read.checkpoint


def test_a_session_of_the_seed_may_say_more():
    """Its `Session` has a state, `resumable` and perhaps no checkpoint; what we do not know of is no error in a text of others."""
    fields = {**SEEDS, "state": "closed", "resumable": False, "checkpoint": None, "model": "opus"}
    read = SessionRecord.from_json(json.dumps(fields))
    assert (read.state, read.resumable, read.checkpoint) == ("closed", False, None)


@pytest.mark.requirement("R16")
def test_a08_a_file_of_sessions_is_an_array():
    """`JSON.stringify(sessions, null, 2)`: each session of the array; one alone is an array of one; nothing is nothing."""
    second = {**SEEDS, "id": "sess-def456"}
    records = SessionRecord.all_from_json(json.dumps([SEEDS, second, OURS], indent=2))
    assert [record.id for record in records] == ["sess-abc123", "sess-def456", OURS["id"]]
    assert records[0] == SessionRecord.from_json(json.dumps(SEEDS))
    assert SessionRecord.all_from_json(json.dumps(SEEDS)) == records[:1]
    assert SessionRecord.all_from_json("[]") == ()


@each_row(
    ("text", "field"),
    [
        ("null", "$"),
        ("[", "$"),
        ("[[]]", "[0].$"),
        (json.dumps([SEEDS, {**SEEDS, "createdAt": "soon"}]), "[1].createdAt"),
        (json.dumps([{**SEEDS, "id": ""}]), "[0].id"),
    ],
)
def test_a08_a_damaged_one_is_named(text, field):
    """The number of the session and its field; the others are not returned as if they were all."""
    with pytest.raises(StoreError) as caught:
        SessionRecord.all_from_json(text)
    assert caught.value.failure.code == "SYS_STATE_DAMAGED"
    assert caught.value.failure.message.startswith(f"session record: {field}: wanted ")


SESSION = """{
  "id": "sess-abc123",
  "state": "paused",
  "resumable": true,
  "checkpoint": {"messageCount": 12, "lastMessageId": "m12", "contextSnapshot": null}
}"""


@pytest.mark.requirement("R10")
def test_a08_a_session_has_a_state_and_no_times():
    """The seed's `Session` (id, state, resumable, checkpoint) is read; it can be resumed, and its times are the caller's."""
    read = SessionRecord.from_json(SESSION, at=LATER.at)
    assert (read.state, read.resumable, read.agent_type) == ("paused", True, None)
    assert (read.created_at, read.last_activity_at) == (LATER.at, LATER.at)
    assert read.after("resume", LATER).checkpoint == SessionCheckpoint(
        message_count=12, last_message_id="m12"
    )
    assert SessionRecord.from_json(SESSION).created_at == datetime(1970, 1, 1, tzinfo=UTC)
    for state in ("created", "active", "closed"):
        fresh = SessionRecord.from_json(changed(json.loads(SESSION), "state", state))
        assert fresh.state == state
    asleep = SessionRecord.from_json(changed(json.loads(SESSION), "resumable", False))
    with pytest.raises(SessionError, match="not resumable"):
        asleep.after("resume", LATER)
    assert (
        SessionRecord.from_json(changed(json.loads(SESSION), "checkpoint", None)).checkpoint is None
    )


def changed(base, path, value=...):
    """The text of `base` with one field changed, or removed."""
    document = json.loads(json.dumps(base))
    *way, last = path.split(".")
    inner = document
    for name in way:
        inner = inner[name]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return json.dumps(document)


BAD = [
    ("", "$"), ("null", "$"), ("[]", "$"), ("{", "$"), ("\x00", "$"), ("[" * 100_000, "$"), (5, "$"),
    ('{"format": 1, "format": 1}', "$"), ("{}", "format"), ('{"id": "s1"}', "format"),
    *((changed(OURS, name), name) for name in OURS if name != "format"),
    *((changed(OURS, f"checkpoint.{name}"), f"checkpoint.{name}") for name in OURS["checkpoint"]),
    *((changed(OURS, f"error.{name}"), "error") for name in OURS["error"]),
    (changed(OURS, "format"), "format"), (changed(OURS, "format", "1"), "format"),
    (changed(OURS, "format", 0), "format"), (changed(OURS, "format", True), "format"),
    (changed(OURS, "colour", "red"), "colour"), (changed(OURS, "checkpoint.colour", "red"), "checkpoint.colour"),
    (changed(OURS, "id", ""), "id"), (changed(OURS, "id", None), "id"), (changed(OURS, "agent_type", 1), "agent_type"),
    (changed(OURS, "state", "gone"), "state"), (changed(OURS, "state", None), "state"),
    (changed(OURS, "resumable", "yes"), "resumable"), (changed(OURS, "created_at", "yesterday"), "created_at"),
    (changed(OURS, "created_at", 1_774_000_000), "created_at"), (changed(OURS, "last_activity_at", None), "last_activity_at"),
    (changed(OURS, "checkpoint", []), "checkpoint"), (changed(OURS, "checkpoint.message_count", -1), "checkpoint.message_count"),
    (changed(OURS, "checkpoint.message_count", 1.5), "checkpoint.message_count"),
    (changed(OURS, "checkpoint.last_message_id", 7), "checkpoint.last_message_id"),
    (changed(OURS, "checkpoint.context_snapshot", float("nan")), "checkpoint.context_snapshot"),
    (changed(OURS, "checkpoint.context_snapshot", "x" * SNAPSHOT_BYTES), "checkpoint.context_snapshot"),
    (changed(OURS, "error", "broken"), "error"), (changed(OURS, "error", None), "error"),
    (changed(OURS, "error.code", "GONE"), "error"), (changed(OURS, "error.code", 5), "error"),
    (changed(OURS, "error.category", "WEATHER"), "error"), (changed(OURS, "error.suggestions", "wait"), "error"),
    (changed(OURS, "error.message", "two\nlines"), "error"), (changed(OURS, "error.colour", "red"), "error"),
    (changed(OURS, "error.retryable", "no"), "error"),
    *((changed(SEEDS, name), name) for name in SEEDS if name != "agentType"),
    (changed(SEEDS, "agentType"), "format"), (changed(SEEDS, "agentType", []), "agentType"),
    (changed(SEEDS, "createdAt", "soon"), "createdAt"), (changed(SEEDS, "checkpoint", 1), "checkpoint"),
    (changed(SEEDS, "checkpoint.messageCount", None), "checkpoint.messageCount"),
    (changed(SEEDS, "checkpoint.lastMessageId"), "checkpoint.lastMessageId"),
    (changed(SEEDS, "state", "resting"), "state"),
]  # fmt: skip


@each_row(("text", "field"), BAD, ids=[f"{n}-{field}" for n, (_, field) in enumerate(BAD)])
def test_a_bad_text_names_the_field(text, field):
    """Whatever is wrong with a text, it is SYS_STATE_DAMAGED and the field by the name that the text has for it."""
    with pytest.raises(StoreError) as caught:
        SessionRecord.from_json(text)
    failure = caught.value.failure
    assert failure.code == "SYS_STATE_DAMAGED"
    assert failure.message.startswith(f"session record: {field}: wanted ")
    assert [violation["field"] for violation in failure.details["violations"]] == [field]


def test_a_later_format_is_not_guessed_at():
    """SYS_STATE_FOREIGN, even if the fields look right: a later version may mean something else by them."""
    with pytest.raises(StoreError) as caught:
        SessionRecord.from_json(changed(OURS, "format", 2))
    assert caught.value.failure.code == "SYS_STATE_FOREIGN"
    assert caught.value.failure.message == "session record: format: wanted 1, got 2"
