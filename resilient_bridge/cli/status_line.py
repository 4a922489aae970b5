"""A progress line at the end of a terminal, redrawn in place. Without a terminal nothing is drawn.

Rule: it does not mix with other output. Code that prints a line writes `CLEAR` before it, and the
progress line is removed at the end.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

from .terminal import CLEAR, can_be_cleared, columns


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

_EVERY: Final = 0.2  # seconds


class StatusLine:
    """A line that is redrawn every 0.2 s: `with StatusLine(write, text, width):` in a running loop.

    `text` returns the line, `write` prints it, and `width` returns the columns, or None to draw
    nothing.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        text: Callable[[], str],
        width: Callable[[], int | None],
    ) -> None:
        self._write, self._text, self._width = write, text, width
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._width() is not None:
            self._draw()
        return self

    @property
    def is_drawn(self) -> bool:
        """Whether the line is shown now, and has to be cleared before other text is printed."""
        return self._timer is not None and not self._timer.cancelled()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._write(CLEAR)

    def _draw(self) -> None:
        text = self._text()[: (self._width() or 1) - 1]  # a character in the last column may wrap
        self._write(f"{CLEAR}{text}")
        self._timer = asyncio.get_running_loop().call_later(_EVERY, self._draw)


def status_on_stderr(text: Callable[[float], str]) -> StatusLine:
    """Return a progress line on stderr, which is drawn only on a terminal.

    `text` gets the seconds since this call, and returns the line.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    return StatusLine(
        lambda drawn: print(drawn, end="", file=sys.stderr, flush=True),
        lambda: text(loop.time() - began),
        lambda: columns(sys.stderr) if can_be_cleared(sys.stderr) else None,
    )
