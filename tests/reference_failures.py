"""What the reference pages print of the rows of failures: the codes of each severity, the classes of each library."""

from __future__ import annotations

import re
from collections.abc import Iterable

from resilient_bridge.errors import Severity
from resilient_bridge.failure import CODES
from tests.internals.failure import Finding, finding

from .reference_layout import table


_CLASSES = re.compile(r"(?<=\n## Classes\n\n).*?(?=\n## )", re.DOTALL)
_ABOUT = (
    "Every class with a row of its own; a subclass is read like the nearest of them. *By what it carries*: a status, a code, a body, an errno or a text of\n"
    "the error decides. *By what is below*: the cause decides, and the class itself only where nothing below it is known.\n"
)


def severities(text: str) -> str:
    """Renew the codes of each severity, the last cell of its row."""
    for severity in Severity:
        listed = sorted(code for code, row in CODES.items() if row.severity is severity)
        codes = (
            "all others" if severity is Severity.ERROR else " ".join(f"`{code}`" for code in listed)
        )
        row = re.compile(rf"^(\| `{severity}` \|.*\|)[^|]*\|$", re.MULTILINE)
        text = row.sub(
            lambda found, codes=codes: f"{found[1]} {codes} |" if codes else f"{found[1]} |", text
        )
    return text


def classes(text: str) -> str:
    """Renew the table of classes."""
    by_rows: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for package in sorted(finding.PACKAGES):
        rows = tuple(sorted(_read_as(package).items()))
        by_rows.setdefault(rows, []).append(package)
    lines: list[tuple[str, str, str]] = []
    for rows, packages in sorted(by_rows.items(), key=lambda item: item[1]):
        names = {
            what: [name for name, each in rows if each == what] for what in dict(rows).values()
        }
        of = ", ".join(f"`{package}`" for package in packages)
        lines += [(of, _listed(names[what]), what) for what in sorted(names)]
    return _CLASSES.sub(
        lambda _: "\n".join((_ABOUT, *table("of | classes | read as", lines))) + "\n", text
    )


def _read_as(package: str) -> dict[str, str]:
    rows = finding.rows_of(package)
    found = {}
    for of, name in {*rows.rules, *rows.wrappers}:
        if of == package:
            rule = rows.rules.get((of, name))
            found[name] = f"`{rule.code}`" if isinstance(rule, Finding) else "by what it carries"
            if (of, name) in rows.wrappers:
                found[name] = "by what is below"
    return found


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
