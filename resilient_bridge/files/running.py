"""Which process this is, and whether another one still runs: its id alone may be another's by now.

Rule: a process counts as running unless it is known not to. That is known on Linux from /proc, by
the id and the time at which it started, and elsewhere by the id alone; not at all on Windows, nor
of a process of another container, whose ids are others.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process: its id, when it started (0: unknown), and the space in which its id is its own."""

    pid: int
    started: int
    space: int


def this_process() -> Process:
    """Return the process that asks."""
    state = _stat(os.getpid())
    return Process(os.getpid(), 0 if state is None else state[1], _space())


def is_running(process: Process) -> bool:
    """Return False if this process is known to have ended."""
    if process.space != _space() or sys.platform == "win32":
        return True
    if process.started:
        state = _stat(process.pid)
        return state is not None and state[0] not in "ZX" and state[1] == process.started
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


def _stat(pid: int) -> tuple[str, int] | None:
    """Return a process's state and the time at which it started; None without it, or without /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
        fields = text[text.rindex(")") + 2 :].split()  # its name may hold anything
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _space() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 -- no path of ours
    except OSError:
        return 0
