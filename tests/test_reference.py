"""The generated pages of the reference are what the package says of itself, and they say it completely."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge import failure
from tests.internals.protocol import LossAction

from .reference import ABOUT_PREFIX, ACTIONS, STATES, closes, records, statuses
from .reference_presets import ABOUT, PRESETS
from .reference_wire import TYPES, frames


REFERENCE = Path(__file__).parents[1] / "docs/reference"


def test_every_preset_has_a_page():
    """And no other has."""
    assert set(ABOUT) == set(rb.presets.__all__) - {"BridgePolicy"}
    assert {path.stem for path in PRESETS.iterdir()} == set(ABOUT)


def test_every_type_of_a_captured_frame_is_explained():
    """The table of types on the page of the wire has each that the client or the bridge sent of its own accord."""
    sent = {
        (sender, re.search('"type":"(\\w+)"', text)[1])
        for scene in frames().values()
        for sender, text in scene
    }
    ours = {("client", "tool_result"), ("client", "git_status_request")}
    theirs = {("bridge", "git_status_response"), ("bridge", "claude_event")}
    assert sent - ours - theirs <= {(sender, kind.strip("`")) for sender, kind, _about in TYPES}


def test_every_state_is_explained():
    """Each state has its words, in the order of the enum."""
    assert list(STATES) == [state.name for state in rb.bridge.BridgeState]


def test_every_outcome_of_a_loss_is_explained():
    """Each action of the core has its words."""
    assert set(ACTIONS) == set(LossAction)


@pytest.mark.parametrize(
    ("code", "action"),
    [(1000, "reconnect"), (1008, "refresh"), (4404, "new_session"), (4409, "fail"), (1002, "fail")],
)
def test_the_table_of_close_codes_asks_the_core(code, action):
    """Five close codes, one of each sort, stand where the design has them."""
    assert closes()[code] == action


@pytest.mark.parametrize(
    ("status", "action"),
    [(503, "reconnect"), (429, "reconnect"), (401, "refresh"), (501, "fail"), (404, "fail")],
)
def test_the_table_of_statuses_asks_the_core(status, action):
    """Five statuses, one of each sort, stand where the design has them."""
    assert statuses()[status] == action


def test_every_code_has_a_row():
    """Each of the seven prefixes has its section, and each code exactly one row."""
    page = (REFERENCE / "errors.md").read_text()
    assert set(ABOUT_PREFIX) == set(failure.PREFIXES)
    assert [code for code in failure.CODES if page.count(f"| `{code}` |") != 1] == []


def test_the_exceptions_on_the_page_are_public():
    """What a code is raised as can be caught as `rb.NAME` or `rb.errors.NAME`."""
    raised = {type(failure.error_for(failure.Failure.of(code))).__name__ for code in failure.CODES}
    assert raised <= {*rb.errors.__all__, *rb.__all__}


def test_every_event_has_a_row_with_all_its_fields():
    """Each public event, and each of its fields, is on the page."""
    page = (REFERENCE / "events.md").read_text()
    classes = {name for name in rb.events.__all__ if inspect.isclass(getattr(rb.events, name))}
    assert {record.__name__ for record in records()} == classes - {
        "Event",
        "BridgeState",
        "Verdict",
    }
    for record in records():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{record.__name__}` |")]
        assert [
            name
            for name in record._defaults
            if name not in ("at", "bridge") and f"`{name}: " not in row
        ] == []
