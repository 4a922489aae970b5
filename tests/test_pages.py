"""Everything in docs/ that the package prints is what the package prints today: `python -m tests.pages` renews it."""

from __future__ import annotations

import re

import pytest

from bench import _comparison_page as comparison

from .pages import (
    EVIDENCE,
    PAGES,
    ROOT,
    RUNS,
    STRATEGIES,
    commands,
    defaults,
    main,
    printed,
    with_rows,
)


@pytest.mark.requirement("X11")
@pytest.mark.parametrize("name", PAGES)
def test_the_file_is_what_the_package_prints(name):
    """A new code that always comes with a status, or is no loss, belongs in NO_LOSS_BY_ITSELF of tests/reference.py first."""
    before, now = printed(name)
    assert before == now, "`python -m tests.pages` renews it"


def test_a_default_that_has_changed_is_renewed_where_it_stands():
    """The cell of the default, and nothing else; so the pages of strategies say what their values say."""
    text = (ROOT / "docs/strategies/retry.md").read_text()
    old = re.sub(r"(?m)^\| `attempts` \| `\d+` \|", "| `attempts` | `99` |", text, count=1)
    assert old != text
    assert defaults(old, STRATEGIES["retry"]) == text


@pytest.mark.parametrize("name", ["look-at-a-schedule", "explain-an-error"])
def test_what_a_command_prints_is_renewed(name):
    """Below each line that calls one."""
    text = (ROOT / f"docs/how-to/{name}.md").read_text()
    calls, old = re.subn(r"\n```\n\n```text\n", r"\g<0>another line\n", text)[::-1]
    assert calls >= 2
    assert commands(old) == text


@pytest.mark.parametrize("name", [name for name in RUNS if name not in {"demo", "comparison"}])
def test_the_rows_of_a_run_stand_in_their_table(name):
    """Below the heading of that name, with the head that the page has; the rest of the page stays."""
    text = EVIDENCE.read_text()
    output = "| a | b |\n|---|---|\n| first | 1 |\n| second | 2 |\n\n3 calls\n"
    now = with_rows(text, name, output)
    assert re.search(
        rf"^##? {name}\n(?:(?!\n#).)*?\n\|(---\|)+\n\| first \| 1 \|\n\| second \| 2 \|\n\n",
        now,
        re.MULTILINE | re.DOTALL,
    )
    assert set(now.splitlines()) - set(text.splitlines()) == {"| first | 1 |", "| second | 2 |"}
    assert with_rows(now, name, "| first | 1 |\n| second | 2 |\n") == now


def test_a_row_of_the_comparison_that_is_not_measured_again_stays_as_it_was():
    """Its line of the table, what another does better in it, and when that was measured; a row or a head that the page has not is named."""
    head, old = "| | ours | other |\n|---|---|---|", "Measured on 2026-01-01 with a 1; 2 cores."
    rows = ["| lost | **0** | 1 |", "| µs (a / b) | 2 | **1** |", "| µs | 5 | — |"]
    better = "- µs (a / b): other 1; ours 2."
    text = "\n".join([head, *rows, "", old, "", "- **lost**: by hand.", "", better])
    titles = {"lost": "lost", "cost": "µs (a / b)"}
    assert comparison.lines(text, "| ", titles.values()) == dict(
        zip(titles.values(), rows[:2], strict=True)
    )
    assert comparison.lines(text, "- ", titles.values()) == {"µs (a / b)": better}
    assert comparison.runs(text) == [old]
    assert comparison.absent(text, head, titles) == []
    assert comparison.absent(text, head, {**titles, "new": "new row"}) == ["new"]
    assert comparison.absent(text, "| | ours |\n|---|---|", titles) == ["lost", "cost"]


def test_check_names_what_is_to_be_renewed(monkeypatch, capsys):
    """It writes nothing, and fails; words choose the files."""
    monkeypatch.setitem(PAGES, "docs/reference/metrics.md", lambda _: "changed")
    before = (ROOT / "docs/reference/metrics.md").read_text()
    assert main("--check", "metrics") == 1
    assert main("--check", "docs/presets") == 0
    assert capsys.readouterr().out == "docs/reference/metrics.md\n"
    assert (ROOT / "docs/reference/metrics.md").read_text() == before
