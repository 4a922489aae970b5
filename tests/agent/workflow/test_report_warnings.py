"""What the report says of what was overcome: deaths, phases done again, repeats. Nothing of it is only in the log."""

from __future__ import annotations

import logging

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import WorkflowStatus
from resilient_bridge.failure import Failure, Kind, classify, error_for
from tests.agent.workflow.flows import Flow, cancelled, damage, died_in, fails, started, stay
from tests.internals.telemetry import name_in_words


RESET = ConnectionResetError(104, "connection reset")
CORRUPT = error_for(
    Failure.of("SYS_UPSTREAM_REJECTED", "schema validation failed", kind=Kind.CORRUPTION)
)
DIED = "phase b began again: the process had ended inside of it"


# ---- deaths -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C10")
async def test_a_death_inside_of_a_phase_is_reported(tmp_path):
    """In the warnings and for a person, once however often it died there; by the next process that looks, too."""
    await Flow(tmp_path).build().flow.run()
    died_in(tmp_path, "b", starts=2)
    report = await Flow(tmp_path).build().flow.run()
    assert report.warnings == (DIED,)
    assert report.explain().count(f"\nwarning: {DIED}\n") == 1
    assert Flow(tmp_path).build().flow.status().warnings == (DIED,)


async def test_a_death_is_reported_also_where_another_phase_comes_first(tmp_path):
    """Meanwhile the artifact of a is gone: a runs again before b, and the death in b is not forgotten over it."""
    await Flow(tmp_path).build().flow.run()
    died_in(tmp_path, "b")
    (tmp_path / "a.txt").unlink()
    flow = Flow(tmp_path).build()
    report = await flow.flow.run()
    assert flow.ran == ["a", "b", "c"]
    assert report.warnings == (
        DIED,
        "phase a was finished, but a.txt is missing: it ran again",
    )


@pytest.mark.requirement("C10")
@pytest.mark.parametrize(
    ("options", "starts", "warning"),
    [
        ({}, 3, "the process ended 3 times inside of phase b"),
        ({"idempotent": False}, 1, "phase b may have run: the process ended inside of it"),
    ],
)
async def test_a_death_after_which_a_person_is_asked_is_reported_when_it_is_over(
    tmp_path, options, starts, warning
):
    """At the halt it is the failure, which is not said twice; the report at the end still has it, when the failure is gone."""
    await Flow(tmp_path).build(b=options).flow.run()
    died_in(tmp_path, "b", starts=starts)
    flow = Flow(tmp_path).build(b=options)
    report = await flow.flow.run()
    assert (report.status, report.failure.message) == (WorkflowStatus.HALTED, warning)
    assert (report.warnings, report.explain().count("\nwarning: ")) == ((warning,), 0)
    report = await flow.flow.resume()
    assert (report.status, report.warnings) == (WorkflowStatus.COMPLETED, (warning,))
    assert f"\nwarning: {warning}\n" in report.explain()


async def test_an_optional_phase_that_is_skipped_for_it_says_it_once(tmp_path):
    """The reason of the skip has it."""
    options = {"b": {"idempotent": False, "required": False}}
    await Flow(tmp_path).build(**options).flow.run()
    died_in(tmp_path, "b")
    report = await Flow(tmp_path).build(**options).flow.run()
    assert report.is_completed
    assert report.explain().count("phase b may have run") == 1


@pytest.mark.parametrize("how", ["cancelled", "exit"])
async def test_an_orderly_end_is_no_death(tmp_path, how):
    """Ctrl-C, or sys.exit in a phase: it begins again, and there is nothing to warn of."""
    flow = Flow(tmp_path).build()
    if how == "cancelled":
        flow.acts["b"] = stay
        await cancelled(await started(flow, until="ab"))
    else:
        flow.acts["b"] = fails(SystemExit())
        with pytest.raises(SystemExit):
            await flow.flow.run()
    again = Flow(tmp_path).build()
    report = await again.flow.run()
    assert (again.ran, report.warnings) == (["b", "c"], ())


@pytest.mark.requirement("C5")
async def test_a_damaged_state_is_reported_until_it_is_written_anew(tmp_path):
    """It halted, and nothing is saved by a run that only says so: the next one says the same, and so does who looks."""
    flow = Flow(tmp_path).build()
    flow.acts["b"] = fails(PermissionError(13, "no"))
    await flow.flow.run()
    damage(tmp_path / "state.json")
    (warning,) = (await flow.flow.run()).warnings
    assert warning == "the state was damaged; lost: nothing"
    assert flow.flow.status().warnings == (await flow.flow.run()).warnings == (warning,)
    assert (await flow.flow.resume()).warnings == (warning,)
    assert flow.flow.status().warnings == (warning,)


# ---- done again ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C6")
async def test_a_phase_that_was_done_again_is_reported(tmp_path, heard):
    """Its artifact was missing at its end: the report, an event and the log have the failure."""
    flow = Flow(tmp_path).build(b={"artifacts": ["made-later.txt"]})

    async def make(_):
        if flow.ran.count("b") == 2:
            (tmp_path / "made-later.txt").write_text("x")

    flow.acts["b"] = make
    report = await flow.flow.run()
    text = "phase b ended, but made-later.txt is missing"
    assert report.warnings == (f"phase b was done again: {text}",)
    assert f"\nwarning: phase b was done again: {text}\n" in report.explain()
    (undone,) = [event for event in heard if name_in_words(event) == "phase undone"]
    assert (undone.phase, undone.failure.message, undone.failure.kind) == ("b", text, Kind.PARTIAL)


@pytest.mark.requirement("C5")
async def test_a_phase_that_found_corruption_is_reported_by_the_log(tmp_path, caplog):
    """Without a listener: a line with its failure stands between the two beginnings."""
    caplog.set_level(logging.INFO, logger="resilient_bridge")
    flow = Flow(tmp_path, names="a").build()
    flow.acts["a"] = fails(CORRUPT)
    report = await flow.flow.run()
    assert report.warnings == ("phase a was done again: schema validation failed",)
    lines = [line.partition("phase a ")[2] for line in caplog.messages if "phase a " in line]
    assert lines[:3] == [
        "began (1 of 1)",
        f"will run again: {classify(CORRUPT)}",
        "began (1 of 1)",
    ]


async def test_the_second_time_it_halts_and_the_first_is_still_reported(tmp_path):
    """The failure is that of the second time."""
    flow = Flow(tmp_path).build()
    flow.acts["b"] = fails(CORRUPT, error_for(Failure.of("SYS_STATE_DAMAGED", "still broken")))
    report = await flow.flow.run()
    assert (report.status, report.failure.message) == (WorkflowStatus.HALTED, "still broken")
    assert report.warnings == ("phase b was done again: schema validation failed",)


# ---- repeats ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C2")
@pytest.mark.parametrize(("times", "warning"), [(0, ()), (1, ("1 retry",)), (3, ("3 retries",))])
async def test_a_phase_that_recovered_after_repeats_is_reported(tmp_path, times, warning):
    """With their number; one that did not need any is not mentioned."""
    flow = Flow(tmp_path).build()
    flow.acts["b"] = fails(*[RESET] * times)
    with rb.testing.virtual_time():
        report = await flow.flow.run()
    assert report.warnings == tuple(f"phase b recovered after {number}" for number in warning)


async def test_a_sync_phase_is_counted_too(tmp_path):
    """It runs in a thread, and its repeats are those of its policy as well."""
    flow, remaining = Flow(tmp_path, names=""), [RESET]

    @flow.flow.phase(idempotent=True)
    def plain():
        if remaining:
            raise remaining.pop()

    with rb.testing.virtual_time():
        report = await flow.flow.run()
    assert report.warnings == ("phase plain recovered after 1 retry",)


async def test_a_phase_that_recovered_and_produced_nothing_is_reported_both(tmp_path):
    """The repeats helped, and what it made was not there all the same."""
    flow = Flow(tmp_path, names="a").build(a={"checks": [iter([False, True]).__next__]})
    flow.acts["a"] = fails(RESET)
    with rb.testing.virtual_time():
        report = await flow.flow.run()
    assert report.is_completed
    assert report.warnings[0] == "phase a recovered after 1 retry"
    assert report.warnings[1].startswith("phase a was done again: phase a ended, but its check ")


@pytest.mark.requirement("C9")
@pytest.mark.parametrize("required", [True, False])
async def test_a_tool_that_recovered_after_repeats_is_reported(tmp_path, required):
    """By name, with their number, once for the same; and it is on disk before the phase goes on, so that a crash does not hide it."""
    box, remaining, on_disk = rb.agent.Toolbox(rb.presets.ccsetup), [RESET, RESET], []
    flow = Flow(tmp_path, names="a", tools=box).build()

    @box.tool(idempotent=True, required=required)
    async def fetch() -> None:
        if remaining:
            raise remaining.pop()

    async def calls(phase):
        await phase.call("fetch")
        on_disk.extend(flow.value()["warnings"])
        remaining.extend([RESET, RESET])
        await phase.call("fetch")
        await phase.call("fetch")

    flow.acts["a"] = calls
    with rb.testing.virtual_time():
        report = await flow.flow.run()
    assert report.warnings == tuple(on_disk) == ("a: tool fetch recovered after 2 retries",)
