"""The file of a workflow as another program writes it (C8): read, not set aside, and written with its fields on top."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Workflow, WorkflowStatus


HERE = Path(__file__).parent
EXAMPLE = {
    "workflow": "x-implement",
    "started_at": "2026-02-16T10:30:00Z",
    "phases_completed": ["analyze", "plan"],
    "current_phase": "implement",
    "checkpoints": [
        {"phase": "analyze", "completed_at": "2026-02-16T10:32:15Z", "artifacts": ["analysis.md"]},
        {
            "phase": "plan",
            "completed_at": "2026-02-16T10:35:42Z",
            "artifacts": ["plan.md", "file-list.txt"],
        },
    ],
    "errors": [],
    "last_backup": "2026-02-16T10:35:42Z",
}
"""The "Checkpoint Format" of ccsetup's specification, as printed."""
FILES = ("analysis.md", "plan.md", "file-list.txt")


def seed_flow(root, *, idempotent=None, **passed):
    """The workflow of the example, with what ran."""
    flow, ran = Workflow(root / "workflow-state.json", root=root, **passed), []

    def phase(name):
        def run():
            ran.append(name)
            for one in FILES:
                (root / one).write_text(name)

        return run

    for name in ("analyze", "plan", "implement", "verify"):
        flow.phase(name=name, idempotent=idempotent)(phase(name))
    return flow, ran


def write_seed(root, *, files=FILES, **changes):
    (root / "workflow-state.json").write_text(json.dumps({**EXAMPLE, **changes}, indent=2))
    for name in files:
        (root / name).write_text("made by another program")


@pytest.mark.requirement("C8")
@pytest.mark.parametrize("name", [None, "x-implement"])
async def test_h01_the_specifications_own_file_is_read_and_finished_phases_do_not_run_again(
    tmp_path, name
):
    """With or without the name in the program; the file becomes the backup, as it was, before anything changes."""
    write_seed(tmp_path)
    before = (tmp_path / "workflow-state.json").read_bytes()
    flow, ran = seed_flow(tmp_path, **({} if name is None else {"name": name}))
    status = flow.status()
    assert (status.workflow, status.completed, status.current_phase) == (
        "x-implement",
        ("analyze", "plan"),
        "implement",
    )
    assert (tmp_path / "workflow-state.json").read_bytes() == before
    seen = []
    with rb.listen(
        lambda event: (
            seen.append((tmp_path / "workflow-state.json.bak").read_bytes()) if not seen else None
        )
    ):
        report = await flow.run()
    assert (report.status, report.warnings, ran) == (
        WorkflowStatus.COMPLETED,
        (),
        ["implement", "verify"],
    )
    assert (seen[0] == before) or b"x-implement" in seen[0]
    assert {path.name for path in tmp_path.glob("workflow-state*")} == {
        "workflow-state.json", "workflow-state.json.bak", "workflow-state.json.owner",
        "workflow-state.json.journal", "workflow-state.json.journal.bak",
    }  # fmt: skip


@pytest.mark.requirement("C8")
async def test_h01_what_is_written_has_the_specifications_fields_at_the_top(tmp_path):
    """`jq .phases_completed` finds them, in the file and in its backup; ours stand beside them."""
    flow, _ = seed_flow(tmp_path, name="x-implement")
    await flow.run()
    for name in ("workflow-state.json", "workflow-state.json.bak"):
        found = json.loads((tmp_path / name).read_text())
        assert list(found)[: len(EXAMPLE)] == list(EXAMPLE)
        assert found["phases_completed"] == ["analyze", "plan", "implement", "verify"]
        assert [one["phase"] for one in found["checkpoints"]] == found["phases_completed"]
        assert found["resilient_bridge"]["version"] == 2


@pytest.mark.requirement("C6")
async def test_h01_a_phase_of_the_specifications_file_whose_artifact_is_missing_runs_again(
    tmp_path,
):
    """It names no check sums, so that it is there is all that can be asked."""
    write_seed(tmp_path, files=("analysis.md", "plan.md"))
    flow, ran = seed_flow(tmp_path)
    report = await flow.run()
    assert (report.is_completed, ran) == (True, ["plan", "implement", "verify"])


async def test_h01_the_phase_that_another_program_had_started_is_in_doubt(tmp_path):
    """One that must not run twice is for a person to decide."""
    write_seed(tmp_path)
    flow, ran = seed_flow(tmp_path, idempotent=False)
    report = await flow.run()
    assert (report.failure.code, report.current_phase, ran) == (
        "SYS_OUTCOME_UNKNOWN",
        "implement",
        [],
    )


async def test_h01_the_form_of_its_partial_recovery_is_read_too(tmp_path):
    """Artifacts beside the phases, as files and commits."""
    root = tmp_path
    (root / "workflow-state.json").write_text(
        json.dumps({
            "workflow": "w", "started_at": "2026-02-16T10:30:00Z",
            "phases_completed": ["analyze", "plan"], "current_phase": "implement",
            "artifacts": {"files": ["src/feature.ts"], "commits": []},
        })
    )  # fmt: skip
    flow, ran = seed_flow(root)
    assert ((await flow.run()).is_completed, ran) == (
        True,
        ["plan", "implement", "verify"],
    )  # feature.ts is missing


PARTIAL = """{
  "phases_completed": ["analyze", "plan"],
  "current_phase": "implement",
  "artifacts": {"files": ["analysis.md", "plan.md"], "commits": []}
}"""


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("name", [None, "x-implement"])
async def test_a08_the_excerpt_of_the_partial_recovery_is_a_state(tmp_path, name):
    """Three keys: completed phases are not run again; name and start are this program's; two such files share no id."""
    ids = []
    for project in ("one", "two"):
        root = tmp_path / project
        root.mkdir()
        (root / "workflow-state.json").write_text(PARTIAL)
        for file in FILES:
            (root / file).write_text("made by another program")
        flow, ran = seed_flow(root, **({} if name is None else {"name": name}))
        status = flow.status()
        assert (status.completed, status.current_phase) == (("analyze", "plan"), "implement")
        report = await flow.run()
        assert (report.is_completed, report.warnings, ran) == (True, (), ["implement", "verify"])
        assert report.workflow == (name or "workflow-state")
        assert report.started_at.year > 1970
        found = json.loads((root / "workflow-state.json").read_text())
        assert found["phases_completed"] == ["analyze", "plan", "implement", "verify"]
        ids.append(found["id"])
    assert len(set(ids)) == 2


@pytest.mark.requirement("C6")
async def test_a08_the_example_of_the_partial_recovery_runs_the_tests_only(tmp_path):
    """Three completed phases, both files there, no results of tests: `verify` alone runs; and `plan` too where a file is gone."""
    example = {
        "phases_completed": ["analyze", "plan", "implement"],
        "current_phase": "verify",
        "artifacts": {"files": ["src/feature.ts", "tests/feature.test.ts"]},
    }
    for is_there, expected in ((True, ["verify"]), (False, ["implement", "verify"])):
        root = tmp_path / str(is_there)
        for file in example["artifacts"]["files"][: 2 if is_there else 1]:
            (root / file).parent.mkdir(parents=True)
            (root / file).write_text("made by another program")
        (root / "workflow-state.json").write_text(json.dumps(example))
        flow, ran = seed_flow(root)
        assert ((await flow.run()).is_completed, ran) == (True, expected)


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("form", ["the specification's", "ours"])
async def test_a07_a_state_older_than_its_backup_costs_no_completed_phase(tmp_path, form, caplog):
    """An older file that was put back does not win silently: the newer backup does, and the log says so."""
    path, seen = tmp_path / "workflow-state.json", []
    if form == "ours":
        with rb.listen(lambda event: seen.append(path.read_bytes()) if path.exists() else None):
            await seed_flow(tmp_path, name="x-implement")[0].run()
        path.write_bytes(seen[0])
        assert json.loads(seen[0])["phases_completed"] == []
    else:
        write_seed(tmp_path)
        shutil.copy(path, tmp_path / "workflow-state.json.bak")
        earlier = {
            "phases_completed": ["analyze"],
            "current_phase": "plan",
            "last_backup": "2026-02-16T10:32:15Z",
        }
        path.write_text(
            json.dumps({**EXAMPLE, **earlier, "checkpoints": EXAMPLE["checkpoints"][:1]})
        )
    flow, ran = seed_flow(tmp_path, name="x-implement")
    report = await flow.run()
    assert report.is_completed
    assert ran == ([] if form == "ours" else ["implement", "verify"])
    assert "older than its backup" in caplog.text
    assert list(tmp_path.glob("workflow-state.json.outdated-*"))


@pytest.mark.parametrize(
    "changes",
    [
        {"phases_completed": ["analyze"]},
        {"checkpoints": "none"},
        {"started_at": "yesterday"},
        {
            "checkpoints": [
                {"phase": "plan", "completed_at": "2026-02-16T10:35:42Z", "artifacts": ["../x"]}
            ]
        },
    ],
)
async def test_a_file_in_that_form_that_contradicts_itself_is_damaged(tmp_path, changes):
    """It is kept under another name, and what is lost is told."""
    write_seed(tmp_path, **changes)
    flow, ran = seed_flow(tmp_path)
    report = await flow.run()
    assert (report.is_completed, ran[0]) == (True, "analyze")
    assert any("lost workflow progress" in text for text in report.warnings)
    assert list(tmp_path.glob("workflow-state.json.damaged-*"))


async def test_its_backup_is_used_when_the_file_is_damaged(tmp_path):
    """`.bak`, as the specification calls it, in its form."""
    write_seed(tmp_path)
    (tmp_path / "workflow-state.json").rename(tmp_path / "workflow-state.json.bak")
    (tmp_path / "workflow-state.json").write_text("{")
    flow, ran = seed_flow(tmp_path)
    report = await flow.run()
    assert (report.is_completed, ran) == (True, ["implement", "verify"])
    assert any(
        "the state was damaged; lost: what was saved after 2026-02-16T10:35:42" in one
        for one in report.warnings
    )
