"""The pages of docs/strategies are built alike, and what their tables say is what the package does."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import get_args

import attrs

import resilient_bridge as rb
from resilient_bridge.failure import Stopped
from resilient_bridge.lazy_names import found
from tests.internals.calls import GUARDS, harmful, plan
from tests.pages import CALLS_OF_THE_DEFAULT, COUNTING, ROOT, STRATEGIES, counted
from tests.rows import each_row
from tests.strategies import LAYERS, needed, page_of


PAGES = Path(__file__).parents[1] / "docs/strategies"
NAMES = sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "index")
ANATOMY = ["Usage", "Defaults", "Telemetry", "Diagram", "Patterns", "Anti-patterns"]

PLACES = [kind(*needed(kind)) for kind in LAYERS]


def _section(name: str, head: str) -> str:
    return (PAGES / f"{name}.md").read_text().partition(f"\n## {head}\n")[2].partition("\n## ")[0]


def _cells(text: str) -> list[list[str]]:
    """The rows of the tables in a text, without their heads."""
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in text.splitlines()
        if line[:1] == "|"
    ]
    return [[cell.strip(" |") for cell in row] for row in rows if row[0].startswith("`")]


@each_row("name", [name for name in NAMES if name != "composition"])
def test_every_page_has_the_same_anatomy(name):
    """What it does first, then usage, defaults, telemetry, a diagram, patterns, anti-patterns."""
    text = (PAGES / f"{name}.md").read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ANATOMY
    assert len(text.partition("\n## ")[0].split()) > 20
    assert "```mermaid" in text or "```text" in text
    assert _section(name, "Patterns").count("**") >= 2
    assert _section(name, "Anti-patterns").count("\n- ") >= 2


def test_every_layer_has_a_page():
    """Every class that a Policy is made of, and what a Retry is given."""
    about = {page_of(kind): kind.__name__ for kind in (*LAYERS, rb.RetryBudget, rb.Backoff)}
    pages = {name: (PAGES / f"{name}.md").read_text() for name in NAMES if name != "composition"}
    assert {name: re.search(r"`(\w+)`", text)[1] for name, text in pages.items()} == about


def test_every_layer_is_a_public_name_and_has_a_guard():
    """What repeats or replaces the call has none: it is the loop around the others (`plan`)."""
    assert [kind for kind in LAYERS if found(kind.__name__) is not kind] == []
    loops = [kind.__name__ for kind in LAYERS if kind not in GUARDS]
    assert "Retry" in loops
    assert [name for name in loops if name not in vars(plan)] == []


def test_the_value_of_every_layer_decides_without_the_world():
    """Its module is in the contract of imports that pyproject.toml has."""
    contracts = tomllib.loads((PAGES.parents[1] / "pyproject.toml").read_text())
    listed = contracts["tool"]["importlinter"]["contracts"]
    (pure,) = (each["source_modules"] for each in listed if each["id"] == "purity")
    assert [
        kind.__module__
        for kind in LAYERS
        if not any(fnmatchcase(kind.__module__, each) for each in pure)
    ] == []


@each_row("name", STRATEGIES)
def test_the_table_of_defaults_is_complete(name):
    """One row a field, in their order; their defaults are renewed with the other pages."""
    rows = [row[0].strip("`") for row in _cells(_section(name, "Defaults")) if len(row) == 3]
    fields = [field.name for field in attrs.fields(type(STRATEGIES[name]()))]
    assert [field for field in rows if field in fields] == fields


def test_the_reasons_to_stop_are_all_there():
    """Every value of `failure.stopped` has its row on the page of Retry."""
    known = set(get_args(getattr(Stopped, "__value__", Stopped)))
    assert known == {
        row[0].strip("`") for row in _cells(_section("retry", "Defaults")) if len(row) == 2
    }


@each_row("name", NAMES)
def test_the_events_of_a_page_exist(name):
    """What a table of telemetry names is an event."""
    rows = _cells(_section(name, "Telemetry"))
    for row in rows:
        for event in re.findall(r"`(\w+)`", row[0]):
            assert issubclass(getattr(rb.events, event), rb.events.Event)


def test_the_order_of_the_index_is_the_usual_one():
    """The table lists the layers outermost first: as `replace` adds them, and without a warning."""
    listed = re.findall(r"^\| \[(\w+)\]", (PAGES / "index.md").read_text(), re.MULTILINE)
    assert listed == [type(layer).__name__ for layer in PLACES]
    places = [layer.usual_position for layer in PLACES]
    assert places == sorted(places)
    assert harmful(tuple(PLACES)) == ()
    added = rb.Policy(rb.Retry()).replace(
        *(layer for layer in PLACES if not isinstance(layer, rb.Retry))
    )
    assert [type(layer) for layer in added.layers] == [type(layer) for layer in PLACES]


@each_row("sentence", CALLS_OF_THE_DEFAULT)
def test_c05_every_text_that_counts_the_calls_of_the_default_counts_right(sentence):
    """Beside the tables of defaults: sentences of the pages, and the docstring of `rb.resilient`, which are printed."""
    texts = {path: path.read_text("utf-8") for path in (ROOT / name for name in COUNTING)}
    fitting = [path for path, text in texts.items() if re.search(sentence, text)]
    assert fitting, "reword the row of CALLS_OF_THE_DEFAULT with its sentence"
    assert [path.name for path in fitting if counted(texts[path]) != texts[path]] == []


def test_c06_every_page_has_the_level_of_a_retry_as_it_is_logged():
    """A short wait is info, so that no recovery stands there without its retries."""
    rows = [
        (page.name, line)
        for page in PAGES.glob("*.md")
        for line in page.read_text("utf-8").splitlines()
        if line.startswith("| `RetryScheduled` |")
    ]
    assert len(rows) == 2
    assert not [row for row in rows if "over 1 s, else info" not in row[1]]
