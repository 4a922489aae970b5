"""The one way from data to HTML: everything from a log is hostile text. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final

from .lines import safe


_LONG: Final = 24
NUMBER: Final = "n"
"""A column of numbers."""


def esc(text: object) -> str:
    """Return text for HTML, secrets masked once more."""
    return html.escape(safe(str(text)), quote=True)


def table(
    ident: str,
    caption: str,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[object]],
    note: str = "",
) -> str:
    """Return a table with a caption and scopes; "" without rows. `columns` are heads, with NUMBER for numbers or "" for text."""
    body: list[str] = []
    for row in rows:
        cells = [f'<th scope="row"{_kind(row[0])}>{esc(row[0])}</th>']
        cells += [
            f"<td{_kind(value, kind)}>{esc(value)}</td>"
            for value, (_, kind) in zip(row[1:], columns[1:], strict=True)
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    if not body:
        return ""
    heads = "".join(
        f'<th scope="col"{f" class={kind}" if kind else ""}>{esc(head)}</th>' for head, kind in columns
    )
    foot = f"<p class=note>{esc(note)}</p>" if note else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{ident}"><table><caption id="{ident}">{esc(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table></div>{foot}"
    )


def _kind(value: object, kind: str = "") -> str:
    """The class of a cell: numbers stand right, and only what has a very long word may be broken inside of it."""
    is_long = any(len(word) > _LONG for word in str(value).split())
    return ' class="w"' if is_long else f' class="{kind}"' if kind else ""


def section(ident: str, title: str, *parts: str, lead: str = "") -> str:
    """Return a section with a heading; "" if none of its parts has anything."""
    inside = "".join(parts)
    if not inside:
        return ""
    words = f"<p class=lead>{esc(lead)}</p>" if lead else ""
    return f'<section id="{ident}" aria-labelledby="{ident}-h"><h2 id="{ident}-h">{esc(title)}</h2>{words}{inside}</section>'
