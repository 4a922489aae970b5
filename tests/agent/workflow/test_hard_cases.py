"""What is easily lost, repeated or blamed wrongly: ends at the wrong moment, two things at once, values that no file can hold."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import ClassVar

import pytest

import resilient_bridge as rb
from resilient_bridge import events
from resilient_bridge.agent import Workflow, WorkflowStatus
from resilient_bridge.failure import ConfigError, Executed, Failure
from tests.agent.workflow.flows import Flow, cancelled, fails, started, stay
from tests.internals.files import read_private


# ---- the end, while a step is being kept ----------------------------------------------------------------------------


@pytest.mark.requirement("C6")
async def test_the_end_of_a_phase_is_saved_when_the_run_is_cancelled_meanwhile(
    tmp_path, monkeypatch
):
    """The phase has ended and is being written down: cancelling waits for that, and the phase does not run again."""
    flow = Flow(tmp_path).build()
    saving, go_on, was_free = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()
    workflow_file = flow.flow._file
    plain = workflow_file._save

    def slow(state):
        if state.phases_completed == ("a",) and not go_on.is_set():
            loop.call_soon_threadsafe(saving.set)
            was_free.append(go_on.wait(10))  # the loop goes on meanwhile, and lets this end
        plain(state)

    monkeypatch.setattr(workflow_file, "_save", slow)
    task = asyncio.create_task(flow.flow.run())
    await saving.wait()
    task.cancel()
    loop.call_later(0.05, go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert was_free == [True]
    assert flow.value()["phases_completed"] == ["a"]
    again = Flow(tmp_path).build()
    assert ((await again.flow.run()).is_completed, again.ran) == (True, ["b", "c"])


async def test_nothing_is_written_after_the_file_was_released(tmp_path, monkeypatch):
    """Whoever cancels a run while it reads, gets the file when nothing touches it any more."""
    flow = Flow(tmp_path).build()
    reading, seen = asyncio.Event(), []
    loop = asyncio.get_running_loop()
    workflow_file = flow.flow._file
    plain, free = workflow_file._file.load, workflow_file.release
    go_on = threading.Event()

    def slow():
        loop.call_soon_threadsafe(reading.set)
        go_on.wait(10)
        seen.append("loaded")
        return plain()

    monkeypatch.setattr(type(workflow_file._file), "load", lambda _: slow())
    monkeypatch.setattr(workflow_file, "release", lambda: (seen.append("released"), free()))
    task = asyncio.create_task(flow.flow.run())
    await reading.wait()
    task.cancel()
    loop.call_later(0.05, go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["loaded", "released"]


async def test_an_unsafe_file_does_not_hide_that_it_was_cancelled(tmp_path):
    """The last save is refused, because somebody made the file a link: the task ends as cancelled all the same."""
    flow = Flow(tmp_path).build()
    flow.acts["a"] = stay
    task = await started(flow, until="a")
    (tmp_path / "state.json").rename(tmp_path / "moved.json")
    (tmp_path / "state.json").symlink_to("moved.json")
    await cancelled(task)


# ---- several things at once -----------------------------------------------------------------------------------------


@pytest.mark.requirement("C3")
async def test_warnings_of_concurrent_calls_are_all_saved(tmp_path, monkeypatch):
    """A phase may do several things at once, each with a warning and a checkpoint; none takes another's place."""
    flow = Flow(tmp_path).build()
    workflow_file = flow.flow._file
    plain, last = workflow_file._note, threading.Event()

    def overtaken(state, synced):
        if len(state.warnings) == 1:
            last.wait(0.1)  # if it could be overtaken, it would be
        plain(state, synced)
        if state.saved is not None:
            last.set()

    monkeypatch.setattr(workflow_file, "_note", overtaken)

    rows = []

    async def many(phase):
        await asyncio.gather(
            *(phase.warn(f"part {n}") for n in range(10)), phase.checkpoint({"n": 1})
        )
        rows.append(flow.value())
        raise PermissionError(13, "no")

    flow.acts["a"] = many
    report = await flow.flow.run()
    assert sorted(report.warnings) == [f"a: part {n}" for n in range(10)]
    assert (len(rows[0]["warnings"]), rows[0]["saved"]) == (
        10,
        {"n": 1},
    )  # the newest is what was on disk
    assert flow.value()["saved"] == {"n": 1}


async def test_a_task_that_a_phase_leaves_behind_cannot_save_into_the_next(tmp_path):
    """What `checkpoint` keeps belongs to the phase that is under way: a late one is refused, and the next phase begins with nothing."""
    flow = Flow(tmp_path).build()
    rows = []

    async def remember(phase):
        rows.append(phase)

    async def late(phase):
        with pytest.raises(ConfigError, match=r"Phase\.checkpoint"):
            await rows[0].checkpoint({"of": "a"})
        raise PermissionError(13, "no")

    flow.acts.update(a=remember, b=late)
    await flow.flow.run()
    assert flow.value()["saved"] is None


# ---- who is blamed --------------------------------------------------------------------------------------------------


class _Tools:
    """A toolbox of one answer, which declares nothing."""

    tools: ClassVar[dict] = {}

    def __init__(self, *outcomes):
        self._remaining = list(outcomes)

    async def call(self, name, arguments, *, idempotency_key):
        return self._remaining.pop(0)


class _Outcome:
    def __init__(self, failure=None, *, is_skipped=False):
        self.failure, self.value, self.is_skipped, self.attempts = failure, None, is_skipped, 1


REFUSED = Failure.of("TOOL_EXECUTION_FAILED", "refused", executed=Executed.MAYBE)


@pytest.mark.requirement("C3")
async def test_a_tool_that_failed_before_is_not_blamed_for_what_came_later(tmp_path):
    """The phase went on without it and failed of something else: the record names no tool."""
    flow = Flow(tmp_path, tools=_Tools(_Outcome(REFUSED), _Outcome())).build()

    async def goes_on(phase):
        with pytest.raises(rb.BridgeError):
            await phase.call("first", {"x": 1})
        await phase.call("second")
        raise ValueError("of its own")

    flow.acts["a"] = goes_on
    (error,) = (await flow.flow.run()).errors
    assert (error["tool"], error["arguments"], error["error"]) == (None, None, "ValueError")


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
async def test_arguments_that_json_cannot_hold_do_not_hide_the_failure(tmp_path, number):
    """A tool that was called with NaN failed: it halts with the report, which is JSON."""
    flow = Flow(tmp_path, tools=_Tools(_Outcome(REFUSED))).build()

    async def call(phase):
        await phase.call("far", {"to": [1.5, {"x": number}], "token": "s3cret-value"})

    flow.acts["a"] = call
    report = await flow.flow.run()
    assert report.status is WorkflowStatus.HALTED
    (error,) = report.errors
    assert error["tool"] == "far"
    text = json.dumps(report.to_dict(), allow_nan=False)
    assert "s3cret" not in text + (tmp_path / "state.json").read_text()


async def test_a_halt_does_not_claim_that_something_ran_again(tmp_path):
    """a must not run twice and its artifact is gone: it halts, and no warning says that a ran."""
    options = {"a": {"idempotent": False}}
    flow = Flow(tmp_path).build(**options)
    flow.acts["c"] = fails(PermissionError(13, "no"))
    await flow.flow.run()
    (tmp_path / "a.txt").unlink()
    report = await flow.flow.resume()
    assert (report.status, report.current_phase) == (WorkflowStatus.HALTED, "a")
    assert not any("ran again" in text for text in report.warnings)


@pytest.mark.requirement("C6")
async def test_a_broken_optional_phase_does_not_hide_the_next_broken_one(tmp_path):
    """a is skipped, because it must not run twice and its artifact is gone; b's is gone too, and b runs again."""
    options = {"a": {"idempotent": False, "required": False}}
    flow = Flow(tmp_path).build(**options)
    flow.acts["c"] = fails(PermissionError(13, "no"))
    await flow.flow.run()
    (tmp_path / "a.txt").unlink()
    (tmp_path / "b.txt").unlink()
    again = Flow(tmp_path).build(**options)
    report = await again.flow.resume()
    assert (report.completed, again.ran) == (("b", "c"), ["b", "c"])
    assert (tmp_path / "b.txt").exists()


async def test_a_secret_in_the_reason_of_a_skip_is_masked(tmp_path):
    """Neither the event nor the file has it."""
    flow = Flow(tmp_path).build()
    flow.acts["b"] = fails(PermissionError(13, "no"))
    await flow.flow.run()
    heard = []
    with rb.listen(heard.append):
        report = await flow.flow.skip(reason="did it with token=s3cret-value\udcff")
    (event,) = [one for one in heard if isinstance(one, events.PhaseChanged)]
    assert (
        "s3cret" not in event.reason + str(report.to_dict()) + (tmp_path / "state.json").read_text()
    )


@pytest.mark.timeout(10)
@pytest.mark.parametrize("folder", ["phase", "check"])
async def test_a_sync_function_that_raises_stop_iteration_ends_all_the_same(tmp_path, folder):
    """`next()` of nothing, in a thread: on Python 3.11 a future cannot hold that, and who awaits it would wait for ever."""
    flow = Workflow(tmp_path / "state.json", root=tmp_path)

    def nothing_remains():
        return next(iter(()))

    checks = [nothing_remains] if folder == "check" else []
    flow.phase(name="a", checks=checks)(nothing_remains if folder == "phase" else lambda: None)
    report = await flow.run()
    assert report.status is WorkflowStatus.HALTED
    assert "StopIteration" in report.explain()


async def test_a_phase_that_cancels_its_own_work_has_failed(tmp_path):
    """Nobody ended the run: what comes out is a report, and no CancelledError."""
    flow = Flow(tmp_path).build()

    async def clumsy(_):
        task = asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        task.cancel()
        await task

    flow.acts["a"] = clumsy
    report = await flow.flow.run()
    assert report.status is WorkflowStatus.HALTED
    assert "awaited something that was" in report.failure.message
    (error,) = report.errors
    assert any("clumsy" in frame for frame in error["trace"])


async def test_a_sync_check_runs_beside_the_loop(tmp_path):
    """A check may take long, as tests do: whatever else the loop has to do goes on."""
    flow = Workflow(tmp_path / "state.json", root=tmp_path)
    loop = asyncio.get_running_loop()

    async def answer():
        return True

    def holds():
        return asyncio.run_coroutine_threadsafe(answer(), loop).result(
            5
        )  # only a loop that turns can answer

    flow.phase(name="a", checks=[holds])(lambda: None)
    assert (await flow.run()).is_completed


# ---- what no file can hold, or must not ------------------------------------------------------------------------------


async def test_a_name_that_the_file_cannot_hold_is_refused_when_it_is_used(tmp_path):
    """A name of bytes that are no UTF-8 would make every end of the phase impossible to keep."""
    with pytest.raises(ConfigError, match=r"artifacts\[0\]"):
        Flow(tmp_path).build(a={"artifacts": ["caf\udce9.txt"]})
    flow = Flow(tmp_path).build()

    async def make(phase):
        phase.produced("caf\udce9.txt")

    flow.acts["a"] = make
    assert (await flow.flow.run()).failure.code == "SYS_CONFIG_INVALID"


async def test_a_directory_that_holds_the_state_file_can_be_an_artifact(tmp_path):
    """What we write ourselves is no change of it, and reading it does not give the lock away."""
    (tmp_path / "out").mkdir(mode=0o700)
    flow = Workflow(tmp_path / "out" / "state.json", root=tmp_path)
    program = (
        "import sys, asyncio\n"
        "from resilient_bridge.agent import Workflow\n"
        "flow = Workflow(sys.argv[1])\n"
        "flow.phase(name='other')(lambda: None)\n"
        "print(asyncio.run(flow.run()))\n"
    )
    parts = []

    @flow.phase(artifacts=["out"])
    def makes():
        (tmp_path / "out" / "a.txt").write_text("a")

    @flow.phase
    async def looks():
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, str(flow.path), stderr=asyncio.subprocess.PIPE
        )
        parts.append((await child.communicate())[1].decode())

    report = await flow.run()
    assert report.is_completed, report.explain()
    assert "in use by process" in parts[0]
    (tmp_path / "out" / "a.txt").write_text("b")
    other = Workflow(flow.path, root=tmp_path)
    for name, artifacts in (("makes", ["out"]), ("looks", [])):
        other.phase(name=name, artifacts=artifacts)(lambda: None)
    assert (await other.run()).is_completed


async def test_it_leaves_five_files_beside_what_the_phases_made(tmp_path):
    """The state, its journal, their backups and the lock, also of a run that was cancelled."""
    flow = Flow(tmp_path).build()
    flow.acts["b"] = stay
    await cancelled(await started(flow, until="ab"))
    remaining = {path.name for path in tmp_path.iterdir()} - {"a.txt", "b.txt"}
    assert remaining == {
        "state.json", "state.json.bak", "state.json.journal", "state.json.journal.bak", "state.json.owner",
    }  # fmt: skip


# ---- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "declare"),
    [
        ("Workflow.root", lambda path: Workflow(path, root=5)),
        ("Workflow.phase.artifacts", lambda path: Workflow(path).phase(artifacts=path)),
        ("Workflow.phase.artifacts", lambda path: Workflow(path).phase(artifacts=5)),
        ("Workflow.phase.checks", lambda path: Workflow(path).phase(checks=lambda: True)),
    ],
)
def test_one_thing_instead_of_a_list_is_refused(tmp_path, field, declare):
    """As every argument that cannot be meant: ConfigError with the name of the field."""
    with pytest.raises(ConfigError, match=field.replace(".", r"\.")):
        made = declare(tmp_path / "state.json")
        made(lambda: None)


# ---- status ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["state.json", "state.json.bak"])
async def test_status_does_not_call_new_what_has_lost_its_file(tmp_path, folder):
    """The file is gone and its backup is not: the next run mends that, and status says so instead of `has not begun`."""
    flow = Flow(tmp_path).build()
    await flow.flow.run()
    (tmp_path / folder).unlink()
    if folder == "state.json":
        with pytest.raises(rb.errors.StoreError) as caught:
            flow.flow.status()
        assert caught.value.failure.code == "SYS_STATE_DAMAGED"
        assert read_private(tmp_path / "state.json") is None
    else:
        assert flow.flow.status().is_completed
