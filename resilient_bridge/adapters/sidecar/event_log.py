"""The log of a sidecar: lines for people on stderr, and a file with one JSON object per line.

Rule: neither stops the relay. What cannot be written is dropped and counted; lines for a closed
stderr are not counted. Lines of one kind have a rate, since clients and servers cause them.
"""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any, Final

from ...failure import config_error, redact_lines
from ...files.identity import leads_to
from ...telemetry.line_rate import LINES, PER, LineRate, RatedLines
from ...world import current_world
from ..processes.standard_streams import Output


if TYPE_CHECKING:
    from collections.abc import Mapping


_UNWRITTEN: Final = 256 * 1024  # bytes queued for a stderr that is not read; more is dropped
_LONGEST: Final = 2_000  # characters of a line
_LINE: Final = "line"  # what a server prints
_CALL: Final = "call_finished"
REFUSED: Final = "refused"
"""The event of what a front refused; its record has a `reason`."""


class EventLog:
    """Writes records to the file `path`, and lines to the descriptor `stderr`; None for neither."""

    def __init__(
        self, path: str | None = None, stderr: int | None = 2, *, rate: LineRate | None = None
    ) -> None:
        """Open the file for appending; a new one has mode 600. Raises ConfigError if that fails.

        `rate` bounds the lines of each event; by default 200 a minute.
        """
        self._output = None if stderr is None else Output(stderr, limit=_UNWRITTEN)
        self._file: int | None = None
        self._path: str | None = None
        self._world = current_world()
        self._rated = RatedLines(rate or LineRate(LINES), self._tell_omitted)
        self.dropped = 0  # lines and records that could not be written
        if path is not None:
            try:
                self._file = self._open(path)
            except (OSError, ValueError) as error:
                words = getattr(error, "strerror", None) or str(error)
                raise config_error(
                    "events", f"a file that can be written ({words.lower()})", path
                ) from error

    def _open(self, path: str) -> int:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        # a pipe or a terminal stays what it is
        self._path = path if stat.S_ISREG(os.fstat(file).st_mode) else None
        return file

    def __call__(self, record: Mapping[str, Any], line: str = "") -> None:
        """Write a record to the file, and a line that is not empty to stderr.

        Records of the event "line" are not written to the file. Of each event as many are written
        in a minute as the rate has, then how many were omitted; of each reason of "refused" one.
        Of ended calls every record is written, and only the lines have a rate.
        """
        event: str = record["event"]
        is_refusal = event == REFUSED
        kind = f"{event}: {record['reason']}" if is_refusal else event
        is_admitted = self._rated.admits(kind, most=1 if is_refusal else None)
        if line and is_admitted:
            self.line(line)
        if event != _LINE and (is_admitted or event == _CALL):
            self._record(record)

    def _tell_omitted(self, kind: str, number: int) -> None:
        name, _, reason = kind.partition(": ")
        within = f"within {PER:g} s"
        if name == REFUSED:
            self.line(f"refused {number} times more {within}: {reason}")
        else:
            what = "of the server's output" if name == _LINE else f"of {name}"
            self.line(f"{number} more lines {what} were omitted {within}")
        self._record({"event": "omitted", "of": kind, "count": number})

    def _record(self, record: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._write({"at": round(self._world.wall(), 6), **record})

    def line(self, text: str) -> None:
        """Write text to stderr, each of its lines with a prefix; secrets are masked."""
        if self._output is None or self._output.is_broken:
            return
        if self._output.is_full:
            self.dropped += 1
            return
        for one in redact_lines(text, limit=_LONGEST).splitlines():
            self._output.put(f"resilient-bridge mcp: {one}")

    def _write(self, record: Mapping[str, Any]) -> None:
        data = json.dumps(record, separators=(",", ":"), default=str).encode() + b"\n"
        try:
            self._follow()
            if self._file is None or os.write(self._file, data) != len(data):
                self.dropped += 1
        except OSError:
            self.dropped += 1

    def _follow(self) -> None:
        """Open the file again if it was removed, moved or replaced. Raises OSError."""
        path, file = self._path, self._file
        if path is not None and file is not None and not leads_to(path, file, follows=True):
            self._file = self._open(path)
            os.close(file)

    async def close(self) -> None:
        """Report how much was omitted or dropped, write queued lines for a second at most, and close the file.

        May be called again.
        """
        self._rated.close()
        if self.dropped:
            dropped, self.dropped = self.dropped, 0
            self.line(f"{dropped} lines or records could not be written")
        if self._output is not None:
            await self._output.aclose(1.0)
        if self._file is not None:
            os.close(self._file)
            self._file = None
