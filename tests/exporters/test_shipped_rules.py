"""The rules and the dashboard that come with the package: they name only metrics that there are, and the thresholds of `rb.telemetry.Alerts`."""

from __future__ import annotations

import inspect
import json
import re
from importlib.resources import files

import pytest

import resilient_bridge as rb
from tests.internals.telemetry import INSTRUMENTS
from tests.rows import each_row


SHIPPED = files("resilient_bridge.exporters")
RULES = (SHIPPED / "alert_rules.yml").read_text()
DASHBOARD = json.loads((SHIPPED / "grafana_dashboard.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
SERIES = {one.scraped_name for one in INSTRUMENTS} | {
    f"{one.scraped_name}{end}"
    for one in INSTRUMENTS
    if one.sort == "histogram"
    for end in ("_bucket", "_sum", "_count")
}
LABELS = {one.scraped_name: set(one.labels) for one in INSTRUMENTS}


@pytest.mark.requirement("R19", "X9")
@each_row("text", [RULES, *QUERIES])
def test_every_query_names_metrics_and_labels_that_there_are(text):
    """A renamed metric would leave a rule that never fires."""
    named = set(re.findall(r"resilient_bridge_\w+", text))
    assert named <= SERIES
    for name, chosen in re.findall(r"(resilient_bridge_\w+)\{([^}]+)\}", text):
        assert set(re.findall(r"(\w+)\s*[=!]", chosen)) <= LABELS[name]


@pytest.mark.requirement("R19")
def test_the_thresholds_are_those_of_the_process():
    """Each rule of `rb.telemetry.Alerts()`, warning and critical, strictly above."""
    found: dict[str, dict[str, float]] = {}
    for part in RULES.split("- alert: ")[1:]:
        number = re.search(r"> ([\d.]+)\n", part)
        level = re.search(r"severity: (\w+), rule: (\w+)", part)
        if level:
            found.setdefault(level[2], {})[level[1]] = float(number[1])
    parameters = inspect.signature(rb.telemetry.Alerts).parameters
    names = ("error_rate", "reconnect_failures", "session_drops", "hook_failures")
    assert found == {
        name: dict(zip(("warning", "critical"), parameters[name].default, strict=True))
        for name in names
    }


def test_the_dashboard_asks_for_a_data_source_and_leaves_no_metric_out():
    """Every panel takes the one that its reader chose; each metric is on it."""
    text = json.dumps(DASHBOARD)
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} == {"${datasource}"}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    unseen = {one.name for one in INSTRUMENTS if one.prometheus_name not in text}
    assert unseen == {
        "resilient_bridge.alerts",
        "resilient_bridge.call.attempts",
        "resilient_bridge.circuit.transitions",
        "resilient_bridge.hedges",
        "resilient_bridge.rejections",
        "resilient_bridge.shared",
    }
