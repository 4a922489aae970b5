"""What docs/reference/comparison.md says already of rows that are not measured again, for comparison.py."""

from __future__ import annotations

import re
from collections.abc import Iterable


def lines(page: str, start: str, titles: Iterable[str]) -> dict[str, str]:
    """Return the page's lines about these rows, by title: of the table if `start` is "| ", of what others do better if it is "- "."""
    return {
        title: line
        for title in titles
        for line in page.splitlines()
        if line.startswith((f"{start}{title} |", f"{start}{title}: "))
    }


def runs(page: str) -> list[str]:
    """Return the page's lines that say when and where rows were measured."""
    return re.findall(r"^Measured on .*$", page, re.MULTILINE)


def absent(page: str, head: str, titles: dict[str, str]) -> list[str]:
    """Return which of these rows, title by name, the page has no line of; all if its table has another head."""
    shown = lines(page, "| ", titles.values()) if head in page else {}
    return [name for name, title in titles.items() if title not in shown]
