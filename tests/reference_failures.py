"""What the reference pages print of the rows of failures: the codes of each severity, the classes of each library."""

from __future__ import annotations

import re
from collections.abc import Iterable

import httpx

from resilient_bridge.errors import Severity
from resilient_bridge.failure import CODES, Category, Failure, classify
from tests.internals.failure import Finding, dispatch

from .reference_layout import table


_CLASSES = re.compile(r"(?<=\n## Classes\n\n).*?(?=\n## )", re.DOTALL)
_ABOUT = (
    "Every class with a row of its own; a subclass is read like the nearest of them. *By what it carries*: a status, a code, a body, an errno or a text of\n"
    "the error decides. *By what is below*: the cause decides, and the class itself only where nothing below it is known.\n"
)
_BODIES = re.compile(r"(?<=\n)\| the body says, .*?\n(?=\n)", re.DOTALL)
_ANSWERS: tuple[tuple[str, int, str, str], ...] = (
    (
        "the money, the budget, the plan, the month or the day is used up",
        429,
        "insufficient_quota",
        "",
    ),
    ("the context is too long", 400, "context_length_exceeded", ""),
    ("this one request is larger than a whole minute allows", 429, "", "Request too large for m"),
    ("this request is larger than the server takes, under 413", 413, "", ""),
    ("there is no such model", 404, "model_not_found", ""),
    ("its content was refused", 400, "content_policy_violation", ""),
    ("the key is wrong (under 400, 401 or 403)", 401, "invalid_api_key", ""),
    ("the token has expired", 401, "", "The token has expired"),
    (
        "a rate is used up, under 400 (AWS, Linear), 403 (GitHub), 503 or 200 (Slack)",
        400,
        "rate_limit_exceeded",
        "",
    ),
    ("the server lacks memory, under 500", 500, "", "out of memory"),
)
"""What a body says, in our words, and an answer that says it: its status, name and words."""


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
    for package in sorted(dispatch.PACKAGES):
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


def understood(text: str) -> str:
    """Renew the two tables of the page: of classes, and of what a body says."""
    lines = [(what, *_read(status, name, words)) for what, status, name, words in _ANSWERS]
    head = 'the body says, in the words of whichever provider | read as | `details["reason"]`'
    return _BODIES.sub(lambda _: "\n".join(table(head, lines)) + "\n", classes(text))


def _read(status: int, name: str, words: str) -> tuple[str, str]:
    """Return what `classify` makes of such an answer: its code, with how often it is repeated, and its reason."""
    failure = classify(httpx.Response(status, json={"error": {"code": name, "message": words}}))
    assert isinstance(failure, Failure)
    is_final = failure.category is Category.UPSTREAM and not failure.retryable
    often = ", repeated once" if failure.details.get("max_retries") == 1 else ""
    reason = failure.details.get("reason")
    return (
        f"`{failure.code}`{', never repeated' if is_final else often}",
        f"`{reason}`" if reason else "",
    )


def _read_as(package: str) -> dict[str, str]:
    rows = dispatch.rows_of(package)
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
