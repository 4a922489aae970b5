"""The wrapper around a tool call in a phase (C9): required or optional, repeated by its own policy, with a key of its own."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Workflow, WorkflowStatus
from resilient_bridge.failure import ConfigError


class Tools:
    """A toolbox of one tool, `act`, which fails as `failures` say; `keys` are those that it saw."""

    def __init__(self, *failures, required=True):
        self.failures = list(failures)
        self.keys = []
        self.box = rb.agent.Toolbox(rb.presets.ccsetup)

        @self.box.tool(idempotent=True, required=required)
        async def act(what: str, api_key: str = "") -> str:
            self.keys.append(rb.current_attempt().idempotency_key)
            if self.failures:
                raise self.failures.pop(0)
            return f"{what} done"


@pytest.fixture
def flow(tmp_path):
    """Makes a workflow around tools, with one phase that uses them."""

    def made(tools, body):
        found = Workflow(tmp_path / "state.json", root=tmp_path, tools=tools)
        found.phase(name="only")(body)
        return found

    return made


@pytest.mark.requirement("C9")
async def test_a_tool_call_returns_its_result(flow):
    """Arguments as a mapping or as the text a model wrote."""
    tools, results = Tools(), []

    async def body(phase):
        results.append(await phase.call("act", {"what": "a"}))
        results.append(await phase.call("act", '{"what": "b"}'))

    assert (await flow(tools.box, body).run()).is_completed
    assert results == ["a done", "b done"]


@pytest.mark.requirement("C9")
async def test_an_optional_tool_that_fails_is_skipped_with_a_warning(flow):
    """The phase goes on with None, and the end says what was skipped."""
    tools, results = Tools(PermissionError(13, "Permission denied"), required=False), []

    async def body(phase):
        results.append(await phase.call("act", {"what": "a"}))

    report = await flow(tools.box, body).run()
    assert (report.status, results) == (WorkflowStatus.COMPLETED, [None])
    (warning,) = report.warnings
    assert warning.startswith("only: skipped optional tool act: ")


@pytest.mark.requirement("C2")
async def test_repeats_are_those_of_the_tool_and_not_of_the_phase_too(flow):
    """4 calls, 2, 4 and 8 s apart, and then it is permanent for the phase: not 16."""
    tools, runs = Tools(*[ConnectionResetError(104, "reset")] * 99), []

    async def body(phase):
        runs.append(phase.run)
        await phase.call("act", {"what": "a"})

    with rb.testing.virtual_time() as time:
        report = await flow(tools.box, body).run()
    assert (report.status, len(tools.keys), time.slept, runs) == (
        WorkflowStatus.HALTED,
        4,
        [2, 4, 8],
        [1],
    )
    assert report.failure.kind is rb.Kind.PERMANENT
    assert "ConnectionResetError" in report.explain()


async def test_a_call_that_may_have_run_is_not_repeated_by_the_phase_either(flow):
    """The tool may not be repeated, so the phase, which may, is not repeated for it."""
    calls, box = [], rb.agent.Toolbox(rb.presets.ccsetup)

    @box.tool
    async def pay(amount: int) -> None:
        calls.append(amount)
        raise ConnectionResetError(104, "reset")  # after it was sent: it may have run

    async def body(phase):
        await phase.call("pay", {"amount": 5})

    with rb.testing.virtual_time():
        report = await flow(box, body).run()
    assert (report.status, calls) == (WorkflowStatus.HALTED, [5])
    assert report.failure.kind is rb.Kind.PERMANENT


async def test_a_tool_that_recovers_lets_the_phase_go_on(flow):
    """The phase does not begin again for it."""
    tools, runs = Tools(ConnectionResetError(104, "reset")), []

    async def body(phase):
        runs.append(await phase.call("act", {"what": "a"}))

    with rb.testing.virtual_time():
        assert (await flow(tools.box, body).run()).is_completed
    assert (len(tools.keys), runs) == (2, ["a done"])


@pytest.mark.requirement("V9")
async def test_the_nth_call_has_the_same_key_in_every_run(flow):
    """Also in the attempts of one call; two calls differ."""
    tools = Tools()

    async def body(phase):
        await phase.call("act", {"what": "a"})
        await phase.call("act", {"what": "b"})
        if len(tools.keys) == 2:
            raise PermissionError(13, "no")

    made = flow(tools.box, body)
    assert (await made.run()).status is WorkflowStatus.HALTED
    assert (await made.resume()).is_completed
    assert tools.keys[:2] == tools.keys[2:]
    assert tools.keys[0] != tools.keys[1]


@pytest.mark.requirement("C3")
async def test_the_failure_of_a_tool_is_recorded_with_masked_arguments(flow, tmp_path):
    """Tool, arguments without secrets, phase: in the report and in the file."""
    tools = Tools(PermissionError(13, "Permission denied"))

    async def body(phase):
        await phase.call("act", {"what": "a", "api_key": "sk-very-secret-1234"})

    report = await flow(tools.box, body).run()
    (error,) = report.errors
    assert (error["tool"], error["phase"]) == ("act", "only")
    assert error["arguments"]["what"] == "a"
    assert "very-secret" not in str(report.to_dict()) + (tmp_path / "state.json").read_text()


@pytest.mark.requirement("C4")
async def test_the_report_of_a_missing_file_suggests_what_is_there(flow, tmp_path):
    """A near miss that exists is the first fix."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/app.json").write_text("{}")

    async def body(phase):
        (phase.root / "config/ap.json").read_text()

    report = await flow(None, body).run()
    assert "config/app.json" in report.failure.suggestions[0]


async def test_a_phase_without_tools_says_so(flow):
    """A mistake of the program, named."""

    async def body(phase):
        with pytest.raises(ConfigError, match=r"Workflow\.tools"):
            await phase.call("act", {})

    assert (await flow(None, body).run()).is_completed


async def test_a_tool_that_is_not_there_fails_the_phase(flow):
    """With the names that are."""

    async def body(phase):
        await phase.call("actt", {"what": "a"})

    report = await flow(Tools().box, body).run()
    assert (report.status, report.failure.code) == (WorkflowStatus.HALTED, "TOOL_NOT_FOUND")
    assert "act" in report.failure.suggestions[0]


async def test_a_handled_failure_of_a_tool_is_the_phases_business(flow):
    """What it catches does not halt it."""
    tools = Tools(PermissionError(13, "no"))

    async def body(phase):
        try:
            await phase.call("act", {"what": "a"})
        except rb.BridgeError as error:
            await phase.warn(f"went on without it: {error.failure.message}")

    report = await flow(tools.box, body).run()
    assert report.is_completed
    assert report.warnings[0].startswith("only: went on without it")


async def test_an_optional_tool_that_may_have_run_and_failed_is_not_called_again(flow):
    """Its end is recorded: the phase gets None, also when it runs again after a crash."""
    got, called, box = [], [], rb.agent.Toolbox()

    @box.tool(required=False)
    def ping() -> None:
        called.append(1)
        raise PermissionError(13, "Permission denied")

    async def body(phase):
        got.append(await phase.call("ping"))
        if len(got) == 1:
            raise SystemExit

    made = flow(box, body)
    with pytest.raises(SystemExit):
        await made.run()
    assert (await made.run()).is_completed
    assert (got, called) == ([None, None], [1])
