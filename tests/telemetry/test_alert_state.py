"""When an alert is raised and cleared, to the second."""

from __future__ import annotations

from tests.internals.telemetry import AlertState


def test_an_alert_is_cleared_after_exactly_one_window_below_its_threshold():
    """Raised by the first value above it; a value that only reaches the threshold raises nothing."""
    state = AlertState(1, 5, window=60, is_share=False)
    state.add(0.0, bad=1)
    assert state.look(0.0) is None
    state.add(0.5, bad=1)
    raised = state.look(0.5)
    assert raised is not None
    assert (raised.before, raised.after, raised.value, raised.threshold) == ("", "warning", 2, 1)
    assert state.look(59.75) is None
    assert state.look(60.0) is None  # the window has let go of both: below from here on
    assert state.look(119.75) is None
    cleared = state.look(120.0)
    assert cleared is not None
    assert (cleared.before, cleared.after, state.level) == ("warning", "", "")
