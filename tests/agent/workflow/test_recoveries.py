"""The four recoveries: transient, permanent, corruption, partial; and what a crash leaves behind."""

from __future__ import annotations

import json
import shutil

import pytest

import resilient_bridge as rb
from resilient_bridge import events
from resilient_bridge.agent import WorkflowStatus
from resilient_bridge.failure import Executed, Failure, Kind, error_for
from tests.agent.workflow.flows import (
    FILES,
    Flow,
    damage,
    died_in,
    fails,
    value_in,
    write_value,
)
from tests.internals.agent import WorkflowStateFile
from tests.internals.telemetry import name_in_words


RESET = ConnectionResetError(104, "connection reset")


# ---- transient and permanent ---------------------------------------------------------------------------------------


@pytest.mark.requirement("C2")
async def test_a_transient_failure_is_repeated_after_2_4_and_8_seconds(tmp_path, heard):
    """The phase runs again with what it was given, and a late success is told."""
    flow = Flow(tmp_path).build()
    flow.acts["b"] = fails(RESET, RESET, RESET)
    with rb.testing.virtual_time() as time:
        report = await flow.flow.run()
    assert (report.status, time.slept, flow.ran) == (
        WorkflowStatus.COMPLETED,
        [2, 4, 8],
        ["a", "b", "b", "b", "b", "c"],
    )
    assert [event.attempt for event in heard if isinstance(event, events.RetryRecovered)] == [4]


@pytest.mark.requirement("C2")
async def test_after_three_repeats_it_is_permanent(tmp_path, heard):
    """It halts, and says that the repeats are used up."""
    flow = Flow(tmp_path).build()
    flow.acts["b"] = fails(*[RESET] * 9)
    with rb.testing.virtual_time():
        report = await flow.flow.run()
    assert (report.status, flow.ran.count("b")) == (WorkflowStatus.HALTED, 4)
    assert "stopped: attempts" in report.explain()
    assert [event.failure.stopped for event in heard if isinstance(event, events.GaveUp)] == [
        "attempts"
    ]


@pytest.mark.requirement("C1")
async def test_an_unknown_error_is_permanent(tmp_path):
    """A defect of the phase is not repeated."""
    flow = Flow(tmp_path).build()
    flow.acts["a"] = fails(TypeError("a defect"))
    report = await flow.flow.run()
    assert (report.status, flow.ran) == (WorkflowStatus.HALTED, ["a"])


async def test_what_must_not_run_twice_is_not_repeated(tmp_path):
    """Even where one of its steps provably did not run: the steps before it did."""
    flow = Flow(tmp_path).build(b={"idempotent": False})
    flow.acts["b"] = fails(ConnectionRefusedError(111, "connection refused"))
    with rb.testing.virtual_time():
        report = await flow.flow.run()
    assert (report.status, flow.ran) == (WorkflowStatus.HALTED, ["a", "b"])
    assert report.failure.executed is Executed.MAYBE


# ---- partial and corrupt -------------------------------------------------------------------------------------------


@pytest.mark.requirement("C6")
async def test_a_phase_without_its_artifact_runs_once_more(tmp_path):
    """Partial: once; the second time it is missing it halts, with its name."""
    flow = Flow(tmp_path).build(b={"artifacts": ["made-later.txt"]})
    report = await flow.flow.run()
    assert (report.status, flow.ran) == (WorkflowStatus.HALTED, ["a", "b", "b"])
    assert "made-later.txt is missing" in report.failure.message

    async def make(_):
        (tmp_path / "made-later.txt").write_text("x")

    flow.acts["b"] = make
    assert (await flow.flow.resume()).is_completed


@pytest.mark.requirement("C6")
async def test_a_check_decides_too(tmp_path):
    """A check that says no, or raises, is a phase that is not finished; sync and async."""
    answers = {"sync": [False, True, True], "async": [True, True]}

    def sync():
        return answers["sync"].pop(0)

    async def later():
        return answers["async"].pop(0)

    flow = Flow(tmp_path).build(a={"checks": [sync, later]})
    report = await flow.flow.run()
    assert (report.status, flow.ran) == (WorkflowStatus.COMPLETED, ["a", "a", "b", "c"])


@pytest.mark.requirement("C5")
async def test_a_phase_that_finds_corruption_runs_once_more(tmp_path):
    """What is still there is verified first: a finished phase whose artifact is gone runs before it."""
    flow = Flow(tmp_path).build()
    corrupt = error_for(
        Failure.of("SYS_UPSTREAM_REJECTED", "schema validation failed", kind=Kind.CORRUPTION)
    )

    async def find(_):
        if flow.ran.count("b") == 1:
            (tmp_path / "a.txt").unlink()
            raise corrupt

    flow.acts["b"] = find
    report = await flow.flow.run()
    assert (report.status, flow.ran) == (WorkflowStatus.COMPLETED, ["a", "b", "a", "b", "c"])
    flow = Flow(tmp_path / "x").build()
    (tmp_path / "x").mkdir()
    flow.acts["b"] = fails(corrupt, corrupt, corrupt)
    assert ((await flow.flow.run()).status, flow.ran) == (WorkflowStatus.HALTED, ["a", "b", "b"])


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("harm", ["missing", "changed"])
async def test_a_finished_phase_whose_artifact_does_not_hold_runs_again_alone(
    tmp_path, heard, harm
):
    """What follows it and holds stays finished; the report and an event say what happened."""
    first = Flow(tmp_path).build()
    first.acts["c"] = fails(PermissionError(13, "no"))
    await first.flow.run()
    (tmp_path / "a.txt").unlink() if harm == "missing" else (tmp_path / "a.txt").write_text("x")
    again = Flow(tmp_path).build()
    report = await again.flow.resume()
    assert (report.status, again.ran) == (WorkflowStatus.COMPLETED, ["a", "c"])
    (undone,) = [event for event in heard if name_in_words(event) == "phase undone"]
    assert undone.phase == "a"
    assert any("it ran again" in text for text in report.warnings)


async def test_one_that_must_not_run_twice_halts_when_its_artifact_is_gone(tmp_path):
    """Its effect may be there, only its artifact is not: a person decides."""
    options = {"a": {"idempotent": False}}
    first = Flow(tmp_path).build(**options)
    first.acts["c"] = fails(PermissionError(13, "no"))
    await first.flow.run()
    (tmp_path / "a.txt").unlink()
    again = Flow(tmp_path).build(**options)
    report = await again.flow.resume()
    assert (report.status, report.current_phase, again.ran) == (WorkflowStatus.HALTED, "a", [])
    assert (await again.flow.resume()).is_completed
    assert again.ran == ["a", "c"]


async def test_an_artifact_that_changes_unannounced_halts_the_workflow(tmp_path):
    """Whoever was right: nothing that was finished is undone by itself. Listed by the phase that changes it, it is fine."""

    def change(flow):
        async def act(_):
            (flow.root / "a.txt").write_text("changed by b")

        flow.acts["b"] = act
        return flow

    flow = change(Flow(tmp_path).build())
    report = await flow.flow.run()
    assert (report.status, flow.ran) == (WorkflowStatus.HALTED, ["a", "b"])
    assert "a.txt has changed, of phase a" in report.failure.message
    assert "list it among the artifacts of b" in report.explain()
    (tmp_path / "x").mkdir()
    flow = change(Flow(tmp_path / "x").build(b={"artifacts": ["a.txt", "b.txt"]}))
    assert (await flow.flow.run()).is_completed
    again = Flow(tmp_path / "x").build(b={"artifacts": ["a.txt", "b.txt"]})
    assert (await again.flow.run()).is_completed
    assert again.ran == []


# ---- crashes -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C10")
async def test_a_phase_in_which_the_process_died_begins_again(tmp_path):
    """Those before it do not."""
    await Flow(tmp_path).build().flow.run()
    died_in(tmp_path, "b")
    flow = Flow(tmp_path).build()
    assert ((await flow.flow.run()).completed, flow.ran) == (("a", "b", "c"), ["b", "c"])


async def test_a_phase_that_kills_its_process_again_and_again_halts(tmp_path):
    """After three deaths somebody has to look; resume tries once more."""
    await Flow(tmp_path).build().flow.run()
    died_in(tmp_path, "b", starts=3)
    flow = Flow(tmp_path).build()
    report = await flow.flow.run()
    assert (report.status, flow.ran) == (WorkflowStatus.HALTED, [])
    assert "ended 3 times inside of phase b" in report.failure.message
    assert (await flow.flow.resume()).is_completed


@pytest.mark.requirement("C10")
async def test_a_crash_inside_of_what_must_not_run_twice_is_an_unknown_outcome(tmp_path):
    """It halts and says so; a person lets it run, or skips it."""
    options = {"b": {"idempotent": False}}
    await Flow(tmp_path).build(**options).flow.run()
    died_in(tmp_path, "b")
    flow = Flow(tmp_path).build(**options)
    report = await flow.flow.run()
    assert (report.status, report.failure.code, flow.ran) == (
        WorkflowStatus.HALTED,
        "SYS_OUTCOME_UNKNOWN",
        [],
    )
    await flow.flow.skip(reason="it was done")
    assert ((await flow.flow.resume()).is_completed, flow.ran) == (True, ["c"])


# ---- a damaged state file ------------------------------------------------------------------------------------------


@pytest.mark.requirement("C5")
async def test_a_damaged_state_file_costs_no_finished_phase(tmp_path, heard):
    """The end of a phase is in the backup too; what was lost is told."""
    flow = Flow(tmp_path).build()

    async def die(_):
        raise SystemExit  # the process ends while b runs

    flow.acts["b"] = die
    with pytest.raises(SystemExit):
        await flow.flow.run()
    damage(tmp_path / "state.json")
    again = Flow(tmp_path).build()
    report = await again.flow.run()
    assert (report.status, again.ran) == (WorkflowStatus.COMPLETED, ["b", "c"])
    assert any("the state was damaged" in text for text in report.warnings)
    assert any(isinstance(event, events.StateSetAside) for event in heard)
    assert list(tmp_path.glob("state.json.damaged-*"))


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("name", FILES)
async def test_the_end_of_a_phase_survives_one_damaged_file_before_anything_follows(tmp_path, name):
    """Whichever it is, and whenever it breaks."""
    seen, copy = [], tmp_path / "copy"

    def look(event):
        if name_in_words(event) in ("phase completed", "phase skipped", "workflow completed"):
            copy.mkdir(mode=0o700)
            for file in tmp_path.glob("state.json*"):
                (copy / file.name).write_bytes(file.read_bytes())
            if (copy / name).exists():
                damage(copy / name)
            value = WorkflowStateFile(copy / "state.json")._file.load().value
            done = [*value["phases_completed"], *(one["phase"] for one in value["skipped"])]
            seen.append((name_in_words(event), done, value["status"]))
            shutil.rmtree(copy)

    flow = Flow(tmp_path).build(b={"required": False})
    flow.acts["b"] = fails(PermissionError(13, "no"))
    with rb.listen(look):
        await flow.flow.run()
    assert seen == [
        ("phase completed", ["a"], "running"),
        ("phase skipped", ["a", "b"], "running"),
        ("phase completed", ["a", "c", "b"], "running"),
        ("workflow completed", ["a", "c", "b"], "completed"),
    ]


@pytest.mark.requirement("C5")
async def test_without_a_backup_it_starts_over_and_says_so(tmp_path):
    """Every phase runs again, and the report names what is lost."""
    await Flow(tmp_path).build().flow.run()
    for name in FILES:
        damage(tmp_path / name)
    flow = Flow(tmp_path).build()
    report = await flow.flow.run()
    assert (report.status, flow.ran) == (WorkflowStatus.COMPLETED, ["a", "b", "c"])
    assert any(
        "lost workflow progress" in text and "starting from phase a" in text
        for text in report.warnings
    )


@pytest.mark.requirement("C5")
@pytest.mark.parametrize(
    "names", [FILES, FILES[:2], FILES[:1], (FILES[0], *FILES[2:]), FILES[2:], FILES[2:3], FILES[3:]]
)
async def test_what_must_not_run_twice_is_in_doubt_when_the_state_is_lost(tmp_path, names):
    """All of it lost: it may have run. All but the backup lost: the next phases may have begun. Else the journal knows."""
    options = {"b": {"idempotent": False}}
    flow = Flow(tmp_path).build(**options)

    async def die(_):
        raise SystemExit

    flow.acts["b"] = die
    with pytest.raises(SystemExit):
        await flow.flow.run()
    for name in names:
        damage(tmp_path / name)
    again = Flow(tmp_path).build(**options)
    report = await again.flow.run()
    assert (report.status, report.failure.code) == (WorkflowStatus.HALTED, "SYS_OUTCOME_UNKNOWN")
    assert "b" not in again.ran


@pytest.mark.requirement("C5")
async def test_the_next_phase_is_in_doubt_when_the_last_step_is_lost(tmp_path):
    """Killed inside of b, then all but the backup is damaged: it does not know that b began, and that is not taken for a no."""
    options = {"b": {"idempotent": False}}
    flow = Flow(tmp_path).build(**options)
    saved = {}

    async def note(_):
        saved.update(
            {name: (tmp_path / name).read_bytes() for name in ("state.json", "state.json.bak")}
        )

    flow.acts["b"] = note
    await flow.flow.run()
    assert json.loads(saved["state.json.bak"])["current_phase"] == "a"
    (tmp_path / "state.json").write_bytes(saved["state.json"][:-20])
    (tmp_path / "state.json.bak").write_bytes(saved["state.json.bak"])
    for name in FILES[2:]:  # or they would know
        damage(tmp_path / name)
    again = Flow(tmp_path).build(**options)
    report = await again.flow.run()
    assert (report.status, report.failure.code, again.ran) == (
        WorkflowStatus.HALTED,
        "SYS_OUTCOME_UNKNOWN",
        ["a"],
    )


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/passwd", "a/../../x", ""])
async def test_a_path_in_the_file_leads_nowhere(tmp_path, name):
    """Whoever writes `..` into the state file has damaged it: nothing outside is looked at."""
    await Flow(tmp_path).build().flow.run()
    value = value_in(tmp_path / "state.json")
    value["checkpoints"][0].update(artifacts=[name], checksums={name: "sha256:0"})
    write_value(tmp_path / "state.json", value)
    flow = Flow(tmp_path).build()
    report = await flow.flow.run()
    assert (report.is_completed, flow.ran) == (True, [])
    assert any("damaged" in text for text in report.warnings)


async def test_a_state_file_that_is_a_link_is_refused(tmp_path):
    """Nothing is followed, and nothing runs."""
    (tmp_path / "elsewhere.json").write_text("{}")
    (tmp_path / "state.json").symlink_to("elsewhere.json")
    flow = Flow(tmp_path).build()
    with pytest.raises(rb.ConfigError, match="symbolic link"):
        await flow.flow.run()
    assert flow.ran == []
