"""What is recorded of a failure (C3): tool, arguments, class, and where in the code; of a tool that was skipped as of one that halts."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Workflow
from resilient_bridge.failure import Failure, error_for
from tests.agent.workflow.flows import Flow


SECRET = "s3cret-argument"


def _deep(depth):
    if depth:
        return _deep(depth - 1)
    hidden = SECRET
    raise PermissionError(13, "Permission denied", hidden)


def _flow(root, **passed):
    """A workflow of one phase, which calls a tool that fails `depth` calls below itself."""
    box = rb.agent.Toolbox(rb.presets.ccsetup)
    flow = Flow(root, names="a", tools=box).build()
    depth = passed.pop("depth", 2)

    @box.tool(**passed)
    async def fetch(path: str, password: str) -> None:
        _deep(depth)

    async def calls(phase):
        await phase.call("fetch", {"path": "/x", "password": SECRET})

    flow.acts["a"] = calls
    return flow, box


def _names(error):
    return [frame.rpartition(" in ")[2] for frame in error["trace"]]


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("required", [True, False])
async def test_a_tool_that_failed_is_recorded_as_what_it_raised_and_where(tmp_path, required):
    """Its own class, the call in the phase, then its own frames; skipped or not, in the report and in the file."""
    flow, _ = _flow(tmp_path, required=required)
    report = await flow.flow.run()
    assert report.is_completed is not required
    (error,) = report.to_dict()["errors"]
    assert error == flow.value()["errors"][0]
    assert (error["phase"], error["run"], error["tool"]) == ("a", 1, "fetch")
    assert error["arguments"] == {"path": "/x", "password": "[redacted]"}
    assert (error["error"], error["failure"]["code"]) == (
        "PermissionError",
        "TOOL_EXECUTION_FAILED",
    )
    names = [name for name in _names(error) if name not in {"run", "call"}]
    assert names == ["calls", "fetch", "_deep", "_deep", "_deep"]
    assert SECRET not in "".join(error["trace"])


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("required", [True, False])
async def test_a_deep_tool_does_not_hide_where_it_was_called(tmp_path, required):
    """Twelve frames at most: the phase that called it, and the innermost of the tool."""
    flow, _ = _flow(tmp_path, required=required, depth=50)
    (error,) = (await flow.flow.run()).errors
    names = _names(error)
    assert (len(names), names[-1]) == (12, "_deep")
    assert "calls" in names


async def test_a_sync_tool_in_its_thread_is_recorded_too(tmp_path):
    """Its frames come out of the thread."""
    box = rb.agent.Toolbox(rb.presets.ccsetup)
    flow = Flow(tmp_path, names="a", tools=box).build()

    @box.tool
    def plain() -> None:
        _deep(0)

    async def calls(phase):
        await phase.call("plain")

    flow.acts["a"] = calls
    (error,) = (await flow.flow.run()).errors
    assert error["error"] == "PermissionError"
    assert _names(error)[-2:] == ["plain", "_deep"]


async def test_a_command_that_failed_is_recorded_with_the_call(tmp_path):
    """Nothing of it is Python of the user: the trace is that of the phase."""
    box = rb.agent.Toolbox(rb.presets.ccsetup)
    flow = Flow(tmp_path, names="a", tools=box).build()

    @box.command
    def broken() -> list[str]:
        return [sys.executable, "-c", "raise SystemExit(3)"]

    async def calls(phase):
        await phase.call("broken")

    flow.acts["a"] = calls
    (error,) = (await flow.flow.run()).errors
    assert (error["tool"], error["error"]) == ("broken", "CalledProcessError")
    assert "calls" in _names(error)


async def test_several_that_are_skipped_at_once_are_each_recorded(tmp_path):
    """Calls side by side, each in a task of its own: none takes another's place, and where each stands is told without the loop."""
    flow, _ = _flow(tmp_path, required=False)

    async def one(phase, number):
        assert await phase.call("fetch", {"path": f"/{number}", "password": SECRET}) is None

    async def several(phase):
        await asyncio.gather(*(one(phase, number) for number in range(3)))

    flow.acts["a"] = several
    report = await flow.flow.run()
    assert report.is_completed
    assert sorted(error["arguments"]["path"] for error in report.errors) == ["/0", "/1", "/2"]
    assert {_names(error)[0] for error in report.errors} == {"one"}
    assert len(report.warnings) == 1


async def test_arguments_that_do_not_fit_are_recorded_of_an_optional_tool(tmp_path):
    """Nothing was called, so there is no error of its own: the code says what it was."""
    flow, _ = _flow(tmp_path, required=False)

    async def calls(phase):
        assert await phase.call("fetch", '{"password": "s3cret-argument"}') is None

    flow.acts["a"] = calls
    (error,) = (await flow.flow.run()).errors
    assert (error["tool"], error["failure"]["code"]) == ("fetch", "TOOL_ARGUMENTS_INVALID")
    assert "calls" in _names(error)
    assert SECRET not in json.dumps(error)


async def test_what_a_phase_raises_by_itself_is_recorded_as_it_was(tmp_path):
    """Its class and frames; where it is ours with a cause, those of the cause."""
    flow = Flow(tmp_path, names="ab").build(a={"required": False})

    async def plain(_):
        _deep(1)

    async def wrapped(_):
        try:
            _deep(0)
        except PermissionError as error:
            raise error_for(Failure.of("SYS_INTERNAL_ERROR", "wrapped", cause=error)) from error

    flow.acts.update(a=plain, b=wrapped)
    first, second = (await flow.flow.run()).errors
    assert (first["tool"], first["error"], second["error"]) == (
        None,
        "PermissionError",
        "PermissionError",
    )
    assert _names(first)[-3:] == ["plain", "_deep", "_deep"]
    assert _names(second)[-1] == "_deep"
    assert "wrapped" in _names(second)


@pytest.mark.parametrize("whose", ["the phase's", "a tool's", "an optional tool's"])
async def test_k13_no_record_says_permanent_and_retryable(tmp_path, whose):
    """When a policy's attempts are used up, the record of the failure says permanent, and not retryable."""
    policy = rb.Policy(rb.Retry(attempts=2, backoff=rb.Backoff.constant(0), budget=None))
    toolbox = rb.agent.Toolbox(policy)

    @toolbox.tool(idempotent=True, required=whose == "a tool's")
    async def late():
        raise TimeoutError

    flow = Workflow(
        tmp_path / "state.json", name="flow", root=tmp_path, policy=policy, tools=toolbox
    )

    @flow.phase(idempotent=True)
    async def work(phase):
        if whose == "the phase's":
            raise TimeoutError
        await phase.call("late")

    report = await flow.run()
    for failure in (
        *(one["failure"] for one in report.errors),
        *([report.failure.to_dict()] if report.failure else []),
    ):
        assert (failure["kind"], failure["retryable"]) == ("permanent", False)
    assert report.errors
