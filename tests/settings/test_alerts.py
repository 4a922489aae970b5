"""Thresholds of alerts from settings: the arguments of `rb.telemetry.Alerts`, with the same defaults and the same rules."""

from __future__ import annotations

import inspect

import attrs
import pytest

import resilient_bridge as rb
from resilient_bridge import cli
from resilient_bridge.testing import virtual_time
from tests.internals.settings import AlertSettings


pytestmark = pytest.mark.requirement("R19")
FILE = """\
[alerts]
session_drops = [1, 3]
hook_failures = false
window = "5m"
notify = "wake"
"""


def test_the_table_has_the_arguments_of_alerts():
    """Each with its default: nothing is said twice."""
    arguments = inspect.signature(rb.telemetry.Alerts).parameters
    fields = {field.name: field.default for field in attrs.fields(AlertSettings)}
    assert fields == {name: each.default for name, each in arguments.items()}


def test_thresholds_of_a_file_are_in_force(tmp_path):
    """A drop more than the warning's, a rule left out, a function by its name; made once, and kept."""
    path = tmp_path / "a.toml"
    path.write_text(FILE)
    woken = []
    config = rb.load(path, names={"wake": woken.append})
    assert config.alerts is config.alerts
    with virtual_time(), config.alerts as alerts:
        for _ in range(10):
            for event in (
                rb.events.Connected(session_id="s1"),
                rb.events.Disconnected(
                    reason="lost", failure=rb.Failure.of("CONN_RESET"), session_id="s1"
                ),
                rb.events.HookRejected(failure=rb.Failure.of("HOOK_VALIDATION_FAILED")),
            ):
                rb.telemetry.emit(event)
        assert alerts.active() == {"session_drops": "warning"}  # 2 a minute, over five
    assert {failure.code for failure in woken} == {"CONN_RESET"}  # the other is a warning


def test_without_the_table_they_are_those_of_the_specification():
    """`config.alerts` needs no setting; the environment can say one."""
    assert rb.load({}).tables.get("alerts") is None
    assert repr(rb.load({}).alerts) == "<Alerts none>"
    env = {"RESILIENT_BRIDGE_ALERTS__ERROR_RATE": "[0.01, 0.02]"}
    assert rb.load(env=env).tables["alerts"] == AlertSettings(error_rate=(0.01, 0.02))


def test_what_is_dumped_is_loaded_as_equal():
    """The value alone, and the whole document."""
    config = rb.load({"alerts": {"error_rate": [0.1, 0.2], "window": 300, "session_drops": False}})
    value = config.tables["alerts"]
    assert value == AlertSettings(error_rate=(0.1, 0.2), window=300.0, session_drops=None)
    assert rb.settings.dump(value) == {
        "kind": "AlertSettings", "error_rate": [0.1, 0.2], "session_drops": False, "window": 300.0,
    }  # fmt: skip
    assert rb.load(rb.settings.dump(value)) == value
    assert rb.load(rb.settings.dump(config)).tables["alerts"] == value


WRONG = """\
[alerts]
error_rate = [0.2, 0.1]
session_drops = 5
hook_failures = ["a", "b"]
window = "2 minutes"
least_calls = 0
eror_rate = [1, 2]
"""


def test_every_mistake_is_reported_at_once(tmp_path, capsys):
    """By `resilient-bridge check`: each with its path and its line, in the words of the constructor."""
    path = tmp_path / "a.toml"
    path.write_text(WRONG)
    assert cli.main(["check", str(path)]) == 1
    lines = capsys.readouterr().err.replace("\n    ", " ").splitlines()[1:]
    assert [line.split(": ")[0] for line in lines] == [
        f"  - alerts.{name}"
        for name in (
            "error_rate",
            "session_drops",
            "hook_failures",
            "window",
            "least_calls",
            "eror_rate",
        )
    ]
    assert "two numbers, warning and critical, or None, got [0.2, 0.1] (line 2)" in lines[0]
    assert "did you mean error_rate? (line 7)" in lines[5]
    path.write_text(FILE)
    assert cli.main(["check", str(path), "--explain"]) == 0
    assert "alerts.session_drops = [1, 3]" in capsys.readouterr().out
