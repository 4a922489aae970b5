"""What a run looks at before it does or says anything: artifacts of a completed workflow, its root, what cannot be seen."""

from __future__ import annotations

import threading

import pytest

from resilient_bridge.agent import Workflow, WorkflowStatus
from resilient_bridge.failure import ConfigError, StoreError
from tests.agent.workflow.flows import Flow, fails
from tests.internals.stores import journaled
from tests.stores.faulty_disk import FaultyDisk, insert


async def test_phases_can_be_added_after_the_end(tmp_path, heard):
    """Only they run."""
    await Flow(tmp_path).build().flow.run()
    longer = Flow(tmp_path, names="abcd").build()
    assert longer.flow.status().status is WorkflowStatus.RUNNING
    assert ((await longer.flow.run()).completed, longer.ran) == (("a", "b", "c", "d"), ["d"])


async def test_a_completed_workflow_makes_again_what_is_gone(tmp_path, heard):
    """`run` looks; where everything is there, nothing is written and nothing told."""
    await Flow(tmp_path).build().flow.run()
    before, heard[:] = (tmp_path / "state.json").read_bytes(), []
    assert (await Flow(tmp_path).build().flow.run()).is_completed
    assert ((tmp_path / "state.json").read_bytes(), heard) == (before, [])
    (tmp_path / "b.txt").unlink()
    again = Flow(tmp_path).build()
    assert ((await again.flow.run()).is_completed, again.ran) == (True, ["b"])


async def test_a_completed_one_that_must_not_run_twice_halts_when_its_artifact_is_gone(tmp_path):
    """As before the end."""
    options = {"b": {"idempotent": False}}
    await Flow(tmp_path).build(**options).flow.run()
    (tmp_path / "b.txt").unlink()
    again = Flow(tmp_path).build(**options)
    report = await again.flow.run()
    assert (report.status, report.current_phase, again.ran) == (WorkflowStatus.HALTED, "b", [])


async def test_another_root_is_not_taken_for_artifacts_that_are_gone(tmp_path):
    """Who runs it from elsewhere is told so; who moves file and root together is not."""
    (tmp_path / "one").mkdir()
    await Flow(tmp_path / "one").build().flow.run()
    elsewhere = Workflow(tmp_path / "one/state.json", name="flow", root=tmp_path)
    for one in "abc":
        elsewhere.phase(name=one, artifacts=[f"{one}.txt"])(fails())
    with pytest.raises(ConfigError, match=r"Workflow\.root"):
        await elsewhere.run()
    (tmp_path / "one").rename(tmp_path / "two")
    moved = Flow(tmp_path / "two").build()
    assert ((await moved.flow.run()).is_completed, moved.ran) == (True, [])


async def test_what_cannot_be_looked_at_is_not_taken_for_gone(tmp_path, monkeypatch):
    """Nothing runs and nothing changes; when it can be looked at, nothing is lost."""
    await Flow(tmp_path).build().flow.run()
    before = (tmp_path / "state.json").read_bytes()

    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("resilient_bridge.agent.workflow.artifacts._of_file", refuse)
    flow = Flow(tmp_path).build()
    with pytest.raises(StoreError, match=r"cannot be verified: a\.txt cannot be read"):
        await flow.flow.run()
    monkeypatch.undo()
    assert (flow.ran, (tmp_path / "state.json").read_bytes()) == ([], before)
    assert (await flow.flow.run()).is_completed
    assert flow.ran == []


async def test_who_looks_during_a_run_never_sees_a_loss(tmp_path, monkeypatch):
    """Whatever is replaced or appended between two reads, also where the journal begins anew: each state is one that there was."""
    insert(monkeypatch, FaultyDisk(fsync=lambda handle: None))
    monkeypatch.setattr(journaled, "_LARGEST", 500)
    flow = Workflow(tmp_path / "state.json", root=tmp_path)

    async def work(phase):
        await phase.checkpoint({"phase": phase.number})

    for number in range(40):
        flow.phase(name=f"p{number}")(work)
    seen, is_over = [], threading.Event()

    def look():
        while not is_over.is_set():
            seen.append(flow.status())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        await flow.run()
    finally:
        is_over.set()
        looking.join()
    assert not {text for report in seen for text in report.warnings}
    lengths = [len(report.completed) for report in seen]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 1
