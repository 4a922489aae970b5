"""What a report says of adaptive limits, calls in doubt, hedged calls and shared answers: against what the far end saw."""

from __future__ import annotations

import asyncio
import json
import re

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.report import Incident, as_data, as_text, page
from tests.internals.report import headline
from tests.report.made_logs import BEGIN, RESET, line
from tests.report.reading_pages import Page


BUSY = {"code": "SYS_RATE_LIMITED", "message": "rate limited"}
KEY = "https://host d1 GET /v1/*"


def incident_of(lines) -> Incident:
    """The facts of these lines."""
    incident = Incident()
    incident.source("session.jsonl")
    for one in lines:
        incident.take(one)
    incident.finish()
    return incident


def limit(at, state, key=KEY, **fields):
    """A change of a limit."""
    failure = None if state in {"recovered", "forgotten"} else BUSY
    fields = {"at_once": 8.0, "per_second": None, "waiting": 0, **fields, "failure": failure}
    return line(BEGIN + at, "LimitChanged", key=key, owner="https://host", state=state, **fields)


def held(at, name="pay", began=BEGIN + 1, first="unknown"):
    """A call that was not made."""
    failure = {"code": "SYS_EFFECT_HELD", "message": "OUTCOME UNKNOWN"}
    seconds = BEGIN + at - began
    return line(BEGIN + at, "EffectHeld", name=name, first=first, seconds=seconds, failure=failure)


def resolved(at, how, name="pay", began=BEGIN + 1):
    """The end of a doubt."""
    return line(BEGIN + at, "EffectResolved", name=name, how=how, began=began)


class Server:
    """Takes three calls at once, of 2 s each, and none while it is down; it counts what it refused."""

    def __init__(self):
        self.running = self.refused = 0
        self.is_down = False

    async def answer(self, _request):
        if self.running >= 3 or self.is_down:
            self.refused += 1
            return httpx.Response(429)
        self.running += 1
        await asyncio.sleep(2)
        self.running -= 1
        return httpx.Response(200)


@pytest.mark.requirement("X10")
@pytest.mark.requirement("X14")
def test_the_log_of_real_calls_gives_what_their_server_saw(tmp_path):
    """Twelve agents, then four while it is down for 40 s: refusals, waits, who got no answer, and that it is over."""
    path, server, waits, lost = tmp_path / "session.jsonl", Server(), [], []

    async def main(_world):
        loop = asyncio.get_running_loop()
        transport = rb.HTTPTransport(inner=httpx.MockTransport(server.answer))
        async with httpx.AsyncClient(transport=transport) as client:

            async def ask(most):
                for _ in range(most):
                    began = loop.time()
                    outcome = await rb.capture(client.get, "https://host/v1/models")
                    good = outcome.ok and outcome.value.status_code == 200
                    (waits if good else lost).append(loop.time() - began - 2)

            await asyncio.gather(*(ask(3) for _ in range(12)))
            server.is_down = True
            loop.call_later(40, setattr, server, "is_down", False)
            await asyncio.gather(*(ask(1) for _ in range(4)))
            await asyncio.sleep(601)
            await ask(1)

    with rb.stores.SessionLog(path):
        rb.testing.simulate(main, seed=5)
    incident = incident_of(path.read_bytes().splitlines())
    (found,) = incident.limits.by_key.values()
    assert found.refused == server.refused > 10
    assert found.longest_wait + 1 > max(waits + lost) > 30
    assert found.rejected == len(lost) - 1 == 2  # one of those got the last refusal itself
    assert (found.times, found.exhausted, found.lane.state) == (1, 1, "not limited")
    assert found.lowest < 3
    assert {span.state for span in found.lane.spans(incident.end)} >= {"limited", "exhausted"}
    assert "1 limit was exhausted" in headline(incident)[1]
    ((key, row),) = as_data(incident)["limits"].items()
    assert key.startswith("https://host")
    assert (row["refused"], row["state"]) == (server.refused, "not limited")
    assert row["began"] == pytest.approx(incident.begin)


def test_a_limit_that_began_before_the_log_is_in_force_from_its_beginning():
    """A rotated file; and what was refused in each of two times of being limited is added up."""
    incident = incident_of(
        [
            line(BEGIN, "Note"),
            limit(10, "lowered", at_once=2.0, refused=7, waiting=4, longest_wait=5.0),
            limit(20, "forgotten", at_once=6.0, refused=9, longest_wait=6.5),
            limit(30, "began", refused=1, per_second=1.5),
            limit(31, "exhausted", at_once=1.0, refused=5),
            limit(40, "recovered", at_once=1.0, refused=5),
            line(BEGIN + 50, "Note"),
        ]
    )
    found = incident.limits.by_key[KEY]
    spans = [(one.state, one.end - one.start) for one in found.lane.spans(incident.end)]
    assert spans == [
        ("limited", 20),
        ("not limited", 10),
        ("limited", 1),
        ("exhausted", 9),
        ("limited", 10),
    ]
    assert (found.times, found.refused, found.exhausted) == (2, 14, 1)
    assert (found.lowest, found.waiting, found.longest_wait) == (1, 4, 6.5)
    assert found.began == BEGIN
    (text,) = (row for row in as_text(incident, 200).splitlines() if row.startswith("- limit"))
    assert text.startswith(f"- limit {KEY}: ")
    assert "14 refusals" in text
    assert "at the end limited" in text


@pytest.mark.requirement("X10")
@pytest.mark.requirement("X15")
def test_calls_in_doubt_are_the_first_that_a_reader_sees():
    """Which was held and why, what settled it, and what is still open at the end of the log."""
    later = BEGIN + 200
    incident = incident_of(
        [
            *(held(10 + n) for n in range(3)),
            resolved(15, "verified"),
            held(210, began=later),
            held(300, name="refund", began=BEGIN + 290, first="ran"),
            held(301, name="order", first="unreadable"),
        ]
    )
    assert {name: one.held for name, one in incident.effects.by_name.items()} == {
        "pay": 4,
        "refund": 1,
        "order": 1,
    }
    assert dict(incident.effects.by_name["pay"].ended) == {"verified": 1}
    assert incident.effects.open == {("pay", later): BEGIN + 210}
    trouble, sentence = headline(incident)
    assert trouble
    assert "6 calls were held" in sentence
    assert "1 call is still in doubt" in sentence
    assert any(
        row.startswith("- pay: 4 calls held") and "1 in doubt at the end" in row
        for row in as_text(incident, 200).splitlines()
    )
    data = as_data(incident)["effects"]
    assert data["open"] == [{"name": "pay", "began": later, "held": BEGIN + 210}]
    assert data["by_name"]["pay"] == {
        "held": 4,
        "first": {"unknown": 4},
        "ended": {"verified": 1},
    }
    assert [one.what for one in incident.notable] == []
    found = Page(page(incident))
    assert ["11:33:30.000", "pay", "11:33:20.000", "may or may not have run"] in [
        [re.sub(r"^2026-11-24 ", "", cell) for cell in row] for row in found.rows
    ]


def test_the_log_of_real_effects_says_which_are_open(tmp_path):
    """One that a verify function settled, one that nobody did."""
    path = tmp_path / "session.jsonl"
    effects = rb.stores.Effects(
        verify={
            "pay": lambda call: rb.stores.Ran("paid") if call.arguments["order"] == "A-7" else None
        }
    )

    @rb.Policy(rb.Retry())(idempotent=False, effects=effects, name="pay")
    def pay(order):
        raise ConnectionResetError

    with rb.stores.SessionLog(path), rb.testing.virtual_time():
        for order in ("A-7", "A-7", "A-8", "A-8", "A-8"):
            rb.capture(pay, order)
    incident = incident_of(path.read_bytes().splitlines())
    one = incident.effects.by_name["pay"]
    assert (one.held, dict(one.ended)) == (2, {"verified": 1})
    assert [name for name, _ in incident.effects.open] == ["pay"]


def test_what_a_sidecar_held_is_a_call_in_doubt():
    """Its lines have a reason; a call that was sent and lost is none of these."""

    def call(reason, outcome, name="pay"):
        fields = {"call": 1, "method": "tools/call", "name": name, "sends": 0, "seconds": 0}
        row = {"at": BEGIN, "event": "call_finished", **fields, "outcome": outcome}
        return json.dumps({**row, "reason": reason}).encode()

    incident = incident_of(
        [
            call("connection_lost", "unknown"),
            call("identical_in_doubt", "unknown"),
            call("identical_ran", "unknown"),
            call("effects_unusable", "not_executed"),
        ]
    )
    assert incident.effects.by_name["pay"].first == {"unknown": 1, "ran": 1, "unreadable": 1}
    assert "3 calls were held" in headline(incident)[1]


def test_hedged_calls_and_shared_answers_are_counted_by_name():
    """How many requests more were sent, what they won, and how old answers were."""
    fields = {"requests": 2, "unknown": 1, "seconds": 1.0}
    incident = incident_of(
        [
            line(BEGIN, "Hedged", name="search", **fields, winner=2),
            line(BEGIN, "Hedged", name="search", **fields, winner=1),
            line(BEGIN, "Hedged", name="search", **{**fields, "requests": 3}, winner=0),
            line(BEGIN, "AnswerShared", name="find", how="joined", age=0.0),
            line(BEGIN, "AnswerShared", name="find", how="stale", age=90.0, failure=RESET),
        ]
    )
    one = incident.calls.by_name["search"]
    assert (one.hedged, one.extra, one.won, one.cancelled) == (3, 4, 1, 3)
    assert (incident.calls.by_name["find"].shared, incident.calls.by_name["find"].oldest) == (
        {"joined": 1, "stale": 1},
        90.0,
    )
    rows = Page(page(incident)).rows
    assert ["search", "3", "4", "1", "3"] in rows
    assert ["find", "1", "0", "1", "1 min 30 s"] in rows
    calls = as_data(incident)["calls"]
    assert calls["search"]["hedged"] == {"calls": 3, "extra": 4, "won": 1, "cancelled": 3}
    assert calls["find"]["shared"] == {"joined": 1, "stale": 1}
