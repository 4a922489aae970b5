"""Two versions of the database that are not there yet, each with a real change, for the tests of those to come.

Version 2 has a column more, and a table more; version 3 a column less. What the code of today reads is in all of them but version 2, so
that of version 3 every answer of a store can be held against version 1.
"""

from __future__ import annotations

from tests.internals.stores import LAYOUTS, Layout


FIRST = LAYOUTS[1]
WITH_LANE = FIRST.tables | {"outbox": (*FIRST.tables["outbox"], "lane")}
NOTES = {"notes": ("seq", "body")}


def with_lanes(rows):
    """Each send gets a lane, by its type; each lane is noted."""
    lanes = sorted({row[3] for row in rows["outbox"]})
    notes = list(enumerate(lanes, 1))
    return rows | {
        "outbox": [(*row, f"lane of {row[3]}") for row in rows["outbox"]],
        "notes": notes,
    }


def without_lanes(rows):
    """The lanes are only in the notes."""
    notes = [(row[0], row[-1]) for row in rows["outbox"]]
    return rows | {"outbox": [row[:-1] for row in rows["outbox"]], "notes": notes}


VERSIONS = {
    2: Layout(WITH_LANE | NOTES, FIRST.keys, with_lanes),
    3: Layout(FIRST.tables | NOTES, FIRST.keys, without_lanes),
}


def put_in_force(monkeypatch, *numbers):
    """From here on these are known, too."""
    for number in numbers:
        monkeypatch.setitem(LAYOUTS, number, VERSIONS[number])
