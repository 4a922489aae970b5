"""What a workflow came to: one line, the text for a person, the data for a program."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import WorkflowReport, WorkflowStatus
from resilient_bridge.failure import Failure
from tests.agent.workflow.flows import Flow, fails
from tests.internals.agent import PhaseCheckpoint, WorkflowState, report_of


AT = datetime(2026, 2, 16, 10, 30, tzinfo=UTC)
FAILURE = Failure.of(
    "SYS_CONFIG_INVALID",
    "refused",
    details={"errno": 2, "error": "FileNotFoundError: config.json"},
    suggestions=("did you mean config.yml?", "create it"),
)
HALTED = WorkflowState(
    id="i",
    workflow="release",
    started_at=AT,
    checkpoints=(PhaseCheckpoint(phase="build", completed_at=AT),),
    errors=({"phase": "test", "arguments": {"path": "x"}},),
).halted("test", FAILURE).warned("something was lost")  # fmt: skip
PHASES = ("build", "lint", "test", "ship")


def _report(state, phases=PHASES):
    return report_of(state, workflow="release", phases=phases, state_file="/x/state.json")


@pytest.mark.requirement("C3")
def test_a_halt_is_explained_what_why_fixes_alternatives():
    """In that order, the likeliest fix first, then how far it is; nothing is said twice."""
    assert (
        _report(HALTED.marked_skipped("lint", AT, "no linter").halted("test", FAILURE)).explain()
        == """\
release halted at phase test (1 of 4 phases finished, 1 skipped)

what failed
  phase test: FileNotFoundError: config.json
why
  refused (CONFIG, ENOENT, not retryable)
  SYS_CONFIG_INVALID, error: not retryable; it did not run; the session is valid
  errno: 2
  error: FileNotFoundError: config.json
suggested fixes
  1. did you mean config.yml?
  2. create it
alternatives
  - fix it, then resume: the finished phases do not run again
  - skip phase test, if what follows can do without it
  - abort: what the finished phases made stays

finished: build
left: test, ship
skipped: lint: no linter
warning: something was lost
state: /x/state.json"""
    )


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (None, "release has not begun (0 of 4 phases finished)"),
        (HALTED.began("test"), "release is not finished, in phase test (1 of 4 phases finished)"),
        (HALTED, "release halted at phase test (1 of 4 phases finished)"),
        (
            HALTED.marked_skipped("test", AT, "r"),
            "release is not finished (1 of 4 phases finished, 1 skipped)",
        ),
        (
            HALTED.began("test").ended(WorkflowStatus.ABORTED),
            "release aborted (1 of 4 phases finished)",
        ),
    ],
)
def test_str_is_one_line(state, line):
    """Name, status, where it halted, how many phases."""
    assert str(_report(state)) == line
    assert _report(state).explain().splitlines()[0] == line


def test_nothing_finished_says_nothing():
    """And what is left is all of it."""
    assert _report(None).explain() == (
        "release has not begun (0 of 4 phases finished)\n\nfinished: nothing\nleft: build, lint, test, ship\nstate: /x/state.json"
    )


@pytest.mark.parametrize(
    "state", [None, HALTED, HALTED.began("test").ended(WorkflowStatus.COMPLETED)]
)
def test_its_data_are_json(state):
    """Every field of the report is there, under its name, and is what json.dumps takes, as it is."""
    report = _report(state)
    reported = report.to_dict()
    assert json.loads(json.dumps(reported, allow_nan=False)) == reported
    assert list(reported) == list(WorkflowReport.__annotations__)
    assert reported["status"] == report.status.value


def test_its_data_are_those_of_the_state():
    """Instants as ISO 8601, the failure as `Failure.to_dict()`."""
    reported = _report(HALTED).to_dict()
    assert (reported["started_at"], reported["completed"], reported["remaining"]) == (
        "2026-02-16T10:30:00.000Z",
        ["build"],
        ["lint", "test", "ship"],
    )
    assert reported["failure"] == FAILURE.to_dict()
    assert reported["errors"] == [{"phase": "test", "arguments": {"path": "x"}}]


def test_only_a_completed_one_is_completed():
    """Skipped phases do not hinder it."""
    over = HALTED
    for phase in ("lint", "test", "ship"):
        over = over.marked_skipped(phase, AT, "by hand")
    found = [status for status in WorkflowStatus if _report(over.ended(status)).is_completed]
    assert found == [WorkflowStatus.COMPLETED]


def test_a_completed_one_that_has_a_new_phase_is_not_completed():
    """The next release of a program may have more to do."""
    report = _report(HALTED.ended(WorkflowStatus.COMPLETED))
    assert (report.status, report.remaining) == (WorkflowStatus.RUNNING, ("lint", "test", "ship"))


def test_a_report_is_a_value():
    """It cannot be changed, and what it says does not follow the workflow."""
    report = _report(HALTED)
    with pytest.raises(AttributeError):
        report.status = WorkflowStatus.COMPLETED
    reported = report.to_dict()
    reported["completed"].append("x")
    reported["errors"][0]["phase"] = "x"
    assert (report.completed, report.errors[0]["phase"]) == (("build",), "test")


@pytest.mark.requirement("C3")
async def test_the_report_of_a_real_halt_is_json_and_shows_no_secret(tmp_path):
    """What a phase saved is not in it either."""
    flow = Flow(tmp_path).build()

    async def act(phase):
        await phase.checkpoint({"token": "s3cret-saved"})
        await phase.warn("used token=s3cret-warned")
        raise ValueError("Authorization: Bearer s3cret-raised")

    flow.acts["b"] = act
    report = await flow.flow.run()
    shown = [
        report.explain(),
        str(report),
        json.dumps(report.to_dict(), allow_nan=False),
        repr(report),
    ]
    assert not any("s3cret" in text for text in shown)
    (error,) = report.to_dict()["errors"]
    assert {"at", "phase", "run", "tool", "arguments", "failure", "error", "trace"} == set(error)


async def test_status_of_the_file_says_what_the_run_reported(tmp_path):
    """Another process reads the same report: of the failure only its cause, its history and why its call stopped are not kept."""
    flow = Flow(tmp_path).build(a={"required": False})
    flow.acts.update(a=fails(PermissionError(13, "no")), c=fails(PermissionError(13, "no")))
    reported = (await flow.flow.run()).to_dict()
    again = Flow(tmp_path).build(a={"required": False}).flow.status().to_dict()
    for one in (reported, again):
        for name in ("cause", "history", "stopped"):
            one["failure"].pop(name)
    assert again == reported


@pytest.mark.requirement("C3")
async def test_h14_the_report_of_a_halt_names_the_tool_that_failed(tmp_path):
    """Phase, tool and error, where it says what failed."""
    toolbox = rb.agent.Toolbox()

    @toolbox.tool
    async def order(item: str) -> None:
        raise PermissionError(13, "Permission denied")

    flow = rb.agent.Workflow(tmp_path / "state.json", tools=toolbox)

    @flow.phase
    async def buy(phase):
        await phase.call("order", {"item": "book"})

    report = await flow.run()
    assert "phase buy, tool order: PermissionError" in report.explain()
    assert report.failure.to_report()["context"]["tool"] == "order"
