"""Phases in order, each once; optional ones skipped, required ones halting; and what a person can do then."""

from __future__ import annotations

import asyncio

import httpx
import mcp_types
import pytest

import resilient_bridge as rb
from resilient_bridge import events
from resilient_bridge.agent import Workflow, WorkflowStatus
from resilient_bridge.failure import ConfigError, StoreError
from tests.agent.workflow.flows import Flow, cancelled, fails, started, stay
from tests.internals.telemetry import name_in_words


def kinds(heard):
    """The events by name, those of the file left out."""
    return [type(event).__name__ for event in heard]


@pytest.mark.requirement("C6")
async def test_phases_run_in_order_and_never_again(tmp_path, heard):
    """Each runs once; a second run, by another object, finds all of them finished and runs nothing."""
    flow = Flow(tmp_path).build()
    report = await flow.flow.run()
    assert (report.status, report.completed, flow.ran) == (
        WorkflowStatus.COMPLETED,
        ("a", "b", "c"),
        ["a", "b", "c"],
    )
    assert [
        name_in_words(event) for event in heard if not isinstance(event, events.CallFinished)
    ] == [
        "workflow started",
        *["phase started", "phase completed"] * 3,
        "workflow completed",
    ]
    again = Flow(tmp_path).build()
    assert (await again.flow.run()).is_completed
    assert again.ran == []


@pytest.mark.requirement("C3")
async def test_a_required_phase_that_fails_halts_everything(tmp_path, heard):
    """The state is saved, nothing after it runs, and the report says what, why, fixes and alternatives."""
    flow = Flow(tmp_path).build()
    flow.acts["b"] = fails(PermissionError(13, "Permission denied", str(tmp_path / "b.txt")))
    report = await flow.flow.run()
    assert (report.status, report.completed, report.current_phase) == (
        WorkflowStatus.HALTED,
        ("a",),
        "b",
    )
    assert report.remaining == ("b", "c")
    text = report.explain()
    for word in (
        "what failed",
        "why",
        "suggested fixes",
        "alternatives",
        "PermissionError",
        "left: b, c",
    ):
        assert word in text
    assert flow.value()["status"] == "halted"
    assert (heard[-1].status, heard[-1].phase, heard[-1].completed, heard[-1].total) == (
        "halted",
        "b",
        1,
        3,
    )
    assert (
        await Flow(tmp_path).build().flow.run()
    ).status is WorkflowStatus.HALTED  # a decision is needed


@pytest.mark.requirement("C3")
async def test_the_record_of_a_failure_has_its_context_and_no_secret(tmp_path):
    """Phase, message, where in the code; no value, and no password."""
    flow = Flow(tmp_path).build()
    flow.acts["a"] = fails(ValueError("bad password=hunter2-and-more"))
    report = await flow.flow.run()
    (error,) = report.errors
    assert (error["phase"], error["error"]) == ("a", "ValueError")
    assert any("flows.py" in frame for frame in error["trace"])
    assert not any("resilient_bridge/calls" in frame for frame in error["trace"])
    assert (
        "hunter2"
        not in report.explain() + str(report.to_dict()) + (tmp_path / "state.json").read_text()
    )


@pytest.mark.requirement("C3")
async def test_an_optional_phase_that_fails_is_skipped(tmp_path, heard):
    """It goes on, and the end names it, with its failure."""
    flow = Flow(tmp_path).build(b={"required": False})
    flow.acts["b"] = fails(PermissionError(13, "no"))
    report = await flow.flow.run()
    assert (report.status, report.completed) == (WorkflowStatus.COMPLETED, ("a", "c"))
    assert [one.phase for one in report.skipped] == ["b"]
    assert "skipped: b: " in report.explain()
    (skipped,) = [event for event in heard if name_in_words(event) == "phase skipped"]
    assert skipped.failure.details["errno"] == 13
    assert heard[-1].skipped == ("b",)


async def test_resume_goes_on_with_the_phase_that_failed(tmp_path):
    """What is finished stays finished; what it halted for is forgotten once it works."""
    first = Flow(tmp_path).build()
    first.acts["b"] = fails(PermissionError(13, "no"))
    await first.flow.run()
    second = Flow(tmp_path).build()
    report = await second.flow.resume()
    assert (report.status, report.failure, second.ran) == (
        WorkflowStatus.COMPLETED,
        None,
        ["b", "c"],
    )


async def test_skip_leaves_out_what_it_halted_at(tmp_path):
    """Nothing runs by that; resume does the rest, and the end says who left it out."""
    first = Flow(tmp_path).build()
    first.acts["b"] = fails(PermissionError(13, "no"))
    await first.flow.run()
    second = Flow(tmp_path).build()
    report = await second.flow.skip(reason="done by hand")
    assert (report.status, second.ran) == (WorkflowStatus.RUNNING, [])
    report = await second.flow.resume()
    assert (report.status, second.ran) == (WorkflowStatus.COMPLETED, ["c"])
    assert [(one.phase, one.reason) for one in report.skipped] == [("b", "done by hand")]


async def test_skip_can_name_a_phase_that_is_still_to_come(tmp_path):
    """Where it halted stays where it halted."""
    flow = Flow(tmp_path).build()
    flow.acts["a"] = fails(PermissionError(13, "no"))
    await flow.flow.run()
    report = await flow.flow.skip("c")
    assert (report.status, report.current_phase) == (WorkflowStatus.HALTED, "a")
    assert (await flow.flow.resume()).completed == ("a", "b")


async def test_abort_ends_it_and_the_next_run_begins_anew(tmp_path, heard):
    """What was made stays; a resume is refused."""
    flow = Flow(tmp_path).build()
    flow.acts["b"] = fails(PermissionError(13, "no"))
    await flow.flow.run()
    report = await flow.flow.abort()
    assert (report.status, report.failure) == (WorkflowStatus.ABORTED, None)
    assert (heard[-1].status, heard[-1].phase, heard[-1].completed, heard[-1].total) == (
        "aborted",
        "b",
        1,
        3,
    )
    assert (tmp_path / "a.txt").exists()
    with pytest.raises(ConfigError, match=r"Workflow\.resume"):
        await flow.flow.resume()
    old = flow.value()["id"]
    flow.ran.clear()
    assert (await flow.flow.run()).is_completed
    assert flow.ran == ["a", "b", "c"]
    assert flow.value()["id"] != old


async def test_status_tells_how_far_it_is_while_it_runs(tmp_path):
    """It needs no turn, and changes nothing."""
    flow = Flow(tmp_path).build()
    seen = []

    async def look(_):
        seen.append(Flow(tmp_path).build().flow.status())

    flow.acts["b"] = look
    assert flow.flow.status().status is WorkflowStatus.NEW
    await flow.flow.run()
    (report,) = seen
    assert (report.status, report.completed, report.current_phase) == (
        WorkflowStatus.RUNNING,
        ("a",),
        "b",
    )


async def test_two_runners_of_one_file_exclude_each_other(tmp_path):
    """The second is told so at once, whatever it wants, and the first does not notice."""
    flow = Flow(tmp_path).build()

    async def others(_):
        other = Flow(tmp_path).build().flow
        for verb in (other.run, other.resume, other.skip, other.abort):
            with pytest.raises(StoreError) as caught:
                await verb()
            assert caught.value.failure.code == "SYS_STORE_IN_USE"

    flow.acts["a"] = others
    assert (await flow.flow.run()).is_completed


async def test_sync_phases_run_beside_the_loop(tmp_path):
    """A function of nothing is a phase too; while it blocks the loop goes on."""
    flow = Workflow(tmp_path / "state.json", root=tmp_path)
    loop = asyncio.get_running_loop()
    turned = []

    @flow.phase
    def blocks():
        done = asyncio.run_coroutine_threadsafe(_turn(turned), loop)
        done.result(10)  # only a loop that turns can answer

    @flow.phase
    def takes_it(phase):
        turned.append(phase.name)

    assert (await flow.run()).is_completed
    assert turned == ["turned", "takes_it"]
    assert blocks.__name__ == "blocks"  # the function stays a function


async def _turn(turned):
    turned.append("turned")


async def test_a_sync_phase_hears_what_it_cannot_await(tmp_path):
    """A coroutine that nobody awaits would keep nothing, without a word."""
    flow = Workflow(tmp_path / "state.json", root=tmp_path)
    refused = []

    @flow.phase
    def keeps(phase):
        for verb in (phase.checkpoint, phase.warn, phase.call):
            with pytest.raises(ConfigError, match="an async phase") as caught:
                verb("x")
            refused.append(caught.value.failure.details["violations"][0]["field"])
        with pytest.raises(ConfigError):
            phase.committed()

    assert (await flow.run()).is_completed
    assert refused == ["Phase.checkpoint", "Phase.warn", "Phase.call"]


async def test_a_run_that_is_cancelled_is_no_crash(tmp_path):
    """The phase begins again at the next run, and the file counts no death."""
    flow = Flow(tmp_path).build()

    flow.acts["b"] = stay
    await cancelled(await started(flow, until="ab"))
    assert (flow.value()["begun"], flow.value()["current_phase"]) == (0, "b")
    again = Flow(tmp_path).build(b={"idempotent": False})
    assert (await again.flow.run()).status is WorkflowStatus.COMPLETED
    assert again.ran == ["b", "c"]


async def test_a_phase_gets_back_what_it_saved(tmp_path):
    """`checkpoint` survives the end of the run, and is gone when the phase is finished."""
    flow = Flow(tmp_path).build()

    async def half(phase):
        await phase.checkpoint({"next": 17})
        raise PermissionError(13, "no")

    flow.acts["b"] = half
    await flow.flow.run()
    found = []

    async def rest(phase):
        found.append((phase.name, phase.restored))

    again = Flow(tmp_path).build()
    again.acts.update(b=rest, c=rest)
    await again.flow.resume()
    assert found == [("b", {"next": 17}), ("c", None)]


async def test_the_key_of_a_phase_is_the_same_in_every_run(tmp_path):
    """And another for each phase and each workflow."""
    keys = []

    async def note(phase):
        keys.append((phase.name, phase.idempotency_key))
        if len(keys) == 1:
            raise PermissionError(13, "no")

    flow = Flow(tmp_path).build()
    flow.acts.update(a=note, b=note)
    await flow.flow.run()
    await flow.flow.resume()
    assert keys[0] == keys[1]
    assert keys[1][1] != keys[2][1]


async def test_a_file_of_another_workflow_is_untouched(tmp_path):
    """By name, and by phases that this program does not have."""
    await Flow(tmp_path).build().flow.run()
    before = (tmp_path / "state.json").read_bytes()
    with pytest.raises(ConfigError, match=r"Workflow\.name"):
        await Flow(tmp_path, name="other").build().flow.run()
    with pytest.raises(ConfigError, match=r"Workflow\.phases"):
        await Flow(tmp_path, names="ac").build().flow.run()
    assert (tmp_path / "state.json").read_bytes() == before


async def test_phases_can_be_added_to_a_workflow_that_is_not_over(tmp_path):
    """A release of the program with one more phase goes on with it."""
    flow = Flow(tmp_path).build()
    flow.acts["b"] = fails(PermissionError(13, "no"))
    await flow.flow.run()
    longer = Flow(tmp_path, names="abcd").build()
    assert (await longer.flow.resume()).completed == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("field", "declare"),
    [
        ("Workflow.phase.artifacts[0]", lambda flow: flow.phase(artifacts=["../x"])),
        ("Workflow.phase.artifacts[0]", lambda flow: flow.phase(artifacts=["/etc/passwd"])),
        ("Workflow.phase.artifacts[1]", lambda flow: flow.phase(artifacts=["x", 7])),
        ("Workflow.phase.artifacts", lambda flow: flow.phase(artifacts="x")),
        ("Workflow.phase.checks[0]", lambda flow: flow.phase(checks=[7])),
        ("Workflow.phase.required", lambda flow: flow.phase(required=1)),
        ("Workflow.phase.idempotent", lambda flow: flow.phase(idempotent="no")),
        ("Workflow.phase.name", lambda flow: flow.phase(name=" ")),
        ("Workflow.phase.policy", lambda flow: flow.phase(policy=7)),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, field, declare):
    """At the declaration, with the name of the field."""
    flow = Workflow(tmp_path / "state.json", root=tmp_path)
    with pytest.raises(ConfigError) as caught:
        declare(flow)(fails())
    assert caught.value.failure.details["violations"][0]["field"] == field


def test_functions_that_are_no_phase_are_refused(tmp_path):
    """A generator, two arguments, a name twice, no function."""
    flow = Workflow(tmp_path / "state.json", root=tmp_path)

    def generator(phase):
        yield phase

    def two(one, other):
        return one, other

    for wrong in (generator, two, 7, lambda *, phase: phase):
        with pytest.raises(ConfigError):
            flow.phase(wrong)

    def once():
        pass

    flow.phase(once)
    with pytest.raises(ConfigError, match="no other phase"):
        flow.phase(once)


async def test_a_workflow_without_phases_or_beginning_says_so(tmp_path):
    """`run` needs a phase; `resume`, `skip` and `abort` need something that has begun."""
    flow = Workflow(tmp_path / "state.json", root=tmp_path)
    with pytest.raises(ConfigError, match="at least one phase"):
        await flow.run()
    flow.phase(name="a")(fails())
    for verb in (flow.resume, flow.skip, flow.abort):
        with pytest.raises(ConfigError, match="has not begun"):
            await verb()
    assert [path.name for path in tmp_path.iterdir()] == ["state.json.owner"]


async def test_nothing_runs_that_cannot_be_saved(tmp_path, monkeypatch):
    """A state that cannot be saved is a StoreError before the phase begins."""
    flow = Flow(tmp_path).build()

    def refuse(*_, **__):
        raise StoreError(rb.Failure.of("SYS_STORE_UNAVAILABLE", "the disk is full"))

    monkeypatch.setattr("resilient_bridge.stores.state_files.journaled.replace_in_order", refuse)
    with pytest.raises(StoreError):
        await flow.flow.run()
    assert flow.ran == []
    monkeypatch.undo()
    assert (await flow.flow.run()).is_completed


def test_a_workflow_reads_as_a_status_line(tmp_path):
    """Name, file, how many phases."""
    flow = Flow(tmp_path).build().flow
    assert repr(flow) == f"<Workflow flow {tmp_path}/state.json phases=3>"
    assert str(flow.status()) == "flow has not begun (0 of 3 phases finished)"


async def returned_outcome(_):
    """Hand on the outcome of a tool that failed."""
    toolbox = rb.agent.Toolbox(rb.Policy(rb.Retry(attempts=1)))

    @toolbox.tool
    async def broken():
        raise PermissionError(13, "Permission denied")

    return await toolbox.call("broken", {})


@pytest.mark.requirement("S9")
@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize(
    "what",
    [
        returned_outcome,
        lambda _: mcp_types.CallToolResult(content=[], is_error=True),
        lambda _: httpx.Response(403),
    ],
    ids=["an Outcome", "a result of MCP", "a response"],
)
async def test_k01_a_phase_that_returns_a_tools_failure_has_failed(tmp_path, what, required):
    """It is no success: a required phase halts, an optional one is skipped, and nothing says that it was finished."""
    flow = Workflow(tmp_path / "state.json", name="flow", root=tmp_path)

    async def hand_on(phase):
        found = what(phase)
        return await found if asyncio.iscoroutine(found) else found

    flow.phase(hand_on, required=required)
    report = await flow.run()
    assert report.completed == ()
    assert report.status is (WorkflowStatus.HALTED if required else WorkflowStatus.COMPLETED)
    assert report.errors[0]["phase"] == "hand_on"


async def test_k01_a_phase_may_return_any_data(tmp_path):
    """A dict that looks like an error is the phase's own: it has finished, after one call."""
    flow = Workflow(tmp_path / "state.json", name="flow", root=tmp_path)
    made = []

    @flow.phase(idempotent=True)
    def rows():
        made.append(None)
        return {"success": False, "error": "operation timed out"}

    assert (await flow.run()).completed == ("rows",)
    assert made == [None]
