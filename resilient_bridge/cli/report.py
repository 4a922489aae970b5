"""`resilient-bridge report LOG …`: write an incident report from logs. Only this opens files.

Rule: whatever the lines of a log are, the result is a page; a log without lines, or a file that
cannot be read or written, is reported in one line, with exit code 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from .. import __version__
from ..failure import BridgeError
from ..files.file_changes import replace_atomically
from ..report import Incident, as_data, as_text, page, read_line
from ..report.lines import LONGEST, Record
from ..report.summary import headline
from ..world import REAL
from .printing import complain, show, words_of
from .terminal import CLEAR, can_be_cleared, columns, is_coloured


_STDIN: Final = "-"
_SHOW_AFTER: Final = 2.0  # seconds: a longer run shows its progress
_EVERY: Final = 4_096  # lines between two readings of the clock


def run(arguments: argparse.Namespace) -> int:
    """Read the logs and write the page; return 0, or 2 after one line about the problem."""
    names: list[str] = arguments.logs
    out = arguments.out or (None if arguments.json else _page_name(names[0]))
    try:
        wrong = _misuse(names, out)
        if wrong:
            return complain("report", wrong)
        incident = _read(names, arguments.since, arguments.until)
    except OSError as error:
        return complain("report", f"cannot read {error.filename or 'the log'!r}: {words_of(error)}")
    if not sum(source.lines - source.empty for source in incident.sources):
        return complain("report", f"{', '.join(names)}: no line in it")
    if all(source.lines - source.empty == source.damaged.seen for source in incident.sources):
        return complain(
            "report", f"{', '.join(names)}: no line of a log in it (one JSON object with a time)"
        )
    failed = _write(out, incident) if out is not None else 0
    if failed:
        return failed
    if arguments.json:
        return show("report", json.dumps(as_data(incident)))
    width = columns(sys.stdout)
    if arguments.out is None and width is not None:
        # the text is wrapped already
        return show("report", f"{_coloured(incident, width)}\n\n{out}", is_data=True)
    return 0 if out == _STDIN else show("report", str(out), is_data=True)


def _misuse(names: list[str], out: str | None) -> str:
    """Return the problem of the file names; "" if there is none."""
    if names.count(_STDIN) > 1:
        return "stdin (-) can be read once"
    for name in names:
        if (
            name != _STDIN
            and out not in (None, _STDIN)
            and Path(name).resolve() == Path(str(out)).resolve()
        ):
            return f"the page would replace the log {name!r}: say where with --out"
    return ""


def _page_name(log: str) -> str:
    path = Path(log)
    return str(path.with_suffix(".html")) if path.name and log != _STDIN else "report.html"


# ---- reading --------------------------------------------------------------------------------------------------------


def _read(names: list[str], since: float | None, until: float | None) -> Incident:
    """Read all files, the one with the earliest line first."""
    incident, progress = Incident(since=since, until=until), _Progress(names)
    last_parts = [Path(name).name for name in names]
    for name in sorted(dict.fromkeys(names), key=_first_time):
        short = Path(name).name
        incident.source(
            "stdin" if name == _STDIN else short if last_parts.count(short) == 1 else name
        )
        with _opened(name) as file:
            for line in _lines(file):
                incident.take(line)
                progress.add(len(line))
    progress.end()
    incident.finish()
    return incident


def _opened(name: str) -> BinaryIO:
    return sys.stdin.buffer if name == _STDIN else Path(name).open("rb")


def _first_time(name: str) -> float:
    """Return the first time in the first 100 lines of a file, 0 if they have none.

    Stdin and pipes cannot be read twice, and come last.
    """
    if name == _STDIN or Path(name).is_fifo():
        return float("inf")
    with Path(name).open("rb") as file:
        for _, line in zip(range(100), _lines(file), strict=False):
            found = read_line(line)
            if isinstance(found, Record):
                return found.at
    return 0.0


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines, the long ones cut off; hold at most `LONGEST` + 2 bytes of one."""
    while line := file.readline(LONGEST + 2):
        yield line
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST)


class _Progress:
    """The progress on a terminal, for a run longer than two seconds."""

    def __init__(self, names: list[str]) -> None:
        self._began = REAL.monotonic()
        self._size = sum(os.stat(name).st_size for name in names if name != _STDIN)  # noqa: PTH116 -- its error names the file
        self._done = 0
        self._lines = 0
        self._is_drawn = False

    def add(self, size: int) -> None:
        self._done += size
        self._lines += 1
        if self._lines % _EVERY:
            return
        if REAL.monotonic() - self._began > _SHOW_AFTER and can_be_cleared(sys.stderr):
            share = (
                f"{100 * self._done // self._size} %" if self._size else f"{self._done >> 20} MiB"
            )
            self._draw(f"reading: {share}, {self._lines:,} lines")

    def end(self) -> None:
        if self._is_drawn:
            self._draw("")

    def _draw(self, text: str) -> None:
        self._is_drawn = True
        with suppress(OSError, ValueError):
            print(
                f"{CLEAR}{text[: (columns(sys.stderr) or 1) - 1]}",
                end="",
                file=sys.stderr,
                flush=True,
            )


# ---- writing --------------------------------------------------------------------------------------------------------


def _write(out: str, incident: Incident) -> int:
    text = page(incident, version=__version__)
    if out == _STDIN:
        return show("report", text.rstrip("\n"), is_data=True)
    try:
        if not Path(out).absolute().parent.is_dir():
            return complain("report", f"cannot write {out!r}: no such directory")
        # Readable by its owner only, like the log
        replace_atomically(Path(out).absolute(), text.encode("utf-8", "replace"))
    except (BridgeError, ValueError) as error:
        return complain("report", f"cannot write {out!r}: {error}")
    return 0


def _coloured(incident: Incident, width: int) -> str:
    text = as_text(incident, width)
    if not is_coloured(sys.stdout):
        return text
    colour = 31 if headline(incident)[0] else 32
    first, line_break, rest = text.partition("\n")
    return f"\x1b[1;{colour}m{first}\x1b[0m{line_break}{rest}"
