"""`classify` says of every case what it said: golden.json, made by golden.py from the list golden_rows.json."""

from __future__ import annotations

import json
import sys

import pytest

from tests.failure.golden import GOLDEN, everything


@pytest.mark.skipif(sys.platform != "linux", reason="the file has the errnos of Linux")
def test_every_case_is_read_as_before():
    """A difference is meant, or it is a fault: the file changes in a commit of its own, whose message says why."""
    stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
    found = json.loads(json.dumps(everything()))
    different = {
        row: (stored.get(row), found.get(row))
        for row in {**stored, **found}
        if stored.get(row) != found.get(row)
    }
    assert different == {}
