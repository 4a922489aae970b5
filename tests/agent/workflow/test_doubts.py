"""What may have run, and what runs again with what: nothing runs twice unasked, and nothing that was done is lost."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import WorkflowStatus
from tests.agent.workflow.flows import Flow, cancelled, damage, fails, started, stay


async def _leave(_):
    raise SystemExit


# ---- what must not run twice ----------------------------------------------------------------------------------------


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("how", ["cancelled", "exit"])
async def test_what_must_not_run_twice_is_in_doubt_when_it_was_interrupted(tmp_path, how):
    """Ctrl-C inside of a phase does not take back what it did: a person says whether it runs again."""
    options = {"b": {"idempotent": False}}
    flow = Flow(tmp_path).build(**options)
    if how == "cancelled":
        flow.acts["b"] = stay
        await cancelled(await started(flow, until="ab"))
    else:
        flow.acts["b"] = _leave
        with pytest.raises(SystemExit):
            await flow.flow.run()
    again = Flow(tmp_path).build(**options)
    report = await again.flow.run()
    assert (report.status, again.ran) == (WorkflowStatus.HALTED, [])
    assert report.failure.code == "SYS_OUTCOME_UNKNOWN"
    assert ((await again.flow.resume()).is_completed, again.ran) == (True, ["b", "c"])


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("a", [{}, {"required": False, "idempotent": False}, {"idempotent": False}])
async def test_a_phase_before_it_that_runs_again_does_not_hide_that_it_had_started(tmp_path, a):
    """Died inside of b, which must not run twice; meanwhile a's artifact is gone. a is dealt with, and b is still in doubt."""
    options = {"a": a, "b": {"idempotent": False}}
    flow = Flow(tmp_path).build(**options)
    flow.acts["b"] = _leave
    with pytest.raises(SystemExit):
        await flow.flow.run()
    (tmp_path / "a.txt").unlink()
    again = Flow(tmp_path).build(**options)
    report = await again.flow.run()
    if report.current_phase == "a":  # a must not run twice either
        report = await again.flow.resume()
    assert (report.status, report.current_phase) == (WorkflowStatus.HALTED, "b")
    assert report.failure.code == "SYS_OUTCOME_UNKNOWN"
    assert "b" not in again.ran


@pytest.mark.requirement("C5")
async def test_a_new_beginning_that_is_damaged_is_not_taken_for_the_aborted_one(
    tmp_path, monkeypatch
):
    """The backup says aborted, but the file had begun anew: what was lost is said, and nothing runs twice unasked."""
    options = {"a": {"idempotent": False}}
    flow = Flow(tmp_path).build(**options)
    await flow.flow.run()
    await flow.flow.abort()
    flow.acts["a"] = _leave
    monkeypatch.setattr(flow.flow._file, "save_if_possible", lambda _: None)  # as a kill leaves it
    with pytest.raises(SystemExit):
        await flow.flow.run()
    damage(tmp_path / "state.json")
    again = Flow(tmp_path).build(**options)
    report = await again.flow.run()
    assert again.ran == []
    assert report.failure.code == "SYS_OUTCOME_UNKNOWN"
    assert any("lost" in text for text in report.warnings)


# ---- an artifact of two phases --------------------------------------------------------------------------------------


def _shared(root, **more):
    """a makes a.txt and y.txt, b adds to a.txt and lists it, c is refused."""
    flow = Flow(root).build(
        a={"artifacts": ["a.txt", "y.txt"]}, b={"artifacts": ["a.txt", "b.txt"], **more}
    )

    async def make(_):
        (root / "y.txt").write_text("y")

    async def add(_):
        (root / "a.txt").write_text((root / "a.txt").read_text() + "b")

    flow.acts.update(a=make, b=add, c=fails(PermissionError(13, "no")))
    return flow


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("gone", ["a.txt", "y.txt"])
async def test_who_makes_an_artifact_anew_takes_along_who_changed_it(tmp_path, gone):
    """Whichever artifact of a is gone: a makes them again, so what b has done to one of them is done again too, and nothing is missing."""
    flow = _shared(tmp_path)
    await flow.flow.run()
    (tmp_path / gone).unlink()
    report = await flow.flow.resume()
    assert report.is_completed, report.explain()
    assert flow.ran == ["a", "b", "c", "a", "b", "c"]
    assert (tmp_path / "a.txt").read_text() == "ab"


async def test_who_changed_it_is_asked_for_if_it_must_not_run_twice(tmp_path):
    """The change of b is gone with the artifact: whether b runs again is for a person to say, and it is not forgotten."""
    flow = _shared(tmp_path, idempotent=False)
    await flow.flow.run()
    (tmp_path / "y.txt").unlink()
    report = await flow.flow.resume()
    assert (report.status, report.current_phase) == (WorkflowStatus.HALTED, "b")
    assert "a.txt" in report.failure.message
    assert "b" not in flow.ran[3:]


async def test_x04_a_step_that_did_not_run_proves_nothing_of_its_phase(tmp_path):
    """The last step of a phase says that it did not run, as often as it is repeated: the report says that the phase may have run."""
    flow = Flow(tmp_path).build(b={"idempotent": False})
    flow.acts["b"] = fails(*(rb.NotExecutedError() for _ in range(9)))
    with rb.testing.virtual_time():
        report = await flow.flow.run()
    assert (report.status, flow.ran.count("b")) == (WorkflowStatus.HALTED, 4)
    assert report.failure.executed is rb.errors.Executed.MAYBE
