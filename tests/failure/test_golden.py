"""`classify` says of every case what it said: golden.json, made by golden.py from the list golden_rows.json."""

from __future__ import annotations

import json
import sys

import pytest

from resilient_bridge.failure import CODES
from tests.failure.golden import GOLDEN, ROWS, everything


def test_every_code_has_a_case():
    """A new code is a row `{"id": "code …", "kind": "code", "code": …}` of golden_rows.json; golden.json is renewed after it."""
    rows = json.loads(ROWS.read_text(encoding="utf-8"))
    named = [row["code"] for row in rows if row["kind"] == "code"]
    assert sorted(set(CODES) - set(named)) == []
    assert sorted(set(named) - set(CODES)) == []


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
