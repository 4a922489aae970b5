"""What grows with a log is held in a fixed size, and what was merged says so."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from resilient_bridge.failure import READ, redact
from resilient_bridge.report import Incident, page
from tests.internals.report import BINS, MIXED, Bins, First, Lane, Largest, Named, Tally, add, safe
from tests.report.made_logs import BEGIN, log


def test_bins_keep_their_number_and_their_sum_whatever_the_times():
    """Times from a millisecond to a year, forwards and backwards: as many bins, and nothing is lost."""
    bins = Bins(add)
    times = [BEGIN, BEGIN + 0.01, BEGIN + 3e7, BEGIN - 1e6, BEGIN + 5]
    for at in times:
        bins.add(at, 1)
    assert len(bins.values) == BINS
    assert sum(bins.values) == sum(bins.sums(BEGIN - 1e6, BEGIN + 3e7, 50)) == len(times)
    bins.spread(BEGIN, BEGIN + 1e7, 2.0)
    assert sum(bins.values) == pytest.approx(5 + 2e7)


def test_the_highest_value_of_a_part_is_what_held_then():
    """A value that was true for a time is in every part of that time."""
    bins = Bins(max)
    bins.hold(0, 40, 3)
    bins.hold(40, 60, 9)
    bins.hold(60, 100, 1)
    assert [
        max(bins.highest(0, 100, 10)[part] for part in group) for group in ((0, 1, 2), (5,), (8, 9))
    ] == [
        3,
        9,
        1,
    ]


def test_a_lane_merges_its_shortest_neighbours_and_keeps_its_length():
    """10,000 changes: at most 200 spans, no time lost; a long outage among them is still drawn whole."""
    lane = Lane(200)
    for number in range(5_000):
        lane.enter(number, "ready")
        lane.enter(number + 0.5, "waiting")
    lane.enter(5_000, "down")
    lane.enter(7_000, "ready")
    spans = lane.spans(7_001)
    assert len(spans) <= 201
    assert sum(span.end - span.start for span in spans) == 7_001
    assert [(span.start, span.end) for span in spans if span.state == "down"] == [(5_000, 7_000)]
    assert sum(span.folded + 1 for span in spans if span.state == MIXED) > 9_000
    assert len(lane.spans(7_001, 10)) <= 10


def test_the_others_keep_the_first_the_largest_and_a_few_names():
    """Each knows how many came in all."""
    largest, first, named, tally = Largest[int](3), First[int](3), Named(list[int], 3), Tally(3)
    for number in (5, 1, 9, 7, 3):
        largest.add(number, number)
        first.add(number)
        named.of(str(number)).append(number)
        tally.count(str(number))
    assert (list(largest), largest.seen) == ([9, 7, 5], 5)
    assert (first, first.seen) == ([5, 1, 9], 5)
    assert (named["(others)"], named.folded) == ([7, 3], 2)
    assert (tally["(others)"], tally.total, tally.folded) == (2, 5, 2)


def varied(count: int, start: int = 0):
    """Lines of which every name, session, key and code is new: the worst for whoever keeps them."""
    kinds = (
        '"event":"StateChanged","bridge":"b","session_id":"s%d","previous":"IDLE","state":"READY","reason":"r","queued":1,"unconfirmed":0,"unread":0',
        '"event":"Disconnected","bridge":"b","session_id":"s%d","reason":"lost","failure":{"code":"C","message":"m"}',
        '"event":"CallFinished","name":"n%d","outcome":"failed","attempts":1,"seconds":1.5,"waited":0,"failure":{"code":"C"}',
        '"event":"CircuitChanged","key":"k%d","state":"open","reason":"failures"',
        '"event":"MessageUndelivered","type":"t","key":"%d","outcome":"unknown","reason":"x"',
        '"event":"E%d"',
    )
    for number in range(start, start + count):
        kind = kinds[number % len(kinds)]
        yield f'{{"at":{BEGIN + number / 50},{kind % number if "%d" in kind else kind}}}'.encode()


@pytest.mark.requirement("X10")
def test_many_lines_take_no_more_memory_than_the_first_of_them():
    """New names, sessions and keys all the time: the last 4,000 lines of 24,000 add less than 500 kB, and the page stays small."""
    incident = Incident()
    incident.source("session.jsonl")
    for one in varied(20_000):
        incident.take(one)
    tracemalloc.start()
    try:
        for one in varied(4_000, 20_000):
            incident.take(one)
        grown, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    incident.finish()
    assert incident.events.total == 24_000
    assert grown < 500_000
    assert peak < 600_000
    assert len(page(incident)) < 600_000


def test_long_texts_are_not_held_by_what_shows_them():
    """Of thirty texts of a megabyte each, what is remembered is what was looked at; each is shown as `redact` shows it."""
    texts = [f"{number} " + "word " * 200_000 for number in range(30)]
    expected = [redact(text, limit=300) for text in texts]
    tracemalloc.start()
    try:
        assert [safe("".join(text)) for text in texts] == expected
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 1_000_000


@pytest.mark.parametrize("size", [READ - 1, READ, READ + 1, READ + 2, 3 * READ])
def test_a_long_text_is_shown_as_if_it_were_read_whole(size):
    """Around the number of characters that are looked at."""
    for text in ("x" * size, "word " * (size // 5) + "end", "s3cret " + "\u4e00" * size):
        assert safe(text) == redact(text, limit=300)


# A process in between, because Linux counts the memory of the one that a process is forked from.
MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_maxrss, used.ru_utime)
"""


@pytest.mark.campaign
@pytest.mark.requirement("X10")
@pytest.mark.parametrize("kind", ["usual", "varied"])
def test_a_million_lines_are_read_in_two_minutes_and_a_hundred_megabytes(tmp_path, kind):
    """The command itself, in a process of its own: its peak of resident memory and its processor time."""
    path = tmp_path / "session.jsonl"
    lines = (
        varied(1_000_000) if kind == "varied" else log(200, seconds=44 * 3600, often=900, each=0.28)
    )
    with path.open("wb") as file:
        written = sum(
            bool(file.write(one if one.endswith(b"\n") else one + b"\n")) for one in lines
        )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            MEASURED,
            sys.executable,
            "-m",
            "resilient_bridge",
            "report",
            str(path),
        ],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    code, kibibytes, seconds = done.stdout.splitlines()[-1].split()
    assert int(code) == 0
    assert written >= 1_000_000
    assert int(kibibytes) < 100 * 1024
    assert float(seconds) < 120
    assert path.with_suffix(".html").stat().st_size < 2_000_000


def test_x04_two_spans_of_one_state_with_a_hole_between_them_stay_two():
    """Away, back for no time, and away again is one span; away, seen to be up, and away again is not."""
    lane = Lane(200)
    for at, state in ((0.0, "away"), (1.0, "up"), (1.0, "away"), (2.0, "")):
        lane.enter(at, state)
    lane.enter(5.0, "away")
    lane.enter(6.0, "up")
    found = [(span.start, span.end, span.state) for span in lane.spans(6.0)]
    assert found == [(0.0, 2.0, "away"), (5.0, 6.0, "away")]
