"""A child and its descendants as one process group: how it is started, asked to end, and killed.

Rule: only this module knows what a group is. POSIX: the child leads a session and its process
group, and signals go to that group. Windows: a process group gets Ctrl-Break, then `taskkill` ends
the tree below the child; a grandchild whose parent has ended is not in that tree, and survives.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final


if sys.platform == "win32":
    import ctypes

    OWN_GROUP: Final[dict[str, Any]] = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    """Arguments of Popen for a process group of its own: it can be ended as a whole, and Ctrl-C
    reaches only us.
    """
    _SECONDS: Final = 5.0  # the time limit of `taskkill`

    def _taskkill() -> str:
        """Return the path of the system's `taskkill`, not the first match in a PATH that another
        user may have set.
        """
        return str(Path(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe"))

    def ask_to_end(leader: int) -> None:
        """Send Ctrl-Break to the process group of a child that is not reaped yet.

        A program without a handler for it ends; one without a console does not receive it. It does
        not use `os.kill`, which ends the child at once and raises SystemError where this process
        has no console.
        """
        ctypes.windll.kernel32.GenerateConsoleCtrlEvent(int(signal.CTRL_BREAK_EVENT), leader)

    def take_away(leader: int) -> None:
        """Kill a child that is not reaped yet, and its process tree.

        It waits for `taskkill`, which takes some tenths of a second.
        """
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(  # noqa: S603 -- a program of the system, and a number
                (_taskkill(), "/T", "/F", "/PID", str(leader)),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        with suppress(OSError):  # without `taskkill`, or if it refused
            os.kill(leader, signal.SIGTERM)  # TerminateProcess on Windows

else:
    OWN_GROUP: Final[dict[str, Any]] = {"start_new_session": True}
    """Arguments of Popen: a group of its own, so that it can be ended as one, and Ctrl-C is for us alone."""

    def ask_to_end(leader: int) -> None:
        """Send SIGTERM to the process group of a child that is not reaped yet."""
        with suppress(OSError):  # it has just ended
            os.killpg(leader, signal.SIGTERM)

    def take_away(leader: int) -> None:
        """Send SIGKILL to the process group of a child that is not reaped yet."""
        with suppress(OSError):
            os.killpg(leader, signal.SIGKILL)
