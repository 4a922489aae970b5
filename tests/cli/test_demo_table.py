"""What the demo prints: a table with one line for each fault, and a score of four lines, from facts, without a run."""

from __future__ import annotations

import io

import pytest

from tests.internals.cli import (
    FAULTS,
    KILLS,
    SUCCESS,
    Call,
    Outage,
    Screen,
    Watch,
    line,
    score_of_calls,
    score_of_messages,
)


OUTAGES = [
    Outage(
        fault=fault, seconds=seconds, queued=queued, replayed=replayed, verdict=verdict, reason=reason, missing=missing,
        is_reported=missing > 0,
    )
    for fault, seconds, queued, replayed, verdict, reason, missing in [
        ("expire", 1.14, 16, 0, "GAP", "new_session", 15),
        ("broken-buffer", 1.0, 18, 0, "UNKNOWN", "empty", 17),
        ("cut", 1.46, 27, 27, "RECOVERED", "anchor", 0),
        ("truncate", 12.0, 122, 2, "GAP", "truncated", 118),
        ("unheard", 0.8, 9, 0, "UNKNOWN", "no_anchor", 0),
    ]
]  # fmt: skip
CALLS = [
    Call(
        server=server, tool=tool, marker="", seconds=seconds, ran=ran, sends=sends, outcome=outcome, is_restarted=is_restarted
    )
    for server, tool, seconds, ran, sends, outcome, is_restarted in [
        ("answer", "order", 0.01, 1, 1, "answered", False),
        ("killed", "order", 0.41, 1, 1, "answered", True),
        ("killed", "order", 0.41, 1, 2, "answered", True),
        ("before", "order", 0.0, 0, 1, "unknown", False),
        ("after", "list_orders", 0.3, 2, 2, "answered", True),
        ("before", "put", 0.3, 1, 2, "answered", True),
        ("hang", "order", 1.0, 1, 1, "unknown", False),
        ("away", "order", 1.5, 0, 0, "not_executed", False),
    ]
]  # fmt: skip
MESSAGES = {
    "outages": OUTAGES, "sent": 381, "confirmed": 380, "unknown": 1, "not_delivered": 0, "dead": 0, "resent": 2, "pushed": 381,
    "received": 231, "missing": 150, "covered": 150, "lost": 0, "duplicated": 0, "reordered": 0, "unexpected": 0, "broken": [],
}  # fmt: skip
TOOL_CALLS = {
    "sent": 8, "answered": 5, "restarted": 4, "unknown": 2, "not_executed": 1, "starts": 7, "ran_twice": 0, "ran_unsaid": 0,
    "never_ran": 0, "unknown_ran": 1, "broken": [],
}  # fmt: skip


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self):
        return True


class Unread(io.StringIO):
    """What nobody reads any more."""

    def write(self, _):
        raise BrokenPipeError


def table(facts, width=None):
    form = facts[0].FORM
    return "\n".join(
        line(form, cells, width) for cells in [tuple(form), *(one.cells for one in facts)]
    )


def test_the_table_of_faults():
    """What it was, how long, how much was queued and replayed, the verdict, how many are missing and why."""
    assert table(OUTAGES) == (
        "what happened         lasted queued replayed verdict    why\n"
        "session expired        1.1 s     16        0 GAP        15 missing: new session\n"
        "replay buffer broken   1.0 s     18        0 UNKNOWN    17 missing: empty replay\n"
        "connection cut, 0.8 s  1.5 s     27       27 RECOVERED  0 missing: full replay\n"
        "replay log too short  12.0 s    122        2 GAP        118 missing: short replay\n"
        "killed on silent line  0.8 s      9        0 UNKNOWN    0 missing: no anchor"
    )


def test_the_table_of_calls():
    """What happened to the server, how often the call ran by the server's own ledger, what the client was told and why."""
    assert table(CALLS) == (
        "the server            took tool        ran outcome       why\n"
        "answers              0.0 s order         1 ANSWERED      at once\n"
        "killed before call   0.4 s order         1 ANSWERED      sent after a restart\n"
        "killed before call   0.4 s order         1 ANSWERED      repeated: was unread\n"
        "dies before it runs  0.0 s order         0 MAY HAVE RUN  reported, not repeated\n"
        "dies after it ran    0.3 s list_orders   2 ANSWERED      repeated: only reads\n"
        "dies before it runs  0.3 s put           1 ANSWERED      repeated: you allow it\n"
        "never answers        1.0 s order         1 MAY HAVE RUN  reported, not repeated\n"
        "cannot be started    1.5 s order         0 NOT EXECUTED  safe to call again"
    )


def test_what_is_missing_without_a_report_is_called_so():
    """A RECOVERED that hides a loss would be seen in its line."""
    fact = Outage(
        fault="cut", seconds=1, queued=0, replayed=0, verdict="RECOVERED", reason="anchor", missing=3, is_reported=False
    )  # fmt: skip
    assert fact.cells[-1] == "3 missing, not reported"


def test_the_columns_hold_the_name_of_each_fault():
    """Else the columns after it would not be below their titles."""
    assert max(map(len, [*FAULTS.values(), *KILLS.values()])) <= 21


@pytest.mark.parametrize("facts", [OUTAGES, CALLS])
def test_a_narrow_terminal_has_the_reason_on_a_line_of_its_own(facts):
    """At 60 columns all fits, and no column breaks; at 81 each fault is one line."""
    narrow = table(facts, 60).split("\n")
    assert max(map(len, narrow)) <= 60
    assert f"    {facts[0].cells[-1]}" in [*narrow, f"    {narrow[2].strip()}"]
    assert table(facts, 81) == table(facts)


def test_the_score_of_messages_names_the_cause_of_each_gap():
    """Four lines; what is missing is told by the fault that caused it, and that it was reported."""
    assert score_of_messages(MESSAGES) == [
        "sent      381: 380 confirmed, 1 outcome unknown; 2 sent again, and applied once",
        (
            "received  231 of 381, 150 missing, each in a gap that the client reported: session expired 15, replay buffer broken 17, "
            "replay log too short 118"
        ),
        "errors    0 lost without a report, 0 duplicates, 0 out of order, 0 unexpected",
        "kept: nothing was lost, repeated or reordered without a report",
    ]
    assert score_of_messages(
        MESSAGES | {"outages": [], "missing": 0, "covered": 0, "received": 386}
    )[1] == ("received  381 of 381, 0 missing; 5 received again, and flagged")


def test_the_score_of_messages_names_what_was_lost():
    """What no gap covers is not counted among the reported, and each broken promise has a line."""
    lines = score_of_messages(
        MESSAGES
        | {"missing": 152, "received": 229, "covered": 151, "lost": 1, "broken": ["lost: 7"]}
    )
    assert lines[1].endswith(
        "152 missing, 151 of them in a gap that the client reported: session expired 15, replay buffer broken 17, "
        "replay log too short 118, at other times 1"
    )
    assert lines[-2:] == ["BROKEN", "  lost: 7"]


def test_the_score_of_calls_compares_with_the_ledger():
    """Four lines: what the client was told, the server, what its ledger says, the verdict."""
    assert score_of_calls(TOOL_CALLS) == [
        "calls     8: 5 answered (4 after a restart), 2 may have run (reported, not repeated), 1 not executed",
        "server    started 7 times; the client's session went on",
        "ledger    ran twice without permission 0, said not executed but ran 0, answered but never ran 0; of the 2 that may have run 1 did",
        "kept: no call ran twice without permission, and none was reported as what it was not",
    ]
    assert score_of_calls(TOOL_CALLS | {"broken": ["ran twice: order-3"]})[-2:] == [
        "BROKEN",
        "  ran twice: order-3",
    ]


def test_the_live_line_says_the_phase_the_wait_and_what_is_queued():
    """While a fault lasts; else the phase and how much was received."""
    watch = Watch()
    watch.state = "READY"
    assert watch.live("received 3 of 4") == "READY, received 3 of 4"
    watch.begin("cut", 0)
    watch.counted(12)
    watch.counted(7)
    watch.state, watch.attempt_at = "BACKOFF", watch.began + 3600.05
    assert watch.live("") == "BACKOFF, next attempt in 3600.0 s, 7 queued: connection cut, 0.8 s"
    watch.state = "JOINING"
    assert watch.live("") == "JOINING, 7 queued: connection cut, 0.8 s"


def test_a_row_counts_from_its_fault_on():
    """The most that was queued, all that was replayed, the worst verdict, and what went missing since."""
    watch = Watch()
    watch.begin("cut", 5)
    for queued in (3, 9, 0):
        watch.counted(queued)
    watch.resumed("GAP", "truncated", 2)
    watch.resumed("RECOVERED", "anchor", 4)
    watch.gaps += 1
    found = watch.outage(1.23456, 7)
    assert found == Outage(
        fault="cut",
        seconds=1.235,
        queued=9,
        replayed=6,
        verdict="GAP",
        reason="truncated",
        missing=2,
        is_reported=True,
    )


def test_colour_is_only_for_terminals(monkeypatch):
    """A verdict has a colour on a terminal, and none in a pipe, with NO_COLOR, or on a dumb terminal."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def shown(out):
        Screen(out).row(Outage.FORM, OUTAGES[0].cells)
        return out.getvalue()

    assert " \x1b[35mGAP\x1b[0m  " in shown(Terminal())
    assert shown(io.StringIO()) == f"{line(Outage.FORM, OUTAGES[0].cells)}\n"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as context:
            context.setenv(name, value)
            assert "\x1b" not in shown(Terminal())


def test_a_reader_that_has_gone_stops_the_demo_and_breaks_no_fault():
    """A row without a reader sets `stopped`; what is shown before and after the run raises."""
    screen = Screen(Unread())
    assert not screen.stopped.is_set()
    screen.row(Outage.FORM, OUTAGES[0].cells)
    assert screen.stopped.is_set()
    with pytest.raises(BrokenPipeError):
        screen.show(SUCCESS)
