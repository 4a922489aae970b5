"""The width of terminal output, and how text is wrapped to fit it.

Rule: output for programs is never changed. Text for a terminal is wrapped to the width in COLUMNS,
or the terminal's. In a pipe lines are not wrapped, so that each message is one line.
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
_UNKNOWN: Final = 80  # columns of a terminal that does not say how many it has


def is_terminal(out: TextIO | None) -> bool:
    """Return whether `out` is a terminal. It may be closed, and is None without a console."""
    try:
        return out is not None and out.isatty()
    except ValueError:
        return False


def columns(out: TextIO | None) -> int | None:
    """Return the columns of a terminal: those in COLUMNS, or its own; None if it is no terminal."""
    if out is None or not is_terminal(out):
        return None
    if (width := wanted_columns()) is not None:
        return width
    with suppress(OSError, ValueError):
        return max(os.get_terminal_size(out.fileno()).columns or _UNKNOWN, _NARROWEST)
    return _UNKNOWN


def wanted_columns() -> int | None:
    """Return the width in the variable COLUMNS, 20 at least; None if that is no positive number."""
    with suppress(ValueError):
        width = int(os.environ.get("COLUMNS", ""))
        if width > 0:
            return max(width, _NARROWEST)
    return None


def can_be_cleared(out: TextIO | None) -> bool:
    """Return whether a line can be redrawn: on a terminal, unless TERM=dumb."""
    return is_terminal(out) and os.environ.get("TERM") != "dumb"


def is_coloured(out: TextIO | None) -> bool:
    """Return whether to use colour: on terminals, unless NO_COLOR or TERM=dumb is set."""
    return can_be_cleared(out) and not os.environ.get("NO_COLOR")


def fitted(text: str, width: int | None, *, hanging: int | None = None) -> str:
    """Return the text in lines of at most `width`: tables lose blanks, the rest is wrapped.

    Continuation lines are indented by `hanging`, or by two more than their line. With `width` None
    the text is unchanged.
    """
    if width is None:
        return text
    blocks = re.split(r"(\n[ ]*\n)", text)
    blocks[::2] = [
        "\n".join(_fitted_lines(block.split("\n"), width, hanging)) for block in blocks[::2]
    ]
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
    """Remove columns that are blank in all lines, as many as needed, but keep one between two."""
    at = max(map(len, lines)) - 1
    while at > 0 and max(map(len, lines)) > width:
        if all(line[at - 1 : at + 1].strip() == "" for line in lines):
            lines = [line[:at] + line[at + 1 :] for line in lines]
        at -= 1
    return lines
