"""The shipped rules on a recorded outage: a simulated one, scraped every 15 s, and judged by Prometheus' own promtool."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from contextlib import AsyncExitStack
from importlib.resources import files

import pytest
from prometheus_client import CollectorRegistry

import resilient_bridge as rb
from resilient_bridge.telemetry import emit
from resilient_bridge.testing import simulate


PROMTOOL = shutil.which("promtool")
SCRAPE = 15
pytestmark = [pytest.mark.campaign, pytest.mark.requirement("R19", "X9")]


def promtool(*arguments):
    """Run it; without it these tests are skipped, or fail where it has to be."""
    if PROMTOOL is None:
        if os.environ.get("RESILIENT_BRIDGE_REQUIRE_SERVERS"):
            pytest.fail("promtool is missing: apt-get install prometheus")
        pytest.skip("promtool is missing: apt-get install prometheus")
    return subprocess.run(
        [PROMTOOL, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


class Recording:
    """A program at work in an outage, and its metrics at every scrape."""

    def __init__(self):
        self.registry = CollectorRegistry()
        self.scrapes: list[dict[str, float]] = []
        self.is_away = False

    async def scrape(self):
        """Read the registry every 15 s, from the first moment on: a counter that begins in the outage would have no rate."""
        while True:
            samples = [sample for family in self.registry.collect() for sample in family.samples]
            self.scrapes.append(
                {series(one): one.value for one in samples if not one.name.endswith("_created")}
            )
            await asyncio.sleep(SCRAPE)

    async def work(self):
        """Call once a second; while the service is away calls fail, and hook events are not what they should be."""

        @rb.Policy(rb.Retry(attempts=1))(idempotent=True, name="search")
        async def search():
            await asyncio.sleep(0.2)
            if self.is_away:
                raise ConnectionResetError(104, "reset")

        while True:
            outcome = await rb.capture(search)
            for _ in range(0 if outcome.failure is None else 2):
                emit(rb.events.HookRejected(failure=rb.Failure.of("HOOK_VALIDATION_FAILED")))
            await asyncio.sleep(0.8)

    async def outage(self, server):
        """Ten quiet minutes, ten in which the bridge goes and then stays away, twenty quiet ones."""
        await server.cut("abort", seconds=1.0)  # a small loss, long ago
        await asyncio.sleep(600)
        self.is_away = True
        for _ in range(3):
            await server.cut("abort", seconds=5.0)
            await asyncio.sleep(45)
        await server.cut("abort", seconds=465.0)
        await asyncio.sleep(465)
        self.is_away = False
        await asyncio.sleep(1_200)

    async def main(self, server):
        """Run it, with sixty clients."""
        with rb.telemetry.prometheus.install(registry=self.registry):
            tasks = [asyncio.create_task(self.scrape()), asyncio.create_task(self.work())]
            async with AsyncExitStack() as clients:
                for _ in range(60):
                    await clients.enter_async_context(rb.BridgeClient(server.url, name="agent"))
                await self.outage(server)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def series(sample):
    """The name and the labels of a sample, as Prometheus writes them."""
    labels = ",".join(f'{name}="{text}"' for name, text in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}}"


def series_of(scrapes):
    """As `promtool test rules` reads them: `_` where there was no sample."""
    names = sorted({name for scrape in scrapes for name in scrape})
    return [
        {
            "series": name,
            "values": " ".join(
                "_" if scrape.get(name) is None else f"{scrape[name]:g}" for scrape in scrapes
            ),
        }
        for name in names
        if "_bucket" not in name
    ]


RULE_NAMES = {
    "error_rate": "ResilientBridgeErrorRate",
    "reconnect_failures": "ResilientBridgeReconnectFailures",
    "session_drops": "ResilientBridgeSessionDrops",
    "hook_failures": "ResilientBridgeHookFailures",
}


def test_promtool_accepts_the_rules():
    """Every expression parses."""
    done = promtool("check", "rules", str(files("resilient_bridge.exporters") / "alert_rules.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 rules found" in done.stdout


@pytest.fixture(scope="module")
def scrapes():
    """Recorded once."""
    recording = Recording()
    simulate(recording.main)
    return recording.scrapes


@pytest.mark.parametrize("rule", RULE_NAMES)
@pytest.mark.parametrize(
    ("minute", "levels"),
    [("9m", ()), ("19m", ("warning", "critical")), ("38m", ())],
    ids=["before", "during", "after"],
)
def test_a_rule_fires_in_the_outage_and_at_no_other_time(scrapes, tmp_path, rule, minute, levels):
    """Silent before it, warning and critical at its end, silent when it is long over."""
    if rule == "session_drops" and minute == "19m":
        minute = "14m"  # connections are lost when the bridge goes, and not while it stays away
    count = {level: (1 if level in levels else 0) for level in ("warning", "critical")}
    test = {
        "rule_files": [str(files("resilient_bridge.exporters") / "alert_rules.yml")],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": f"{SCRAPE}s",
                "input_series": series_of(scrapes),
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{RULE_NAMES[rule]}",severity="{level}",alertstate="firing"}}) or vector(0)',
                        "eval_time": minute,
                        "exp_samples": [{"labels": "{}", "value": number}],
                    }
                    for level, number in count.items()
                ],
            }
        ],
    }
    path = tmp_path / "outage.yml"
    path.write_text(json.dumps(test))  # JSON is YAML
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
