"""The demo's lines say what a newcomer needs: phases, reasons, waits, the outbox and verdicts, in the words of `pipe`."""

from __future__ import annotations

import io

import pytest

from tests.internals.cli import Story


OUTBOX = "; outbox: 3 to send, 2 sent and not confirmed"


class Screen(io.StringIO):
    """A terminal, if it says so."""

    def __init__(self, *, tty=False):
        super().__init__()
        self._tty = tty

    def isatty(self):
        return self._tty


class Unread:
    """What nobody reads any more."""

    def isatty(self):
        return False

    def write(self, _):
        raise BrokenPipeError

    def flush(self):
        raise BrokenPipeError


def shown(*reports, screen=None):
    """What the story makes of these reports."""
    out = screen or Screen()
    story = Story(out)
    for report in reports:
        story.tell("client", report, OUTBOX)
    return out.getvalue()


def test_a_rejoin_shows_verdict_phases_and_outbox():
    """The verdict with the number replayed, then all phases in one line, with the outbox."""
    states = [f"state: {name} (why)" for name in ("CONNECTING", "AUTHENTICATING", "JOINING", "REPLAYING")]
    printed = shown(
        *states, "verdict: RECOVERED (anchor), 7 replayed", "state: FLUSHING (why)", "state: READY (flushed)"
    )
    assert printed.splitlines() == [
        "  0.00 s  client  verdict: RECOVERED (anchor), 7 replayed",
        f"  0.00 s  client  CONNECTING > AUTHENTICATING > JOINING > REPLAYING > FLUSHING > READY{OUTBOX}",
    ]


def test_an_attempt_that_fails_shows_how_far_it_came():
    """A refused attempt names the phases up to its end; the reason and the wait stand in lines of their own."""
    printed = shown(
        "state: CONNECTING (due)", "state: BACKOFF (connect_refused)", "retry: attempt 2 in 1.2 s: refused"
    )
    assert printed.splitlines() == [
        f"  0.00 s  client  CONNECTING > BACKOFF{OUTBOX}",
        "  0.00 s  client  retry: attempt 2 in 1.2 s: refused",
    ]


@pytest.mark.parametrize("end", ["FAILED", "CLOSED"])
def test_the_end_is_shown(end):
    """A client that has failed, or is closed, is not left out."""
    assert shown(f"state: {end} (why)") == f"  0.00 s  client  {end}{OUTBOX}\n"


def test_colour_is_only_for_terminals(monkeypatch):
    """A verdict has a colour on a terminal, and none in a file, with NO_COLOR, or on a dumb terminal."""
    report = "verdict: GAP (truncated), 2 replayed"
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[35mGAP\x1b[0m" in shown(report, screen=Screen(tty=True))
    assert "\x1b" not in shown(report)
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in shown(report, screen=Screen(tty=True))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(report, screen=Screen(tty=True))


def test_a_reader_that_has_gone_stops_the_demo_and_breaks_no_line():
    """The story goes on without a reader, and says so, because whoever tells it may be in the middle of something."""
    story = Story(Unread())
    assert not story.stopped.is_set()
    story.line("demo", "hello")
    assert story.stopped.is_set()
    with pytest.raises(BrokenPipeError):
        story.show("the ledger")
