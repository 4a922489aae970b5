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


def open_files() -> int:
    """How many descriptors this process has; 0 on Windows, where nobody can say."""
    return 0 if os.name == "nt" else len(list(Path("/proc/self/fd").iterdir()))
