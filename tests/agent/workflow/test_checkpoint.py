"""The state of a workflow as a value: its form in the file (C8), what is refused of it, and its steps."""

from __future__ import annotations

import copy
import json
import re
from datetime import UTC, datetime, timedelta, timezone

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resilient_bridge.agent import WorkflowStatus
from resilient_bridge.failure import Failure, Kind
from tests.internals.agent import CallRecord, PhaseCheckpoint, SkippedPhase, WorkflowState


EXAMPLE = """{
  "workflow": "x-implement",
  "started_at": "2026-02-16T10:30:00Z",
  "phases_completed": ["analyze", "plan"],
  "current_phase": "implement",
  "checkpoints": [
    {"phase": "analyze", "completed_at": "2026-02-16T10:32:15Z", "artifacts": ["analysis.md"]},
    {"phase": "plan", "completed_at": "2026-02-16T10:35:42Z", "artifacts": ["plan.md", "file-list.txt"]}
  ],
  "errors": [],
  "last_backup": "2026-02-16T10:35:42Z"
}"""
"""As ccsetup has it."""

COMMIT = "0123456789abcdef0123456789abcdef01234567"
AT = datetime(2026, 2, 16, 10, 30, tzinfo=UTC)
FAILURE = Failure.of(
    "SYS_STATE_DAMAGED", "it is broken", retry_after=2.5, details={"path": "x", "n": 1}
)


CALL = CallRecord(phase="implement", number=1, tool="order", arguments="sha256:d", may_repeat=False)


def _state(**changes):
    """The state of the example, with something of everything."""
    fields = {
        "id": "an-id",
        "workflow": "x-implement",
        "started_at": AT,
        "status": WorkflowStatus.HALTED,
        "checkpoints": (
            PhaseCheckpoint(
                phase="analyze",
                completed_at=AT + timedelta(seconds=135),
                artifacts=("analysis.md",),
                checksums={"analysis.md": "sha256:a"},
                commits=(COMMIT,),
            ),
            PhaseCheckpoint(
                phase="plan",
                completed_at=AT + timedelta(seconds=342),
                artifacts=("plan.md", "file-list.txt"),
                checksums={"plan.md": "sha256:b", "file-list.txt": "sha256:c"},
            ),
        ),
        "skipped": (SkippedPhase(phase="spell", at=AT, reason="no dictionary"),),
        "current_phase": "implement",
        "in_doubt": ("verify",),
        "saved": {"next": [1, None, 2.5]},
        "failure": FAILURE,
        "errors": ({"phase": "implement", "tool": None},),
        "warnings": ("something was lost",),
        "last_backup": AT + timedelta(seconds=342),
        "calls": (CALL, attrs.evolve(CALL, number=2, result={"json": [1, {"a": None}]})),
    }
    return WorkflowState(**{**fields, **changes})


def _value():
    return json.loads(json.dumps(_state().to_value()))


# ---- the form -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C8")
def test_the_fields_are_those_of_the_specification_then_ours():
    """Every field of ccsetup's example, in its order and with its value; a checkpoint has its three, and ours."""
    example, value = json.loads(EXAMPLE), _value()
    assert list(value)[: len(example)] == list(example)
    assert set(value) - set(example) == {
        "id", "root", "status", "skipped", "begun", "in_doubt", "failure", "saved", "warnings",
        "calls", "is_adopted",
    }  # fmt: skip
    assert {name: value[name] for name in ("workflow", "phases_completed", "current_phase")} == {
        name: example[name] for name in ("workflow", "phases_completed", "current_phase")
    }
    assert (value["started_at"], value["last_backup"]) == (
        "2026-02-16T10:30:00.000Z",
        "2026-02-16T10:35:42.000Z",
    )
    for ours, theirs in zip(value["checkpoints"], example["checkpoints"], strict=True):
        assert list(ours) == [*theirs, "checksums", "commits"] or set(ours) - set(theirs) == {
            "checksums",
            "commits",
        }
        assert (ours["phase"], ours["artifacts"]) == (theirs["phase"], theirs["artifacts"])
        assert datetime.fromisoformat(ours["completed_at"]) == datetime.fromisoformat(
            theirs["completed_at"]
        )


def test_what_was_written_is_read():
    """All of it, failure and instants too; the value itself is not changed by reading."""
    value = _value()
    before = copy.deepcopy(value)
    state = WorkflowState.from_value(value)
    assert state == _state()
    assert (value, state.to_value()) == (before, before)


def test_an_instant_of_another_zone_is_the_same_instant():
    """It is read as UTC, and written so."""
    value = {**_value(), "started_at": "2026-02-16T12:30:00+02:00"}
    state = WorkflowState.from_value(value)
    assert state.started_at == datetime(2026, 2, 16, 12, 30, tzinfo=timezone(timedelta(hours=2)))
    assert state.to_value()["started_at"] == "2026-02-16T10:30:00.000Z"


_names = st.text(
    st.characters(codec="utf-8", exclude_characters="/\\\0"), min_size=1, max_size=8
).filter(lambda name: name not in {".", ".."})
_phases = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
_texts = st.lists(_phases, max_size=3).map(tuple)
_instants = st.datetimes(
    datetime.fromisoformat("1900-01-01"),
    datetime.fromisoformat("2200-01-01"),
    timezones=st.just(UTC),
).map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _phases,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_phases, inner, max_size=3),
    max_leaves=8,
)
_failures = st.builds(
    Failure.of,
    st.sampled_from(["SYS_STATE_DAMAGED", "TOOL_EXECUTION_FAILED", "SYS_OUTCOME_UNKNOWN"]),
    _phases,
    kind=st.sampled_from(Kind),
    retryable=st.booleans(),
    retry_after=st.none() | st.floats(0, 1e6),
    suggestions=_texts,
    details=st.dictionaries(
        st.sampled_from(["phase", "reason", "errno"]), st.integers(0, 99) | _phases
    ),
)


@st.composite
def _states(draw):
    """Any state that the steps could have made."""
    phases = draw(st.lists(_phases, unique=True, max_size=6))
    done = draw(st.integers(0, len(phases)))
    finished = draw(st.integers(0, done))
    checkpoints = []
    for phase in phases[:finished]:
        artifacts = tuple(draw(st.lists(_names, unique=True, max_size=3)))
        checkpoints.append(
            PhaseCheckpoint(
                phase=phase,
                completed_at=draw(_instants),
                artifacts=artifacts,
                checksums={name: draw(_phases) for name in artifacts},
                commits=tuple(draw(st.lists(st.sampled_from([COMMIT, "a" * 64]), max_size=2))),
            )
        )
    current = phases[done] if done < len(phases) else None
    statuses = [
        one for one in WorkflowStatus if one is not WorkflowStatus.HALTED or current is not None
    ]
    status = draw(st.sampled_from(statuses))
    return WorkflowState(
        id=draw(_phases),
        workflow=draw(_phases),
        started_at=draw(_instants),
        status=status,
        checkpoints=tuple(checkpoints),
        skipped=tuple(
            SkippedPhase(phase=phase, at=draw(_instants), reason=draw(_phases))
            for phase in phases[finished:done]
        ),
        current_phase=current,
        starts=draw(st.integers(0, 5)) if current is not None else 0,
        in_doubt=draw(_texts),
        saved=draw(_json),
        failure=draw(_failures) if status is WorkflowStatus.HALTED else None,
        errors=tuple(draw(st.lists(st.dictionaries(_phases, _json, max_size=2), max_size=2))),
        warnings=draw(_texts),
        last_backup=draw(st.none() | _instants),
    )


@pytest.mark.requirement("C8")
@given(_states())
@settings(max_examples=100)
def test_any_state_comes_back_from_its_text(state):
    """Through JSON and back it is equal, and its text is the same."""
    text = json.dumps(state.to_value())
    back = WorkflowState.from_value(json.loads(text))
    assert back == state
    assert json.dumps(back.to_value()) == text


# ---- what is refused ------------------------------------------------------------------------------------------------


def _places(value, path=()):
    """Every place in a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _places(inner, (*path, number))


def _put(value, path, new):
    """A copy of the value with something else at that place."""
    if not path:
        return new
    made = copy.deepcopy(value)
    inner = made
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = new
    return made


TEXT = (None, 1, True, [], {}, "")
TEXTS = (None, 1, "text", {}, [None], [1], [""], [["a"]])
INSTANT = (
    *TEXT,
    "yesterday",
    "2026-02-16T10:30:00",
    "2026-02-16",
    "0001-01-01T00:00:00+23:00",
    "9999-12-31T23:59:59-23:00",
)
NAMES = (
    None,
    "a",
    {},
    [1],
    [""],
    ["../x"],
    ["/x"],
    ["a/../x"],
    ["a\\b"],
    ["a\0b"],
    ["."],
    ["./a"],
    ["a//b"],
    ["a/"],
)


@pytest.mark.requirement("C8")
@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("id", TEXT),
        ("root", TEXT),
        ("workflow", TEXT),
        ("started_at", INSTANT),
        ("phases_completed", (*TEXTS, [], ["analyze"], ["plan", "analyze"], ["analyze", "plan", "implement"])),
        ("current_phase", (1, True, [], {}, "", "analyze", "spell", None)),
        ("checkpoints", (None, 1, "text", {}, [None], [[]], [{}])),
        ("errors", (None, 1, "text", {}, [None], [1], ["text"], [[]])),
        ("last_backup", INSTANT[1:]),
        ("status", (None, 1, True, [], {}, "", "HALTED", "paused")),
        ("skipped", (None, 1, "text", {}, [None], [[]], [{}])),
        ("begun", (None, -1, 1.0, True, "1", [], {})),
        ("in_doubt", TEXTS),
        ("failure", (1, True, "text", [], {}, None)),
        ("warnings", TEXTS),
        ("checkpoints[0].phase", TEXT),
        ("checkpoints[0].completed_at", INSTANT),
        ("checkpoints[0].artifacts", NAMES),
        ("checkpoints[0].checksums", (None, 1, "a", [], {"other": "sha256:a"})),
        ("checkpoints[0].checksums.analysis.md", (None, 1, [], {}, "")),
        ("checkpoints[0].commits", (*TEXTS, ["HEAD"], ["--all"], ["abc"], [COMMIT.upper()], [f"{COMMIT}\n"])),
        ("calls[0].phase", TEXT),
        ("calls[0].number", (None, -1, "1", True)),
        ("calls[0].tool", TEXT),
        ("calls[0].arguments", TEXT),
        ("calls[0].may_repeat", (None, 1, "true")),
        ("calls[0].result", (1, [], "a", {"command": []}, {"command": 1}, {"other": 1})),
        ("is_adopted", (None, 0, "true")),
        ("skipped[0].phase", TEXT),
        ("skipped[0].at", INSTANT),
        ("skipped[0].reason", TEXT),
        ("failure.code", (None, 1, [], "", "NO_SUCH_PREFIX")),
        ("failure.kind", (None, 1, "worse")),
        ("failure.retryable", (None, 1, "yes")),
        ("failure.retry_after", (-1, "2", [], 10**400, float("inf"))),
        ("failure.suggestions", (None, 1, "text", [1])),
        ("failure.details", (None, 1, [], "x")),
    ],
)  # fmt: skip
def test_a_wrong_field_is_a_value_error_that_begins_with_its_path(field, values):
    """In each way; nothing else is raised."""
    path = [
        int(step) if step.isdigit() else step
        for step in field.replace("analysis.md", "\1").replace("[", ".").replace("]", "").split(".")
    ]
    path = ["analysis.md" if step == "\1" else step for step in path]
    wanted = "failure" if field.startswith("failure") else field  # a failure is refused as a whole
    for wrong in values:
        with pytest.raises(ValueError, match=rf"^{re.escape(wanted)}(\[\d+\])?: "):
            WorkflowState.from_value(_put(_value(), path, wrong))


def test_each_phase_is_there_once():
    """Twice among the finished, or finished and skipped too, is no state."""
    value = _value()
    for wrong in (
        {
            **value,
            "checkpoints": [value["checkpoints"][0]] * 2,
            "phases_completed": ["analyze"] * 2,
        },
        {**value, "skipped": [{**value["skipped"][0], "phase": "plan"}]},
    ):
        with pytest.raises(ValueError, match=r"^checkpoints: wanted each phase once"):
            WorkflowState.from_value(wrong)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"status": "running"}, "failure"),
        ({"status": "completed"}, "failure"),
        ({"failure": None}, "failure"),
        ({"current_phase": None}, "current_phase"),
        ({"current_phase": None, "begun": 1}, "begun"),
    ],
)
def test_fields_that_contradict_each_other(changes, field):
    """A halted one halts for something, at some phase; what began has a name."""
    with pytest.raises(ValueError, match=f"^{field}: "):
        WorkflowState.from_value({**_value(), **changes})


@pytest.mark.parametrize(
    "value", [None, [], "text", 1, {}, json.loads(EXAMPLE), {**_state().to_value(), "more": 1}]
)
def test_other_json_is_no_state(value):
    """Less or more than the fields is another program's."""
    with pytest.raises(ValueError, match=r"^state: "):
        WorkflowState.from_value(value)


_ODD = st.sampled_from(
    ["", "x", "\0", "\ud800", "../../etc/passwd", "2026-02-16", "1", 0, -1, 1, True, 1.5, float("nan"), float("inf"),
     10**400, -(10**30), None, [], {}, [[]], {"": ""}, [None], {"phase": "x"}, "halted", "a" * 10_000]
)  # fmt: skip


@pytest.mark.requirement("C5")
@given(st.data())
@settings(max_examples=100)
def test_mutations_raise_nothing_but_value_error(data):
    """Whatever is put, dropped or doubled anywhere: a state whose text is JSON, or ValueError with a path and a bounded text."""
    value = data.draw(_states()).to_value() if data.draw(st.booleans()) else _value()
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(_places(value))))
        if not path or data.draw(st.booleans()):
            value = _put(value, path, data.draw(_ODD | _json))
        else:
            value = copy.deepcopy(value)
            inner = value
            for step in path[:-1]:
                inner = inner[step]
            del inner[path[-1]]
    try:
        state = WorkflowState.from_value(value)
    except ValueError as error:
        assert ":" in str(error)
        assert len(str(error)) < 11_000
    else:
        assert WorkflowState.from_value(state.to_value()) == state or "nan" in repr(value)
