"""The picture of the demo, and the run on its page, have the form that the program prints today; their numbers are those of one run."""

from __future__ import annotations

import re
from itertools import takewhile
from xml.etree import ElementTree as ET

import pytest

from tests.internals.cli import COLOURS, FAULTS, SUCCESS, Outage, line
from website.pages import ROOT
from website.pictures import PICTURE, terminal


PAGE = (ROOT / "docs/how-to/demo.md").read_text("utf-8")
ROW = re.compile(
    rf"({'|'.join(FAULTS.values())}) +\d+\.\d s +\d+ +\d+ (RECOVERED|GAP|UNKNOWN) +(\d+) missing: (full|empty|short|new) \w+"
)
SCORE = (
    r"sent      \d+: \d+ confirmed, \d+ outcome unknown(; \d+ sent again, and applied once)?",
    rf"received  \d+ of \d+, (\d+) missing, each in a gap that the client reported: ((?:{'|'.join(FAULTS.values())}) \d+(?:, |$))+",
    r"errors    0 lost without a report, 0 duplicates, 0 out of order, 0 unexpected",
    SUCCESS,
)  # fmt: skip


def drawn(svg):
    """The lines of a picture: well-formed, and each with the length that its text has."""
    texts = [one for one in ET.fromstring(svg).iter() if one.tag.endswith("}text")]
    assert [round(float(one.get("textLength")) / 8.4) for one in texts] == [
        len("".join(one.itertext())) for one in texts
    ]
    return ["".join(one.itertext()) for one in texts]


@pytest.mark.parametrize(
    "lines",
    [drawn(PICTURE.read_text("utf-8")), re.search(r"```text\n(what happened.*?)```", PAGE, re.DOTALL)[1].split("\n")],
    ids=["picture", "page"],
)  # fmt: skip
def test_it_has_the_form_that_the_demo_prints(lines):
    """The head of the table, a line for each kind of fault, and the four lines of the score, which add up."""
    lines = [one for one in lines if one]
    rest = lines[lines.index(line(Outage.FORM, tuple(Outage.FORM))) + 1 :]
    rows = list(map(ROW.fullmatch, takewhile(ROW.fullmatch, rest)))
    assert sorted(row[1] for row in rows) == sorted(FAULTS.values())
    score = re.sub(r"\n {10}", " ", "\n".join(rest[len(rows) :])).split("\n")
    found = [re.fullmatch(wanted, one) for wanted, one in zip(SCORE, score, strict=True)]
    assert all(found), score
    assert int(found[1][1]) == sum(int(row[3]) for row in rows)


def test_what_is_drawn_is_escaped_and_coloured():
    """Markup stays text, each word with a colour has its own, and nothing is loaded from elsewhere."""
    svg = terminal("a < b", [" ".join(["<x>", *COLOURS]), "", "$ y"])
    assert drawn(svg) == [" ".join(["<x>", *COLOURS]), "$ y"]
    assert svg.count("<tspan") == len(COLOURS)
    assert re.findall(r"(?:href|src|url)\b", svg) == []
    assert "prefers-color-scheme: dark" in svg
