"""A server that is away for long, or for ever; a call that is cancelled while it waits; and what a hundred thousand calls leave in memory."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import pytest

from bench._processes import resident
from bench.mcp_features.feature_rows import COMMAND
from resilient_bridge.testing import Trap
from tests.adapters.sidecar import servers
from tests.adapters.sidecar.standing_in import (
    behind,
    client_of,
    health_of,
    is_refused,
    kill_server,
    listening,
    outcome_of,
    records,
    text_of,
    until,
)


pytestmark = [pytest.mark.real, pytest.mark.server, pytest.mark.requirement("X5")]


@pytest.mark.parametrize("away", [7, pytest.param(20, marks=pytest.mark.campaign)])
def test_progress_keeps_a_client_patient_while_the_server_is_away(away, tmp_path):
    """A client gives up after ten seconds of silence: it hears something before, the numbers grow, and the call is made once."""
    trap = Trap(tmp_path / "effects.jsonl", plan=["answered"])
    heard: list[float] = []
    with trap.http(away=away) as url, behind(url) as client:
        client.call("order", {"marker": "a", "item": ""})
        until(lambda: is_refused(url))
        heard.append(time.monotonic())
        params = {
            "name": "order",
            "arguments": {"marker": "b", "item": ""},
            "_meta": {"progressToken": "t"},
        }
        call = client.begin("tools/call", params)
        count = 0
        while not call.done():
            if len(client.notified("notifications/progress")) > count:
                count += 1
                heard.append(time.monotonic())
            time.sleep(0.05)
        heard.append(time.monotonic())
        assert outcome_of(call.result(1)) == "answered"
        steps = [one["progress"] for one in client.notified("notifications/progress")]
        assert steps == sorted(set(steps))
        assert len(steps) >= away // 7
        assert max(later - earlier for earlier, later in pairwise(heard)) < 10
    assert trap.ran("b") == 1


def test_a_server_that_stays_away_is_reported_in_time(tmp_path):
    """Not executed when the patience is over, and not before; the events and the status say why."""
    events = tmp_path / "events.jsonl"
    trap = Trap(tmp_path / "effects.jsonl", plan=["answered"])
    options = ("--patience", "2", "--events", str(events), "--status-tool")
    with trap.http(away=600) as url, behind(url, *options) as client:
        client.call("order", {"marker": "a", "item": ""})
        until(lambda: is_refused(url))
        begin = time.monotonic()
        answer = client.call("order", {"marker": "b", "item": ""})
        assert outcome_of(answer) == "not_executed"
        assert 1.5 < time.monotonic() - begin < 4
        assert "safe to call it again" in text_of(answer)
        status = json.loads(text_of(client.call("resilient_bridge_status")))
        assert status["status"] == "down"
        assert status["outcomes"]["not_executed"] == 1
    ended = [
        one["outcome"]
        for one in records(events, "call_finished")
        if one["method"] == "tools/call" and one["name"] == "order"
    ]
    assert ended == ["answered", "not_executed"]
    assert trap.ran("b") == 0


def test_the_health_of_a_server_that_stays_away_is_down(tmp_path):
    """`/health` says down, with status 503, from the first refusal on, and at every attempt to reach it."""
    trap = Trap(tmp_path / "effects.jsonl", plan=["answered"])
    with (
        trap.http(away=600) as url,
        listening(url, "--patience", "3") as sidecar,
        client_of(sidecar.url) as client,
    ):
        assert health_of(sidecar.url) == (200, {"status": "ok"})
        client.call("order", {"marker": "a", "item": ""})
        until(lambda: is_refused(url))
        call = client.begin(
            "tools/call", {"name": "order", "arguments": {"marker": "b", "item": ""}}
        )
        until(lambda: health_of(sidecar.url)[0] == 503, 3, "down")
        while not call.done():
            assert health_of(sidecar.url) == (503, {"status": "down"})
            time.sleep(0.02)
        assert outcome_of(call.result(1)) == "not_executed"
        assert health_of(sidecar.url) == (503, {"status": "down"})
    assert trap.ran("b") == 0


def test_a_call_that_is_cancelled_while_it_waits_is_never_sent(tmp_path):
    """It has no answer, and the server never hears of it when it is back."""
    trap = Trap(tmp_path / "effects.jsonl", plan=["answered"])
    events = tmp_path / "events.jsonl"
    with trap.http(away=6) as url, behind(url, "--events", str(events), "--status-tool") as client:

        def is_quiet():
            status = json.loads(text_of(client.call("resilient_bridge_status")))
            return status["waiting"] and status.get("next_start_in", 0) > 1

        client.call("order", {"marker": "a", "item": ""})
        until(lambda: is_refused(url))
        call = client.begin(
            "tools/call", {"name": "order", "arguments": {"marker": "b", "item": ""}}, "b"
        )
        # While it is tried it is under way, and may have run for all that anybody knows; the tries are a second and more apart by and by.
        until(is_quiet, what="a pause between two tries")
        client.notify("notifications/cancelled", {"requestId": "b"})
        assert outcome_of(client.call("order", {"marker": "c", "item": ""})) == "answered"
        assert not call.done()
    assert [trap.ran(marker) for marker in "abc"] == [1, 0, 1]
    (cancelled,) = [
        one for one in records(events, "call_finished") if one["outcome"] == "cancelled"
    ]
    assert cancelled["was_sent"] is False


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_ten_thousand_calls_and_two_hundred_restarts_leave_memory_flat():
    """What the sidecar has after the first thousand calls and twenty restarts is what it has at the end, but for a twentieth."""
    with behind(COMMAND, "--circuit", "1000/1") as client:
        sidecar = client.process.pid

        def work(calls, kills):
            for number in range(calls):
                if number % (calls // kills) == 0:
                    kill_server(sidecar)
                outcome_of(client.call("echo", {"marker": "m"}))
            client.texts.clear()

        work(1_000, 20)
        before = resident(sidecar)
        work(9_000, 180)
        assert resident(sidecar) < before * 1.05


@pytest.mark.campaign
@pytest.mark.timeout(900)
@servers.needs("node")
def test_a_hundred_thousand_calls_leave_memory_flat():
    """Of the everything server, one after the other: what the sidecar has after the first ten thousand is what it has at the end, but for a twentieth."""
    sizes = []
    with behind(servers.everything()) as client:
        for _ in range(10):
            for number in range(10_000):
                answer = client.call("echo", {"message": f"m-{number}"})
                assert text_of(answer) == f"Echo: m-{number}"
            client.texts.clear()
            sizes.append(resident(client.process.pid))
    assert max(sizes) < sizes[0] * 1.05
