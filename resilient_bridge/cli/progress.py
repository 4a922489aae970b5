"""The progress of a workflow on a terminal: one line that is redrawn.

On what cannot redraw a line nothing is drawn; the log has the events.
"""

from __future__ import annotations

import unicodedata
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final, TextIO

from .. import events
from ..failure import redact
from ..telemetry import listen
from ..telemetry.hub import muted
from ..world import REAL
from .status_line import StatusLine
from .terminal import can_be_cleared, columns


if TYPE_CHECKING:
    from typing import Self


_WIDTH: Final = 24
_COLUMNS: Final = 80  # for a terminal of unknown width


class Progress(StatusLine):
    """A progress bar of a workflow's phases, removed at the end.

    Use it in a running loop: `with Progress(sys.stderr):`.
    """

    def __init__(self, out: TextIO | None) -> None:
        super().__init__(self._put, self._now, lambda: columns(self._out))
        self._out = out if can_be_cleared(out) else None
        self._done = self._total = 0
        self._phase = ""
        self._began = 0.0
        self._listening = ExitStack()

    def __enter__(self) -> Self:
        if self._out is not None:
            self._began = REAL.monotonic()
            self._listening.enter_context(listen(self._heard))
            self._listening.enter_context(muted())  # log lines would break the bar
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        super().__exit__()

    def _heard(self, event: events.Event) -> None:
        if isinstance(event, events.WorkflowChanged) and event.status == "running":
            self._done, self._total = event.completed, event.total
        elif isinstance(event, events.PhaseChanged) and event.status != "undone":
            is_started = event.status == "started"
            self._phase = redact(event.phase) if is_started else ""
            self._done = event.number - is_started
            self._total = event.total
            self._began = REAL.monotonic()

    def _now(self) -> str:
        return self.line(REAL.monotonic() - self._began, columns(self._out) or _COLUMNS)

    def line(self, seconds: float, width: int) -> str:
        """Return the line: a bar, how many phases are finished, the current one and its seconds."""
        full = _WIDTH * self._done // self._total if self._total else 0
        bar = "#" * full + "-" * (_WIDTH - full)
        return _cut(f"[{bar}] {self._done}/{self._total} {self._phase} {seconds:.0f} s", width - 1)

    def _put(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal is closed
            print(text, end="", file=self._out, flush=True)


def _cut(text: str, columns: int) -> str:
    """Return as much of the text as fits; wide East Asian characters take two columns."""
    for index, one in enumerate(text):
        columns -= 2 if unicodedata.east_asian_width(one) in "WF" else 1
        if columns < 0:
            return text[:index]
    return text
