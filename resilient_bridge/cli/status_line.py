"""A progress line at the end of a terminal, redrawn in place. Elsewhere nothing is drawn.

Rule: it never disturbs other output. Code that prints a line writes `CLEAR` before it, and the
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
    """`with StatusLine(write, text, width):` in a running loop; with `width` None nothing is drawn."""

    def __init__(
        self, write: Callable[[str], object], text: Callable[[], str], width: Callable[[], int | None]
    ) -> None:
        self._write, self._text, self._width = write, text, width
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._width() is not None:
            self._draw()
        return self

    @property
    def is_drawn(self) -> bool:
        """Whether it is shown now, and has to be cleared before printing."""
        return self._timer is not None and not self._timer.cancelled()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._write(CLEAR)

    def _draw(self) -> None:
        text = self._text()[: (self._width() or 1) - 1]  # the last column would begin a new line
        self._write(f"{CLEAR}{text}")
        self._timer = asyncio.get_running_loop().call_later(_EVERY, self._draw)


def status_on_stderr(text: Callable[[float], str]) -> StatusLine:
    """Return a line for the terminal of stderr while work is in progress.

    `text` makes it for the seconds since now.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    return StatusLine(
        lambda drawn: print(drawn, end="", file=sys.stderr, flush=True),
        lambda: text(loop.time() - began),
        lambda: columns(sys.stderr) if can_be_cleared(sys.stderr) else None,
    )
