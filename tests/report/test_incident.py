"""What is counted is what happened: facts of a report against events that were counted otherwise."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import pairwise

import pytest

import resilient_bridge as rb
from resilient_bridge.report import Incident, as_data, as_text
from tests.internals.report import links
from tests.report.made_logs import BEGIN, REFUSED, RESET, TIMEOUT, failure, line, log


def incident_of(lines, **limits) -> Incident:
    """The facts of these lines."""
    incident = Incident(**limits)
    incident.source("session.jsonl")
    for one in lines:
        incident.take(one)
    incident.finish()
    return incident


def state(at, previous, new, session="s1", bridge="agent", **depth):
    """A change of a link."""
    return line(
        BEGIN + at,
        "StateChanged",
        bridge=bridge,
        session_id=session,
        previous=previous,
        state=new,
        reason="x",
        **depth,
    )


def lost(at, session="s1", bridge="agent"):
    """A loss."""
    return line(
        BEGIN + at,
        "Disconnected",
        bridge=bridge,
        session_id=session,
        reason="connection_lost",
        failure=RESET,
    )


def time_out(changes) -> float:
    """Seconds between a READY that was lost and what ended that."""
    down, since = 0.0, None
    for event in changes:
        if event.previous == "READY" and event.state == "BACKOFF":
            since = event.at
        elif event.state in ("READY", "CLOSING", "DRAINING") and since is not None:
            down, since = down + (event.at - since).total_seconds(), None
    return down


@pytest.mark.requirement("X10")
def test_the_log_of_a_real_client_gives_what_its_events_say(tmp_path):
    """A client on a simulated network is cut twice; losses, time out, waits, verdicts and depths are those of its events."""
    path, heard = tmp_path / "session.jsonl", []

    async def main(server):
        async with rb.BridgeClient(
            server.url, name="agent", token="secret", policy=rb.presets.recursor
        ) as bridge:
            await bridge.wait_ready()
            for second in range(80):
                if second in (10, 50):
                    await server.cut("abort", seconds=6)
                await bridge.send("note", {"n": second})
                await asyncio.sleep(1)

    with rb.listen(heard.append), rb.stores.SessionLog(path):
        rb.testing.simulate(main, seed=3)
    incident = incident_of(path.read_bytes().splitlines())
    changes = [event for event in heard if isinstance(event, rb.events.StateChanged)]
    losses = [
        event for event in heard if isinstance(event, rb.events.Disconnected) and event.failure
    ]
    waits = [event.wait for event in heard if isinstance(event, rb.events.ReconnectScheduled)]
    assert incident.links.losses == incident.links.outages.seen == len(losses) == 2
    assert incident.links.down == pytest.approx(time_out(changes), abs=0.01)
    assert incident.links.down > 12
    assert sorted(wait for outage in incident.links.outages for wait in outage.waits) == sorted(
        waits
    )
    assert incident.links.verdicts == Counter(
        str(event.verdict) for event in heard if isinstance(event, rb.events.Resumed)
    )
    assert incident.links.peak["queued"][0] == max(event.queued for event in changes) > 3
    assert incident.events == Counter(type(event).__name__ for event in heard)
    (link,) = incident.links.links.values()
    assert link.name.startswith("agent · ")
    assert sum(span.end - span.start for span in link.lane.spans(incident.end)) == pytest.approx(
        incident.span
    )


def test_an_outage_ends_when_the_link_is_ready_or_closed_or_not_at_all():
    """Three links: one comes back, one is closed meanwhile, one is still out at the end of the log."""
    ready = [state(0, "IDLE", "READY", session) for session in ("a", "b", "c")]
    incident = incident_of(
        [
            *ready, *(lost(10, session) for session in ("a", "b", "c")),
            *(state(10, "READY", "BACKOFF", session) for session in ("a", "b", "c")),
            state(15, "BACKOFF", "READY", "a"), state(18, "BACKOFF", "CLOSED", "b"), line(BEGIN + 30, "Note"),
        ]
    )  # fmt: skip
    lasted = {
        one.link[-1]: (one.seconds(incident.end), one.final) for one in incident.links.outages
    }
    assert lasted == {
        "a": (5, ""),
        "b": (8, "closed meanwhile"),
        "c": (20, "still out at the end of the log"),
    }
    assert incident.links.down == 33


def test_a_client_that_gets_a_new_session_is_still_one_link():
    """Its session expired meanwhile: the outage ends with the new one, and no second link is drawn."""
    incident = incident_of(
        [
            state(0, "IDLE", "READY", "old"), lost(5, "old"), state(5, "READY", "BACKOFF", "old"), state(6, "BACKOFF", "JOINING", "old"),
            state(7, "JOINING", "READY", "new"),
        ]
    )  # fmt: skip
    assert len(incident.links.links) == 1
    assert [one.seconds(99) for one in incident.links.outages] == [2]


def test_two_clients_of_one_name_are_two_links():
    """Sessions tell them apart."""
    incident = incident_of([state(0, "IDLE", "READY", "a"), state(1, "IDLE", "READY", "b"), lost(2, "a"), state(2, "READY", "BACKOFF", "a"),
                            state(4, "BACKOFF", "READY", "a")])  # fmt: skip
    assert [(one.name, one.losses, one.down) for one in incident.links.links.values()] == [
        ("agent · a", 1, 2),
        ("agent · b", 0, 0),
    ]


def test_a_link_that_was_never_ready_is_out_from_its_first_wait():
    """Nothing was lost, and yet nothing worked."""
    wait = line(
        BEGIN + 1,
        "ReconnectScheduled",
        bridge="agent",
        session_id="s1",
        attempt=1,
        wait=5,
        reason="refused",
        failure=REFUSED,
    )
    incident = incident_of(
        [
            state(0, "IDLE", "CONNECTING"),
            state(1, "CONNECTING", "BACKOFF"),
            wait,
            state(6, "BACKOFF", "READY"),
        ]
    )
    assert [(one.code, one.seconds(99), one.waits) for one in incident.links.outages] == [
        ("CONN_REFUSED", 5, [5.0])
    ]


def test_a_log_that_begins_in_the_middle_takes_the_state_before():
    """A rotated file begins with a link that was ready: it is drawn as ready from the beginning."""
    incident = incident_of(
        [line(BEGIN, "Note"), state(10, "READY", "BACKOFF"), state(12, "BACKOFF", "READY")]
    )
    (link,) = incident.links.links.values()
    assert [(span.state, span.end - span.start) for span in link.lane.spans(incident.end)] == [
        ("ready", 10),
        ("waiting", 2),
    ]


@pytest.mark.requirement("X10")
def test_calls_are_counted_by_name_and_outcome_with_the_slowest_exact():
    """Outcomes, repeats and waits add up; quantiles are right to a fifth; cancelled calls are no failures."""
    written = [
        line(
            BEGIN + n,
            "CallFinished",
            name="f",
            outcome="ok",
            attempts=1,
            seconds=0.010 * (n + 1),
            waited=0,
        )
        for n in range(100)
    ]
    written += [
        line(
            BEGIN + 101,
            "CallFinished",
            name="f",
            outcome="failed",
            attempts=3,
            seconds=9.5,
            waited=3,
            failure=TIMEOUT,
        )
    ]
    written += [
        line(
            BEGIN + 102,
            "CallFinished",
            name="g",
            outcome="cancelled",
            attempts=1,
            seconds=1,
            waited=0,
        )
    ]
    written += [
        line(BEGIN + 99, "RetryScheduled", name="f", attempt=2, wait=1.5, failure=TIMEOUT)
    ] * 2
    written += [line(BEGIN + 99, "CallRejected", name="f", by="circuit", key="f", failure=TIMEOUT)]
    calls = incident_of(written).calls
    one = calls.by_name["f"]
    assert (one.outcomes, one.bad, one.retries, one.waited, one.why) == (
        {"ok": 100, "failed": 1},
        1,
        2,
        3.0,
        "TOOL_TIMEOUT",
    )
    assert one.rejected_by == {"circuit": 1}
    assert one.quantile(0.5) == pytest.approx(0.5, rel=0.21)
    assert one.longest == 9.5
    assert [(call.name, call.seconds) for call in calls.slowest][:3] == [
        ("f", 9.5),
        ("f", 1.0),
        ("g", 1.0),
    ]
    assert calls.by_name["g"].bad == 0


@pytest.mark.requirement("X10")
def test_a_sidecar_shows_losses_restarts_and_outcomes():
    """Its lines have times in seconds and names of their own."""
    written = list(log(0, each=0, mcp=True))
    written.append(
        json.dumps({"at": BEGIN, "event": "tools_unknown", "name": "serch"}).encode() + b"\n"
    )
    events = [json.loads(one) for one in written]
    incident = incident_of(written)
    counted = Counter(one["event"] for one in events)
    assert incident.events == counted
    assert (
        incident.guards.restarts
        == counted["server_lost"]
        == incident.guards.of["server"]["the MCP server"].troubles
    )
    assert incident.calls.outcomes == Counter(
        one["outcome"] for one in events if one["event"] == "call_finished"
    )
    assert "The MCP server was lost 10 times" in as_text(incident)
    assert ("tools_unknown", "serch") in [(one.what, one.text) for one in incident.notable]
    unknown = sum(one.get("outcome") == "unknown" for one in events)
    assert unknown == as_data(incident)["calls"]["tools/call order"]["outcomes"].get("unknown", 0) + as_data(incident)["calls"][
        "tools/call search"]["outcomes"].get("unknown", 0)  # fmt: skip


def test_structured_lines_give_codes_and_times_and_no_phases(tmp_path):
    """Both other forms of a SessionLog: what they say is counted."""
    for form in ("log", "openviber"):
        path = tmp_path / f"{form}.jsonl"
        with rb.stores.SessionLog(path, form=form):
            box = rb.agent.Toolbox()

            @box.tool(idempotent=True)
            def broken() -> None:
                raise TimeoutError

            with rb.testing.virtual_time():
                asyncio.run(box.call("broken", {}))
        incident = incident_of(path.read_bytes().splitlines())
        assert incident.structured == incident.events.total > 0
        assert incident.codes
        assert incident.calls.by_name["broken"].bad


@pytest.mark.requirement("X10")
def test_damaged_lines_are_counted_and_named_by_their_number():
    """Torn, binary, not an object, without a time, too long: each by its number and reason; the others count."""
    damaged = [b'{"at": "2026-11-24T', b"\xff\xfe\x00", b"[1]", b'{"event": "Joined"}', b'{"at": true}', b'{"at": 1e300}', b"[" * 200_000,
               b'{"at": 1, "x": "' + b"x" * 1_100_000 + b'"}']  # fmt: skip
    incident = incident_of(
        [state(0, "IDLE", "READY"), b"\n", *damaged, state(1, "READY", "CLOSED")]
    )
    (source,) = incident.sources
    assert [number for number, _ in source.damaged] == [3, 4, 5, 6, 7, 8, 9, 10]
    assert [reason for _, reason in source.damaged][:4] == [
        "not JSON",
        "not JSON",
        "not an object",
        "without a time",
    ]
    assert incident.events.total == 2
    assert "- session.jsonl: 8 damaged lines: 3, 4, 5, 6, 7, 8, 9, 10" in as_text(incident, 200)


def test_only_the_time_asked_for_counts():
    """What is left out is counted as that."""
    incident = incident_of(
        [line(BEGIN + n, "Note") for n in range(10)], since=BEGIN + 3, until=BEGIN + 5
    )
    assert (incident.events.total, incident.outside, incident.span) == (3, 7, 2)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ([line(BEGIN, "Note"), line(BEGIN + 60, "Note")], "Nothing went wrong in 1 min."),
        ([state(0, "IDLE", "READY"), lost(1), state(1, "READY", "BACKOFF"), state(4, "BACKOFF", "READY")], "1 outage, out for 3 s."),
        ([line(BEGIN, "MessageUndelivered", outcome="unknown", type="n", key="k", reason="x")], "1 message may or may not have arrived."),
        ([line(BEGIN, "Note", failure=failure("CONN_RESET", "x"))],
         "Some attempts failed; no connection and no call was lost."),
    ],
)  # fmt: skip
def test_the_sentence_says_the_worst_and_no_more(written, sentence):
    """One sentence, made of what is in the log."""
    assert as_text(incident_of(written)).splitlines()[0] == sentence


@pytest.mark.parametrize("width", [20, 40, 80])
def test_the_summary_fits_the_width(width):
    """No line is longer than the terminal is wide."""
    text = as_text(incident_of([*log(3), b"{"]), width)
    assert len(text.splitlines()) > 3
    assert max(len(one) for one in text.splitlines()) <= width


def test_links_beyond_the_most_that_are_held_are_counted_and_change_nothing_else(monkeypatch):
    """Each is counted once, however many events it has; its end breaks nothing, and its queues and times are not added up."""
    monkeypatch.setattr(links, "_MOST_LINKS", 3)
    phases = ("CONNECTING", "READY", "BACKOFF", "CONNECTING", "READY", "CLOSED")
    written = [
        state(0, "IDLE", "READY", bridge=f"b{n}", queued=1, unconfirmed=0, unread=0)
        for n in range(3)
    ]
    for bridge in ("b3", "b4"):
        for at, (previous, new) in enumerate(pairwise(("IDLE", *phases)), 10):
            written.append(
                state(at, previous, new, bridge=bridge, queued=7, unconfirmed=0, unread=0)
            )
    written.append(state(20, "READY", "CLOSED", bridge="b0", queued=0, unconfirmed=0, unread=0))
    later = [state(at, "IDLE", "READY", bridge=bridge) for at, bridge in ((21, "b5"), (22, "b6"))]
    incident = incident_of([*written, *later])
    facts = incident.links
    assert (facts.seen, facts.folded) == (7, 4)
    assert {bridge for bridge, _ in facts.links} == {"b1", "b2", "b5"}
    assert facts.peak["queued"][0] == 3
    assert sum(facts.in_group["waiting"].sums(BEGIN, BEGIN + 22, 10)) == 0
    assert sum(facts.in_group["ready"].sums(BEGIN, BEGIN + 22, 10)) == pytest.approx(
        22 + 22 + 20 + 1
    )


def test_a_link_that_found_no_room_is_held_once_another_has_ended(monkeypatch):
    """And is not counted a second time."""
    monkeypatch.setattr(links, "_MOST_LINKS", 1)
    facts = incident_of([
        state(0, "IDLE", "READY", bridge="b0"), state(1, "IDLE", "CONNECTING", bridge="b1"), state(2, "READY", "CLOSED", bridge="b0"),
        state(3, "CONNECTING", "READY", bridge="b1"), state(4, "READY", "BACKOFF", bridge="b1"),
    ]).links  # fmt: skip
    assert (facts.seen, [bridge for bridge, _ in facts.links], facts.losses) == (2, ["b1"], 1)


def test_t03_a_sample_of_a_link_that_is_ready_is_not_drawn_until_the_next():
    """17 messages were unconfirmed when it became READY, and confirmed soon; the next sample is 100 s later."""
    facts = incident_of([
        state(0, "IDLE", "CONNECTING", queued=17, unconfirmed=0, unread=0),
        state(10, "CONNECTING", "READY", queued=0, unconfirmed=17, unread=0),
        state(110, "READY", "BACKOFF", queued=0, unconfirmed=2, unread=0),
        state(120, "BACKOFF", "READY", queued=0, unconfirmed=0, unread=0),
    ]).links  # fmt: skip
    drawn = facts.depth["unconfirmed"].highest(BEGIN, BEGIN + 120, 12)
    assert drawn[1] == 17
    assert drawn[2:10] == [0] * 8
    assert drawn[11] == 2
    assert facts.depth["queued"].highest(BEGIN, BEGIN + 120, 12)[0] == 17
    assert facts.peak["unconfirmed"] == (17, BEGIN + 10)
