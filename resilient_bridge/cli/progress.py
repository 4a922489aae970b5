"""How far a workflow is, on a terminal: one line that is drawn again and again. Anywhere else nothing is drawn: the log has the events."""

from __future__ import annotations

import asyncio
import shutil
import time
from typing import TYPE_CHECKING, Final, TextIO

from ..telemetry import events, listen


if TYPE_CHECKING:
    from typing import Self

__all__ = ["Progress"]

_WIDTH: Final = 24
_EVERY: Final = 0.2  # seconds
_CLEAR: Final = "\r\x1b[K"
_Step = events.PhaseStarted | events.PhaseCompleted | events.PhaseSkipped


class Progress:
    """`with Progress(sys.stderr):` in a running loop: a bar while phases begin and end, gone at the end."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_shown = out.isatty()
        self._done = self._total = 0
        self._phase = ""
        self._began = 0.0
        self._listening = listen(self._heard)
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._is_shown:
            self._began = time.monotonic()
            self._listening.__enter__()
            self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._listening.__exit__(None, None, None)
            if self._timer is not None:
                self._timer.cancel()
            self._write(_CLEAR)

    def _heard(self, event: events.Event) -> None:
        if isinstance(event, events.WorkflowStarted):
            self._done, self._total = event.completed, event.total
        elif isinstance(event, _Step):
            self._phase = event.phase if isinstance(event, events.PhaseStarted) else ""
            self._done = event.number - isinstance(event, events.PhaseStarted)
            self._total = event.total
            self._began = time.monotonic()

    def _draw(self) -> None:
        self._write(
            f"{_CLEAR}{self.line(time.monotonic() - self._began, shutil.get_terminal_size().columns)}"
        )
        self._timer = asyncio.get_running_loop().call_later(_EVERY, self._draw)

    def line(self, seconds: float, columns: int) -> str:
        """The line: a bar, how many phases are finished, the one under way and its seconds."""
        full = _WIDTH * self._done // self._total if self._total else 0
        bar = "#" * full + "-" * (_WIDTH - full)
        return f"[{bar}] {self._done}/{self._total} {self._phase} {seconds:.0f} s"[: max(columns - 1, 0)]

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):  # nobody looks any more
            self._is_shown = False
