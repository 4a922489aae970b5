"""Processes and what they hold open, on every system that tests run on. Rule: by `os.name`, which the stand-in for Windows leaves alone."""

from __future__ import annotations

import os
import signal
from pathlib import Path


KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""What ends a process whatever it does: on Windows `os.kill` does so with any signal."""
_SYNCHRONIZE = 0x0010_0000


def is_alive(pid: int) -> bool:
    """Whether a process is there; a zombie, which nobody reaped, is."""
    if os.name == "nt":
        import ctypes

        kernel = ctypes.windll.kernel32
        handle = kernel.OpenProcess(_SYNCHRONIZE, False, pid)
        runs = bool(handle) and kernel.WaitForSingleObject(handle, 0) != 0
        kernel.CloseHandle(handle)
        return runs
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_running(pid: int) -> bool:
    """Whether a process is there and is no zombie; only where there is a /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


def is_reaped(pid: int) -> bool:
    """Whether it is no child of ours any more."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def open_files() -> int:
    """How many descriptors this process has; 0 on Windows, where nobody can say.

    Those of /dev/null are not counted: uvloop opens it with the first child of a loop, and closes it with the loop.
    """
    if os.name == "nt":
        return 0
    return sum(os.path.realpath(one) != os.devnull for one in Path("/proc/self/fd").iterdir())
