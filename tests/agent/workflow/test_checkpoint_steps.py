"""The steps of a state: each returns another value, and says of every phase what is known of it."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
import pytest

from resilient_bridge.agent import WorkflowStatus
from resilient_bridge.failure import Failure
from tests.internals.agent import PhaseCheckpoint, WorkflowState


AT = datetime(2026, 2, 16, 10, 30, tzinfo=UTC)
FAILURE = Failure.of("SYS_STATE_DAMAGED", "it is broken")


def _fresh():
    return WorkflowState(id="i", workflow="w", started_at=AT)


def test_steps_leave_the_state_as_it_was():
    """Each returns another value."""
    state = _fresh()
    before = state.to_value()
    state.began("a").halted("a", FAILURE)
    state.failed({"phase": "a"}).warned("x").marked_skipped("a", AT, "r").ended(
        WorkflowStatus.ABORTED
    )
    assert state.to_value() == before


def test_starts_counts_how_often_the_same_phase_began():
    """Again and again counts up; another phase, the end and a halt begin with one; what was told to end does not count."""
    once = _fresh().began("a")
    assert [once.starts, once.began("a").starts, once.began("b").starts] == [1, 2, 1]
    assert once.began("a").interrupted().began("a").starts == 2
    assert once.halted("a", FAILURE).began("a").starts == 1
    assert once.interrupted().interrupted().starts == 0


@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    "step",
    [
        lambda state: state.began("a"),
        lambda state: state.halted("a", FAILURE),
        lambda state: state.marked_skipped("a", AT, "broken"),
    ],
)
def test_a_phase_that_had_started_stays_in_doubt_when_another_comes_first(step):
    """Whatever becomes of the other one; and it is no doubt any more once it begins."""
    state = step(_fresh().began("b"))
    assert state.in_doubt == ("b",)
    assert "b" not in state.began("b").in_doubt


def test_one_that_ended_well_or_was_halted_is_in_no_doubt():
    """The next phase takes its place, and that is all."""
    done = _fresh().began("a").finished(PhaseCheckpoint(phase="a", completed_at=AT))
    assert done.began("b").in_doubt == ()
    assert _fresh().began("a").interrupted().began("b").in_doubt == ()


def test_saved_belongs_to_one_phase():
    """It is back when the same one begins again, and gone at its end and for every other."""
    state = attrs.evolve(_fresh().began("a"), saved=17)
    assert (state.began("a").saved, state.halted("a", FAILURE).began("a").saved) == (17, 17)
    assert state.began("b").saved is None
    assert state.finished(PhaseCheckpoint(phase="a", completed_at=AT)).saved is None


def test_errors_and_warnings_are_bounded():
    """The newest 50 errors, the oldest 500 warnings and a word that there were more; the same warning twice is one."""
    state = _fresh()
    for number in range(600):
        state = state.failed({"n": number}).warned(f"w{number}", "same")
    assert [error["n"] for error in state.errors] == list(range(550, 600))
    assert len(state.warnings) == 501
    assert state.warnings[:3] == ("w0", "same", "w1")
    assert "left out" in state.warnings[-1]
    assert state.warned("w0").warnings == state.warnings


def test_check_sums_cannot_be_changed():
    """A state is a value: nobody writes into its parts, not even into the table that was given."""
    sums = {"a": "1"}
    one = PhaseCheckpoint(phase="a", completed_at=AT, artifacts=("a",), checksums=sums)
    sums["a"] = "2"
    assert one.checksums["a"] == "1"
    with pytest.raises(TypeError):
        one.checksums["a"] = "2"
