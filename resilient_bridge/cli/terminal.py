"""How wide a text may be, and how it is made to fit; the line that says how far something is.

Rule: what programs read is never changed. A text is broken for a terminal, as wide as COLUMNS says, or as it is; in a pipe it stays in one
piece, so that one line is one statement.
"""

from __future__ import annotations

import os
import re
import textwrap
from contextlib import suppress
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

CLEAR: Final = "\r\x1b[K"
_NARROWEST: Final = 20


def is_terminal(out: TextIO | None) -> bool:
    """Whether somebody looks at it. `out` is None where there is no console, and may be closed."""
    try:
        return out is not None and out.isatty()
    except ValueError:
        return False


def columns(out: TextIO | None) -> int | None:
    """How many columns a terminal has: what COLUMNS says, or it itself; None for what is no terminal."""
    if out is None or not is_terminal(out):
        return None
    if (width := wanted_columns()) is not None:
        return width
    with suppress(OSError, ValueError):
        return max(os.get_terminal_size(out.fileno()).columns, _NARROWEST)
    return 80


def wanted_columns() -> int | None:
    """What COLUMNS says, 20 at least; None if it says nothing."""
    with suppress(ValueError):
        width = int(os.environ.get("COLUMNS", ""))
        if width > 0:
            return max(width, _NARROWEST)
    return None


def can_be_cleared(out: TextIO | None) -> bool:
    """Whether a line can be drawn again: on a terminal that is not dumb."""
    return is_terminal(out) and os.environ.get("TERM") != "dumb"


def is_coloured(out: TextIO | None) -> bool:
    """Colour is for terminals, and not where NO_COLOR or TERM=dumb is set."""
    return can_be_cleared(out) and not os.environ.get("NO_COLOR")


def fitted(text: str, width: int | None, *, hanging: int | None = None) -> str:
    """Return the text in lines of at most `width`: tables lose blanks, the rest is broken between words; None leaves it as it is.

    What goes on in a next line is indented by `hanging`, or two more than its line.
    """
    if width is None:
        return text
    blocks = re.split(r"(\n[ ]*\n)", text)
    blocks[::2] = ["\n".join(_fitted_lines(block.split("\n"), width, hanging)) for block in blocks[::2]]
    return "".join(blocks)


def _fitted_lines(lines: list[str], width: int, hanging: int | None) -> Iterator[str]:
    if hanging is None and len(lines) > 1:
        lines = _squeezed(lines, width)
    for line in lines:
        if len(line) <= width:
            yield line
            continue
        indent = len(line) - len(line.lstrip(" ")) + 2 if hanging is None else hanging
        yield from textwrap.wrap(
            line,
            width,
            subsequent_indent=" " * min(indent, width // 2),
            drop_whitespace=True,
            break_on_hyphens=False,
        )


def _squeezed(lines: list[str], width: int) -> list[str]:
    """Take out columns that are blank in every line, as many as are too many; one stays between two others."""
    at = max(map(len, lines)) - 1
    while at > 0 and max(map(len, lines)) > width:
        if all(line[at - 1 : at + 1].strip() == "" for line in lines):
            lines = [line[:at] + line[at + 1 :] for line in lines]
        at -= 1
    return lines
