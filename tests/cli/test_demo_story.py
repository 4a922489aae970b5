"""The demo's lines say what a newcomer needs: phases, reasons, waits, the outbox, verdicts, and the ledger."""

from __future__ import annotations

import io
import itertools
from datetime import UTC, datetime

import pytest

from resilient_bridge import Failure, events
from resilient_bridge.cli.demo_story import Story, ledger_lines


AT = datetime(2026, 1, 1, tzinfo=UTC)
STATE = events.BridgeState


class Screen(io.StringIO):
    """A terminal, if it says so."""

    def __init__(self, *, tty=False):
        super().__init__()
        self._tty = tty

    def isatty(self):
        return self._tty


def told(*happened, screen=None):
    """What the story makes of these events."""
    out = screen or Screen()
    story = Story(out, lambda: 5.0, lambda: (3, 2))
    for event in happened:
        story.tell(event)
    return out.getvalue()


def moved(*states, reason="because"):
    """State changes along these states."""
    return [
        events.StateChanged(at=AT, previous=before, state=after, reason=reason)
        for before, after in itertools.pairwise(states)
    ]


def test_a_rejoin_shows_phases_verdict_and_outbox():
    """The phases passed, the verdict with its meaning and the number replayed, then READY with the outbox."""
    printed = told(
        *moved(STATE.BACKOFF, STATE.CONNECTING, STATE.AUTHENTICATING, STATE.JOINING, STATE.REPLAYING),
        events.Resumed(at=AT, session_id="s", verdict=events.Verdict.RECOVERED, reason="anchor", replayed=7),
        *moved(STATE.REPLAYING, STATE.FLUSHING, STATE.READY),
    )
    assert printed.splitlines() == [
        "  0.00 s  client  CONNECTING > AUTHENTICATING > JOINING > REPLAYING",
        "  0.00 s  client  RECOVERED: the last message we had was found in the replay, so nothing is missing (7 replayed)",
        "  0.00 s  client  FLUSHING > READY after 0 ms; outbox: 3 to send, 2 sent and not confirmed",
    ]


def test_a_loss_shows_why_and_the_next_attempt():
    """The failure in its own words, the attempt's number, the wait, and what the outbox holds."""
    failure = Failure.of("CONN_RESET", "connection reset by peer")
    printed = told(
        events.Disconnected(at=AT, reason="connection_lost", failure=failure),
        events.ReconnectScheduled(at=AT, attempt=2, wait=1.25, reason="connection_lost", failure=failure),
    )
    assert printed.splitlines() == [
        f"  0.00 s  client  lost: {failure}",
        "  0.00 s  client  BACKOFF (the connection is gone): attempt 2 in 1.25 s; outbox: 3 to send, 2 sent and not confirmed",
    ]


def test_an_attempt_that_fails_shows_how_far_it_came():
    """A refused attempt names the phase in which it ended."""
    printed = told(
        *moved(STATE.BACKOFF, STATE.CONNECTING), *moved(STATE.CONNECTING, STATE.BACKOFF, reason="timeout")
    )
    assert printed == "  0.00 s  client  CONNECTING and no further: no answer in time\n"


@pytest.mark.parametrize("reason", ["new_session", "truncated", "mismatch"])
def test_every_reason_of_a_gap_is_explained(reason):
    """No reason of a GAP stands there as a bare word."""
    resumed = events.Resumed(at=AT, session_id="s", verdict=events.Verdict.GAP, reason=reason)
    assert f"GAP: {reason} (" not in told(resumed)


@pytest.mark.parametrize("reason", ["no_replay", "empty", "no_anchor", "timeout", "side_buffer_full"])
def test_every_reason_of_an_unknown_is_explained(reason):
    """Each says that nobody can tell, which is what UNKNOWN means."""
    resumed = events.Resumed(at=AT, session_id="s", verdict=events.Verdict.UNKNOWN, reason=reason)
    assert "nobody can tell" in told(resumed)


def test_colour_is_only_for_terminals(monkeypatch):
    """A verdict has a colour on a terminal, and none in a file, with NO_COLOR, or on a dumb terminal."""
    resumed = events.Resumed(at=AT, session_id="s", verdict=events.Verdict.GAP, reason="truncated")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[35mGAP:\x1b[0m" in told(resumed, screen=Screen(tty=True))
    assert "\x1b" not in told(resumed)
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in told(resumed, screen=Screen(tty=True))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in told(resumed, screen=Screen(tty=True))


def test_the_ledger_names_what_broke():
    """The last lines say that all was kept, or which promises were not."""
    totals = dict.fromkeys(
        "sent confirmed unknown not_delivered dead pushed received covered lost duplicated reordered unexpected "
        "reconnects".split(),
        0,
    ) | {"verdicts": {"RECOVERED": 1, "GAP": 2, "UNKNOWN": 3}, "broken": []}
    lines = ledger_lines(totals)
    assert lines[-1].startswith("kept: ")
    assert any("RECOVERED 1, GAP 2, UNKNOWN 3" in line for line in lines)
    lines = ledger_lines(totals | {"broken": ["lost: 7"]})
    assert lines[-2:] == ["BROKEN", "  lost: 7"]
