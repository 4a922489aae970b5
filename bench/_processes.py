"""Processes as /proc shows them, for benchmarks and tests: who is below whom, and how much memory each holds. Linux only."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def _stat(pid: int) -> tuple[int, str] | None:
    """A process's parent and state."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(fields[1]), fields[0]


def processes() -> dict[int, tuple[int, str]]:
    """Each process's parent and state."""
    numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return {number: stat for number in numbers if (stat := _stat(number)) is not None}


def tree_of(pid: int) -> list[int]:
    """The living processes below one, nearest first."""
    parents = processes()
    found, at = [pid], 0
    while at < len(found):
        found += [
            child
            for child, (parent, state) in parents.items()
            if parent == found[at] and state != "Z"
        ]
        at += 1
    return found[1:]


def resident(pid: int) -> int:
    """The memory of a process, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def until(condition: Callable[[], object], seconds: float = 20.0, what: str = "it") -> None:
    """Wait for a condition, in steps of 10 ms; AssertionError if it never holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.01)
