"""What a phase costs (P23): flushes of files, and work that does not grow with the phases before it."""

from __future__ import annotations

import sys

import pytest

import resilient_bridge as rb
from bench import journeys, workflow_phases
from tests.agent.workflow.flows import FILES, Flow
from tests.stores.faulty_disk import FaultyDisk, insert


async def flushes(tmp_path, monkeypatch, phases, **sort):
    """How often a workflow of so many phases flushes a file or a folder."""
    folder = tmp_path / f"{phases}"
    folder.mkdir(mode=0o700)
    with monkeypatch.context() as patch:
        disk = insert(patch, FaultyDisk(fsync=lambda handle: None))
        flow = workflow_phases.workflow(str(folder), phases, **sort)
        assert (await flow.run()).is_completed
    return disk.calls.count("fsync")


@pytest.mark.requirement("C7")
@pytest.mark.parametrize(
    ("calls", "idempotent", "most"), [(False, False, 4), (True, True, 6), (True, False, 8)]
)
async def test_the_flushes_of_a_phase_after_the_first(
    tmp_path, monkeypatch, calls, idempotent, most
):
    """Its end: the journal, the backup, the file, their folder. A call: one copy of the journal
    before it and one after it, or both copies if it may not be repeated.
    """
    few = await flushes(tmp_path, monkeypatch, 2, calls=calls, idempotent=idempotent)
    many = await flushes(tmp_path, monkeypatch, 12, calls=calls, idempotent=idempotent)
    assert (many - few) / 10 == most


@pytest.mark.requirement("C6")
async def test_the_start_of_what_must_not_run_twice_is_flushed(tmp_path, monkeypatch):
    """A power cut must not hide that it began; of other phases only the end is flushed."""
    for idempotent, most in ((False, 5), (None, 4)):
        folder = tmp_path / str(idempotent)
        folder.mkdir(mode=0o700)
        flow, counts = Flow(folder), []
        flow.build(**{name: {"idempotent": idempotent, "artifacts": []} for name in "abc"})
        with monkeypatch.context() as patch:
            disk = insert(patch, FaultyDisk(fsync=lambda handle: None))

            async def count(_, calls=disk.calls, counts=counts):
                counts.append(calls.count("fsync"))

            flow.acts.update(b=count, c=count)
            await flow.flow.run()
        assert counts[1] - counts[0] == most


async def test_the_state_file_changes_once_in_a_phase(tmp_path):
    """When it ends; what happens before stands in the journal."""
    flow, seen = Flow(tmp_path).build(), []

    async def look(phase):
        await phase.checkpoint({"n": 1})
        await phase.warn("careful")
        seen.append([(tmp_path / name).read_bytes() for name in FILES[:2]])
        seen.append(flow.value())

    flow.acts.update(b=look)
    with rb.listen(lambda event: seen.append(event.status) if hasattr(event, "number") else None):
        await flow.flow.run()
    files, value = (one for one in seen if not isinstance(one, str))
    assert (value["current_phase"], value["saved"]) == ("b", {"n": 1})
    assert value["warnings"] == ["b: careful"]
    for data in files:
        assert b'"current_phase":"b"' not in data
        assert b"careful" not in data


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="counted on CPython")
@pytest.mark.parametrize("calls", [False, True])
def test_fifty_phases_are_ten_times_the_work_of_five(monkeypatch, calls):
    """In calls of our functions: at most 12 times."""
    insert(monkeypatch, FaultyDisk(fsync=lambda handle: None))

    def walked(phases):
        with journeys.profiled(), journeys.Count() as count:
            workflow_phases.run(phases, calls=calls)
        return count.calls

    walked(2)  # what is called once in a process
    assert walked(50) <= workflow_phases.MOST_TIMES * walked(5)
