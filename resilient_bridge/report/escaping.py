"""The only conversion from data to HTML: all text from a log is untrusted. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final

from .lines import safe


_LONG: Final = 24  # characters of a word that may be broken


def esc(text: object) -> str:
    """Return a value as escaped HTML text, with secrets masked once more."""
    return html.escape(f"{text:,}" if isinstance(text, int) else safe(str(text)), quote=True)


def table(ident: str, caption: str, heads: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a caption; "" without rows.

    `heads` are the column heads, separated by ", "; those of columns with numbers begin with #.
    """
    columns = heads.split(", ")
    kinds = ["n" if head.startswith("#") else "" for head in columns]
    body: list[str] = []
    for row in rows:
        cells = [f'<th scope="row"{_kind(row[0])}>{esc(row[0])}</th>']
        cells += [
            f"<td{_kind(value, kind)}>{esc(value)}</td>"
            for value, kind in zip(row[1:], kinds[1:], strict=True)
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    if not body:
        return ""
    top = "".join(
        f'<th scope="col"{_kind("", kind)}>{esc(head.lstrip("#"))}</th>'
        for head, kind in zip(columns, kinds, strict=True)
    )
    return (
        f'<div class="scroll{" two" if len(columns) == 2 else ""}" role="region" tabindex="0" aria-labelledby="{ident}"><table>'
        f'<caption id="{ident}">{esc(caption[:1].upper() + caption[1:])}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _kind(value: object, kind: str = "") -> str:
    """Return the class attribute of a cell.

    Numbers are right-aligned, and only in a cell with a very long word may words be broken.
    """
    is_long = any(len(word) > _LONG for word in str(value).split())
    return ' class="w"' if is_long else f' class="{kind}"' if kind else ""


def section(ident: str, title: str, *parts: str, lead: str = "") -> str:
    """Return a section with a heading; "" if all of its parts are empty."""
    inside = "".join(parts)
    if not inside:
        return ""
    words = f"<p class=lead>{esc(lead)}</p>" if lead else ""
    return f'<section id="{ident}" aria-labelledby="{ident}-h"><h2 id="{ident}-h">{esc(title)}</h2>{words}{inside}</section>'
