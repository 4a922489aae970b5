"""The pictures: what a bar shows, and that an SVG is one whatever the schedule."""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ET

from resilient_bridge import Backoff
from tests.internals.cli import bars, svg
from tests.internals.values import spread
from tests.rows import each_row


SVG = "{http://www.w3.org/2000/svg}"
SCHEDULES = [
    Backoff.decorrelated(1),
    Backoff.constant(0),
    Backoff.constant(1e9),
    Backoff.constant(0.001),
    Backoff.steps(0, 1, 2, 4, 8, 30),
    Backoff.exponential(1, cap=60, jitter="equal"),
    Backoff.exponential(1e-300, cap=1e9),
    Backoff.steps(1e-320),
]


longest_spread_of = functools.cache(lambda schedule: spread(schedule, 120))


def spread_of(schedule, count):
    """The first waits of the longest picture: each is drawn from the waits before it alone."""
    return longest_spread_of(schedule)[:count]


def test_a_bar_says_at_least_by_chance_and_mean():
    """`=` up to the shortest wait, `-` from there to the longest, `o` at the mean; the scale ends at the longest of all."""
    picture = bars([(2.0, 3.0, 4.0), (0.0, 1.0, 8.0), (8.0, 8.0, 8.0), (0.0, 0.0, 0.0)], 40)
    head, *lines, legend = picture.splitlines()
    assert head.startswith("wait  0 s")
    assert head.endswith(" 8 s")
    cells = [line.partition("|")[2] for line in lines]
    # between margin and edge there is room for 33 steps and the "o" of the last
    assert cells == ["========----o---", "----o" + "-" * 28, "=" * 33 + "o", "o"]
    assert "= at least" in legend


@each_row("width", [0, 40, 80, 200])
@each_row("count", [1, 10, 120])
@each_row("schedule", SCHEDULES, ids=repr)
def test_bars_are_ascii_and_fit(schedule, count, width):
    """No line is wider than asked, and nothing but plain characters is used."""
    picture = bars(spread_of(schedule, count), width)
    assert picture.isascii()
    assert len(picture.splitlines()) == count + 2
    assert max(map(len, picture.splitlines())) <= max(width, 40)
    assert picture.count("o") >= count


@each_row("count", [1, 2, 10, 41, 120])
@each_row("schedule", SCHEDULES, ids=repr)
def test_an_svg_is_well_formed_and_within_its_frame(schedule, count):
    """A parser reads it, it has a title, and every point lies in the picture."""
    root = ET.fromstring(svg(spread_of(schedule, count), repr(schedule)))
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title") == repr(schedule)
    _, _, wide, high = map(float, root.get("viewBox").split())
    lines = [*root.findall(f"{SVG}polyline"), *root.findall(f"{SVG}polygon")]
    assert len(lines) == 4
    for line in lines:
        points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        assert len(points) in {count, 2 * count}
        assert all(0 <= x <= wide and 0 <= y <= high for x, y in points)
    labels = [text.text for text in root.findall(f"{SVG}text")]
    assert "0" in labels
    assert "1" in labels
    assert len(labels) < 40


def test_an_svg_draws_what_the_schedule_is():
    """Higher is longer: the points of a rising schedule rise, and the top line is at or above its longest wait."""
    root = ET.fromstring(svg(spread(Backoff.steps(1, 2, 5, 10, 30), 5), "R3"))
    mean = root.findall(f"{SVG}polyline")[2]
    heights = [float(point.split(",")[1]) for point in mean.get("points").split()]
    assert heights == sorted(heights, reverse=True)
    assert len(set(heights)) == 5
    labels = [text.text for text in root.findall(f"{SVG}text")]
    assert {"0", "10", "20", "30"} <= set(labels)


def test_a_title_cannot_break_an_svg():
    """Quotes, brackets and ampersands are text."""
    title = "Backoff.linear(1, jitter='equal') <&\">"
    root = ET.fromstring(svg([(0.0, 0.5, 1.0)], title))
    assert root.findtext(f"{SVG}title") == title
