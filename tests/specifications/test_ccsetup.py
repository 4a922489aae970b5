"""ccsetup's own words as input, where no other test has them: what makes it act, its four strategies, its files."""

from __future__ import annotations

import json

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Workflow, WorkflowStatus
from resilient_bridge.failure import classify
from tests.agent.workflow.test_file_form import EXAMPLE
from tests.rows import each_row


ACTIVATION = """\
| Network error | HTTP timeout, DNS failure, connection refused |
| State corruption | workflow-state.json invalid or inconsistent |
"""
# type, examples, strategy, most retries
CLASSIFICATION = """\
| **Transient** | Network timeout, rate limit, temporary file lock | Retry with exponential backoff | 3 |
| **Permanent** | File not found, permission denied, invalid argument | Report with context, suggest fix | 0 |
| **Corruption** | Invalid JSON in state file, orphan workflow state | Rollback to last known good state | 1 |
| **Partial** | Some files written, commit incomplete | Resume from checkpoint | 1 |
"""
ROWS = [
    [cell.strip(" *") for cell in line.strip("|").split("|")]
    for line in CLASSIFICATION.splitlines()
]


class Flow:
    """A workflow of two phases in `.claude/workflow-state.json`, of which the second fails with these texts first."""

    def __init__(self, root, *texts: str, required: bool = True) -> None:
        self.path = root / ".claude" / "workflow-state.json"
        self.backup = root / ".claude" / "workflow-state.json.bak"
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        self.flow = Workflow(self.path, name="x-implement", root=root)
        self.ran: list[str] = []
        remaining = list(texts)

        @self.flow.phase(idempotent=True)
        def analyze() -> None:
            self.ran.append("analyze")

        @self.flow.phase(idempotent=True, required=required)
        def implement() -> None:
            self.ran.append("implement")
            if remaining:
                raise RuntimeError(remaining.pop(0))

    async def run(self) -> tuple[object, list[float]]:
        with rb.testing.virtual_time() as time:
            return await self.flow.run(), time.slept


@pytest.mark.requirement("C1")
@each_row(
    ("kind", "text", "most"),
    [(kind, text, int(most)) for kind, texts, _, most in ROWS for text in texts.split(", ")],
)
async def test_each_example_has_its_strategy_and_its_number_of_retries(
    kind, text, most, tmp_path_factory
):
    """A phase that keeps failing so runs once and `Max Retries` times more; then the workflow halts and says why."""
    flow = Flow(tmp_path_factory.mktemp("flow"), *[text] * 9)
    report, slept = await flow.run()
    assert classify(RuntimeError(text)).kind == kind.lower()
    assert (report.status, flow.ran.count("implement")) == (WorkflowStatus.HALTED, 1 + most)
    assert slept == ([2, 4, 8] if kind == "Transient" else [])
    assert text in report.explain()


@pytest.mark.requirement("C3")
@each_row("text", ROWS[1][1].split(", "))
@each_row("required", [True, False])
async def test_a_permanent_failure_is_reported_or_skipped(text, required, tmp_path_factory):
    """Required: halted at its phase with what failed, why and what to do; optional: "degraded functionality", and a warning in the summary."""
    flow = Flow(tmp_path_factory.mktemp("flow"), text, required=required)
    report, _ = await flow.run()
    if required:
        assert (report.status, report.current_phase, report.completed) == (
            "halted",
            "implement",
            ("analyze",),
        )
        assert text in report.failure.message
        assert report.failure.suggestions
        (error,) = report.errors
        assert error.keys() >= {"tool", "arguments", "trace", "phase"}
        assert (error["phase"], text in error["failure"]["message"]) == ("implement", True)
        assert error["trace"][-1].endswith("in implement")
        for heading in (
            "what failed",
            "why",
            "suggested fixes",
            "alternatives",
            "resume",
            "skip",
            "abort",
        ):
            assert heading in report.explain()
    else:
        assert (report.status, [one.phase for one in report.skipped]) == (
            "completed",
            ["implement"],
        )
        assert any(text in warning for warning in report.warnings)


@pytest.mark.requirement("C10")
@each_row(
    "text",
    [
        text
        for line in ACTIVATION.splitlines()
        for text in line.strip("| ").split(" | ")[1].split(", ")
    ],
)
async def test_each_condition_makes_it_act_by_itself(text, tmp_path_factory):
    """Once, and the phase runs again without anybody's word: after 2 s for the network, at once for the state."""
    flow = Flow(tmp_path_factory.mktemp("flow"), text)
    report, slept = await flow.run()
    assert (report.status, flow.ran) == ("completed", ["analyze", "implement", "implement"])
    assert slept == ([] if "workflow-state.json" in text else [2])


@pytest.mark.requirement("C5")
async def test_its_backup_is_looked_for_and_restored(tmp_path):
    """`.claude/workflow-state.json.bak` beside a file with "Unexpected token": restored with its time, and both are sound again."""
    flow = Flow(tmp_path)
    flow.path.write_text("{ Unexpected token")
    printed = {
        **EXAMPLE,
        "phases_completed": ["analyze"],
        "current_phase": "implement",
        "checkpoints": [],
    }
    flow.backup.write_text(json.dumps(printed))
    report, _ = await flow.run()
    assert (report.status, flow.ran) == ("completed", ["implement"])
    assert any("2026-02-16T10:35:42" in warning for warning in report.warnings)
    for file in (flow.path, flow.backup):
        assert json.loads(file.read_text())["phases_completed"] == ["analyze", "implement"]


@pytest.mark.requirement("C5")
async def test_without_a_valid_backup_it_warns_of_lost_progress(tmp_path):
    """Both corrupt: a fresh state, "Lost workflow progress. Starting from phase: {current}", and the work is done."""
    flow = Flow(tmp_path)
    for file in (flow.path, flow.backup):
        file.write_text("Unexpected token")
    report, _ = await flow.run()
    assert (report.status, flow.ran) == ("completed", ["analyze", "implement"])
    (warning,) = report.warnings
    assert warning.startswith("lost workflow progress")
    assert "starting from phase analyze" in warning


@pytest.mark.requirement("C7")
async def test_the_original_changes_only_after_the_backup(tmp_path):
    """ "Copy current state to .claude/workflow-state.json.bak" first; where that fails, nothing runs and the original is as it was."""
    flow = Flow(tmp_path)
    printed = json.dumps(
        {
            **EXAMPLE,
            "phases_completed": ["analyze"],
            "current_phase": "implement",
            "checkpoints": [],
        }
    )
    flow.path.write_text(printed)
    flow.backup.mkdir()
    with pytest.raises(rb.BridgeError):
        await flow.run()
    assert (flow.path.read_text(), flow.ran) == (printed, [])
    flow.backup.rmdir()
    with rb.listen(
        lambda event: seen.append(flow.backup.read_text()) if flow.backup.exists() else None
    ):
        seen: list[str] = []
        await flow.run()
    assert seen[0] == printed


# "Tool Call Wrapper Pattern": the lines of "Execute tool call", with a text of that type and the criticality
WRAPPER = [
    ("If transient → retry with backoff", "Network timeout", True, ("completed", 2)),
    ("If permanent + optional → skip with warning", "permission denied", False, ("completed", 1)),
    (
        "If permanent + required → save state, report to user",
        "permission denied",
        True,
        ("halted", 1),
    ),
    ("If corruption → attempt restore from backup", "Invalid JSON", True, ("completed", 2)),
]


@pytest.mark.requirement("C9")
@each_row(("line", "text", "required", "result"), WRAPPER)
async def test_each_line_of_the_wrapper(line, text, required, result, tmp_path_factory):
    """Before: a checkpoint; then what the line says; after: checkpoint and backup."""
    flow = Flow(tmp_path_factory.mktemp("flow"), text, required=required)
    report, _ = await flow.run()
    assert (report.status, flow.ran.count("implement")) == result
    assert ("skip" in line) == bool(report.skipped)
    assert ("report" in line) == (report.failure is not None)
    for file in (flow.path, flow.backup):
        assert json.loads(file.read_text())["phases_completed"][0] == "analyze"
